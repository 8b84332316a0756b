//! Which record goes when a slot is needed.
//!
//! A policy is one file here: a type with a few numbers for a sub-table, and [`Policy`] for it. It
//! sees partitions, sizes and hits, and no memory. What it decides is carried out by one of the
//! two orders in [`crate::order`]; to write a policy, read this page, choose the order, and name
//! the policy in [`PolicyKind`].
//!
//! **The words.** The records of a sub-table are in up to three partitions, each first in, first
//! out: who came last goes last. A record that is hit counts its hits up to 3; the policy sees that
//! counter when the record's turn has come. A key whose record was evicted is remembered for about
//! half as many evictions as there are slots, together with the partition that it left.
//!
//! **What happens.** A new record is given a partition by [`Policy::admit`]. When there is no free
//! slot, the partition that has more than [`Policy::target`] grants it gives one up: the record
//! whose turn it is there goes, stays or moves as [`Policy::judge`] says, until one has gone. Its
//! key is remembered, and [`Policy::evicted`] says so.
//!
//! **Which order.** `Hands` keeps the temporary and the hot partition and hears of no hit: a hit
//! costs its reader at most one compare-and-swap. It moves the border between the partitions by
//! runs of slots. `Links` keeps all three and calls [`Policy::hit`] at once, so that the record can
//! move: every hit takes the sub-table's lock, and each record has a word of links more.

mod arc;
mod fifo;
mod htr;
mod kind;
mod lru;
mod paper;

pub use kind::{PaperRules, PolicyKind};

pub(crate) use arc::Arc;
pub(crate) use fifo::Fifo;
pub(crate) use htr::Htr;
pub(crate) use lru::Lru;
pub(crate) use paper::Paper;

/// A part of a sub-table with a first-in-first-out order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partition {
    /// New records.
    Temporary,
    /// Records that have shown that they are wanted.
    Hot,
    /// Records that were hot, for a second chance. Only `Links` has it.
    Recycle,
}

/// How large a sub-table and its partitions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Of the temporary, the hot and the recycle partition: with `Hands` their slots, free ones
    /// included, but of values in parts their records; with `Links` their records.
    pub(crate) of: [usize; 3],
    /// All slots of the sub-table; with `Hands`, of values in parts all records.
    pub(crate) all: usize,
}

impl Sizes {
    /// The size of a partition.
    #[inline]
    pub(crate) fn of(&self, partition: Partition) -> usize {
        self.of[partition as usize]
    }
}

/// What happens to the record whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes.
    Evict,
    /// It becomes the newest of its partition, with this counter.
    Keep {
        /// The new counter.
        counter: u64,
    },
    /// It becomes the newest of another partition, its counter 0. `Hands` can only move a record
    /// from the temporary to the hot partition.
    Move(Partition),
}

/// A replacement policy of one sub-table. Called under the sub-table's lock; deterministic.
pub(crate) trait Policy: std::fmt::Debug + Send {
    /// Where a new record goes. `remembered` is the partition that its key left not long ago; the
    /// key is forgotten by this.
    fn admit(&mut self, remembered: Option<Partition>, sizes: &Sizes) -> Partition;

    /// How large a partition should be. When a slot is needed, the first of temporary, hot and
    /// recycle that has more gives it, or else the last that has anything.
    fn target(&mut self, partition: Partition, sizes: &Sizes) -> usize;

    /// What happens to the record whose turn it is in `partition`. Who never says
    /// [`Verdict::Evict`] is overruled after some thousand records.
    fn judge(&mut self, partition: Partition, counter: u64) -> Verdict;

    /// Where a record goes that was hit just now, for the `counter`-th time: it becomes the newest
    /// there. `None` leaves it where it is. Only `Links` asks.
    fn hit(&mut self, _partition: Partition, _counter: u64) -> Option<Partition> {
        None
    }

    /// Notes that a record of `partition` was evicted and its key is remembered. `sizes` are those
    /// before the new record is counted.
    fn evicted(&mut self, _partition: Partition, _sizes: &Sizes) {}

    /// Most keys to remember of the temporary and the hot partition, once a new record has its
    /// place. Exact only in a cache of unit size: a whole one remembers the last eight of each for
    /// every 64 bytes that it spends.
    fn ghosts_max(&mut self, sizes: &Sizes) -> [usize; 2] {
        [sizes.all / 2; 2]
    }

    /// Most records that a partition may have, even while slots are free.
    fn limit(&self, _partition: Partition, _sizes: &Sizes) -> usize {
        usize::MAX
    }
}
