//! Adding and removing entries under the locks of a key's two buckets.

use base::sync::atomic::Ordering;

use super::{Bucket, Entry, Found, Index, LINE_ENTRIES, Locked, bucket_of, offset};
use crate::arena::Arena;

/// Entries in the first bucket before a new one goes to the emptier of the two. Below it a lookup
/// needs one line; from it on the second keeps both from filling up.
const FIRST_FILL: usize = 6;

/// The two candidate buckets of a key, locked.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    first: Locked<'a>,
    /// `None` when both candidates are the same bucket.
    second: Option<Locked<'a>>,
    numbers: (u64, u64),
    buckets: u64,
}

/// No line can take another entry and there is no memory for an overflow line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

impl<'a> Pair<'a> {
    pub(crate) fn first(&self) -> Bucket<'a> {
        self.first.bucket()
    }

    pub(crate) fn second(&self) -> Bucket<'a> {
        self.second.as_ref().unwrap_or(&self.first).bucket()
    }
}

impl Index {
    /// Locks the candidates of `hash`, in address order.
    pub(crate) fn lock<'a>(&self, arena: &'a Arena, hash: u64) -> Pair<'a> {
        loop {
            let candidates = self.candidates(hash);
            let numbers = (candidates.first, candidates.second);
            let (low, high) = (numbers.0.min(numbers.1), numbers.0.max(numbers.1));
            let low_lock = self.bucket(arena, low).lock();
            let high_lock = (low != high).then(|| self.bucket(arena, high).lock());
            // A bucket may have been split while this thread waited for it.
            let now = self.candidates(hash);
            if (now.first, now.second) == numbers {
                let (first, second) = match high_lock {
                    Some(high_lock) if low != numbers.0 => (high_lock, Some(low_lock)),
                    second => (low_lock, second),
                };
                return Pair { first, second, numbers, buckets: now.buckets };
            }
        }
    }

    /// Adds an entry that none of the key's lines holds yet.
    pub(crate) fn insert<'a>(
        &self,
        arena: &'a Arena,
        pair: &Pair<'a>,
        entry: Entry,
    ) -> Result<(), Full> {
        let (first, second) = (pair.first(), pair.second());
        let (in_first, in_second) = (first.len(), second.len());
        let target = if in_first < FIRST_FILL || in_first <= in_second { first } else { second };
        if let Some(place) = target.position(Entry::is_empty) {
            target.word(place).store(entry.0, Ordering::Relaxed);
        } else if let Some((bucket, place)) = self.displace(arena, pair) {
            bucket.word(place).store(entry.0, Ordering::Relaxed);
        } else {
            let (line, place) = self.overflow_room(arena, &pair.first)?;
            line.word(place).store(entry.0, Ordering::Relaxed);
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes an entry out, if it is still the one that was found. The caller holds the lock of
    /// `found.bucket`. Only who gets `true` may free the record.
    pub(crate) fn remove(&self, found: &Found<'_>) -> bool {
        let mut seen = found.entry;
        loop {
            let word = found.line.word(found.place);
            match word.compare_exchange(seen.0, 0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                // A reader has counted a hit: still the same record.
                Err(now)
                    if Entry(now).with_counter(0).unfetched()
                        == seen.with_counter(0).unfetched() =>
                {
                    seen = Entry(now);
                }
                Err(_) => return false,
            }
        }
        self.entries.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Makes room in one of two full buckets: moves one of their entries to its other bucket, or,
    /// in two steps, first one of that bucket's to a third. Returns the freed place.
    fn displace<'a>(&self, arena: &'a Arena, pair: &Pair<'a>) -> Option<(Bucket<'a>, usize)> {
        let sides = [(pair.first(), pair.numbers.0), (pair.second(), pair.numbers.1)];
        for (bucket, number) in sides {
            for place in 0..LINE_ENTRIES {
                if self.displace_one(arena, pair, bucket, number, place, 1) {
                    return Some((bucket, place));
                }
            }
        }
        for (bucket, number) in sides {
            for place in 0..LINE_ENTRIES {
                if self.displace_one(arena, pair, bucket, number, place, 2) {
                    return Some((bucket, place));
                }
            }
        }
        None
    }

    /// Moves the entry at `place` of a locked bucket to its other bucket, in at most `steps`.
    fn displace_one(
        &self,
        arena: &Arena,
        pair: &Pair<'_>,
        bucket: Bucket<'_>,
        number: u64,
        place: usize,
        steps: u32,
    ) -> bool {
        let entry = bucket.entry(place);
        let Some(other) = other_bucket(number, entry, pair.buckets) else { return false };
        if other == pair.numbers.0 || other == pair.numbers.1 {
            return false;
        }
        let target = self.bucket(arena, other);
        // Bucket locks beyond the pair are tried, never waited for.
        let Some(target_lock) = target.try_lock() else { return false };
        // The split of either bucket takes its lock, so this stays true while both are held.
        if other_bucket(number, entry, self.buckets.load(Ordering::Relaxed)) != Some(other) {
            return false;
        }
        let free = target.position(Entry::is_empty).or_else(|| {
            let mut places = 0..LINE_ENTRIES;
            (steps > 1).then(|| {
                places.find(|&next| self.displace_one(arena, pair, target, other, next, 1))
            })?
        });
        let Some(free) = free else { return false };
        // A reader may count a hit in the old place meanwhile: that hit is lost, nothing else.
        let entry = bucket.entry(place);
        target.word(free).store(entry.0, Ordering::Relaxed);
        bucket.word(place).store(0, Ordering::Relaxed);
        drop(target_lock);
        true
    }
}

/// The other bucket of an entry that is in bucket `number`, if its tag tells.
///
/// The tag gives the coordinates' difference, and the bucket's number the low bits of one. Where
/// the other bucket has been split already and this one has not, one more bit would be needed:
/// then only the record's key could tell, and the entry stays where it is.
fn other_bucket(number: u64, entry: Entry, buckets: u64) -> Option<u64> {
    let level = 63 - buckets.leading_zeros();
    let split = buckets - (1 << level);
    let low_mask = (1 << level) - 1;
    let other_low = (number ^ offset(entry.tag())) & low_mask;
    if other_low >= split {
        return Some(other_low);
    }
    let number_is_split = number & low_mask < split;
    number_is_split.then(|| bucket_of(number ^ offset(entry.tag()), buckets))
}
