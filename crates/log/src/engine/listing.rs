//! What is in a segment: the records that its footer will list.
//!
//! Of the smallest records a segment lists as many bytes as it has, so the list grows piece by
//! piece and is not copied as a whole, pieces go from one segment to the next, and what is asked
//! about all of it is known while it grows: whoever puts waits for none of this. A footer is
//! sorted, and most records come in its order. Parts of large values, which have the sequence of
//! their upload, tombstones that were moved and what was written again do not: but each upload and
//! each segment that was moved out of brings a row that is in order, so the list is kept as a few
//! sorted runs (as in patience sorting), which are merged when the footer is encoded.
//!
//! A value that is written over while it is in memory has a sequence behind all others then: it is
//! listed anew, and the entry that it had is void. When most entries of the chunk are, and more
//! than a few, they are left out.
//!
//! Thread safety: plain values, of the engine's owner.

mod run;

use std::{mem, sync::Arc};

use self::run::{Run, VOID, is_value};
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

/// As many void entries are left where they are.
const VOID_LEAST: usize = 64;

type Piece = Vec<Listed>;

/// What lists that nobody needs any more have left for the next ones.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Empty ones.
    pieces: Vec<Piece>,
    /// What a footer was written from.
    pub(super) buffer: Option<Arc<Buffer>>,
}

impl Spare {
    /// Keeps the pieces of a list that nobody needs any more.
    pub(super) fn keep(&mut self, listing: Listing) {
        self.keep_pieces(listing.runs.into_iter().flat_map(|run| run.pieces));
    }

    fn keep_pieces(&mut self, pieces: impl Iterator<Item = Piece>) {
        let room = SPARE_MAX.saturating_sub(self.pieces.len());
        self.pieces.extend(pieces.take(room).map(|mut piece| {
            piece.clear();
            piece
        }));
    }
}

/// A list of records.
#[derive(Debug)]
pub(super) struct Listing {
    /// The last record of each is smaller than that of the one before it, but for the last of
    /// [`RUNS_MAX`], which has all that fitted nowhere.
    runs: Vec<Run>,
    piece_entries: usize,
    /// How many records are listed.
    records: usize,
    is_sorted: bool,
    /// How many entries of the first run are of chunks that are closed: behind them is what may be
    /// written over.
    closed: usize,
    /// How many behind them are void.
    void: usize,
    /// The unit and the sequence of the first value or head.
    begun: Option<(u32, u64)>,
    /// The units of those that are not the newest of their keys any more, and were written again
    /// because others of their batch are: they keep their sequences.
    old: Vec<u32>,
}

impl Listing {
    pub(super) fn new(block_bytes: u32) -> Self {
        Self {
            runs: vec![Run::default()],
            piece_entries: PIECE_BLOCKS * entries_of_block(block_bytes),
            records: 0,
            is_sorted: true,
            closed: 0,
            void: 0,
            begun: None,
            old: Vec::new(),
        }
    }

    pub(super) fn of(block_bytes: u32, entries: impl IntoIterator<Item = Listed>) -> Self {
        let (mut listing, mut spare) = (Self::new(block_bytes), Spare::default());
        entries.into_iter().for_each(|listed| listing.push(listed, &mut spare));
        listing
    }

    #[inline]
    pub(super) fn push(&mut self, listed: Listed, spare: &mut Spare) {
        if self.begun.is_none() && is_value(&listed) {
            self.begun = Some((listed.unit, listed.sequence));
        }
        self.records += 1;
        let run = self.run_for(&listed);
        self.runs[run].push(listed, self.piece_entries, spare);
    }

    /// Where the list has a value of the chunk that is being filled, if it can be listed anew. What
    /// was given a sequence when it was put is in the first run.
    pub(super) fn find(&self, sequence: u64, offset: u64) -> Option<usize> {
        let run = self.runs.first()?;
        let at = run.find(self.closed, sequence, self.piece_entries)?;
        let listed = run.get(at, self.piece_entries)?;
        (listed.kind == Kind::Value && listed.offset() == offset).then_some(at)
    }

    /// The value that [`Listing::find`] has found was written over, and has this sequence, which is
    /// greater than all others.
    pub(super) fn overwrite(&mut self, at: usize, sequence: u64, spare: &mut Spare) {
        if base::mutant!("log_overwritten_listed_as_before") {
            return;
        }
        let run = &mut self.runs[0];
        let value = run.void(at, self.piece_entries).expect("invariant: it was found there");
        run.push(Listed { sequence, ..value }, self.piece_entries, spare);
        self.void += 1;
        if let Some((_, begun)) = self.begun.as_mut().filter(|(unit, _)| *unit == value.unit) {
            *begun = sequence;
        }
        self.leave_void_out(VOID_LEAST, spare);
    }

    /// The chunk that was being filled is closed: nothing in it is written over any more.
    pub(super) fn close_chunk(&mut self, spare: &mut Spare) {
        self.leave_void_out(0, spare);
        self.closed = self.runs[0].entries;
        self.void = 0;
    }

    /// Leaves out what is void if it is most of what is listed of a chunk, and more than `least`.
    fn leave_void_out(&mut self, least: usize, spare: &mut Spare) {
        let entries = self.runs[0].entries - self.closed;
        let are_most = self.void > least && self.void > entries / 2;
        if are_most && !base::mutant!("log_overwritten_listed_for_ever") {
            self.runs[0].compact(self.closed, self.piece_entries, spare);
            self.void = 0;
        }
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
            let runs = self.runs.iter_mut();
            let heads = runs.filter_map(|run| Some((run.next(piece_entries)?, run)));
            let Some((listed, run)) = heads.min_by_key(|(listed, _)| listed.order()) else { break };
            taken.push(listed);
            run.taken += 1;
        }
        taken
    }

    pub(super) fn len(&self) -> usize {
        self.records
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The smallest sequence of what decides; 0 when nothing does.
    pub(super) fn smallest_sequence(&self) -> u64 {
        let all = self.runs.iter().map(|run| run.smallest_sequence);
        all.filter(|smallest| *smallest != 0).min().unwrap_or(0)
    }

    /// The smallest sequence of a value or a head; 0 when there is none.
    pub(super) fn smallest_value(&self) -> u64 {
        let all = self.runs.iter().map(|run| run.smallest_value);
        all.filter(|smallest| *smallest != 0).min().unwrap_or(0)
    }

    /// The sequence of the value or head that was listed first; 0 when there is none.
    pub(super) fn begun(&self) -> u64 {
        self.begun.map_or(0, |(_, sequence)| sequence)
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

    /// The greatest sequence; 0 when there is none.
    pub(super) fn greatest_sequence(&self) -> u64 {
        // Whatever went to another run was smaller.
        self.runs.first().and_then(Run::last).map_or(0, |last| last.sequence)
    }

    /// Those that begin behind this end of a chunk. Chunks are appended, so in each run they are
    /// the last ones.
    pub(super) fn behind_chunk(&self, end: u64) -> impl Iterator<Item = &Listed> {
        let is_behind = move |listed: &&Listed| listed.offset() >= end;
        let all = self.runs.iter().flat_map(move |run| {
            let newest_first = run.pieces.iter().rev().flat_map(|piece| piece.iter().rev());
            newest_first.take_while(is_behind)
        });
        all.filter(|listed| listed.kind != VOID)
    }
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
        assert_eq!(listing.smallest_sequence(), 0, "a part decides nothing");
        listing.push(listed(9, Kind::Value), &mut spare);
        listing.push(listed(4, Kind::Tombstone), &mut spare);
        listing.push(listed(10, Kind::Head), &mut spare);
        assert_eq!((listing.smallest_sequence(), listing.greatest_sequence()), (4, 10));
        assert_eq!(listing.begun(), 9, "a tombstone may have moved");
        let old = listed(7, Kind::Value);
        listing.push(Listed { unit: 11, ..old }, &mut spare);
        assert_eq!((listing.begun(), listing.smallest_value()), (9, 7), "it was written again");
        listing.sort();
        let sequences: Vec<u64> = listing.take(15).iter().map(|it| it.sequence).collect();
        assert_eq!((sequences, listing.smallest_sequence()), (vec![3, 4, 7, 9, 10], 4));
    }

    #[test]
    fn what_is_written_over_in_a_chunk_is_listed_as_what_it_is() {
        let (mut listing, mut spare) = (Listing::new(512), Spare::default());
        // One that was moved: it is in a run of its own when others come before it.
        listing.push(Listed { unit: 1, ..listed(9, Kind::Value) }, &mut spare);
        listing.push(Listed { unit: 2, ..listed(1, Kind::Tombstone) }, &mut spare);
        (10..=14).for_each(|at| listing.push(listed(at, Kind::Value), &mut spare));
        assert_eq!((listing.smallest_sequence(), listing.smallest_value()), (1, 9));
        for (unit, before, sequence, smallest) in
            [(1, 9, 15, 10), (12, 12, 16, 10), (10, 10, 17, 11), (1, 15, 18, 11), (11, 11, 19, 13)]
        {
            assert_eq!(listing.find(before, 7 * 16), None, "it does not lie there");
            let at = listing.find(before, unit * 16).unwrap();
            listing.overwrite(at, sequence, &mut spare);
            assert_eq!(listing.find(before, unit * 16), None, "it is void");
            assert_eq!(listing.smallest_value(), smallest);
        }
        assert_eq!((listing.len(), listing.begun(), listing.smallest_sequence()), (7, 18, 1));
        let behind = |listing: &Listing, end| -> Vec<u64> {
            let mut found: Vec<_> = listing.behind_chunk(end).map(|it| it.sequence).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(behind(&listing, 16), [1, 13, 14, 16, 17, 18, 19]);
        listing.close_chunk(&mut spare);
        assert_eq!(listing.find(13, 13 * 16), None, "it is on its way to the disk");
        // The next chunk: its first one is written over, too.
        (20..=22).for_each(|at| listing.push(listed(at, Kind::Value), &mut spare));
        listing.overwrite(listing.find(20, 20 * 16).unwrap(), 23, &mut spare);
        assert_eq!((behind(&listing, 20 * 16), listing.begun()), (vec![21, 22, 23], 18));
        listing.close_chunk(&mut spare);
        assert_eq!((listing.smallest_sequence(), listing.greatest_sequence()), (1, 23));
        assert_eq!(listing.runs.len(), 2);
        listing.sort();
        let taken = listing.take(15).into_iter().map(|it| (it.sequence, it.unit));
        let expected = [(1, 2), (13, 13), (14, 14), (16, 12), (17, 10), (18, 1), (19, 11)];
        assert!(taken.eq(expected.into_iter().chain([(21, 21), (22, 22), (23, 20)])));
    }

    #[test]
    fn what_is_written_over_for_ever_is_listed_once() {
        // Of so many keys each is written over in turn; 480 entries a piece.
        for (keys, most) in [(1, 66), (2, 66), (600, 1202)] {
            let (mut listing, mut spare) = (Listing::new(512), Spare::default());
            (1..=5).for_each(|at| listing.push(listed(at, Kind::Value), &mut spare));
            listing.close_chunk(&mut spare);
            let mut sequences: Vec<u64> = (6..6 + keys).collect();
            sequences.iter().for_each(|at| listing.push(listed(*at, Kind::Value), &mut spare));
            for sequence in 6 + keys..10_000 {
                let key = (sequence % keys) as usize;
                let at = listing.find(sequences[key], (6 + key as u64) * 16).unwrap();
                listing.overwrite(at, sequence, &mut spare);
                sequences[key] = sequence;
                let entries = listing.runs[0].entries - 5;
                assert!(entries <= most, "{entries} entries for {keys} keys");
            }
            listing.close_chunk(&mut spare);
            let entries = listing.runs[0].entries - 5;
            assert!(entries <= 2 * keys as usize, "{entries} entries for {keys} keys");
            assert_eq!(listing.runs[0].pieces.len(), (entries + 5).div_ceil(480));
            assert_eq!(listing.len() as u64, 5 + keys);
            assert_eq!(listing.smallest_value(), 1);
            sequences.sort_unstable();
            let taken = listing.take(10_000).into_iter().map(|it| it.sequence);
            assert!(taken.eq((1..=5).chain(sequences)));
        }
    }

    #[test]
    fn the_last_ones_of_a_segment_are_found_in_every_run() {
        let mut spare = Spare::default();
        let mut listing = Listing::new(512);
        for (unit, sequence) in (0..100).zip((0..100).map(|at| at * 37 % 100)) {
            let listed = Listed { unit, ..listed(sequence, Kind::Value) };
            listing.push(listed, &mut spare);
        }
        assert!(listing.runs.len() > 2);
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
        assert_eq!((spare.pieces.len(), listing.len()), (1, 1));
        for _ in 0..200 {
            spare.keep(of(1..=481));
        }
        assert_eq!(spare.pieces.len(), SPARE_MAX);
    }
}
