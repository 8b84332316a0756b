//! What an order of a sub-table works on: slots of the arena, entries of the index, ghosts.

use base::sync::atomic::{Ordering, fence};

use super::Tally;
use crate::{
    blocks::Owner,
    extent,
    geometry::{BLOCK_WORDS, WORD_BYTES},
    index::{Candidates, Found},
    memory::Memory,
    order::{Eviction, Runs, Slots},
    policy::Partition,
};

/// A free slot's first word: no key (the low byte), and the next free slot behind it.
const NEXT_FREE_SHIFT: u32 = 8;

/// What all slots of a sub-table have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) slot_words: usize,
    /// Words of a slot for a record; links lie behind them.
    pub(super) record_words: usize,
    /// Records are heads of values in parts.
    pub(super) of_heads: bool,
    /// Free slots do not mean that there is room: the order has to be asked.
    pub(super) limits_partitions: bool,
}

/// The slots of a sub-table, while its lock is held.
pub(super) struct Ground<'m> {
    pub(super) memory: &'m Memory,
    pub(super) tally: &'m mut Tally,
    pub(super) shape: Shape,
    /// A key whose record is not evicted: it is put at this moment, and would be missed if that
    /// failed.
    pub(super) spared: Option<u64>,
}

/// A record that was ahead of a hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    hash: u64,
    candidates: Candidates,
}

impl<'m> Slots for Ground<'m> {
    /// Hash of the key, and the entry.
    type Record = (u64, Found<'m>);
    type Seen = Seen;

    fn find(&self, slot: usize) -> Option<Self::Record> {
        self.memory.find(slot)
    }

    #[inline]
    fn prefetch(&self, slot: usize) {
        self.memory.arena.prefetch(slot);
    }

    #[inline(always)]
    fn look(&self, slot: usize) -> Option<Seen> {
        let memory = self.memory;
        let hash = memory.hash_at(slot)?;
        let candidates = memory.index.candidates(hash);
        memory.index.prefetch(&memory.arena, candidates);
        if memory.remembers {
            memory.ghosts.prefetch(&memory.arena, hash);
        }
        Some(Seen { hash, candidates })
    }

    #[inline(always)]
    fn find_seen(&self, slot: usize, seen: &Seen) -> Option<Self::Record> {
        let Seen { hash, candidates } = *seen;
        let index = &self.memory.index;
        Some((hash, index.find_location(&self.memory.arena, candidates, hash, slot)?))
    }

    #[inline]
    fn counter(&self, record: &Self::Record) -> u64 {
        record.1.entry.counter()
    }

    /// Unless the entry has changed meanwhile: then a reader was faster, and right.
    fn set_counter(&mut self, record: &Self::Record, counter: u64) {
        let found = &record.1;
        let (old, new) = (found.entry, found.entry.with_counter(counter));
        let word = found.line.word(found.place);
        let _ = word.compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
    }

    #[inline(always)]
    fn evict(&mut self, record: &Self::Record, left: Partition) -> Eviction {
        let (memory, (hash, found)) = (self.memory, record);
        if self.spared == Some(*hash) {
            return Eviction::Refused;
        }
        let waiting = memory.victims.on();
        let is_late = base::mutant!("victim_noted_late");
        let won = match found.bucket.try_lock() {
            Some(_lock) => {
                let won = memory.index.remove(&memory.arena, found);
                if let Some(waiting) = waiting.filter(|_| won && !is_late) {
                    waiting.note(memory, *hash, found);
                }
                won
            }
            None => false,
        };
        if let Some(waiting) = waiting.filter(|_| won && is_late) {
            base::sync::thread::yield_now();
            waiting.note(memory, *hash, found);
        }
        if !won && !base::mutant!("evictor_frees_without_winning") {
            return Eviction::Refused;
        }
        if memory.evicted.is_followed() {
            let slot = memory.slot(found.entry.location());
            memory.evicted.note(slot, found.entry.fetched());
        }
        if memory.remembers {
            memory.ghosts.remember(&memory.arena, *hash, left);
        }
        self.tally.evictions += 1;
        self.tally.evicted_unfetched += u64::from(!found.entry.fetched());
        self.tally.evicted_bytes += self.shape.slot_words * WORD_BYTES;
        if !self.shape.of_heads {
            return Eviction::Freed;
        }
        let location = found.entry.location();
        self.tally.evicted_bytes += extent::bytes(memory, location);
        if extent::unlinked(memory, location) { Eviction::Freed } else { Eviction::Pending }
    }

    fn evictions(&self) -> u64 {
        self.tally.evictions
    }

    /// Copies the record and turns its entry, under the lock of its bucket.
    fn relocate(&mut self, record: &Self::Record, from: usize, to: usize) -> bool {
        let (memory, found) = (self.memory, &record.1);
        let Some(lock) = found.bucket.try_lock() else { return false };
        let Some(Found { entry, .. }) = memory.index.confirm(&memory.arena, found) else {
            return false;
        };
        // Pins are counted in a head: one that is pinned stays where its readers will look.
        if entry.location() != from || !extent::begin_move(memory, from) {
            return false;
        }
        // The target may have been somebody else's slot a moment ago, and a reader may still be
        // copying that record: it must see the version that its removal left before these words.
        fence(Ordering::Release);
        let words = self.shape.record_words;
        let (source, target) = (memory.arena.slice(from, words), memory.arena.slice(to, words));
        for (source, target) in source.iter().zip(target) {
            target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        extent::link(memory, to);
        let slot = memory.slot(to);
        let block = to / BLOCK_WORDS;
        let changed = memory.blocks.changed(from / BLOCK_WORDS);
        memory.blocks.note_write(block, changed, slot.expiry_ms(slot.header()));
        found.line.word(found.place).store(entry.moved(to).with_counter(0).0, Ordering::Relaxed);
        drop(lock);
        true
    }

    #[inline]
    fn next_free(&self, slot: usize) -> u16 {
        let word = self.memory.arena.word(slot).load(Ordering::Relaxed);
        (word >> NEXT_FREE_SHIFT & 0xffff) as u16
    }

    #[inline]
    fn set_next_free(&mut self, slot: usize, next: u16) {
        let word = u64::from(next) << NEXT_FREE_SHIFT;
        self.memory.arena.word(slot).store(word, Ordering::Relaxed);
    }

    #[inline]
    fn note_taken(&mut self, taken: bool) {
        let records = &self.memory.records;
        if taken {
            records.fetch_add(1, Ordering::Relaxed);
        } else {
            records.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// In the word behind the record.
    fn link(&self, slot: usize) -> u64 {
        self.memory.arena.word(slot + self.shape.record_words).load(Ordering::Relaxed)
    }

    fn set_link(&mut self, slot: usize, link: u64) {
        self.memory.arena.word(slot + self.shape.record_words).store(link, Ordering::Relaxed);
    }

    fn run_of(&self, runs: &Runs, slot: usize) -> u32 {
        let Owner::SubTable { first_run, .. } = self.memory.blocks.owner(slot / BLOCK_WORDS) else {
            unreachable!("a slot's block belongs to its sub-table until every slot is home");
        };
        runs.run_at(first_run, slot % BLOCK_WORDS)
    }

    /// A table's ghosts forget by themselves.
    #[inline]
    fn limit_ghosts(&mut self, _most: [usize; 2]) {}
}
