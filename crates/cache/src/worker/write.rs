//! Storing a record.
//!
//! A slot is made before the key is looked up when the worker's last puts needed one, but not where
//! nothing is evicted: there it might be the last, and another worker be told that there is none.
//! What that costs: an overwrite in its own class may evict a record and need no slot after all,
//! and so may a put that fails. The record of the very key is never the one that a slot is made of.
//! It goes only with a whole block that another sub-table needs, as any other record does.

use base::sync::atomic::Ordering;

use super::{
    Worker,
    draft::{Body, Draft, Stamp, write_record},
};
use crate::{
    Change, KEY_LEN_MAX, Key, Put, StoreError, Value, extent,
    geometry::{BLOCK_WORDS, slot_class},
    index::{Entry, Found, Pair, Probe, Tag, Version},
    memory::Memory,
    record::{Slot, WordSink},
    subtable::Newcomer,
    table::Table,
};

/// The entry of a key among its locked candidates.
pub(super) fn find_key<'a>(
    memory: &'a Memory,
    pair: &Pair<'a>,
    key: &Key<'_>,
) -> Option<Found<'a>> {
    let tag = Tag::of(key.hash);
    memory.index.find_tagged(&memory.arena, pair.lines(), tag, |entry| has_key(memory, entry, key))
}

#[inline(always)]
fn has_key(memory: &Memory, entry: Entry, key: &Key<'_>) -> bool {
    memory.slot(entry.location()).with_key(key).is_some()
}

impl Worker {
    /// Stores a record, whatever the key holds. Returns its token.
    ///
    /// # Errors
    /// [`StoreError`]; the key's present record then stays.
    #[inline]
    pub fn set(&mut self, key: Key<'_>, put: &Put<'_>) -> Result<u64, StoreError> {
        let Value::Bytes(value) = put.value else { return self.set_other(key, put) };
        let table = &*self.cache.table;
        if value.len() > table.inline_max_bytes {
            return self.set_other(key, put);
        }
        self.check_key(key)?;
        if !self.is_current(&key) {
            return self.set_other(key, put);
        }
        let draft = Draft::new(&key, put, value.len());
        let class =
            slot_class(draft.layout.bytes()).expect("invariant: an inline record has a class");
        // The key's ghosts are wanted soon: their miss overlaps with the buckets'.
        let memory = &table.memory;
        memory.ghosts.prefetch(&memory.arena, key.hash);
        let early = base::mutant!("sequence_before_the_look").then(|| draft.stamp(table));
        // To make a slot takes as long as the buckets take to come, so if it is likely to be needed
        // it is made meanwhile.
        let newcomer =
            |left| Newcomer { turn: &self.turn, hash: key.hash, left, now_ms: self.now_ms };
        let mut ahead = None;
        if self.slot_need.is_likely() && memory.evicts {
            memory.index.prefetch(&memory.arena, key.candidates);
            ahead = table.allocate(class, newcomer(None)).ok();
        }
        // A look without a lock says where the key is; the lock then says whether it still is.
        let probe = memory.index.probe(&memory.arena, key.candidates, Tag::of(key.hash));
        let (first, mut drawn) = (probe.found(), None);
        if let Some(found) = first {
            let location = found.entry.location();
            draft.layout.expect_overwrite(memory.slot(location));
            memory.blocks.expect_write(location / BLOCK_WORDS);
            if table.class_at(location) == Some(class) {
                // Not sooner: see `Stamp`. And not later: when the counter is with another core, it
                // takes as long to come as the record.
                let stamp = early.unwrap_or_else(|| draft.stamp(table));
                drawn = Some((probe.version(&found), stamp));
            }
        }
        let seen = match first {
            Some(found) if has_key(memory, found.entry, &key) => Some((found, drawn)),
            None if probe.is_all() => None,
            _ => look_further(memory, key).map(|found| (found, None)),
        };
        if let Some((found, drawn)) = seen
            && (drawn.is_some() || table.class_at(found.entry.location()) == Some(class))
            && let Some(token) = overwrite_found(table, &found, drawn, (&draft, value), self.now_ms)
        {
            self.slot_need.note(false);
            if let Some(location) = ahead {
                table.free_slot(location);
            }
            table.report_hit(key.hash, found.entry.location());
            return Ok(token);
        }
        self.slot_need.note(true);
        let left = memory.take_ghost(key.hash);
        match place(table, &draft, (class, ahead), value, &probe, newcomer(left)) {
            Ok(token) => Ok(token),
            // That may change, and the long way waits for it.
            Err(NoRoom) => self.set_other(key, put),
        }
    }

    pub(super) fn check_key(&self, key: Key<'_>) -> Result<(), StoreError> {
        self.check_owner(&key);
        let len = key.bytes.len();
        if len == 0 || len > KEY_LEN_MAX { Err(StoreError::KeyLength { len }) } else { Ok(()) }
    }

    #[cold]
    fn set_other(&mut self, key: Key<'_>, put: &Put<'_>) -> Result<u64, StoreError> {
        let token = self.update(key, |_| Change::Put(*put).into())?;
        Ok(token.expect("invariant: a put gives a token"))
    }
}

/// Looks for a key beyond the first entry with its tag.
#[cold]
#[inline(never)]
fn look_further<'a>(memory: &'a Memory, key: Key<'_>) -> Option<Found<'a>> {
    let found = memory.index.read(&memory.arena, key.candidates, key.hash, |found| {
        has_key(memory, found.entry, &key).then_some(())
    });
    found.ok().flatten().map(|(found, ())| found)
}

/// Rewrites the record that an entry leads to, if it still leads there and to this key. Takes the
/// lock of one bucket and allocates nothing. `drawn`: the bucket's version from before it was
/// looked at, and what was drawn since.
#[inline(always)]
fn overwrite_found(
    table: &Table,
    found: &Found<'_>,
    drawn: Option<(Version, Stamp)>,
    (draft, value): (&Draft<'_>, &[u8]),
    now_ms: u64,
) -> Option<u64> {
    let memory = &table.memory;
    let is_late = base::mutant!("overwrite_at_a_later_version");
    // Usually nobody was here since the look without a lock, and what was seen is still there.
    let unchanged = drawn.and_then(|(version, stamp)| {
        let version = if is_late { found.bucket.version() } else { version };
        Some((found.bucket.lock_at(version)?, stamp))
    });
    let (_lock, found, stamp) = match unchanged {
        Some((lock, stamp)) => (lock, found.now(), stamp),
        None => {
            let lock = found.bucket.lock();
            let found = find_again(memory, found, draft.key)?;
            let mut stamp = draft.stamp(table);
            if base::mutant!("overwrite_keeps_its_generation") {
                stamp.marks = drawn.map_or(stamp.marks, |(_, early)| early.marks);
            }
            (lock, found, stamp)
        }
    };
    let slot = memory.slot(found.entry.location());
    memory.note_overwritten(memory.is_dead(slot, slot.header(), now_ms));
    Some(rewrite_slot(table, &found, slot, stamp, (draft, value)))
}

/// Under the lock of its bucket: what was found, if it still leads to the same record and this is
/// still the key's.
#[cold]
#[inline(never)]
fn find_again<'a>(memory: &'a Memory, found: &Found<'a>, key: &Key<'_>) -> Option<Found<'a>> {
    if base::mutant!("overwrite_without_second_look") {
        return Some(found.now());
    }
    let found = memory.index.confirm(&memory.arena, found)?;
    has_key(memory, found.entry, key).then_some(found)
}

/// Rewrites a record in its slot. The caller holds the lock of its bucket, and the class fits.
#[inline]
pub(super) fn rewrite(table: &Table, found: &Found<'_>, draft: &Draft<'_>, value: &[u8]) -> u64 {
    let slot = table.memory.slot(found.entry.location());
    rewrite_slot(table, found, slot, draft.stamp(table), (draft, value))
}

/// The same in this slot, which is the one that the entry leads to.
#[inline(always)]
fn rewrite_slot(
    table: &Table,
    found: &Found<'_>,
    slot: Slot<'_>,
    stamp: Stamp,
    (draft, value): (&Draft<'_>, &[u8]),
) -> u64 {
    let (sink, body) = (WordSink::over(slot.0), Body::Inline(value));
    let token = write_record(table, found.entry.location(), stamp, (draft, &body), sink);
    let new = found.entry.put(draft.fetched);
    if new != found.entry {
        found.line.word(found.place).store(new.0, Ordering::Relaxed);
    }
    token
}

/// Stores a record in a slot of its own, perhaps one that was made ahead, and turns the key's entry
/// there, or makes one.
fn place(
    table: &Table,
    draft: &Draft<'_>,
    (class, ahead): (usize, Option<usize>),
    value: &[u8],
    probe: &Probe<'_>,
    newcomer: Newcomer<'_>,
) -> Result<u64, NoRoom> {
    let (key, now_ms) = (draft.key, newcomer.now_ms);
    let location = match (ahead, newcomer.left) {
        (Some(location), None) => location,
        _ => allocate_now(table, class, ahead, newcomer)?,
    };
    let index = &table.memory.index;
    // Usually nobody was here since the look without a lock.
    if let Some(room) = index.lock_one(probe, key.candidates, key.hash) {
        let (sink, body) = (WordSink::new(table.memory.slot(location).0), Body::Inline(value));
        let token = write_record(table, location, draft.stamp(table), (draft, &body), sink);
        room.take(draft.entry(location));
        settle(table, None, now_ms);
        return Ok(token);
    }
    place_anyhow(table, draft, value, location, now_ms)
}

/// A slot for a key of which more is known than when one was made ahead.
#[inline]
fn allocate_now(
    table: &Table,
    class: usize,
    ahead: Option<usize>,
    newcomer: Newcomer<'_>,
) -> Result<usize, NoRoom> {
    let allocated = table.allocate(class, newcomer);
    // Not before: a slot that is free is taken, whatever partition it belongs to.
    if let Some(location) = ahead {
        table.free_slot(location);
    }
    allocated.map_err(|_| NoRoom)
}

/// The same with a slot, under the locks of both buckets.
#[inline(never)]
fn place_anyhow(
    table: &Table,
    draft: &Draft<'_>,
    value: &[u8],
    location: usize,
    now_ms: u64,
) -> Result<u64, NoRoom> {
    let (key, memory) = (draft.key, &table.memory);
    let pair = memory.index.lock(&memory.arena, key.candidates, key.hash);
    let found = find_key(memory, &pair, key);
    let was_dead = found.is_some_and(|found| memory.is_dead_at(found.entry.location(), now_ms));
    let published = publish(table, &pair, found, draft, &Body::Inline(value), location);
    drop(pair);
    let Ok((token, old)) = published else {
        table.free_slot(location);
        return Err(NoRoom);
    };
    memory.note_overwritten(was_dead);
    settle(table, old, now_ms);
    if old.is_some() {
        table.report_hit(key.hash, location);
    }
    Ok(token)
}

/// There is no slot now, or the index has no place for an entry.
pub(super) struct NoRoom;

/// Writes a record into a slot that nothing leads to and makes it the key's, under the lock of its
/// buckets. Returns its token and the location of the record that it replaced.
#[inline]
pub(super) fn publish<'a>(
    table: &Table,
    pair: &Pair<'a>,
    found: Option<Found<'a>>,
    draft: &Draft<'_>,
    body: &Body<'_>,
    location: usize,
) -> Result<(u64, Option<usize>), NoRoom> {
    let memory = &table.memory;
    let sink = WordSink::new(memory.slot(location).0);
    let token = write_record(table, location, draft.stamp(table), (draft, body), sink);
    let old = match found {
        Some(found) => {
            let new = found.entry.moved(location).put(draft.fetched);
            found.line.word(found.place).store(new.0, Ordering::Release);
            Some(found.entry.location())
        }
        None => {
            let entry = draft.entry(location);
            memory.index.insert(&memory.arena, pair, entry).map_err(|_| NoRoom)?;
            None
        }
    };
    if draft.layout.in_parts {
        extent::link(memory, location);
        memory.note_value_bytes(location, extent::bytes(memory, location), false);
    }
    Ok((token, old))
}

/// What is left to do when a record was published and its locks are released.
pub(super) fn settle(table: &Table, old: Option<usize>, now_ms: u64) {
    if let Some(old) = old {
        table.free_record(old);
    } else {
        table.keep_up(now_ms);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use base::clock::Clock;

    use super::*;
    use crate::{Cache, CacheConfig, Get};

    fn put(value: &[u8]) -> Put<'_> {
        Put::new(Value::Bytes(value))
    }

    /// Two workers of a cache that has one key, `first`.
    fn with_first() -> (Cache, [Worker; 2]) {
        let config = CacheConfig { hash_seed: 7, writers: 2, ..CacheConfig::new(16 << 20) };
        let cache = Cache::new(config, Clock::manual(1)).expect("a cache");
        let mut workers = [(); 2].map(|()| cache.worker().expect("a place"));
        let worker = &mut workers[0];
        worker.set(worker.key(b"first"), &put(b"old")).expect("memory");
        (cache, workers)
    }

    /// Where a put finds a key, and the bucket's version from before it looked.
    fn look<'t>(table: &'t Table, key: &Key<'_>) -> (Found<'t>, Version) {
        let memory = &table.memory;
        let probe = memory.index.probe(&memory.arena, key.candidates, Tag::of(key.hash));
        let found = probe.found().expect("it is there");
        (found, probe.version(&found))
    }

    /// What a put does when its record has gone since it was looked for, and both the slot and the
    /// entry's place are another key's.
    #[test]
    fn overwrite_looks_again_once_its_bucket_has_changed() {
        let (cache, [mut worker, mut other]) = with_first();
        let (table, key, value) = (cache.table(), worker.key(b"first"), b"new");
        let (found, version) = look(table, &key);
        let draft = Draft::new(&key, &put(value), value.len());
        let drawn = Some((version, draft.stamp(table)));

        let mut remove = |key: &[u8]| {
            other.update(other.key(key), |_| Change::Remove.into()).expect("it needs no memory");
        };
        remove(b"first");
        let mut names = (10_000..100_000).map(|number| number.to_string().into_bytes());
        let another = names.find(|name| {
            worker.set(worker.key(name), &put(b"its")).expect("memory");
            let is_there = found.now().entry.location() == found.entry.location();
            if !is_there {
                remove(name);
            }
            is_there
        });
        let another = another.expect("of so many keys one has the same place");

        let written = overwrite_found(table, &found, drawn, (&draft, value), 1);
        let mut out = Vec::new();
        let is_hit = matches!(worker.get(worker.key(&another), &mut out), Get::Hit(_));
        assert!(is_hit && out == b"its", "slot shared: written over another key's record");
        assert_eq!(written, None);
    }

    /// A put whose key is flushed and written once it has drawn.
    #[test]
    fn overwrite_draws_again_once_its_bucket_has_changed() {
        let (cache, [mut worker, mut other]) = with_first();
        let (table, key, value) = (cache.table(), worker.key(b"first"), b"new");
        let (found, version) = look(table, &key);
        let draft = Draft::new(&key, &put(value), value.len());
        let drawn = Some((version, draft.stamp(table)));

        other.flush();
        let token = other.set(other.key(b"first"), &put(b"mid")).expect("memory");
        let written = overwrite_found(table, &found, drawn, (&draft, value), 1);
        assert!(written > Some(token), "tokens went back: {written:?} after {token}");
        let mut out = Vec::new();
        let is_hit = matches!(worker.get(worker.key(b"first"), &mut out), Get::Hit(_));
        assert!(is_hit && out == value, "a put behind a flush is dead");
    }
}
