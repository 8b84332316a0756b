//! The cache of this repository, through its public interface.

use base::clock::Clock;
use cache::{Cache, CacheConfig, Get, Put, StoreError, Value, Worker};

use super::{Engine, Session};
use crate::load::{BURST, Key, ValueBuffer};

/// The DRAM tier.
#[derive(Debug)]
pub(crate) struct Kelvin(Cache);

/// A worker.
#[derive(Debug)]
pub(crate) struct KelvinSession(Worker);

impl Kelvin {
    /// A cache of `memory_bytes` in all.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let cache = Cache::new(CacheConfig::new(memory_bytes), Clock::system());
        Self(cache.expect("a cache of this size can be built"))
    }
}

impl<const N: usize> Engine<N> for Kelvin {
    type Session<'e> = KelvinSession;

    fn session(&self) -> KelvinSession {
        KelvinSession(self.0.worker().expect("a place for the thread"))
    }

    fn records(&self) -> u64 {
        self.0.stats().records
    }

    fn evictions(&self) -> Option<u64> {
        Some(self.0.stats().evictions)
    }

    fn refused(&self) -> u64 {
        self.0.stats().out_of_memory
    }
}

impl KelvinSession {
    /// Hashes a batch and runs both prefetch passes over it.
    #[inline(always)]
    fn hash<'k, const N: usize>(
        &self,
        keys: &'k [Key<N>],
        stores: bool,
    ) -> [cache::Key<'k>; BURST] {
        let hashed = std::array::from_fn(|at| {
            let key = self.0.key(keys[at].bytes());
            self.0.prefetch_index(&key);
            if stores {
                self.0.prefetch_ghosts(&key);
            }
            key
        });
        for key in &hashed {
            self.0.prefetch_record(key);
        }
        hashed
    }

    /// Stores a value. A put that finds no memory is counted by the cache, see `refused`.
    #[inline(always)]
    fn set(&mut self, key: cache::Key<'_>, value: &[u8]) {
        match self.0.set(key, &Put::new(Value::Bytes(value))) {
            Ok(_) | Err(StoreError::OutOfMemory { .. }) => (),
            Err(error) => panic!("a put failed: {error}"),
        }
    }
}

impl<const N: usize> Session<N> for KelvinSession {
    #[inline(always)]
    fn get(&mut self, key: &Key<N>, out: &mut ValueBuffer) -> bool {
        let key = self.0.key(key.bytes());
        matches!(self.0.get(key, out), Get::Hit(_))
    }

    #[inline(always)]
    fn put(&mut self, key: &Key<N>, value: &[u8]) {
        let key = self.0.key(key.bytes());
        self.set(key, value);
    }

    #[inline(always)]
    fn get_batch(
        &mut self,
        keys: &[Key<N>],
        out: &mut ValueBuffer,
        mut each: impl FnMut(usize, bool, &ValueBuffer),
    ) {
        for (at, key) in self.hash(keys, false).into_iter().enumerate() {
            let hit = matches!(self.0.get(key, out), Get::Hit(_));
            each(at, hit, out);
        }
    }

    #[inline(always)]
    fn put_batch(&mut self, keys: &[Key<N>], values: &[&[u8]]) {
        for (key, value) in self.hash(keys, true).into_iter().zip(values) {
            self.set(key, value);
        }
    }

    #[inline(always)]
    fn burst_end(&mut self) {
        self.0.quiesce();
    }
}
