//! How a cache is built.

use crate::PolicyKind;

/// Largest `value_size_max` in bytes.
pub const VALUE_SIZE_MAX_LIMIT_BYTES: u64 = 1 << 30;

/// How a cache is built.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Bytes for records, index, ghosts and tables together.
    pub memory_bytes: u64,
    /// What `memory_bytes` may be raised to by [`crate::Cache::set_memory`]. What is above it costs
    /// addresses only.
    pub memory_max_bytes: u64,
    /// Longest value in bytes, at most [`VALUE_SIZE_MAX_LIMIT_BYTES`].
    pub value_size_max: u64,
    /// Largest part of the memory that one value may take, as a divisor: 4 is a quarter.
    pub value_share_divisor: u64,
    /// Which record goes when a slot is needed.
    pub policy: PolicyKind,
    /// Whether records go to make room; if not, what finds no room is refused.
    pub evicts: bool,
    /// Bytes of records that have to go and wait for another place. They are beside `memory_bytes`,
    /// and there from the start. 0 where there is no such place.
    pub victim_bytes: usize,
    /// Threads that will write at once; more of them get more shards.
    pub writers: usize,
    /// Secret of the key hash; equal seeds give equal layouts.
    pub hash_seed: u128,
}

impl CacheConfig {
    /// Bytes that a queue of [`CacheConfig::victim_bytes`] takes, with what is beside keys and
    /// values.
    #[must_use]
    pub fn bytes_of_victims(victim_bytes: usize) -> usize {
        crate::victims::bytes_of(victim_bytes)
    }

    /// The defaults for `memory_bytes`: values up to 1 MiB, shards for every core, a random seed.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            memory_max_bytes: memory_bytes,
            value_size_max: 1 << 20,
            value_share_divisor: 4,
            policy: PolicyKind::default(),
            evicts: true,
            victim_bytes: 0,
            writers: std::thread::available_parallelism().map_or(1, usize::from),
            hash_seed: random_seed(),
        }
    }
}

/// 128 bits of the operating system's randomness, by way of std's hash keys.
fn random_seed() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let half = |salt: u64| u128::from(RandomState::new().hash_one(salt));
    half(1) << 64 | half(2)
}
