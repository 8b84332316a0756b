//! What opening a log says: what was found, what is lost, how far it is.

use crate::{
    error::Error,
    plan::{Failure, File},
};

/// The most damages and notices that a report lists; the rest is counted.
const LISTED_MAX: usize = 4096;

/// Something that is lost or cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub file: File,
    /// From which byte.
    pub offset: u64,
    /// How many; 0 when that is not known.
    pub bytes: u64,
    /// What is wrong.
    pub what: Wrong,
}

/// What is wrong with a part of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The manifest has a segment that is in no directory.
    #[error("the segment is missing")]
    Missing,
    /// The file has another size than segments have.
    #[error("the segment has {got} bytes instead of {expected}")]
    Size {
        /// Its size.
        got: u64,
        /// What it should be.
        expected: u64,
    },
    /// No copy of the header is valid: nothing in the segment can be checked.
    #[error("the header is damaged")]
    Header,
    /// One copy of the header is damaged, and the other one counts.
    #[error("a copy of the header is damaged")]
    HeaderCopy,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(Failure),
    /// Flushed records were here.
    #[error("flushed records are damaged")]
    Records,
    /// The footer does not say what is in the segment.
    #[error("the footer is damaged, or does not fit the records")]
    Footer,
    /// The record of a key is damaged, or the index as it was saved; then it is made anew.
    #[error("{0}")]
    Named(Error),
}

/// A segment that was being written when the log ended: from `offset` on, over `bytes` bytes, there
/// is no valid record. An honest disk leaves this, too, when the log is not stopped in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub file: File,
    /// From which byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// What was found when a log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many times it was opened, this time included.
    pub run: u64,
    /// Whether the log was stopped cleanly, and its index was loaded.
    pub is_clean: bool,
    /// Segments.
    pub segments: usize,
    /// How many of them were read in full.
    pub tails: usize,
    /// Records in these.
    pub tail_records: u64,
    /// Records that were looked at; each says what its key is.
    pub records: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// What is lost.
    pub damages: Vec<Damage>,
    /// Where segments end that were being written.
    pub torn: Vec<Torn>,
    /// Names that are none of the log's, left alone.
    pub foreign: Vec<String>,
    /// Files of segments that the log has no more, which could not be removed, in words: that is
    /// tried again while it serves.
    pub unremoved: Vec<String>,
    /// What the lists have no room for.
    pub unlisted: u64,
}

/// How far opening is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Segments that were looked at.
    pub segments_done: usize,
    /// Of so many.
    pub segments: usize,
    /// Records that were looked at, after all segments were.
    pub records: u64,
}

impl Report {
    pub(in crate::engine) fn damage(&mut self, damage: Damage) {
        push_bounded(&mut self.damages, damage, &mut self.unlisted);
    }

    /// Whether records may be found another time that were not found now: a directory was not
    /// there, or a manifest was put back.
    pub(super) fn may_tell_more(&self) -> bool {
        let hides = |damage: &Damage| match &damage.what {
            Wrong::Missing | Wrong::Header | Wrong::Unreadable(_) => true,
            Wrong::Size { got, expected } => got < expected,
            Wrong::Named(error) => matches!(error, Error::Key(_)),
            Wrong::HeaderCopy | Wrong::Records | Wrong::Footer => false,
        };
        self.unlisted > 0 || self.damages.iter().any(hides)
    }

    pub(super) fn torn(&mut self, torn: Torn) {
        push_bounded(&mut self.torn, torn, &mut self.unlisted);
    }

    pub(super) fn unremoved(&mut self, name: String) {
        push_bounded(&mut self.unremoved, name, &mut self.unlisted);
    }

    pub(super) fn foreign(&mut self, name: String) {
        push_bounded(&mut self.foreign, name, &mut self.unlisted);
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T, unlisted: &mut u64) {
    if list.len() < LISTED_MAX {
        list.push(item);
    } else {
        *unlisted += 1;
    }
}
