//! A load whose values change their size, and change it back: does memory follow?
//!
//! Each phase reads Zipf-distributed keys and stores what it misses, until the cache has turned
//! over three times. Then its hit ratio is compared with that of a cache that has never seen
//! anything else.

use base::{clock::Clock, random::Random, zipf::Zipf};
use cache::{Cache, CacheConfig, Get, Put, Value, Worker};

const MEMORY_BYTES: u64 = 64 << 20;

/// Keys are four times what fits.
const KEYS_PER_CAPACITY: u64 = 4;

/// Times that a cache's worth of bytes is stored in a phase.
const TURNOVERS: u64 = 3;

/// Part of a fresh cache's hit ratio that is to be reached.
const WANTED: f64 = 0.95;

/// Requests of a millisecond.
const REQUESTS_PER_MS: u64 = 100;

struct Load {
    cache: Cache,
    worker: Worker,
    random: Random,
    requests: u64,
}

impl Load {
    fn new() -> Self {
        let config = CacheConfig { hash_seed: 7, writers: 2, ..CacheConfig::new(MEMORY_BYTES) };
        let cache = Cache::new(config, Clock::manual(1_000_000)).expect("a cache");
        let worker = cache.worker().expect("a place");
        Self { cache, worker, random: Random::new(11, 0), requests: 0 }
    }

    /// Reads a key and stores it if it is not there. Returns whether it was.
    fn request(&mut self, key: u64, value: &[u8], out: &mut Vec<u8>) -> bool {
        self.requests += 1;
        if self.requests.is_multiple_of(REQUESTS_PER_MS) {
            self.cache.clock().advance_ms(1);
        }
        // What the housekeeping thread of a server does.
        if self.requests.is_multiple_of(REQUESTS_PER_MS * 1000) {
            while self.worker.sweep(64) | self.worker.fit() {}
        }
        self.worker.quiesce();
        let name = key.to_le_bytes();
        let key = self.worker.key(&name);
        if !matches!(self.worker.get(key, out), Get::Miss) {
            return true;
        }
        self.worker.set(key, &Put::new(Value::Bytes(value))).expect("memory");
        false
    }

    /// Runs a phase with values of `value_bytes`. Returns the hit ratio of its last part: of as
    /// many requests as store half a turnover.
    fn phase(&mut self, number: u64, value_bytes: usize) -> f64 {
        let capacity = MEMORY_BYTES / (value_bytes as u64 + 50);
        let keys = u32::try_from(capacity * KEYS_PER_CAPACITY).expect("a few million");
        let zipf = Zipf::new(keys, 0.9);
        let value = vec![b'v'; value_bytes];
        let mut out = Vec::new();
        let mut run = |this: &mut Self, stores: u64| {
            let (mut hits, mut misses) = (0, 0);
            while misses < stores {
                let rank = zipf.draw(&mut this.random);
                match this.request(number << 48 | u64::from(rank), &value, &mut out) {
                    true => hits += 1,
                    false => misses += 1,
                }
            }
            f64::from(hits) / (f64::from(hits) + misses as f64)
        };
        run(self, capacity * TURNOVERS);
        run(self, capacity / 2)
    }
}

#[test]
fn three_turnovers_after_a_change_of_sizes_the_hit_ratio_is_a_fresh_caches() {
    let mut load = Load::new();
    for (number, value_bytes) in (0..).zip([100, 1000, 200_000, 1000, 100]) {
        let reached = load.phase(number, value_bytes);
        let fresh = Load::new().phase(number, value_bytes);
        println!("{value_bytes} B: {reached:.4}, fresh {fresh:.4}, {:?}", load.cache.stats());
        assert!(reached >= WANTED * fresh, "{value_bytes} B: {reached:.4} of {fresh:.4}");
    }
    assert_eq!(load.cache.stats().out_of_memory, 0);
}
