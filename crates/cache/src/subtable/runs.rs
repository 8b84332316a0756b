//! Runs of slots: which are free, and in which order the hands meet them.

#[cfg(all(test, not(loom)))]
mod checks;

use base::sync::atomic::Ordering;

use crate::{geometry::BLOCK_WORDS, memory::Memory, policy::Partition};

/// No run.
pub(super) const NO_RUN: u32 = u32::MAX;
/// No slot.
const NO_SLOT: u16 = u16::MAX;
/// A free slot's first word: no key (the low byte), and the next free slot behind it.
const NEXT_FREE_SHIFT: u32 = 8;

/// Bytes of the entry for one run.
pub(super) const RUN_BYTES: usize = size_of::<Run>();

/// Slots of one size behind each other, all of one partition.
#[derive(Clone, Debug)]
pub(super) struct Run {
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
    pub(super) partition: Partition,
    /// Its block is being given back: it is in no ring and its free slots in no list.
    pub(super) draining: bool,
}

/// The runs of one partition: a ring in first-in-first-out order, and a hand in it.
#[derive(Debug)]
pub(super) struct Ring {
    hand: u32,
    hand_slot: u16,
    first_free: u32,
    pub(super) runs: usize,
}

/// All runs of a sub-table.
#[derive(Debug)]
pub(super) struct Runs {
    slot_words: usize,
    pub(super) slots_per_run: usize,
    pub(super) runs_per_block: usize,
    table: Vec<Run>,
    /// First runs of blocks that were given back.
    vacant: Vec<u32>,
    rings: [Ring; 2],
}

fn ring_of(partition: Partition) -> usize {
    match partition {
        Partition::Temporary => 0,
        Partition::Hot => 1,
    }
}

impl Runs {
    pub(super) fn new(slot_bytes: usize, run_bytes: usize) -> Self {
        let ring = || Ring { hand: NO_RUN, hand_slot: 0, first_free: NO_RUN, runs: 0 };
        Self {
            slot_words: slot_bytes / 8,
            slots_per_run: run_bytes / slot_bytes,
            runs_per_block: BLOCK_WORDS * 8 / run_bytes,
            table: Vec::new(),
            vacant: Vec::new(),
            rings: [ring(), ring()],
        }
    }

    pub(super) fn ring(&self, partition: Partition) -> &Ring {
        &self.rings[ring_of(partition)]
    }

    fn ring_mut(&mut self, partition: Partition) -> &mut Ring {
        &mut self.rings[ring_of(partition)]
    }

    pub(super) fn run(&self, run: u32) -> &Run {
        &self.table[run as usize]
    }

    /// Heap bytes of the table of runs.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.capacity() * size_of::<Run>() + self.vacant.capacity() * size_of::<u32>()
    }

    /// The number that the first run of the next block will have.
    pub(super) fn next_first_run(&self) -> u32 {
        self.vacant.last().copied().unwrap_or_else(|| index_u32(self.table.len()))
    }

    /// Adds a block, its slots all free, behind everything else in `partition`. Returns its first
    /// run.
    pub(super) fn add_block(&mut self, block: u32, partition: Partition) -> u32 {
        let run_words = BLOCK_WORDS / self.runs_per_block;
        let first = self.next_first_run();
        if self.vacant.pop().is_none() {
            let blank = self.blank(0, partition);
            self.table.resize(self.table.len() + self.runs_per_block, blank);
        }
        for at in 0..self.runs_per_block {
            let run = first + index_u32(at);
            self.table[run as usize] =
                self.blank(block as usize * BLOCK_WORDS + at * run_words, partition);
            self.link(run);
        }
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

    /// Puts a run behind all others of its partition: the hand meets it last.
    fn link(&mut self, run: u32) {
        let partition = self.table[run as usize].partition;
        let hand = self.ring(partition).hand;
        let (previous, next) =
            if hand == NO_RUN { (run, run) } else { (self.run(hand).previous, hand) };
        let entry = &mut self.table[run as usize];
        (entry.previous, entry.next) = (previous, next);
        self.table[previous as usize].next = run;
        self.table[next as usize].previous = run;
        let ring = self.ring_mut(partition);
        ring.runs += 1;
        if hand == NO_RUN {
            (ring.hand, ring.hand_slot) = (run, 0);
        }
        if self.run(run).free > 0 {
            self.link_free(run);
        }
    }

    /// Takes a run out of its ring.
    fn unlink(&mut self, run: u32) {
        let Run { previous, next, partition, free, .. } = *self.run(run);
        if free > 0 {
            self.unlink_free(run);
        }
        self.table[previous as usize].next = next;
        self.table[next as usize].previous = previous;
        let ring = self.ring_mut(partition);
        ring.runs -= 1;
        if ring.hand == run {
            (ring.hand, ring.hand_slot) = (if next == run { NO_RUN } else { next }, 0);
        }
    }

    fn link_free(&mut self, run: u32) {
        let partition = self.run(run).partition;
        let head = self.ring(partition).first_free;
        let entry = &mut self.table[run as usize];
        (entry.free_previous, entry.free_next) = (NO_RUN, head);
        if head != NO_RUN {
            self.table[head as usize].free_previous = run;
        }
        self.ring_mut(partition).first_free = run;
    }

    fn unlink_free(&mut self, run: u32) {
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

    /// Moves a run to the other partition: behind all others there, so its records are judged
    /// anew only after a whole lap, or just before the hand's run, so they are judged next.
    pub(super) fn relabel(&mut self, run: u32, next_to_judge: bool) {
        self.unlink(run);
        let entry = &mut self.table[run as usize];
        entry.partition = match entry.partition {
            Partition::Temporary => Partition::Hot,
            Partition::Hot => Partition::Temporary,
        };
        let partition = entry.partition;
        self.link(run);
        if next_to_judge {
            // Being behind all others, it is also the one in front of the hand's run.
            let ring = self.ring_mut(partition);
            (ring.hand, ring.hand_slot) = (run, 0);
        }
    }

    /// Takes the runs of a block out of everything, before it is given back.
    pub(super) fn begin_drain(&mut self, first_run: u32) {
        for run in first_run..first_run + index_u32(self.runs_per_block) {
            if !self.run(run).draining {
                self.unlink(run);
                self.table[run as usize].draining = true;
            }
        }
    }

    /// Whether every slot of a draining block has come home; its runs are then forgotten.
    pub(super) fn end_drain(&mut self, first_run: u32) -> bool {
        let runs = first_run..first_run + index_u32(self.runs_per_block);
        if runs.clone().any(|run| usize::from(self.run(run).free) < self.slots_per_run) {
            return false;
        }
        self.vacant.push(first_run);
        true
    }

    /// Takes a free slot of a partition.
    pub(super) fn take_free(&mut self, memory: &Memory, partition: Partition) -> Option<usize> {
        let run = self.ring(partition).first_free;
        (run != NO_RUN).then(|| self.take_free_of(memory, run))
    }

    fn take_free_of(&mut self, memory: &Memory, run: u32) -> usize {
        let slot_words = self.slot_words;
        let entry = &mut self.table[run as usize];
        let slot = if entry.free_head == NO_SLOT {
            entry.used += 1;
            entry.used - 1
        } else {
            let slot = entry.free_head;
            let location = entry.start + usize::from(slot) * slot_words;
            let word = memory.arena.word(location).load(Ordering::Relaxed);
            entry.free_head = (word >> NEXT_FREE_SHIFT & 0xffff) as u16;
            slot
        };
        entry.free -= 1;
        memory.records.fetch_add(1, Ordering::Relaxed);
        let (location, full) = (entry.start + usize::from(slot) * slot_words, entry.free == 0);
        if full {
            self.unlink_free(run);
        }
        location
    }

    /// Takes a slot back. Its record is in no index any more.
    pub(super) fn give(&mut self, memory: &Memory, run: u32, location: usize) {
        let slot_words = self.slot_words;
        let entry = &mut self.table[run as usize];
        let slot = (location - entry.start) / slot_words;
        let next = u64::from(entry.free_head) << NEXT_FREE_SHIFT;
        memory.arena.word(location).store(next, Ordering::Relaxed);
        entry.free_head = u16::try_from(slot).expect("invariant: at most 4096 slots");
        entry.free += 1;
        memory.records.fetch_sub(1, Ordering::Relaxed);
        assert!(usize::from(entry.free) <= self.slots_per_run, "a slot was freed twice");
        if entry.free == 1 && !entry.draining {
            self.link_free(run);
        }
    }

    /// The run of a block that a location is in.
    pub(super) fn run_at(&self, first_run: u32, location: usize) -> u32 {
        let run_words = BLOCK_WORDS / self.runs_per_block;
        first_run + index_u32(location % BLOCK_WORDS / run_words)
    }

    /// The slots of a run that have ever been used, in order.
    pub(super) fn slots(&self, run: u32) -> impl Iterator<Item = usize> + use<> {
        let (start, words) = (self.run(run).start, self.slot_words);
        (0..usize::from(self.run(run).used)).map(move |slot| start + slot * words)
    }

    /// Moves the hand over one slot and returns it. `None` when the partition has no runs.
    pub(super) fn advance(&mut self, partition: Partition) -> Option<usize> {
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
    pub(super) fn peek(&self, partition: Partition, ahead: u16) -> Option<usize> {
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

    /// The run whose records the hand meets next after its own.
    pub(super) fn behind_hand(&self, partition: Partition) -> Option<u32> {
        let hand = self.ring(partition).hand;
        (hand != NO_RUN).then(|| self.run(hand).next).filter(|&next| next != hand)
    }

    /// The run that the hand is in.
    pub(super) fn at_hand(&self, partition: Partition) -> Option<u32> {
        Some(self.ring(partition).hand).filter(|&hand| hand != NO_RUN)
    }

    /// Whether a partition has free slots.
    pub(super) fn has_free(&self, partition: Partition) -> bool {
        self.ring(partition).first_free != NO_RUN
    }

    /// Words of a slot.
    pub(super) fn slot_words(&self) -> usize {
        self.slot_words
    }

    /// Slots that hold a record, or belong to a writer on its way.
    pub(super) fn taken(&self) -> usize {
        let free = |run: &Run| usize::from(run.free);
        self.table.iter().map(|run| self.slots_per_run - free(run)).sum()
    }

    /// The block whose runs start with this one, if there is one.
    pub(super) fn block_of(&self, first_run: u32) -> Option<usize> {
        let run = self.table.get(first_run as usize)?;
        (!self.vacant.contains(&first_run)).then_some(run.start / BLOCK_WORDS)
    }

    /// The first run and the block at a cursor that goes round all blocks in use and is moved on.
    pub(super) fn next_block(&self, cursor: &mut u32) -> Option<(u32, usize)> {
        let step = index_u32(self.runs_per_block);
        for _ in 0..self.table.len() / self.runs_per_block {
            let first_run = if (*cursor as usize) < self.table.len() { *cursor } else { 0 };
            *cursor = first_run + step;
            if !self.run(first_run).draining {
                return Some((first_run, self.start(first_run) / BLOCK_WORDS));
            }
        }
        None
    }

    /// First word of a run.
    pub(super) fn start(&self, run: u32) -> usize {
        self.run(run).start
    }
}

fn index_u32(number: usize) -> u32 {
    u32::try_from(number).expect("invariant: an arena has fewer than 2^32 runs")
}
