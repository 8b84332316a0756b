//! What the threads of a table share.

use std::ops::Range;

use base::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    lock,
};
use cache::{Cache, ConfigError};
use log::{
    engine::{Engine, Mode},
    keys::Keys,
    plan::Disk,
};

use crate::{
    Command, Error, Worker,
    budget::Budget,
    held::{Core, Envelope},
    limits::{KEY_LOCKS, LARGE_BYTES, PENDING_BYTES_MAX, PENDING_MAX},
    pending::Place,
    queued::Queued,
    spill::{Admission, Spill},
    unflushed::Unflushed,
};

/// The lock of the keys whose hash names it, on a line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct KeyLock<C>(pub(crate) Mutex<Place<C>>);

/// What a worker has asked and has no answer to, and answers from whoever found them.
#[derive(Debug)]
pub(crate) struct Inbox<V> {
    answers: Mutex<Vec<Envelope<V>>>,
    /// What the last worker has left of what waits in order.
    queued: Mutex<Queued>,
    /// Commands whose answers the worker has not taken, and the bytes that they hold. Those who
    /// find answers count the values as well.
    pending: AtomicUsize,
    pending_bytes: AtomicUsize,
    /// How many may be.
    pending_max: AtomicUsize,
    /// A worker of this number lives.
    is_taken: AtomicBool,
}

impl<V> Inbox<V> {
    fn new() -> Self {
        let (pending, pending_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let is_taken = AtomicBool::new(false);
        let queued = Mutex::new(Queued::default());
        let pending_max = AtomicUsize::new(PENDING_MAX);
        let answers = Mutex::new(Vec::new());
        Self { answers, queued, pending, pending_bytes, pending_max, is_taken }
    }

    /// Takes it for a worker, unless another one has it.
    fn enter(&self) -> bool {
        !self.is_taken.swap(true, Ordering::AcqRel)
    }

    /// The worker is there no more. What it has not taken is the next one's, as it is counted.
    pub(crate) fn leave(&self, ready: Vec<Envelope<V>>, queued: Queued) {
        drop(lock(&self.answers).splice(0..0, ready));
        *lock(&self.queued) = queued;
        self.free();
    }

    /// A worker may take it.
    fn free(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    /// What waits in order of the worker that was there before. By the next one, once.
    pub(crate) fn take_queued(&self) -> Queued {
        std::mem::take(&mut *lock(&self.queued))
    }

    fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// Whether nothing more may wait that holds so many bytes. Alone, it may hold more.
    pub(crate) fn is_full(&self, bytes: usize) -> bool {
        let pending = self.pending.load(Ordering::Relaxed);
        let all_bytes = self.pending_bytes.load(Ordering::Relaxed) + bytes;
        pending >= self.pending_max.load(Ordering::Relaxed)
            || pending > 0 && all_bytes > PENDING_BYTES_MAX
    }

    /// Bytes that what waits holds.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// Something waits from now on. By the worker only, as [`Inbox::is_full`].
    pub(crate) fn begin(&self, bytes: usize) {
        self.pending.fetch_add(1, Ordering::Relaxed);
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What holds so many bytes is answered. Says how many it holds with the answer's value.
    pub(crate) fn answered(&self, bytes: usize, value_bytes: usize) -> usize {
        let all = bytes.max(value_bytes);
        self.pending_bytes.fetch_add(all - bytes, Ordering::Relaxed);
        all
    }

    /// The worker takes answers that hold so many bytes.
    pub(crate) fn end(&self, answers: usize, bytes: usize) {
        self.pending.fetch_sub(answers, Ordering::Relaxed);
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn put(&self, envelope: Envelope<V>) {
        lock(&self.answers).push(envelope);
    }

    pub(crate) fn take(&self) -> Vec<Envelope<V>> {
        std::mem::take(&mut *lock(&self.answers))
    }
}

/// All there is of a table but its workers.
///
/// Lock order: a key's lock -> the engine's; a key's lock -> locks of the cache. Leaves: inboxes.
/// No lock is held across I/O, nor the engine's across a call of the cache, but for a look at what
/// was evicted, whose lock is a leaf.
#[derive(Debug)]
pub(crate) struct Shared<K, C: Command> {
    pub(crate) cache: Cache,
    /// Longest value of a record.
    pub(crate) value_bytes_max: usize,
    /// Set where memory has what is newest, and not the log.
    pub(crate) spill: Option<Spill>,
    /// The ring may have something.
    pub(crate) has_spilled: AtomicBool,
    pub(crate) unflushed: Unflushed,
    /// Keys whose commands wait for room or for a rewrite, those that are tried just now included.
    pub(crate) stalled: AtomicUsize,
    locks: Box<[KeyLock<C>]>,
    core: Mutex<Core<K, C::Verdict>>,
    pub(crate) inboxes: Box<[Inbox<C::Verdict>]>,
    /// Memory for parts that arrive, and for parts that leave.
    pub(crate) arriving: Budget,
    pub(crate) leaving: Budget,
}

impl<K: Keys, C: Command> Shared<K, C> {
    pub(crate) fn core(&self) -> MutexGuard<'_, Core<K, C::Verdict>> {
        lock(&self.core)
    }

    /// Keys whose commands wait for room or for a rewrite.
    pub(crate) fn stalled(&self) -> usize {
        self.stalled.load(Ordering::Acquire)
    }

    /// The lock of a key.
    pub(crate) fn lock_of(&self, hash: u64) -> usize {
        hash as usize % KEY_LOCKS
    }

    pub(crate) fn key_lock(&self, at: usize) -> &Mutex<Place<C>> {
        &self.locks[at].0
    }
}

/// A table. A durable one: the log is the truth, memory has copies. One that spills: memory is the
/// truth, and the log has what memory has had no room for.
#[derive(Debug)]
pub struct Store<K, C: Command> {
    pub(crate) shared: Arc<Shared<K, C>>,
}

impl<K, C: Command> Clone for Store<K, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Keys, C: Command> Store<K, C> {
    /// A durable table over an open log, with an empty cache that nobody flushes. `workers` is how
    /// many there will be.
    #[must_use]
    pub fn new(engine: Engine<K>, cache: Cache, workers: usize) -> Self {
        let value_bytes_max = engine.manifest().shape.part_bytes as usize;
        Self::of(engine, cache, workers, None, value_bytes_max)
    }

    /// A table that spills into a ring, with an empty cache that has
    /// [`cache::CacheConfig::victim_bytes`] and that nobody else flushes.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] when a ring that does not recover has records, whatever ended before,
    /// and [`Error::Damaged`] when in one that does damage was found.
    ///
    /// # Panics
    /// When the log is no ring.
    pub fn spilling(
        engine: Engine<K>,
        cache: Cache,
        workers: usize,
        admission: Admission,
    ) -> Result<Self, Error> {
        let spill = Spill::of(&engine, admission);
        if !spill.recovers && engine.has_records() {
            return Err(Error::NotEmpty);
        }
        if spill.recovers && !engine.is_whole() {
            return Err(Error::Damaged);
        }
        // A token of an earlier run must not be given anew.
        cache.continue_after(engine.run_begins());
        cache.limit_victims(spill.value_bytes_max);
        let value_bytes_max = cache.value_size_max();
        Ok(Self::of(engine, cache, workers, Some(spill), value_bytes_max))
    }

    fn of(
        engine: Engine<K>,
        cache: Cache,
        workers: usize,
        spill: Option<Spill>,
        value_bytes_max: usize,
    ) -> Self {
        let shared = Shared {
            cache,
            value_bytes_max,
            spill,
            has_spilled: AtomicBool::new(spill.is_some_and(|spill| spill.recovers)),
            unflushed: Unflushed::new(),
            stalled: AtomicUsize::new(0),
            locks: (0..KEY_LOCKS).map(|_| KeyLock(Mutex::new(Place::default()))).collect(),
            core: Mutex::new(Core::new(engine)),
            inboxes: (0..workers).map(|_| Inbox::new()).collect(),
            arriving: Budget::new(LARGE_BYTES),
            leaving: Budget::new(LARGE_BYTES),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A thread's access, under the number that others wake it by.
    ///
    /// Before one is dropped it polls until it has nothing to hand out, everything that it has
    /// handed out is performed and reported, and those are woken whom it names: commands of others
    /// wait for its reads, and would for ever. What waits for the log ([`Store::waiting`]) any
    /// worker polls for. Answers that it has not taken are those of the next worker of its number.
    ///
    /// # Errors
    /// [`ConfigError::TooManyWorkers`].
    ///
    /// # Panics
    /// When `number` is not below the `workers` that the table was made for, or is that of one that
    /// has not been dropped.
    pub fn worker(&self, number: usize) -> Result<Worker<K, C>, ConfigError> {
        let inbox = self.shared.inboxes.get(number).expect("a worker has its number");
        assert!(inbox.enter(), "a number is one worker's at a time");
        Worker::new(Arc::clone(&self.shared), number).inspect_err(|_| inbox.free())
    }

    /// Stops the log in order: everything is flushed, and the next open is quick. When all workers
    /// are dropped, as [`Store::worker`] says.
    ///
    /// # Errors
    /// When not all that was taken is durable, or the index could not be saved.
    ///
    /// # Panics
    /// When there is a worker, or something is not reported that one has handed out.
    pub fn close(&self, disk: &mut dyn Disk) -> Result<(), log::error::Error> {
        let is_left = self.shared.inboxes.iter().any(Inbox::is_taken);
        assert!(!is_left, "a log is stopped when no worker is left");
        let now_ms = self.shared.cache.clock().now_ms();
        self.shared.core().engine.close(disk, now_ms)
    }

    /// Looks at the log, or asks something of it that no command is about. Under its lock: nothing
    /// may be waited for.
    pub fn with_log<R>(&self, ask: impl FnOnce(&mut Engine<K>) -> R) -> R {
        ask(&mut self.shared.core().engine)
    }

    /// How many commands of each worker may wait, [`PENDING_MAX`] at most and unless told
    /// otherwise.
    pub fn limit_pending(&self, commands: usize) {
        let max = commands.min(PENDING_MAX);
        let inboxes = self.shared.inboxes.iter();
        inboxes.for_each(|inbox| inbox.pending_max.store(max, Ordering::Relaxed));
    }

    /// How many bytes of parts of large values may be in memory, those that arrive and those that
    /// leave each, with what tells where the latter lie; the oldest of either may have one part in
    /// any case.
    pub fn set_large_bytes(&self, bytes: usize) {
        self.shared.arriving.set_max(bytes);
        self.shared.leaving.set_max(bytes);
    }

    /// Bytes of parts that are in memory: those that arrive, and those that leave.
    #[must_use]
    pub fn large_bytes(&self) -> (usize, usize) {
        (self.shared.arriving.bytes(), self.shared.leaving.bytes())
    }

    /// Whether no large value arrives or leaves, and none is read ahead.
    #[cfg(test)]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.shared.arriving.is_at_rest() && self.shared.leaving.is_at_rest()
    }

    /// Large values that arrive, and that leave.
    #[must_use]
    pub fn large_values(&self) -> (usize, usize) {
        (self.shared.arriving.there(), self.shared.leaving.there())
    }

    /// Changes when writes are answered. To `Safe`: confirmed when a drain that begins now is done.
    /// Says which workers are to be woken: they may have answers, and what is not flushed may be
    /// due at once.
    #[must_use]
    pub fn set_mode(&self, mode: Mode) -> Range<usize> {
        let given = self.shared.core().set_mode(&self.shared.unflushed, mode);
        given.into_iter().for_each(|it| self.shared.inboxes[it.worker].put(it));
        0..self.shared.inboxes.len()
    }

    /// Answers that wait for the log, and keys that do.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        (self.shared.core().held(), self.shared.stalled())
    }
}
