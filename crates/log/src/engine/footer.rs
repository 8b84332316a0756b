//! The footer of a segment as it is written: its blocks in pieces, the trailer, the flush.

use std::sync::Arc;

use super::listing::Listing;
use crate::{
    format::{
        Seed,
        segment::{Trailer, encode_footer_block, entries_of_block, footer_blocks},
    },
    plan::{Action, Buffer, File},
};

/// Bytes of a footer that are written at once: one write of 32 KiB takes hardly longer than one of
/// the smallest. Where the owner encodes it, that takes several turns: a block of 4 KiB takes 2 us,
/// for which he is busy, and more when it is merged from many runs.
const PIECE_BYTES: usize = 32 << 10;

/// Blocks that the owner encodes in one turn.
const TURN_BLOCKS: u64 = 2;

/// Hands out the writes of a footer and its trailer, and the flush, one after the other.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) file: File,
    pub(super) seed: Seed,
    pub(super) block_bytes: u32,
    pub(super) segment_bytes: u64,
    /// Where the records end, on a block.
    pub(super) records_end: u64,
    pub(super) listed: Listing,
    /// Keys of the index.
    keys: u64,
    /// The next block to be encoded.
    next: u64,
    stage: Stage,
    has_own_flush: bool,
    /// What the last piece was in.
    pub(super) buffer: Option<Arc<Buffer>>,
    /// What is encoded of the next one.
    piece: Option<Piece>,
}

/// Blocks of a footer that are written at once.
#[derive(Debug)]
struct Piece {
    buffer: Arc<Buffer>,
    /// The number of the first one.
    first: u64,
}

/// What comes next of a footer.
#[derive(Debug)]
pub(super) enum Step {
    Action(Action),
    /// Blocks were encoded, which is enough for one turn.
    Turn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Entries,
    Trailer,
    Flush,
    Done,
}

impl Footer {
    pub(super) fn new(
        file: File,
        seed: Seed,
        block_bytes: u32,
        segment_bytes: u64,
        records_end: u64,
        mut listed: Listing,
    ) -> Self {
        listed.sort();
        let stage = Stage::Entries;
        Self {
            file,
            seed,
            block_bytes,
            segment_bytes,
            records_end,
            listed,
            keys: 0,
            next: 0,
            stage,
            has_own_flush: false,
            buffer: None,
            piece: None,
        }
    }

    /// With what an earlier footer was written from.
    pub(super) fn with_buffer(self, buffer: Option<Arc<Buffer>>) -> Self {
        Self { buffer, ..self }
    }

    /// A buffer of so many bytes or more. Memory that is new to the process may take milliseconds
    /// to come, and the owner is busy meanwhile: it is used again.
    fn buffer(&mut self, bytes: usize) -> Arc<Buffer> {
        let kept = self
            .buffer
            .take()
            .filter(|kept| kept.as_slice().len() >= bytes && Arc::strong_count(kept) == 1);
        kept.unwrap_or_else(|| Arc::new(Buffer::new(bytes)))
    }

    /// For a log of so many keys, as far as they are counted.
    pub(super) fn of_keys(self, keys: u64) -> Self {
        Self { keys, ..self }
    }

    /// The footer is flushed before the trailer is written. A segment that was torn may have holes,
    /// which are no damage: a crash must not leave it with a trailer and without a footer.
    pub(super) fn with_own_flush(self) -> Self {
        Self { has_own_flush: true, ..self }
    }

    /// Whether it fits between the records and the trailer.
    pub(super) fn has_room(&self) -> bool {
        let blocks = footer_blocks(self.listed.len(), self.block_bytes) + 1;
        self.records_end + blocks * u64::from(self.block_bytes) <= self.segment_bytes
    }

    /// Whether all of it was handed out.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The next step; one behind an action when that is reported. `None` behind the last.
    pub(super) fn step(&mut self) -> Option<Step> {
        let blocks = footer_blocks(self.listed.len(), self.block_bytes);
        if self.stage == Stage::Entries && self.next < blocks {
            return Some(self.encode(blocks));
        }
        let action = match self.stage {
            Stage::Entries if self.has_own_flush => {
                self.stage = Stage::Trailer;
                Action::Flush { file: self.file }
            }
            Stage::Entries | Stage::Trailer => {
                self.stage = Stage::Flush;
                self.trailer()
            }
            Stage::Flush => {
                self.stage = Stage::Done;
                Action::Flush { file: self.file }
            }
            Stage::Done => return None,
        };
        Some(Step::Action(action))
    }

    /// The next action, in as many steps as it takes; each when the one before is reported.
    pub(super) fn next(&mut self) -> Option<Action> {
        loop {
            if let Step::Action(action) = self.step()? {
                return Some(action);
            }
        }
    }

    /// Encodes the next of so many blocks. The write of a piece, when all of it is encoded.
    fn encode(&mut self, blocks: u64) -> Step {
        let block_bytes = self.block_bytes as usize;
        let most = (PIECE_BYTES / block_bytes) as u64;
        let mut piece = self.piece.take().unwrap_or_else(|| {
            let count = most.min(blocks - self.next);
            Piece { buffer: self.buffer(count as usize * block_bytes), first: self.next }
        });
        let end = blocks.min(piece.first + most);
        let is_whole = base::mutant!("log_footer_in_one_turn");
        let turn = if is_whole { end } else { end.min(self.next + TURN_BLOCKS) };
        let whole = Arc::get_mut(&mut piece.buffer).expect("invariant: nobody writes from it");
        for number in self.next..turn {
            let at = (number - piece.first) as usize * block_bytes;
            let entries = self.listed.take(entries_of_block(self.block_bytes));
            let place = &mut whole.as_mut_slice()[at..at + block_bytes];
            encode_footer_block(&entries, number, self.seed, self.offset_of(number), place);
        }
        self.next = turn;
        if turn < end {
            self.piece = Some(piece);
            return Step::Turn;
        }
        let bytes = (end - piece.first) as usize * block_bytes;
        Step::Action(self.write(self.offset_of(piece.first), piece.buffer, bytes))
    }

    /// Where a block lies.
    fn offset_of(&self, block: u64) -> u64 {
        self.records_end + block * u64::from(self.block_bytes)
    }

    fn write(&mut self, offset: u64, buffer: Arc<Buffer>, bytes: usize) -> Action {
        self.buffer = Some(Arc::clone(&buffer));
        Action::Write { file: self.file, offset, buffer, from: 0, bytes }
    }

    fn trailer(&mut self) -> Action {
        let bytes = self.block_bytes as usize;
        let offset = self.segment_bytes - u64::from(self.block_bytes);
        let trailer = Trailer {
            records_end: self.records_end,
            entries: self.listed.len() as u64,
            smallest_sequence: self.listed.smallest_sequence(),
            greatest_sequence: self.listed.greatest_sequence(),
            keys: self.keys,
        };
        let mut buffer = self.buffer(bytes);
        let whole = Arc::get_mut(&mut buffer).expect("invariant: nobody writes from it");
        trailer.encode(self.seed, offset, &mut whole.as_mut_slice()[..bytes]);
        self.write(offset, buffer, bytes)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::{
        format::{KeyHash, LogId, record::Kind, segment::Listed},
        plan::{DirectoryId, FileName, SegmentId},
    };

    const SMALL: u32 = 512;

    /// One with so many records.
    fn footer(records: usize) -> Footer {
        let file = File { directory: DirectoryId(0), name: FileName::Segment(SegmentId(1)) };
        let listed = |unit| {
            let (sequence, hash) = (u64::from(unit), KeyHash(1));
            Listed { hash, sequence, unit, kind: Kind::Value, class: 1, part: 0 }
        };
        let records = u32::try_from(records).expect("few");
        let listing = Listing::of(SMALL, (1..=records).map(listed));
        Footer::new(file, Seed::new(LogId(1), 1, 1), SMALL, 64 << 20, 1 << 20, listing)
    }

    /// Where what it writes next lies; `None` when it has written everything.
    fn written_from(footer: &mut Footer) -> Option<*const u8> {
        std::iter::from_fn(|| footer.next()).find_map(|action| match action {
            Action::Write { buffer, .. } => Some(buffer.as_slice().as_ptr()),
            _ => None,
        })
    }

    #[test]
    fn a_footer_is_encoded_in_turns() {
        // 64 blocks, which are a piece, and one more.
        let mut footer = footer(65 * entries_of_block(SMALL));
        let mut turns = Vec::new();
        let mut count = 0;
        while let Some(step) = footer.step() {
            count += 1;
            if let Step::Action(_) = step {
                turns.push(std::mem::take(&mut count));
            }
        }
        // The pieces, the trailer and its flush.
        assert_eq!(turns, [32, 1, 1, 1], "all of it in one turn");
    }

    #[test]
    fn footers_are_written_from_one_buffer() {
        let records = 3 * PIECE_BYTES / SMALL as usize * entries_of_block(SMALL);
        let mut first = footer(records);
        // What is given back goes to the next who asks for as much: that is not the footer.
        let mut others = Vec::new();
        let mut place = || {
            let place = written_from(&mut first);
            others.push(Buffer::new(PIECE_BYTES));
            place
        };
        let places: Vec<_> = std::iter::from_fn(&mut place).collect();
        assert_eq!(places.len(), 4, "three pieces and a trailer");
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
        let mut second = footer(records).with_buffer(first.buffer);
        assert_eq!(written_from(&mut second), Some(places[0]));
        // One that is still being written from is left alone.
        let out = second.next();
        assert_ne!(written_from(&mut second), Some(places[0]));
        drop(out);
    }
}
