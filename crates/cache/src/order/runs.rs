//! Runs of slots: which are free, and in which order the hands meet them.

#[cfg(all(test, not(loom)))]
pub(crate) mod checks;
mod rings;

use super::Slots;
use crate::policy::{Partition, Sizes};
use rings::Ring;

/// No run.
pub(crate) const NO_RUN: u32 = u32::MAX;
/// First word of the first run of a block that was given back.
const NO_START: usize = usize::MAX;
/// No slot.
const NO_SLOT: u16 = u16::MAX;

/// Bytes of the entry for one run.
pub(crate) const RUN_BYTES: usize = size_of::<Run>();

/// Slots of one size behind each other, all of one partition.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Its first word.
    start: usize,
    /// Neighbours in the ring of its partition.
    previous: u32,
    next: u32,
    /// Neighbours among the runs of its partition that have free slots.
    free_previous: u32,
    free_next: u32,
    /// Slots used at least once; those behind have never held anything.
    used: u16,
    free_head: u16,
    /// Free slots, never used ones included.
    free: u16,
    pub(crate) partition: Partition,
    /// Its block is being given back: it is in no ring and its free slots in no list.
    pub(crate) draining: bool,
}

/// All runs of a sub-table.
#[derive(Debug)]
pub(crate) struct Runs {
    slot_words: usize,
    run_words: usize,
    pub(crate) slots_per_run: usize,
    pub(crate) runs_per_block: usize,
    table: Vec<Run>,
    /// First runs of blocks that were given back.
    vacant: Vec<u32>,
    rings: [Ring; 2],
    /// All ones when partitions are measured by their records, 0 when by their slots.
    free_mask: usize,
}

impl Runs {
    /// No runs yet, of slots of `slot_words` each; a block has `block_words`.
    pub(crate) fn new(slot_words: usize, run_words: usize, block_words: usize) -> Self {
        Self {
            slot_words,
            run_words,
            slots_per_run: run_words / slot_words,
            runs_per_block: block_words / run_words,
            table: Vec::new(),
            vacant: Vec::new(),
            rings: [Ring::empty(), Ring::empty()],
            free_mask: 0,
        }
    }

    /// Whether partitions are measured by their records.
    pub(crate) fn are_by_records(&self) -> bool {
        self.free_mask != 0
    }

    /// Measures partitions by their records: for values in parts, whose slots are not what is
    /// scarce, so that most of them are free.
    pub(crate) fn by_records(self) -> Self {
        Self { free_mask: usize::MAX, ..self }
    }

    /// Slots of a block.
    pub(crate) fn slots_per_block(&self) -> usize {
        self.slots_per_run * self.runs_per_block
    }

    /// Slots that can be taken: those of draining blocks cannot.
    pub(crate) fn free_slots(&self) -> usize {
        self.rings[0].free + self.rings[1].free
    }

    #[inline]
    pub(crate) fn run(&self, run: u32) -> &Run {
        &self.table[run as usize]
    }

    /// Heap bytes of the table of runs.
    pub(crate) fn table_bytes(&self) -> usize {
        self.table.capacity() * size_of::<Run>() + self.vacant.capacity() * size_of::<u32>()
    }

    /// The number that the first run of the next block will have.
    pub(crate) fn next_first_run(&self) -> u32 {
        self.vacant.last().copied().unwrap_or_else(|| index_u32(self.table.len()))
    }

    /// Adds the block that begins at a word, its slots all free, behind everything else in
    /// `partition`. Returns its first run.
    pub(crate) fn add_block(&mut self, start: usize, partition: Partition) -> u32 {
        let first = self.next_first_run();
        if self.vacant.pop().is_none() {
            let blank = self.blank(0, partition);
            self.table.resize(self.table.len() + self.runs_per_block, blank);
        }
        let runs = first..first + index_u32(self.runs_per_block);
        for (at, run) in runs.clone().enumerate() {
            self.table[run as usize] = self.blank(start + at * self.run_words, partition);
        }
        // The first to be met by the hand is the first to be filled.
        for run in runs.clone() {
            self.link_before(run, self.ring(partition).hand);
        }
        runs.rev().for_each(|run| self.link_free(run));
        self.ring_mut(partition).free += self.slots_per_block();
        first
    }

    fn blank(&self, start: usize, partition: Partition) -> Run {
        Run {
            start,
            previous: NO_RUN,
            next: NO_RUN,
            free_previous: NO_RUN,
            free_next: NO_RUN,
            used: 0,
            free_head: NO_SLOT,
            free: u16::try_from(self.slots_per_run).expect("invariant: at most 4096 slots"),
            partition,
            draining: false,
        }
    }

    /// Takes the runs of a block out of everything, before it is given back.
    pub(crate) fn begin_drain(&mut self, first_run: u32) {
        for run in first_run..first_run + index_u32(self.runs_per_block) {
            if !self.run(run).draining {
                self.unlink(run);
                self.table[run as usize].draining = true;
            }
        }
    }

    /// Whether every slot of a block is free.
    pub(crate) fn is_free_block(&self, first_run: u32) -> bool {
        let mut runs = first_run..first_run + index_u32(self.runs_per_block);
        runs.all(|run| usize::from(self.run(run).free) == self.slots_per_run)
    }

    /// The first word of a draining block if every slot of it has come home; its runs are then
    /// forgotten.
    pub(crate) fn end_drain(&mut self, first_run: u32) -> Option<usize> {
        let runs = first_run..first_run + index_u32(self.runs_per_block);
        if runs.clone().any(|run| usize::from(self.run(run).free) < self.slots_per_run) {
            return None;
        }
        self.vacant.push(first_run);
        Some(std::mem::replace(&mut self.table[first_run as usize].start, NO_START))
    }

    /// Takes a free slot of a partition.
    #[inline]
    pub(crate) fn take_free(
        &mut self,
        slots: &mut impl Slots,
        partition: Partition,
    ) -> Option<usize> {
        let run = self.ring(partition).first_free;
        (run != NO_RUN).then(|| self.take_free_of(slots, run))
    }

    #[inline(never)]
    fn take_free_of(&mut self, slots: &mut impl Slots, run: u32) -> usize {
        let slot_words = self.slot_words;
        let entry = &mut self.table[run as usize];
        let slot = if entry.free_head == NO_SLOT {
            entry.used += 1;
            entry.used - 1
        } else {
            let slot = entry.free_head;
            let location = entry.start + usize::from(slot) * slot_words;
            entry.free_head = slots.next_free(location);
            slot
        };
        entry.free -= 1;
        slots.note_taken(true);
        let (location, full) = (entry.start + usize::from(slot) * slot_words, entry.free == 0);
        let partition = entry.partition;
        self.ring_mut(partition).free -= 1;
        if full {
            self.unlink_free(run);
        }
        location
    }

    /// Takes a slot back. Its record is in no index any more.
    pub(crate) fn give(&mut self, slots: &mut impl Slots, run: u32, location: usize) {
        let slot_words = self.slot_words;
        let entry = &mut self.table[run as usize];
        let slot = (location - entry.start) / slot_words;
        slots.set_next_free(location, entry.free_head);
        entry.free_head = u16::try_from(slot).expect("invariant: at most 4096 slots");
        entry.free += 1;
        slots.note_taken(false);
        assert!(usize::from(entry.free) <= self.slots_per_run, "a slot was freed twice");
        if entry.draining {
            return;
        }
        let (is_first, partition) = (entry.free == 1, entry.partition);
        self.ring_mut(partition).free += 1;
        if is_first {
            self.link_free(run);
        }
    }

    /// The run that is so many words behind the start of a block.
    pub(crate) fn run_at(&self, first_run: u32, words: usize) -> u32 {
        first_run + index_u32(words / self.run_words)
    }

    /// The number of a slot, which is in this run.
    pub(crate) fn number_of(&self, run: u32, slot: usize) -> u32 {
        let place = (slot - self.start(run)) / self.slot_words;
        index_u32(run as usize * self.slots_per_run + place)
    }

    /// The slot with a number.
    pub(crate) fn slot_at(&self, number: u32) -> usize {
        let (run, place) =
            (number as usize / self.slots_per_run, number as usize % self.slots_per_run);
        self.table[run].start + place * self.slot_words
    }

    /// Slots of all runs.
    pub(crate) fn slots_of_all(&self) -> usize {
        (self.rings[0].runs + self.rings[1].runs) * self.slots_per_run
    }

    /// How large the partitions are that runs belong to.
    #[inline]
    pub(crate) fn sizes(&self) -> Sizes {
        let size = |ring: &Ring| ring.runs * self.slots_per_run - (ring.free & self.free_mask);
        let [temporary, hot] = [size(&self.rings[0]), size(&self.rings[1])];
        Sizes { of: [temporary, hot, 0], all: temporary + hot }
    }

    /// The slots of a run that have ever been used, in order.
    pub(crate) fn slots(&self, run: u32) -> impl Iterator<Item = usize> + use<> {
        let (start, words) = (self.run(run).start, self.slot_words);
        (0..usize::from(self.run(run).used)).map(move |slot| start + slot * words)
    }

    /// Words of a slot.
    pub(crate) fn slot_words(&self) -> usize {
        self.slot_words
    }

    /// Slots that hold a record, or belong to a writer on its way.
    pub(crate) fn taken(&self) -> usize {
        let free = |run: &Run| usize::from(run.free);
        self.table.iter().map(|run| self.slots_per_run - free(run)).sum()
    }

    /// The first word of the block whose runs start with this one, if there is one.
    pub(crate) fn start_of(&self, first_run: u32) -> Option<usize> {
        let run = self.table.get(first_run as usize)?;
        (run.start != NO_START).then_some(run.start)
    }

    /// First run and first word of the block at a cursor that goes round all blocks in use and is
    /// moved on.
    pub(crate) fn next_block(&self, cursor: &mut u32) -> Option<(u32, usize)> {
        let step = index_u32(self.runs_per_block);
        for _ in 0..self.table.len() / self.runs_per_block {
            let first_run = if (*cursor as usize) < self.table.len() { *cursor } else { 0 };
            *cursor = first_run + step;
            if !self.run(first_run).draining {
                return Some((first_run, self.start(first_run)));
            }
        }
        None
    }

    /// First word of a run.
    pub(crate) fn start(&self, run: u32) -> usize {
        self.run(run).start
    }
}

fn index_u32(number: usize) -> u32 {
    u32::try_from(number).expect("invariant: numbers of runs and of linked slots fit")
}
