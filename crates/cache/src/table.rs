//! A table: its memory, its sub-tables, and how blocks go from one to the other.

mod allocate;

use base::{
    clock::Clock,
    hash::KeyHasher,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        lock,
    },
};

use arrayvec::ArrayVec;

use crate::{
    CacheConfig, ConfigError, VALUE_SIZE_MAX_LIMIT_BYTES,
    arena::Arena,
    blocks::{Blocks, Owner},
    evicted::EvictionLog,
    extent::{self, Pieces},
    fit::Fit,
    geometry::{
        ARENA_MIN_BLOCKS, BLOCK_BYTES, BLOCK_WORDS, CLASSES, INLINE_VALUE_MAX_BYTES, WORD_BYTES,
        is_head_class,
    },
    ghosts::Ghosts,
    history::{History, STEP_MS},
    index::{Index, LOCATION_BITS, Need},
    memory::{Counters, Memory},
    qsbr::Qsbr,
    record::HEARD,
    subtable::SubTable,
};

/// Sub-tables with less than this are taken from last, so that rare sizes keep a place.
const FLOOR_BYTES: usize = 2 * BLOCK_BYTES;

/// Values in parts go before blocks of slots unless those stay half as long again, as a fraction:
/// values go one by one and in the policy's order, a block with whatever lies in it.
const VALUES_FIRST: (u64, u64) = (3, 2);

/// Times that somebody gives something to refill the reserve, which has at most 64 blocks: values
/// that readers hold, and pieces of blocks, free nothing at once.
const REFILL_STEPS_MAX: usize = 256;

/// Sub-tables that are asked for a block in one go: those beyond have no more to give than these.
const DONORS_MAX: usize = 32;

/// All there is of a table but the threads that use it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) memory: Memory,
    pub(crate) config: CacheConfig,
    pub(crate) clock: Clock,
    /// Longest value that is stored inline.
    pub(crate) inline_max_bytes: usize,
    sub_tables: Box<[SubTable]>,
    /// Binary logarithm of the number of shards.
    shard_bits: u32,
    /// The one order of all writes; the next one to draw.
    sequence: Sequence,
    history: Mutex<History>,
    /// The next sequence there was when the table was last flushed; 0 for never.
    pub(crate) flushed_before: AtomicU64,
    /// When the history was last added to, in milliseconds.
    noted_ms: AtomicU64,
    /// When the table is to be flushed, in milliseconds; 0 for never.
    flush_at_ms: AtomicU64,
    /// How far the sweep has come. Held by the thread that sweeps.
    pub(crate) sweep: Mutex<SweepRound>,
    /// Flushes whose records have all been swept.
    pub(crate) swept_flushes: AtomicU64,
    /// What memory is to become.
    pub(crate) fit: Fit,
}

/// The next sequence, on lines of its own: every put writes it, and what lay beside it is read by
/// all threads.
#[derive(Debug)]
#[repr(align(128))]
struct Sequence(AtomicU64);

/// One round of sweeping all blocks.
#[derive(Debug, Default)]
pub(crate) struct SweepRound {
    /// The block to go on with.
    pub(crate) next: usize,
    /// Flushes there had been when the round began.
    pub(crate) flushes: u64,
}

impl Table {
    pub(crate) fn new(config: CacheConfig, clock: Clock) -> Result<Self, ConfigError> {
        let limit = arena_blocks(&config, config.memory_bytes)?;
        let blocks = arena_blocks(&config, config.memory_max_bytes.max(config.memory_bytes))?;
        let shards = shards(limit, config.writers);
        let bytes = (blocks * BLOCK_BYTES) as u64;
        let arena = Arena::new(blocks).map_err(|source| ConfigError::Reserve { bytes, source })?;
        let (qsbr, table) = (Qsbr::new(), Blocks::new(blocks, limit));
        let first = Index::first_blocks(limit, blocks);
        let first: Vec<u32> = (0..first).filter_map(|_| table.take_reserved(&qsbr)).collect();
        let sub_tables: Box<[SubTable]> = (0..CLASSES * shards)
            .map(|number| SubTable::new(number, number / shards, config.policy))
            .collect();
        let memory = Memory {
            blocks: table,
            index: Index::new(blocks, &first),
            ghosts: Ghosts::new(blocks),
            qsbr,
            hasher: KeyHasher::new(config.hash_seed),
            pieces: Pieces::new(),
            counters: Counters::default(),
            records: AtomicU64::new(0),
            has_spare_slots: AtomicBool::new(false),
            value_bytes: sub_tables.iter().map(|_| AtomicUsize::new(0)).collect(),
            evicts: config.evicts,
            remembers: config.policy.remembers(),
            heard: if config.policy.hears_hits() { HEARD } else { 0 },
            evicted: EvictionLog::default(),
            flushes: AtomicU64::new(0),
            arena,
        };
        let now_ms = clock.now_ms();
        let value_max = usize::try_from(config.value_size_max).unwrap_or(usize::MAX);
        let inline_max_bytes = value_max.min(INLINE_VALUE_MAX_BYTES);
        let table = Self {
            memory,
            config,
            clock,
            inline_max_bytes,
            sub_tables,
            shard_bits: shards.ilog2(),
            sequence: Sequence(AtomicU64::new(1)),
            history: Mutex::new(History::default()),
            flushed_before: AtomicU64::new(0),
            noted_ms: AtomicU64::new(0),
            flush_at_ms: AtomicU64::new(0),
            sweep: Mutex::new(SweepRound::default()),
            swept_flushes: AtomicU64::new(0),
            fit: Fit::new(limit),
        };
        table.note_time(now_ms);
        Ok(table)
    }

    /// The sequence that is drawn next.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.0.load(Ordering::Acquire)
    }

    /// Draws no sequence up to this one any more.
    pub(crate) fn continue_after(&self, sequence: u64) {
        self.sequence.0.fetch_max(sequence.saturating_add(1), Ordering::Relaxed);
    }

    /// Sequences drawn so far.
    pub(crate) fn writes(&self) -> u64 {
        self.sequence.0.load(Ordering::Relaxed) - 1
    }

    /// Remembers that the next sequence is drawn at this time or later.
    #[inline]
    pub(crate) fn note_time(&self, now_ms: u64) {
        let noted_ms = self.noted_ms.load(Ordering::Relaxed);
        if now_ms >= noted_ms + STEP_MS {
            self.note_step(now_ms);
        }
    }

    #[cold]
    fn note_step(&self, now_ms: u64) {
        self.noted_ms.store(now_ms, Ordering::Relaxed);
        lock(&self.history).note(self.sequence.0.load(Ordering::Relaxed), now_ms);
    }

    /// Milliseconds since a sequence was drawn, to about a second.
    pub(crate) fn age_ms(&self, sequence: u64, now_ms: u64) -> u64 {
        lock(&self.history).age_ms(sequence, now_ms)
    }

    /// A sequence will be drawn soon. By then the counter should be here and not with another core,
    /// which would keep this one waiting while it has a key locked.
    #[inline]
    pub(crate) fn expect_draw(&self) {
        base::prefetch::to_write(&self.sequence.0);
    }

    /// The next sequence. To be drawn under the key's lock.
    #[inline]
    pub(crate) fn draw(&self) -> u64 {
        self.sequence.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Bytes that values which are still arriving may hold: a quarter of the arena.
    pub(crate) fn uploads_max_bytes(&self) -> usize {
        self.memory.blocks.limit() * BLOCK_BYTES / 4
    }

    /// Bytes of values that may be pinned by those who send them: a quarter of the arena.
    pub(crate) fn pinned_max_bytes(&self) -> usize {
        self.memory.blocks.limit() * BLOCK_BYTES / 4
    }

    /// The class of the sub-table that a location's block belongs to.
    #[inline]
    pub(crate) fn class_at(&self, location: usize) -> Option<usize> {
        match self.memory.blocks.owner(location / BLOCK_WORDS) {
            Owner::SubTable { number, .. } => Some(number >> self.shard_bits),
            _ => None,
        }
    }

    pub(crate) fn sub_tables(&self) -> &[SubTable] {
        &self.sub_tables
    }

    /// Tells a record's sub-table of a hit, if it wants to hear of hits. No bucket may be locked.
    #[inline]
    pub(crate) fn report_hit(&self, hash: u64, location: usize) {
        if self.memory.heard != 0 {
            self.tell_hit(hash, location);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_hit(&self, hash: u64, location: usize) {
        if let Owner::SubTable { number, .. } = self.memory.blocks.owner(location / BLOCK_WORDS) {
            self.sub_tables[number].hit(&self.memory, hash, location);
        }
    }

    /// Counts a store that found no memory.
    pub(crate) fn note_out_of_memory(&self) {
        self.memory.counters.out_of_memory.fetch_add(1, Ordering::Relaxed);
    }

    /// Frees a record that the caller took out of the index, value and all.
    pub(crate) fn free_record(&self, location: usize) {
        if extent::unlinked(&self.memory, location) {
            self.free_slot(location);
        }
    }

    /// Frees a slot that nothing leads to.
    pub(crate) fn free_slot(&self, location: usize) {
        let Owner::SubTable { number, .. } = self.memory.blocks.owner(location / BLOCK_WORDS)
        else {
            unreachable!("a slot's block belongs to its sub-table until every slot is home");
        };
        self.sub_tables[number].free(&self.memory, location);
    }

    /// After a sub-table evicted a block's worth: takes a block for it from the one whose records
    /// stay longest for their size, if they stay much longer than its own.
    #[cold]
    fn rebalance(&self, number: usize, now_ms: u64) {
        let own = self.sub_tables[number].weighted_residence(&self.memory, now_ms);
        if let Some(donor) = self.donor(&[number], FLOOR_BYTES, now_ms)
            && let ratio = donor.residence_ratio(&self.memory, own, now_ms)
            && self.sub_tables[number].may_take(ratio)
            && self.take_from(donor)
            && let Some(block) = self.memory.blocks.take_reserved(&self.memory.qsbr)
        {
            self.sub_tables[number].supply(&self.memory, block, now_ms);
        }
        self.refill_reserve(Some(number), now_ms);
        self.keep_ghosts(now_ms);
    }

    /// The sub-table whose records stay longest for their size, and of equals the largest, `except`
    /// aside.
    fn donor(&self, except: &[usize], floor_bytes: usize, now_ms: u64) -> Option<&SubTable> {
        let candidates = self.sub_tables.iter().filter(|sub_table| {
            sub_table.bytes(&self.memory) >= floor_bytes.max(1)
                && !except.contains(&sub_table.number())
        });
        candidates.max_by_key(|sub_table| {
            let of_heads = is_head_class(sub_table.number() >> self.shard_bits);
            let favour = if of_heads { VALUES_FIRST.0 } else { VALUES_FIRST.1 };
            let residence = sub_table.weighted_residence(&self.memory, now_ms);
            (favour * residence, sub_table.bytes(&self.memory))
        })
    }

    /// Makes a free block of free slots or free pieces, if there are enough of one class. Returns
    /// whether one is on its way.
    pub(crate) fn take_spare(&self) -> bool {
        self.take_spare_slots() || extent::compact(&self.memory)
    }

    /// Takes a block from the sub-table with most free slots, if one could do without.
    fn take_spare_slots(&self) -> bool {
        let hint = &self.memory.has_spare_slots;
        if !hint.load(Ordering::Relaxed) {
            return false;
        }
        let spare = |sub_table: &&SubTable| sub_table.spare_blocks();
        match self.sub_tables.iter().max_by_key(spare).filter(|donor| donor.spare_blocks() > 0) {
            Some(donor) => donor.give_block(&self.memory),
            None => {
                hint.store(false, Ordering::Relaxed);
                false
            }
        }
    }

    fn take_from(&self, donor: &SubTable) -> bool {
        if is_head_class(donor.number() >> self.shard_bits) {
            donor.give_value(&self.memory)
        } else {
            donor.give_block(&self.memory)
        }
    }

    /// Takes blocks from sub-tables until the reserve is full again, or nothing more can be had at
    /// once: first from those that have some, `needy` the last of them, then from whoever has one.
    /// The only block of `needy` stays: it may be the one that it was just given.
    pub(crate) fn refill_reserve(&self, needy: Option<usize>, now_ms: u64) {
        let mut steps = REFILL_STEPS_MAX;
        for (floor_bytes, spared) in [(FLOOR_BYTES, needy), (FLOOR_BYTES, None), (0, needy)] {
            let mut except: ArrayVec<usize, DONORS_MAX> = spared.into_iter().collect();
            while steps > 0 {
                steps -= 1;
                if !self.memory.blocks.is_short() {
                    return;
                }
                if self.take_spare() {
                    continue;
                }
                if !self.memory.evicts {
                    return;
                }
                match self.donor(&except, floor_bytes, now_ms) {
                    Some(donor) if self.take_from(donor) => {}
                    Some(donor) if !except.is_full() => except.push(donor.number()),
                    Some(_) => return,
                    None => break,
                }
            }
        }
    }

    /// Grows index and ghosts if the number of records asks for it.
    #[inline]
    pub(crate) fn keep_up(&self, now_ms: u64) {
        if self.memory.index.wants_growth(self.memory.records.load(Ordering::Relaxed)) {
            self.grow_index(now_ms);
        }
    }

    #[cold]
    fn grow_index(&self, now_ms: u64) {
        let memory = &self.memory;
        while let Some(need) = memory.index.growth_need() {
            let Some(block) = self.zeroed_block(now_ms) else { return };
            if let Err(block) = memory.index.supply(need, block) {
                memory.blocks.release(block);
                if need == Need::Overflow {
                    break;
                }
            }
        }
        memory.index.grow(&memory.arena, memory.records.load(Ordering::Relaxed));
    }

    /// What a failed insertion needs: overflow lines and more buckets. Returns whether there is
    /// reason to try again.
    pub(crate) fn make_index_room(&self, now_ms: u64) -> bool {
        let index = &self.memory.index;
        let before = (index.bytes(), index.buckets());
        self.grow_index(now_ms);
        (index.bytes(), index.buckets()) != before || index.has_overflow_lines()
    }

    /// After evictions: more ghosts if they would be used.
    pub(crate) fn keep_ghosts(&self, now_ms: u64) {
        let memory = &self.memory;
        if memory.ghosts.wants_block(memory.records.load(Ordering::Relaxed))
            && let Some(block) = self.zeroed_block(now_ms)
            && let Err(block) = memory.ghosts.supply(block)
        {
            memory.blocks.release(block);
        }
    }

    fn zeroed_block(&self, now_ms: u64) -> Option<u32> {
        let block = self.memory.blocks.take_reserved(&self.memory.qsbr);
        self.refill_reserve(None, now_ms);
        let block = block.or_else(|| self.memory.blocks.take_reserved(&self.memory.qsbr))?;
        self.memory.zero(block);
        Some(block)
    }

    /// Asks for a flush at a time; 0 takes a request back.
    pub(crate) fn flush_at(&self, at_ms: u64) {
        self.flush_at_ms.store(at_ms, Ordering::Relaxed);
    }

    /// When a flush that was asked for is due; 0 if none waits.
    pub(crate) fn flush_due_ms(&self) -> u64 {
        self.flush_at_ms.load(Ordering::Relaxed)
    }

    /// Whether a flush that was asked for is due; only one caller is told so.
    #[inline]
    pub(crate) fn take_due_flush(&self, now_ms: u64) -> bool {
        let at_ms = self.flush_at_ms.load(Ordering::Relaxed);
        at_ms != 0
            && at_ms <= now_ms
            && self
                .flush_at_ms
                .compare_exchange(at_ms, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// Blocks of the arena when the budget is `memory_bytes`: what is left when every table outside it
/// is paid for.
pub(crate) fn arena_blocks(config: &CacheConfig, memory_bytes: u64) -> Result<usize, ConfigError> {
    let per_block = BLOCK_BYTES
        + Blocks::TABLE_BYTES_PER_BLOCK
        + SubTable::RUN_TABLE_BYTES_PER_BLOCK
        + (Index::table_bytes(1024) + Ghosts::table_bytes(1024)).div_ceil(1024);
    let fixed = shards(usize::MAX, config.writers) * CLASSES * size_of::<SubTable>();
    let fixed = if cfg!(any(loom, shuttle, miri)) { 0 } else { fixed as u64 };
    let blocks = memory_bytes.saturating_sub(fixed) / per_block as u64;
    let got = blocks * BLOCK_BYTES as u64;
    let min = (ARENA_MIN_BLOCKS * BLOCK_BYTES) as u64;
    if got < min {
        return Err(ConfigError::MemoryTooSmall { got, min });
    }
    let linked = shards(usize::MAX, config.writers) as u64 * SubTable::LINKED_MAX_BYTES;
    let addressed = (WORD_BYTES as u64) << LOCATION_BITS;
    let max = if config.policy.hears_hits() { addressed.min(linked) } else { addressed };
    if got > max {
        return Err(ConfigError::MemoryTooLarge { got, max });
    }
    let value_max =
        (memory_bytes / config.value_share_divisor.max(1)).min(VALUE_SIZE_MAX_LIMIT_BYTES);
    if config.value_size_max > value_max {
        return Err(ConfigError::ValueSizeMax { got: config.value_size_max, max: value_max });
    }
    Ok(usize::try_from(blocks).expect("invariant: at most 2^23 blocks"))
}

/// Shards: four for each writer, so that two rarely meet, but each with enough blocks that no class
/// is cut into useless pieces.
fn shards(blocks: usize, writers: usize) -> usize {
    if cfg!(any(loom, shuttle, miri)) {
        return 1;
    }
    let wanted = (writers.clamp(1, 64) * 4).next_power_of_two();
    let most = (blocks / 512).max(1);
    wanted.min(if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 })
}
