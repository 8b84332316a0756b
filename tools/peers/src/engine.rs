//! What is compared: one interface, and an engine a file behind it.

mod empty;
mod kelvin;
mod moka;
mod quick;
mod sharded;
mod table_each;

use crate::load::{Key, ValueBuffer};

pub(crate) use self::{
    empty::Empty,
    kelvin::Kelvin,
    moka::Moka,
    quick::{Quick, QuickInline},
    sharded::ShardedLru,
    table_each::{TABLES, TableEach},
};

/// A cache under test, shared by all threads.
pub(crate) trait Engine<const N: usize>: Send + Sync {
    /// A thread's access.
    type Session<'e>: Session<N>
    where
        Self: 'e;

    /// Access for the calling thread.
    fn session(&self) -> Self::Session<'_>;

    /// How many tables its sessions are given in turn.
    fn tables(&self) -> usize {
        1
    }

    /// Records held now, by a table in the mean.
    fn records(&self) -> u64;

    /// Records evicted since the start, where the engine counts them at no cost.
    fn evictions(&self) -> Option<u64>;

    /// Puts that found no memory since the start.
    fn refused(&self) -> u64 {
        0
    }
}

/// A thread's access to an engine.
pub(crate) trait Session<const N: usize> {
    /// Copies a value to `out`; false when there is none.
    fn get(&mut self, key: &Key<N>, out: &mut ValueBuffer) -> bool;

    /// Stores a value.
    fn put(&mut self, key: &Key<N>, value: &[u8]);

    /// Gets in a batch; `each` is told the place in the batch and whether `out` has a value.
    #[inline(always)]
    fn get_batch(
        &mut self,
        keys: &[Key<N>],
        out: &mut ValueBuffer,
        mut each: impl FnMut(usize, bool, &ValueBuffer),
    ) {
        for (at, key) in keys.iter().enumerate() {
            let hit = self.get(key, out);
            each(at, hit, out);
        }
    }

    /// Puts in a batch.
    #[inline(always)]
    fn put_batch(&mut self, keys: &[Key<N>], values: &[&[u8]]) {
        for (key, value) in keys.iter().zip(values) {
            self.put(key, value);
        }
    }

    /// Said after every burst.
    #[inline(always)]
    fn burst_end(&mut self) {}
}
