//! Reading a segment record by record, because it has no footer.
//!
//! Records that take effect together count only if all of them are there: what is left of others
//! was never acknowledged, unless a padding record says that it was flushed.

use super::{Damage, Wrong, source::Source};
use crate::{
    format::{
        KeyHash, Seed,
        record::{Kind, Record},
        segment::{HEADER_COPIES, Listed},
    },
    keys::Keys,
    plan::{Buffer, File},
    position::{SizeClass, UNIT_BYTES},
};

const UNIT: u64 = UNIT_BYTES as u64;

/// Bytes that are read at once. The largest record may begin at the end and is read again with what
/// follows: 384 KiB of 4 MiB, so that a tenth is read twice.
const WINDOW_BYTES: u64 = 4 << 20;

/// A segment to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) file: File,
    pub(super) seed: Seed,
    pub(super) block_bytes: u32,
    /// Where the file, or the segment, ends.
    pub(super) end: u64,
}

/// What is in a segment.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Its records, in their order.
    pub(super) listed: Vec<Listed>,
    /// Stretches without a record, in front of one.
    pub(super) holes: Vec<(u64, u64)>,
    /// How far what is missing is damage.
    pub(super) flushed: u64,
    /// How far the segment was flushed, as far as a padding record says.
    durable: u64,
    /// The greatest sequence of any record, also of those that do not count.
    pub(super) greatest_sequence: u64,
    /// Where the last record ends.
    pub(super) records_end: u64,
    /// Whether there is nothing but zeros.
    pub(super) is_blank: bool,
    /// Whether there is a record of a key that the index cannot have.
    pub(super) has_unknown: bool,
    /// Blocks that could not be read.
    pub(super) unreadable: Vec<Damage>,
    /// Records that take effect together, as far as they have come.
    batch: Option<Batch>,
    /// What is there of others, of which some are missing: the record, and its bytes.
    partial: Vec<(Listed, u64)>,
    /// Those of them that do not count, for all that the padding records say.
    pub(super) dropped: Vec<Listed>,
}

/// Records that take effect together.
#[derive(Debug)]
struct Batch {
    /// Where the next one begins.
    next: u64,
    /// Where they all end.
    end: u64,
    /// How many are still to come.
    left: u16,
    found: Vec<(Listed, u64)>,
}

/// The part of the file that is in memory.
struct Window {
    /// The source's, which has it back behind the scan.
    buffer: Option<Buffer>,
    bytes: usize,
    offset: u64,
}

impl Window {
    fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    /// What there is from `at` on.
    fn from(&self, at: u64) -> &[u8] {
        let range = (at - self.offset) as usize..self.bytes;
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.as_slice()[range])
    }

    /// Its memory, which is made where there is too little.
    fn memory(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        let large_enough = self.buffer.take().filter(|buffer| buffer.as_slice().len() >= bytes);
        let buffer = self.buffer.insert(large_enough.unwrap_or_else(|| Buffer::new(bytes)));
        &mut buffer.as_mut_slice()[..bytes]
    }
}

/// Reads the whole segment.
pub(super) fn scan<K: Keys>(source: &mut Source<'_>, span: Span, index: &K) -> Scan {
    let begin = HEADER_COPIES * u64::from(span.block_bytes);
    let mut scan = Scan { flushed: begin, records_end: begin, is_blank: true, ..Scan::default() };
    let mut window = Window { buffer: source.buffer.take(), bytes: 0, offset: begin };
    let mut at = begin;
    let mut hole = None;
    while at + UNIT <= span.end {
        fill(source, &span, &mut window, at, &mut scan);
        let bytes = window.from(at);
        // Most of a segment that is not full is zeros, which are no record.
        let units = bytes.as_chunks().0.iter();
        let zeros = units.take_while(|unit| u128::from_ne_bytes(**unit) == 0).count() as u64;
        let decoded = if zeros > 0 { None } else { Record::decode(bytes, span.seed, at).ok() };
        match decoded {
            Some((record, length)) => {
                if let Some(from) = hole.take() {
                    scan.holes.push((from, at - from));
                }
                scan.join(&record, length as u64, at);
                scan.take(&record, length, at, index);
                at += length as u64;
            }
            None => {
                // Less than the smallest padding record is left as zeros.
                let is_rest = zeros > 0 && (at + UNIT).is_multiple_of(u64::from(span.block_bytes));
                let from = at + if is_rest { UNIT } else { 0 };
                at += UNIT * zeros.max(1);
                scan.is_blank &= zeros > 0;
                scan.end_batch();
                if hole.is_none() && from < at {
                    hole = Some(from);
                }
            }
        }
    }
    source.buffer = window.buffer;
    scan.end_batch();
    scan.drop_partial();
    scan
}

/// Sees to it that the window holds a whole record at `at`, unless the segment ends before.
fn fill(source: &mut Source<'_>, span: &Span, window: &mut Window, at: u64, scan: &mut Scan) {
    let wanted = (at + u64::from(SizeClass::LARGEST.bytes())).min(span.end);
    if at >= window.offset && wanted <= window.end() {
        return;
    }
    let block = u64::from(span.block_bytes);
    let from = at - at % block;
    let bytes = (span.end.next_multiple_of(block) - from).min(WINDOW_BYTES) as usize;
    (window.offset, window.bytes) = (from, bytes);
    match source.read_to(&mut window.buffer, span.file, from, bytes) {
        Ok(read) => window.memory()[read..].fill(0),
        Err(_) => fill_by_blocks(source, span, window, scan),
    }
}

/// Some of the blocks cannot be read; the others can.
fn fill_by_blocks(source: &mut Source<'_>, span: &Span, window: &mut Window, scan: &mut Scan) {
    let block = span.block_bytes as usize;
    let blocks = (window.offset..).step_by(block);
    for (offset, bytes) in blocks.zip(window.memory().chunks_mut(block)) {
        let read = source.read(span.file, offset, bytes.len());
        let (there, missing) = bytes.split_at_mut(read.as_ref().map_or(0, |read| read.len()));
        missing.fill(0);
        match read {
            Ok(read) => there.copy_from_slice(read),
            Err(failure) => {
                let what = Wrong::Unreadable(failure);
                let damage = Damage { file: span.file, offset, bytes: block as u64, what };
                if !scan.unreadable.iter().any(|known| known.offset == offset) {
                    scan.unreadable.push(damage);
                }
            }
        }
    }
}

impl Scan {
    /// What is lost: what could not be read, and holes in what was flushed. Other holes stay.
    pub(super) fn take_damages(&mut self, file: File) -> Vec<Damage> {
        let mut damages = std::mem::take(&mut self.unreadable);
        let (lost, torn): (Vec<_>, Vec<_>) = std::mem::take(&mut self.holes)
            .into_iter()
            // No record is this short: it is what was left of a block.
            .filter(|(_, bytes)| *bytes > UNIT)
            .partition(|(offset, _)| *offset < self.flushed);
        self.holes = torn;
        let of = |(offset, bytes)| Damage { file, offset, bytes, what: Wrong::Records };
        damages.extend(lost.into_iter().map(of));
        damages
    }

    /// Sees whether the record belongs to those that take effect together.
    fn join(&mut self, record: &Record<'_>, bytes: u64, at: u64) {
        match &mut self.batch {
            Some(batch) if record.is_member && batch.next == at => {
                batch.next += bytes;
                batch.left = batch.left.saturating_sub(1);
            }
            _ => self.end_batch(),
        }
        if record.kind == Kind::Batch {
            let next = at + bytes;
            let end = next.saturating_add(record.sequence);
            self.batch = Some(Batch { next, end, left: record.part, found: Vec::new() });
        }
    }

    /// No more of them are to come: either all have, or those that have do not count.
    fn end_batch(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        if batch.left == 0 && batch.next == batch.end || base::mutant!("log_batch_in_part") {
            self.listed.extend(batch.found.into_iter().map(|(listed, _)| listed));
        } else {
            self.partial.extend(batch.found);
        }
    }

    /// Those of which some are missing were flushed if a padding record says so, and the others
    /// have been damaged since. Else a crash has torn them, and none of them counts.
    fn drop_partial(&mut self) {
        for (listed, bytes) in std::mem::take(&mut self.partial) {
            if listed.offset() < self.durable {
                self.listed.push(listed);
            } else {
                self.holes.push((listed.offset(), bytes));
                self.dropped.push(listed);
            }
        }
    }

    fn list(&mut self, listed: Listed, bytes: u64, is_member: bool) {
        match &mut self.batch {
            Some(batch) if is_member => batch.found.push((listed, bytes)),
            None if is_member && !base::mutant!("log_batch_in_part") => {
                self.partial.push((listed, bytes));
            }
            _ => self.listed.push(listed),
        }
    }

    fn take<K: Keys>(&mut self, record: &Record<'_>, length: usize, at: u64, index: &K) {
        self.records_end = at + length as u64;
        self.is_blank = false;
        let hash = match record.kind {
            Kind::Padding => {
                self.durable = self.durable.max(record.sequence);
                self.flushed = self.flushed.max(record.sequence);
                return;
            }
            Kind::Batch => return,
            Kind::Part => record.key.try_into().ok().map(|key| KeyHash(u128::from_le_bytes(key))),
            Kind::Value | Kind::Tombstone | Kind::Head => index.hash(record.key).ok(),
        };
        let class = u32::try_from(length).ok().and_then(SizeClass::of_bytes);
        let unit = u32::try_from(at / UNIT).ok();
        let (Some(hash), Some(class), Some(unit)) = (hash, class, unit) else {
            self.has_unknown = true;
            self.flushed = self.flushed.max(at + 1);
            self.holes.push((at, length as u64));
            return;
        };
        self.greatest_sequence = self.greatest_sequence.max(record.sequence);
        let listed = Listed {
            hash,
            sequence: record.sequence,
            unit,
            kind: record.kind,
            class: class.bits(),
            part: record.part,
        };
        self.list(listed, length as u64, record.is_member);
    }
}
