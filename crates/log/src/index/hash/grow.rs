//! Growth by one bucket at a time.

use base::sync::atomic::Ordering;

use super::{
    BUCKETS_MAX, Bucket, HashIndex, Identity, Loading,
    bucket::{BUCKET_LINES, BUCKET_SLOTS, Locked},
    identity::BASE_BITS,
};

/// Slots of 100 that are taken when a bucket is added: 16 bytes a slot make 17.6 a key. Moving
/// still makes room at 94 at the worst moment of a round; what is kept below that spares puts
/// long searches.
const LOAD_MAX_PERCENT: u64 = 91;

/// Buckets that one put adds at most: it fills one slot, and a bucket makes eight.
const SPLITS_MAX: u32 = 2;

/// Buckets that are added after each search that found no room, so at most
/// `(SEARCHES_MAX - 1) * 16` by one put and two each time that it looks: far below 64, some
/// microseconds. In an index of millions that hardly helps, as buckets are split in turn; in a
/// small one it does.
const SEARCH_SPLITS: u32 = 16;

/// Buckets for so many entries.
pub(super) fn buckets_for(entries: u64) -> u64 {
    let slots = u128::from(entries) * 100 / u128::from(LOAD_MAX_PERCENT) + 1;
    let buckets = slots.div_ceil(BUCKET_SLOTS as u128);
    u64::try_from(buckets).unwrap_or(u64::MAX).max(1 << BASE_BITS)
}

impl HashIndex {
    /// Whether so many entries more leave the index, at its largest, as full as it may be at any
    /// time while it grows: then moving makes room for each.
    pub(in crate::index) fn has_room_for(&self, entries: usize) -> bool {
        let slots = self.buckets_max() * BUCKET_SLOTS as u64;
        (self.len() + entries as u64) * 100 <= slots * LOAD_MAX_PERCENT
    }

    /// Makes an empty index as large as it would be with so many entries, or as large as it may be:
    /// no bucket has to be split then until there are more. One that is not empty stays as it is.
    pub fn reserve(&mut self, entries: u64) {
        if self.is_empty() && self.blocks.awaited() == 0 {
            let buckets = buckets_for(entries).clamp(self.size().0, self.buckets_max());
            self.buckets.store(buckets, Ordering::Relaxed);
        }
    }

    /// Adds buckets while there are too few for the entries.
    #[inline]
    pub(super) fn grow_if_full(&self) -> Result<(), Loading> {
        for _ in 0..SPLITS_MAX {
            let slots = self.size().0 * BUCKET_SLOTS as u64;
            if (self.len() + 1) * 100 <= slots * LOAD_MAX_PERCENT {
                break;
            }
            self.split_one()?;
        }
        Ok(())
    }

    /// Adds some buckets after a search that found no room: they may make some.
    pub(super) fn grow_for_search(&self) -> Result<(), Loading> {
        let _growth = base::sync::lock(&self.growth);
        (0..SEARCH_SPLITS).try_for_each(|_| self.split_next())
    }

    /// Splits the next bucket, unless another thread is at it.
    pub(in crate::index) fn split_one(&self) -> Result<(), Loading> {
        let Ok(_growth) = self.growth.try_lock() else { return Ok(()) };
        self.split_next()
    }

    /// Splits the next bucket, unless there are as many as may be. The caller has `growth`.
    fn split_next(&self) -> Result<(), Loading> {
        let size = self.size();
        if size.0 >= self.buckets_max() {
            return Ok(());
        }
        let from = size.next_split();
        // Both in the order of their numbers. Nobody can have locked the new one.
        let [old, new] = self.lock_both([from, size.0])?;
        let mut leaving = 0;
        for place in 0..BUCKET_SLOTS {
            let Some(slot) = old.bucket().slot(place) else { continue };
            let identity = Identity::of_bucket(slot.fingerprint, from);
            if !identity.buckets(size.grown()).contains(&from) {
                new.write(place, slot);
                leaving |= 1 << place;
            }
        }
        new.note_if_full();
        self.buckets.store(size.grown().0, Ordering::Release);
        if leaving != 0 {
            // After that: a reader who misses what has left sees that there are more buckets.
            old.clear(leaving);
        }
        Ok(())
    }

    /// Buckets that there may be.
    pub(super) fn buckets_max(&self) -> u64 {
        (self.blocks.lines_max() / BUCKET_LINES as u64).min(BUCKETS_MAX)
    }

    /// A bucket, its block made if need be.
    #[inline]
    pub(super) fn bucket_made(&self, number: u64) -> Result<Bucket<'_>, Loading> {
        self.blocks.pair_made(number).map(Bucket)
    }

    /// Locks two buckets, given in the order of their numbers, their blocks made if need be.
    #[inline]
    pub(super) fn lock_both(&self, numbers: [u64; 2]) -> Result<[Locked<'_>; 2], Loading> {
        let [first, second] = numbers;
        debug_assert!(first < second, "each in the order of its number, or two wait for ever");
        let both = [self.bucket_made(first)?, self.bucket_made(second)?];
        Ok([both[0].lock(first, &self.full), both[1].lock(second, &self.full)])
    }
}
