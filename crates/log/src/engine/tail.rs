//! The end of an open segment: records in memory that are on their way to the disk.
//!
//! Invariants:
//! 1. Records are put one behind the other into the chunk that is being filled, or over one of the
//!    same key and length in it. A chunk is closed, padded to whole blocks, and from then on not
//!    changed; so no block is written twice.
//! 2. A chunk stays in memory until a flush that was begun after its write was reported is
//!    reported. Until then its records are read from here.
//! 3. Tickets of a tail are one range without holes: of the tails for copies one is open at a time,
//!    and one of the others, and each kind has tickets of its own.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use super::{
    chunk::{Allowance, Chunk, Filling, InMemory, Overwritten, chunk_at},
    listing::{Listing, Spare},
    room::{Needed, RECORD_BYTES_MIN},
};
use crate::{
    format::{
        KeyHash, Seed,
        record::Record,
        segment::{HEADER_COPIES, Listed, footer_blocks},
    },
    plan::{Action, Buffer, File, SegmentId},
    position::{SizeClass, UNIT_BYTES},
};

/// An open segment, or one that is full and on its way to being sealed.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) segment: SegmentId,
    pub(super) file: File,
    pub(super) seed: Seed,
    /// What the footer will list.
    pub(super) listed: Listing,
    /// Whether values may be put into it, and not only what frees or saves others.
    pub(super) is_for_puts: bool,
    /// Whether it has what compaction moves, under tickets of its own.
    pub(super) is_for_copies: bool,
    block_bytes: u32,
    segment_bytes: u64,
    filling: Option<Filling>,
    chunks: VecDeque<Chunk>,
    /// Bytes of these chunks.
    closed_bytes: u64,
    /// What was written over in them, and in the one that is being filled.
    overwritten: Overwritten,
    /// Where the next chunk begins.
    end: u64,
    pub(super) flushed: u64,
    /// How far the flush that is out reaches.
    flush: Option<u64>,
}

impl Tail {
    pub(super) fn new(
        file: File,
        segment: SegmentId,
        seed: Seed,
        block_bytes: u32,
        segment_bytes: u64,
    ) -> Self {
        let end = HEADER_COPIES * u64::from(block_bytes);
        Self {
            segment,
            file,
            seed,
            listed: Listing::new(block_bytes),
            is_for_puts: true,
            is_for_copies: false,
            block_bytes,
            segment_bytes,
            filling: None,
            chunks: VecDeque::new(),
            closed_bytes: 0,
            overwritten: Overwritten::default(),
            end,
            flushed: end,
            flush: None,
        }
    }

    /// Where records end, once what is being filled is closed.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the segment has room for these records and for the footer.
    pub(super) fn has_room(&self, needed: Needed) -> bool {
        let records = self.next_offset() + needed.bytes as u64;
        let records = records.next_multiple_of(u64::from(self.block_bytes));
        records + self.footer_bytes(needed.records) <= self.segment_bytes
    }

    /// Bytes that are left of the segment, beside the footer of what is in it.
    pub(super) fn left_bytes(&self) -> u64 {
        self.segment_bytes.saturating_sub(self.next_offset() + self.footer_bytes(0))
    }

    /// Where the next record lies.
    pub(super) fn next_offset(&self) -> u64 {
        self.filling.as_ref().map_or(self.end, Filling::end)
    }

    /// What the footer takes with so many records more.
    fn footer_bytes(&self, records: usize) -> u64 {
        let blocks = footer_blocks(self.listed.len() + records, self.block_bytes) + 1;
        blocks * u64::from(self.block_bytes)
    }

    /// Whether the chunk that is being filled takes `bytes` more; `None` when there is none.
    pub(super) fn chunk_takes(&self, bytes: usize) -> Option<bool> {
        self.filling.as_ref().map(|filling| filling.has_room(bytes))
    }

    /// Whether chunk and segment have room for `bytes` more that may be put: what nearly every put
    /// asks.
    #[inline]
    pub(super) fn takes(&self, bytes: usize) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.takes(bytes))
    }

    /// Begins to fill `buffer`.
    pub(super) fn fill(&mut self, buffer: Buffer, first_ticket: u64, since_ms: u64) {
        assert!(self.filling.is_none(), "one chunk is filled at a time");
        let bytes = buffer.as_slice().len();
        let has_room = self.has_room(Needed { bytes, records: bytes / RECORD_BYTES_MIN });
        let from = (first_ticket, since_ms);
        self.filling = Some(Filling::new(self.end, buffer, from, has_room));
    }

    /// Has puts go on without a look whether moves are behind.
    pub(super) fn allow(&mut self, allowance: Allowance) {
        self.filling.iter_mut().for_each(|filling| filling.allow(allowance));
    }

    /// What was allowed and not put; from now on it is not.
    pub(super) fn take_unused(&mut self) -> Allowance {
        self.filling.as_mut().map_or(Allowance::Nothing, Filling::take_unused)
    }

    /// So many bytes are put that are no put's: they take nothing of what puts have paid for.
    pub(super) fn let_pass(&mut self, bytes: usize) {
        self.filling.iter_mut().for_each(|filling| filling.let_pass(bytes));
    }

    /// Whether a put of so many bytes needs no look whether a bound is near.
    pub(super) fn is_paid(&self, bytes: usize) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.is_paid(bytes))
    }

    /// Puts a record behind the others. Says where.
    pub(super) fn append(&mut self, record: &Record<'_>) -> u64 {
        let filling = self.filling.as_mut().expect("invariant: room was made");
        filling.append(record, self.seed)
    }

    /// Puts a record behind the others, and on the list of what is in the segment.
    pub(super) fn append_listed(
        &mut self,
        record: &Record<'_>,
        hash: KeyHash,
        spare: &mut Spare,
    ) -> (Listed, SizeClass) {
        let class = u32::try_from(record.bytes()).ok().and_then(SizeClass::of_bytes);
        let class = class.expect("invariant: no record is larger than the largest class");
        let unit = u32::try_from(self.append(record) / u64::from(UNIT_BYTES));
        let listed = Listed {
            hash,
            sequence: record.sequence,
            unit: unit.expect("invariant: a segment has at most 2^28 units"),
            kind: record.kind,
            class: class.bits(),
            part: record.part,
        };
        self.listed.push(listed, spare);
        (listed, class)
    }

    /// Where the list has the value at `offset`, if it lies in the chunk that is being filled and
    /// this record can be written over it.
    #[inline]
    pub(super) fn takes_over(&self, record: &Record<'_>, offset: u64) -> Option<usize> {
        let filling = self.filling.as_ref().filter(|filling| filling.begins_before(offset))?;
        self.listed.find(filling.takes_over(record, offset, self.seed)?, offset)
    }

    /// Writes a record over the value at `offset`, which [`Tail::takes_over`] has found on the
    /// list. Says how many bytes were written over in the chunk so far.
    pub(super) fn overwrite(
        &mut self,
        record: &Record<'_>,
        (offset, at): (u64, usize),
        spare: &mut Spare,
    ) -> u64 {
        let filling = self.filling.as_mut().expect("invariant: the value lies in it");
        self.overwritten.add(filling.overwrite(record, offset, self.seed));
        self.listed.overwrite(at, record.sequence, spare);
        filling.overwritten().bytes
    }

    /// The chunk that is being filled, if nothing is in it: there is nothing to write.
    pub(super) fn take_empty(&mut self) -> Option<Buffer> {
        self.filling.take_if(|filling| filling.is_empty()).map(Filling::into_buffer)
    }

    /// Closes the chunk that is being filled, if there is one. `next_ticket` is behind its last.
    pub(super) fn close_chunk(&mut self, next_ticket: u64, spare: &mut Spare) {
        let Some(filling) = self.filling.take() else { return };
        self.listed.close_chunk(spare);
        let block_bytes = self.block_bytes as usize;
        let chunk = filling.close(next_ticket, block_bytes, self.seed, self.flushed);
        self.end = chunk.end();
        self.closed_bytes += chunk.bytes as u64;
        self.chunks.push_back(chunk);
    }

    /// The next write that waits, if there is one, and the chunk that it is of.
    pub(super) fn next_write(&mut self) -> Option<(u64, Action)> {
        let chunk = self.chunks.iter_mut().find(|chunk| chunk.waits())?;
        Some((chunk.offset, chunk.begin_write(self.file)))
    }

    /// `bytes` more of the chunk at `offset` are written. Says whether that is possible.
    pub(super) fn wrote(&mut self, offset: u64, bytes: usize) -> bool {
        let block_bytes = self.block_bytes as usize;
        let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.offset == offset) else {
            return false;
        };
        chunk.wrote(bytes, block_bytes);
        bytes >= block_bytes
    }

    /// How far everything is written.
    fn written(&self) -> u64 {
        let done = self.chunks.iter().take_while(|chunk| chunk.is_written());
        done.last().map_or(self.flushed, Chunk::end)
    }

    /// Whether a flush would make more durable.
    pub(super) fn has_written(&self) -> bool {
        self.written() > self.flushed
    }

    /// Whether a chunk waits to be written.
    pub(super) fn has_waiting(&self) -> bool {
        self.chunks.back().is_some_and(Chunk::waits)
    }

    /// Whether a flush is out.
    pub(super) fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    /// Whether chunks are closed and not flushed.
    pub(super) fn has_closed(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Whether a chunk is being filled.
    pub(super) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Whether everything is flushed.
    pub(super) fn is_flushed(&self) -> bool {
        self.chunks.is_empty() && self.filling.is_none()
    }

    /// Whether a mutant has the footer go to the disk together with the records.
    pub(super) fn may_be_sealed_early(&self) -> bool {
        let is_written = self.chunks.iter().all(Chunk::is_written);
        base::mutant!("log_footer_with_records") && is_written && self.filling.is_none()
    }

    /// The buffers, when nothing in them is needed any more.
    pub(super) fn into_buffers(self) -> impl Iterator<Item = Arc<Buffer>> {
        self.chunks.into_iter().map(|chunk| chunk.buffer)
    }

    /// A flush of what is written so far.
    pub(super) fn begin_flush(&mut self) -> Action {
        self.flush = Some(self.written());
        Action::Flush { file: self.file }
    }

    /// The flush that was out is reported. Hands over the buffers that nobody needs any more.
    pub(super) fn flushed(&mut self, buffers: &mut Vec<Arc<Buffer>>) {
        let Some(upto) = self.flush.take() else { return };
        self.flushed = upto;
        let is_done = |chunk: &Chunk| chunk.end() <= upto;
        while self.chunks.front().is_some_and(is_done) {
            let Some(chunk) = self.chunks.pop_front() else { return };
            self.closed_bytes -= chunk.bytes as u64;
            self.overwritten.take(chunk.overwritten);
            buffers.push(chunk.buffer);
        }
    }

    /// A flush that failed is as if it had not been; only a mutant does that.
    pub(super) fn forget_flush(&mut self) {
        self.flush = None;
    }

    /// The first ticket that is not flushed.
    pub(super) fn first_unflushed(&self) -> Option<u64> {
        let closed = self.chunks.front().map(|chunk| chunk.tickets.start);
        closed.or_else(|| self.filling.as_ref().map(Filling::first_ticket))
    }

    /// The first ticket of the chunk that is being filled.
    pub(super) fn first_unclosed(&self) -> Option<u64> {
        self.filling.as_ref().map(Filling::first_ticket)
    }

    /// Since when something waits for its flush.
    pub(super) fn waits_since_ms(&self) -> Option<u64> {
        let closed = self.chunks.front().map(|chunk| chunk.since_ms);
        closed.or_else(|| self.filling.as_ref().map(Filling::since_ms))
    }

    /// Bytes of records that are not flushed.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.closed_bytes + self.filling.as_ref().map_or(0, |filling| filling.used() as u64)
    }

    /// What was written over in chunks that are not flushed.
    pub(super) fn overwritten(&self) -> Overwritten {
        self.overwritten
    }

    /// Bytes that would be lost with the records: theirs, and those of what they were written over.
    pub(super) fn at_risk_bytes(&self) -> u64 {
        self.unflushed_bytes() + self.overwritten.bytes
    }

    /// The record at `offset`, when it is still in memory.
    pub(super) fn in_memory(&self, offset: u64, next_ticket: u64) -> Option<InMemory<'_>> {
        match self.filling.as_ref().filter(|filling| filling.begins_before(offset)) {
            Some(filling) => filling.in_memory(offset, next_ticket),
            None => chunk_at(&self.chunks, offset),
        }
    }

    /// Takes what is not flushed out of a tail that has failed.
    pub(super) fn into_unflushed(mut self, next_ticket: u64) -> Unflushed {
        // Nobody writes a footer from the list.
        self.close_chunk(next_ticket, &mut Spare::default());
        let first = self.first_unflushed().unwrap_or(next_ticket);
        let last = self.chunks.back().map_or(first, |chunk| chunk.tickets.end);
        Unflushed {
            segment: self.segment,
            seed: self.seed,
            chunks: self.chunks,
            at: 0,
            tickets: first..last,
            is_copies: self.is_for_copies,
        }
    }
}

/// What a failed flush has left in memory.
#[derive(Debug)]
pub(super) struct Unflushed {
    pub(super) segment: SegmentId,
    pub(super) seed: Seed,
    pub(super) chunks: VecDeque<Chunk>,
    /// How much of the first chunk has been looked at.
    pub(super) at: usize,
    pub(super) tickets: Range<u64>,
    /// What they are copies of is durable.
    pub(super) is_copies: bool,
}

impl Unflushed {
    /// The record at `offset`, when it is among them.
    pub(super) fn in_memory(&self, offset: u64) -> Option<InMemory<'_>> {
        chunk_at(&self.chunks, offset)
    }

    /// Whether the record at `offset` is among them.
    pub(super) fn holds(&self, offset: u64) -> bool {
        chunk_at(&self.chunks, offset).is_some()
    }
}
