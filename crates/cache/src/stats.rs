//! Numbers about a cache.

use base::sync::atomic::Ordering;

use crate::{
    geometry::BLOCK_BYTES,
    subtable::{SubTable, Summary},
    table::Table,
};

/// Numbers about a cache. Counters since start unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records now, those included that have expired and were not found yet.
    pub records: u64,
    /// Bytes of slots and values that hold them.
    pub record_bytes: u64,
    /// Bytes that the arena may have.
    pub arena_bytes: u64,
    /// Bytes of the arena in blocks that are in use.
    pub arena_used_bytes: u64,
    /// Bytes of the arena that the system has given memory for, in use or not.
    pub arena_touched_bytes: u64,
    /// Bytes of it that are kept free, so that whoever needs a block finds one.
    pub arena_reserve_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of ghosts.
    pub ghost_bytes: u64,
    /// Bytes of tables outside the arena.
    pub table_bytes: u64,
    /// Bytes held by values that are still arriving.
    pub upload_bytes: u64,
    /// Bytes of values that are being sent.
    pub pinned_bytes: u64,
    /// Records evicted to make room.
    pub evictions: u64,
    /// Evicted records that nobody had read.
    pub evicted_unfetched: u64,
    /// Expired and flushed records whose memory was reclaimed.
    pub reclaimed: u64,
    /// Of these, records that had expired and nobody had read.
    pub expired_unfetched: u64,
    /// Beside them, expired and flushed records whose key was stored again first.
    pub overwritten_dead: u64,
    /// Records that were looked at to see whether they are dead.
    pub swept: u64,
    /// How long a record that nobody reads stays where it stays longest, in milliseconds: until
    /// something is evicted, as long as there have been records.
    pub residence_ms: u64,
    /// Stores that found no memory.
    pub out_of_memory: u64,
    /// At least one for each write, of this table alone.
    pub writes: u64,
}

impl Stats {
    /// Those of two caches as one.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            residence_ms: self.residence_ms.max(other.residence_ms),
            records: self.records + other.records,
            record_bytes: self.record_bytes + other.record_bytes,
            arena_bytes: self.arena_bytes + other.arena_bytes,
            arena_used_bytes: self.arena_used_bytes + other.arena_used_bytes,
            arena_touched_bytes: self.arena_touched_bytes + other.arena_touched_bytes,
            arena_reserve_bytes: self.arena_reserve_bytes + other.arena_reserve_bytes,
            index_bytes: self.index_bytes + other.index_bytes,
            ghost_bytes: self.ghost_bytes + other.ghost_bytes,
            table_bytes: self.table_bytes + other.table_bytes,
            upload_bytes: self.upload_bytes + other.upload_bytes,
            pinned_bytes: self.pinned_bytes + other.pinned_bytes,
            evictions: self.evictions + other.evictions,
            evicted_unfetched: self.evicted_unfetched + other.evicted_unfetched,
            reclaimed: self.reclaimed + other.reclaimed,
            expired_unfetched: self.expired_unfetched + other.expired_unfetched,
            overwritten_dead: self.overwritten_dead + other.overwritten_dead,
            swept: self.swept + other.swept,
            out_of_memory: self.out_of_memory + other.out_of_memory,
            writes: self.writes + other.writes,
        }
    }

    pub(crate) fn of(table: &Table) -> Self {
        let memory = &table.memory;
        let counters = &memory.counters;
        let load = |counter: &base::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let blocks = memory.blocks.limit();
        let sub_tables = table.sub_tables();
        let values: usize =
            memory.value_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        let sum =
            sub_tables.iter().map(SubTable::summary).fold(Summary::default(), |sum, one| Summary {
                evictions: sum.evictions + one.evictions,
                evicted_unfetched: sum.evicted_unfetched + one.evicted_unfetched,
                reclaimed: sum.reclaimed + one.reclaimed,
                expired_unfetched: sum.expired_unfetched + one.expired_unfetched,
                swept: sum.swept + one.swept,
                taken_bytes: sum.taken_bytes + one.taken_bytes,
                table_bytes: sum.table_bytes + one.table_bytes,
            });
        let now_ms = table.clock.now_ms();
        let used = sub_tables.iter().filter(|sub_table| sub_table.blocks() > 0);
        let residence_ms = used.map(|sub_table| sub_table.residence_ms(memory, now_ms)).max();
        let per_block = crate::blocks::Blocks::TABLE_BYTES_PER_BLOCK * blocks
            + crate::index::Index::table_bytes(blocks)
            + crate::ghosts::Ghosts::table_bytes(blocks);
        Self {
            records: load(&memory.records),
            record_bytes: (sum.taken_bytes + values) as u64,
            arena_bytes: (blocks * BLOCK_BYTES) as u64,
            arena_used_bytes: (memory.blocks.taken() * BLOCK_BYTES) as u64,
            arena_touched_bytes: (memory.blocks.touched() * BLOCK_BYTES) as u64,
            arena_reserve_bytes: (memory.blocks.reserve() * BLOCK_BYTES) as u64,
            index_bytes: memory.index.bytes(),
            ghost_bytes: memory.ghosts.bytes(),
            table_bytes: (sum.table_bytes
                + memory.pieces.table_bytes()
                + per_block
                + size_of_val(sub_tables)) as u64,
            upload_bytes: load(&counters.upload_bytes),
            pinned_bytes: load(&counters.pinned_bytes),
            evictions: sum.evictions,
            evicted_unfetched: sum.evicted_unfetched,
            reclaimed: sum.reclaimed,
            expired_unfetched: sum.expired_unfetched,
            overwritten_dead: load(&counters.overwritten_dead),
            swept: sum.swept,
            residence_ms: residence_ms.unwrap_or(0),
            out_of_memory: load(&counters.out_of_memory),
            writes: table.writes(),
        }
    }
}
