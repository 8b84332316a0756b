//! Freeing: a segment without live bytes becomes empty again.
//!
//! Invariants:
//! 1. It is freed only when everything that has taken the place of its records is durable: a crash
//!    must not take both. What was appended up to the moment when its last record died is noted,
//!    wherever it is, and awaited. A flush that fails meanwhile has what it lost written again, and
//!    everything up to there is noted anew.
//! 2. It counts, with all its records, until its next generation is durable.
//! 3. Whoever reads from it, or has put parts of a value that has no head yet, holds a [`Pin`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Engine, Pin,
    chain::Chain,
    preparing::Preparing,
    space::{Role, Segment},
};
use crate::{
    format::segment::{HEADER_COPIES, Header},
    keys::Keys,
    plan::{Action, Buffer, SegmentId},
    position::UNIT_BYTES,
};

/// Empty segments that are kept beyond the reserve and those that are made ahead; the files of more
/// are removed. Without one that is neither, each segment that is freed would have a file removed
/// for which another one is made when the next is taken.
const FREE_MAX: usize = 1;

/// Files that are removed after one manifest without their rows: of a large log that has some MB.
/// Nothing else is done to segments meanwhile.
const REMOVED_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// Milliseconds before a segment's file is tried to be removed again.
const REMOVE_RETRY_MS: u64 = 1000;

/// Segments without live bytes that one put looks at, to tell whether a thread has to be woken:
/// some microseconds.
const LOOKED_AT_MAX: usize = 64;

/// And those that a thread looks at each time which frees them: 100 us or two. It goes on from
/// there.
const SEARCHED_MAX: usize = 4096;

/// Of a note that was made while records were not written again yet: no count of failures is this.
const STRANDED: u32 = u32::MAX;

/// How far everything must be flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// Every ticket below this one.
    below: u64,
    /// And every ticket of a copy below this one.
    copies_below: u64,
    /// Flushes that had failed. When that is not their number, it is void.
    failures: u32,
}

/// What is on its way to being free.
#[derive(Debug, Default)]
pub(super) struct Freeing {
    /// Segments without live bytes, and what is awaited before they are freed.
    pub(super) emptied: BTreeMap<SegmentId, Note>,
    /// The same of those that somebody iterates over or copies: these may be many, for long.
    kept: BTreeMap<SegmentId, Note>,
    /// The next one to look at, when there are many and all were held.
    next: Option<SegmentId>,
    /// Numbers below the last that are free again.
    pub(super) numbers: BTreeSet<SegmentId>,
    /// No file is removed before this time: the last attempt failed.
    remove_at_ms: u64,
}

impl Segment {
    /// Whether it is one that may be freed when nothing of it is live.
    fn is_done_with(&self) -> bool {
        matches!(self.role, Role::Sealed | Role::Unlisted) && self.may_be_freed
    }
}

impl<K: Keys> Engine<K> {
    /// Keeps a segment from being freed as long as the pin is held; `None` when there is no such
    /// segment, or it is being freed.
    pub fn pin(&self, segment: SegmentId) -> Option<Pin> {
        let segment = self.segment(segment).filter(|segment| segment.role != Role::Freeing);
        segment.map(|segment| segment.pin.clone())
    }

    /// Somebody reads the segment until [`Engine::let_go`].
    pub(super) fn keep(&mut self, id: SegmentId) {
        self.pins.pin(id);
        if let Some(note) = self.freeing.emptied.remove(&id) {
            self.note_emptied(id, note);
        }
    }

    /// Somebody who has kept a segment reads it no more.
    pub(super) fn let_go(&mut self, id: SegmentId) {
        self.pins.unpin(id);
        if let Some(note) = self.freeing.kept.remove(&id) {
            self.note_emptied(id, note);
        }
    }

    fn note_emptied(&mut self, id: SegmentId, note: Note) {
        let is_kept = self.is_pinned(id) && !base::mutant!("log_freed_under_iteration");
        let Freeing { emptied, kept, .. } = &mut self.freeing;
        let place = if is_kept { kept } else { emptied };
        place.insert(id, note);
    }

    /// Whether somebody reads the segment now, or puts a large value of which parts are in it.
    fn is_held(&self, id: SegmentId) -> bool {
        self.segment(id).is_none_or(|segment| segment.pin.is_held())
    }

    /// Up to where everything must be flushed for what was appended so far to be durable.
    fn note(&self) -> Note {
        // What a failed flush has lost will have greater tickets than any that there are.
        let is_all = self.stranded.is_empty() || base::mutant!("log_noted_while_stranded");
        Note {
            below: self.next_ticket,
            copies_below: self.next_copy_ticket(),
            failures: if is_all { self.failures } else { STRANDED },
        }
    }

    /// The segment may have lost the last of its live bytes.
    pub(super) fn note_if_empty(&mut self, id: SegmentId) {
        let is_empty = self
            .segment(id)
            .is_some_and(|segment| segment.live_bytes == 0 && segment.is_done_with());
        if is_empty {
            // It may have been noted before a large value got its head, and parts in it lived.
            let note = self.note();
            self.note_emptied(id, note);
            self.compaction.look_again();
        }
    }

    /// Notes all segments that an open has found without live bytes, and the numbers below the last
    /// that may be used again: somebody else's files are in the way of some.
    pub(super) fn note_empty(&mut self, foreign: &BTreeSet<SegmentId>) {
        let rows: BTreeSet<_> = self.manifest.rows.iter().map(|row| row.segment).collect();
        let numbers = (0..self.next_segment).map(SegmentId);
        self.freeing.numbers =
            numbers.filter(|id| !rows.contains(id) && !foreign.contains(id)).collect();
        rows.into_iter().for_each(|id| self.note_if_empty(id));
    }

    /// Tells of a note whether everything is durable that it is about.
    fn is_durable(&self) -> impl Fn(&Note) -> bool + use<K> {
        let (below, copies_below) = (self.durable_below(), self.copies_durable_below());
        let first_open = self.open.as_ref().and_then(|tail| tail.first_unflushed());
        let failures = self.failures;
        move |note| {
            if base::mutant!("log_freed_before_replacers") {
                return true;
            }
            let is_flushed = if base::mutant!("log_notes_skip_sealed") {
                first_open.is_none_or(|first| first >= note.below)
            } else {
                note.below <= below
            };
            let has_copies = note.copies_below <= copies_below;
            let has_copies = has_copies || base::mutant!("log_freed_before_copies");
            is_flushed
                && has_copies
                && (note.failures == failures || base::mutant!("log_failed_note_kept"))
        }
    }

    /// A segment that can be freed now.
    fn next_emptied(&mut self) -> Option<SegmentId> {
        if self.freeing.emptied.is_empty() || self.is_read_only() || !self.stranded.is_empty() {
            return None;
        }
        let (now, is_durable) = (self.note(), self.is_durable());
        let from = self.freeing.next.unwrap_or(SegmentId(0));
        let emptied = &self.freeing.emptied;
        let in_turn = emptied.range(from..).chain(emptied.range(..from)).map(|(id, _)| *id);
        let looked_at: Vec<SegmentId> = in_turn.take(SEARCHED_MAX + 1).collect();
        for id in looked_at.iter().copied().take(SEARCHED_MAX) {
            // A large value may have got its head since: its parts are live then.
            if self.segment(id).is_none_or(|segment| segment.live_bytes > 0) {
                self.freeing.emptied.remove(&id);
                continue;
            }
            let Some(note) = self.freeing.emptied.get_mut(&id) else { continue };
            // What had taken the place of its records may have been lost, and be elsewhere now.
            if note.failures != now.failures && !base::mutant!("log_failed_note_kept") {
                *note = now;
            }
            let note = *note;
            if is_durable(&note) && !self.is_held(id) {
                return Some(id);
            }
        }
        self.freeing.next = looked_at.get(SEARCHED_MAX).copied();
        None
    }

    /// Whether a segment becomes empty without any call but reports.
    pub(super) fn is_freeing(&self) -> bool {
        matches!(self.preparing, Some(Preparing::Freeing(_)))
            || !self.is_read_only() && self.freeing.emptied.keys().any(|id| !self.is_held(*id))
    }

    /// Whether a segment can be freed, or a file removed, now, as far as that is soon seen.
    pub(super) fn wants_freeing(&self) -> bool {
        let may_free = self.preparing.is_none() && self.stranded.is_empty();
        may_free && !self.is_read_only() && self.has_ready() || self.wants_removal()
    }

    /// Whether one is without live bytes that nothing has to be awaited for.
    pub(super) fn has_ready(&self) -> bool {
        if self.freeing.emptied.is_empty() {
            return false;
        }
        let (is_durable, failures) = (self.is_durable(), self.failures);
        let mut looked_at = self.freeing.emptied.iter().take(LOOKED_AT_MAX);
        // A note that is void has to be made anew, by who frees.
        let is_due = |note: &Note| note.failures != failures || is_durable(note);
        looked_at.any(|(id, note)| is_due(note) && !self.is_held(*id))
    }

    fn wants_removal(&self) -> bool {
        let is_due = self.now_ms >= self.freeing.remove_at_ms && self.preparing.is_none();
        self.too_many_free() > 0 && is_due && !self.is_read_only()
    }

    fn too_many_free(&self) -> usize {
        self.free.len().saturating_sub(self.wanted_free() + FREE_MAX)
    }

    /// Begins to free a segment that can be. Says whether there is one.
    pub(super) fn begin_freeing(&mut self) -> bool {
        let Some(id) = self.next_emptied() else { return false };
        self.freeing.emptied.remove(&id);
        let shape = self.manifest.shape;
        let Some(segment) = self.segment(id) else { return false };
        let header = Header {
            log: self.manifest.log,
            segment: id.0,
            block_bytes: shape.block_bytes,
            generation: segment.generation + 1,
            segment_bytes: shape.segment_bytes,
        };
        let (file, bytes) = (segment.file(id), shape.block_bytes as usize);
        let mut buffer = Buffer::new(bytes);
        header.encode(buffer.as_mut_slice());
        let buffer = Arc::new(buffer);
        let mut chain = Chain::default();
        // One after the other: a torn write must leave one that is whole.
        for copy in [header.generation, header.generation + 1] {
            let offset = copy % HEADER_COPIES * u64::from(shape.block_bytes);
            let buffer = Arc::clone(&buffer);
            chain.push(Action::Write { file, offset, buffer, from: 0, bytes });
            chain.push(Action::Flush { file });
        }
        if base::mutant!("log_freed_without_header") {
            self.end_freeing(id);
            return true;
        }
        self.chain = chain;
        self.preparing = Some(Preparing::Freeing(id));
        // Whoever asks for it now comes too late.
        if !base::mutant!("log_freeing_still_sealed") {
            self.segment_mut(id).into_iter().for_each(|segment| segment.role = Role::Freeing);
        }
        true
    }

    /// The next generation is durable.
    pub(super) fn end_freeing(&mut self, id: SegmentId) {
        let log = self.manifest.log;
        let Some(segment) = self.segment_mut(id) else { return };
        let next = Segment::empty(log, id, segment.directory, segment.generation + 1);
        *segment = Segment { is_written: true, ..next };
        self.free.push(id);
        self.counts.segments_freed += 1;
        self.compaction.forget(id);
        self.compaction.look_again();
    }

    /// A header could not be written. Either generation counts, and nothing of it does.
    pub(super) fn leave_segment(&mut self, id: SegmentId) {
        if let Some(segment) = self.segment_mut(id) {
            segment.role = Role::Unlisted;
            segment.may_be_freed = false;
        }
        self.compaction.survey.forget_floor();
    }

    /// Begins to remove the files of empty segments, the last ones: their rows first, so that the
    /// manifest has none that is not there. Says whether there are too many.
    pub(super) fn begin_removal(&mut self) -> bool {
        if !self.wants_removal() {
            return false;
        }
        let mut last = self.free.clone();
        last.sort_unstable();
        last.drain(..last.len() - self.too_many_free().min(REMOVED_MAX));
        self.free.retain(|id| last.binary_search(id).is_err());
        let mut manifest = self.manifest.clone();
        manifest.rows.retain(|row| last.binary_search(&row.segment).is_err());
        let mut chain = Chain::default();
        chain.push_manifest(&manifest.encode());
        self.chain = chain;
        self.preparing = Some(Preparing::Dropping(last));
        true
    }

    /// The manifest without the rows is durable: the files are removed. The numbers are in order.
    pub(super) fn end_removal(&mut self, ids: Vec<SegmentId>) {
        self.manifest.rows.retain(|row| ids.binary_search(&row.segment).is_err());
        let mut directories = BTreeSet::new();
        for id in &ids {
            let segment = self.segments.get_mut(id.0 as usize).and_then(Option::take);
            let Some(segment) = segment else { continue };
            self.chain.push_tolerant(Action::Remove { file: segment.file(*id) });
            directories.insert(segment.directory);
        }
        // Only then may other segments have their numbers.
        for directory in directories {
            self.chain.push(Action::FlushDirectory { directory });
        }
        if base::mutant!("log_number_before_flush") {
            self.freeing.numbers.extend(&ids);
        }
        self.preparing = self.chain.is_busy().then_some(Preparing::Removing(ids));
    }

    /// The files are gone.
    pub(super) fn note_removed(&mut self, ids: Vec<SegmentId>) {
        self.counts.files_removed += ids.len() as u64;
        self.freeing.numbers.extend(ids);
    }

    /// The manifest could not be written; the segments are as they were.
    pub(super) fn keep_segments(&mut self, ids: Vec<SegmentId>) {
        self.put_off_removal();
        self.free.extend(ids);
    }

    /// A file could not be removed.
    pub(super) fn put_off_removal(&mut self) {
        self.freeing.remove_at_ms = self.now_ms + REMOVE_RETRY_MS;
    }

    /// The number of the next segment that is made: one that was used before, if there is one.
    pub(super) fn next_number(&self) -> SegmentId {
        self.freeing.numbers.first().copied().unwrap_or(SegmentId(self.next_segment))
    }

    /// The number is used, or something is in the way of it.
    pub(super) fn use_number(&mut self, id: SegmentId) {
        self.freeing.numbers.remove(&id);
        self.next_segment = self.next_segment.max(id.0 + 1);
    }

    /// How many segments there may be yet.
    pub(super) fn segments_left(&self) -> usize {
        self.segments_max().saturating_sub(self.next_segment as usize) + self.freeing.numbers.len()
    }

    /// The first unit of the log that no segment has reached yet.
    pub fn units_end(&self) -> u64 {
        u64::from(self.next_segment) * self.manifest.shape.segment_bytes / u64::from(UNIT_BYTES)
    }
}
