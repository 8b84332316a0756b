//! A copy of a log that serves: a set of segments, and how far each of them reaches.
//!
//! What is flushed of a segment does not change as long as it is pinned, so the copy is made while
//! writes go on. It holds everything that was durable when the cut was made, and with it nothing
//! that was written later than what is missing: records of one segment are flushed in their order,
//! and the cut waits until all segments but the one that is filled are flushed. Opening the copy is
//! restoring it; `docs/formats/log.md` has the order in which it is written.

use std::sync::Arc;

use super::{Damage, Engine, Wrong, chain::Chain, space::Role};
use crate::{
    error::Error,
    format::manifest::{Manifest, Row},
    keys::Keys,
    plan::{Action, Buffer, DirectoryId, Disk, Failure, File, FileName, Outcome, SegmentId},
};

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// How long a read that stays short is repeated.
const SHORT_READS_MAX: usize = 64;

const HOME: DirectoryId = DirectoryId(0);

/// What a copy consists of. The segments are pinned until [`Engine::end_backup`].
#[derive(Debug)]
pub struct Cut {
    copies: Vec<Copied>,
    manifest: Manifest,
}

/// A segment to be copied.
#[derive(Clone, Copy, Debug)]
struct Copied {
    segment: SegmentId,
    file: File,
    /// How much of it; behind that the copy has zeros.
    bytes: u64,
}

/// How far copying is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copying {
    /// Segments that are copied.
    pub segments_done: usize,
    /// Of so many.
    pub segments: usize,
    /// Bytes that are copied.
    pub bytes_done: u64,
    /// Of so many.
    pub bytes: u64,
}

impl<K: Keys> Engine<K> {
    /// What a copy of the log, as it is now, consists of; `None` while it cannot be told, until
    /// something is reported. What was to be in it was drained before.
    pub fn begin_backup(&mut self) -> Option<Cut> {
        // A segment that was begun later may have been flushed, and sealed, before an older one.
        // What a copy is a copy of is there, too.
        let lacks = self.closing.iter().any(|tail| !tail.is_flushed() && !tail.is_for_copies);
        // What was to be written again after a failed flush comes before what was flushed since.
        // What copies are of is there, too.
        let is_rewritten = !self.has_lost() && self.durable_below() >= self.rewritten_below;
        if !base::mutant!("log_backup_any_cut") && (lacks || !is_rewritten) {
            return None;
        }
        let mut copies = Vec::new();
        let mut rows = Vec::new();
        for row in &self.manifest.rows {
            let id = row.segment;
            // One that cannot be used stays in the manifest, so that the copy names what it lacks.
            let Some(segment) = self.segment(id) else {
                rows.push(Row::of(id));
                continue;
            };
            let tail = self.tails().find(|tail| tail.segment == id);
            let bytes = match (tail, segment.role) {
                (Some(tail), _) => tail.flushed_end(),
                (None, Role::Sealed) => self.manifest.shape.segment_bytes,
                // Behind its last good flush there may be anything of what was written again.
                (None, Role::Unlisted) => self.good_end(id),
                (None, Role::Free | Role::Freeing | Role::Open) => continue,
            };
            rows.push(Row::of(id));
            copies.push(Copied { segment: id, file: segment.file(id), bytes });
        }
        copies.iter().for_each(|copied| self.keep(copied.segment));
        let manifest =
            Manifest { rows, clean_sequence: 0, large_values: 0, ..self.manifest.clone() };
        Some(Cut { copies, manifest })
    }

    /// How far a segment without a footer is to be believed: where its last good flush ended if one
    /// has failed, else anywhere.
    pub(super) fn good_end(&self, segment: SegmentId) -> u64 {
        let segment_bytes = self.manifest.shape.segment_bytes;
        self.good_ends.get(&segment).copied().unwrap_or(segment_bytes)
    }

    /// The copy is made, or given up.
    pub fn end_backup(&mut self, cut: &Cut) {
        cut.copies.iter().for_each(|copied| self.let_go(copied.segment));
        self.compaction.note_end_of_reading();
    }
}

impl Cut {
    /// Copies the log from one disk to another, whose only directory is empty. One action at a
    /// time. What cannot be read is told to `damaged`, and is zeros in the copy.
    ///
    /// # Errors
    /// When something cannot be written. What is there then is no log: it has no manifest.
    pub fn copy(
        &self,
        from: &mut dyn Disk,
        to: &mut dyn Disk,
        progress: &mut dyn FnMut(Copying),
        damaged: &mut dyn FnMut(Damage),
    ) -> Result<Copying, Error> {
        check_empty(to)?;
        let mut copying = Copying {
            segments: self.copies.len(),
            bytes: self.copies.iter().map(|copied| copied.bytes).sum(),
            ..Copying::default()
        };
        let mut reading = Reading { disk: from, block_bytes: self.block_bytes(), damaged };
        for copied in &self.copies {
            self.copy_segment(copied, &mut reading, to, &mut |bytes| {
                copying.bytes_done += bytes;
                progress(copying);
            })?;
            copying.segments_done += 1;
            progress(copying);
        }
        let mut chain = Chain::default();
        if !base::mutant!("log_no_directory_flush") {
            chain.push(Action::FlushDirectory { directory: HOME });
        }
        chain.push_manifest(&self.manifest.encode());
        chain.perform(to)?;
        Ok(copying)
    }

    fn block_bytes(&self) -> usize {
        self.manifest.shape.block_bytes as usize
    }

    fn copy_segment(
        &self,
        copied: &Copied,
        from: &mut Reading<'_>,
        to: &mut dyn Disk,
        done: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let file = File { directory: HOME, name: FileName::Segment(copied.segment) };
        if !from.is_there(copied.file) {
            // The copy's manifest has it, so that it names what it lacks.
            return Ok(());
        }
        let mut chain = Chain::default();
        chain.push(Action::Create { file });
        chain.push(Action::Allocate { file, bytes: self.manifest.shape.segment_bytes });
        chain.perform(to)?;
        let mut offset = 0;
        while offset < copied.bytes {
            let bytes = (copied.bytes - offset).min(COPY_BYTES) as usize;
            let buffer = Arc::new(from.read(copied.file, offset, bytes));
            let mut chain = Chain::default();
            chain.push(Action::Write { file, offset, buffer, from: 0, bytes });
            chain.perform(to)?;
            offset += bytes as u64;
            done(bytes as u64);
        }
        let mut chain = Chain::default();
        chain.push(Action::Flush { file });
        chain.perform(to)
    }
}

/// Nothing is written over, and nothing is mixed with what is there.
fn check_empty(to: &mut dyn Disk) -> Result<(), Error> {
    let manifest = File { directory: HOME, name: FileName::Manifest };
    match to.perform(Action::List { directory: HOME }) {
        Outcome::Listed(found) if found.is_empty() => Ok(()),
        Outcome::Listed(_) => Err(Error::NotEmpty),
        Outcome::Failed(failure, _) => Err(Error::Disk { doing: "list", file: manifest, failure }),
        _ => Err(Error::NotEmpty),
    }
}

/// Reads what can be read.
struct Reading<'a> {
    disk: &'a mut dyn Disk,
    block_bytes: usize,
    damaged: &'a mut dyn FnMut(Damage),
}

impl Reading<'_> {
    fn is_there(&mut self, file: File) -> bool {
        let read = self.read_once(file, 0, self.block_bytes);
        let is_there = !matches!(read, Err(Failure::NotFound));
        if !is_there {
            (self.damaged)(Damage { file, offset: 0, bytes: 0, what: Wrong::Missing });
        }
        is_there
    }

    /// All of a range; zeros for what cannot be read.
    fn read(&mut self, file: File, offset: u64, bytes: usize) -> Buffer {
        if let Ok(buffer) = self.read_once(file, offset, bytes) {
            return buffer;
        }
        let mut whole = Buffer::new(bytes);
        for at in (0..bytes).step_by(self.block_bytes) {
            let end = bytes.min(at + self.block_bytes);
            let offset = offset + at as u64;
            match self.read_once(file, offset, end - at) {
                Ok(block) => {
                    whole.as_mut_slice()[at..end].copy_from_slice(&block.as_slice()[..end - at]);
                }
                Err(failure) => {
                    let (bytes, what) = ((end - at) as u64, Wrong::Unreadable(failure));
                    (self.damaged)(Damage { file, offset, bytes, what });
                }
            }
        }
        whole
    }

    fn read_once(&mut self, file: File, offset: u64, bytes: usize) -> Result<Buffer, Failure> {
        let mut buffer = Buffer::new(bytes);
        for _ in 0..SHORT_READS_MAX {
            match self.disk.perform(Action::Read { file, offset, buffer, bytes }) {
                Outcome::Read(read, got) if got >= bytes => return Ok(read),
                Outcome::Read(read, _) => buffer = read,
                Outcome::Failed(failure, _) => return Err(failure),
                _ => break,
            }
        }
        Err(Failure::Io { code: 0, text: "it is cut off".to_owned() })
    }
}
