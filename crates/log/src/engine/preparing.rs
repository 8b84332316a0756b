//! What is being prepared, one thing at a time: a segment that is made, freed or removed, room
//! for more keys, or the end of all that is stored.
//!
//! A segment is prepared ahead: it is created, allocated, given its header and its row in the
//! manifest, each step flushed before the next, so that a put finds it empty and ready.

use std::sync::Arc;

use super::{
    Engine, Job, Mode,
    chain::{Broken, Chain, Progress},
    removing::Rowless,
    space::Segment,
};
use crate::{
    error::Error,
    format::{manifest::Row, segment::HEADER_COPIES},
    keys::Keys,
    plan::{Action, Buffer, DirectoryId, Failure, File, FileName, Outcome, Plan, SegmentId},
};

/// Empty segments beyond the reserve that are prepared ahead.
const AHEAD: usize = 1;

/// And so many more in `safe`, written before they are used: nobody waits for that, because there
/// is another one.
const WRITTEN_AHEAD: usize = 1;

/// Bytes of zeros that are written at once: short enough for a flush that somebody waits for to
/// come between.
const ZEROS_BYTES: usize = 256 << 10;

/// What is on its way.
#[derive(Debug)]
pub(super) enum Preparing {
    Making(SegmentId, DirectoryId, IsWritten),
    /// It could not be made; what there is of it is being removed.
    Clearing(SegmentId, DirectoryId),
    /// No segment: the manifest is written that has more keys.
    Growing(u64),
    /// No segment: the manifest is written that says below which sequence everything is dead.
    Wiping(u64),
    /// Its next generation is written.
    Freeing(SegmentId),
    /// The manifest is written that has no rows of them.
    Dropping(Vec<SegmentId>),
    /// Their files are removed.
    Removing(Vec<Rowless>),
}

/// Whether zeros are written to a segment before it is used.
type IsWritten = bool;

impl<K: Keys> Engine<K> {
    /// The next action of what is being prepared.
    pub(super) fn poll_space(&mut self) -> Option<Plan> {
        self.attempts.tell_ms(self.now_ms);
        if self.wants_growth() {
            self.begin_growth();
        }
        if self.wants_wipe() {
            self.begin_wipe();
        }
        // To free one is sooner done than to make one; but moves may empty one after the other.
        let is_turn = self.wants_segment() && self.has_freed_last;
        let has_begun = self.preparing.is_none() && !is_turn && self.begin_freeing();
        if !has_begun && self.wants_segment() {
            match self.awaited() {
                Some(note) => self.drain_to(&note),
                None => self.prepare_segment(),
            }
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

    /// Empty segments that there are to be: in reserve, and made ahead.
    pub(super) fn wanted_free(&self) -> usize {
        let written = if self.settings.mode == Mode::Safe { WRITTEN_AHEAD } else { 0 };
        self.put_reserve() + AHEAD + written
    }

    /// Whether something is to be done for another empty segment: it is made, or what the ones that
    /// have been emptied wait for is flushed. To make one beside these would be to take more of the
    /// disk for some milliseconds.
    pub(super) fn wants_segment(&self) -> bool {
        let is_wanted = self.free.len() < self.wanted_free() && self.preparing.is_none();
        let may = is_wanted && !self.is_stopping && !self.is_read_only();
        may && match self.awaited() {
            Some(note) => !self.is_drained_to(&note),
            None => self.segments_left() > 0 && self.attempts.is_due(self.now_ms),
        }
    }

    /// Whether one is being made.
    pub(super) fn is_making(&self) -> bool {
        matches!(self.preparing, Some(Preparing::Making(..)))
    }

    fn prepare_segment(&mut self) {
        let id = self.next_number();
        let directory = self.next_directory(id);
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
        let header = self.manifest.header(id, 1);
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

    /// Where the next segment is made: in turn, past a directory that has no room or fails, and not
    /// where records could not be written.
    fn next_directory(&self, id: SegmentId) -> DirectoryId {
        // A number that could not be cleared away was another attempt's, and is used up.
        let number = u64::from(id.0).saturating_sub(u64::from(self.uncleared()));
        let turn =
            (number + u64::from(self.attempts.failed())) % u64::from(self.directories_left());
        let turn = u16::try_from(turn).unwrap_or(0);
        let is_behind = self.failed_directory.is_some_and(|failed| failed.0 <= turn);
        DirectoryId(turn + u16::from(is_behind))
    }

    fn directories_left(&self) -> u16 {
        self.directories - u16::from(self.failed_directory.is_some())
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
                self.attempts.succeed();
                self.note_made();
                self.compaction.look_again();
            }
            (Progress::Finished, Some(Preparing::Growing(kmax))) => self.end_growth(kmax),
            (Progress::Finished, Some(Preparing::Wiping(dead_below))) => self.end_wipe(dead_below),
            (Progress::Finished, Some(Preparing::Freeing(id))) => self.end_freeing(id),
            (Progress::Finished, Some(Preparing::Dropping(ids))) => self.end_removal(&ids),
            (Progress::Finished, Some(Preparing::Removing(files))) => self.note_removed(files),
            // It is cleared away, and the number is free again.
            (Progress::Finished, Some(Preparing::Clearing(..)) | None) => {}
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
        self.add_free(id);
    }

    fn break_chain(&mut self, broken: Broken, preparing: Option<Preparing>) {
        self.chain = Chain::default();
        self.is_manifest_unsure |= broken.is_unsure;
        match preparing {
            Some(Preparing::Growing(_)) => {
                self.growth_error = Some(broken.error);
                return;
            }
            Some(Preparing::Wiping(_)) => return self.fail_wipe(broken.error),
            Some(Preparing::Freeing(id)) => return self.leave_segment(id),
            Some(Preparing::Dropping(ids)) => return self.keep_segments(ids),
            // No failure ends it.
            Some(Preparing::Removing(_)) => return self.put_off_removal(false),
            // What is left of it is in the way of its number. Another one may be made elsewhere.
            Some(Preparing::Clearing(id, directory)) => {
                return self.note_uncleared((id, directory));
            }
            Some(Preparing::Making(..)) | None => {}
        }
        if let Some(Preparing::Making(id, ..)) = preparing
            && is_taken(&broken, id)
            && self.attempts.pass_over()
        {
            return self.use_number(id);
        }
        // A ring that cannot grow drops what is oldest.
        if self.settings.ring.is_some() {
            self.compaction.look_again();
        }
        let directories = u32::from(self.directories_left());
        let is_news = self.attempts.fail(directories, self.now_ms);
        if is_news && !base::mutant!("log_full_disk_unseen") {
            // On a full disk copies may take what they leave on another one.
            self.compaction.look_again();
        }
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
                self.preparing = Some(Preparing::Clearing(id, directory));
            }
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
