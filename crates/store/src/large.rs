//! Values in parts, as callers see them.

use std::{fmt, ops::Range};

use log::{engine::Spread, plan::Buffer};

use crate::Error;

/// Where the parts of a large value are. As long as it is kept they stay there, whatever becomes of
/// the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Large(pub(crate) Spread);

impl Large {
    /// Bytes of the value.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is longer than a part")]
    pub fn len(&self) -> u64 {
        self.0.value_bytes()
    }

    /// Bytes of memory that it takes itself: where the parts are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl fmt::Debug for Large {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes in {} parts", self.len(), self.0.parts())
    }
}

/// A large value that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UploadId(pub(crate) u64);

/// Who reads a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReaderId(pub(crate) u64);

/// What was taken of what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// All of it; more is to come.
    All,
    /// So many bytes. There is no memory, or the log has no room: [`What::Room`] says when to go
    /// on.
    Wait(usize),
    /// All of it, and the log has the whole value.
    Whole,
}

/// A part of a large value, in the buffer that it was read into. It counts until it is given back.
pub struct Part {
    pub(crate) reader: u64,
    pub(crate) buffer: Buffer,
    pub(crate) range: Range<usize>,
    /// What it counts for.
    pub(crate) held: usize,
}

impl Part {
    /// Its bytes, whose checksum was right.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_slice()[self.range.clone()]
    }

    /// Whose it is.
    #[must_use]
    pub fn reader(&self) -> ReaderId {
        ReaderId(self.reader)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes for reader {}", self.range.len(), self.reader)
    }
}

/// What came of an upload or of a reader.
#[derive(Debug)]
pub struct Notice {
    /// The number that the caller gave.
    pub caller: u64,
    /// What.
    pub what: What,
}

/// See [`Notice`].
#[derive(Debug)]
pub enum What {
    /// Of an upload that has to wait: it can go on.
    Room,
    /// Of a reader: the next part.
    Part(Part),
    /// It has ended, and nothing comes of it.
    Failed(Error),
}
