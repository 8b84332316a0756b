//! Caches that no two threads share: what the machine lets several threads do at all.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Engine, Kelvin, kelvin::KelvinSession};

/// The most threads that have a table each.
pub(crate) const TABLES: usize = 2;

/// Caches of this repository, given to sessions in turn.
#[derive(Debug)]
pub(crate) struct TableEach {
    tables: [Kelvin; TABLES],
    next: AtomicUsize,
}

impl TableEach {
    /// Caches of `memory_bytes` each.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let tables = std::array::from_fn(|_| Kelvin::new(memory_bytes));
        Self { tables, next: AtomicUsize::new(0) }
    }

    fn sum(&self, of: impl Fn(&Kelvin) -> u64) -> u64 {
        self.tables.iter().map(of).sum()
    }
}

impl<const N: usize> Engine<N> for TableEach {
    type Session<'e> = KelvinSession;

    fn session(&self) -> KelvinSession {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        Engine::<N>::session(&self.tables[turn % TABLES])
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn records(&self) -> u64 {
        self.sum(Engine::<N>::records) / TABLES as u64
    }

    fn evictions(&self) -> Option<u64> {
        self.tables.iter().map(Engine::<N>::evictions).sum()
    }

    fn refused(&self) -> u64 {
        self.sum(Engine::<N>::refused)
    }
}
