//! Giving a block back, for another class, for the index, or for a large value.

use base::sync::{atomic::Ordering, lock};

use super::{State, SubTable};
use crate::{
    blocks::Owner,
    geometry::{BLOCK_BYTES, BLOCK_WORDS},
    memory::Memory,
};

impl SubTable {
    /// Moves what is in one block to free slots as far as there are some, evicts the rest,
    /// and retires the block. Returns whether one is on its way. Does nothing while
    /// another thread is at work in this sub-table.
    pub(crate) fn give_block(&self, memory: &Memory) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let (order, runs, mut ground) = state.parts(memory);
        let Some(run) = order.next_run(runs, &mut ground) else {
            return self.finish_drains(memory, &mut state);
        };
        let block = state.runs.start(run) / BLOCK_WORDS;
        let Owner::SubTable { first_run, .. } = memory.blocks.owner(block) else {
            unreachable!("a run's block belongs to its sub-table");
        };
        state.runs.begin_drain(first_run);
        state.draining.push(first_run);
        let retired = self.finish_drains(memory, &mut state);
        self.note_free_slots(memory, &state);
        retired
    }

    /// Retires a block of these runs if it has no record. What it has moves nowhere.
    pub(crate) fn retire_if_empty(&self, memory: &Memory, first_run: u32, block: usize) {
        let mut state = lock(&self.state);
        if state.owns(memory, first_run, block) && state.runs.is_free_block(first_run) {
            state.runs.begin_drain(first_run);
            state.draining.push(first_run);
            self.retire_drained(memory, &mut state);
            self.note_free_slots(memory, &state);
        }
    }

    /// Evicts heads until a block's worth of values is free, or will be when those who send them
    /// are done. Returns whether anything was evicted.
    pub(crate) fn give_value(&self, memory: &Memory) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let before = state.tally.evicted_bytes;
        while state.tally.evicted_bytes < before + BLOCK_BYTES {
            let evictions = state.tally.evictions;
            let (order, runs, mut ground) = state.parts(memory);
            match order.turn_out(runs, &mut ground) {
                Some(location) => state.give(memory, location),
                None if state.tally.evictions == evictions => break,
                // It is gone, and free when the last of its readers is done.
                None => {}
            }
        }
        self.note_free_slots(memory, &state);
        state.tally.evicted_bytes > before
    }

    /// Empties draining blocks as far as possible and retires those that are empty. Returns
    /// whether one was.
    pub(super) fn finish_drains(&self, memory: &Memory, state: &mut State) -> bool {
        for at in 0..state.draining.len() {
            let first_run = state.draining[at];
            state.empty_block(memory, first_run);
        }
        self.retire_drained(memory, state)
    }

    /// Retires the draining blocks that are empty. Returns whether one was.
    pub(super) fn retire_drained(&self, memory: &Memory, state: &mut State) -> bool {
        let draining = std::mem::take(&mut state.draining);
        let mut retired = false;
        for first_run in draining {
            if let Some(start) = state.runs.end_drain(first_run) {
                let block = start / BLOCK_WORDS;
                let block = u32::try_from(block).expect("invariant: fewer than 2^32 blocks");
                memory.blocks.retire(&memory.qsbr, block);
                self.blocks.fetch_sub(1, Ordering::Relaxed);
                retired = true;
            } else {
                state.draining.push(first_run);
            }
        }
        retired
    }
}

impl State {
    fn empty_block(&mut self, memory: &Memory, first_run: u32) {
        let count = u32::try_from(self.runs.runs_per_block).expect("invariant: at most 16");
        let (order, runs, mut ground) = self.parts(memory);
        for run in first_run..first_run + count {
            order.empty_run(runs, &mut ground, run);
        }
    }
}
