//! Memory that follows its limit and its use: blocks given back to the system after the limit was
//! lowered, and tables of the past given back to the arena.
//!
//! Lowering the limit takes effect step by step, and a step that cannot be reached is taken back:
//! what is pinned, or cannot be freed for another reason, must not keep others from storing. So
//! what a thread does in the middle of a command is bounded by a step and the reserve.

use base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    lock,
};

use super::{Table, size::arena_blocks};
use crate::{
    ConfigError,
    geometry::{ARENA_MIN_BLOCKS, BLOCK_BYTES, BLOCK_LINES},
    index::Merge,
};

/// Blocks by which the limit is lowered at a time: 1 MiB, whose records are evicted within some
/// milliseconds.
const STEP_BLOCKS: usize = 16;

/// Free blocks given back to the system at a time: some 10 us each.
const STEP_RETURNS: usize = 128;

/// Buckets merged at a time: as many bytes as above, some 200 ns each.
const STEP_MERGES: usize = STEP_BLOCKS * BLOCK_LINES;

/// What the memory of a table is to become.
#[derive(Debug)]
pub(super) struct Fit {
    /// Blocks that the arena is to have.
    target: AtomicUsize,
    /// Blocks that it had when that was asked for: a step that is taken back leads no higher.
    ceiling: AtomicUsize,
    /// Buckets are being merged.
    merging: AtomicBool,
    /// Held by the thread that makes it fit.
    turn: Mutex<()>,
}

impl Fit {
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            target: AtomicUsize::new(blocks),
            ceiling: AtomicUsize::new(blocks),
            merging: AtomicBool::new(false),
            turn: Mutex::new(()),
        }
    }
}

impl Table {
    /// Changes the budget. More memory is there at once, less is reached by [`Self::fit`].
    pub(crate) fn set_memory(&self, memory_bytes: u64) -> Result<(), ConfigError> {
        let max = self.config.memory_max_bytes;
        if memory_bytes > max {
            return Err(ConfigError::MemoryAboveMax { got: memory_bytes, max });
        }
        let target = arena_blocks(&self.config, memory_bytes)?;
        // Half of it for records, at least.
        let least = 2 * self.memory.index.least_blocks() + ARENA_MIN_BLOCKS;
        if target < least {
            let [got, min] = [target, least].map(|blocks| (blocks * BLOCK_BYTES) as u64);
            return Err(ConfigError::MemoryTooSmall { got, min });
        }
        let _turn = lock(&self.fit.turn);
        self.fit.target.store(target, Ordering::Relaxed);
        self.fit.ceiling.store(self.memory.blocks.limit().max(target), Ordering::Relaxed);
        if target >= self.memory.blocks.limit() {
            self.memory.blocks.set_limit(target);
            self.memory.arena.use_huge_pages(true);
        }
        Ok(())
    }

    /// One step towards what memory is to become. Returns whether there is more to do at once.
    pub(crate) fn fit(&self, now_ms: u64) -> bool {
        let Ok(_turn) = self.fit.turn.try_lock() else { return false };
        self.memory.index.end_stalled_walk(now_ms);
        self.return_ghosts();
        self.memory.pieces.begin_round();
        // What the index gives back need not be evicted.
        let more = self.compact() || self.merge_buckets() || self.lower_limit(now_ms);
        self.return_blocks() || more
    }

    /// Makes free blocks of free slots when there are few, so that they can be used for records of
    /// another size: what expired, say.
    fn compact(&self) -> bool {
        let scarce = || self.memory.blocks.is_scarce();
        (0..STEP_BLOCKS).all(|_| scarce() && self.take_spare())
    }

    fn lower_limit(&self, now_ms: u64) -> bool {
        let blocks = &self.memory.blocks;
        let (limit, target) = (blocks.limit(), self.fit.target.load(Ordering::Relaxed));
        if limit <= target {
            return false;
        }
        // Free blocks cost nothing.
        let lower = limit.saturating_sub(blocks.available().max(STEP_BLOCKS)).max(target);
        blocks.set_limit(lower);
        self.memory.arena.use_huge_pages(false);
        self.refill_reserve(None, now_ms);
        if blocks.is_short() {
            // It cannot be had now. With less than this others would turn each other out until the
            // next attempt.
            let enough = blocks.taken() + blocks.reserve() + STEP_BLOCKS;
            let ceiling = self.fit.ceiling.load(Ordering::Relaxed);
            blocks.set_limit(enough.clamp(lower, ceiling.min(limit + STEP_BLOCKS)));
        }
        blocks.limit() < limit
    }

    /// Undoes growth of the index that records no longer need, when their memory is needed.
    fn merge_buckets(&self) -> bool {
        let memory = &self.memory;
        let already = self.fit.merging.load(Ordering::Relaxed);
        let wants = |already| {
            let records = memory.records.load(Ordering::Relaxed);
            (already || memory.blocks.is_scarce()) && memory.index.wants_merges(records, already)
        };
        if !wants(already) {
            self.fit.merging.store(false, Ordering::Relaxed);
            return false;
        }
        self.fit.merging.store(true, Ordering::Relaxed);
        for _ in 0..STEP_MERGES {
            match memory.index.merge(&memory.arena) {
                Merge::Done => {}
                Merge::DoneWith(block) => memory.blocks.retire(&memory.qsbr, block),
                Merge::NotNow => return false,
            }
            if !wants(true) {
                return false;
            }
        }
        true
    }

    /// Takes blocks from the ghosts when they have more than records can use.
    fn return_ghosts(&self) {
        let memory = &self.memory;
        for _ in 0..STEP_BLOCKS {
            if memory.blocks.is_scarce()
                && let Some(block) = memory.ghosts.give_back(memory.records.load(Ordering::Relaxed))
            {
                memory.blocks.retire(&memory.qsbr, block);
            }
        }
    }

    /// Lowers the limit to what is in use, and gives all other blocks back to the system. For a
    /// table in which nothing is stored any more.
    pub(crate) fn return_unused(&self) {
        let _turn = lock(&self.fit.turn);
        let blocks = &self.memory.blocks;
        self.memory.arena.use_huge_pages(false);
        blocks.set_limit(blocks.taken());
        while self.return_blocks() {}
    }

    /// Gives free blocks above the limit back to the system. Returns whether there may be more.
    fn return_blocks(&self) -> bool {
        let memory = &self.memory;
        for _ in 0..STEP_RETURNS {
            let Some(block) = memory.blocks.take_surplus(&memory.qsbr) else { return false };
            memory.arena.discard(&block);
            memory.blocks.returned(block);
        }
        true
    }
}
