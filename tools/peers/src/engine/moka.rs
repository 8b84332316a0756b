//! `moka::sync`: a W-TinyLFU cache over a lock-free table.

use std::sync::Arc;

use foldhash::fast::RandomState;
use moka::sync::Cache;

use super::{Engine, Session};
use crate::load::{Key, ValueBuffer};

/// Bounded by its number of records.
#[derive(Debug)]
pub(crate) struct Moka<const N: usize>(Cache<Key<N>, Arc<[u8]>, RandomState>);

/// All threads use the one cache.
#[derive(Debug)]
pub(crate) struct MokaSession<'e, const N: usize>(&'e Cache<Key<N>, Arc<[u8]>, RandomState>);

impl<const N: usize> Moka<N> {
    pub(crate) fn new(records: usize) -> Self {
        Self(
            Cache::builder()
                .max_capacity(records as u64)
                .initial_capacity(records)
                .build_with_hasher(RandomState::default()),
        )
    }
}

impl<const N: usize> Engine<N> for Moka<N> {
    type Session<'e> = MokaSession<'e, N>;

    fn session(&self) -> MokaSession<'_, N> {
        MokaSession(&self.0)
    }

    fn records(&self) -> u64 {
        self.0.run_pending_tasks();
        self.0.entry_count()
    }

    fn evictions(&self) -> Option<u64> {
        None
    }
}

impl<const N: usize> Session<N> for MokaSession<'_, N> {
    #[inline(always)]
    fn get(&mut self, key: &Key<N>, out: &mut ValueBuffer) -> bool {
        self.0.get(key).is_some_and(|value| {
            out.fill(&value);
            true
        })
    }

    #[inline(always)]
    fn put(&mut self, key: &Key<N>, value: &[u8]) {
        self.0.insert(*key, Arc::from(value));
    }
}
