//! A least-recently-used list over a hash table (`hashlink`), in 64 shards with a mutex each.

use std::{
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard},
};

use foldhash::fast::RandomState;
use hashlink::LruCache;

use super::{Engine, Session};
use crate::load::{Key, ValueBuffer};

const SHARDS: usize = 64;

/// A shard on cache lines of its own.
#[repr(align(128))]
struct Shard<const N: usize>(Mutex<LruCache<Key<N>, Arc<[u8]>, RandomState>>);

/// Bounded by its number of records.
pub(crate) struct ShardedLru<const N: usize> {
    hasher: RandomState,
    shards: Vec<Shard<N>>,
}

impl<const N: usize> ShardedLru<N> {
    pub(crate) fn new(records: usize) -> Self {
        let hasher = RandomState::default();
        let shard = || LruCache::with_hasher(records.div_ceil(SHARDS), hasher.clone());
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(shard()))).collect();
        Self { hasher, shards }
    }

    /// Locks a key's shard. The table takes its tags from the top bits of the same hash and its
    /// places from the bottom, so the shard comes from the middle.
    #[inline(always)]
    fn lock(&self, key: &Key<N>) -> MutexGuard<'_, LruCache<Key<N>, Arc<[u8]>, RandomState>> {
        let shard = (self.hasher.hash_one(key) >> 32) as usize % SHARDS;
        self.shards[shard].0.lock().expect("no thread panics while it holds a shard")
    }
}

/// All threads use the one cache.
pub(crate) struct ShardedSession<'e, const N: usize>(&'e ShardedLru<N>);

impl<const N: usize> Engine<N> for ShardedLru<N> {
    type Session<'e> = ShardedSession<'e, N>;

    fn session(&self) -> ShardedSession<'_, N> {
        ShardedSession(self)
    }

    fn records(&self) -> u64 {
        let len = |shard: &Shard<N>| shard.0.lock().expect("not poisoned").len() as u64;
        self.shards.iter().map(len).sum()
    }

    fn evictions(&self) -> Option<u64> {
        None
    }
}

impl<const N: usize> Session<N> for ShardedSession<'_, N> {
    #[inline(always)]
    fn get(&mut self, key: &Key<N>, out: &mut ValueBuffer) -> bool {
        self.0.lock(key).get(key).is_some_and(|value| {
            out.fill(value);
            true
        })
    }

    #[inline(always)]
    fn put(&mut self, key: &Key<N>, value: &[u8]) {
        let value = Arc::from(value);
        // The old value is dropped after the lock is released.
        let replaced = self.0.lock(key).insert(*key, value);
        drop(replaced);
    }
}
