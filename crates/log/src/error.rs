//! What can go wrong, with what it concerns.

use std::path::PathBuf;

use crate::{
    format::{manifest, record},
    keys::{IndexFull, KeyFlaw},
    plan::{Failure, File, FileName, SegmentId},
};

/// Why the log did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index cannot have such a key.
    #[error(transparent)]
    Key(#[from] KeyFlaw),
    /// A key is too long, or empty.
    #[error("a key has 1 to {max} bytes, and this one has {got}")]
    KeyBytes {
        /// Its bytes.
        got: usize,
        /// The most.
        max: usize,
    },
    /// A value is too long for what was asked, or a large one empty.
    #[error("the value has {got} bytes, and at most {max} are possible")]
    ValueBytes {
        /// Its bytes.
        got: u64,
        /// The most.
        max: u64,
    },
    /// Too many tags, or not whole ones.
    #[error("the tags have {got} bytes: 8 each, and at most {max} are possible")]
    TagBytes {
        /// Their bytes.
        got: usize,
        /// The most.
        max: usize,
    },
    /// An expiry that the format has no place for.
    #[error("the expiry is beyond 2^48 ms")]
    Expiry,
    /// More records than may take effect together.
    #[error("the batch has {got} records, and at most {max} are possible")]
    BatchRecords {
        /// How many they are.
        got: usize,
        /// The most.
        max: usize,
    },
    /// More bytes than may take effect together.
    #[error("the batch has {got} bytes in its records, and at most {max} are possible")]
    BatchBytes {
        /// Their bytes, and what they may grow by when they are written again.
        got: usize,
        /// The most: a chunk, and in `async` what may be at risk.
        max: usize,
    },
    /// A range of keys that cannot be had.
    #[error("the keys cannot grow to {kmax}: the index was made for keys below {limit}")]
    Growth {
        /// The first key behind those that were asked for.
        kmax: u64,
        /// The most that it may be; 0 when the keys are no integers.
        limit: u64,
    },
    /// Parts of a large value that are not what was announced.
    #[error("the parts of the value are not those that were announced")]
    Upload,
    /// A cursor that this log cannot go on from.
    #[error("the cursor cannot be used: {what}")]
    Cursor {
        /// Why.
        what: &'static str,
    },
    /// The index is full.
    #[error(transparent)]
    IndexFull(#[from] IndexFull),
    /// The disk is full, and what is left is for removes.
    #[error("there is no room on the disk")]
    NoRoom,
    /// The log has as many segments as its index can tell apart.
    #[error("the log has the {segments} segments that its positions reach")]
    PositionsUsedUp {
        /// How many.
        segments: usize,
    },
    /// This run has drawn as many sequences as it may.
    #[error("this run's sequences are used up: open the log anew")]
    SequencesUsedUp,
    /// Flushes have failed, and the log takes no writes until it is opened anew.
    #[error("the log is read-only: flushes have failed")]
    ReadOnly,
    /// Making everything dead has failed where nobody can tell whether it is: the next open will.
    /// Until then all is there, and the log is read-only.
    #[error("read-only, and everything may be gone when the log is opened anew: {0}")]
    WipeUnsure(Box<Self>),
    /// The newest value of the key could not be flushed.
    #[error("the key's newest value could not be written to the disk")]
    Unflushed,
    /// A record is damaged.
    #[error("damaged record at offset {offset} of {file}: {flaw}")]
    Damaged {
        /// Where it lies.
        file: File,
        /// At which byte.
        offset: u64,
        /// What is wrong.
        flaw: record::Flaw,
    },
    /// A part of a file cannot be read.
    #[error("cannot read {file} at offset {offset}: {failure}")]
    Unreadable {
        /// The file.
        file: File,
        /// From which byte.
        offset: u64,
        /// Why.
        failure: Failure,
    },
    /// The record of another key lies where this key's should: two keys have one hash, or the index
    /// is damaged.
    #[error("the record of another key at offset {offset} of {file}")]
    OtherKey {
        /// Where it lies.
        file: File,
        /// At which byte.
        offset: u64,
    },
    /// A position that leads to a segment which is not there.
    #[error("the key's newest record lies in {}, which is not there", FileName::Segment(*segment))]
    Unreachable {
        /// The segment.
        segment: SegmentId,
    },
    /// An action failed.
    #[error("could not {doing} {file}: {failure}")]
    Disk {
        /// What was done.
        doing: &'static str,
        /// To which file; of a directory its manifest.
        file: File,
        /// Why it failed.
        failure: Failure,
    },
    /// The manifest cannot be read.
    #[error("{file}: {flaw}")]
    Manifest {
        /// The manifest.
        file: File,
        /// What is wrong.
        flaw: manifest::Flaw,
    },
    /// The index as it was saved, or where parts of large values lie, cannot be used.
    #[error("damaged index at offset {offset} of {file}: {flaw}")]
    SavedIndex {
        /// The index, or that of parts.
        file: File,
        /// At which byte.
        offset: u64,
        /// What is wrong.
        flaw: String,
    },
    /// A directory that was to be empty.
    #[error("the directory to copy to is not empty")]
    NotEmpty,
    /// There are segments, but nothing says which log they belong to.
    #[error("there is {file}, but no manifest")]
    NoManifest {
        /// One of the segments.
        file: File,
    },
    /// A segment of another log.
    #[error("{file} belongs to another log")]
    OtherLog {
        /// The segment.
        file: File,
    },
    /// A segment with records that the manifest does not have.
    #[error("{file} has records, but is not in the manifest")]
    Unlisted {
        /// The segment.
        file: File,
    },
    /// One segment in two directories.
    #[error(
        "{first} and {second} are one segment: the one without records may be removed, which is \
         left of a removal that has failed"
    )]
    Twice {
        /// One.
        first: File,
        /// The other.
        second: File,
    },
    /// A segment that a later program wrote.
    #[error("{file} is of version {version}, which this program does not know")]
    Version {
        /// The segment.
        file: File,
        /// Its version.
        version: u32,
    },
    /// A directory cannot be used.
    #[error("cannot use {}: {failure}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        failure: Failure,
    },
    /// Another process, or another log of this one, has the directory.
    #[error("{} is in use", directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The log was made for something else.
    #[error("this is {found}, and cannot be opened as {wanted}")]
    Purpose {
        /// What it was made for.
        found: manifest::Purpose,
        /// What it was to be opened for.
        wanted: manifest::Purpose,
    },
    /// The log is being stopped.
    #[error("the log is being stopped")]
    Stopping,
    /// What the log is to be made with, or its settings, are impossible.
    #[error("impossible settings: {what}")]
    Settings {
        /// What is wrong.
        what: &'static str,
    },
}

impl Error {
    /// The files that its message names, as `NAME of directory NUMBER`: who knows where the
    /// directories are can say it better.
    #[must_use]
    pub fn files(&self) -> Vec<File> {
        match self {
            Self::Damaged { file, .. }
            | Self::Unreadable { file, .. }
            | Self::OtherKey { file, .. }
            | Self::Disk { file, .. }
            | Self::Manifest { file, .. }
            | Self::SavedIndex { file, .. }
            | Self::NoManifest { file }
            | Self::OtherLog { file }
            | Self::Unlisted { file }
            | Self::Version { file, .. } => vec![*file],
            Self::Twice { first, second } => vec![*first, *second],
            _ => Vec::new(),
        }
    }
}
