//! Iteration in the order of insertion: the log read from its beginning to its end.
//!
//! Segments are visited in the order in which they were begun, and their records in the order in
//! which they lie. A record is shown if it is the newest of its key when the iteration comes to it.
//! What is visited is fixed when the iteration begins: what was flushed then. So
//!
//! 1. a key that was there at the beginning, and that nobody writes, is shown exactly once;
//! 2. one that is written or removed meanwhile is shown at most once, as it was; its new record
//!    lies behind the end, and is shown by whoever goes on from there;
//! 3. what is shown is durable.
//!
//! A record that is moved counts as written: it lies behind the end. Nothing is moved out of a
//! segment that an iteration has still to visit, because it is pinned, and what is moved out of one
//! that was visited has been shown. Only while nobody holds the iteration, but its cursor, may
//! records be moved that were not shown; they are shown by going on from the end. What was moved
//! before an iteration begins is flushed by then ([`Engine::settle_moves`]).
//!
//! No I/O happens here: an [`Iteration`] says what to read, and takes what was read.

use std::collections::VecDeque;

use super::{
    Engine,
    read::Stored,
    space::Role,
    tail::Tail,
    visit::{Holes, Lacks, Span, Stage, Visit, Window},
};
use crate::{
    error::Error,
    format::{
        KeyHash,
        cursor::{Cursor, Place},
        record::{Kind, Parts},
        segment::HEADER_COPIES,
    },
    keys::{KeyFlaw, Keys},
    plan::SegmentId,
    position::UNIT_BYTES,
};

/// Entries of an index of integers that are looked at under one lock: some 100 us.
const KEYS_AT_ONCE: u64 = 4096;

/// An iteration in the order of insertion. Ended by [`Engine::end_iteration`].
#[derive(Debug)]
pub struct Iteration {
    span: Span,
    /// Segments to visit, in their order, the first one being visited. All are pinned.
    visits: VecDeque<Visit>,
    /// Segments that were visited by what was taken last, and are pinned until that is shown.
    visited: Vec<SegmentId>,
    /// Segments that were visited before, and are still pinned.
    done: Vec<SegmentId>,
    /// Segments of the parts of the large value that was shown last, pinned.
    parts: Vec<SegmentId>,
}

/// A record that was read, and may be the newest of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key.
    pub key: Vec<u8>,
    /// What is stored; of a large value without its parts, which [`Engine::find_shown`] adds.
    pub stored: Stored,
    /// What comes next.
    pub cursor: Cursor,
    /// Of a large value: what says where its parts lie.
    pub(super) head: Option<Vec<u8>>,
    pub(super) segment: SegmentId,
    pub(super) offset: u64,
}

impl Iteration {
    /// What to read next; `None` at the end.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        self.visits.front()?.window()
    }

    /// Takes what [`Iteration::window`] has asked for: the records in it, and what is damaged, in
    /// their order. Which records count, the engine says. All that was taken before is shown.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Result<Found, Error>> {
        self.done.append(&mut self.visited);
        let Some(visit) = self.visits.front_mut() else { return Vec::new() };
        let found = visit.take(bytes, self.span);
        if visit.window().is_none() {
            self.pass_over();
        }
        found
    }

    /// Goes on behind the segment, which is not there.
    pub fn pass_over(&mut self) {
        self.visited.extend(self.visits.pop_front().map(|visit| visit.segment));
    }

    /// Where the iteration stands when all that was taken is shown.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let Span { log, from, upto } = self.span;
        let place = self.visits.front().map(|visit| visit.place(from, upto));
        let end = Place::Record {
            from: upto,
            upto: 0,
            begun: 0,
            segment: SegmentId(0),
            generation: 0,
            offset: 0,
        };
        Cursor { log, place: place.unwrap_or(end) }
    }
}

impl<K: Keys> Engine<K> {
    /// Begins an iteration in the order of insertion, or goes on with one: over what is flushed.
    ///
    /// # Errors
    /// When the cursor is none of this log's, or of another order.
    pub fn iterate(&mut self, after: Option<&Cursor>) -> Result<Iteration, Error> {
        self.compaction.release();
        let all = (0..self.next_segment).filter_map(|id| self.visit(SegmentId(id)));
        let mut visits: Vec<Visit> = all.collect();
        let (mut from, mut upto) = (0, self.first_unflushed_sequence());
        match after {
            None => {}
            Some(cursor) if cursor.log != self.manifest.log => {
                return Err(Error::Cursor { what: "it is of another log" });
            }
            Some(Cursor { place: Place::Key { .. }, .. }) => {
                return Err(Error::Cursor { what: "it is of an iteration by keys" });
            }
            Some(Cursor { place: Place::Record { from: since, upto: 0, .. }, .. }) => from = *since,
            Some(Cursor { place, .. }) => {
                self.check_place(place)?;
                (from, upto) = go_on(*place, &mut visits);
            }
        }
        visits.retain(|visit| visit.begun < upto);
        visits.sort_unstable_by_key(|visit| (visit.begun, visit.segment));
        visits.iter().for_each(|visit| self.keep(visit.segment));
        let span = Span { log: self.manifest.log, from, upto };
        Ok(Iteration {
            span,
            visits: visits.into(),
            visited: Vec::new(),
            done: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// Below which sequence every value is flushed: those from it on are none of an iteration that
    /// begins now, and come to whoever goes on from its end.
    fn first_unflushed_sequence(&self) -> u64 {
        if base::mutant!("log_iteration_upto_next") {
            return self.next_sequence;
        }
        let firsts = self.own_tails().filter_map(Tail::first_unflushed_value);
        firsts.min().unwrap_or(self.next_sequence)
    }

    /// A cursor carries a checksum, which anybody can write.
    fn check_place(&self, place: &Place) -> Result<(), Error> {
        let Place::Record { upto, offset, .. } = place else { return Ok(()) };
        let is_possible = *offset <= self.manifest.shape.segment_bytes
            && offset.is_multiple_of(u64::from(UNIT_BYTES))
            && *upto <= self.next_sequence;
        is_possible.then_some(()).ok_or(Error::Cursor { what: "it leads nowhere" })
    }

    /// A segment that has records.
    fn visit(&self, id: SegmentId) -> Option<Visit> {
        let segment = self.segment(id)?;
        let shape = &self.manifest.shape;
        let tail = self.tails().find(|tail| tail.segment == id);
        let records = |end, lacks| Stage::Records { end, lacks };
        let (begun, stage) = match (tail, segment.role) {
            // Whoever writes the footer has the list.
            (Some(tail), _) if tail.listed.is_empty() => {
                (segment.begun, records(tail.flushed_end(), Lacks::Damage))
            }
            (Some(tail), _) => (tail.listed.begun(), records(tail.flushed_end(), Lacks::Damage)),
            (None, Role::Sealed) => (segment.begun, Stage::Trailer),
            (None, Role::Unlisted) => {
                let good = self.good_ends.get(&id).map(|end| records(*end, Lacks::Damage));
                let whole = records(shape.segment_bytes, Lacks::Known);
                (segment.begun, good.unwrap_or(whole))
            }
            (None, Role::Free | Role::Freeing | Role::Open) => return None,
        };
        Some(Visit {
            begun,
            segment: id,
            generation: segment.generation,
            file: segment.file(id),
            seed: segment.seed,
            block_bytes: shape.block_bytes,
            segment_bytes: shape.segment_bytes,
            at: HEADER_COPIES * u64::from(shape.block_bytes),
            stage,
            holes: Holes::default(),
        })
    }

    /// Keeps of what an iteration has found what is the newest of its key and has not expired.
    pub fn keep_newest(
        &mut self,
        iteration: &mut Iteration,
        found: &mut Vec<Result<Found, Error>>,
        now_ms: u64,
    ) {
        iteration.done.drain(..).for_each(|segment| self.let_go(segment));
        for item in found.iter_mut() {
            if let Ok(record) = item
                && self.is_stranded(record.segment, record.offset)
            {
                *item = Err(Error::Unflushed);
            }
        }
        found.retain(|item| match item {
            Ok(record) => {
                let expiry_ms = record.stored.expiry_ms;
                self.is_newest(record).is_some() && (expiry_ms == 0 || expiry_ms > now_ms)
            }
            Err(_) => true,
        });
    }

    /// The hash of the record's key, if the record is the key's newest.
    fn is_newest(&self, found: &Found) -> Option<KeyHash> {
        let hash = self.index.hash(&found.key).ok()?;
        let position = self.position(found.segment, found.offset);
        let is_it = self.index.get(hash)?.position == position;
        (is_it || base::mutant!("log_iteration_of_old_records")).then_some(hash)
    }

    /// What is to be shown of a record that was kept; `None` when it is not the newest any more.
    /// The parts of a large value stay as they are until this is called again.
    ///
    /// # Errors
    /// When a part lies in a segment that is not there.
    pub fn find_shown(
        &mut self,
        iteration: &mut Iteration,
        found: Found,
    ) -> Result<Option<(Vec<u8>, Stored)>, Error> {
        iteration.parts.drain(..).for_each(|segment| self.let_go(segment));
        let Some(parts) = found.head.as_deref().and_then(Parts::parse) else {
            return Ok(Some((found.key, found.stored)));
        };
        // Only as long as the head is the newest are its parts there.
        let Some(hash) = self.is_newest(&found) else { return Ok(None) };
        let spread = self.spread(hash, &parts)?;
        iteration.parts.extend(parts.positions().map(|position| self.place(position).0));
        iteration.parts.dedup();
        iteration.parts.iter().for_each(|segment| self.keep(*segment));
        Ok(Some((found.key, Stored { parts: Some(spread), ..found.stored })))
    }

    /// Ends an iteration: what it kept from being freed may be freed.
    pub fn end_iteration(&mut self, iteration: Iteration) {
        let left = iteration.visits.into_iter().map(|visit| visit.segment);
        for segment in left.chain(iteration.visited).chain(iteration.done).chain(iteration.parts) {
            self.let_go(segment);
        }
        self.compaction.note_end_of_reading();
    }

    /// Whether somebody reads the segment, which has to stay as it is.
    pub fn is_pinned(&self, segment: SegmentId) -> bool {
        self.pins.has(segment)
    }

    /// Keys that are there among those from `next` on, of a log of integers, in their order; looks
    /// at few at a time. Says which key comes next; `None` at the end.
    ///
    /// # Errors
    /// When keys are no integers: they have no order.
    pub fn keys_from(&self, next: u64, keys: &mut Vec<u64>) -> Result<Option<u64>, Error> {
        let range = self.index.range().ok_or(Error::Key(KeyFlaw::NoOrder))?;
        let next = next.max(range.start);
        let end = range.end.min(next.saturating_add(KEYS_AT_ONCE));
        let is_there = |key: &u64| {
            let entry = self.index.get(KeyHash((*key).into()));
            entry.is_some_and(|entry| !entry.class.is_tombstone())
        };
        keys.extend((next..end).filter(is_there));
        Ok((end < range.end).then_some(end))
    }
}

/// Leaves of all segments those that are still to be visited. Says which sequences count.
fn go_on(place: Place, visits: &mut Vec<Visit>) -> (u64, u64) {
    let Place::Record { from, upto, begun, segment, generation, offset } = place else {
        return (0, 0);
    };
    visits.retain_mut(|visit| {
        // Of a segment whose file was removed another one may have number and generation.
        if (visit.segment, visit.generation, visit.begun) == (segment, generation, begun) {
            visit.at = visit.at.max(offset);
            return true;
        }
        (visit.begun, visit.segment) > (begun, segment)
    });
    (from, upto)
}

impl Tail {
    /// How far it is flushed.
    pub(super) fn flushed_end(&self) -> u64 {
        self.flushed
    }

    /// The sequence of the first value that is not flushed and may be the newest of its key. A
    /// tombstone may keep an old one, and so does what is not the newest any more and was written
    /// again.
    fn first_unflushed_value(&self) -> Option<u64> {
        let unflushed = self.listed.behind_chunk(self.flushed);
        let values = unflushed.filter(|it| matches!(it.kind, Kind::Value | Kind::Head));
        values.filter(|it| !self.listed.is_old(it)).map(|it| it.sequence).min()
    }
}
