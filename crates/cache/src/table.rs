//! A table: its memory, its sub-tables, and the order and times of what is written to it.

mod allocate;
mod fit;
mod size;
mod supply;

use base::{
    clock::Clock,
    hash::TableHasher,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        lock,
    },
};

use crate::{
    CacheConfig, ConfigError,
    arena::Arena,
    blocks::{Blocks, Owner},
    evicted::EvictionLog,
    extent::{self, Pieces},
    geometry::{BLOCK_BYTES, BLOCK_WORDS, CLASSES, Cut, INLINE_VALUE_MAX_BYTES},
    ghosts::Ghosts,
    history::{History, STEP_MS},
    index::Index,
    memory::{Counters, Memory},
    qsbr::Qsbr,
    record::HEARD,
    subtable::SubTable,
    victims::Victims,
};
use fit::Fit;
use size::{arena_blocks, shards};

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
    /// Sequences that nothing drew, since an earlier table had.
    skipped: AtomicU64,
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
    fit: Fit,
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
    /// It has left nothing that it should have removed.
    pub(crate) is_clean: bool,
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
            hasher: TableHasher::new(config.hash_seed),
            pieces: Pieces::new(),
            counters: Counters::default(),
            records: AtomicU64::new(0),
            has_spare_slots: AtomicBool::new(false),
            value_bytes: sub_tables.iter().map(|_| AtomicUsize::new(0)).collect(),
            evicts: config.evicts,
            remembers: config.policy.remembers(),
            heard: if config.policy.hears_hits() { HEARD } else { 0 },
            evicted: EvictionLog::default(),
            victims: Victims::new(config.victim_bytes),
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
            skipped: AtomicU64::new(0),
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
        let next = sequence.saturating_add(1);
        let before = self.sequence.0.fetch_max(next, Ordering::Relaxed);
        self.skipped.fetch_add(next.saturating_sub(before), Ordering::Relaxed);
    }

    /// The greatest sequence so far; 0 for none.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.sequence.0.load(Ordering::Relaxed) - 1
    }

    /// Sequences drawn so far.
    pub(crate) fn writes(&self) -> u64 {
        self.last_sequence().saturating_sub(self.skipped.load(Ordering::Relaxed))
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

    /// The next sequence. For a write it is drawn as `Stamp` in `crate::worker` says.
    #[inline]
    pub(crate) fn draw(&self) -> u64 {
        self.sequence.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Bytes that values which are still arriving may hold, and as many those that are pinned by
    /// who sends them: a quarter of the arena. That is less than a quarter of the memory, which the
    /// longest value may have, and one of these has room in any case.
    pub(crate) fn on_their_way_max_bytes(&self) -> usize {
        let longest = usize::try_from(self.config.value_size_max).unwrap_or(usize::MAX);
        (self.memory.blocks.limit() * BLOCK_BYTES / 4).max(Cut::new(longest).arena_bytes())
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
