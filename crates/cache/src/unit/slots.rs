//! Slots of a cache of unit size: plain vectors and a map.

use std::{collections::HashMap, hash::BuildHasherDefault};

use super::{
    ghosts::UnitGhosts,
    hash::{Mix, hash_of},
};
use crate::{
    PolicyKind,
    order::{Eviction, Runs, Slots},
    policy::Partition,
};

/// Largest counter, as in the index of a whole cache.
const COUNTER_MAX: u8 = 3;

/// All slots, by number, and who is in them.
#[derive(Debug)]
pub(super) struct UnitSlots {
    slots: Vec<Slot>,
    slot_by_key: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    pub(super) ghosts: UnitGhosts,
    evictions: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The record's key and counter.
    record: Option<(u64, u8)>,
    /// For the order: the links of a taken slot, the next slot behind a free one.
    word: u64,
}

impl UnitSlots {
    pub(super) fn new(kind: PolicyKind, capacity: usize, in_order: bool) -> Self {
        let remembered = if kind.remembers() { capacity } else { 0 };
        Self {
            slots: vec![Slot::default(); capacity],
            slot_by_key: HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default()),
            ghosts: UnitGhosts::new(remembered, in_order),
            evictions: 0,
        }
    }

    /// Counts a hit of a key. Returns its slot if it has one.
    pub(super) fn hit(&mut self, key: u64) -> Option<usize> {
        let slot = *self.slot_by_key.get(&key)? as usize;
        let record = self.slots[slot].record.as_mut().expect("invariant: the map leads to records");
        record.1 = (record.1 + 1).min(COUNTER_MAX);
        Some(slot)
    }

    /// Puts a new record into a slot.
    pub(super) fn put(&mut self, slot: usize, key: u64) {
        self.slots[slot].record = Some((key, 0));
        let number = u32::try_from(slot).expect("invariant: the capacity fits");
        self.slot_by_key.insert(key, number);
    }

    pub(super) fn len(&self) -> usize {
        self.slot_by_key.len()
    }
}

impl Slots for UnitSlots {
    /// Slot, key and counter.
    type Record = (usize, u64, u8);
    type Seen = ();

    fn find(&self, slot: usize) -> Option<Self::Record> {
        self.slots[slot].record.map(|(key, counter)| (slot, key, counter))
    }

    fn prefetch(&self, _slot: usize) {}

    fn look(&self, _slot: usize) -> Option<()> {
        None
    }

    fn find_seen(&self, slot: usize, _seen: &()) -> Option<Self::Record> {
        self.find(slot)
    }

    fn counter(&self, record: &Self::Record) -> u64 {
        u64::from(record.2)
    }

    fn set_counter(&mut self, record: &Self::Record, counter: u64) {
        let counter = u8::try_from(counter).expect("invariant: a counter has two bits");
        self.slots[record.0].record = Some((record.1, counter));
    }

    fn evict(&mut self, record: &Self::Record, left: Partition) -> Eviction {
        let (slot, key, _) = *record;
        self.slot_by_key.remove(&key);
        self.slots[slot].record = None;
        self.ghosts.remember(hash_of(key), left);
        self.evictions += 1;
        Eviction::Freed
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }

    fn relocate(&mut self, record: &Self::Record, from: usize, to: usize) -> bool {
        self.put(to, record.1);
        self.slots[from].record = None;
        true
    }

    fn next_free(&self, slot: usize) -> u16 {
        self.slots[slot].word as u16
    }

    fn set_next_free(&mut self, slot: usize, next: u16) {
        self.slots[slot].word = u64::from(next);
    }

    fn note_taken(&mut self, _taken: bool) {}

    fn link(&self, slot: usize) -> u64 {
        self.slots[slot].word
    }

    fn set_link(&mut self, slot: usize, link: u64) {
        self.slots[slot].word = link;
    }

    /// All of them are in one block.
    fn run_of(&self, runs: &Runs, slot: usize) -> u32 {
        runs.run_at(0, slot)
    }

    fn limit_ghosts(&mut self, most: [usize; 2]) {
        self.ghosts.limit(most);
    }
}
