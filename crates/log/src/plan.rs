//! The contract between the log and whatever performs its I/O.
//!
//! The log opens no file. It hands out [`Action`]s, and is told of each what came of it. Two ways
//! lead through the same actions:
//!
//! - While it serves, any number of [`Plan`]s are out at once: an action and the [`Token`] that its
//!   [`Outcome`] is reported under. They may be performed and reported in any order; whatever must
//!   come after something else is handed out after that has been reported. So a thread that blocks,
//!   a ring of operations and a simulation that reorders and fails them are all drivers.
//! - To open, to recover and to stop, one action is performed at a time, by a [`Disk`].
//!
//! Memory is in [`Buffer`]s, aligned for direct I/O. What is written is shared ([`Arc`]), because
//! records are read from it until it is flushed; what is read into is owned by the action and comes
//! back with the outcome. A buffer of a pool has a number, so that a driver may register the pool
//! with the kernel.
//!
//! What an action promises, and a driver must keep:
//!
//! 1. `Write` writes to the device, past the page cache where the file system lets it; nothing is
//!    durable before a `Flush` of the file that was begun after the write was reported.
//! 2. A failed `Flush` is reported and never repeated by the driver; likewise a failed `Write`.
//! 3. `Create`, `Rename` and `Remove` are durable after a `FlushDirectory` that was begun after
//!    they were reported. `Rename` replaces at once.
//! 4. A short read or write is reported as what it is; the log asks for the rest.

use std::{fmt, str::FromStr, sync::Arc};

pub use base::aligned::Buffer;

/// The number of a segment: its file's name, and its place in the space of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

/// One of the log's directories, by its place in the options. 0 holds manifest and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub u16);

/// The names of the log's files within a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// What the log consists of.
    Manifest,
    /// The next manifest, until it is renamed.
    ManifestNew,
    /// The index as of a clean stop.
    Index,
    /// The next one, until it is renamed.
    IndexNew,
    /// Where the parts of large values lie, as of a clean stop.
    Parts,
    /// The next one, until it is renamed.
    PartsNew,
    /// Records.
    Segment(SegmentId),
}

impl FileName {
    /// Those of no segments.
    const OTHERS: [Self; 6] = [
        Self::Manifest,
        Self::ManifestNew,
        Self::Index,
        Self::IndexNew,
        Self::Parts,
        Self::PartsNew,
    ];
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest => f.write_str("manifest"),
            Self::ManifestNew => f.write_str("manifest.new"),
            Self::Index => f.write_str("index"),
            Self::IndexNew => f.write_str("index.new"),
            Self::Parts => f.write_str("parts"),
            Self::PartsNew => f.write_str("parts.new"),
            Self::Segment(id) => write!(f, "{:08}.segment", id.0),
        }
    }
}

/// A name that is none of the log's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a file of the log")]
pub struct ForeignName;

impl FromStr for FileName {
    type Err = ForeignName;

    fn from_str(name: &str) -> Result<Self, ForeignName> {
        let named = match name.strip_suffix(".segment") {
            Some(number) => Self::Segment(SegmentId(number.parse().map_err(|_| ForeignName)?)),
            None => {
                Self::OTHERS.into_iter().find(|file| file.to_string() == name).ok_or(ForeignName)?
            }
        };
        // One spelling a name: "+1.segment" and "1.segment" are foreign.
        if named.to_string() == name { Ok(named) } else { Err(ForeignName) }
    }
}

/// A file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File {
    /// The directory that it is in.
    pub directory: DirectoryId,
    /// Its name there.
    pub name: FileName,
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of directory {}", self.name, self.directory.0)
    }
}

/// Something to be done to the disk. Files are opened as they are named, and stay open as long as
/// the driver likes.
#[derive(Debug)]
pub enum Action {
    /// Make an empty file that was not there.
    Create {
        /// The file.
        file: File,
    },
    /// Give an existing file this many bytes with blocks behind them, new ones zeros. May keep
    /// what it got when it fails.
    Allocate {
        /// The file.
        file: File,
        /// Its size.
        bytes: u64,
    },
    /// Cut a file off, giving back the blocks.
    Truncate {
        /// The file.
        file: File,
        /// Its size.
        bytes: u64,
    },
    /// Write a part of a buffer. Offset and lengths are multiples of the log's block.
    Write {
        /// The file.
        file: File,
        /// Where in it.
        offset: u64,
        /// What to write from.
        buffer: Arc<Buffer>,
        /// The first byte of the buffer to write.
        from: usize,
        /// How many.
        bytes: usize,
    },
    /// Read into the start of a buffer. Offset and length are multiples of the log's block.
    Read {
        /// The file.
        file: File,
        /// Where in it.
        offset: u64,
        /// What to read into.
        buffer: Buffer,
        /// How many bytes.
        bytes: usize,
    },
    /// Make durable what was written to a file and its size.
    Flush {
        /// The file.
        file: File,
    },
    /// Give a file another name in the same directory; what has that name is replaced.
    Rename {
        /// The file.
        file: File,
        /// Its name from now on.
        to: FileName,
    },
    /// Remove a file.
    Remove {
        /// The file.
        file: File,
    },
    /// Make durable which names a directory has.
    FlushDirectory {
        /// The directory.
        directory: DirectoryId,
    },
    /// Say what is in a directory.
    List {
        /// The directory.
        directory: DirectoryId,
    },
}

/// What a directory has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name; what is not UTF-8 in it replaced.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Why an action failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// `Create` of a name that is there.
    #[error("it is already there")]
    Exists,
    /// There is no such file or directory.
    #[error("it is not there")]
    NotFound,
    /// No room: the file system or a quota is full.
    #[error("there is no room")]
    Full,
    /// Anything else, with the system's number and text.
    #[error("{text}")]
    Io {
        /// The system's number of the error.
        code: i32,
        /// What it says.
        text: String,
    },
}

/// The system's numbers of errors of a medium: `EIO`, and what a sector that cannot be read
/// (`ENODATA`, `EREMOTEIO`), one whose checksum is wrong (`EILSEQ`, `EBADMSG`) and a file system
/// that is damaged there (`EUCLEAN`) come as.
const OF_MEDIUM: [i32; 6] = [5, 61, 74, 84, 117, 121];

impl Failure {
    /// Whether something is damaged, and not only that the system has no descriptor or memory to
    /// spare.
    #[must_use]
    pub fn is_of_medium(&self) -> bool {
        matches!(self, Self::Io { code, .. } if OF_MEDIUM.contains(code))
    }
}

/// What came of an action.
#[derive(Debug)]
pub enum Outcome {
    /// It is done: all but reads, writes and lists.
    Done,
    /// So many bytes are written: at least one, and a multiple of the block.
    Wrote(usize),
    /// So many bytes are read; fewer than asked for at the end of the file only or when
    /// interrupted, 0 at the end.
    Read(Buffer, usize),
    /// What the directory has, in any order.
    Listed(Vec<Found>),
    /// It failed. A buffer to read into comes back.
    Failed(Failure, Option<Buffer>),
}

/// What an outcome is reported under. Never given twice by one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// An action to be performed while the log serves.
#[derive(Debug)]
pub struct Plan {
    /// What its outcome is reported under.
    pub token: Token,
    /// What to do.
    pub action: Action,
}

/// Performs one action at a time.
pub trait Disk {
    /// Performs `action` and waits for it.
    fn perform(&mut self, action: Action) -> Outcome;

    /// The same disk for several threads at once, if it can be had.
    fn shared(&self) -> Option<&dyn SharedDisk> {
        None
    }
}

/// Performs actions for several threads at once.
pub trait SharedDisk: Sync {
    /// Performs `action` and waits for it.
    fn perform(&self, action: Action) -> Outcome;
}

impl<D: Disk + ?Sized> Disk for &mut D {
    fn perform(&mut self, action: Action) -> Outcome {
        (**self).perform(action)
    }

    fn shared(&self) -> Option<&dyn SharedDisk> {
        (**self).shared()
    }
}

impl Disk for &dyn SharedDisk {
    fn perform(&mut self, action: Action) -> Outcome {
        (**self).perform(action)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::{FileName, SegmentId};

    #[test]
    fn names_come_back_and_others_are_foreign() {
        let last = FileName::Segment(SegmentId(u32::MAX));
        for name in [FileName::Manifest, FileName::IndexNew, FileName::Segment(SegmentId(7)), last]
        {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!(FileName::Segment(SegmentId(7)).to_string(), "00000007.segment");
        for name in ["", "7.segment", "+0000007.segment", "4294967296.segment", "MANIFEST", ".."] {
            assert!(name.parse::<FileName>().is_err(), "{name}");
        }
    }
}
