//! The index as a file: saved when a log is closed in order, loaded when it is opened.
//!
//! `docs/formats/index.md` has the layout and the order of writes. The file is never written in
//! place and every byte of it is covered by a checksum, so that a damaged one is refused and none
//! leads a reader to a wrong record.
//!
//! Thread safety: [`save()`] needs an index that nobody changes. A [`Loader`] is shared: blocks may
//! be loaded by several threads, in any order, while others use the index.

mod header;
mod load;
mod save;
#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests;

pub use header::{Header, Kind, Table};
pub use load::{Limits, Loader, open};
pub use save::save;

use crate::{
    format::LogId,
    plan::{Failure, File},
};

/// Bytes of a block in the file.
pub const BLOCK_BYTES: usize = 65_536;

/// Bytes of the header, and what the table is a multiple of.
pub const HEADER_BYTES: usize = 4096;

/// Which log a checkpoint belongs to, and as of which of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The log's id.
    pub log_id: LogId,
    /// The run whose clean stop it was made by.
    pub run: u64,
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It does not begin as a checkpoint does.
    #[error("it is not a saved index")]
    Foreign,
    /// A version that is not known here.
    #[error("it is of version {got}; this program knows version 1")]
    Version {
        /// The version.
        got: u32,
    },
    /// The header is damaged.
    #[error("the header's checksum is wrong")]
    HeaderChecksum,
    /// The header says what no index is.
    #[error("the header describes no index")]
    Header,
    /// Another log's.
    #[error("it belongs to another log")]
    OtherLog,
    /// Of another time.
    #[error("it is of run {got}, not of run {expected}")]
    OtherRun {
        /// The run that it is of.
        got: u64,
        /// The run that it should be of.
        expected: u64,
    },
    /// Of another kind of index, or for other keys.
    #[error("it is for other keys, or of entries of another width")]
    OtherIndex,
    /// The file ends before, or after.
    #[error("it is cut off, or too long")]
    Length,
    /// The table is damaged.
    #[error("the table's checksum is wrong")]
    TableChecksum,
    /// The table says what no index has.
    #[error("the table's blocks are out of order")]
    Table,
    /// A block is damaged.
    #[error("the checksum of block {block} is wrong")]
    BlockChecksum {
        /// Its number.
        block: u32,
    },
}

/// Why a checkpoint was not written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The disk failed.
    #[error("{file} at byte {offset}: {failure}")]
    Disk {
        /// The file.
        file: File,
        /// Where in it.
        offset: u64,
        /// What the disk said.
        failure: Failure,
    },
    /// The file is damaged, or not this log's.
    #[error("{file} at byte {offset}: {flaw}")]
    Damaged {
        /// The file.
        file: File,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        flaw: Flaw,
    },
    /// The index is not wholly loaded itself, so that it cannot be saved.
    #[error("{blocks} blocks of the index are not loaded yet")]
    NotLoaded {
        /// How many.
        blocks: usize,
    },
}
