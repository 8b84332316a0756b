//! What is in a segment: the records that its footer will list.
//!
//! Of the smallest records a segment lists as many bytes as it has, so the list grows piece by
//! piece and is never copied, pieces go from one segment to the next, and what is asked about all
//! of it is known while it grows: whoever puts waits for none of this. A footer is sorted, and most
//! records come in its order. Parts of large values, which have the sequence of their upload,
//! tombstones that were moved and what was written again do not: but each upload and each segment
//! that was moved out of brings a row that is in order, so the list is kept as a few sorted runs
//! (as in patience sorting), which are merged when the footer is encoded.
//!
//! What is in the chunk that is being filled is kept apart, as it lies there: its values may be
//! written over, and have another sequence then. It is put in order when the chunk is closed.
//!
//! Thread safety: plain values, of the engine's owner.

use std::{mem, sync::Arc};

use crate::{
    format::{
        record::Kind,
        segment::{Listed, entries_of_block},
    },
    plan::Buffer,
};

/// Blocks of a footer that a piece is for: 127 KiB of the largest.
const PIECE_BLOCKS: usize = 32;

/// Pieces that are kept for the next segment: 32 MiB, as much as the smallest records of a segment
/// of 64 MiB take.
const SPARE_MAX: usize = 256;

/// Runs that a list is kept in, each of a piece at least, so 6 MiB at most for the sake of order.
/// What fits behind none of them waits in a last one, which is sorted as a whole.
const RUNS_MAX: usize = 32;

type Piece = Vec<Listed>;

/// What lists that nobody needs any more have left for the next ones.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Empty ones.
    pieces: Vec<Piece>,
    /// An empty list of what is in a chunk.
    chunk: Vec<Listed>,
    /// What a footer was written from.
    pub(super) buffer: Option<Arc<Buffer>>,
}

impl Spare {
    /// Keeps the pieces of a list that nobody needs any more.
    pub(super) fn keep(&mut self, listing: Listing) {
        debug_assert!(listing.chunk.is_empty(), "a segment that is sealed has no open chunk");
        self.chunk = listing.chunk;
        let room = SPARE_MAX.saturating_sub(self.pieces.len());
        let pieces = listing.runs.into_iter().flat_map(|run| run.pieces);
        self.pieces.extend(pieces.take(room).map(|mut piece| {
            piece.clear();
            piece
        }));
    }
}

/// Records in the order of a footer.
#[derive(Debug, Default)]
struct Run {
    /// All but the last one are full.
    pieces: Vec<Piece>,
    entries: usize,
    /// How many the footer has already.
    taken: usize,
}

impl Run {
    fn last(&self) -> Option<&Listed> {
        self.pieces.last().and_then(|piece| piece.last())
    }

    #[inline]
    fn push(&mut self, listed: Listed, piece_entries: usize, spare: &mut Spare) {
        if self.entries.is_multiple_of(piece_entries) {
            let piece = spare.pieces.pop().filter(|piece| piece.capacity() >= piece_entries);
            self.pieces.push(piece.unwrap_or_else(|| Vec::with_capacity(piece_entries)));
        }
        self.entries += 1;
        let piece = self.pieces.last_mut().expect("invariant: there is room in the last one");
        piece.push(listed);
    }

    /// The first one that the footer does not have.
    fn next(&self, piece_entries: usize) -> Option<&Listed> {
        let piece = self.pieces.get(self.taken / piece_entries)?;
        piece.get(self.taken % piece_entries)
    }
}

/// A list of records.
#[derive(Debug)]
pub(super) struct Listing {
    /// The last record of each is smaller than that of the one before it, but for the last of
    /// [`RUNS_MAX`], which has all that fitted nowhere.
    runs: Vec<Run>,
    piece_entries: usize,
    /// How many are in the runs.
    entries: usize,
    is_sorted: bool,
    /// What is in no run: what lies in the chunk that is being filled, in its order there.
    chunk: Vec<Listed>,
    /// Whether some of that was written over.
    is_overwritten: bool,
    /// The smallest sequence that a value or a head of that has, or had before it was written over;
    /// 0 when there is none.
    smallest_of_chunk: u64,
    /// The smallest sequence of what decides, of what is in runs; 0 when nothing does.
    smallest_sequence: u64,
    /// The same of values and heads.
    smallest_value: u64,
    /// The sequence of the first value or head in a run; 0 when there is none.
    begun: u64,
    /// The units of those that are not the newest of their keys any more, and were written again
    /// because others of their batch are: they keep their sequences.
    old: Vec<u32>,
}

impl Listing {
    pub(super) fn new(block_bytes: u32) -> Self {
        Self {
            runs: vec![Run::default()],
            piece_entries: PIECE_BLOCKS * entries_of_block(block_bytes),
            entries: 0,
            is_sorted: true,
            chunk: Vec::new(),
            is_overwritten: false,
            smallest_of_chunk: 0,
            smallest_sequence: 0,
            smallest_value: 0,
            begun: 0,
            old: Vec::new(),
        }
    }

    pub(super) fn of(block_bytes: u32, entries: impl IntoIterator<Item = Listed>) -> Self {
        let (mut listing, mut spare) = (Self::new(block_bytes), Spare::default());
        entries.into_iter().for_each(|listed| listing.settle_one(listed, &mut spare));
        listing
    }

    /// One more record lies in the chunk that is being filled, behind the others.
    #[inline]
    pub(super) fn push(&mut self, listed: Listed, spare: &mut Spare) {
        if self.chunk.capacity() == 0 {
            self.chunk = mem::take(&mut spare.chunk);
        }
        if is_value(&listed) {
            self.smallest_of_chunk = smaller(self.smallest_of_chunk, listed.sequence);
        }
        self.chunk.push(listed);
    }

    /// The value at `offset`, in the chunk that is being filled, was written over by one of this
    /// sequence.
    pub(super) fn overwrite(&mut self, offset: u64, sequence: u64) {
        let at = self.chunk.binary_search_by_key(&offset, Listed::offset);
        let listed = at.ok().and_then(|at| self.chunk.get_mut(at));
        let listed = listed.expect("invariant: what lies in the chunk is on its list");
        if !base::mutant!("log_overwritten_listed_as_before") {
            listed.sequence = sequence;
            self.is_overwritten = true;
        }
    }

    /// The chunk is closed: what is in it is as it will stay.
    pub(super) fn settle(&mut self, spare: &mut Spare) {
        let mut chunk = mem::take(&mut self.chunk);
        self.smallest_of_chunk = 0;
        self.begun = begun(self.begun, &chunk);
        if mem::take(&mut self.is_overwritten) && !base::mutant!("log_overwritten_unsorted") {
            chunk.sort_unstable_by_key(Listed::order);
        }
        chunk.drain(..).for_each(|listed| self.settle_one(listed, spare));
        self.chunk = chunk;
    }

    /// Puts a record where it belongs.
    #[inline]
    fn settle_one(&mut self, listed: Listed, spare: &mut Spare) {
        if listed.kind.decides() {
            self.smallest_sequence = smaller(self.smallest_sequence, listed.sequence);
        }
        if is_value(&listed) {
            self.smallest_value = smaller(self.smallest_value, listed.sequence);
            self.begun = if self.begun == 0 { listed.sequence } else { self.begun };
        }
        self.entries += 1;
        let run = self.run_for(&listed);
        self.runs[run].push(listed, self.piece_entries, spare);
    }

    /// The first run that it fits behind.
    #[inline]
    fn run_for(&mut self, listed: &Listed) -> usize {
        let fits = |run: &Run| run.last().is_none_or(|last| last.order() <= listed.order());
        if let Some(at) = self.runs.iter().position(fits) {
            return at;
        }
        if self.runs.len() < RUNS_MAX {
            self.runs.push(Run::default());
        } else {
            self.is_sorted = false;
        }
        self.runs.len() - 1
    }

    /// Sorts what fitted nowhere. Afterwards all of them can be taken in the order of a footer.
    pub(super) fn sort(&mut self) {
        if !mem::replace(&mut self.is_sorted, true) {
            let (mut all, mut spare) = (Vec::new(), Spare::default());
            let Some(last) = self.runs.last_mut() else { return };
            for mut piece in mem::take(last).pieces {
                all.append(&mut piece);
                spare.pieces.push(piece);
            }
            all.sort_unstable_by_key(Listed::order);
            all.into_iter().for_each(|listed| last.push(listed, self.piece_entries, &mut spare));
        }
    }

    /// The next ones in the order of a footer, up to `count`.
    pub(super) fn take(&mut self, count: usize) -> Vec<Listed> {
        let mut taken = Vec::with_capacity(count);
        let piece_entries = self.piece_entries;
        while taken.len() < count {
            let next = |run: &Run| run.next(piece_entries).map(Listed::order);
            let runs = self.runs.iter().enumerate();
            let heads = runs.filter_map(|(at, run)| next(run).map(|order| (order, at)));
            let Some((_, at)) = heads.min() else { break };
            let run = &mut self.runs[at];
            taken.extend(run.next(piece_entries).copied());
            run.taken += 1;
        }
        taken
    }

    pub(super) fn len(&self) -> usize {
        self.entries + self.chunk.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest sequence of what decides, when all chunks are closed; 0 when nothing does.
    pub(super) fn smallest_sequence(&self) -> u64 {
        debug_assert!(self.chunk.is_empty(), "a footer lists what is flushed");
        self.smallest_sequence
    }

    /// A value or a head has no smaller sequence; 0 when there is none. It is the smallest when all
    /// chunks are closed.
    pub(super) fn smallest_value(&self) -> u64 {
        match self.smallest_of_chunk {
            0 => self.smallest_value,
            smallest => smaller(self.smallest_value, smallest),
        }
    }

    /// The sequence of the value or head that lies before the others; 0 when there is none.
    pub(super) fn begun(&self) -> u64 {
        begun(self.begun, &self.chunk)
    }

    /// The record that was listed last is not the newest of its key any more.
    pub(super) fn note_old(&mut self, listed: &Listed) {
        self.old.push(listed.unit);
    }

    /// Whether the record was not the newest of its key any more when it was listed.
    pub(super) fn is_old(&self, listed: &Listed) -> bool {
        // Each lies behind the one before.
        self.old.binary_search(&listed.unit).is_ok()
    }

    /// The greatest sequence, when all chunks are closed; 0 when there is none.
    pub(super) fn greatest_sequence(&self) -> u64 {
        debug_assert!(self.chunk.is_empty(), "a footer lists what is flushed");
        // Whatever went to another run was smaller.
        self.runs.first().and_then(Run::last).map_or(0, |last| last.sequence)
    }

    /// Those that begin behind this end of a chunk. Chunks are appended, so in each run they are
    /// the last ones.
    pub(super) fn behind_chunk(&self, end: u64) -> impl Iterator<Item = &Listed> {
        let is_behind = move |listed: &&Listed| listed.offset() >= end;
        let in_runs = self.runs.iter().flat_map(move |run| {
            let newest_first = run.pieces.iter().rev().flat_map(|piece| piece.iter().rev());
            newest_first.take_while(is_behind)
        });
        in_runs.chain(&self.chunk)
    }
}

fn is_value(listed: &Listed) -> bool {
    matches!(listed.kind, Kind::Value | Kind::Head)
}

/// The smaller of two sequences, of which the first is 0 when there is none.
fn smaller(smallest: u64, sequence: u64) -> u64 {
    if smallest == 0 { sequence } else { smallest.min(sequence) }
}

/// The sequence of the first value or head: `before`, or when that is 0 what is here.
fn begun(before: u64, listed: &[Listed]) -> u64 {
    if before != 0 {
        return before;
    }
    listed.iter().find(|listed| is_value(listed)).map_or(0, |first| first.sequence)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::format::KeyHash;

    fn listed(sequence: u64, kind: Kind) -> Listed {
        let unit = u32::try_from(sequence).unwrap();
        Listed { hash: KeyHash(1), sequence, unit, kind, class: 4, part: 0 }
    }

    fn of(sequences: impl IntoIterator<Item = u64>) -> Listing {
        let listed = sequences.into_iter().map(|at| listed(at, Kind::Value));
        // 15 entries a block of 512 bytes, 480 a piece.
        Listing::of(512, listed)
    }

    #[test]
    fn they_are_taken_in_order_whatever_order_they_came_in() {
        let rows = (0..10).flat_map(|row| (0..100).map(move |at| 1 + at * 10 + (9 - row)));
        let shuffled = (0..1000).map(|at| 1 + at * 377 % 1000);
        let backward = (1..=1000).rev();
        for (mut listing, runs) in
            [(of(1..=1000), 1), (of(rows), 10), (of(shuffled), 23), (of(backward), 32)]
        {
            assert_eq!((listing.len(), listing.runs.len()), (1000, runs));
            listing.sort();
            let blocks: Vec<_> = (0..68).map(|_| listing.take(15)).collect();
            assert!(blocks[..66].iter().all(|block| block.len() == 15));
            assert_eq!((blocks[66].len(), blocks[67].len()), (10, 0));
            let sequences = blocks.into_iter().flatten().map(|listed| listed.sequence);
            assert!(sequences.eq(1..=1000));
            assert_eq!(listing.greatest_sequence(), 1000);
        }
    }

    #[test]
    fn what_is_asked_about_all_is_known_while_it_grows() {
        let (mut listing, mut spare) = (Listing::new(512), Spare::default());
        assert_eq!((listing.smallest_sequence(), listing.greatest_sequence()), (0, 0));
        listing.push(listed(3, Kind::Part), &mut spare);
        assert_eq!((listing.begun(), listing.smallest_value()), (0, 0), "a part is no value");
        listing.settle(&mut spare);
        assert_eq!(listing.smallest_sequence(), 0, "a part decides nothing");
        listing.push(listed(9, Kind::Value), &mut spare);
        listing.push(Listed { unit: 10, ..listed(4, Kind::Tombstone) }, &mut spare);
        listing.push(Listed { unit: 11, ..listed(10, Kind::Head) }, &mut spare);
        assert_eq!(listing.begun(), 9, "a tombstone may have moved");
        listing.settle(&mut spare);
        assert_eq!((listing.smallest_sequence(), listing.greatest_sequence()), (4, 10));
        assert_eq!(listing.begun(), 9);
        listing.push(Listed { unit: 12, ..listed(7, Kind::Value) }, &mut spare);
        assert_eq!((listing.begun(), listing.smallest_value()), (9, 7), "it was written again");
        listing.settle(&mut spare);
        assert_eq!((listing.begun(), listing.smallest_value()), (9, 7));
        listing.sort();
        let sequences: Vec<u64> = listing.take(15).iter().map(|it| it.sequence).collect();
        assert_eq!((sequences, listing.smallest_sequence()), (vec![3, 4, 7, 9, 10], 4));
    }

    #[test]
    fn what_is_written_over_in_a_chunk_is_listed_as_what_it_is() {
        let (mut listing, mut spare) = (Listing::new(512), Spare::default());
        (1..=5).for_each(|at| listing.push(listed(at, Kind::Value), &mut spare));
        for (unit, sequence) in [(1, 6), (3, 7), (1, 8)] {
            listing.overwrite(unit * 16, sequence);
            assert_eq!(listing.smallest_value(), 1, "nothing is above it while it may change");
        }
        let state = |listing: &Listing| (listing.len(), listing.begun());
        assert_eq!(state(&listing), (5, 8));
        let behind = |listing: &Listing, end| -> Vec<u64> {
            let mut found: Vec<_> = listing.behind_chunk(end).map(|it| it.sequence).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(behind(&listing, 16), [2, 4, 5, 7, 8]);
        listing.settle(&mut spare);
        assert_eq!((state(&listing), listing.smallest_value()), ((5, 8), 2));
        // The next chunk: its first one is written over, too.
        (9..=11).for_each(|at| listing.push(listed(at, Kind::Value), &mut spare));
        listing.overwrite(9 * 16, 12);
        assert_eq!((behind(&listing, 9 * 16), listing.smallest_value()), (vec![10, 11, 12], 2));
        listing.settle(&mut spare);
        assert_eq!(behind(&listing, 9 * 16), [10, 11, 12]);
        assert_eq!((state(&listing), listing.smallest_value()), ((8, 8), 2));
        assert_eq!((listing.smallest_sequence(), listing.greatest_sequence()), (2, 12));
        assert_eq!(listing.runs.len(), 1, "a chunk is put in order before it is listed");
        listing.sort();
        let taken = listing.take(15).into_iter().map(|it| (it.sequence, it.unit));
        let expected = [(2, 2), (4, 4), (5, 5), (7, 3), (8, 1), (10, 10), (11, 11), (12, 9)];
        assert!(taken.eq(expected));
    }

    #[test]
    fn the_last_ones_of_a_segment_are_found_in_every_run() {
        let mut spare = Spare::default();
        let mut listing = Listing::new(512);
        for (unit, sequence) in (0..100).zip((0..100).map(|at| at * 37 % 100)) {
            let listed = Listed { unit, ..listed(sequence, Kind::Value) };
            listing.push(listed, &mut spare);
            // Three records a chunk.
            if unit % 3 == 2 {
                listing.settle(&mut spare);
            }
        }
        assert!(listing.runs.len() > 2 && !listing.chunk.is_empty());
        let mut units: Vec<u32> = listing.behind_chunk(60 * 16).map(|it| it.unit).collect();
        units.sort_unstable();
        assert_eq!(units, (60..100).collect::<Vec<_>>());
    }

    #[test]
    fn pieces_are_used_again_and_no_more_are_kept_than_that() {
        let mut spare = Spare::default();
        spare.keep(of(1..=481));
        assert_eq!(spare.pieces.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0]);
        let mut listing = Listing::new(512);
        listing.push(listed(1, Kind::Value), &mut spare);
        listing.settle(&mut spare);
        assert_eq!((spare.pieces.len(), listing.len()), (1, 1));
        // So is the memory for what is in a chunk.
        let place = listing.chunk.as_ptr();
        spare.keep(listing);
        let mut next = Listing::new(512);
        next.push(listed(2, Kind::Value), &mut spare);
        assert_eq!(next.chunk.as_ptr(), place);
        for _ in 0..200 {
            spare.keep(of(1..=481));
        }
        assert_eq!(spare.pieces.len(), SPARE_MAX);
    }
}
