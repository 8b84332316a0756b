//! A flush: everything that the table has is dead from then on.
//!
//! Of a durable table the log is emptied first, and memory is told by whoever has heard of that.
//! Invariants:
//! 1. Between the two nobody is shown what the log has, nor changes anything: else one key would be
//!    gone, and another one still be there.
//! 2. Whoever stores something in memory, or changes what he has found, has noted how many flushes
//!    there were before he looked. What is stored is of then, so dead if there was another; a
//!    change is begun anew.

use log::keys::Keys;

use super::Own;
use crate::{
    Answer, Answered, Asked, Command,
    held::{Core, Envelope},
    store::Shared,
};

impl<V: Send> Own<V> {
    /// Has the log be emptied, and memory.
    pub(super) fn flush_durable<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        caller: u64,
    ) -> Asked<V> {
        if self.is_full(shared, 0) {
            if base::mutant!("store_busy_has_flushed") {
                drop(shared.core().engine.wipe());
            }
            return Asked::Busy;
        }
        self.is_stirred = true;
        let mut core = shared.core();
        let is_needless = core.engine.is_wiped() && !core.is_ahead_of_memory();
        if is_needless && !base::mutant!("store_flushes_all_wipe") {
            return Asked::Now(Answer::Flushed);
        }
        let wipe = match core.engine.wipe() {
            Ok(wipe) => wipe,
            Err(error) => return Asked::Now(Answer::Failed(error.into())),
        };
        shared.inboxes[self.number].begin(0);
        let answered = Answered { caller, answer: Answer::Flushed };
        core.wait_for_wipe(wipe, Envelope { worker: self.number, bytes: 0, lock: None, answered });
        Asked::Later
    }

    /// The log has been emptied: memory is, too, and who waits for that is answered.
    pub(super) fn tell_memory<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        wiped: Vec<Envelope<V>>,
    ) {
        if base::mutant!("store_flush_told_in_between") {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        if !base::mutant!("store_flush_leaves_memory") {
            self.cache.flush_with_source();
        }
        shared.core().end_telling();
        wiped.into_iter().for_each(|envelope| self.send(shared, envelope));
    }

    /// Whether what was found at the last look may be of before a flush.
    pub(super) fn is_overtaken<K: Keys>(&self, core: &Core<K, V>) -> bool {
        core.is_ahead_of_memory()
            || self.flushes != self.cache.flushes() && !base::mutant!("store_built_on_what_is_dead")
    }

    /// Of a table that spills: makes the ring dead, and memory.
    pub(super) fn flush_spilled<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
    ) {
        // First the ring, to which nothing comes until the rest is done: whoever looks for a key
        // and does not see this, has asked how many flushes there were before the next one began.
        let begin = |core: &mut Core<K, V>| {
            if !base::mutant!("store_spill_unflushed") {
                core.dead_below = core.engine.next_sequence();
            }
        };
        let is_late = base::mutant!("store_flush_marked_late");
        let mut core = shared.core();
        core.flushing += 1;
        if !is_late {
            begin(&mut core);
        }
        drop(core);
        if base::mutant!("store_spilled_while_flushing") {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        // Then memory, and with it what waits to be written.
        self.cache.flush();
        let mut core = shared.core();
        core.flushing -= 1;
        if is_late {
            drop(core);
            std::thread::sleep(std::time::Duration::from_micros(200));
            begin(&mut shared.core());
        }
    }
}
