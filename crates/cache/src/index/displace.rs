//! Making room in two full buckets: one of their entries goes to its other bucket.
//!
//! The tag gives the difference of an entry's two coordinates, and its bucket's number the low
//! bits of one of them. Where its other bucket has been split already and this one has not, one
//! more bit is needed: then the key tells, and it is read only if there is room to go to.

use base::sync::atomic::Ordering;

use super::{Bucket, Candidates, Entry, Index, LINE_ENTRIES, Pair, bucket_of, offset};
use crate::arena::Arena;

/// Buckets whose own entries are tried in the second step: each costs seven more lines.
const SECOND_STEP_BUCKETS: usize = 6;

/// Where an entry could go.
#[derive(Clone, Copy)]
enum Other {
    /// To this bucket.
    Known(u64),
    /// To this bucket or to the one that was split off it.
    Either(u64, u64),
}

/// An entry of a locked bucket.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    bucket: Bucket<'a>,
    number: u64,
    place: usize,
    other: Other,
}

impl Index {
    /// Moves an entry of one of two full, locked buckets elsewhere, in one step or two. Returns
    /// the freed place.
    pub(super) fn displace<'a>(
        &self,
        arena: &'a Arena,
        pair: &Pair<'a>,
        hash_of: &impl Fn(usize) -> Option<u64>,
    ) -> Option<(Bucket<'a>, usize)> {
        let sides = [(pair.first(), pair.numbers.0), (pair.second(), pair.numbers.1)];
        let candidates = sides.map(|(bucket, number)| {
            std::array::from_fn::<_, LINE_ENTRIES, _>(|place| {
                let other = other_bucket(number, bucket.entry(place), pair.buckets);
                for target in other.buckets() {
                    arena.prefetch(self.bucket_at(target));
                }
                Candidate { bucket, number, place, other }
            })
        });
        let candidates = candidates.as_flattened();
        for candidate in candidates {
            if self.move_away(arena, pair, *candidate, hash_of) {
                return Some((candidate.bucket, candidate.place));
            }
        }
        for candidate in candidates.iter().take(SECOND_STEP_BUCKETS) {
            if self.move_away_twice(arena, pair, *candidate, hash_of) {
                return Some((candidate.bucket, candidate.place));
            }
        }
        None
    }

    /// Moves an entry to its other bucket if there is room.
    fn move_away(
        &self,
        arena: &Arena,
        pair: &Pair<'_>,
        candidate: Candidate<'_>,
        hash_of: &impl Fn(usize) -> Option<u64>,
    ) -> bool {
        let Candidate { bucket, number, place, other } = candidate;
        // A look without a lock, so that most full buckets are passed at once.
        let has_room = |at: u64| self.bucket(arena, at).position(Entry::is_empty).is_some();
        let target = match other {
            Other::Known(target) => target,
            Other::Either(a, b) => {
                if !has_room(a) && !has_room(b) {
                    return false;
                }
                // The bucket is locked, so the record stays what it is.
                let Some(hash) = hash_of(bucket.entry(place).location()) else { return false };
                let Candidates { first, second, .. } = Candidates::new(hash, pair.buckets);
                if first == number { second } else { first }
            }
        };
        if target == pair.numbers.0 || target == pair.numbers.1 || !has_room(target) {
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
    fn move_away_twice(
        &self,
        arena: &Arena,
        pair: &Pair<'_>,
        candidate: Candidate<'_>,
        hash_of: &impl Fn(usize) -> Option<u64>,
    ) -> bool {
        let Other::Known(number) = candidate.other else { return false };
        if number == pair.numbers.0 || number == pair.numbers.1 {
            return false;
        }
        let Some(lock) = self.bucket(arena, number).try_lock() else { return false };
        if self.buckets.load(Ordering::Relaxed) != pair.buckets {
            return false;
        }
        let bucket = lock.bucket();
        let moved = (0..LINE_ENTRIES).find(|&place| {
            let other = other_bucket(number, bucket.entry(place), pair.buckets);
            // Not back into this one, which is locked, and not by way of a key: that is for the
            // first step.
            matches!(other, Other::Known(target) if target != number)
                && self.move_away(arena, pair, Candidate { bucket, number, place, other }, hash_of)
        });
        let Some(free) = moved else { return false };
        let entry = candidate.bucket.word(candidate.place).swap(0, Ordering::Relaxed);
        bucket.word(free).store(entry, Ordering::Relaxed);
        true
    }
}

impl Other {
    fn buckets(self) -> impl Iterator<Item = u64> {
        let (a, b) = match self {
            Self::Known(a) => (a, None),
            Self::Either(a, b) => (a, Some(b)),
        };
        std::iter::once(a).chain(b)
    }
}

/// The other bucket of an entry that is in bucket `number`, as far as its tag tells.
fn other_bucket(number: u64, entry: Entry, buckets: u64) -> Other {
    let level = 63 - buckets.leading_zeros();
    let split = buckets - (1 << level);
    let low_mask = (1 << level) - 1;
    let offset = offset(entry.tag());
    let low = (number ^ offset) & low_mask;
    if low >= split {
        return Other::Known(low);
    }
    if number & low_mask < split {
        return Other::Known(bucket_of(number ^ offset, buckets));
    }
    Other::Either(low, low | 1 << level)
}
