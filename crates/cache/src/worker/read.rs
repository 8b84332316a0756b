//! Reading.

use base::sync::{Arc, atomic::Ordering};

use super::Worker;
use crate::{
    Get, Key, Meta, Output, Pinned, extent,
    index::{Entry, Found},
    table::Table,
};

/// What an optimistic look at a record with the right key found.
enum Seen {
    /// Expired or flushed.
    Dead,
    /// Copied to the output.
    Copied(Meta),
    /// Pinned; dropped, it is not.
    Pinned(Pinned),
    /// Not pinned: too much is.
    Busy,
}

impl Worker {
    /// Reads a record. Takes no lock; counts as a hit for replacement.
    #[inline]
    pub fn get(&mut self, key: Key<'_>, out: &mut impl Output) -> Get {
        let table = &self.cache.table;
        let memory = &table.memory;
        let now_ms = self.now_ms;
        let read = memory.index.read(&memory.arena, key.hash, |found| {
            look(table, found.entry, key.bytes, now_ms, out)
        });
        match read {
            Ok(None) => Get::Miss,
            Ok(Some((found, seen))) => settle(&found, seen),
            Err(_) => self.get_locked(key, out),
        }
    }

    /// Reads under the locks of the key's buckets, when writers leave no gap to read in.
    #[cold]
    fn get_locked(&mut self, key: Key<'_>, out: &mut impl Output) -> Get {
        let table = &self.cache.table;
        let memory = &table.memory;
        let pair = memory.index.lock(&memory.arena, key.hash);
        let Some(found) = super::write::find_key(memory, &pair, key) else { return Get::Miss };
        match look(table, found.entry, key.bytes, self.now_ms, out) {
            Some(seen) => settle(&found, seen),
            None => Get::Miss,
        }
    }
}

/// Looks at the record behind an entry. `None` when it has another key, or is torn so badly that
/// validation will fail anyway.
#[inline]
fn look(
    table: &Arc<Table>,
    entry: Entry,
    key: &[u8],
    now_ms: u64,
    out: &mut impl Output,
) -> Option<Seen> {
    let memory = &table.memory;
    let slot = memory.slot(entry.location());
    let header = slot.header();
    if !slot.holds(header) || !slot.key_is(header, key) {
        return None;
    }
    if memory.is_dead(slot, header, now_ms) {
        return Some(Seen::Dead);
    }
    let meta = slot.meta(header, entry.fetched());
    if header.in_parts() {
        return Some(pin(table, entry.location(), meta));
    }
    slot.copy(header.value_at(), out.begin(&meta));
    Some(Seen::Copied(meta))
}

#[cold]
fn pin(table: &Arc<Table>, location: usize, meta: Meta) -> Seen {
    let pinned = table.memory.counters.pinned_bytes.load(Ordering::Relaxed);
    if pinned + u64::from(meta.value_len) > table.pinned_max_bytes() as u64 {
        return Seen::Busy;
    }
    if extent::pin(&table.memory, location) {
        Seen::Pinned(Pinned::new(Arc::clone(table), location, meta))
    } else {
        // Its eviction has begun: what the validation that follows will see, or a miss.
        Seen::Dead
    }
}

#[inline]
fn settle(found: &Found<'_>, seen: Seen) -> Get {
    match seen {
        Seen::Dead => Get::Miss,
        Seen::Busy => Get::Busy,
        Seen::Copied(meta) => {
            count_hit(found);
            Get::Hit(meta)
        }
        Seen::Pinned(pinned) => {
            count_hit(found);
            Get::Large(pinned)
        }
    }
}

/// Raises the counter by one compare-and-swap of the whole word, not retried: whatever else
/// happened to the entry meanwhile was more important. Nothing is stored once it is saturated.
#[inline]
pub(super) fn count_hit(found: &Found<'_>) {
    let (old, new) = (found.entry, found.entry.read());
    if old != new {
        let word = found.line.word(found.place);
        let _ = word.compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
