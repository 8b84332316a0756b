//! What makes a table one that spills: memory has the newest of a key, and a ring what memory has
//! had no room for.

use cache::Meta;
use log::{engine::Engine, keys::Keys};

/// Which records are written when they leave memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// All.
    #[default]
    All,
    /// Those that were read since they were stored.
    Seen,
}

/// How a table spills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spill {
    pub(crate) admission: Admission,
    /// The ring is opened again after a crash: what it has that is out of date gets a tombstone,
    /// and whoever tells of what came after it waits for that as a durable table would.
    pub(crate) recovers: bool,
    /// Longest value of a record of the ring.
    pub(crate) value_bytes_max: usize,
}

impl Spill {
    /// The fields of a record of the ring. Where it had to be read to get there, it was.
    pub(crate) fn admitted(&self, meta: Meta) -> Meta {
        Meta { fetched: meta.fetched || self.admission == Admission::Seen, ..meta }
    }

    pub(crate) fn of<K: Keys>(engine: &Engine<K>, admission: Admission) -> Self {
        let ring = engine.ring().expect("a table spills into a ring");
        let value_bytes_max = engine.manifest().shape.part_bytes as usize;
        Self { admission, recovers: ring.recovers, value_bytes_max }
    }
}
