//! Hands that walk runs of slots: an order that costs a hit nothing and a record no link.
//!
//! Every run belongs to one partition. A partition's runs form a ring that a hand walks: the record
//! it meets goes, stays or moves as the policy says, and a new record takes the slot, so that it is
//! met last. Nothing is copied but a record that becomes hot. Whole runs cross the border between
//! the two partitions.

use std::fmt::Debug;

use super::{Eviction, Order, Runs, STEPS_MAX, Slots, Walk};
use crate::policy::{Partition, Policy, Verdict};

/// How far ahead of the hand its victims' slots are prefetched, and what evicting them needs: the
/// time of some eight insertions, which is longer than memory takes.
const SLOT_AHEAD: u16 = 8;
const RECORD_AHEAD: u16 = 4;

/// A policy, and what was seen ahead of its hands.
#[derive(Debug)]
pub(crate) struct Hands<P, T> {
    policy: P,
    ahead: [Ahead<T>; 2],
}

/// What was seen ahead of one hand. What was seen when the hand stood `n` slots before a slot is in
/// place `steps + n`, modulo the size. By now the record may be another one.
#[derive(Debug, Default)]
struct Ahead<T> {
    steps: usize,
    /// Slot 0 is nobody's.
    seen: [(usize, T); (RECORD_AHEAD as usize + 1).next_power_of_two()],
}

impl<T: Copy + Default> Ahead<T> {
    /// The hand passes a slot: returns what was seen there.
    #[inline]
    fn pass(&mut self, slot: usize) -> Option<&T> {
        self.steps += 1;
        let (at, seen) = &self.seen[self.steps % self.seen.len()];
        (*at == slot).then_some(seen)
    }

    #[inline]
    fn note(&mut self, slot: usize, seen: T) {
        let place = (self.steps + RECORD_AHEAD as usize + 1) % self.seen.len();
        self.seen[place] = (slot, seen);
    }
}

/// Which way the border between the partitions should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Border {
    /// The temporary partition should give a run to the hot one.
    GrowHot,
    /// The hot partition should give a run to the temporary one.
    GrowTemporary,
    /// Both are right to within a run.
    Stay,
}

impl<P: Policy, T: Copy + Default> Hands<P, T> {
    pub(crate) fn new(policy: P) -> Self {
        Self { policy, ahead: [Ahead::default(), Ahead::default()] }
    }

    #[inline]
    fn border(&mut self, runs: &Runs) -> Border {
        let (sizes, run) = (runs.sizes(), runs.slots_per_run);
        let wanted = self.policy.target(Partition::Temporary, &sizes);
        let temporary = sizes.of(Partition::Temporary);
        if temporary > wanted + run {
            Border::GrowHot
        } else if temporary + run <= wanted {
            Border::GrowTemporary
        } else {
            Border::Stay
        }
    }

    /// A slot of a partition.
    #[inline(always)]
    fn make_slot<S: Slots<Seen = T>>(
        &mut self,
        walk: &mut Walk<'_, S>,
        partition: Partition,
    ) -> Option<usize> {
        while walk.steps > 0 {
            let border = self.border(walk.runs);
            if border == Border::GrowTemporary {
                grow_temporary(walk);
            }
            if walk.runs.has_free(partition) {
                return walk.take_free(partition);
            }
            if walk.runs.ring(partition).runs == 0
                || (partition == Partition::Hot && border == Border::GrowHot && spares_run(walk))
            {
                // All runs are on the other side, or too many: one of them changes sides. The hot
                // partition evicts nobody while the temporary one has more than it should.
                self.give_run(walk, partition)?;
                walk.steps -= 1;
            } else if let Some(slot) = self.step(walk, partition) {
                return Some(slot);
            }
        }
        None
    }

    /// The partition that gives a record: the temporary one if it has more than it should. When
    /// what is there cannot be had, as long as it is sent, the other one is asked.
    fn giver<S>(&mut self, walk: &Walk<'_, S>) -> Partition {
        let sizes = walk.runs.sizes();
        let [temporary, hot] =
            [Partition::Temporary, Partition::Hot].map(|partition| sizes.of(partition));
        let is_over = temporary > self.policy.target(Partition::Temporary, &sizes);
        let is_stuck = walk.steps < STEPS_MAX / 2;
        if hot == 0 || (temporary > 0 && is_over != is_stuck) {
            Partition::Temporary
        } else {
            Partition::Hot
        }
    }

    #[cold]
    fn give_run<S: Slots<Seen = T>>(
        &mut self,
        walk: &mut Walk<'_, S>,
        to: Partition,
    ) -> Option<()> {
        if to == Partition::Temporary {
            let run = walk.runs.oldest(Partition::Hot)?;
            walk.runs.relabel(run, Partition::Temporary, true);
        } else {
            let run = walk.runs.oldest(Partition::Temporary)?;
            self.convert(walk, run);
        }
        Some(())
    }

    /// A run of the temporary partition becomes hot: what was hit stays where it is, the rest is
    /// evicted, and its slots are what the next promotions need.
    fn convert<S: Slots<Seen = T>>(&mut self, walk: &mut Walk<'_, S>, run: u32) {
        for slot in walk.runs.slots(run) {
            walk.slots.prefetch(slot);
        }
        for slot in walk.runs.slots(run) {
            walk.slots.look(slot);
        }
        for slot in walk.runs.slots(run) {
            let Some(record) = walk.slots.find(slot) else { continue };
            match self.policy.judge(Partition::Temporary, walk.slots.counter(&record)) {
                Verdict::Evict => {
                    if self.evict(walk, &record, Partition::Temporary) {
                        walk.give(slot);
                    }
                }
                Verdict::Keep { counter } => walk.slots.set_counter(&record, counter),
                Verdict::Move(_) => walk.slots.set_counter(&record, 0),
            }
        }
        walk.runs.relabel(run, Partition::Hot, false);
    }

    /// Lets the hand of `partition` judge one record. Returns its slot when that became free.
    #[inline]
    fn step<S: Slots<Seen = T>>(
        &mut self,
        walk: &mut Walk<'_, S>,
        partition: Partition,
    ) -> Option<usize> {
        walk.steps = walk.steps.saturating_sub(1);
        let slot = walk.runs.advance(partition)?;
        let seen = self.ahead[partition as usize].pass(slot);
        let seen = seen.and_then(|seen| walk.slots.find_seen(slot, seen));
        self.look_ahead(walk, partition);
        let record = seen.or_else(|| walk.slots.find(slot))?;
        let counter = walk.slots.counter(&record);
        let verdict = if walk.steps < STEPS_MAX / 4 && counter > 0 {
            // Everything is hot: somebody has to go all the same.
            Verdict::Evict
        } else {
            self.policy.judge(partition, counter)
        };
        match verdict {
            Verdict::Evict => self.evict(walk, &record, partition).then_some(slot),
            Verdict::Keep { counter } => {
                walk.slots.set_counter(&record, counter);
                None
            }
            Verdict::Move(_) => self.promote(walk, slot, &record),
        }
    }

    /// Moves a record to the hot partition. Returns its old slot.
    #[inline(never)]
    fn promote<S: Slots<Seen = T>>(
        &mut self,
        walk: &mut Walk<'_, S>,
        slot: usize,
        record: &S::Record,
    ) -> Option<usize> {
        let target = loop {
            if let Some(target) = walk.take_free(Partition::Hot) {
                break target;
            }
            let is_bare = walk.runs.ring(Partition::Hot).runs == 0;
            if walk.runs.are_by_records()
                && let Some(run) = walk.runs.spare(Partition::Temporary)
                && run != walk.slots.run_of(walk.runs, slot)
            {
                // Slots are not what is scarce: nobody goes for one.
                walk.runs.relabel(run, Partition::Hot, false);
            } else if spares_run(walk) && (is_bare || self.border(walk.runs) == Border::GrowHot) {
                let run = walk.runs.oldest(Partition::Temporary)?;
                self.convert(walk, run);
            } else if is_bare {
                return None;
            } else if let Some(target) = self.step(walk, Partition::Hot) {
                break target;
            }
            if walk.steps == 0 {
                return None;
            }
        };
        if walk.slots.relocate(record, slot, target) {
            return Some(slot);
        }
        walk.give(target);
        None
    }

    /// Evicts a record. Returns whether its slot is the caller's.
    #[inline(always)]
    fn evict<S: Slots<Seen = T>>(
        &mut self,
        walk: &mut Walk<'_, S>,
        record: &S::Record,
        partition: Partition,
    ) -> bool {
        let eviction = walk.slots.evict(record, partition);
        if eviction != Eviction::Refused {
            self.policy.evicted(partition, &walk.runs.sizes());
        }
        eviction == Eviction::Freed
    }

    /// Asks for what the hand will need soon. Evictions are waits for memory for two thirds of
    /// their time otherwise.
    #[inline(always)]
    fn look_ahead<S: Slots<Seen = T>>(&mut self, walk: &Walk<'_, S>, partition: Partition) {
        if let Some(slot) = walk.runs.peek(partition, SLOT_AHEAD) {
            walk.slots.prefetch(slot);
        }
        if let Some(slot) = walk.runs.peek(partition, RECORD_AHEAD)
            && let Some(seen) = walk.slots.look(slot)
        {
            self.ahead[partition as usize].note(slot, seen);
        }
    }
}

/// Whether the temporary partition has a run besides its last.
fn spares_run<S>(walk: &Walk<'_, S>) -> bool {
    walk.runs.ring(Partition::Temporary).runs > 1
}

/// A free slot for the temporary partition from a run of the hot one that can be spared: free slots
/// of one run are what the next records that become hot need, but more of them, as deletions leave
/// them, must not lie idle while something is evicted.
#[inline]
fn reuse_spare<S: Slots>(walk: &mut Walk<'_, S>, partition: Partition) -> Option<usize> {
    let run = walk.runs.spare(Partition::Hot)?;
    if partition != Partition::Temporary {
        return None;
    }
    walk.runs.relabel(run, Partition::Temporary, false);
    walk.take_free(Partition::Temporary)
}

/// A run of the hot partition becomes temporary, its records the next to be judged there: those
/// that were hit come back.
#[cold]
fn grow_temporary<S>(walk: &mut Walk<'_, S>) {
    if walk.runs.ring(Partition::Hot).runs > 1
        && let Some(run) = walk.runs.oldest(Partition::Hot)
    {
        walk.runs.relabel(run, Partition::Temporary, true);
    }
}

impl<P, T, S> Order<S> for Hands<P, T>
where
    P: Policy,
    T: Copy + Default + Debug + Send,
    S: Slots<Seen = T>,
{
    fn allocate(
        &mut self,
        runs: &mut Runs,
        slots: &mut S,
        remembered: Option<Partition>,
    ) -> Option<usize> {
        let partition = self.policy.admit(remembered, &runs.sizes());
        let mut walk = Walk::new(runs, slots);
        let mut slot = walk.take_free(partition);
        if partition == Partition::Hot && slot.is_none() {
            // Any free slot is better than an eviction. What is free in the hot partition, though,
            // is kept for records that become hot.
            slot = walk.take_free(Partition::Temporary);
        }
        let slot = slot.or_else(|| reuse_spare(&mut walk, partition));
        let slot = slot.or_else(|| self.make_slot(&mut walk, partition));
        let most = self.policy.ghosts_max(&walk.runs.sizes());
        walk.slots.limit_ghosts(most);
        slot
    }

    fn is_full(&self, runs: &Runs) -> bool {
        !runs.has_free(Partition::Temporary)
    }

    fn turn_out(&mut self, runs: &mut Runs, slots: &mut S) -> Option<usize> {
        let mut walk = Walk::new(runs, slots);
        let before = walk.slots.evictions();
        while walk.steps > 0 {
            let from = self.giver(&walk);
            let slot = self.step(&mut walk, from);
            if walk.slots.evictions() > before {
                return slot;
            }
            if let Some(slot) = slot {
                // It has become hot.
                walk.give(slot);
            }
        }
        None
    }

    fn hit(&mut self, _runs: &mut Runs, _slots: &mut S, _slot: usize) {}

    fn release(&mut self, _runs: &mut Runs, _slots: &mut S, _slot: usize) {}

    fn next_run(&mut self, runs: &mut Runs, _slots: &mut S) -> Option<u32> {
        runs.oldest(Partition::Temporary).or_else(|| runs.oldest(Partition::Hot))
    }

    fn empty_run(&mut self, runs: &mut Runs, slots: &mut S, run: u32) {
        let partition = runs.run(run).partition;
        let mut walk = Walk::new(runs, slots);
        for slot in walk.runs.slots(run) {
            let Some(record) = walk.slots.find(slot) else { continue };
            let was_hit = walk.slots.counter(&record) > 0;
            let preferred = if was_hit { Partition::Hot } else { partition };
            if let Some(target) = walk.take_any_free(preferred) {
                let saved = walk.slots.relocate(&record, slot, target);
                walk.give(if saved { slot } else { target });
                if saved {
                    continue;
                }
            }
            if self.evict(&mut walk, &record, partition) {
                walk.give(slot);
            }
        }
    }

    #[cfg(all(test, not(loom)))]
    fn check(&self, _runs: &Runs, _slots: &S, _taken: &std::collections::BTreeSet<usize>) {}
}
