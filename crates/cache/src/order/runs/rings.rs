//! The rings of runs, one for each partition, and the hands in them; and which runs of a partition
//! have free slots.

use super::{NO_RUN, Run, Runs};
use crate::policy::Partition;

/// The runs of one partition: a ring in first-in-first-out order, and a hand in it.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(super) hand: u32,
    pub(super) hand_slot: u16,
    pub(super) first_free: u32,
    pub(crate) runs: usize,
    /// Free slots of its runs.
    pub(super) free: usize,
}

impl Ring {
    /// One without runs.
    pub(super) fn empty() -> Self {
        Self { hand: NO_RUN, hand_slot: 0, first_free: NO_RUN, runs: 0, free: 0 }
    }
}

#[inline]
fn ring_of(partition: Partition) -> usize {
    match partition {
        Partition::Temporary => 0,
        Partition::Hot | Partition::Recycle => 1,
    }
}

impl Runs {
    #[inline]
    pub(crate) fn ring(&self, partition: Partition) -> &Ring {
        &self.rings[ring_of(partition)]
    }

    #[inline]
    pub(super) fn ring_mut(&mut self, partition: Partition) -> &mut Ring {
        &mut self.rings[ring_of(partition)]
    }

    /// Puts a run into the ring of its partition, before one that is there: before the hand's, so
    /// that the hand meets it last.
    pub(super) fn link_before(&mut self, run: u32, next: u32) {
        let partition = self.table[run as usize].partition;
        let hand = self.ring(partition).hand;
        let (previous, next) =
            if next == NO_RUN { (run, run) } else { (self.run(next).previous, next) };
        let entry = &mut self.table[run as usize];
        (entry.previous, entry.next) = (previous, next);
        self.table[previous as usize].next = run;
        self.table[next as usize].previous = run;
        let ring = self.ring_mut(partition);
        ring.runs += 1;
        if hand == NO_RUN {
            (ring.hand, ring.hand_slot) = (run, 0);
        }
    }

    /// Takes a run out of its ring.
    pub(super) fn unlink(&mut self, run: u32) {
        let Run { previous, next, partition, free, .. } = *self.run(run);
        if free > 0 {
            self.unlink_free(run);
        }
        self.table[previous as usize].next = next;
        self.table[next as usize].previous = previous;
        let ring = self.ring_mut(partition);
        ring.runs -= 1;
        ring.free -= usize::from(free);
        if ring.hand == run {
            (ring.hand, ring.hand_slot) = (if next == run { NO_RUN } else { next }, 0);
        }
    }

    pub(super) fn link_free(&mut self, run: u32) {
        let partition = self.run(run).partition;
        let head = self.ring(partition).first_free;
        let entry = &mut self.table[run as usize];
        (entry.free_previous, entry.free_next) = (NO_RUN, head);
        if head != NO_RUN {
            self.table[head as usize].free_previous = run;
        }
        self.ring_mut(partition).first_free = run;
    }

    pub(super) fn unlink_free(&mut self, run: u32) {
        let Run { free_previous, free_next, partition, .. } = *self.run(run);
        if free_previous == NO_RUN {
            self.ring_mut(partition).first_free = free_next;
        } else {
            self.table[free_previous as usize].free_next = free_next;
        }
        if free_next != NO_RUN {
            self.table[free_next as usize].free_previous = free_previous;
        }
    }

    /// Moves a run to another partition: behind all others there, so that its records are judged
    /// after a whole lap, or behind the hand's run, so that they are judged when that is done.
    pub(crate) fn relabel(&mut self, run: u32, partition: Partition, next_to_judge: bool) {
        self.unlink(run);
        self.table[run as usize].partition = partition;
        let Ring { hand, hand_slot, .. } = *self.ring(partition);
        if next_to_judge && hand != NO_RUN && hand_slot > 0 {
            self.link_before(run, self.run(hand).next);
        } else {
            self.link_before(run, hand);
            if next_to_judge {
                self.ring_mut(partition).hand = run;
            }
        }
        let free = self.run(run).free;
        self.ring_mut(partition).free += usize::from(free);
        if free > 0 {
            self.link_free(run);
        }
    }

    /// Moves the hand over one slot and returns it. `None` when the partition has no runs.
    #[inline]
    pub(crate) fn advance(&mut self, partition: Partition) -> Option<usize> {
        for _ in 0..=self.ring(partition).runs {
            let Ring { hand, hand_slot, .. } = *self.ring(partition);
            if hand == NO_RUN {
                return None;
            }
            let run = self.run(hand);
            if hand_slot < run.used {
                let location = run.start + usize::from(hand_slot) * self.slot_words;
                self.ring_mut(partition).hand_slot += 1;
                return Some(location);
            }
            let next = run.next;
            let ring = self.ring_mut(partition);
            (ring.hand, ring.hand_slot) = (next, 0);
        }
        None
    }

    /// The slot that the hand will meet `ahead` slots from now, if it is in the same run or the
    /// next.
    #[inline]
    pub(crate) fn peek(&self, partition: Partition, ahead: u16) -> Option<usize> {
        let Ring { hand, hand_slot, .. } = *self.ring(partition);
        if hand == NO_RUN {
            return None;
        }
        let run = self.run(hand);
        let slot = hand_slot + ahead;
        if slot < run.used {
            return Some(run.start + usize::from(slot) * self.slot_words);
        }
        let next = self.run(run.next);
        let slot = slot - run.used;
        (slot < next.used).then(|| next.start + usize::from(slot) * self.slot_words)
    }

    /// The run that has been in a partition longest without meeting the hand. Where the hand is,
    /// records in front of it are new.
    pub(crate) fn oldest(&self, partition: Partition) -> Option<u32> {
        let Ring { hand, hand_slot, .. } = *self.ring(partition);
        let behind = |hand: u32| if hand_slot == 0 { hand } else { self.run(hand).next };
        (hand != NO_RUN).then(|| behind(hand))
    }

    /// Whether a partition has free slots.
    #[inline]
    pub(crate) fn has_free(&self, partition: Partition) -> bool {
        self.ring(partition).first_free != NO_RUN
    }

    /// A run with free slots, if there are more than one, or all of its slots are free.
    #[inline]
    pub(crate) fn spare(&self, partition: Partition) -> Option<u32> {
        let first = self.ring(partition).first_free;
        if first == NO_RUN {
            return None;
        }
        let run = self.run(first);
        let is_spare = run.free_next != NO_RUN || usize::from(run.free) == self.slots_per_run;
        is_spare.then_some(first)
    }
}
