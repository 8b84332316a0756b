//! A bucket: two lines side by side, eight slots, and the first line's version for both.
//!
//! Linear hashing asks for buckets of eight. While a round of growth is under way, the keys of a
//! bucket that was split are half as many as those of another, and of four slots so many stay empty
//! that no moving makes the others fit from a load of 0.9 on; of eight they still fit at 0.94.

use base::prefetch;

use super::{
    full::FullBuckets,
    slot::{self, Fingerprint, LINE_SLOTS, Slot},
};
use crate::index::line::{self, Line, Version};

/// Lines of a bucket.
pub(super) const BUCKET_LINES: usize = 2;

/// Slots of a bucket.
pub(super) const BUCKET_SLOTS: usize = BUCKET_LINES * LINE_SLOTS;

/// Two lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<'a>(pub(super) &'a [Line; BUCKET_LINES]);

/// A locked bucket; unlocks when dropped.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    bucket: Bucket<'a>,
    number: u64,
    full: &'a FullBuckets,
    first: line::Locked<'a>,
}

impl<'a> Bucket<'a> {
    /// The version to read under.
    #[inline(always)]
    pub(super) fn version(self) -> Version {
        self.0[0].version()
    }

    /// Whether everything read since `version` was taken belongs together.
    #[inline(always)]
    pub(super) fn unchanged(self, version: Version) -> bool {
        self.0[0].unchanged(version)
    }

    /// Locks the bucket, which has this number.
    pub(super) fn lock(self, number: u64, full: &'a FullBuckets) -> Locked<'a> {
        Locked { bucket: self, number, full, first: self.0[0].lock() }
    }

    /// Asks the processor for it, to be written.
    #[inline]
    pub(super) fn ask_for(self) {
        self.0.iter().for_each(prefetch::to_write);
    }

    /// The slot at a place, if it is taken.
    #[inline]
    pub(super) fn slot(self, place: usize) -> Option<Slot> {
        slot::slot(&self.0[place / LINE_SLOTS], place % LINE_SLOTS)
    }

    /// The place of a key's slot, and the bits of its entry.
    #[inline]
    pub(super) fn find(self, fingerprint: Fingerprint) -> Option<(usize, u64)> {
        slot::find(&self.0[0], fingerprint).or_else(|| {
            let (place, bits) = slot::find(&self.0[1], fingerprint)?;
            Some((LINE_SLOTS + place, bits))
        })
    }

    /// A place that is free.
    pub(super) fn free(self) -> Option<usize> {
        slot::free(&self.0[0]).or_else(|| Some(LINE_SLOTS + slot::free(&self.0[1])?))
    }

    /// How many places are free.
    pub(super) fn free_count(self) -> usize {
        self.0.iter().map(slot::free_count).sum()
    }
}

impl<'a> Locked<'a> {
    #[inline]
    pub(super) fn bucket(&self) -> Bucket<'a> {
        self.bucket
    }

    /// Writes a slot to a place that is free.
    pub(super) fn fill(&self, place: usize, slot: Slot) {
        self.write(place, slot);
        self.note_if_full();
    }

    /// Has searches for room pass the bucket by, if it is full.
    pub(super) fn note_if_full(&self) {
        if self.bucket.free().is_none() && !base::mutant!("index_full_unnoted") {
            self.full.add(self.number);
        }
    }

    /// Writes a slot. Whoever does so to a place that is free calls [`Locked::note_if_full`] then.
    pub(super) fn write(&self, place: usize, slot: Slot) {
        self.first.change(|changing| {
            let line = changing.on(&self.bucket.0[place / LINE_SLOTS]);
            slot::set(line, place % LINE_SLOTS, slot);
        });
    }

    /// Frees places, a bit each.
    pub(super) fn clear(&self, places: u32) {
        // First, so that no bit says of a bucket with room that it is full.
        if !base::mutant!("index_room_unnoted") {
            self.full.remove(self.number);
        }
        self.first.change(|changing| {
            for place in (0..BUCKET_SLOTS).filter(|place| places >> place & 1 != 0) {
                let line = changing.on(&self.bucket.0[place / LINE_SLOTS]);
                slot::clear(line, place % LINE_SLOTS);
            }
        });
    }
}
