//! Segments: which there are, which are empty, and how another is made.
//!
//! A segment is prepared ahead: it is created, allocated, given its header and its row in the
//! manifest, each step flushed before the next, so that a put finds it empty and ready.

use std::sync::Arc;

use super::{
    Engine, Job, Mode, Pin,
    chain::{Broken, Chain, Progress},
    room::Purpose,
    tail::Tail,
};
use crate::{
    error::Error,
    format::{
        LogId, Seed,
        manifest::{Row, SEGMENTS_MAX},
        segment::{HEADER_COPIES, Header},
    },
    keys::Keys,
    plan::{Action, Buffer, DirectoryId, Failure, File, FileName, Outcome, Plan, SegmentId},
};

/// Empty segments that values do not take: one for removes on a full disk, one for rewriting after
/// a failed flush.
pub(super) const RESERVE: usize = 2;

/// Two more for compaction, where it is on: one to work with, and one because a crash may leave
/// that half full of copies.
const COPY_RESERVE: usize = 2;

/// Empty segments beyond the reserve that are prepared ahead.
const AHEAD: usize = 1;

/// And so many more in `safe`, written before they are used: nobody waits for that, because there
/// is another one.
const WRITTEN_AHEAD: usize = 1;

/// Bytes of zeros that are written at once: short enough for a flush that somebody waits for to
/// come between.
const ZEROS_BYTES: usize = 256 << 10;

/// Milliseconds between attempts to prepare a segment when one has failed.
const RETRY_MS: u64 = 100;

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing is in it.
    Free,
    /// Records are being put into it, or its footer is being written.
    Open,
    /// Its footer is flushed.
    Sealed,
    /// Its next generation is being written.
    Freeing,
    /// It has records and no footer: a flush of it failed, or it cannot be read in full.
    Unlisted,
}

/// A segment of the log.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) directory: DirectoryId,
    pub(super) generation: u64,
    pub(super) seed: Seed,
    pub(super) role: Role,
    /// Whether its blocks were written before: then a flush need not wait for the file system to
    /// note that they are.
    pub(super) is_written: bool,
    /// Bytes of records that are the newest of their keys, by size classes.
    pub(super) live_bytes: u64,
    /// Of these, what tombstones count as.
    pub(super) tombstone_bytes: u64,
    /// Bytes of all its records, by size classes: what would be live if all of them were.
    pub(super) all_bytes: u64,
    /// Bytes that they would take side by side, with their entries in a footer: commits end with
    /// padding.
    pub(super) packed_bytes: u64,
    /// The smallest sequence of a value or a head in it; 0 when there is none, or it is still being
    /// written. A tombstone that moves keeps its sequence.
    pub(super) smallest_value: u64,
    /// The sequence of the value or head that lies first in it, as of the same time. This does not
    /// change while a segment is written to, whatever is written again.
    pub(super) begun: u64,
    /// The greatest sequence of a tombstone; 0 when there is none.
    pub(super) greatest_tombstone: u64,
    /// Whether it may be freed when nothing in it is live. What cannot be read may be read another
    /// time; and after a failed flush the file is left alone before the next open.
    pub(super) may_be_freed: bool,
    /// Is held by all who read from it.
    pub(super) pin: Pin,
}

/// A segment that is on its way.
#[derive(Debug)]
pub(super) enum Preparing {
    Making(SegmentId, DirectoryId, IsWritten),
    /// It could not be made; what there is of it is being removed.
    Clearing(SegmentId),
    /// No segment: the manifest is written that has more keys.
    Growing(u64),
    /// Its next generation is written.
    Freeing(SegmentId),
    /// The manifest is written that has no rows of them.
    Dropping(Vec<SegmentId>),
    /// Their files are removed.
    Removing(Vec<SegmentId>),
}

/// Whether zeros are written to a segment before it is used.
type IsWritten = bool;

/// What came of asking for a segment.
pub(super) enum Taken {
    /// One is open.
    Taken,
    /// One is on its way.
    Wait,
}

impl Segment {
    pub(super) fn empty(
        log: LogId,
        id: SegmentId,
        directory: DirectoryId,
        generation: u64,
    ) -> Self {
        Self {
            directory,
            generation,
            seed: Seed::new(log, id.0, generation),
            role: Role::Free,
            is_written: false,
            live_bytes: 0,
            tombstone_bytes: 0,
            all_bytes: 0,
            packed_bytes: 0,
            smallest_value: 0,
            begun: 0,
            greatest_tombstone: 0,
            may_be_freed: true,
            pin: Pin::default(),
        }
    }

    pub(super) fn file(&self, id: SegmentId) -> File {
        File { directory: self.directory, name: FileName::Segment(id) }
    }
}

impl<K: Keys> Engine<K> {
    /// Opens an empty segment.
    pub(super) fn take_segment(&mut self, purpose: Purpose) -> Result<Taken, Error> {
        let kept = match purpose {
            Purpose::Put if base::mutant!("log_puts_take_the_reserve") => 0,
            Purpose::Put => self.put_reserve(),
            Purpose::Remove if base::mutant!("log_reserve_of_one") => 0,
            // What compaction needs it needs also when it is not at work just then.
            Purpose::Remove => self.remove_reserve(),
            Purpose::Rewrite => 0,
        };
        if self.free.len() <= kept && !self.may_take_last(purpose) {
            return self.no_segment().map(|()| Taken::Wait);
        }
        let written = self.free.iter().position(|id| self.is_written(*id));
        let at = written.filter(|_| purpose == Purpose::Put).unwrap_or(0);
        let mut tail = self.open_free(at);
        tail.is_for_puts = purpose == Purpose::Put;
        self.open = Some(tail);
        Ok(Taken::Taken)
    }

    /// Whether a remove may take what is kept for compaction: nothing can be moved, freed or made,
    /// and only what is removed may change that. Not while somebody reads: what he keeps may be
    /// moved when he ends.
    fn may_take_last(&mut self, purpose: Purpose) -> bool {
        let is_left = purpose == Purpose::Remove && self.free.len() >= RESERVE;
        is_left && self.pins.are_none() && self.no_segment().is_err()
    }

    /// A tail in one of the empty segments.
    pub(super) fn open_free(&mut self, at: usize) -> Tail {
        let id = self.free.remove(at);
        let shape = self.manifest.shape;
        let segment = self.segment_mut(id).expect("invariant: free segments are segments");
        segment.role = Role::Open;
        let (file, seed) = (segment.file(id), segment.seed);
        Tail::new(file, id, seed, shape.block_bytes, shape.segment_bytes)
    }

    /// Empty segments that values leave.
    pub(super) fn put_reserve(&self) -> usize {
        let compacts = self.settings.space_target_percent > 0 && self.may_save;
        let left = if base::mutant!("log_copy_reserve_of_one") { 1 } else { COPY_RESERVE };
        // The survivors' segment is one of them.
        let left = left.saturating_sub(usize::from(self.copies.tail.is_some()));
        RESERVE + if compacts { left } else { 0 }
    }

    /// Empty segments that removes leave while something can be moved. The survivors' segment is
    /// none of them: it may be nearly full, and the next move need another one.
    fn remove_reserve(&self) -> usize {
        let has_survivors = self.copies.tail.is_some();
        let is_counted = has_survivors && base::mutant!("log_survivors_counted_twice");
        self.put_reserve() - 1 + usize::from(has_survivors && !is_counted)
    }

    fn is_written(&self, id: SegmentId) -> bool {
        self.segment(id).is_some_and(|segment| segment.is_written)
    }

    /// Whether a value may be put into the open segment: it was not taken from the reserve, or the
    /// reserve is whole again.
    pub(super) fn is_open_for_puts(&mut self) -> Result<bool, Error> {
        let is_whole = self.free.len() >= self.put_reserve();
        let Some(tail) = &mut self.open else { return Ok(false) };
        tail.is_for_puts |= is_whole;
        if tail.is_for_puts {
            return Ok(true);
        }
        self.no_segment().map(|()| false)
    }

    /// Whether to wait for a segment.
    fn no_segment(&mut self) -> Result<(), Error> {
        if self.is_freeing() || self.is_moving() {
            // What is in the way is on its way.
            self.drain_below = self.drain_below.max(self.next_ticket);
            return Ok(());
        }
        if self.segments_left() == 0 && self.preparing.is_none() {
            return Err(Error::PositionsUsedUp { segments: self.segments_max() });
        }
        // An attempt has failed, and the next one has not succeeded yet.
        if self.retry_at_ms != 0 { Err(Error::NoRoom) } else { Ok(()) }
    }

    /// Whether the first put would wait for a segment, and one can be had for all that is known.
    pub(crate) fn awaits_segment(&self) -> bool {
        let has_none = self.open.is_none() && self.free.len() <= self.put_reserve();
        has_none && self.retry_at_ms == 0 && self.segments_left() > 0 && !self.is_read_only()
    }

    /// How many segments the index, and the manifest, can tell apart.
    pub(super) fn segments_max(&self) -> usize {
        let reached = self.index.units_max() / self.units_of_segment;
        usize::try_from(reached).unwrap_or(usize::MAX).min(SEGMENTS_MAX)
    }

    /// Whether what is kept for compaction leaves some segments for puts.
    pub(super) fn check_reach(&self) -> Result<(), Error> {
        let is_off = self.settings.space_target_percent == 0;
        if is_off || self.segments_max() > RESERVE + COPY_RESERVE + 1 {
            return Ok(());
        }
        Err(Error::Settings { what: "a log with a space target reaches six segments at least" })
    }

    /// The next action that prepares a segment.
    pub(super) fn poll_space(&mut self) -> Option<Plan> {
        if self.wants_growth() {
            self.begin_growth();
        }
        // To free one is sooner done than to make one; but moves may empty one after the other.
        let is_turn = self.wants_segment() && self.has_freed_last;
        let has_begun = self.preparing.is_none() && !is_turn && self.begin_freeing();
        if !has_begun && self.wants_segment() {
            self.prepare_segment();
        } else if !has_begun {
            self.begin_removal();
        }
        if self.preparing.is_some() {
            self.has_freed_last = matches!(self.preparing, Some(Preparing::Freeing(_)));
        }
        let action = self.chain.next()?;
        let token = self.token(Job::Chain);
        Some(Plan { token, action })
    }

    pub(super) fn wants_segment(&self) -> bool {
        let is_due = self.now_ms >= self.retry_at_ms && self.preparing.is_none();
        let written = if self.settings.mode == Mode::Safe { WRITTEN_AHEAD } else { 0 };
        let wanted = self.put_reserve() + AHEAD + written;
        let is_wanted = self.free.len() < wanted && self.segments_left() > 0;
        is_wanted && is_due && !self.is_stopping && !self.is_read_only()
    }

    fn prepare_segment(&mut self) {
        let id = self.next_number();
        // In turn, and past a directory that has no room or fails.
        let turn = (u64::from(id.0) + u64::from(self.attempts)) % u64::from(self.directories);
        let directory = DirectoryId(u16::try_from(turn).unwrap_or(0));
        let file = File { directory, name: FileName::Segment(id) };
        let shape = self.manifest.shape;
        let mut chain = Chain::default();
        chain.push(Action::Create { file });
        chain.push(Action::Allocate { file, bytes: shape.segment_bytes });
        // Where somebody waits for each flush, and not while somebody may wait for the segment.
        let ahead = self.put_reserve() + AHEAD;
        let has_written = self.free.iter().any(|id| self.is_written(*id));
        let is_written =
            self.settings.mode == Mode::Safe && !has_written && self.free.len() >= ahead;
        if is_written {
            push_zeros(&mut chain, file, shape.segment_bytes);
        }
        let bytes = (HEADER_COPIES * u64::from(shape.block_bytes)) as usize;
        let mut buffer = Buffer::new(bytes);
        let header = Header {
            log: self.manifest.log,
            segment: id.0,
            block_bytes: shape.block_bytes,
            generation: 1,
            segment_bytes: shape.segment_bytes,
        };
        for block in buffer.as_mut_slice().chunks_exact_mut(shape.block_bytes as usize) {
            header.encode(block);
        }
        chain.push(Action::Write { file, offset: 0, buffer: buffer.into(), from: 0, bytes });
        chain.push(Action::Flush { file });
        if !base::mutant!("log_no_directory_flush") {
            chain.push(Action::FlushDirectory { directory });
        }
        let mut manifest = self.manifest.clone();
        push_row(&mut manifest.rows, id);
        chain.push_manifest(&manifest.encode());
        self.chain = chain;
        self.preparing = Some(Preparing::Making(id, directory, is_written));
    }

    /// Takes what came of an action of the chain.
    pub(super) fn report_space(&mut self, outcome: Outcome) {
        let progress = self.chain.report(outcome);
        match (progress, self.preparing.take()) {
            (Progress::More, preparing) => self.preparing = preparing,
            (Progress::Finished, Some(Preparing::Making(id, directory, is_written))) => {
                push_row(&mut self.manifest.rows, id);
                self.add_segment(id, directory, is_written);
                self.use_number(id);
                self.retry_at_ms = 0;
                self.attempts = 0;
                self.compaction.look_again();
            }
            (Progress::Finished, Some(Preparing::Growing(kmax))) => self.end_growth(kmax),
            (Progress::Finished, Some(Preparing::Freeing(id))) => self.end_freeing(id),
            (Progress::Finished, Some(Preparing::Dropping(ids))) => self.end_removal(ids),
            (Progress::Finished, Some(Preparing::Removing(ids))) => self.note_removed(ids),
            // It is cleared away, and the number is free again.
            (Progress::Finished, Some(Preparing::Clearing(_)) | None) => {}
            (Progress::Broken(broken), preparing) => self.break_chain(broken, preparing),
        }
    }

    fn add_segment(&mut self, id: SegmentId, directory: DirectoryId, is_written: IsWritten) {
        let at = id.0 as usize;
        if self.segments.len() <= at {
            self.segments.resize(at + 1, None);
        }
        let segment = Segment::empty(self.manifest.log, id, directory, 1);
        self.segments[at] = Some(Segment { is_written, ..segment });
        self.free.push(id);
    }

    fn break_chain(&mut self, broken: Broken, preparing: Option<Preparing>) {
        self.chain = Chain::default();
        self.is_manifest_unsure |= broken.is_unsure;
        match preparing {
            Some(Preparing::Growing(_)) => {
                self.growth_error = Some(broken.error);
                return;
            }
            Some(Preparing::Freeing(id)) => return self.leave_segment(id),
            Some(Preparing::Dropping(ids)) => return self.keep_segments(ids),
            // Their numbers are not used again before the next open.
            Some(Preparing::Removing(_)) => return self.put_off_removal(),
            Some(Preparing::Making(..) | Preparing::Clearing(_)) | None => {}
        }
        self.attempts = self.attempts.saturating_add(1);
        let directories = u32::from(self.directories);
        self.retry_at_ms = if self.attempts < directories {
            // There may be room in another one.
            0
        } else if self.attempts.is_multiple_of(directories) {
            self.now_ms + RETRY_MS
        } else {
            self.now_ms.max(1)
        };
        if broken.is_unsure {
            return;
        }
        match preparing {
            // Somebody else's file has the number: it is passed over.
            Some(Preparing::Making(id, ..)) if is_taken(&broken, id) => self.use_number(id),
            // There is nothing of it.
            Some(Preparing::Making(id, ..)) if is_of_create(&broken, id) => {}
            Some(Preparing::Making(id, directory, _)) => {
                let file = File { directory, name: FileName::Segment(id) };
                let home = DirectoryId(0);
                let manifest = File { directory: home, name: FileName::ManifestNew };
                self.chain.push_tolerant(Action::Remove { file: manifest });
                self.chain.push_tolerant(Action::Truncate { file, bytes: 0 });
                self.chain.push_tolerant(Action::Remove { file });
                // Only then may another directory have a segment of this number.
                self.chain.push(Action::FlushDirectory { directory });
                self.preparing = Some(Preparing::Clearing(id));
            }
            // What is left of it is in the way of its number.
            Some(Preparing::Clearing(id)) => self.use_number(id),
            _ => {}
        }
    }
}

/// Rows are in the order of their numbers.
fn push_row(rows: &mut Vec<Row>, id: SegmentId) {
    let at = rows.partition_point(|row| row.segment < id);
    rows.insert(at, Row::of(id));
}

/// Writes zeros over all of a file: to write to a block that was only allocated takes the file
/// system's journal, too, and with it half as long again.
fn push_zeros(chain: &mut Chain, file: File, file_bytes: u64) {
    let bytes = usize::try_from(file_bytes).map_or(ZEROS_BYTES, |bytes| bytes.min(ZEROS_BYTES));
    let zeros = Arc::new(Buffer::new(bytes));
    for offset in (0..file_bytes).step_by(ZEROS_BYTES) {
        let left = usize::try_from(file_bytes - offset).unwrap_or(usize::MAX);
        let (buffer, bytes) = (Arc::clone(&zeros), left.min(ZEROS_BYTES));
        chain.push(Action::Write { file, offset, buffer, from: 0, bytes });
    }
}

/// Whether the file of the segment could not be made, and so is not there.
fn is_of_create(broken: &Broken, id: SegmentId) -> bool {
    matches!(
        &broken.error,
        Error::Disk { doing: "create", file, .. } if file.name == FileName::Segment(id)
    )
}

fn is_taken(broken: &Broken, id: SegmentId) -> bool {
    matches!(
        &broken.error,
        Error::Disk { file, failure: Failure::Exists, .. } if file.name == FileName::Segment(id)
    )
}
