//! Making room in a full bucket by moving slots to their other buckets.
//!
//! A search in breadth from the key's two buckets finds the shortest chain of moves that ends in a
//! free place (MemC3, section 3.1); it looks without locks, and each move looks again under those
//! of its two buckets. Moves are made from the free end, so that each slot is in a bucket at all
//! times.

use super::{Bucket, HashIndex, Identity, Loading, bucket::BUCKET_SLOTS};

/// Buckets that a search knows of at most. At the worst moment of a round of growth and a load of
/// 0.91 it looks at 10 on average, and the most that a simulation of a million puts saw was 190. A
/// search that finds nothing makes the index grow by a bucket, and asks again.
const SEARCH_BUCKETS_MAX: usize = 256;

/// A bucket that the search has come to.
#[derive(Clone, Copy)]
struct Step {
    bucket: u64,
    /// The step from whose bucket a slot could move here, and the slot's place there; [`START`] of
    /// the key's own buckets.
    from: u16,
    place: u8,
}

const START: u16 = u16::MAX;

impl HashIndex {
    /// Tries to free a place in one of a key's buckets. If it cannot, the index grows. Look again
    /// if anything has changed, here or by another thread: then this is true.
    #[cold]
    pub(super) fn make_room(&self, identity: Identity) -> Result<bool, Loading> {
        let size = self.size();
        let mut steps = [Step { bucket: 0, from: START, place: 0 }; SEARCH_BUCKETS_MAX];
        let mut known = 0;
        for bucket in identity.buckets(size) {
            steps[known].bucket = bucket;
            known += 1;
        }
        let mut at = 0;
        while at < known {
            let number = steps[at].bucket;
            // What is not loaded yet is passed over: there may be room elsewhere.
            let Some(bucket) = self.blocks.pair(number).unwrap_or_default().map(Bucket) else {
                at += 1;
                continue;
            };
            if bucket.free().is_some() {
                self.move_along(&steps, at)?;
                return Ok(true);
            }
            for place in 0..BUCKET_SLOTS {
                let Some(slot) = bucket.slot(place) else { continue };
                if known == SEARCH_BUCKETS_MAX {
                    break;
                }
                let owner = Identity::of_bucket(slot.fingerprint, number);
                let other = owner.other_bucket(number, size);
                steps[known] = Step { bucket: other, from: at as u16, place: place as u8 };
                known += 1;
            }
            at += 1;
        }
        self.grow_from(size)
    }

    /// Moves each slot on the way to step `at` one bucket on, the last one first.
    fn move_along(&self, steps: &[Step], mut at: usize) -> Result<(), Loading> {
        while steps[at].from != START {
            let Step { bucket: to, from, place } = steps[at];
            at = usize::from(from);
            if !self.move_slot(steps[at].bucket, place.into(), to)? {
                break;
            }
        }
        Ok(())
    }

    /// Moves the slot at a place of a bucket to its other bucket, if that is `to`.
    pub(super) fn move_slot(&self, from: u64, place: usize, to: u64) -> Result<bool, Loading> {
        let first = self.bucket_made(from.min(to))?;
        let second = self.bucket_made(from.max(to))?;
        let locked = [first, second].map(Bucket::lock);
        let [source, target] = if from < to { [0, 1] } else { [1, 0] }.map(|at| &locked[at]);
        let (Some(slot), Some(free)) = (source.bucket().slot(place), target.bucket().free()) else {
            return Ok(false);
        };
        // Since the search another slot may have come here, or the index may have grown.
        let identity = Identity::of_bucket(slot.fingerprint, from);
        let both = identity.buckets(self.size());
        if from == to || !both.contains(&from) || !both.contains(&to) {
            return Ok(false);
        }
        // In this order: a reader misses it in neither, or sees that one of the two has changed.
        target.set(free, slot);
        source.clear(1 << place);
        Ok(true)
    }
}
