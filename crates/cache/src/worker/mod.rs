//! A cache and the threads that use it.

mod build;
#[cfg(test)]
mod checks;
mod draft;
mod maintain;
mod prefetch;
mod read;
mod room;
mod take_out;
mod update;
mod victims;
mod view;
mod write;

pub use take_out::{TakeOut, Taken};
pub use view::View;

use std::cell::Cell;

use base::{clock::Clock, sync::Arc};

use self::room::{HASTY_WAITS_MAX, SlotNeed, WAITS_MAX};
use crate::{
    CacheConfig, ConfigError, Dead, Evicted, Key, Meta, StoreError, Upload,
    geometry::INLINE_VALUE_MAX_BYTES, stats::Stats, subtable::Turn, table::Table,
};

/// A cache. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Cache {
    table: Arc<Table>,
}

/// A thread's access to a cache. Every thread makes its own.
///
/// While it is online, other threads wait for it before they reuse some memory: call
/// [`Worker::quiesce`] between commands and [`Worker::offline`] around anything that blocks.
#[derive(Debug)]
pub struct Worker {
    cache: Cache,
    place: usize,
    now_ms: u64,
    /// It has been away since the time was taken.
    has_been_away: bool,
    /// Why a read missed a record that was there.
    dead: Cell<Option<Dead>>,
    /// For values that are put together: the present one and what comes to it.
    scratch: Box<[u8]>,
    slot_need: SlotNeed,
    turn: Turn,
    /// Times that it waits for memory.
    waits_max: usize,
    /// How the record that it stores now was looked at before.
    as_of: Option<victims::AsOf>,
}

impl Cache {
    /// Builds an empty cache.
    ///
    /// # Errors
    /// [`ConfigError`] when the configuration cannot work or memory cannot be reserved.
    pub fn new(config: CacheConfig, clock: Clock) -> Result<Self, ConfigError> {
        Ok(Self { table: Arc::new(Table::new(config, clock)?) })
    }

    /// Registers the calling thread.
    ///
    /// # Errors
    /// [`ConfigError::TooManyWorkers`].
    pub fn worker(&self) -> Result<Worker, ConfigError> {
        let qsbr = &self.table.memory.qsbr;
        let max = crate::qsbr::PLACES_MAX;
        let place = qsbr.register().ok_or(ConfigError::TooManyWorkers { max })?;
        qsbr.online(place);
        Ok(Worker {
            cache: self.clone(),
            place,
            now_ms: self.table.clock.now_ms(),
            has_been_away: false,
            dead: Cell::new(None),
            scratch: vec![0; INLINE_VALUE_MAX_BYTES].into(),
            slot_need: SlotNeed::default(),
            turn: Turn::new(place),
            waits_max: WAITS_MAX,
            as_of: None,
        })
    }

    /// Longest value in bytes.
    #[must_use]
    pub fn value_size_max(&self) -> usize {
        usize::try_from(self.table.config.value_size_max).expect("invariant: at most 1 GiB")
    }

    /// The cache's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.table.clock
    }

    /// Numbers for `stats`.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.table)
    }

    /// Changes [`CacheConfig::memory_bytes`]. What is above it now is there at once; less is
    /// reached by [`Worker::fit`], step by step, by evicting.
    ///
    /// # Errors
    /// [`ConfigError`] when the cache could not have been built so, or not with what was reserved
    /// for it ([`CacheConfig::memory_max_bytes`]). Then nothing has changed.
    pub fn set_memory(&self, memory_bytes: u64) -> Result<(), ConfigError> {
        self.table.set_memory(memory_bytes)
    }

    /// Begins to note what is evicted, for [`Self::take_evicted`], or stops.
    pub fn follow_evictions(&self, on: bool) {
        self.table.memory.evicted.follow(on);
    }

    /// What was evicted since the last call, and how many more records than could be noted.
    #[must_use]
    pub fn take_evicted(&self) -> (Vec<Evicted>, u64) {
        self.table.memory.evicted.take()
    }

    /// Lets fresh tokens be greater than `token`.
    pub fn continue_after(&self, token: u64) {
        self.table.continue_after(token);
    }

    /// The greatest fresh token so far; 0 for none.
    #[must_use]
    pub fn last_token(&self) -> u64 {
        self.table.last_sequence()
    }

    /// When a flush that [`Cache::flush_at`] asked for is due, on the cache's clock; 0 if none
    /// waits.
    #[must_use]
    pub fn flush_due_ms(&self) -> u64 {
        self.table.flush_due_ms()
    }

    /// Makes every record dead that was stored before `at_ms` (on the cache's clock) when that time
    /// has come and a worker is quiescent. A second call, or [`Worker::flush`], replaces one that
    /// waits.
    pub fn flush_at(&self, at_ms: u64) {
        self.table.flush_at(at_ms);
    }
}

impl Worker {
    /// The cache this worker belongs to.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.cache.table
    }

    /// Hardly waits for memory from now on: for a thread that has the record elsewhere, and holds
    /// what others wait for while it stores a copy.
    #[must_use]
    pub fn hasty(mut self) -> Self {
        self.waits_max = HASTY_WAITS_MAX;
        self
    }

    /// Announces that this thread holds nothing but pins, and takes the time anew. To be called
    /// between the commands of a burst, and at least once a second while online.
    #[inline]
    pub fn quiesce(&mut self) {
        self.quiesce_at(self.cache.table.clock.now_ms());
    }

    /// The same for a caller that has just read the time off the cache's clock. The worker's own
    /// time does not go back when the caller's is from before a [`Self::quiesce`].
    #[inline]
    pub fn quiesce_at(&mut self, now_ms: u64) {
        let table = &self.cache.table;
        table.memory.qsbr.quiesce(self.place);
        self.now_ms = self.now_ms.max(now_ms);
        self.has_been_away = false;
        table.note_time(now_ms);
        if table.take_due_flush(now_ms) {
            self.begin_generation();
        }
    }

    /// Runs `blocking` while no other thread waits for this one.
    pub fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        let result = self.away(blocking);
        self.quiesce();
        result
    }

    /// The same for a caller that calls [`Self::quiesce_at`] before its next command: until then
    /// the time is what it was before, and in a debug build [`Self::key`] panics.
    pub fn away<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        self.has_been_away = true;
        self.table().memory.qsbr.offline(self.place);
        let result = blocking();
        self.table().memory.qsbr.online(self.place);
        result
    }

    /// Says that this thread holds nothing until [`Self::resume_at`], which comes before the next
    /// command: for a thread with workers of several caches, of which it uses one at a time.
    pub fn rest(&mut self) {
        self.has_been_away = true;
        self.table().memory.qsbr.offline(self.place);
    }

    /// Ends a rest, at a time that the caller has just read off the cache's clock.
    pub fn resume_at(&mut self, now_ms: u64) {
        self.table().memory.qsbr.online(self.place);
        self.quiesce_at(now_ms);
    }

    /// The time that expiry is judged by, in milliseconds; see [`Self::quiesce`].
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Milliseconds since a record with these fields was stored, as [`View::age_ms`] has them.
    #[must_use]
    pub fn age_ms(&self, meta: &Meta) -> u64 {
        self.table().age_ms(meta.token, self.now_ms)
    }

    /// Hashes a key. A key longer than [`crate::KEY_LEN_MAX`] is found nowhere and stored nowhere.
    #[must_use]
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        debug_assert!(!self.has_been_away, "the time is to be taken before the next command");
        let memory = &self.table().memory;
        let hash = memory.hasher.hash(bytes);
        Key::new(bytes, hash, memory.index.candidates(hash))
    }

    /// Another cache's key leads to lines that are something else here.
    #[inline]
    fn check_owner(&self, key: &Key<'_>) {
        let index = &self.table().memory.index;
        assert!(index.owns(key.candidates), "a key is used with the cache that made it");
    }

    /// Whether the lines that a key carries are still those of the index. A key may have been kept
    /// while this thread was quiescent: then they may be something else by now, and whoever does
    /// not ask must leave them to [`crate::index::Index::read`] and [`crate::index::Index::lock`],
    /// which do.
    #[inline]
    fn is_current(&self, key: &Key<'_>) -> bool {
        self.table().memory.index.is_current(key.candidates)
    }

    /// Begins a value of `len` bytes that arrives bit by bit.
    ///
    /// # Errors
    /// [`StoreError::ValueTooLarge`].
    pub fn upload(&mut self, len: usize) -> Result<Upload, StoreError> {
        let max = self.cache.value_size_max();
        if len > max {
            return Err(StoreError::ValueTooLarge { len, max });
        }
        Ok(Upload::new(Arc::clone(self.table()), len))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.table().memory.qsbr.unregister(self.place);
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests;
