//! What a sub-table's books say, checked against each other.

use std::collections::BTreeSet;

use super::{NO_RUN, NO_SLOT, Partition, Run, Runs};
use crate::order::Slots;

/// Everything a sub-table has.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// Slots that hold records, or belong to writers on their way.
    pub(crate) taken: BTreeSet<usize>,
    /// First words of the blocks it has.
    pub(crate) blocks: BTreeSet<usize>,
}

impl Runs {
    /// Checks runs, rings and free lists. Panics on what does not fit together.
    pub(crate) fn holdings(&self, slots: &impl Slots) -> Holdings {
        let mut holdings = Holdings::default();
        for first in (0..self.table.len()).step_by(self.runs_per_block) {
            let Some(block) = self.start_of(u32::try_from(first).expect("few runs")) else {
                continue;
            };
            assert!(holdings.blocks.insert(block), "block {block} twice in one sub-table");
            for (at, run) in self.table[first..first + self.runs_per_block].iter().enumerate() {
                assert_eq!(run.start, block + at * self.run_words, "a run's place");
                self.add_taken(slots, run, &mut holdings.taken);
            }
        }
        for partition in [Partition::Temporary, Partition::Hot] {
            self.check_ring(partition);
        }
        holdings
    }

    /// First runs of the blocks that are being given back.
    pub(crate) fn draining_blocks(&self) -> impl Iterator<Item = u32> {
        let firsts = (0..self.table.len()).step_by(self.runs_per_block);
        let firsts = firsts.map(|first| u32::try_from(first).expect("few runs"));
        firsts.filter(|&first| self.start_of(first).is_some() && self.run(first).draining)
    }

    fn add_taken(&self, slots: &impl Slots, run: &Run, taken: &mut BTreeSet<usize>) {
        let location = |slot: u16| run.start + usize::from(slot) * self.slot_words;
        let mut free = BTreeSet::new();
        let mut slot = run.free_head;
        while slot != NO_SLOT {
            assert!(slot < run.used, "a free slot that was never used");
            assert!(free.insert(slot), "a slot twice in the free list");
            slot = slots.next_free(location(slot));
        }
        let unused = self.slots_per_run - usize::from(run.used);
        assert_eq!(free.len() + unused, usize::from(run.free), "a run's count of free slots");
        taken.extend((0..run.used).filter(|slot| !free.contains(slot)).map(location));
    }

    fn is_vacant(&self, at: usize) -> bool {
        self.vacant
            .iter()
            .any(|&first| (first as usize..first as usize + self.runs_per_block).contains(&at))
    }

    fn check_ring(&self, partition: Partition) {
        let ring = self.ring(partition);
        let of_ring: BTreeSet<usize> = (0..self.table.len())
            .filter(|&at| !self.is_vacant(at) && !self.table[at].draining)
            .filter(|&at| self.table[at].partition == partition)
            .collect();
        let (mut seen, mut at) = (BTreeSet::new(), ring.hand);
        while at != NO_RUN && seen.insert(at as usize) {
            let next = self.run(at).next;
            assert_eq!(self.run(next).previous, at, "a ring's links");
            at = next;
        }
        assert_eq!((&seen, seen.len()), (&of_ring, ring.runs), "a ring's runs");
        let (mut free, mut at) = (BTreeSet::new(), ring.first_free);
        while at != NO_RUN && free.insert(at as usize) {
            at = self.run(at).free_next;
        }
        let slots: usize = of_ring.iter().map(|&at| usize::from(self.table[at].free)).sum();
        assert_eq!(slots, ring.free, "the count of free slots");
        let expected = of_ring.into_iter().filter(|&at| self.table[at].free > 0).collect();
        assert_eq!(free, expected, "the runs with free slots");
    }
}
