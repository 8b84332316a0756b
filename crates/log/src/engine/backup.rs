//! A copy of a log that serves: a set of segments, and how far each of them reaches.
//!
//! What is flushed of a segment does not change as long as it is pinned, so the copy is made while
//! writes go on. It holds everything that was durable when the cut was made, and with it nothing
//! that was written later than what is missing: records of one segment are flushed in their order,
//! and the cut waits until no older segment lacks what a younger one has. Opening the copy is
//! restoring it; `docs/formats/log.md` has the order in which it is written.

use std::sync::Arc;

use super::{Engine, chain::Chain, space::Role};
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
        let block = u64::from(self.manifest.shape.block_bytes);
        let begin = crate::format::segment::HEADER_COPIES * block;
        let lacks = self.closing.iter().any(|tail| !tail.is_flushed());
        let has_younger = self.open.as_ref().is_some_and(|tail| tail.flushed_end() > begin);
        let is_between = self.closing.len() > 1 && lacks;
        if lacks && (has_younger || is_between) && !base::mutant!("log_backup_any_cut") {
            return None;
        }
        if !self.stranded.is_empty() {
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
                (None, Role::Sealed | Role::Unlisted) => self.manifest.shape.segment_bytes,
                (None, Role::Free | Role::Open) => continue,
            };
            rows.push(Row::of(id));
            copies.push(Copied { segment: id, file: segment.file(id), bytes });
        }
        copies.iter().for_each(|copied| self.pins.pin(copied.segment));
        let manifest = Manifest { rows, clean_sequence: 0, ..self.manifest.clone() };
        Some(Cut { copies, manifest })
    }

    /// The copy is made, or given up.
    pub fn end_backup(&mut self, cut: &Cut) {
        cut.copies.iter().for_each(|copied| self.pins.unpin(copied.segment));
    }
}

impl Cut {
    /// Copies the log from one disk to another, whose only directory is empty. One action at a
    /// time.
    ///
    /// # Errors
    /// When something cannot be read or written. What is there then is no log: it has no manifest.
    pub fn copy(
        &self,
        from: &mut dyn Disk,
        to: &mut dyn Disk,
        progress: &mut dyn FnMut(Copying),
    ) -> Result<Copying, Error> {
        check_empty(to)?;
        let mut copying = Copying {
            segments: self.copies.len(),
            bytes: self.copies.iter().map(|copied| copied.bytes).sum(),
            ..Copying::default()
        };
        for copied in &self.copies {
            self.copy_segment(copied, from, to, &mut |bytes| {
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

    fn copy_segment(
        &self,
        copied: &Copied,
        from: &mut dyn Disk,
        to: &mut dyn Disk,
        done: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let file = File { directory: HOME, name: FileName::Segment(copied.segment) };
        let mut chain = Chain::default();
        chain.push(Action::Create { file });
        chain.push(Action::Allocate { file, bytes: self.manifest.shape.segment_bytes });
        chain.perform(to)?;
        let mut kept = None;
        let mut offset = 0;
        while offset < copied.bytes {
            let bytes = (copied.bytes - offset).min(COPY_BYTES) as usize;
            let buffer = read(from, copied.file, offset, bytes, kept.take())?;
            let buffer = Arc::new(buffer);
            let mut chain = Chain::default();
            chain.push(Action::Write { file, offset, buffer: Arc::clone(&buffer), from: 0, bytes });
            chain.perform(to)?;
            kept = Arc::try_unwrap(buffer).ok();
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

/// Reads all of a range.
fn read(
    disk: &mut dyn Disk,
    file: File,
    offset: u64,
    bytes: usize,
    kept: Option<Buffer>,
) -> Result<Buffer, Error> {
    let kept = kept.filter(|kept| kept.as_slice().len() >= bytes);
    let mut buffer = kept.unwrap_or_else(|| Buffer::new(bytes));
    for _ in 0..SHORT_READS_MAX {
        match disk.perform(Action::Read { file, offset, buffer, bytes }) {
            Outcome::Read(read, got) if got >= bytes => return Ok(read),
            Outcome::Read(read, _) => buffer = read,
            Outcome::Failed(failure, _) => {
                return Err(Error::Disk { doing: "read", file, failure });
            }
            _ => break,
        }
    }
    let failure = Failure::Io { code: 0, text: "it is cut off".to_owned() };
    Err(Error::Disk { doing: "read", file, failure })
}
