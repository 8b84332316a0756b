//! Records of one size class and one shard: their slots, and who has to go.
//!
//! A block of the arena belongs to one sub-table and is cut into runs of slots. Which record makes
//! room for a new one is said by the sub-table's order (`crate::order`) and its policy; here is
//! what they work on, and what they do not decide: taking blocks and giving them back, expiry,
//! pace.
//!
//! Thread safety: everything is behind the sub-table's lock. Under it bucket locks are tried, never
//! waited for, because writers allocate before they lock a bucket. Invariants:
//! 1. Only the thread that took a location out of the index frees its slot.
//! 2. A slot that is neither free nor in the index belongs to a writer on its way; orders pass it.

#[cfg(all(test, not(loom)))]
mod checks;
mod drain;
mod ground;
mod pace;
mod sweep;

use std::cell::Cell;

use base::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
    lock,
};

use self::{
    ground::{Ground, Seen, Shape},
    pace::Pace,
};
use crate::{
    PolicyKind,
    blocks::Owner,
    geometry::{
        BLOCK_BYTES, BLOCK_WORDS, RUN_MIN_BYTES, WORD_BYTES, class_record_bytes, class_slot_bytes,
        is_head_class, run_bytes,
    },
    memory::Memory,
    order::{self, Order, Runs, Slots as _},
    policy::Partition,
};

/// Records of one class and one shard, on lines of its own: each new record writes it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct SubTable {
    number: usize,
    state: Mutex<State>,
    /// Blocks it owns, for those who look for one to take from.
    blocks: AtomicUsize,
    /// Free slots, for the same.
    free_slots: AtomicUsize,
    slots_per_block: usize,
    /// How fast it turns over.
    pace: Pace,
    /// Of the size of its records: see [`pace`].
    weight: u64,
}

/// A sub-table in numbers, to be summed. Counters since start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) evictions: u64,
    pub(crate) evicted_unfetched: u64,
    pub(crate) reclaimed: u64,
    pub(crate) expired_unfetched: u64,
    pub(crate) swept: u64,
    /// Bytes of slots that hold records, now.
    pub(crate) taken_bytes: usize,
    /// Heap bytes of its tables, now.
    pub(crate) table_bytes: usize,
}

/// What has happened here.
#[derive(Debug, Default)]
struct Tally {
    evictions: u64,
    evicted_unfetched: u64,
    reclaimed: u64,
    /// Of these, those that had expired and nobody had read.
    expired_unfetched: u64,
    /// Records that a sweep has looked at.
    swept: u64,
    /// Bytes evicted since the last lap.
    evicted_bytes: usize,
}

#[derive(Debug)]
struct State {
    runs: Runs,
    order: Box<dyn OrderHere>,
    shape: Shape,
    tally: Tally,
    /// First runs of blocks that wait for writers on their way before they can be given back.
    draining: Vec<u32>,
    /// Allocations since expired records were looked for.
    since_sweep: usize,
    /// Where the next look for expired records begins.
    sweep_cursor: u32,
}

/// An order over the slots of a sub-table.
trait OrderHere: for<'m> Order<Ground<'m>> {}
impl<T: for<'m> Order<Ground<'m>>> OrderHere for T {}

/// What a new record needs to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer<'w> {
    /// Whose turn it is to take it.
    pub(crate) turn: &'w Turn,
    /// The hash of its key, whose present record is not evicted for it.
    pub(crate) hash: u64,
    /// The partition that its key left not long ago.
    pub(crate) left: Option<Partition>,
    /// The time that expiry is judged by.
    pub(crate) now_ms: u64,
}

/// Which shard a worker's new records go to: one after the other, each for some records on end.
///
/// So what a sub-table's lock guards stays in the caches of the core that uses it, and so does what
/// was prefetched ahead of its hands; two workers that meet in a shard part at once. A shard by
/// hash of the key was another one with every record: with two cores, every second time it was the
/// other one's.
#[derive(Debug)]
pub(crate) struct Turn(Cell<usize>);

impl Turn {
    /// Bytes that go to one shard on end: those of the smallest run, far less than a sub-table has.
    /// Of values in parts, each goes to another one: there may be few.
    const BYTES: usize = RUN_MIN_BYTES;

    /// That of the worker at a place among all workers.
    pub(crate) fn new(place: usize) -> Self {
        Self(Cell::new(place * Self::BYTES))
    }

    /// The shard of so many, a power of two.
    #[inline]
    pub(crate) fn shard(&self, shards: usize) -> usize {
        (self.0.get() / Self::BYTES) & (shards - 1)
    }

    /// So many bytes have been taken.
    #[inline]
    fn pass(&self, bytes: usize) {
        self.0.set(self.0.get().wrapping_add(bytes));
    }

    /// Goes on to the next shard.
    pub(crate) fn skip(&self) {
        self.0.set((self.0.get() / Self::BYTES + 1).wrapping_mul(Self::BYTES));
    }
}

/// No slot without another block or without evicting what cannot be evicted now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoSlot;

/// Words of links behind each record of a sub-table that hears of hits.
const LINK_WORDS: usize = 1;

/// Bytes of the smallest slot with links: a short key and a value of a few bytes.
const LINKED_SLOT_MIN_BYTES: usize = 3 * WORD_BYTES;

impl SubTable {
    /// Heap bytes of its runs for each block.
    pub(crate) const RUN_TABLE_BYTES_PER_BLOCK: usize =
        order::RUN_BYTES * (BLOCK_BYTES / RUN_MIN_BYTES);

    /// Bytes of the arena for one sub-table that links can lead through, if all of it is the
    /// smallest slots. Half of what fits: shards are not exactly even.
    pub(crate) const LINKED_MAX_BYTES: u64 = order::SLOTS_MAX / 2 * LINKED_SLOT_MIN_BYTES as u64;

    /// Its number among all sub-tables.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// An empty sub-table.
    pub(crate) fn new(number: usize, class: usize, policy: PolicyKind) -> Self {
        let record_words = class_slot_bytes(class) / WORD_BYTES;
        let slot_words = record_words + if policy.hears_hits() { LINK_WORDS } else { 0 };
        let run_words = run_bytes(slot_words * WORD_BYTES) / WORD_BYTES;
        let runs = Runs::new(slot_words, run_words, BLOCK_WORDS);
        let runs = if is_head_class(class) { runs.by_records() } else { runs };
        Self {
            number,
            free_slots: AtomicUsize::new(0),
            slots_per_block: runs.slots_per_block(),
            state: Mutex::new(State {
                runs,
                order: order::of_kind!(policy, Seen),
                shape: Shape {
                    slot_words,
                    record_words,
                    of_heads: is_head_class(class),
                    limits_partitions: policy.limits_partitions(),
                },
                tally: Tally::default(),
                draining: Vec::new(),
                since_sweep: 0,
                sweep_cursor: 0,
            }),
            blocks: AtomicUsize::new(0),
            pace: Pace::default(),
            weight: pace::weight(class_record_bytes(class)),
        }
    }

    /// Bytes of the arena that it and its values take.
    pub(crate) fn bytes(&self, memory: &Memory) -> usize {
        self.blocks() * BLOCK_BYTES + memory.value_bytes[self.number].load(Ordering::Relaxed)
    }

    /// Blocks that would hold what it and its values take.
    fn blocks_worth(&self, memory: &Memory) -> u64 {
        (self.bytes(memory) / BLOCK_BYTES) as u64
    }

    /// How long a record that is not hit stays here, in milliseconds, as far as can be told.
    pub(crate) fn residence_ms(&self, memory: &Memory, now_ms: u64) -> u64 {
        self.pace.residence_ms(self.blocks_worth(memory), now_ms)
    }

    /// The same times the weight of the records' size.
    pub(crate) fn weighted_residence(&self, memory: &Memory, now_ms: u64) -> u64 {
        self.weight * self.residence_ms(memory, now_ms)
    }

    /// How many times longer than the weighted `own` a record that is not hit stays here.
    pub(crate) fn residence_ratio(&self, memory: &Memory, own: u64, now_ms: u64) -> u64 {
        let own_ms = (own / self.weight).max(1);
        self.pace.ratio(self.blocks_worth(memory), own_ms, now_ms)
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
            evictions: state.tally.evictions,
            evicted_unfetched: state.tally.evicted_unfetched,
            reclaimed: state.tally.reclaimed,
            expired_unfetched: state.tally.expired_unfetched,
            swept: state.tally.swept,
            taken_bytes: state.runs.taken() * state.runs.slot_words() * WORD_BYTES,
            table_bytes: state.runs.table_bytes(),
        }
    }

    /// Blocks it owns.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.load(Ordering::Relaxed)
    }

    /// A slot for a new record: a free one, one of a fresh block, or a victim's. Also says whether
    /// a block's worth of bytes has been evicted since this was said last. With `may_evict` false
    /// it evicts nothing while another sub-table may have free slots to spare.
    pub(crate) fn allocate(
        &self,
        memory: &Memory,
        newcomer: Newcomer<'_>,
        may_evict: bool,
    ) -> Result<(usize, bool), NoSlot> {
        self.allocate_locked(lock(&self.state), memory, newcomer, may_evict)
    }

    /// The same with `may_evict` false. `None` while another thread is at work in this sub-table.
    #[inline]
    pub(crate) fn try_allocate(
        &self,
        memory: &Memory,
        newcomer: Newcomer<'_>,
    ) -> Option<Result<(usize, bool), NoSlot>> {
        let state = self.state.try_lock().ok()?;
        Some(self.allocate_locked(state, memory, newcomer, false))
    }

    fn allocate_locked(
        &self,
        mut state: MutexGuard<'_, State>,
        memory: &Memory,
        newcomer: Newcomer<'_>,
        may_evict: bool,
    ) -> Result<(usize, bool), NoSlot> {
        if !state.draining.is_empty() {
            self.finish_drains(memory, &mut state);
        }
        let is_full = if state.shape.limits_partitions {
            state.order.is_full(&state.runs)
        } else {
            !state.runs.has_free(Partition::Temporary)
        };
        if is_full {
            if let Some(block) = memory.blocks.take(&memory.qsbr) {
                self.add_block(memory, &mut state, block, newcomer.now_ms);
            } else if !may_evict
                && memory.has_spare_slots.load(Ordering::Relaxed)
                && state.runs.free_slots() == 0
            {
                // Free pieces are no reason: the next values need them, and what would then be
                // taken from slots for those evicts what no policy has chosen.
                return Err(NoSlot);
            } else {
                state.reclaim_expired(memory, newcomer.now_ms);
                if !memory.evicts && state.runs.free_slots() == 0 {
                    return Err(NoSlot);
                }
            }
        }
        let (order, runs, mut ground) = state.parts(memory);
        ground.spared = Some(newcomer.hash);
        let location = order.allocate(runs, &mut ground, newcomer.left).ok_or(NoSlot)?;
        let Shape { slot_words, of_heads, .. } = state.shape;
        newcomer.turn.pass(if of_heads { Turn::BYTES } else { slot_words * WORD_BYTES });
        self.note_free_slots(memory, &state);
        let laps = state.tally.evicted_bytes / BLOCK_BYTES;
        if laps > 0 {
            state.tally.evicted_bytes %= BLOCK_BYTES;
            self.pace.laps(laps as u64, newcomer.now_ms);
        }
        Ok((location, laps > 0))
    }

    /// Tells others how many slots are free.
    #[inline]
    fn note_free_slots(&self, memory: &Memory, state: &State) {
        let free_slots = state.runs.free_slots();
        self.free_slots.store(free_slots, Ordering::Relaxed);
        if free_slots >= self.slots_per_block && !memory.has_spare_slots.load(Ordering::Relaxed) {
            memory.has_spare_slots.store(true, Ordering::Relaxed);
        }
    }

    /// Blocks that its records could do without.
    pub(crate) fn spare_blocks(&self) -> usize {
        self.free_slots.load(Ordering::Relaxed) / self.slots_per_block
    }

    /// The record at a location was hit. Only for those that hear of hits, and with no bucket
    /// locked. Does nothing when the location has another key's record by now.
    pub(crate) fn hit(&self, memory: &Memory, hash: u64, location: usize) {
        let mut state = lock(&self.state);
        // While the lock is held nobody frees a slot: what is found here now stays where it is.
        if !state.has(memory, location) {
            return;
        }
        let candidates = memory.index.candidates(hash);
        if memory.index.find_location(&memory.arena, candidates, hash, location).is_some() {
            let (order, runs, mut ground) = state.parts(memory);
            order.hit(runs, &mut ground, location);
        }
    }

    /// Adds a block to the sub-table.
    pub(crate) fn supply(&self, memory: &Memory, block: u32, now_ms: u64) {
        self.add_block(memory, &mut lock(&self.state), block, now_ms);
    }

    fn add_block(&self, memory: &Memory, state: &mut State, block: u32, now_ms: u64) {
        let first_run = state.runs.next_first_run();
        memory.blocks.set_owner(block, Owner::SubTable { number: self.number, first_run });
        let added = state.runs.add_block(block as usize * BLOCK_WORDS, Partition::Temporary);
        assert_eq!(added, first_run, "a block's runs are where its owner says");
        if self.blocks.fetch_add(1, Ordering::Relaxed) == 0 {
            self.pace.start(now_ms);
        }
    }

    /// Frees a slot whose record the caller took out of the index, or never put in. Looks at
    /// nothing but this sub-table's own slots: a thread that drops a pin may be offline, and then
    /// index and ghosts are not its to touch.
    pub(crate) fn free(&self, memory: &Memory, location: usize) {
        let mut state = lock(&self.state);
        state.give(memory, location);
        if !state.draining.is_empty() {
            self.retire_drained(memory, &mut state);
        }
        self.note_free_slots(memory, &state);
    }
}

impl State {
    /// The order, and what it works on.
    #[inline]
    fn parts<'m>(
        &'m mut self,
        memory: &'m Memory,
    ) -> (&'m mut dyn OrderHere, &'m mut Runs, Ground<'m>) {
        let Self { runs, order, tally, shape, .. } = self;
        (&mut **order, runs, Ground { memory, tally, shape: *shape, spared: None })
    }

    fn give(&mut self, memory: &Memory, location: usize) {
        let (order, runs, mut ground) = self.parts(memory);
        order.release(runs, &mut ground, location);
        let run = ground.run_of(runs, location);
        runs.give(&mut ground, run, location);
    }
}
