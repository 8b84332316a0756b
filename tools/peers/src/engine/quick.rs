//! `quick_cache::sync`: a sharded Clock-PRO cache, with values of any length and with values of
//! at most 31 bytes inside its slots.

use std::sync::Arc;

use foldhash::fast::RandomState;
use quick_cache::{
    UnitWeighter,
    sync::{Cache, DefaultLifecycle},
};

use super::{Engine, Session};
use crate::load::{Key, NAME_LEN_MAX, ValueBuffer};

type Table<const N: usize, V> =
    Cache<Key<N>, V, UnitWeighter, RandomState, DefaultLifecycle<Key<N>, V>>;

/// The cache with stored values of type `V`.
pub(crate) struct QuickCache<const N: usize, V>(Table<N, V>);

/// Values of any length, on the heap.
pub(crate) type Quick<const N: usize> = QuickCache<N, Arc<[u8]>>;

/// Values of at most 31 bytes, in place: a bound for a peer that knows all its values are short.
pub(crate) type QuickInline<const N: usize> = QuickCache<N, Short>;

/// How a value lies in the cache.
pub(crate) trait Stored: Clone + Send + Sync {
    fn from_bytes(bytes: &[u8]) -> Self;
    fn bytes(&self) -> &[u8];
}

impl Stored for Arc<[u8]> {
    #[inline(always)]
    fn from_bytes(bytes: &[u8]) -> Self {
        Arc::from(bytes)
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// At most 31 bytes and their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    bytes: [u8; NAME_LEN_MAX],
    len: u8,
}

impl Stored for Short {
    #[inline(always)]
    fn from_bytes(value: &[u8]) -> Self {
        let mut bytes = [0; NAME_LEN_MAX];
        bytes[..value.len()].copy_from_slice(value);
        Self { bytes, len: value.len() as u8 }
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl<const N: usize, V: Stored> QuickCache<N, V> {
    pub(crate) fn new(records: usize) -> Self {
        let (hasher, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
        Self(Cache::with(records, records as u64, UnitWeighter, hasher, lifecycle))
    }
}

/// All threads use the one cache.
pub(crate) struct QuickSession<'e, const N: usize, V>(&'e Table<N, V>);

impl<const N: usize, V: Stored + 'static> Engine<N> for QuickCache<N, V> {
    type Session<'e> = QuickSession<'e, N, V>;

    fn session(&self) -> QuickSession<'_, N, V> {
        QuickSession(&self.0)
    }

    fn records(&self) -> u64 {
        self.0.len() as u64
    }

    fn evictions(&self) -> Option<u64> {
        None
    }
}

impl<const N: usize, V: Stored> Session<N> for QuickSession<'_, N, V> {
    #[inline(always)]
    fn get(&mut self, key: &Key<N>, out: &mut ValueBuffer) -> bool {
        self.0.get(key).is_some_and(|value| {
            out.fill(value.bytes());
            true
        })
    }

    #[inline(always)]
    fn put(&mut self, key: &Key<N>, value: &[u8]) {
        self.0.insert(*key, V::from_bytes(value));
    }
}
