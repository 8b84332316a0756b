//! Growth undone: the last bucket is merged with the one that it was split from.
//!
//! A merge needs both buckets' entries to fit into one. What is too much goes to its other bucket
//! first, as in displacement; where that is full as well nothing happens, and the next attempt may
//! do better.

use std::ops::ControlFlow;

use base::sync::atomic::Ordering;

use super::{Bucket, Index, LINE_ENTRIES, Locked, Size, displace::Candidate, grow::move_entry};
use crate::{arena::Arena, geometry::BLOCK_LINES};

/// Entries per 100 places below which merging is worth it, and up to which it goes on. Merged
/// buckets are twice as full as the others, so this ends before displacement gets hard.
const LOAD_MIN_PERCENT: u64 = 40;
const LOAD_MERGED_PERCENT: u64 = 50;

/// What came of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// One bucket less.
    Done,
    /// One bucket less, and this block holds none any more: to be retired, as readers may still be
    /// looking at it.
    DoneWith(u32),
    /// The two do not fit into one now, somebody else changes the number of buckets, or somebody
    /// walks through all of them.
    NotNow,
}

impl Index {
    /// Whether buckets should be merged for so many records; `already` if that has begun.
    pub(crate) fn wants_merges(&self, records: u64, already: bool) -> bool {
        let places = self.buckets() * LINE_ENTRIES as u64;
        let percent = if already { LOAD_MERGED_PERCENT } else { LOAD_MIN_PERCENT };
        self.buckets() > 1 << self.base_bits && records * 100 < places * percent
    }

    /// Merges the last bucket with the one that it was split from.
    pub(crate) fn merge(&self, arena: &Arena) -> Merge {
        let Ok(_growth) = self.growth.try_lock() else { return Merge::NotNow };
        let size = self.size(Ordering::Relaxed);
        let last = size.buckets() - 1;
        if last < 1 << self.base_bits || self.is_walked() {
            return Merge::NotNow;
        }
        let (into, _) = self.extent(size.shrunk(false)).next_split();
        let (from, to) = self.lock_two(arena, last, into);
        let (from, to) = (&from, &to);
        self.pull_in(arena, from);
        if from.bucket().overflow() != 0 || !self.make_fit(arena, size, (from, last), (to, into)) {
            return Merge::NotNow;
        }
        for place in occupied(from.bucket()) {
            let free = to.bucket().room().expect("invariant: they fit");
            move_entry(from.bucket(), place, to.bucket(), free);
        }
        let at = self.bucket_blocks.load(Ordering::Relaxed) - 1;
        // One that was supplied for growth may never have had a bucket.
        let block_is_empty = last <= (at * BLOCK_LINES) as u64;
        // Before the locks are released: who waits for them finds that the key is elsewhere now.
        self.size.store(size.shrunk(block_is_empty).0, Ordering::Release);
        if !block_is_empty {
            return Merge::Done;
        }
        self.bucket_blocks.store(at, Ordering::Relaxed);
        Merge::DoneWith(self.directory[at].load(Ordering::Relaxed))
    }

    /// Moves entries from overflow lines into their bucket, as far as there is room.
    fn pull_in(&self, arena: &Arena, locked: &Locked<'_>) {
        let bucket = locked.bucket();
        if bucket.overflow() == 0 {
            return;
        }
        let _ = self.walk_overflow(arena, bucket, |line| {
            for place in occupied(line) {
                match bucket.room() {
                    Some(free) => move_entry(line, place, bucket, free),
                    None => return ControlFlow::Break(()),
                }
            }
            ControlFlow::Continue(())
        });
        self.trim_overflow(arena, locked);
    }

    /// Sees to it that the entries of two locked buckets, each given with its number, fit into one
    /// line. Returns whether they do.
    fn make_fit(
        &self,
        arena: &Arena,
        size: Size,
        from: (&Locked<'_>, u64),
        to: (&Locked<'_>, u64),
    ) -> bool {
        let extent = self.extent(size);
        let count = || {
            let taken = |bucket: Bucket<'_>| LINE_ENTRIES - bucket.empty().count_ones() as usize;
            taken(from.0.bucket()) + taken(to.0.bucket())
        };
        for (locked, number) in [from, to] {
            let bucket = locked.bucket();
            for place in occupied(bucket) {
                if count() <= LINE_ENTRIES {
                    return true;
                }
                let other = extent.other_bucket(number, bucket.entry(place));
                self.move_away(arena, size, Candidate { bucket, place, number, other });
            }
        }
        count() <= LINE_ENTRIES
    }
}

/// The places of a line that have entries now.
fn occupied(line: Bucket<'_>) -> impl Iterator<Item = usize> + use<> {
    let empty = line.empty();
    (0..LINE_ENTRIES).filter(move |place| empty & 1 << place == 0)
}
