//! What is in a segment: the records that its footer will list.
//!
//! Of the smallest records a segment lists as many bytes as it has, so the list grows piece by
//! piece and is never copied, pieces go from one segment to the next, and what is asked about all
//! of it is known while it grows: whoever puts waits for none of this. Only where parts of large
//! values have come between others, which have the sequence of their upload, or something was
//! written again, the list is copied once to be sorted.
//!
//! Thread safety: plain values, of the engine's owner.

use crate::format::{
    record::Kind,
    segment::{Listed, entries_of_block},
};

/// Blocks of a footer that a piece is for: 127 KiB of the largest.
const PIECE_BLOCKS: usize = 32;

/// Pieces that are kept for the next segment: 32 MiB, as much as the smallest records of a segment
/// of 64 MiB take.
const SPARE_MAX: usize = 256;

type Piece = Vec<Listed>;

/// Empty pieces.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Piece>);

impl Spare {
    /// Keeps the pieces of a list that nobody needs any more.
    pub(super) fn keep(&mut self, listing: Listing) {
        let room = SPARE_MAX.saturating_sub(self.0.len());
        self.0.extend(listing.pieces.into_iter().take(room).map(|mut piece| {
            piece.clear();
            piece
        }));
    }
}

/// A list of records.
#[derive(Debug)]
pub(super) struct Listing {
    /// All but the last one are full.
    pieces: Vec<Piece>,
    piece_entries: usize,
    entries: usize,
    is_sorted: bool,
    /// The smallest sequence of what decides; 0 when nothing does.
    smallest_sequence: u64,
    /// The smallest sequence of a value or a head; 0 when there is none.
    begun: u64,
}

impl Listing {
    pub(super) fn new(block_bytes: u32) -> Self {
        Self {
            pieces: Vec::new(),
            piece_entries: PIECE_BLOCKS * entries_of_block(block_bytes),
            entries: 0,
            is_sorted: true,
            smallest_sequence: 0,
            begun: 0,
        }
    }

    pub(super) fn of(block_bytes: u32, entries: impl IntoIterator<Item = Listed>) -> Self {
        let (mut listing, mut spare) = (Self::new(block_bytes), Spare::default());
        entries.into_iter().for_each(|listed| listing.push(listed, &mut spare));
        listing
    }

    #[inline]
    pub(super) fn push(&mut self, listed: Listed, spare: &mut Spare) {
        if self.entries.is_multiple_of(self.piece_entries) {
            let piece = spare.0.pop().filter(|piece| piece.capacity() >= self.piece_entries);
            self.pieces.push(piece.unwrap_or_else(|| Vec::with_capacity(self.piece_entries)));
        }
        self.is_sorted &= self.last().is_none_or(|last| last.order() <= listed.order());
        let is_smaller = self.smallest_sequence == 0 || listed.sequence < self.smallest_sequence;
        if is_smaller && listed.kind.decides() {
            self.smallest_sequence = listed.sequence;
        }
        let is_value = matches!(listed.kind, Kind::Value | Kind::Head);
        if is_value && (self.begun == 0 || listed.sequence < self.begun) {
            self.begun = listed.sequence;
        }
        self.entries += 1;
        let piece = self.pieces.last_mut().expect("invariant: there is room in the last one");
        piece.push(listed);
    }

    /// Puts them into the order of a footer.
    pub(super) fn sort(&mut self, block_bytes: u32) {
        if !self.is_sorted {
            let mut all = Vec::with_capacity(self.entries);
            let mut spare = Spare::default();
            for mut piece in std::mem::replace(self, Self::new(block_bytes)).pieces {
                all.append(&mut piece);
                spare.0.push(piece);
            }
            all.sort_unstable_by_key(Listed::order);
            all.into_iter().for_each(|listed| self.push(listed, &mut spare));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The smallest sequence of what decides; 0 when nothing does.
    pub(super) fn smallest_sequence(&self) -> u64 {
        self.smallest_sequence
    }

    /// The smallest sequence of a value or a head; 0 when there is none.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The last one.
    #[inline]
    pub(super) fn last(&self) -> Option<&Listed> {
        let full = self.pieces.iter().rev().find(|piece| !piece.is_empty());
        full.and_then(|piece| piece.last())
    }

    /// All of them, the last one first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Listed> {
        self.pieces.iter().rev().flat_map(|piece| piece.iter().rev())
    }

    /// Entry `from` and those behind it, up to `count`: of one block of a footer.
    pub(super) fn of_block(&self, from: usize, count: usize) -> &[Listed] {
        let Some(piece) = self.pieces.get(from / self.piece_entries) else { return &[] };
        let from = from % self.piece_entries;
        &piece[from.min(piece.len())..piece.len().min(from + count)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::KeyHash;

    fn listed(sequence: u64, kind: Kind) -> Listed {
        let unit = u32::try_from(sequence).unwrap();
        Listed { hash: KeyHash(1), sequence, unit, kind, class: 4, part: 0 }
    }

    #[test]
    fn blocks_come_back_in_order_whatever_piece_they_are_in() {
        // 15 entries a block of 512 bytes, 480 a piece.
        let of = |sequences: Vec<u64>| {
            Listing::of(512, sequences.into_iter().map(|at| listed(at, Kind::Value)))
        };
        let backward: Vec<u64> = (1..=1000).rev().collect();
        for mut listing in [of((1..=1000).collect()), of(backward)] {
            listing.sort(512);
            assert_eq!((listing.len(), listing.pieces.len()), (1000, 3));
            let blocks: Vec<&[Listed]> =
                (0..67).map(|block| listing.of_block(block * 15, 15)).collect();
            assert_eq!(blocks.iter().map(|block| block.len()).sum::<usize>(), 1000);
            assert!(blocks[..66].iter().all(|block| block.len() == 15));
            let sequences = blocks.into_iter().flatten().map(|listed| listed.sequence);
            assert!(sequences.eq(1..=1000));
            assert_eq!(listing.last().map(|last| last.sequence), Some(1000));
            assert_eq!(listing.of_block(1005, 15), []);
        }
    }

    #[test]
    fn what_is_asked_about_all_is_known_while_it_grows() {
        let (mut listing, mut spare) = (Listing::new(512), Spare::default());
        assert_eq!((listing.smallest_sequence(), listing.last()), (0, None));
        listing.push(listed(3, Kind::Part), &mut spare);
        assert_eq!(listing.smallest_sequence(), 0, "a part decides nothing");
        listing.push(listed(9, Kind::Value), &mut spare);
        listing.push(listed(4, Kind::Tombstone), &mut spare);
        listing.push(listed(10, Kind::Head), &mut spare);
        assert_eq!((listing.smallest_sequence(), listing.is_sorted), (4, false));
        assert_eq!(listing.begun(), 9, "a tombstone may have moved");
        listing.sort(512);
        let sequences: Vec<u64> = listing.of_block(0, 15).iter().map(|it| it.sequence).collect();
        assert_eq!((sequences, listing.smallest_sequence()), (vec![3, 4, 9, 10], 4));
    }

    #[test]
    fn pieces_are_used_again_and_no_more_are_kept_than_that() {
        let mut spare = Spare::default();
        let all = (1..=481).map(|at| listed(at, Kind::Value));
        spare.keep(Listing::of(512, all));
        assert_eq!(spare.0.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0]);
        let mut listing = Listing::new(512);
        listing.push(listed(1, Kind::Value), &mut spare);
        assert_eq!((spare.0.len(), listing.len()), (1, 1));
        for _ in 0..200 {
            spare.keep(Listing::of(512, (1..=481).map(|at| listed(at, Kind::Value))));
        }
        assert_eq!(spare.0.len(), SPARE_MAX);
    }
}
