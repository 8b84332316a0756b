//! Records of a log outside of it: as lines of JSON, and in a binary form that is smaller and has
//! checksums. `docs/formats/dump.md` describes both.
//!
//! A [`Writer`] takes a value piece by piece, so that a large one is never in memory as a whole. A
//! [`Reader`] finds out which form it reads, and hands over one record at a time.

mod base64;
mod binary;
mod lines;
mod reader;
mod writer;

use std::io;

pub use self::{reader::Reader, writer::Writer};

/// In which form records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line of JSON a record.
    Lines,
    /// With lengths and checksums.
    Binary,
}

/// A key as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Of a log of integers.
    Integer(u64),
    /// Any bytes.
    Bytes(Vec<u8>),
}

/// A record but for its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Client flags.
    pub flags: u32,
    /// When it expires, in milliseconds since the Unix epoch; 0 is never.
    pub expiry_ms: u64,
    /// The CAS token; 0 when none was set.
    pub token: u64,
    /// Tags, eight bytes each: two signed integers of 32 bits.
    pub tags: Vec<u8>,
    /// Whether it was marked stale.
    pub is_stale: bool,
    /// Whether a client was told that it recaches the value.
    pub is_recached: bool,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// What belongs to the value.
    pub entry: Entry,
    /// The value.
    pub value: Vec<u8>,
}

/// Where a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The number of a line, from 1.
    Line(u64),
    /// A byte, from 0.
    Offset(u64),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Offset(offset) => write!(f, "offset {offset}"),
        }
    }
}

/// Why records cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The file cannot be read.
    #[error("{place}: {source}")]
    Io {
        /// Where.
        place: Place,
        /// Why.
        source: io::Error,
    },
    /// What is there is no record.
    #[error("{place}: {what}")]
    Malformed {
        /// Where it begins.
        place: Place,
        /// What is wrong.
        what: String,
    },
}

/// Whether nothing was left out at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The last line, or the end of the binary form, says that these are all.
    Whole,
    /// Lines end without saying so.
    Unsaid,
}

/// The most bytes of a key, of tags, and of a value.
const KEY_BYTES_MAX: usize = crate::format::KEY_BYTES_MAX;
const TAGS_BYTES_MAX: usize = crate::format::TAGS_MAX * 8;
const VALUE_BYTES_MAX: u64 = crate::format::VALUE_BYTES_MAX;

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
