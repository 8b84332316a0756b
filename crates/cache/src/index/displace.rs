//! Making room in two full buckets: one of their entries goes to its other bucket, which its own
//! bucket's number and its tag tell.

use base::sync::atomic::Ordering;

use super::{Bucket, Entry, Extent, Index, LINE_ENTRIES, Pair, growth_of, other_base};
use crate::arena::Arena;

/// Buckets whose own entries are tried in the second step: each costs seven more lines.
const SECOND_STEP_BUCKETS: usize = 6;

/// An entry of a locked bucket.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    bucket: Bucket<'a>,
    place: usize,
    /// Its other bucket.
    other: u64,
}

impl Index {
    /// Moves an entry of one of two full, locked buckets elsewhere, in one step or two. Returns
    /// the freed place.
    pub(super) fn displace<'a>(
        &self,
        arena: &'a Arena,
        pair: &Pair<'a>,
    ) -> Option<(Bucket<'a>, usize)> {
        let extent = Extent { base_bits: self.base_bits, buckets: pair.buckets };
        let sides = [(pair.first(), pair.numbers.0), (pair.second(), pair.numbers.1)];
        let candidates = sides.map(|(bucket, number)| {
            std::array::from_fn::<_, LINE_ENTRIES, _>(|place| {
                let other = extent.other_bucket(number, bucket.entry(place));
                arena.prefetch(self.bucket_at(other));
                Candidate { bucket, place, other }
            })
        });
        let candidates = candidates.as_flattened();
        for candidate in candidates {
            if self.move_away(arena, pair, *candidate) {
                return Some((candidate.bucket, candidate.place));
            }
        }
        for candidate in candidates.iter().take(SECOND_STEP_BUCKETS) {
            if self.move_away_twice(arena, pair, *candidate) {
                return Some((candidate.bucket, candidate.place));
            }
        }
        None
    }

    /// Moves an entry to its other bucket if there is room.
    fn move_away(&self, arena: &Arena, pair: &Pair<'_>, candidate: Candidate<'_>) -> bool {
        let Candidate { bucket, place, other: target } = candidate;
        // A look without a lock, so that most full buckets are passed at once.
        if target == pair.numbers.0
            || target == pair.numbers.1
            || self.bucket(arena, target).position(Entry::is_empty).is_none()
        {
            return false;
        }
        // Bucket locks beyond the pair are tried, never waited for.
        let Some(lock) = self.bucket(arena, target).try_lock() else { return false };
        // While it is held the target is not split; if it was before, the entry may not go there.
        if self.buckets.load(Ordering::Relaxed) != pair.buckets {
            return false;
        }
        let Some(free) = lock.bucket().position(Entry::is_empty) else { return false };
        // A reader may count a hit in the old place meanwhile: that hit is lost, nothing else.
        let entry = bucket.word(place).swap(0, Ordering::Relaxed);
        lock.bucket().word(free).store(entry, Ordering::Relaxed);
        true
    }

    /// Makes room in an entry's other bucket first.
    fn move_away_twice(&self, arena: &Arena, pair: &Pair<'_>, candidate: Candidate<'_>) -> bool {
        let number = candidate.other;
        if number == pair.numbers.0 || number == pair.numbers.1 {
            return false;
        }
        let Some(lock) = self.bucket(arena, number).try_lock() else { return false };
        if self.buckets.load(Ordering::Relaxed) != pair.buckets {
            return false;
        }
        let bucket = lock.bucket();
        let extent = Extent { base_bits: self.base_bits, buckets: pair.buckets };
        let moved = (0..LINE_ENTRIES).find(|&place| {
            let other = extent.other_bucket(number, bucket.entry(place));
            // Not back into this one, which is locked.
            other != number && self.move_away(arena, pair, Candidate { bucket, place, other })
        });
        let Some(free) = moved else { return false };
        let entry = candidate.bucket.word(candidate.place).swap(0, Ordering::Relaxed);
        bucket.word(free).store(entry, Ordering::Relaxed);
        true
    }
}

impl Extent {
    /// The other bucket of an entry in bucket `number`.
    fn other_bucket(self, number: u64, entry: Entry) -> u64 {
        let tag = entry.tag();
        let base = other_base(self.base_of(number), tag, self.base_bits);
        self.bucket(base, growth_of(tag))
    }
}
