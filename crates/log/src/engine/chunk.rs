//! Chunks of a segment: the one that records are put into, and those that no more are added to.
//!
//! A chunk is closed, padded to whole blocks, and from then on not changed. As long as it is filled
//! a value in it may be written over by a newer one of its key.

use std::{collections::VecDeque, mem, ops::Range, sync::Arc};

use base::prefetch;

use crate::{
    format::{
        Seed,
        record::{HEADER_BYTES, Kind, Record},
    },
    plan::{Action, Buffer, File},
    position::UNIT_BYTES,
};

/// The fewest bytes of a padding record.
const PADDING_BYTES_MIN: usize = HEADER_BYTES.next_multiple_of(UNIT_BYTES as usize);

/// Bytes of a record, or of the place for one, that the processor is asked for before they are
/// needed. Of a longer one it fetches the rest by itself while these are gone through.
pub(super) const ASKED_BYTES: usize = (1 << 10) + 64;

/// What may be put before it is to be looked again whether a bound is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// Nothing: more has to be won before, or time to pass.
    Nothing,
    /// So many bytes, which are to be paid.
    Bytes(usize),
    /// So many bytes, which are a share of what is left to a bound.
    Share(usize),
    /// What the chunk takes: no bound is near.
    Chunk,
}

/// Records that newer ones were written over: they were acknowledged, and take no place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overwritten {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Overwritten {
    pub(super) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }

    pub(super) fn take(&mut self, other: Self) {
        self.records -= other.records;
        self.bytes -= other.bytes;
    }
}

/// The chunk that records are put into.
#[derive(Debug)]
pub(super) struct Filling {
    offset: u64,
    buffer: Buffer,
    used: usize,
    overwritten: Overwritten,
    /// How far puts may go before it is to be looked whether a bound is near.
    paid: usize,
    /// What that was taken from.
    allowance: Allowance,
    first_ticket: u64,
    since_ms: u64,
    /// Whether the segment has room for whatever the chunk may hold.
    has_room: bool,
}

/// What becomes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Waits,
    IsOut,
    IsDone,
}

/// Records that no more are added to.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) buffer: Arc<Buffer>,
    pub(super) overwritten: Overwritten,
    /// Bytes in front that records, and padding, take.
    written: usize,
    write: Write,
    pub(super) tickets: Range<u64>,
    pub(super) since_ms: u64,
}

/// Where a record stands in memory, and what must be flushed for it to be durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct InMemory<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) last_ticket: u64,
}

impl Filling {
    pub(super) fn new(
        offset: u64,
        buffer: Buffer,
        (first_ticket, since_ms): (u64, u64),
        has_room: bool,
    ) -> Self {
        Self {
            offset,
            buffer,
            used: 0,
            overwritten: Overwritten::default(),
            paid: 0,
            allowance: Allowance::Nothing,
            first_ticket,
            since_ms,
            has_room,
        }
    }

    /// Where the next record begins.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.used as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn overwritten(&self) -> Overwritten {
        self.overwritten
    }

    pub(super) fn first_ticket(&self) -> u64 {
        self.first_ticket
    }

    pub(super) fn since_ms(&self) -> u64 {
        self.since_ms
    }

    pub(super) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// Whether it has room for so many bytes more.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes <= self.buffer.as_slice().len()
    }

    /// Whether it, and the segment, have room for `bytes` more that may be put.
    #[inline]
    pub(super) fn takes(&self, bytes: usize) -> bool {
        let end = self.paid.min(self.buffer.as_slice().len());
        self.has_room && self.used + bytes <= end
    }

    /// Has puts go on without a look whether a bound is near.
    pub(super) fn allow(&mut self, allowance: Allowance) {
        let bytes = match allowance {
            Allowance::Nothing => 0,
            Allowance::Bytes(bytes) | Allowance::Share(bytes) => bytes,
            Allowance::Chunk => usize::MAX,
        };
        self.allowance = allowance;
        // What is longer than the chunk is given back when it is closed.
        self.paid = self.used.saturating_add(bytes);
    }

    /// What was allowed and not put; from now on it is not.
    pub(super) fn take_unused(&mut self) -> Allowance {
        let unused = self.paid.saturating_sub(self.used);
        self.paid = self.used;
        match mem::replace(&mut self.allowance, Allowance::Nothing) {
            Allowance::Bytes(_) => Allowance::Bytes(unused),
            Allowance::Share(_) => Allowance::Share(unused),
            Allowance::Nothing | Allowance::Chunk => Allowance::Nothing,
        }
    }

    /// So many bytes are put that are no put's: they take nothing of what puts have paid for.
    pub(super) fn let_pass(&mut self, bytes: usize) {
        self.paid = self.paid.max(self.used).saturating_add(bytes);
    }

    /// Whether a put of so many bytes needs no look whether a bound is near.
    pub(super) fn is_paid(&self, bytes: usize) -> bool {
        self.used + bytes <= self.paid
    }

    /// Puts a record behind the others. Says where.
    #[inline]
    pub(super) fn append(&mut self, record: &Record<'_>, seed: Seed) -> u64 {
        let (bytes, offset) = (record.bytes(), self.end());
        let place = &mut self.buffer.as_mut_slice()[self.used..self.used + bytes];
        record.encode(seed, offset, place);
        self.used += bytes;
        // The next one may be as long.
        let next = &self.buffer.as_slice()[self.used..];
        prefetch::all_to_write(&next[..bytes.min(ASKED_BYTES).min(next.len())]);
        offset
    }

    /// The sequence of the value at `offset`, which does not lie in front of it, if this record can
    /// be written over it.
    #[inline]
    pub(super) fn takes_over(&self, record: &Record<'_>, offset: u64, seed: Seed) -> Option<u64> {
        let from = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
        record.fits_over(self.buffer.as_slice()[..self.used].get(from..)?, seed)
    }

    /// Writes a record over the one at `offset`, which it fits over. Says how much that was.
    pub(super) fn overwrite(
        &mut self,
        record: &Record<'_>,
        offset: u64,
        seed: Seed,
    ) -> Overwritten {
        let from = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
        let place = &mut self.buffer.as_mut_slice()[from..from + record.bytes()];
        record.encode(seed, offset, place);
        let overwritten = Overwritten { records: 1, bytes: record.bytes() as u64 };
        self.overwritten.add(overwritten);
        overwritten
    }

    /// The record at `offset`, which does not lie in front of it.
    pub(super) fn in_memory(&self, offset: u64, next_ticket: u64) -> Option<InMemory<'_>> {
        let from = usize::try_from(offset - self.offset).ok()?;
        let bytes = self.buffer.as_slice().get(from..self.used)?;
        Some(InMemory { bytes, last_ticket: next_ticket.saturating_sub(1) })
    }

    /// Whether `offset` does not lie in front of it.
    pub(super) fn begins_before(&self, offset: u64) -> bool {
        self.offset <= offset
    }

    /// Closes it. `next_ticket` is behind its last; what is durable ends at `flushed`.
    pub(super) fn close(
        self,
        next_ticket: u64,
        block_bytes: usize,
        seed: Seed,
        flushed: u64,
    ) -> Chunk {
        let Self { offset, mut buffer, used, overwritten, first_ticket, since_ms, .. } = self;
        let bytes = used.next_multiple_of(block_bytes);
        let rest = bytes - used;
        let place = &mut buffer.as_mut_slice()[used..bytes];
        if rest >= PADDING_BYTES_MIN {
            let zeros = &[0; 4096][..rest - HEADER_BYTES];
            let padding = Record::new(Kind::Padding, flushed, &[], zeros);
            padding.encode(seed, offset + used as u64, place);
        } else {
            place.fill(0);
        }
        Chunk {
            offset,
            bytes,
            buffer: Arc::new(buffer),
            overwritten,
            written: 0,
            write: Write::Waits,
            tickets: first_ticket..next_ticket,
            since_ms,
        }
    }
}

impl Chunk {
    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    pub(super) fn waits(&self) -> bool {
        self.write == Write::Waits
    }

    pub(super) fn is_written(&self) -> bool {
        self.write == Write::IsDone
    }

    /// What of it is not written goes to the disk.
    pub(super) fn begin_write(&mut self, file: File) -> Action {
        self.write = Write::IsOut;
        Action::Write {
            file,
            offset: self.offset + self.written as u64,
            buffer: Arc::clone(&self.buffer),
            from: self.written,
            bytes: self.bytes - self.written,
        }
    }

    /// `bytes` more are written. A write that stopped within a block has written the blocks before
    /// it.
    pub(super) fn wrote(&mut self, bytes: usize, block_bytes: usize) {
        self.written += bytes - bytes % block_bytes;
        self.write = if self.written >= self.bytes { Write::IsDone } else { Write::Waits };
    }
}

/// The record at `offset`, when it is in one of the chunks.
pub(super) fn chunk_at(chunks: &VecDeque<Chunk>, offset: u64) -> Option<InMemory<'_>> {
    let chunk = chunks.iter().find(|chunk| (chunk.offset..chunk.end()).contains(&offset))?;
    let from = usize::try_from(offset - chunk.offset).ok()?;
    let bytes = chunk.buffer.as_slice().get(from..chunk.bytes)?;
    Some(InMemory { bytes, last_ticket: chunk.tickets.end - 1 })
}
