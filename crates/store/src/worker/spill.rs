//! A table that spills: memory has the newest record of a key, or else the queue of what it has had
//! no room for, or else the ring.
//!
//! Invariant, under the key's lock: of a key that was written, the ring and the queue have nothing
//! that is older than what memory has, or was told that it has.

use std::sync::Arc;

use base::sync::atomic::Ordering;
use cache::{Dead, Get, Key, Meta, StoreError, Token, Value, Victim};
use log::{
    engine::{self, Mark, Removed, Wrote},
    keys::Keys,
};

use super::{
    Own,
    apply::Applied,
    attempt::{Look, wait_of_copy},
};
use crate::{
    Command, Error, Needs,
    held::Wait,
    limits::SPILLS_MAX,
    spill::{Admission, Spill},
    store::Shared,
};

/// What is left to wait for when the ring has nothing of a key any more.
enum TakenOut {
    Done {
        /// It had a value, which may have expired.
        was_there: bool,
        wait: Wait,
    },
    Stalled,
    Failed(Error),
}

/// What became of a record that had no room.
enum Spilled {
    /// It waits no more.
    Done,
    /// The log has no room yet.
    Waits,
}

impl<V: Send> Own<V> {
    /// Looks at a key in memory, in the queue, and then in the ring. Under the key's lock.
    pub(super) fn look_spilled<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        spill: Spill,
        name: Key<'_>,
        needs: Needs,
    ) -> Look {
        if needs == Needs::Nothing {
            return Look::Absent(Wait::Nothing);
        }
        // Before the look: what is made of it is as old as that.
        self.flushes = self.cache.flushes();
        let in_memory = match needs {
            Needs::Value => self.look_at_whole_value(name),
            Needs::Fields | Needs::Nothing => self.look_at_fields(name),
        };
        let in_memory = in_memory.or_else(|| {
            if base::mutant!("store_spill_queue_unseen") {
                return None;
            }
            let found = self.cache.find_victim(name, &mut self.value)?;
            self.figures.hits_of_waiting += 1;
            let value = std::mem::take(&mut self.value);
            self.fill_spilled(name, &found, &value);
            self.value = value;
            Some(Some(found))
        });
        if let Some(found) = in_memory {
            return match self.wait_of_copy(shared, name) {
                Ok(wait) => found.map_or(Look::Absent(wait), |meta| Look::Present(meta, wait)),
                Err(error) => Look::Failed(error),
            };
        }
        if !shared.has_spilled.load(Ordering::Relaxed) {
            return Look::Absent(Wait::Nothing);
        }
        if needs == Needs::Fields && base::mutant!("store_spill_fields_unread") {
            return Look::Absent(Wait::Nothing);
        }
        self.look_in_ring(shared, spill, name)
    }

    fn look_in_ring<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        spill: Spill,
        name: Key<'_>,
    ) -> Look {
        let mut core = shared.core();
        let (got, dead_below) =
            (core.engine.get(name.bytes(), self.cache.now_ms()), core.dead_below);
        drop(core);
        let seen = |wait| if spill.recovers { Wait::seen(wait) } else { Wait::Nothing };
        match got {
            Ok(engine::Get::Absent { wait }) => Look::Absent(seen(wait)),
            Ok(engine::Get::Memory { stored, .. }) if stored.sequence < dead_below => {
                Look::Absent(Wait::Nothing)
            }
            // It need not be durable itself: what must be is the tombstone of what it has replaced.
            Ok(engine::Get::Memory { stored, .. }) => {
                let meta = self.take_stored(stored);
                let meta = spill.admitted(meta);
                self.figures.hits_log += 1;
                let value = std::mem::take(&mut self.value);
                self.fill_spilled(name, &meta, &value);
                self.value = value;
                match self.wait_of_copy(shared, name) {
                    Ok(wait) => Look::Present(meta, wait),
                    Err(error) => Look::Failed(error),
                }
            }
            Ok(engine::Get::Read(reading)) => Look::Read(Arc::new(reading)),
            Ok(engine::Get::Wait) if spill.recovers => Look::Stalled,
            Ok(engine::Get::Wait) => Look::Absent(Wait::Nothing),
            // It may be the tombstone of something that a crash would bring back.
            Err(error @ log::error::Error::Unflushed)
                if spill.recovers
                    && (shared.unflushed.wait_for(name.hash()).is_some()
                        || base::mutant!("store_spill_unflushed_refused")) =>
            {
                Look::Failed(error.into())
            }
            // It may go at any time.
            Err(_) => {
                self.figures.reads_failed += 1;
                Look::Absent(Wait::Nothing)
            }
        }
    }

    /// As [`Own::look_at_value`], however much others have pinned: nobody else has it.
    pub(super) fn look_at_whole_value(&mut self, name: Key<'_>) -> Option<Option<Meta>> {
        match self.cache.get(name, &mut self.value) {
            Get::Busy => self.cache.copy(name, &mut self.value).map(Some),
            Get::Hit(meta) => Some(Some(meta)),
            Get::Large(pinned) => {
                self.value.clear();
                pinned.slices().for_each(|slice| self.value.extend_from_slice(slice));
                Some(Some(*pinned.meta()))
            }
            Get::Miss => self.cache.take_dead().filter(|it| *it == Dead::Expired).map(|_| None),
        }
    }

    /// Puts a record into memory that the queue or the ring has. Under the key's lock.
    pub(super) fn fill_spilled(&mut self, name: Key<'_>, meta: &Meta, value: &[u8]) {
        let copy = cache::Put {
            value: Value::Bytes(value),
            client_flags: meta.client_flags,
            expiry_ms: meta.expiry_ms,
            token: Token::Given(meta.token),
            stale: meta.stale,
            win_sent: meta.win_sent,
        };
        if base::mutant!("store_spill_filled_as_of_now") {
            base::sync::thread::yield_now();
            self.flushes = self.cache.flushes();
        }
        let filled = self.cache.fill_as_of(self.flushes, name, &copy).is_ok();
        self.figures.fills += u64::from(filled);
        self.figures.fills_refused += u64::from(!filled);
    }

    /// What a reply waits for that saw what memory has of a key.
    fn wait_of_copy<K: Keys, C: Command<Verdict = V>>(
        &self,
        shared: &Shared<K, C>,
        name: Key<'_>,
    ) -> Result<Wait, Error> {
        let Some(mark) = shared.unflushed.wait_for(name.hash()) else { return Ok(Wait::Nothing) };
        // What has been spilled again since would be flushed later.
        if !shared.core().engine.is_read_only() {
            return Ok(Wait::SeenBefore(mark));
        }
        match wait_of_copy(shared, name, mark) {
            Ok(_) if base::mutant!("store_spill_copy_told_early") => Ok(Wait::Nothing),
            wait => wait,
        }
    }

    /// Puts a record into memory, when nothing older is anywhere else. The value of `put` does not
    /// count.
    pub(super) fn store_spilled<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        spill: Spill,
        name: Key<'_>,
        value: &[u8],
        put: &cache::Put<'_>,
    ) -> Applied {
        let (got, max) = (value.len(), shared.value_bytes_max);
        if got > max {
            return Applied::Failed(Error::ValueBytes { got, max });
        }
        if base::mutant!("store_spill_forgets_early") {
            self.forget_waiting(name, None);
        }
        let (was_there, wait) = match take_out(shared, spill, name, self.cache.now_ms()) {
            TakenOut::Done { was_there, wait } => (was_there, wait),
            TakenOut::Stalled => return Applied::Stalled,
            TakenOut::Failed(error) => return Applied::Failed(error),
        };
        let forgets_early = base::mutant!("store_spill_forgets_early");
        let is_unlocked = base::mutant!("store_spilled_unlocked");
        if forgets_early | is_unlocked {
            base::sync::thread::yield_now();
        }
        let token = match put.token {
            Token::Given(token) if token != 0 => Token::Given(token),
            _ => Token::Fresh,
        };
        let copy = cache::Put { value: Value::Bytes(value), token, ..*put };
        let stored = match self.builds_on {
            Some(fetched) => self.cache.set_as_of(self.flushes, fetched, name, &copy),
            None => self.cache.set(name, &copy),
        };
        // The record before this one may have had to go up to this moment, and this one since.
        let own = stored.as_ref().ok().filter(|_| token == Token::Fresh).copied();
        if !forgets_early {
            self.forget_waiting(name, own);
        }
        self.figures.spills_failed += u64::from(was_there && stored.is_err());
        match stored {
            Ok(token) => Applied::Stored { token, wait },
            Err(StoreError::ValueTooLarge { len, max }) => {
                Applied::Failed(Error::ValueBytes { got: len, max })
            }
            Err(_) => Applied::Failed(Error::NoMemory),
        }
    }

    pub(super) fn remove_spilled<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        spill: Spill,
        name: Key<'_>,
    ) -> Applied {
        let (in_ring, wait) = match take_out(shared, spill, name, self.cache.now_ms()) {
            TakenOut::Done { was_there, wait } => (was_there, wait),
            TakenOut::Stalled => return Applied::Stalled,
            TakenOut::Failed(error) => return Applied::Failed(error),
        };
        let was_there = match self.look_at_fields(name) {
            Some(found) => found.is_some(),
            None => self.cache.find_victim(name, &mut self.value).is_some() || in_ring,
        };
        self.forget(name);
        self.forget_waiting(name, None);
        Applied::Removed { was_there, wait }
    }

    /// What waits of a key is out of date, but for the record that has the token `own`.
    fn forget_waiting(&self, name: Key<'_>, own: Option<u64>) {
        if !base::mutant!("store_spill_overtaken") {
            self.cache.forget_victim(name, own);
        }
    }

    /// Writes some of what memory has had no room for.
    pub(super) fn spill<K: Keys, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        let Some(spill) = shared.spill else { return };
        let mut after = None;
        for _ in 0..SPILLS_MAX {
            let Some(victim) = self.cache.next_victim(after) else { return };
            // Nobody writes the key meanwhile. Who has the lock may wait for memory, and others not
            // for that.
            let place = shared.key_lock(shared.lock_of(victim.hash())).try_lock();
            if place.is_err() && !base::mutant!("store_spilled_unlocked") {
                after = Some(victim);
                continue;
            }
            let (mut key, mut value) = std::mem::take(&mut self.spilled);
            let spilled = self.spill_one(shared, spill, victim, (&mut key, &mut value));
            self.spilled = (key, value);
            match spilled {
                Spilled::Done => self.cache.leave_victim(victim),
                Spilled::Waits => return,
            }
        }
    }

    /// Writes one of it, if it is to be. Under the key's lock.
    fn spill_one<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        spill: Spill,
        victim: Victim,
        (key, value): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Spilled {
        let Some(meta) = self.cache.victim_key(victim, key) else { return Spilled::Done };
        let now_ms = self.cache.now_ms();
        if meta.expiry_ms != 0 && meta.expiry_ms <= now_ms {
            return Spilled::Done;
        }
        // What the ring has of a key is never older than what memory has.
        if shared.core().engine.has(key) {
            self.figures.spills_clean += 1;
            return Spilled::Done;
        }
        if spill.admission == Admission::Seen && !meta.fetched {
            self.figures.spills_unseen += 1;
            return Spilled::Done;
        }
        if !self.cache.victim_value(victim, &meta, value) {
            return Spilled::Done;
        }
        shared.has_spilled.store(true, Ordering::Relaxed);
        if base::mutant!("store_spilled_unchecked") {
            base::sync::thread::yield_now();
        }
        let mut core = shared.core();
        // A flush says with this lock that it begins, then empties the queue, and says that it has
        // ended: what is written here was there before it, or still waits behind it.
        if !base::mutant!("store_spilled_unchecked") {
            if core.flushing > 0 && !base::mutant!("store_spilled_while_flushing") {
                return Spilled::Waits;
            }
            if !self.cache.waits(victim) {
                return Spilled::Done;
            }
        }
        let put = engine::Put {
            key,
            value,
            expiry_ms: meta.expiry_ms,
            flags: meta.client_flags,
            token: Some(meta.token),
            tags: &[],
            is_stale: meta.stale,
            is_recached: meta.win_sent,
        };
        match core.engine.put(&put, now_ms) {
            Ok(Wrote::Done { .. }) => self.figures.spills += 1,
            Ok(Wrote::Wait) => return Spilled::Waits,
            Err(_) => self.figures.spills_refused += 1,
        }
        Spilled::Done
    }

    /// The fields of what the log has in memory; its value becomes the worker's.
    fn take_stored(&mut self, stored: engine::Stored) -> Meta {
        let meta = Meta {
            client_flags: stored.flags,
            value_len: u32::try_from(stored.value.len()).unwrap_or(u32::MAX),
            token: stored.token,
            expiry_ms: stored.expiry_ms,
            stale: stored.is_stale,
            win_sent: stored.is_recached,
            fetched: false,
        };
        self.value = stored.value;
        meta
    }
}

/// Takes what the ring has of a key out of it: by a tombstone, if it could come back.
fn take_out<K: Keys, C: Command>(
    shared: &Shared<K, C>,
    spill: Spill,
    name: Key<'_>,
    now_ms: u64,
) -> TakenOut {
    let done = |was_there, wait| TakenOut::Done { was_there, wait };
    // What is spilled of this key is under its lock.
    if !shared.has_spilled.load(Ordering::Relaxed) {
        return done(false, Wait::Nothing);
    }
    let mut core = shared.core();
    let key = name.bytes();
    if base::mutant!("store_spill_keeps_old") {
        return done(core.engine.has(key), Wait::Nothing);
    }
    if !spill.recovers || base::mutant!("store_spill_no_tombstone") {
        return done(core.engine.drop_key(key).unwrap_or(false), Wait::Nothing);
    }
    let Some(was_there) = core.engine.knows(key) else { return done(false, Wait::Nothing) };
    match core.engine.remove(key, now_ms) {
        Ok(Removed::Done { mark, .. }) => {
            core.note(&shared.unflushed, name.hash(), mark);
            let is_awaited = mark < core.engine.answers_wait_below();
            done(was_there, if is_awaited { Wait::Write(mark) } else { Wait::Nothing })
        }
        Ok(Removed::Absent { wait }) => done(false, seen_tombstone(wait)),
        Ok(Removed::Wait) => TakenOut::Stalled,
        // What took it out before will never be durable. This command has done nothing, and is not
        // to be told as one that has.
        Err(log::error::Error::Unflushed) if !base::mutant!("store_spill_refused_as_lost") => {
            TakenOut::Failed(log::error::Error::ReadOnly.into())
        }
        Err(error) => TakenOut::Failed(error.into()),
    }
}

/// A tombstone that is not flushed: what comes after it is told of when it is.
fn seen_tombstone(wait: Option<Mark>) -> Wait {
    if base::mutant!("store_spill_tombstone_unawaited") { Wait::Nothing } else { Wait::seen(wait) }
}
