//! Whole workers side by side, against what each of them knows must be true.
//!
//! Every thread owns some keys: only it writes them, so it knows what they hold. All threads read
//! all keys, and share others: registers, counters and locks. A value is a stamp (key and number)
//! repeated over its length, so that a mix of two values, or another key's, shows.
//!
//! The same scenarios run under shuttle (random schedules), under miri and on real threads.

mod player;

use std::sync::atomic::{AtomicBool, AtomicU64};

use base::{
    clock::Clock,
    sync::{Arc, thread},
};

use self::player::Player;
use crate::{Cache, CacheConfig, PolicyKind, Stats, geometry::BLOCK_BYTES};

/// What the threads do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) threads: u64,
    /// Operations of each thread.
    pub(super) steps: u32,
    /// Blocks of the arena.
    pub(super) blocks: usize,
    /// Records that are there at the start and stay.
    pub(super) prefilled: u64,
    /// Keys that each thread owns.
    pub(super) own: u64,
    /// Longest value in bytes.
    pub(super) value_max: u64,
    /// Memory is too small, or somebody flushes: a key may be missed that nobody removed.
    pub(super) lossy: bool,
    /// Somebody flushes now and then.
    pub(super) flushes: bool,
}

/// Keys that all threads write.
const SHARED: u64 = 2;

/// What threads know of each other. Plain atomics: a model checker need not schedule them.
struct Known {
    /// By shared key: the largest token that a put has returned.
    acknowledged: [AtomicU64; SHARED as usize],
    /// Increments of the counter.
    increments: AtomicU64,
    /// Somebody's add of the lock succeeded and its removal has not begun.
    locked: AtomicBool,
}

/// A generator that every run with one seed repeats.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % bound
    }
}

/// Lengths of keys: they lie in the first word of a record, in what two looks that overlap compare,
/// and beyond.
const KEY_LENGTHS: [usize; 5] = [3, 8, 12, 16, 24];
const KEY_BYTES_MAX: usize = 24;

/// What a number is called as a key. Names of a length differ in three or four bytes in a row, at
/// their start, end or middle: each way to compare keys has some that only it tells apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name([u8; KEY_BYTES_MAX], usize);

impl Name {
    /// `number`: less than 2^24.
    pub(super) fn of(number: u64) -> Self {
        let of_length = number / KEY_LENGTHS.len() as u64;
        let len = KEY_LENGTHS[(number % KEY_LENGTHS.len() as u64) as usize];
        let mut bytes = [b'k'; KEY_BYTES_MAX];
        let number = &number.to_le_bytes()[..len.min(4)];
        let room = len - number.len();
        let at = [0, room, room / 2][(of_length % 3) as usize];
        bytes[at..at + number.len()].copy_from_slice(number);
        Self(bytes, len)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// The policy that a seed says.
fn policy(seed: u64) -> PolicyKind {
    PolicyKind::ALL[(seed % PolicyKind::ALL.len() as u64) as usize]
}

/// A cache with this many blocks, or a few less, and the policy that the seed says.
pub(super) fn cache(blocks: usize, seed: u64) -> Cache {
    cache_with(blocks, seed, 0)
}

/// The same, where so many bytes of what was evicted may wait.
pub(super) fn cache_with(blocks: usize, seed: u64, victim_bytes: usize) -> Cache {
    let memory_bytes = (blocks * (BLOCK_BYTES + 256)) as u64;
    let config = CacheConfig {
        memory_bytes,
        memory_max_bytes: memory_bytes,
        value_size_max: memory_bytes / 2,
        value_share_divisor: 1,
        policy: policy(seed),
        evicts: true,
        victim_bytes,
        writers: 1,
        hash_seed: u128::from(seed) << 64 | 0x9e37_79b9_7f4a_7c15,
    };
    Cache::new(config, Clock::manual(1_000_000)).expect("a cache")
}

/// Runs a scenario to its end and looks everything over.
pub(super) fn run(scenario: Scenario, seed: u64) -> Stats {
    let cache = cache(scenario.blocks, seed);
    // Fixed shares evict from one partition while another has room.
    let lossy = scenario.lossy || policy(seed).limits_partitions();
    let scenario = Scenario { lossy, ..scenario };
    let known = Arc::new(Known {
        acknowledged: std::array::from_fn(|_| AtomicU64::new(0)),
        increments: AtomicU64::new(0),
        locked: AtomicBool::new(false),
    });
    let mut first = Player::new(&cache, &known, scenario, 0, seed);
    first.prefill();
    let handles: Vec<_> = (1..scenario.threads)
        .map(|number| {
            let (cache, known) = (cache.clone(), Arc::clone(&known));
            thread::spawn(move || {
                Player::new(&cache, &known, scenario, number, seed + number).play();
            })
        })
        .collect();
    first.play();
    let ended = first.worker.offline(|| handles.into_iter().all(|one| one.join().is_ok()));
    assert!(ended, "another thread has failed");
    first.finish();
    drop(first);
    // miri takes seconds for it, and has nothing to find there.
    if !cfg!(miri) {
        cache.table().validate();
    }
    cache.stats()
}
