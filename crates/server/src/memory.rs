//! The cache that a configuration asks for, with addresses for what its memory may become.

use base::clock::Clock;
use cache::{Cache, CacheConfig, ConfigError};

use crate::{
    Error,
    config::{Budget, Config, VALUE_SHARE_DIVISOR},
};

/// Most memory that there are addresses for when nobody says how much: records can be found in
/// 512 GiB, tables included.
const MEMORY_MAX_BYTES: u64 = 500 << 30;

/// Builds the cache. A system that has no addresses for the memory of the whole machine gives them
/// for what is needed now; the limit cannot be raised then.
pub(crate) fn cache(
    config: &Config,
    budget: &Budget,
    threads: usize,
    clock: &Clock,
) -> Result<Cache, Error> {
    let others = budget.other_bytes(config);
    let wanted = match config.memory_max.0 {
        0 => machine_bytes().min(MEMORY_MAX_BYTES),
        bytes => bytes,
    };
    let build = |memory_max_bytes: u64| {
        let cache = CacheConfig {
            memory_max_bytes,
            policy: config.policy,
            evicts: config.evictions,
            value_size_max: copy_bytes_max(config, budget),
            value_share_divisor: VALUE_SHARE_DIVISOR,
            writers: threads,
            victim_bytes: usize::try_from(Budget::victim_bytes(config)).unwrap_or(usize::MAX),
            ..CacheConfig::new(budget.record_bytes)
        };
        Cache::new(cache, clock.clone())
    };
    match build(wanted.saturating_sub(others).max(budget.record_bytes)) {
        Err(error @ (ConfigError::Reserve { .. } | ConfigError::MemoryTooLarge { .. }))
            if config.memory_max.0 == 0 =>
        {
            tracing::warn!(%error, "memory cannot be raised later");
            Ok(build(budget.record_bytes)?)
        }
        built => Ok(built?),
    }
}

/// Longest value in memory. Of a durable table longer ones are on the disk only.
fn copy_bytes_max(config: &Config, budget: &Budget) -> u64 {
    let size = config.value_size_max.0;
    if !config.has_log() || config.spills() {
        return size;
    }
    size.min(log::format::PART_BYTES_MAX as u64).min(budget.record_bytes / VALUE_SHARE_DIVISOR)
}

/// Bytes of memory that the machine has; 0 if that cannot be found out.
fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}
