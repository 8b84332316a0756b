//! Records of one size class and one shard: their slots, and who has to go.
//!
//! A block of the arena belongs to one sub-table and is cut into runs; every run belongs to one
//! partition. A partition's runs form a ring that a hand walks: the record it meets goes, stays or
//! moves as the policy says, and a new record takes the slot. So first-in-first-out order costs no
//! link per record, and nothing is copied but a record that becomes hot.
//!
//! Thread safety: everything is behind the sub-table's lock. Under it bucket locks are tried, never
//! waited for, because writers allocate before they lock a bucket. Invariants:
//! 1. Only the thread that took a location out of the index frees its slot.
//! 2. A slot that is neither free nor in the index belongs to a writer on its way; hands pass it.

mod drain;
mod evict;
mod pace;
mod runs;
mod sweep;

use base::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    lock,
};

use self::{evict::Ahead, pace::Pace, runs::Runs};
use crate::{
    blocks::Owner,
    geometry::{
        BLOCK_BYTES, BLOCK_WORDS, RUN_MIN_BYTES, WORD_BYTES, class_slot_bytes, is_head_class,
        run_bytes,
    },
    memory::Memory,
    policy::{Partition, Policy, Shares},
};

/// Records of one class and one shard.
#[derive(Debug)]
pub(crate) struct SubTable {
    number: usize,
    state: Mutex<State>,
    /// Blocks it owns, for those who look for one to take from.
    blocks: AtomicUsize,
    /// How fast it turns over.
    pace: Pace,
}

/// A sub-table in numbers, to be summed. Counters since start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) evictions: u64,
    pub(crate) evicted_unfetched: u64,
    pub(crate) reclaimed: u64,
    /// Bytes of slots that hold records, now.
    pub(crate) taken_bytes: usize,
    /// Heap bytes of its tables, now.
    pub(crate) table_bytes: usize,
}

#[derive(Debug)]
struct State {
    runs: Runs,
    policy: Box<dyn Policy>,
    /// Its records are heads of values in parts.
    of_heads: bool,
    ahead: Ahead,
    /// First runs of blocks that wait for writers on their way before they can be given back.
    draining: Vec<u32>,
    counters: Summary,
    /// Bytes evicted since the last lap.
    evicted_bytes: usize,
    /// Allocations since expired records were looked for.
    since_sweep: usize,
    /// Where the next look for expired records begins.
    sweep_cursor: u32,
}

/// What a new record needs to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    /// Hash of its key.
    pub(crate) hash: u64,
    /// The time that expiry is judged by.
    pub(crate) now_ms: u64,
}

/// No slot without another block or without evicting what cannot be evicted now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoSlot;

impl SubTable {
    /// Heap bytes of its runs for each block.
    pub(crate) const RUN_TABLE_BYTES_PER_BLOCK: usize =
        runs::RUN_BYTES * (BLOCK_BYTES / RUN_MIN_BYTES);

    /// Its number among all sub-tables.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// An empty sub-table.
    pub(crate) fn new(number: usize, class: usize, policy: Box<dyn Policy>) -> Self {
        let slot_bytes = class_slot_bytes(class);
        Self {
            number,
            state: Mutex::new(State {
                runs: Runs::new(slot_bytes, run_bytes(slot_bytes)),
                policy,
                of_heads: is_head_class(class),
                ahead: Ahead::default(),
                draining: Vec::new(),
                counters: Summary::default(),
                evicted_bytes: 0,
                since_sweep: 0,
                sweep_cursor: 0,
            }),
            blocks: AtomicUsize::new(0),
            pace: Pace::default(),
        }
    }

    /// Bytes of the arena that it and its values take.
    pub(crate) fn bytes(&self, memory: &Memory) -> usize {
        self.blocks() * BLOCK_BYTES + memory.value_bytes[self.number].load(Ordering::Relaxed)
    }

    /// How long a record that is not hit stays here, in milliseconds, as far as can be told.
    pub(crate) fn residence_ms(&self, memory: &Memory, now_ms: u64) -> u64 {
        self.pace.residence_ms((self.bytes(memory) / BLOCK_BYTES) as u64, now_ms)
    }

    /// How many times longer than `own_ms` a record that is not hit stays here.
    pub(crate) fn residence_ratio(&self, memory: &Memory, own_ms: u64, now_ms: u64) -> u64 {
        self.pace.ratio((self.bytes(memory) / BLOCK_BYTES) as u64, own_ms, now_ms)
    }

    /// Whether its pace has been measured long enough, since it last took a block from another one,
    /// to take one from a sub-table whose records stay `ratio` times longer; if so, it is measured
    /// anew from here.
    pub(crate) fn may_take(&self, ratio: u64) -> bool {
        self.pace.may_take(ratio)
    }

    /// What happened here, and what it holds.
    pub(crate) fn summary(&self) -> Summary {
        let state = lock(&self.state);
        Summary {
            taken_bytes: state.runs.taken() * state.runs.slot_words() * WORD_BYTES,
            table_bytes: state.runs.table_bytes(),
            ..state.counters
        }
    }

    /// Blocks it owns.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    /// A slot for a new record: a free one, one of a fresh block, or a victim's. Also says whether
    /// a block's worth of bytes has been evicted since this was said last.
    pub(crate) fn allocate(
        &self,
        memory: &Memory,
        newcomer: Newcomer,
    ) -> Result<(usize, bool), NoSlot> {
        let mut state = lock(&self.state);
        let shares = state.shares();
        let remembered = memory.ghosts.take(&memory.arena, newcomer.hash);
        let partition = state.policy.admit(remembered, shares);
        if let Some(location) = state.runs.take_free(memory, partition) {
            return Ok((location, false));
        }
        if let Some(block) = memory.blocks.take(&memory.qsbr) {
            self.add_block(memory, &mut state, block, newcomer.now_ms);
            let location = state.runs.take_free(memory, Partition::Temporary);
            return location.map(|location| (location, false)).ok_or(NoSlot);
        }
        state.reclaim_expired(memory, newcomer.now_ms);
        let location = state.make_slot(memory, partition).ok_or(NoSlot)?;
        let lap = state.evicted_bytes >= BLOCK_BYTES;
        if lap {
            state.evicted_bytes -= BLOCK_BYTES;
            self.pace.lap(newcomer.now_ms);
        }
        Ok((location, lap))
    }

    /// Adds a block to the sub-table.
    pub(crate) fn supply(&self, memory: &Memory, block: u32, now_ms: u64) {
        self.add_block(memory, &mut lock(&self.state), block, now_ms);
    }

    fn add_block(&self, memory: &Memory, state: &mut State, block: u32, now_ms: u64) {
        let first_run = state.runs.next_first_run();
        memory.blocks.set_owner(block, Owner::SubTable { number: self.number, first_run });
        let added = state.runs.add_block(block, Partition::Temporary);
        assert_eq!(added, first_run, "a block's runs are where its owner says");
        if self.blocks.fetch_add(1, Ordering::Relaxed) == 0 {
            self.pace.start(now_ms);
        }
    }

    /// Frees a slot whose record the caller took out of the index, or never put in.
    pub(crate) fn free(&self, memory: &Memory, location: usize) {
        let mut state = lock(&self.state);
        state.give(memory, location);
        if !state.draining.is_empty() {
            self.finish_drains(memory, &mut state);
        }
    }
}

impl State {
    fn shares(&self) -> Shares {
        let run = self.runs.slots_per_run;
        Shares {
            temporary: self.runs.ring(Partition::Temporary).runs * run,
            hot: self.runs.ring(Partition::Hot).runs * run,
            run,
        }
    }

    fn give(&mut self, memory: &Memory, location: usize) {
        let Owner::SubTable { first_run, .. } = memory.blocks.owner(location / BLOCK_WORDS) else {
            unreachable!("a slot's block belongs to its sub-table until every slot is home");
        };
        let run = self.runs.run_at(first_run, location);
        self.runs.give(memory, run, location);
    }
}
