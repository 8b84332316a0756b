//! Which record goes when a slot is needed.
//!
//! A policy sees partitions, counters and ghosts, and no memory: the sub-table does what it says.
//! Source A (Han, Guo, Zeng 2021), section 3.3, divides a sub-table into a temporary, a hot and a
//! recycle partition; all movement is done by writers when they need room.

mod htr;
mod kind;

pub use kind::PolicyKind;

pub(crate) use htr::Htr;

/// A part of a sub-table with a first-in-first-out order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partition {
    /// New records.
    Temporary,
    /// Records that were hit while temporary, or came back soon after they left.
    Hot,
}

/// Slots of the two partitions of a sub-table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Slots of the temporary partition, free ones included.
    pub(crate) temporary: usize,
    /// Slots of the hot partition, free ones included.
    pub(crate) hot: usize,
    /// Slots of a run, the unit that moves between the partitions.
    pub(crate) run: usize,
}

/// Which way the border between the partitions should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Border {
    /// The temporary partition should give a run to the hot one.
    GrowHot,
    /// The hot partition should give a run to the temporary one.
    GrowTemporary,
    /// Both are right to within a run.
    Stay,
}

/// What happens to the record at the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes, and its key is remembered as one that left this partition.
    Evict,
    /// It stays in its slot with this counter.
    Keep {
        /// The new counter.
        counter: u64,
    },
    /// It moves to the hot partition, its counter 0.
    Promote,
}

/// A replacement policy of one sub-table. Called under the sub-table's lock.
pub(crate) trait Policy: std::fmt::Debug + Send {
    /// Where a new record goes; `remembered` is the partition its key left not long ago.
    fn admit(&mut self, remembered: Option<Partition>, shares: Shares) -> Partition;

    /// What happens to a record that the hand of `partition` meets.
    fn judge(&mut self, partition: Partition, counter: u64) -> Verdict;

    /// Notes that a key was evicted and is remembered.
    fn evicted(&mut self, partition: Partition, shares: Shares);

    /// Where the border between the partitions should go.
    fn border(&mut self, shares: Shares) -> Border;
}
