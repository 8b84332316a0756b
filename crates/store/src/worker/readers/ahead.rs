//! Large values whose clients cannot take them yet.

use log::keys::Keys;

use super::{
    super::{Own, Worker},
    Leaving,
};
use crate::{
    Command, Large, ReaderId,
    limits::{AHEAD_MAX, LARGE_MAX},
    store::Shared,
};

impl<K: Keys, C: Command> Worker<K, C> {
    /// Reads the first parts of a value that its client cannot take yet: what comes before it is
    /// being sent. `None` when memory is short, or when there are many readers. It ends, with
    /// [`crate::Error::Slow`], when somebody waits for memory: of another worker within a second.
    pub fn read_ahead(&mut self, large: &Large, caller: u64) -> Option<ReaderId> {
        let Self { shared, own } = self;
        let now_ms = own.cache.now_ms();
        let first = large.0.parts().min(AHEAD_MAX);
        let bytes: usize = (0..first).map(|part| large.0.read_bytes(part)).sum();
        if own.readers.all.len() >= LARGE_MAX / 2 {
            return None;
        }
        let number = shared.leaving.take_spare(bytes, large.bytes(), now_ms)?;
        own.is_stirred = true;
        let mut leaving = Leaving { is_ahead: true, ..Leaving::new(large, caller, now_ms) };
        for part in 0..first {
            leaving.read_part(number, large.0.read_bytes(part), &mut own.reads, shared);
        }
        own.readers.all.insert(number, leaving);
        Some(ReaderId(number))
    }

    /// From now on its client may take what was read ahead: all before it is gone. `false` when it
    /// has ended.
    pub fn begin_taking(&mut self, reader: ReaderId) -> bool {
        let Self { shared, own } = self;
        let now_ms = own.cache.now_ms();
        let Some(leaving) = own.readers.all.get_mut(&reader.0) else { return false };
        own.is_stirred = true;
        own.reads.want(reader.0);
        shared.leaving.use_spare(reader.0, leaving.held);
        leaving.is_ahead = false;
        if !base::mutant!("store_taken_from_the_read") {
            (leaving.last_ms, leaving.taken_ms) = (now_ms, now_ms);
        }
        if leaving.is_callers() {
            leaving.pace.begin(now_ms);
        }
        true
    }
}

impl<V: Send> Own<V> {
    /// What is read ahead ends, for others to have the memory.
    pub(super) fn end_ahead<K, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        let ahead = self.readers.all.iter().filter(|(_, it)| it.is_ahead);
        let ahead: Vec<_> = ahead.map(|(number, it)| (*number, it.caller)).collect();
        ahead.into_iter().for_each(|(number, caller)| self.end_slow(shared, number, caller));
    }
}
