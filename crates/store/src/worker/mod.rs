//! A thread's access to a table.

mod apply;
mod ask;
mod attempt;
mod flush;
mod poll;
mod prefetch;
mod queue;
mod readers;
mod spill;
mod uploads;
mod volatile;
mod wait;

use std::collections::BTreeSet;

use base::sync::{Arc, Mutex, MutexGuard, lock};
use cache::ConfigError;
use log::{keys::Keys, plan::Buffer};

pub use self::volatile::{Volatile, VolatileWorker};
use self::{readers::Readers, uploads::Uploads};
use crate::{
    Answer, Answered, Asked, Command, Error, Large, Notice,
    held::Envelope,
    limits::{TURNS_MAX, VALUE_KEPT_BYTES},
    queued::Queued,
    reads::Reads,
    store::Shared,
};

/// What a worker has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Gets that memory has answered without waiting: with a value, or that it has expired.
    pub hits: u64,
    /// Looks at a record that the log had in memory, and memory not, or not any more.
    pub hits_log: u64,
    /// Gets and other commands that a record which was read has answered, each of them.
    pub hits_disk: u64,
    /// Records that were put into memory after a read, or from what the log has in memory.
    pub fills: u64,
    /// Records that were not: the key was written or moved meanwhile, or memory had no room.
    pub fills_refused: u64,
    /// Reads that were begun.
    pub reads: u64,
    /// Commands that have waited for a read which another one had begun.
    pub reads_shared: u64,
    /// Reads that failed, or found damage.
    pub reads_failed: u64,
    /// Answers that waited for the flush of what they saw.
    pub waits: u64,
    /// Times that commands of a key had to wait for room in the log, or for a rewrite.
    pub stalled: u64,
    /// Times that a command was refused because too much waits, each try of it.
    pub busy: u64,
    /// Of a table that spills: records that were written because memory has had no room for them.
    pub spills: u64,
    /// Those that the ring had already.
    pub spills_clean: u64,
    /// Those that were not admitted, as nobody has read them.
    pub spills_unseen: u64,
    /// Those that the ring could not take. They are lost.
    pub spills_refused: u64,
    /// Sets that found no memory when the ring's record of their key was gone already.
    pub spills_failed: u64,
    /// Looks that have found a record while it waited to be written.
    pub hits_of_waiting: u64,
}

/// A thread's access to a table. Every thread makes its own.
///
/// It is online in the cache: [`Worker::quiesce`] between commands, [`Worker::offline`] around
/// whatever blocks.
#[derive(Debug)]
pub struct Worker<K, C: Command> {
    shared: Arc<Shared<K, C>>,
    own: Own<C::Verdict>,
}

/// What no other thread has.
#[derive(Debug)]
struct Own<V> {
    number: usize,
    cache: cache::Worker,
    reads: Reads,
    /// Answers that need no inbox.
    ready: Vec<Envelope<V>>,
    /// What of its own a hit would overtake.
    queued: Queued,
    wakes: BTreeSet<usize>,
    figures: Figures,
    /// The value of the record at hand.
    value: Vec<u8>,
    /// Where its parts are, if it lies in parts.
    large: Option<Large>,
    uploads: Uploads,
    readers: Readers,
    /// What came of uploads and readers.
    notices: Vec<Notice>,
    /// A value that is put together.
    joined: Vec<u8>,
    /// It has asked the log something, or told it.
    is_stirred: bool,
    /// Bytes that there is room for of what is shown from now on in memory of its own.
    shown_room: usize,
    /// Turns of moves that it may take before it is the turn of what else its thread has to do.
    turns_left: u32,
    /// None was left, and there was more to be moved.
    goes_on: bool,
    /// Key and value of a record that is written because memory has no room.
    spilled: (Vec<u8>, Vec<u8>),
    /// Flushes of memory that had begun before the last look at a key.
    flushes: u64,
    /// What is stored is made of what that has found; whether it counts as read.
    builds_on: Option<bool>,
}

impl<K: Keys, C: Command> Worker<K, C> {
    pub(crate) fn new(shared: Arc<Shared<K, C>>, number: usize) -> Result<Self, ConfigError> {
        let cache = match shared.spill {
            None => shared.cache.worker()?.hasty(),
            Some(_) => shared.cache.worker()?,
        };
        let queued = shared.inboxes[number].take_queued();
        Ok(Self { own: Own::new(number, cache, queued), shared })
    }

    /// Gives it a buffer of [`READ_BYTES_KEPT`](crate::limits::READ_BYTES_KEPT) bytes to read into.
    /// Those that it lacks it makes: this is for who has some that can be read into at less cost.
    pub fn lend(&mut self, buffer: Buffer) {
        self.own.reads.shelf().give_back(buffer);
    }

    /// How many bytes there is room for of what is shown from now on in memory of its own, which
    /// comes from the disk or by a command, together with what waits: of values that are longer
    /// than [`READ_BYTES_KEPT`](crate::limits::READ_BYTES_KEPT). Who asks for one that has no room
    /// hears [`Got::Busy`](crate::Got::Busy), or [`Asked::Busy`], and nothing
    /// has happened.
    pub fn limit_shown(&mut self, bytes: usize) {
        self.own.shown_room = bytes;
    }

    /// What it has counted.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.own.figures
    }

    /// Announces that this thread is between two commands, and takes the time anew.
    pub fn quiesce(&mut self) {
        self.own.cache.quiesce();
    }

    /// Runs what blocks while no other thread waits for this one.
    pub fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        self.own.cache.offline(blocking)
    }

    /// Says that this thread holds nothing until [`Worker::resume_at`], which comes before anything
    /// else: for a thread with several tables, of which it uses one at a time.
    pub fn rest(&mut self) {
        self.own.cache.rest();
    }

    /// Ends a rest, at a time that was just read off the cache's clock.
    pub fn resume_at(&mut self, now_ms: u64) {
        self.own.cache.resume_at(now_ms);
    }

    /// Makes everything dead that the table has. Of what is asked at the same time some may be
    /// there afterwards, and some not: a caller that is to be shown nothing older waits for the
    /// answer. `caller` is under which number that comes. Of a durable table it is durable by then.
    /// A table that recovers what it has spilled cannot be flushed ([`Error::NoFlush`]).
    pub fn flush(&mut self, caller: u64) -> Asked<C::Verdict> {
        let Self { shared, own } = self;
        match shared.spill {
            None => own.flush_durable(shared, caller),
            Some(spill) if spill.recovers => Asked::Now(Answer::Failed(Error::NoFlush)),
            Some(_) => {
                own.flush_spilled(shared);
                Asked::Now(Answer::Flushed)
            }
        }
    }

    /// Appends the answers to what this worker was asked.
    pub fn take_answers(&mut self, into: &mut Vec<Answered<C::Verdict>>) {
        let own = &mut self.own;
        let inbox = &self.shared.inboxes[own.number];
        own.ready.append(&mut inbox.take());
        inbox.end(own.ready.len(), own.ready.iter().map(|it| it.bytes).sum());
        own.ready.iter().filter_map(|it| it.lock).for_each(|lock| own.queued.remove(lock));
        into.extend(own.ready.drain(..).map(|it| it.answered));
    }

    /// Room that it keeps for values.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.own.value.capacity() + self.own.joined.capacity()
    }

    /// Which other workers have got answers from this one, and are to be woken.
    pub fn take_wakes(&mut self) -> impl Iterator<Item = usize> + use<K, C> {
        std::mem::take(&mut self.own.wakes).into_iter()
    }
}

impl<K, C: Command> Drop for Worker<K, C> {
    fn drop(&mut self) {
        self.own.end_uploads(&self.shared);
        self.own.end_readers(&self.shared);
        let Own { number, ready, queued, .. } = &mut self.own;
        self.shared.inboxes[*number].leave(std::mem::take(ready), std::mem::take(queued));
    }
}

impl<V> Own<V> {
    fn new(number: usize, cache: cache::Worker, queued: Queued) -> Self {
        Self {
            number,
            cache,
            reads: Reads::new(number),
            ready: Vec::new(),
            queued,
            wakes: BTreeSet::new(),
            figures: Figures::default(),
            value: Vec::new(),
            large: None,
            uploads: Uploads::default(),
            readers: Readers::default(),
            notices: Vec::new(),
            joined: Vec::new(),
            is_stirred: false,
            shown_room: usize::MAX,
            turns_left: TURNS_MAX,
            goes_on: false,
            spilled: Default::default(),
            flushes: 0,
            builds_on: None,
        }
    }
}

impl<V: Send> Own<V> {
    /// Gives back what was needed for the records at hand: the segments that the parts of a large
    /// value lie in, and memory for long ones. At the end of whatever looks at records.
    fn let_go(&mut self) {
        self.large = None;
        for kept in [&mut self.value, &mut self.joined] {
            if kept.capacity() > VALUE_KEPT_BYTES {
                *kept = Vec::new();
            }
        }
    }

    /// Takes a key's lock. Who has to wait for it is offline meanwhile: its holder may wait for
    /// memory that is free when all threads have been quiescent.
    fn lock<'s, T>(&mut self, mutex: &'s Mutex<T>) -> MutexGuard<'s, T> {
        match mutex.try_lock() {
            Ok(guard) => guard,
            Err(_) => self.cache.offline(|| lock(mutex)),
        }
    }
}
