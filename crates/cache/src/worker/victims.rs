//! What was evicted, for who has another place for it; and what somebody else has kept, as it was
//! stored.

use base::sync::{Arc, atomic::Ordering};

use super::{Cache, Worker, room::HASTY_WAITS_MAX};
use crate::{Change, Key, Meta, Put, StoreError, Victim, VictimCounts, View};

/// Of a record that was looked at before it is stored: how it is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsOf {
    /// Flushes there had been when it was looked at.
    pub(super) flushes: u64,
    /// It counts as read.
    pub(super) fetched: bool,
}

impl Cache {
    /// What came of evictions, where [`crate::CacheConfig::victim_bytes`] has room for them.
    #[must_use]
    pub fn victim_counts(&self) -> VictimCounts {
        self.table.memory.victims.on().map_or_else(VictimCounts::default, |it| it.counts())
    }

    /// Says the longest value that there is another place for: longer ones do not wait for it.
    pub fn limit_victims(&self, value_bytes_max: usize) {
        self.table.memory.victims.on().into_iter().for_each(|it| it.limit_values(value_bytes_max));
    }
}

impl Worker {
    /// The record that waits longest for a place elsewhere, of those behind `after`.
    #[must_use]
    pub fn next_victim(&self, after: Option<Victim>) -> Option<Victim> {
        self.table().memory.victims.on()?.next(after)
    }

    /// Whether any record waits for a place elsewhere.
    #[must_use]
    pub fn has_victims(&self) -> bool {
        self.table().memory.victims.on().is_some_and(|it| it.has_any())
    }

    /// Whether a record waits still.
    #[must_use]
    pub fn waits(&self, victim: Victim) -> bool {
        self.table().memory.victims.on().is_some_and(|it| it.waits(victim))
    }

    /// Copies the key of a record that waits, and says its other fields. `None` when it does not
    /// wait any more.
    #[must_use]
    pub fn victim_key(&self, victim: Victim, key: &mut Vec<u8>) -> Option<Meta> {
        self.table().memory.victims.on()?.key(victim, key)
    }

    /// Copies the value of a record that waits, whose fields these are. Says whether it still does.
    #[must_use]
    pub fn victim_value(&self, victim: Victim, meta: &Meta, value: &mut Vec<u8>) -> bool {
        self.table().memory.victims.on().is_some_and(|it| it.value(victim, meta, value))
    }

    /// A record has its place, or there is none for it.
    pub fn leave_victim(&self, victim: Victim) {
        self.table().memory.victims.on().into_iter().for_each(|it| it.leave(victim));
    }

    /// Copies the value of a key whose record waits, and says its other fields. To be asked after a
    /// miss.
    #[must_use]
    pub fn find_victim(&self, key: Key<'_>, value: &mut Vec<u8>) -> Option<Meta> {
        let memory = &self.table().memory;
        let waiting = memory.victims.of(key.hash())?;
        let meta = waiting.value_of(memory, (key.hash(), key.bytes()), value)?;
        let is_live = meta.expiry_ms == 0 || meta.expiry_ms > self.now_ms();
        is_live.then_some(meta)
    }

    /// What waits of a key is out of date, but what has the token `kept`. To be called after the
    /// key was written or removed, and before anybody else may write it.
    pub fn forget_victim(&self, key: Key<'_>, kept: Option<u64>) {
        let waiting = self.table().memory.victims.of(key.hash());
        waiting.into_iter().for_each(|it| it.forget(key.hash(), kept));
    }

    /// Has a record go as if its room was needed. Says whether there was one.
    pub fn evict(&mut self, key: Key<'_>) -> bool {
        let table = Arc::clone(self.table());
        let mut is_there = false;
        let removed = self.update(key, |view| {
            is_there = view.is_some();
            if let (Some(view), Some(waiting)) = (view, table.memory.victims.on()) {
                waiting.note(&table.memory, key.hash(), view.found());
            }
            Change::Remove.into()
        });
        removed.is_ok() && is_there
    }

    /// Nothing waits that was stored before a flush.
    pub(super) fn clear_victims(&self) {
        self.table().memory.victims.on().into_iter().for_each(|it| it.clear());
    }

    /// Flushes of the table that have begun. To be asked before a look whose outcome is stored
    /// with [`Worker::set_as_of`] or [`Worker::fill_as_of`].
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.table().memory.flushes.load(Ordering::Acquire)
    }

    /// Stores what was made of a record that was looked at when so many flushes had begun. If
    /// another one has since, the record is as dead as if it had been stored before that.
    /// `fetched`: it counts as read.
    ///
    /// # Errors
    /// [`StoreError`]; the key's present record then stays.
    pub fn set_as_of(
        &mut self,
        flushes: u64,
        fetched: bool,
        key: Key<'_>,
        put: &Put<'_>,
    ) -> Result<u64, StoreError> {
        self.store_as_of(AsOf { flushes, fetched }, key, put)
    }

    /// Stores a record that somebody else has kept, and has looked up for a reader when so many
    /// flushes had begun. Hardly waits for memory. If another flush has begun since, nothing is
    /// stored, or what is dead.
    ///
    /// # Errors
    /// [`StoreError`]; the key's present record then stays.
    pub fn fill_as_of(
        &mut self,
        flushes: u64,
        key: Key<'_>,
        put: &Put<'_>,
    ) -> Result<u64, StoreError> {
        let waits_max = std::mem::replace(&mut self.waits_max, HASTY_WAITS_MAX);
        let filled = self.store_as_of(AsOf { flushes, fetched: true }, key, put);
        self.waits_max = waits_max;
        filled
    }

    fn store_as_of(&mut self, as_of: AsOf, key: Key<'_>, put: &Put<'_>) -> Result<u64, StoreError> {
        let table = Arc::clone(self.table());
        self.as_of = Some(as_of).filter(|_| !base::mutant!("cache_stored_as_of_now"));
        let stored = self.update(key, |_| {
            let is_now = table.memory.flushes.load(Ordering::Acquire) == as_of.flushes;
            // What was there is dead, too.
            let is_stored = is_now || base::mutant!("cache_stored_as_of_now");
            if is_stored { Change::Put(*put) } else { Change::Remove }.into()
        });
        self.as_of = None;
        Ok(stored?.unwrap_or_else(|| table.draw()))
    }

    /// Copies a record, and says its fields, however much is pinned. `None` when there is none that
    /// lives.
    #[must_use]
    pub fn copy(&mut self, key: Key<'_>, value: &mut Vec<u8>) -> Option<Meta> {
        loop {
            let mut meta = None;
            value.clear();
            let looked = self.update(key, |view| {
                meta = view.map(View::meta);
                // Nothing is allocated under the lock.
                if let Some(view) = view.filter(|it| it.value_len() <= value.capacity()) {
                    view.copy(value);
                }
                Change::Keep.into()
            });
            looked.ok()?;
            let len = meta?.value_len as usize;
            if value.len() == len {
                return meta;
            }
            value.reserve(len);
        }
    }
}
