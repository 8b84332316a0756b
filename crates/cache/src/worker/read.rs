//! Reading.

use base::sync::{Arc, atomic::Ordering};

use super::{Worker, write::find_key};
use crate::{
    Get, Key, Meta, Output, Pinned, extent,
    index::{Entry, Found},
    memory::Memory,
    table::Table,
};

/// What a look at a record with the right key found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Expired or flushed.
    Dead,
    /// Copied to the output.
    Copied,
    /// The head of a value in parts.
    Head,
}

impl Worker {
    /// Reads a record. Takes no lock unless writers leave no gap to read in, or the value is to be
    /// pinned; counts as a hit for replacement.
    #[inline]
    pub fn get(&mut self, key: Key<'_>, out: &mut impl Output) -> Get {
        let memory = &self.cache.table.memory;
        let now_ms = self.now_ms;
        let mut meta = Meta::default();
        let read = memory.index.read(&memory.arena, key.hash, |found| {
            look(memory, found.entry, &key, now_ms, &mut meta, out)
        });
        match read {
            Ok(None) => Get::Miss,
            Ok(Some((found, Seen::Copied))) => {
                count_hit(&found);
                Get::Hit(meta)
            }
            Ok(Some((_, Seen::Dead))) => Get::Miss,
            _ => self.get_locked(key, out),
        }
    }

    /// Reads under the locks of the key's buckets.
    #[cold]
    #[inline(never)]
    fn get_locked(&mut self, key: Key<'_>, out: &mut impl Output) -> Get {
        let table = &self.cache.table;
        let memory = &table.memory;
        let pair = memory.index.lock(&memory.arena, key.hash);
        let Some(found) = find_key(memory, &pair, key) else { return Get::Miss };
        let mut meta = Meta::default();
        let get = match look(memory, found.entry, &key, self.now_ms, &mut meta, out) {
            None | Some(Seen::Dead) => return Get::Miss,
            Some(Seen::Copied) => Get::Hit(meta),
            Some(Seen::Head) => pin(table, found.entry.location(), meta),
        };
        if !matches!(get, Get::Busy) {
            count_hit(&found);
        }
        get
    }
}

/// Looks at the record behind an entry. `None` when it has another key, or is torn so badly that
/// validation will fail anyway.
#[inline(always)]
fn look(
    memory: &Memory,
    entry: Entry,
    key: &Key<'_>,
    now_ms: u64,
    meta: &mut Meta,
    out: &mut impl Output,
) -> Option<Seen> {
    let slot = memory.slot(entry.location());
    let header = slot.header();
    if !slot.holds(header) || !slot.key_is(header, key) {
        return None;
    }
    if memory.is_dead(slot, header, now_ms) {
        return Some(Seen::Dead);
    }
    *meta = slot.meta(header, entry.fetched());
    if header.in_parts() {
        return Some(Seen::Head);
    }
    slot.copy(header.value_at(), out.begin(meta));
    Some(Seen::Copied)
}

/// Pins a value under the lock of its bucket, unless too much is pinned already.
pub(super) fn pin(table: &Arc<Table>, location: usize, meta: Meta) -> Get {
    let pinned = table.memory.counters.pinned_bytes.load(Ordering::Relaxed);
    if pinned + u64::from(meta.value_len) > table.pinned_max_bytes() as u64 {
        return Get::Busy;
    }
    match extent::pin(&table.memory, location) {
        true => Get::Large(Pinned::new(Arc::clone(table), location, meta)),
        false => Get::Busy,
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
