//! Making room: the hands, the moves between partitions, the runs that change sides.

use base::sync::atomic::{Ordering, fence};

use super::State;
use crate::{
    extent,
    geometry::{BLOCK_WORDS, WORD_BYTES},
    index::{Candidates, Found, Tag},
    memory::Memory,
    policy::{Border, Partition, Verdict},
};

/// Slots that hands may look at for one new record. A counter of 3 survives three laps, so a
/// sub-table of a few hundred slots is walked more than once; in a large one a victim comes after
/// two or three slots on average.
const HAND_STEPS_MAX: usize = if cfg!(any(loom, shuttle, miri)) { 64 } else { 4096 };

/// How far ahead of the hand its victims' slots are prefetched, and their buckets and ghosts: the
/// time of some eight insertions, which is longer than memory takes.
const SLOT_AHEAD: u16 = 8;
const BUCKET_AHEAD: u16 = 4;

/// What looking ahead found out about records, so that the hand need not hash their keys again.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    hands: [Hand; 2],
}

/// One partition's. What was seen when the hand stood `n` slots before a slot is in place
/// `steps + n`, modulo the size.
#[derive(Debug, Default)]
struct Hand {
    steps: usize,
    seen: [Seen; (BUCKET_AHEAD as usize + 1).next_power_of_two()],
}

/// A record that was ahead of a hand. By now it may be another one. Location 0 is nobody's.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    location: usize,
    hash: u64,
    candidates: Candidates,
}

impl Ahead {
    /// The hand of a partition passes a slot: returns what was seen there.
    #[inline]
    fn pass(&mut self, partition: Partition, location: usize) -> Option<&Seen> {
        let hand = &mut self.hands[partition as usize];
        hand.steps += 1;
        let seen = &hand.seen[hand.steps % hand.seen.len()];
        (seen.location == location).then_some(seen)
    }

    #[inline]
    fn note(&mut self, partition: Partition, seen: Seen) {
        let hand = &mut self.hands[partition as usize];
        let place = (hand.steps + BUCKET_AHEAD as usize + 1) % hand.seen.len();
        hand.seen[place] = seen;
    }
}

impl Seen {
    /// The entry that leads to the record, if it is still the same one's.
    #[inline]
    fn find<'a>(&self, memory: &'a Memory) -> Option<(u64, Found<'a>)> {
        let Self { location, hash, candidates } = *self;
        let found = memory.index.find_location(&memory.arena, candidates, location)?;
        (found.entry.tag() == Tag::of(hash)).then_some((hash, found))
    }
}

impl State {
    /// Frees a slot of `partition` by evicting. `None` when everything in reach is held by writers
    /// on their way or by readers of large values.
    pub(super) fn make_slot(&mut self, memory: &Memory, partition: Partition) -> Option<usize> {
        if let Some(location) = self.runs.take_free(memory, partition) {
            return Some(location);
        }
        self.make_slot_anew(memory, partition)
    }

    /// The same, but something is evicted even if a slot is free.
    pub(super) fn make_slot_anew(
        &mut self,
        memory: &Memory,
        partition: Partition,
    ) -> Option<usize> {
        let mut steps = HAND_STEPS_MAX;
        while steps > 0 {
            self.move_border(memory);
            if self.runs.at_hand(partition).is_none() {
                // All runs are on the other side: one of them changes sides.
                self.give_run(memory, partition)?;
                steps -= 1;
                continue;
            }
            if let Some(location) = self.step(memory, partition, &mut steps) {
                return Some(location);
            }
            if self.runs.has_free(partition) && self.evicted_bytes > 0 {
                return self.runs.take_free(memory, partition);
            }
        }
        None
    }

    /// Moves one run across the border if the policy wants it.
    fn move_border(&mut self, memory: &Memory) {
        match self.policy.border(self.shares()) {
            Border::Stay => {}
            Border::GrowTemporary => self.grow_temporary(),
            Border::GrowHot => {
                // Only when the hot partition has no free slot left: it grows by what it keeps.
                if self.hot_is_full()
                    && let Some(run) = self.runs.behind_hand(Partition::Temporary)
                {
                    self.convert(memory, run);
                }
            }
        }
    }

    fn hot_is_full(&self) -> bool {
        !self.runs.has_free(Partition::Hot)
    }

    /// A run of the hot partition becomes temporary, its records the next to be judged there:
    /// those that were hit come back.
    fn grow_temporary(&mut self) {
        if self.runs.ring(Partition::Hot).runs > 1
            && let Some(run) = self.runs.at_hand(Partition::Hot)
        {
            self.runs.relabel(run, true);
        }
    }

    fn give_run(&mut self, memory: &Memory, to: Partition) -> Option<()> {
        match to {
            Partition::Temporary => {
                let run = self.runs.at_hand(Partition::Hot)?;
                self.runs.relabel(run, true);
            }
            Partition::Hot => {
                let run = self
                    .runs
                    .behind_hand(Partition::Temporary)
                    .or_else(|| self.runs.at_hand(Partition::Temporary))?;
                self.convert(memory, run);
            }
        }
        Some(())
    }

    /// A run of the temporary partition becomes hot: what was hit stays where it is, the rest is
    /// evicted, and its slots are what the next promotions need.
    fn convert(&mut self, memory: &Memory, run: u32) {
        for location in self.runs.slots(run) {
            memory.arena.prefetch(location);
        }
        for location in self.runs.slots(run) {
            if let Some(hash) = memory.hash_at(location) {
                memory.index.prefetch(&memory.arena, memory.index.candidates(hash));
            }
        }
        for location in self.runs.slots(run) {
            let Some((hash, found)) = memory.find(location) else { continue };
            match self.policy.judge(Partition::Temporary, found.entry.counter()) {
                Verdict::Evict => {
                    if self.evict(memory, hash, &found, Partition::Temporary) {
                        self.give(memory, location);
                    }
                }
                Verdict::Keep { counter } => set_counter(&found, counter),
                Verdict::Promote => set_counter(&found, 0),
            }
        }
        self.runs.relabel(run, false);
    }

    /// Lets the hand of `partition` judge one record. Returns its slot when that became free.
    fn step(&mut self, memory: &Memory, partition: Partition, steps: &mut usize) -> Option<usize> {
        *steps = steps.saturating_sub(1);
        let location = self.runs.advance(partition)?;
        let seen = self.ahead.pass(partition, location).and_then(|seen| seen.find(memory));
        self.look_ahead(memory, partition);
        let (hash, found) = seen.or_else(|| memory.find(location))?;
        let verdict = if *steps < HAND_STEPS_MAX / 4 && found.entry.counter() > 0 {
            // Everything is hot: somebody has to go all the same.
            Verdict::Evict
        } else {
            self.policy.judge(partition, found.entry.counter())
        };
        match verdict {
            Verdict::Evict => self.evict(memory, hash, &found, partition).then_some(location),
            Verdict::Keep { counter } => {
                set_counter(&found, counter);
                None
            }
            Verdict::Promote => self.promote(memory, location, &found, steps),
        }
    }

    /// Moves a record to the hot partition. Returns its old slot.
    fn promote(
        &mut self,
        memory: &Memory,
        location: usize,
        found: &Found<'_>,
        steps: &mut usize,
    ) -> Option<usize> {
        let target = loop {
            if let Some(target) = self.runs.take_free(memory, Partition::Hot) {
                break target;
            }
            if self.runs.at_hand(Partition::Hot).is_none()
                || self.policy.border(self.shares()) == Border::GrowHot
            {
                let run = self.runs.behind_hand(Partition::Temporary)?;
                self.convert(memory, run);
            } else if let Some(target) = self.step(memory, Partition::Hot, steps) {
                break target;
            }
            if *steps == 0 {
                return None;
            }
        };
        if self.relocate(memory, location, target, found) {
            return Some(location);
        }
        self.give(memory, target);
        None
    }

    /// Copies a record to another slot of its class and turns its entry there, counter 0.
    pub(super) fn relocate(
        &self,
        memory: &Memory,
        from: usize,
        to: usize,
        found: &Found<'_>,
    ) -> bool {
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
        let words = self.runs.slot_words();
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

    /// Takes a record out of the index and remembers its key. Returns whether its slot is free: not
    /// when its bucket is locked, somebody else was faster, or readers still send its value.
    pub(super) fn evict(
        &mut self,
        memory: &Memory,
        hash: u64,
        found: &Found<'_>,
        partition: Partition,
    ) -> bool {
        let location = found.entry.location();
        let won = match found.bucket.try_lock() {
            Some(_lock) => memory.index.remove(&memory.arena, found),
            None => false,
        };
        if !won && !cfg!(mutant = "evictor_frees_without_winning") {
            return false;
        }
        memory.ghosts.remember(&memory.arena, hash, partition);
        self.policy.evicted(partition, self.shares());
        self.evicted_bytes += self.runs.slot_words() * WORD_BYTES;
        self.counters.evictions += 1;
        self.counters.evicted_unfetched += u64::from(!found.entry.fetched());
        if !self.of_heads {
            return true;
        }
        self.evicted_bytes += extent::bytes(memory, location);
        extent::unlinked(memory, location)
    }

    /// Asks for what the hand will need soon. Evictions are waits for memory for two thirds of
    /// their time otherwise.
    #[inline]
    fn look_ahead(&mut self, memory: &Memory, partition: Partition) {
        if let Some(location) = self.runs.peek(partition, SLOT_AHEAD) {
            memory.arena.prefetch(location);
        }
        if let Some(location) = self.runs.peek(partition, BUCKET_AHEAD)
            && let Some(hash) = memory.hash_at(location)
        {
            let candidates = memory.index.candidates(hash);
            memory.index.prefetch(&memory.arena, candidates);
            memory.ghosts.prefetch(&memory.arena, hash);
            self.ahead.note(partition, Seen { location, hash, candidates });
        }
    }
}

/// Sets a counter unless the entry has changed meanwhile: then a reader was faster, and right.
fn set_counter(found: &Found<'_>, counter: u64) {
    let (old, new) = (found.entry, found.entry.with_counter(counter));
    let word = found.line.word(found.place);
    let _ = word.compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
}
