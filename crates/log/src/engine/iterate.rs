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
//! records be moved that were not shown; they are shown by going on from the end.
//!
//! No I/O happens here: an [`Iteration`] says what to read, and takes what was read.

use std::collections::VecDeque;

use super::{Engine, read::Stored, space::Role, tail::Tail};
use crate::{
    error::Error,
    format::{
        KeyHash, LogId, Seed,
        cursor::{Cursor, Place},
        record::{Flaw, Kind, Parts, Record},
        segment::{HEADER_COPIES, Trailer},
    },
    keys::{KeyFlaw, Keys},
    plan::{Action, Buffer, File, SegmentId},
    position::{SizeClass, UNIT_BYTES},
};

const UNIT: u64 = UNIT_BYTES as u64;

/// Bytes that are read at once: more than the largest record and a block, and long enough for the
/// full rate of a device.
const WINDOW_BYTES: u64 = 1 << 20;

/// Entries of an index of integers that are looked at under one lock: some 100 us.
const KEYS_AT_ONCE: u64 = 4096;

/// An iteration in the order of insertion. Ended by [`Engine::end_iteration`].
#[derive(Debug)]
pub struct Iteration {
    log: LogId,
    block_bytes: u64,
    segment_bytes: u64,
    from: u64,
    upto: u64,
    /// Segments to visit, in their order, the first one being visited. All are pinned.
    stops: VecDeque<Stop>,
    /// Segments that were visited and are still pinned.
    visited: Vec<SegmentId>,
    /// Segments of the parts of the large value that was shown last, pinned.
    parts: Vec<SegmentId>,
}

/// A segment to visit.
#[derive(Debug)]
struct Stop {
    begun: u64,
    segment: SegmentId,
    generation: u64,
    file: File,
    seed: Seed,
    /// Where the next record may begin.
    at: u64,
    extent: Extent,
    /// Where a stretch without a record began.
    hole: Option<u64>,
}

/// How far the records of a segment reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// So far; what is missing is damage.
    To(u64),
    /// As the trailer says, which is read first.
    Trailer,
    /// Anywhere: there is no footer. What is missing was named when the log was opened.
    Anywhere,
}

/// What to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    file: File,
    offset: u64,
    bytes: usize,
}

impl Window {
    /// How many bytes the buffer must have that it is read into.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The action. After a short read that is not at the end of the file all of it is read again.
    #[must_use]
    pub fn action(&self, buffer: Buffer) -> Action {
        Action::Read { file: self.file, offset: self.offset, buffer, bytes: self.bytes }
    }

    /// An error of the disk as one of the log.
    #[must_use]
    pub fn failed(&self, failure: crate::plan::Failure) -> Error {
        Error::Disk { doing: "read", file: self.file, failure }
    }
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
    head: Option<Vec<u8>>,
    segment: SegmentId,
    offset: u64,
}

impl Iteration {
    /// What to read next; `None` at the end.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        let stop = self.stops.front()?;
        let file = stop.file;
        if stop.extent == Extent::Trailer {
            let offset = self.segment_bytes - self.block_bytes;
            return Some(Window { file, offset, bytes: self.block_bytes as usize });
        }
        let offset = stop.at - stop.at % self.block_bytes;
        let end = stop.end(self.segment_bytes).next_multiple_of(self.block_bytes);
        let bytes = end.saturating_sub(offset).min(WINDOW_BYTES).max(self.block_bytes);
        Some(Window { file, offset, bytes: bytes as usize })
    }

    /// Takes what [`Iteration::window`] has asked for: the records in it, and what is damaged, in
    /// their order. Which records count, the engine says.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Result<Found, Error>> {
        let mut found = Vec::new();
        let Some(window) = self.window() else { return found };
        let (from, upto, log) = (self.from, self.upto, self.log);
        let (block_bytes, segment_bytes) = (self.block_bytes, self.segment_bytes);
        let Some(stop) = self.stops.front_mut() else { return found };
        if stop.extent == Extent::Trailer {
            let trailer = Trailer::decode(bytes, stop.seed, window.offset);
            stop.extent = match trailer {
                Some(trailer) if trailer.greatest_sequence < from => Extent::To(stop.at),
                Some(trailer) => Extent::To(trailer.records_end.min(segment_bytes)),
                None => {
                    found.push(Err(stop.damaged(window.offset)));
                    Extent::Anywhere
                }
            };
        } else {
            let end = stop.end(segment_bytes);
            let read_end = window.offset + window.bytes as u64;
            while stop.at + UNIT <= end {
                if read_end < end && read_end < stop.at + u64::from(SizeClass::LARGEST.bytes()) {
                    break;
                }
                let rest = bytes.get((stop.at - window.offset) as usize..).unwrap_or_default();
                let Ok((record, length)) = Record::decode(rest, stop.seed, stop.at) else {
                    stop.step_over(rest, block_bytes);
                    continue;
                };
                found.extend(stop.end_hole().map(Err));
                let offset = stop.at;
                stop.at += length as u64;
                let is_value = record.kind.decides() && record.kind != Kind::Tombstone;
                if is_value && (from..upto).contains(&record.sequence) {
                    found.push(Ok(stop.found(&record, offset, (log, from, upto))));
                }
            }
        }
        if stop.extent != Extent::Trailer && stop.at + UNIT > stop.end(segment_bytes) {
            found.extend(stop.end_hole().map(Err));
            self.visited.extend(self.stops.pop_front().map(|stop| stop.segment));
        }
        found
    }

    /// Where the iteration stands when all that was taken is shown.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let place = match self.stops.front() {
            Some(stop) => stop.place(stop.at, self.from, self.upto),
            None => Place::Record {
                from: self.upto,
                upto: 0,
                begun: 0,
                segment: SegmentId(0),
                generation: 0,
                offset: 0,
            },
        };
        Cursor { log: self.log, place }
    }
}

impl Stop {
    fn end(&self, segment_bytes: u64) -> u64 {
        match self.extent {
            Extent::To(end) => end,
            Extent::Trailer | Extent::Anywhere => segment_bytes,
        }
    }

    /// No record begins at `at`, where `rest` lies.
    fn step_over(&mut self, rest: &[u8], block_bytes: u64) {
        // Less than the smallest padding record is left as zeros.
        let is_zero = rest.iter().take(UNIT_BYTES as usize).all(|byte| *byte == 0);
        let is_rest = is_zero && (self.at + UNIT).is_multiple_of(block_bytes);
        if self.hole.is_none() && !is_rest && matches!(self.extent, Extent::To(_)) {
            self.hole = Some(self.at);
        }
        self.at += UNIT;
    }

    fn end_hole(&mut self) -> Option<Error> {
        self.hole.take().map(|offset| self.damaged(offset))
    }

    fn damaged(&self, offset: u64) -> Error {
        Error::Damaged { file: self.file, offset, flaw: Flaw::NoRecord }
    }

    fn place(&self, offset: u64, from: u64, upto: u64) -> Place {
        let (begun, segment, generation) = (self.begun, self.segment, self.generation);
        Place::Record { from, upto, begun, segment, generation, offset }
    }

    /// `record`, which lies at `offset`, and behind which the iteration stands.
    fn found(
        &self,
        record: &Record<'_>,
        offset: u64,
        (log, from, upto): (LogId, u64, u64),
    ) -> Found {
        Found {
            key: record.key.to_vec(),
            stored: Stored::new(record),
            cursor: Cursor { log, place: self.place(self.at, from, upto) },
            head: (record.kind == Kind::Head).then(|| record.value.to_vec()),
            segment: self.segment,
            offset,
        }
    }
}

impl<K: Keys> Engine<K> {
    /// Begins an iteration in the order of insertion, or goes on with one: over what is flushed.
    ///
    /// # Errors
    /// When the cursor is none of this log's, or of another order.
    pub fn iterate(&mut self, after: Option<&Cursor>) -> Result<Iteration, Error> {
        let mut stops: Vec<Stop> = (0..self.next_segment).filter_map(|id| self.stop(id)).collect();
        let (mut from, mut upto) = (0, self.next_sequence);
        match after {
            None => {}
            Some(cursor) if cursor.log != self.manifest.log => {
                return Err(Error::Cursor { what: "it is of another log" });
            }
            Some(Cursor { place: Place::Key { .. }, .. }) => {
                return Err(Error::Cursor { what: "it is of an iteration by keys" });
            }
            Some(Cursor { place: Place::Record { from: since, upto: 0, .. }, .. }) => from = *since,
            Some(Cursor { place, .. }) => (from, upto) = go_on(*place, &mut stops),
        }
        stops.retain(|stop| stop.begun < upto);
        stops.sort_unstable_by_key(|stop| (stop.begun, stop.segment));
        stops.iter().for_each(|stop| self.pins.pin(stop.segment));
        let shape = &self.manifest.shape;
        Ok(Iteration {
            log: self.manifest.log,
            block_bytes: shape.block_bytes.into(),
            segment_bytes: shape.segment_bytes,
            from,
            upto,
            stops: stops.into(),
            visited: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// A segment that has records.
    fn stop(&self, id: u32) -> Option<Stop> {
        let id = SegmentId(id);
        let segment = self.segment(id)?;
        let at = HEADER_COPIES * u64::from(self.manifest.shape.block_bytes);
        let tail = self.tails().find(|tail| tail.segment == id);
        let (begun, extent) = match (tail, segment.role) {
            // Whoever writes the footer has the list.
            (Some(tail), _) if tail.listed.is_empty() => {
                (segment.smallest_sequence, Extent::To(tail.flushed_end()))
            }
            (Some(tail), _) => (tail.listed.smallest_sequence(), Extent::To(tail.flushed_end())),
            (None, Role::Sealed) => (segment.smallest_sequence, Extent::Trailer),
            (None, Role::Unlisted) => (segment.smallest_sequence, Extent::Anywhere),
            (None, Role::Free | Role::Open) => return None,
        };
        Some(Stop {
            begun,
            segment: id,
            generation: segment.generation,
            file: segment.file(id),
            seed: segment.seed,
            at,
            extent,
            hole: None,
        })
    }

    /// Keeps of what an iteration has found what is the newest of its key and has not expired.
    pub fn keep_newest(
        &mut self,
        iteration: &mut Iteration,
        found: &mut Vec<Result<Found, Error>>,
        now_ms: u64,
    ) {
        iteration.visited.drain(..).for_each(|segment| self.pins.unpin(segment));
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
        iteration.parts.drain(..).for_each(|segment| self.pins.unpin(segment));
        let Some(parts) = found.head.as_deref().and_then(Parts::parse) else {
            return Ok(Some((found.key, found.stored)));
        };
        // Only as long as the head is the newest are its parts there.
        let Some(hash) = self.is_newest(&found) else { return Ok(None) };
        let readings = self.part_readings(hash, &parts)?;
        iteration.parts.extend(parts.positions().map(|position| self.place(position).0));
        iteration.parts.dedup();
        iteration.parts.iter().for_each(|segment| self.pins.pin(*segment));
        let parts = Some((parts.value_bytes, readings));
        Ok(Some((found.key, Stored { parts, ..found.stored })))
    }

    /// Ends an iteration: what it kept from being freed may be freed.
    pub fn end_iteration(&mut self, iteration: Iteration) {
        let left = iteration.stops.into_iter().map(|stop| stop.segment);
        for segment in left.chain(iteration.visited).chain(iteration.parts) {
            self.pins.unpin(segment);
        }
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
fn go_on(place: Place, stops: &mut Vec<Stop>) -> (u64, u64) {
    let Place::Record { from, upto, begun, segment, generation, offset } = place else {
        return (0, 0);
    };
    stops.retain_mut(|stop| {
        if (stop.segment, stop.generation) == (segment, generation) {
            stop.at = stop.at.max(offset);
            return true;
        }
        (stop.begun, stop.segment) > (begun, segment)
    });
    (from, upto)
}

impl Tail {
    /// How far it is flushed.
    pub(super) fn flushed_end(&self) -> u64 {
        self.flushed
    }
}
