//! A sorted run of a list.

use std::cmp::Ordering;

use super::{Piece, Spare};
use crate::format::{record::Kind, segment::Listed};

/// What an entry is that counts no more: nothing lists padding. Only the first run has such.
pub(super) const VOID: Kind = Kind::Padding;

/// Records in the order of a footer.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// All but the last one are full.
    pub(super) pieces: Vec<Piece>,
    /// How many there are, void ones included.
    pub(super) entries: usize,
    /// How many the footer has already, or has passed over.
    pub(super) taken: usize,
    /// The smallest sequence of what decides; 0 when nothing does.
    pub(super) smallest_sequence: u64,
    /// The same of values and heads.
    pub(super) smallest_value: u64,
}

impl Run {
    pub(super) fn last(&self) -> Option<&Listed> {
        self.pieces.last().and_then(|piece| piece.last())
    }

    pub(super) fn get(&self, at: usize, piece_entries: usize) -> Option<&Listed> {
        self.pieces.get(at / piece_entries)?.get(at % piece_entries)
    }

    fn get_mut(&mut self, at: usize, piece_entries: usize) -> Option<&mut Listed> {
        self.pieces.get_mut(at / piece_entries)?.get_mut(at % piece_entries)
    }

    /// Where the value of a sequence is, among the entries behind so many.
    pub(super) fn find(&self, from: usize, sequence: u64, piece_entries: usize) -> Option<usize> {
        let (mut from, mut upto) = (from, self.entries);
        while from < upto {
            let middle = usize::midpoint(from, upto);
            match self.get(middle, piece_entries)?.sequence.cmp(&sequence) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => upto = middle,
            }
        }
        None
    }

    /// The value at this place is no more. What is smallest is among those behind it, if it was it.
    pub(super) fn void(&mut self, at: usize, piece_entries: usize) -> Option<Listed> {
        let value = *self.get(at, piece_entries)?;
        self.get_mut(at, piece_entries)?.kind = VOID;
        if self.smallest_sequence == value.sequence {
            let decides = |listed: &Listed| listed.kind.decides();
            self.smallest_sequence = self.first_behind(at, decides, piece_entries);
        }
        if self.smallest_value == value.sequence {
            self.smallest_value = self.first_behind(at, is_value, piece_entries);
        }
        Some(value)
    }

    /// The sequence of the first such one behind this place; 0 when there is none.
    fn first_behind(&self, at: usize, is: fn(&Listed) -> bool, piece_entries: usize) -> u64 {
        let mut behind = (at + 1..self.entries).filter_map(|at| self.get(at, piece_entries));
        behind.find(|listed| is(listed)).map_or(0, |listed| listed.sequence)
    }

    /// Leaves the void ones out that are behind so many.
    pub(super) fn compact(&mut self, from: usize, piece_entries: usize, spare: &mut Spare) {
        let mut kept = from;
        for at in from..self.entries {
            let Some(listed) = self.get(at, piece_entries).copied() else { break };
            if listed.kind != VOID {
                self.get_mut(kept, piece_entries).into_iter().for_each(|place| *place = listed);
                kept += 1;
            }
        }
        self.entries = kept;
        let pieces = kept.div_ceil(piece_entries);
        spare.keep_pieces(self.pieces.drain(pieces..));
        if let Some(last) = self.pieces.last_mut() {
            last.truncate(kept - (pieces - 1) * piece_entries);
        }
    }

    #[inline]
    pub(super) fn push(&mut self, listed: Listed, piece_entries: usize, spare: &mut Spare) {
        if self.entries.is_multiple_of(piece_entries) {
            let piece = spare.pieces.pop().filter(|piece| piece.capacity() >= piece_entries);
            self.pieces.push(piece.unwrap_or_else(|| Vec::with_capacity(piece_entries)));
        }
        self.entries += 1;
        if listed.kind.decides() {
            self.smallest_sequence = smaller(self.smallest_sequence, listed.sequence);
        }
        if is_value(&listed) {
            self.smallest_value = smaller(self.smallest_value, listed.sequence);
        }
        let piece = self.pieces.last_mut().expect("invariant: there is room in the last one");
        piece.push(listed);
    }

    /// The first one that the footer does not have.
    pub(super) fn next(&mut self, piece_entries: usize) -> Option<Listed> {
        loop {
            let listed = *self.get(self.taken, piece_entries)?;
            if listed.kind != VOID {
                return Some(listed);
            }
            self.taken += 1;
        }
    }
}

pub(super) fn is_value(listed: &Listed) -> bool {
    matches!(listed.kind, Kind::Value | Kind::Head)
}

/// The smaller of two sequences, of which the first is 0 when there is none.
fn smaller(smallest: u64, sequence: u64) -> u64 {
    if smallest == 0 { sequence } else { smallest.min(sequence) }
}
