//! Reading.

use base::sync::{Arc, atomic::Ordering};

use super::{Worker, write::find_key};
use crate::{
    Dead, Get, Key, Meta, Output, Pinned, extent,
    index::{Entry, Found, Probe, Tag},
    memory::Memory,
    table::Table,
};

/// What a look at a record with the right key found.
#[derive(Clone, Copy)]
enum Seen {
    /// Expired or flushed.
    Dead(Dead),
    /// Copied to the output.
    Copied(Meta),
    /// The head of a value in parts.
    Head(Meta),
}

impl Worker {
    /// Reads a record. Takes no lock unless writers leave no gap to read in, or the value is to be
    /// pinned; counts as a hit for replacement.
    #[inline(always)]
    pub fn get(&mut self, key: Key<'_>, out: &mut impl Output) -> Get {
        self.check_owner(&key);
        if !self.is_current(&key) {
            return self.get_any(key, out);
        }
        let memory = &self.cache.table.memory;
        let probe = memory.index.probe(&memory.arena, key.candidates, Tag::of(key.hash));
        if let Some(found) = probe.found() {
            let slot = memory.slot(found.entry.location());
            let Some(short) = slot.short_plain(&key, key.plain(memory.epoch())) else {
                return self.get_other(probe, found, key, out);
            };
            let meta = short.copy(found.entry.fetched(), out);
            if probe.holds(&found) {
                count_hit(&found);
                return Get::Hit(meta);
            }
        } else if memory.index.is_miss(&probe, key.candidates) {
            return Get::Miss;
        }
        self.get_any(key, out)
    }

    /// Reads a record that is not short and plain, or another key's. Takes a key of its own: the
    /// caller's, to which nothing else refers, stays in registers.
    #[inline(never)]
    fn get_other(
        &self,
        probe: Probe<'_>,
        found: Found<'_>,
        key: Key<'_>,
        out: &mut impl Output,
    ) -> Get {
        let seen = look(&self.cache.table.memory, found.entry, &key, self.now_ms, out);
        match seen.filter(|_| probe.holds(&found)) {
            Some(seen) => self.seen(&found, seen, key, out),
            None => self.get_any(key, out),
        }
    }

    /// What was seen and validated becomes the answer.
    fn seen(&self, found: &Found<'_>, seen: Seen, key: Key<'_>, out: &mut impl Output) -> Get {
        match seen {
            Seen::Copied(meta) => {
                count_hit(found);
                self.table().report_hit(key.hash, found.entry.location());
                Get::Hit(meta)
            }
            Seen::Dead(why) => self.died(why),
            Seen::Head(_) => self.get_locked(key, out),
        }
    }

    #[cold]
    fn died(&self, why: Dead) -> Get {
        self.dead.set(Some(why));
        Get::Miss
    }

    /// Why the last [`Self::get`] missed, if it found a record that had died, and was not asked
    /// before.
    pub fn take_dead(&self) -> Option<Dead> {
        self.dead.take()
    }

    /// Reads whatever the record looks like, several times if writers interfere.
    #[inline(never)]
    fn get_any(&self, key: Key<'_>, out: &mut impl Output) -> Get {
        let memory = &self.cache.table.memory;
        let now_ms = self.now_ms;
        let read = memory.index.read(&memory.arena, key.candidates, key.hash, |found| {
            look(memory, found.entry, &key, now_ms, out)
        });
        match read {
            Ok(Some((found, seen))) => self.seen(&found, seen, key, out),
            Ok(None) => Get::Miss,
            Err(_) => self.get_locked(key, out),
        }
    }

    /// Reads under the locks of the key's buckets.
    #[cold]
    #[inline(never)]
    fn get_locked(&self, key: Key<'_>, out: &mut impl Output) -> Get {
        let table = &self.cache.table;
        let memory = &table.memory;
        let pair = memory.index.lock(&memory.arena, key.candidates, key.hash);
        let Some(found) = find_key(memory, &pair, &key) else { return Get::Miss };
        let get = match look(memory, found.entry, &key, self.now_ms, out) {
            None => return Get::Miss,
            Some(Seen::Dead(why)) => return self.died(why),
            Some(Seen::Copied(meta)) => Get::Hit(meta),
            Some(Seen::Head(meta)) => pin(table, found.entry.location(), meta),
        };
        if !matches!(get, Get::Busy) {
            count_hit(&found);
            drop(pair);
            table.report_hit(key.hash, found.entry.location());
        }
        get
    }
}

/// Looks at the record behind an entry. `None` when it has another key, or is torn so badly that
/// validation will fail anyway.
#[inline(never)]
fn look(
    memory: &Memory,
    entry: Entry,
    key: &Key<'_>,
    now_ms: u64,
    out: &mut impl Output,
) -> Option<Seen> {
    let slot = memory.slot(entry.location());
    let header = slot.with_key(key)?;
    if !slot.holds(header) {
        return None;
    }
    if memory.is_dead(slot, header, now_ms) {
        return Some(Seen::Dead(memory.why_dead(header)));
    }
    let meta = slot.meta(header, entry.fetched());
    if header.in_parts() {
        return Some(Seen::Head(meta));
    }
    slot.copy(header.value_at(), header.value_len(), out.begin(&meta));
    Some(Seen::Copied(meta))
}

/// Pins a value under the lock of its bucket, unless too much is pinned already.
pub(super) fn pin(table: &Arc<Table>, location: usize, meta: Meta) -> Get {
    let pinned = table.memory.counters.pinned_bytes.load(Ordering::Relaxed);
    if pinned + u64::from(meta.value_len) > table.on_their_way_max_bytes() as u64 {
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
    if !old.is_saturated() {
        let word = found.line.word(found.place);
        let _ = word.compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
