//! The two indexes of a log: where the newest record of each key lies.
//!
//! - [`FlatIndex`]: an array over a range of integers.
//! - [`HashIndex`]: for keys of bytes, by 128 bits of their hash.
//!
//! Both keep entries in lines of 64 bytes whose version tells readers, who take no lock, what
//! belongs together, and whose lock is the lock of the keys in it. Both are saved and loaded by
//! [`checkpoint`]. `docs/formats/index.md` has every bit.
//!
//! The lock of a key ([`FlatIndex::lock`], [`HashIndex::lock`]) is what a log that stands alone
//! orders the writes of a key by: it is held from before a sequence is drawn until the position is
//! published. Readers go on meanwhile. A thread holds one such lock at a time: two keys may share a
//! line.

mod blocks;
pub mod checkpoint;
#[cfg(test)]
mod checks;
mod either;
mod flat;
mod hash;
mod key;
mod keyed;
mod line;

pub use blocks::Loading;
pub use either::{Guard, Index};
pub use flat::{FlatGuard, FlatIndex, FlatRange, SLOTS_MAX};
pub use hash::{HashGuard, HashIndex};
pub use key::KeyHash;
pub use keyed::{IndexLimits, Keyed};

use crate::position::Entry;

/// What an index says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing.
    Absent,
    /// Where its newest record, or its tombstone, lies.
    At(Entry),
    /// A block of the checkpoint has to be loaded to tell.
    Loading(Loading),
}

/// What an index refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A flat index with no such range, or an entry that is not 4 to 8 bytes wide.
    #[error(
        "no flat index has keys from {} to {}, at most to {}, with entries of {} bytes",
        range.kmin, range.kmax, range.kmax_limit, range.entry_bytes
    )]
    Range {
        /// The range that was asked for.
        range: FlatRange,
    },
    /// A key that a flat index has no entry for.
    #[error("key {key} is outside [{}, {})", range.kmin, range.kmax)]
    OutOfRange {
        /// The key.
        key: u64,
        /// What there are entries for.
        range: FlatRange,
    },
    /// A hash index for too many keys.
    #[error("no hash index has {entries_max} entries")]
    TooLarge {
        /// The number that was asked for.
        entries_max: u64,
    },
    /// No room for another key.
    #[error("the index is full: {entries} entries in {buckets} buckets")]
    Full {
        /// Entries that it has.
        entries: u64,
        /// Buckets that it has, of eight entries each.
        buckets: u64,
    },
    /// No room for a key in an index that is not full: every bucket that slots could be moved to
    /// from its two is full. Of keys whose hash has a secret seed no such have been seen.
    #[error("no room near a key's buckets in an index of {entries} entries in {buckets} buckets")]
    Crowded {
        /// Entries that it has.
        entries: u64,
        /// Buckets that it has, of eight entries each.
        buckets: u64,
    },
    /// A block of the checkpoint has to be loaded first.
    #[error("block {} of the index is not loaded yet", .0.block)]
    Loading(Loading),
}

impl From<Loading> for IndexError {
    fn from(loading: Loading) -> Self {
        Self::Loading(loading)
    }
}
