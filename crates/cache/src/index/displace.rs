//! Making room in two full buckets: one of their entries goes to its other bucket, which its own
//! bucket's number and its tag tell.

use std::array;

use base::sync::atomic::Ordering;

use super::{Bucket, Entry, Index, LINE_ENTRIES, Lines, Pair, Size};
use crate::{arena::Arena, geometry::LINE_WORDS};

/// Entries of the first bucket that are tried in the second step: each costs seven more lines.
const SECOND_STEP_BUCKETS: usize = 6;

/// An entry of a locked bucket.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) bucket: Bucket<'a>,
    pub(super) place: usize,
    /// The bucket that it is in.
    pub(super) number: u64,
    /// Its other bucket.
    pub(super) other: u64,
}

impl Index {
    /// Moves an entry of one of two full, locked buckets elsewhere, in one step or two. Returns
    /// the freed place.
    pub(super) fn displace<'a>(
        &self,
        arena: &'a Arena,
        pair: &Pair<'a>,
    ) -> Option<(Bucket<'a>, usize)> {
        let extent = self.extent(pair.size);
        let numbers = extent.numbers(pair.hash);
        let Lines { first, second } = pair.lines();
        let sides = [(first, numbers[0]), (second, numbers[1])];
        let candidate_at = |(bucket, number): (Bucket<'a>, u64), place| {
            let other = extent.other_bucket(number, bucket.entry(place));
            arena.prefetch(self.line_of(other) * LINE_WORDS);
            Candidate { bucket, place, number, other }
        };
        // Every second bucket has room, so one side's are asked for before the other side's.
        let freed = sides.into_iter().find_map(|side| {
            let candidates: [_; LINE_ENTRIES] = array::from_fn(|place| candidate_at(side, place));
            candidates.into_iter().find(|one| self.move_away(arena, pair.size, *one))
        });
        let freed = freed.or_else(|| {
            let mut candidates =
                (0..SECOND_STEP_BUCKETS).map(|place| candidate_at(sides[0], place));
            candidates.find(|one| self.move_away_twice(arena, pair, *one))
        });
        freed.map(|candidate| (candidate.bucket, candidate.place))
    }

    /// Moves an entry of a locked bucket to its other bucket if there is room there, and `size`
    /// still is the index's.
    pub(super) fn move_away(&self, arena: &Arena, size: Size, candidate: Candidate<'_>) -> bool {
        let Candidate { bucket, place, number, other: target } = candidate;
        // A look without a lock, so that most full buckets are passed at once, those that the
        // caller holds among them.
        if self.bucket(arena, target).empty() == 0 {
            return false;
        }
        // Bucket locks beyond the first two are tried, never waited for.
        let Some(lock) = self.bucket(arena, target).try_lock() else { return false };
        // While it is held the target is not split; if it was before, the entry may not go there.
        if self.size(Ordering::Relaxed) != size || self.hides(number, target) {
            return false;
        }
        let Some(free) = lock.bucket().room() else { return false };
        // A reader may count a hit in the old place meanwhile: that hit is lost, nothing else.
        let entry = bucket.word(place).swap(0, Ordering::Relaxed);
        lock.bucket().word(free).store(turned(entry), Ordering::Relaxed);
        true
    }

    /// Makes room in an entry's other bucket first.
    fn move_away_twice(&self, arena: &Arena, pair: &Pair<'_>, candidate: Candidate<'_>) -> bool {
        let number = candidate.other;
        // Also fails for a bucket of the pair.
        let Some(lock) = self.bucket(arena, number).try_lock() else { return false };
        if self.size(Ordering::Relaxed) != pair.size || self.hides(candidate.number, number) {
            return false;
        }
        let bucket = lock.bucket();
        let extent = self.extent(pair.size);
        // It was full, or locked, when the first step passed it; now somebody may have left.
        let room = bucket.room().or_else(|| {
            (0..LINE_ENTRIES).find(|&place| {
                let other = extent.other_bucket(number, bucket.entry(place));
                self.move_away(arena, pair.size, Candidate { bucket, place, number, other })
            })
        });
        let Some(free) = room else { return false };
        let entry = candidate.bucket.word(candidate.place).swap(0, Ordering::Relaxed);
        bucket.word(free).store(turned(entry), Ordering::Relaxed);
        true
    }
}

/// An entry as it is in its key's other bucket.
fn turned(entry: u64) -> u64 {
    debug_assert_ne!(entry, 0, "an empty place has no other bucket");
    let entry = Entry(entry);
    entry.in_role(entry.role().other()).0
}
