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
    removing::Left,
    space::{Role, Segment},
    tail::Tail,
};
use crate::{
    format::segment::HEADER_COPIES,
    keys::Keys,
    plan::{Action, Buffer, SegmentId},
    position::UNIT_BYTES,
};

/// Segments without live bytes that one put looks at, to tell whether a thread has to be woken:
/// some microseconds.
const LOOKED_AT_MAX: usize = 64;

/// And those that a thread looks at each time which frees them: 100 us or two. It goes on from
/// there.
const SEARCHED_MAX: usize = 4096;

/// Milliseconds between attempts to write a header when one has failed.
const RETRY_MS: u64 = 1000;

/// Of a note that was made while records were not written again yet: no count of failures is this.
const STRANDED: u32 = u32::MAX;

/// Of a note of which all was durable when a flush failed: none that fails voids it.
const SETTLED: Note = Note { below: 0, copies_below: 0, failures: SETTLED_FAILURES };
const SETTLED_FAILURES: u32 = STRANDED - 1;

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
    /// Segments of a ring whose headers could not be written, and when they are tried again.
    unwritten: BTreeMap<SegmentId, u64>,
}

impl Note {
    /// Whether it is about what may have been lost since, and is elsewhere now.
    fn is_void(&self, failures: u32) -> bool {
        self.failures != failures && *self != SETTLED
    }
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
    pub(super) fn note_empty(&mut self, left: Left) {
        let rows: BTreeSet<_> = self.manifest.rows.iter().map(|row| row.segment).collect();
        self.note_numbers(&rows, left);
        rows.into_iter().for_each(|id| self.note_if_empty(id));
    }

    /// A flush has failed, of a tail that is still there: it has lost nothing that was durable.
    pub(super) fn settle_notes(&mut self) {
        if !self.stranded.is_empty() || base::mutant!("log_notes_all_voided") {
            return;
        }
        let is_durable = self.is_durable();
        let Freeing { emptied, kept, .. } = &mut self.freeing;
        emptied.values_mut().chain(kept.values_mut()).filter(|note| is_durable(note)).for_each(
            |note| {
                *note = SETTLED;
            },
        );
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
                && (!note.is_void(failures) || base::mutant!("log_failed_note_kept"))
        }
    }

    /// A segment that can be freed now.
    fn next_emptied(&mut self) -> Option<SegmentId> {
        if self.is_read_only() {
            return None;
        }
        let stops = base::mutant!("log_header_stops_the_ring");
        if let Some(id) = self.due_header() {
            return Some(id);
        }
        if self.freeing.emptied.is_empty() || stops && !self.freeing.unwritten.is_empty() {
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
            if note.is_void(now.failures) && !base::mutant!("log_failed_note_kept") {
                *note = now;
            }
            let note = *note;
            if is_durable(&note) && self.may_come_free(id, &note) {
                return Some(id);
            }
        }
        self.freeing.next = looked_at.get(SEARCHED_MAX).copied();
        None
    }

    /// Whether a segment becomes empty without any call but reports.
    pub(super) fn is_freeing(&self) -> bool {
        matches!(self.preparing, Some(Preparing::Freeing(_)))
            || !self.is_read_only()
                && self.freeing.emptied.iter().any(|(id, note)| self.may_come_free(*id, note))
    }

    /// Whether the next generation of one is being written.
    pub(super) fn is_freeing_one(&self) -> bool {
        matches!(self.preparing, Some(Preparing::Freeing(_)))
    }

    /// Whether a segment can be freed, or a file removed, now, as far as that is soon seen.
    pub(super) fn wants_freeing(&self) -> bool {
        let may_free = self.preparing.is_none() && !self.is_read_only();
        may_free && self.has_ready() || self.wants_removal()
    }

    /// Whether one is without live bytes that nothing has to be awaited for.
    pub(super) fn has_ready(&self) -> bool {
        if self.due_header().is_some() {
            return true;
        }
        if self.freeing.emptied.is_empty() {
            return false;
        }
        let (is_durable, failures) = (self.is_durable(), self.failures);
        let mut looked_at = self.freeing.emptied.iter().take(LOOKED_AT_MAX);
        // A note that is void has to be made anew, by who frees.
        let is_ready = |note: &Note| note.is_void(failures) || is_durable(note);
        looked_at.any(|(id, note)| is_ready(note) && self.may_come_free(*id, note))
    }

    /// Whether nothing is in the way of freeing a segment that has been emptied but flushes.
    fn may_come_free(&self, id: SegmentId, note: &Note) -> bool {
        let is_settled = *note == SETTLED && !base::mutant!("log_settled_waits_for_rewriting");
        (self.stranded.is_empty() || is_settled) && !self.is_held(id)
    }

    /// What has to be flushed for segments that have been emptied to be all the empty ones that
    /// there are to be; `None` when they are too few.
    pub(super) fn awaited(&self) -> Option<Note> {
        if base::mutant!("log_made_beside_emptied") {
            return None;
        }
        let lacking = self.wanted_free().saturating_sub(self.free.len());
        let comes = |(id, note): &(&SegmentId, &Note)| {
            let is_empty = self.segment(**id).is_some_and(|segment| segment.live_bytes == 0);
            is_empty && self.is_sound(**id) && self.may_come_free(**id, note)
        };
        let emptied = self.freeing.emptied.iter().take(LOOKED_AT_MAX);
        let mut all = Note { below: 0, copies_below: 0, failures: self.failures };
        let mut left = lacking;
        for (_, note) in emptied.filter(comes).take(lacking) {
            all.below = all.below.max(note.below);
            all.copies_below = all.copies_below.max(note.copies_below);
            left -= 1;
        }
        (left == 0).then_some(all)
    }

    /// Whether all of that is on its way to the disk.
    pub(super) fn is_drained_to(&self, note: &Note) -> bool {
        let copies = self.copies.tail.as_ref().and_then(Tail::first_unclosed);
        let has_copies = copies.is_none_or(|first| first >= note.copies_below);
        self.drain_below >= note.below && has_copies
    }

    /// Has all of that be flushed.
    pub(super) fn drain_to(&mut self, note: &Note) {
        if base::mutant!("log_emptied_never_drained") {
            return;
        }
        self.close_copy_chunk();
        self.drain_upkeep(note.below);
    }

    /// Begins to free a segment that can be. Says whether there is one.
    pub(super) fn begin_freeing(&mut self) -> bool {
        let Some(id) = self.next_emptied() else { return false };
        self.freeing.emptied.remove(&id);
        self.freeing.unwritten.remove(&id);
        let block_bytes = self.manifest.shape.block_bytes;
        let Some(segment) = self.segment(id) else { return false };
        let header = self.manifest.header(id, segment.generation + 1);
        let (file, bytes) = (segment.file(id), block_bytes as usize);
        let mut buffer = Buffer::new(bytes);
        header.encode(buffer.as_mut_slice());
        let buffer = Arc::new(buffer);
        let mut chain = Chain::default();
        // One after the other: a torn write must leave one that is whole.
        for copy in [header.generation, header.generation + 1] {
            let offset = copy % HEADER_COPIES * u64::from(block_bytes);
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
        self.add_free(id);
        self.counts.segments_freed += 1;
        self.compaction.forget(id);
        self.dropped.remove(&id);
        self.compaction.look_again();
    }

    /// A header could not be written. Either generation counts, and nothing of it does. A ring that
    /// recovers tries again: what it has dropped may come back until then.
    pub(super) fn leave_segment(&mut self, id: SegmentId) {
        let tries = self.dropped.contains(&id) && !base::mutant!("log_header_tried_once");
        if let Some(segment) = self.segment_mut(id) {
            segment.role = Role::Unlisted;
            segment.may_be_freed = false;
        }
        self.compaction.survey.forget_floor();
        if tries {
            self.freeing.unwritten.insert(id, self.now_ms + RETRY_MS);
        }
    }

    /// A segment whose header is due once more. What has taken the place of its records was durable
    /// before the first time.
    fn due_header(&self) -> Option<SegmentId> {
        let mut unwritten = self.freeing.unwritten.iter();
        let due = unwritten.find(|(id, due_ms)| **due_ms <= self.now_ms && !self.is_held(**id));
        due.map(|(id, _)| *id)
    }

    /// When a header is written again that could not be.
    pub(super) fn header_due_ms(&self) -> Option<u64> {
        let due_ms = self.freeing.unwritten.values().copied().min();
        due_ms.filter(|due_ms| *due_ms > self.now_ms && !self.is_read_only())
    }

    /// The first unit of the log that no segment has reached yet.
    pub fn units_end(&self) -> u64 {
        u64::from(self.next_segment) * self.manifest.shape.segment_bytes / u64::from(UNIT_BYTES)
    }
}
