//! A cache of so many records, all of one size and without values: what policies are compared with
//! in the literature, driven by the orders and policies that serve.
//!
//! Runs have one slot, so that nothing is rounded, and there is one sub-table. Deterministic: the
//! same accesses give the same hits in every process.

mod ghosts;
mod hash;
mod slots;

use std::fmt;

use self::{hash::hash_of, slots::UnitSlots};
use crate::{
    PolicyKind,
    order::{self, Order, Runs},
    policy::Partition,
};

/// A read-through cache that holds numbers. See `policy` in the sources for what each kind does.
pub struct UnitCache {
    order: Box<dyn Order<UnitSlots>>,
    runs: Runs,
    slots: UnitSlots,
    kind: PolicyKind,
}

impl UnitCache {
    /// An empty cache for exactly `capacity` records. Evicted keys are remembered as in a whole
    /// cache, in a proportional number of lines of sixteen; by `arc` in order, as it is published.
    ///
    /// # Panics
    /// Panics when `capacity` is 0 or above 2^31 - 2.
    #[must_use]
    pub fn new(kind: PolicyKind, capacity: usize) -> Self {
        let in_order = kind == PolicyKind::Arc;
        Self::with_runs(kind, capacity, 1, in_order)
    }

    /// The same with so many slots in a run, and with keys remembered in order or in lines.
    fn with_runs(kind: PolicyKind, capacity: usize, run: usize, in_order: bool) -> Self {
        assert!(capacity > 0 && (capacity as u64) < order::SLOTS_MAX, "{capacity} records");
        assert_eq!(capacity % run, 0, "a capacity in whole runs");
        let mut runs = Runs::new(1, run, capacity);
        runs.add_block(0, Partition::Temporary);
        let slots = UnitSlots::new(kind, capacity, in_order);
        Self { order: order::of_kind!(kind, ()), runs, slots, kind }
    }

    /// Reads a key, and inserts it when it is missed. Returns whether it was there.
    pub fn access(&mut self, key: u64) -> bool {
        let hash = hash_of(key);
        if let Some(slot) = self.slots.hit(key) {
            if self.kind.hears_hits() {
                self.order.hit(&mut self.runs, &mut self.slots, slot);
            }
            return true;
        }
        let remembered = if self.kind.remembers() { self.slots.ghosts.take(hash) } else { None };
        let slot = self.order.allocate(&mut self.runs, &mut self.slots, remembered);
        self.slots.put(slot.expect("invariant: nobody holds a record here"), key);
        false
    }

    /// Records now: less than the capacity until it is full, and with fixed shares always.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for UnitCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitCache").field("order", &self.order).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests;
