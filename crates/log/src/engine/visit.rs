//! Reading one segment for an iteration: its trailer, then its records, a window at a time, and its
//! footer if something was missing among them.
//!
//! A stretch without a record is damage only if the footer lists a record there: one that a crash
//! has torn has such stretches, and a footer since it was sealed.

use super::{iterate::Found, read::Stored};
use crate::{
    error::Error,
    format::{
        LogId, Seed,
        cursor::{Cursor, Place},
        record::{Flaw, Kind, Record},
        segment::{Trailer, decode_footer_block, footer_blocks},
    },
    plan::{Action, Buffer, Failure, File, SegmentId},
    position::{SizeClass, UNIT_BYTES},
};

const UNIT: u64 = UNIT_BYTES as u64;

/// Bytes that are read at once: more than the largest record and a block, and long enough for the
/// full rate of a device.
const WINDOW_BYTES: u64 = 512 << 10;

/// Footer blocks that are read at once: 64 KiB of the largest.
const FOOTER_BLOCKS: u64 = 16;

/// Stretches without a record that are kept of a segment, in a megabyte. Of those behind only the
/// first is named.
const HOLES_MAX: usize = 1 << 16;

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

    /// The same in pieces, for a window of which something cannot be read: what cannot is taken as
    /// zeros.
    pub fn pieces(self, block_bytes: u32) -> impl Iterator<Item = Self> {
        let Self { file, offset, bytes } = self;
        let block = block_bytes as usize;
        (0..bytes).step_by(block).map(move |at| {
            let bytes = block.min(bytes - at);
            Self { file, offset: offset + at as u64, bytes }
        })
    }

    /// An error of the disk as one of the log.
    #[must_use]
    pub fn failed(&self, failure: Failure) -> Error {
        Error::Unreadable { file: self.file, offset: self.offset, failure }
    }
}

/// Which records an iteration shows, and of which log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) log: LogId,
    pub(super) from: u64,
    pub(super) upto: u64,
}

/// A segment to visit.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) begun: u64,
    pub(super) segment: SegmentId,
    pub(super) generation: u64,
    pub(super) file: File,
    pub(super) seed: Seed,
    pub(super) block_bytes: u32,
    pub(super) segment_bytes: u64,
    /// Where the next record may begin.
    pub(super) at: u64,
    pub(super) stage: Stage,
    pub(super) holes: Holes,
}

/// What is read next of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The trailer.
    Trailer,
    /// Records up to `end`.
    Records { end: u64, lacks: Lacks },
    /// The footer, from a block on.
    Footer { begin: u64, next: u64, blocks: u64 },
    /// Nothing.
    Done,
}

/// What a stretch without a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lacks {
    /// Damage: this run has written records there.
    Damage,
    /// What the footer, of so many entries, says.
    Listed(u64),
    /// Whatever the report of the open says.
    Known,
}

/// Stretches without a record.
#[derive(Debug, Default)]
pub(super) struct Holes {
    all: Vec<(u64, u64)>,
    open: Option<u64>,
    more: Option<u64>,
}

impl Holes {
    fn end(&mut self, at: u64) {
        let Some(from) = self.open.take() else { return };
        if self.all.len() < HOLES_MAX {
            self.all.push((from, at));
        } else {
            self.more.get_or_insert(from);
        }
    }

    fn has(&self, offset: u64) -> bool {
        let behind = self.all.partition_point(|(from, _)| *from <= offset);
        behind > 0 && self.all.get(behind - 1).is_some_and(|(_, to)| offset < *to)
    }
}

impl Visit {
    /// What to read next; `None` when all was.
    pub(super) fn window(&self) -> Option<Window> {
        let block = u64::from(self.block_bytes);
        let (offset, bytes) = match self.stage {
            Stage::Done => return None,
            Stage::Trailer => (self.segment_bytes - block, block),
            Stage::Records { end, .. } => {
                let offset = self.at - self.at % block;
                let bytes = end.next_multiple_of(block).saturating_sub(offset);
                (offset, bytes.min(WINDOW_BYTES).max(block))
            }
            Stage::Footer { begin, next, blocks } => {
                (begin + next * block, (blocks - next).min(FOOTER_BLOCKS) * block)
            }
        };
        Some(Window { file: self.file, offset, bytes: bytes as usize })
    }

    /// Takes what was asked for.
    pub(super) fn take(&mut self, bytes: &[u8], span: Span) -> Vec<Result<Found, Error>> {
        let mut found = Vec::new();
        let Some(window) = self.window() else { return found };
        match self.stage {
            Stage::Done => {}
            Stage::Trailer => found.extend(self.take_trailer(bytes, window, span).map(Err)),
            Stage::Records { end, lacks } => {
                self.take_records(bytes, window, end, span, &mut found);
                if self.at + UNIT > end {
                    self.end_records(end, lacks, &mut found);
                }
            }
            Stage::Footer { begin, next, blocks } => {
                self.take_footer(bytes, window, next, span, &mut found);
                let next = next + (window.bytes as u64) / u64::from(self.block_bytes);
                let is_end = next >= blocks;
                self.stage =
                    if is_end { Stage::Done } else { Stage::Footer { begin, next, blocks } };
            }
        }
        found
    }

    fn take_trailer(&mut self, bytes: &[u8], window: Window, span: Span) -> Option<Error> {
        let trailer = Trailer::decode(bytes, self.seed, window.offset);
        self.stage = match trailer {
            Some(trailer) if trailer.greatest_sequence < span.from => Stage::Done,
            Some(trailer) => {
                let end = trailer.records_end.min(self.segment_bytes);
                Stage::Records { end, lacks: Lacks::Listed(trailer.entries) }
            }
            None => Stage::Records { end: self.segment_bytes, lacks: Lacks::Known },
        };
        trailer.is_none().then(|| self.damaged(window.offset))
    }

    fn take_records(
        &mut self,
        bytes: &[u8],
        window: Window,
        end: u64,
        span: Span,
        found: &mut Vec<Result<Found, Error>>,
    ) {
        let read_end = window.offset + window.bytes as u64;
        while self.at + UNIT <= end {
            if read_end < end && read_end < self.at + u64::from(SizeClass::LARGEST.bytes()) {
                return;
            }
            let rest = bytes.get((self.at - window.offset) as usize..).unwrap_or_default();
            let Ok((record, length)) = Record::decode(rest, self.seed, self.at) else {
                self.step_over(rest);
                continue;
            };
            self.holes.end(self.at);
            let offset = self.at;
            self.at += length as u64;
            let is_value = record.kind.decides() && record.kind != Kind::Tombstone;
            if is_value && (span.from..span.upto).contains(&record.sequence) {
                found.push(Ok(self.found(&record, offset, span)));
            }
        }
    }

    fn end_records(&mut self, end: u64, lacks: Lacks, found: &mut Vec<Result<Found, Error>>) {
        self.holes.end(end);
        found.extend(self.holes.more.map(|from| Err(self.damaged(from))));
        self.stage = match lacks {
            // Where nothing is listed there is no footer.
            Lacks::Listed(entries) if entries > 0 && !self.holes.all.is_empty() => {
                let count = usize::try_from(entries).unwrap_or(0);
                let blocks = footer_blocks(count, self.block_bytes);
                let most = (self.segment_bytes - end) / u64::from(self.block_bytes);
                Stage::Footer { begin: end, next: 0, blocks: blocks.clamp(1, most.max(1)) }
            }
            Lacks::Damage => {
                let places = self.holes.all.iter().map(|(from, _)| Err(self.damaged(*from)));
                found.extend(places);
                Stage::Done
            }
            Lacks::Listed(_) | Lacks::Known => Stage::Done,
        };
    }

    /// Names what the footer lists and was not found.
    fn take_footer(
        &self,
        bytes: &[u8],
        window: Window,
        next: u64,
        span: Span,
        found: &mut Vec<Result<Found, Error>>,
    ) {
        let block = self.block_bytes as usize;
        for (number, at) in (next..).zip((0..window.bytes).step_by(block)) {
            let offset = window.offset + at as u64;
            let bytes = bytes.get(at..at + block).unwrap_or_default();
            let Some(listed) = decode_footer_block(bytes, number, self.seed, offset) else {
                found.push(Err(self.damaged(offset)));
                continue;
            };
            let is_value = |kind| kind == Kind::Value || kind == Kind::Head;
            let lost = listed.iter().filter(|listed| {
                let is_asked_for = (span.from..span.upto).contains(&listed.sequence);
                is_asked_for && is_value(listed.kind) && self.holes.has(listed.offset())
            });
            found.extend(lost.map(|listed| Err(self.damaged(listed.offset()))));
        }
    }

    /// No record begins where `rest` lies.
    fn step_over(&mut self, rest: &[u8]) {
        // Less than the smallest padding record is left as zeros.
        let is_zero = rest.iter().take(UNIT_BYTES as usize).all(|byte| *byte == 0);
        let is_rest = is_zero && (self.at + UNIT).is_multiple_of(u64::from(self.block_bytes));
        if self.holes.open.is_none() && !is_rest {
            self.holes.open = Some(self.at);
        }
        self.at += UNIT;
    }

    fn damaged(&self, offset: u64) -> Error {
        Error::Damaged { file: self.file, offset, flaw: Flaw::NoRecord }
    }

    pub(super) fn place(&self, from: u64, upto: u64) -> Place {
        let (begun, segment, generation) = (self.begun, self.segment, self.generation);
        Place::Record { from, upto, begun, segment, generation, offset: self.at }
    }

    /// `record`, which lies at `offset`, and behind which the iteration stands.
    fn found(&self, record: &Record<'_>, offset: u64, span: Span) -> Found {
        Found {
            key: record.key.to_vec(),
            stored: Stored::new(record),
            cursor: Cursor { log: span.log, place: self.place(span.from, span.upto) },
            head: (record.kind == Kind::Head).then(|| record.value.to_vec()),
            segment: self.segment,
            offset,
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::plan::{DirectoryId, FileName};

    /// What is asked for after a segment was read that has no record between two blocks, and whose
    /// trailer says that so many are listed.
    fn asked_for_behind_a_hole(entries: u64) -> Option<Window> {
        let segment = SegmentId(1);
        let mut visit = Visit {
            begun: 1,
            segment,
            generation: 1,
            file: File { directory: DirectoryId(0), name: FileName::Segment(segment) },
            seed: Seed::new(LogId(1), 1, 1),
            block_bytes: 512,
            segment_bytes: 8 * 512,
            at: 1024,
            stage: Stage::Records { end: 2048, lacks: Lacks::Listed(entries) },
            holes: Holes::default(),
        };
        let span = Span { log: LogId(1), from: 0, upto: u64::MAX };
        assert_eq!(visit.take(&[7; 1024], span), []);
        visit.window()
    }

    #[test]
    fn a_footer_is_read_only_where_something_is_listed() {
        let (one, none) = (asked_for_behind_a_hole(1), asked_for_behind_a_hole(0));
        assert_eq!(one.map(|window| (window.offset, window.bytes)), Some((2048, 512)));
        assert_eq!(none, None, "what is no footer would be called a damaged one");
    }
}
