//! How large a table is that keeps within its memory.

use crate::{
    CacheConfig, ConfigError, VALUE_SIZE_MAX_LIMIT_BYTES,
    blocks::Blocks,
    geometry::{ARENA_MIN_BLOCKS, BLOCK_BYTES, CLASSES, WORD_BYTES},
    ghosts::Ghosts,
    index::{Index, LOCATION_BITS},
    subtable::SubTable,
};

/// Blocks of the arena when the budget is `memory_bytes`: what is left when every table outside it
/// is paid for.
pub(super) fn arena_blocks(config: &CacheConfig, memory_bytes: u64) -> Result<usize, ConfigError> {
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
pub(super) fn shards(blocks: usize, writers: usize) -> usize {
    if cfg!(any(loom, shuttle, miri)) {
        return 1;
    }
    let wanted = (writers.clamp(1, 64) * 4).next_power_of_two();
    let most = (blocks / 512).max(1);
    wanted.min(if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 })
}
