//! Making room in a full bucket by moving slots to their other buckets.
//!
//! A search in breadth from the key's two buckets finds the shortest chain of moves that ends in a
//! free place (MemC3, section 3.1); it looks without locks, and each move looks again under those
//! of its two buckets. Moves are made from the free end, so that each slot is in a bucket at all
//! times.

use base::{prefetch, random};

use super::{Bucket, HashIndex, Identity, Loading, Size, bucket::BUCKET_SLOTS};

/// Buckets that the first search knows of at most. At the worst moment of a round of growth and a
/// load of 0.91 it looks at 10 on average, and the most that a simulation of a million puts saw was
/// 190.
const NEAR_BUCKETS_MAX: usize = 256;

/// Buckets that the second one knows of at most, when the first has found none.
const FAR_BUCKETS_MAX: usize = 4096;

/// A bucket that a search has come to.
#[derive(Clone, Copy)]
struct Step {
    bucket: u64,
    /// The step from whose bucket a slot could move here, and the slot's place there; [`START`] of
    /// the key's own buckets.
    from: u16,
    place: u8,
}

const START: u16 = u16::MAX;

/// Where a search has been.
struct Search {
    steps: Vec<Step>,
    steps_max: usize,
    /// By hash of a bucket: its step and one, or 0. Twice as many as there are steps. Without any
    /// a bucket may be among the steps several times.
    known: Vec<u16>,
}

impl Search {
    /// Among few buckets: hardly any of them is met twice.
    fn near() -> Self {
        let steps = Vec::with_capacity(NEAR_BUCKETS_MAX);
        Self { steps, steps_max: NEAR_BUCKETS_MAX, known: Vec::new() }
    }

    /// Among many, each of them once: where the same ones lead to each other, those behind them
    /// are what matters.
    fn far() -> Self {
        let steps = Vec::with_capacity(FAR_BUCKETS_MAX);
        Self { steps, steps_max: FAR_BUCKETS_MAX, known: vec![0; 2 * FAR_BUCKETS_MAX] }
    }

    fn is_far(&self) -> bool {
        !self.known.is_empty()
    }

    fn is_full(&self) -> bool {
        self.steps.len() == self.steps_max
    }

    /// Adds a step, unless its bucket is known. Whether it is new.
    fn add(&mut self, step: Step) -> bool {
        let Some(last) = self.known.len().checked_sub(1) else {
            self.steps.push(step);
            return true;
        };
        let mut at = random::mix(step.bucket) as usize & last;
        while let Some(known) = usize::from(self.known[at]).checked_sub(1) {
            if self.steps[known].bucket == step.bucket {
                return false;
            }
            at = (at + 1) & last;
        }
        self.steps.push(step);
        self.known[at] = self.steps.len() as u16;
        true
    }
}

impl HashIndex {
    /// Frees a place in one of a key's buckets, if it can. Look again if it says so: it did, or
    /// another thread was in the way.
    #[cold]
    pub(super) fn make_room(&self, identity: Identity) -> Result<bool, Loading> {
        let size = self.size();
        for search in [Search::near as fn() -> Search, Search::far] {
            let mut search = search();
            if search.is_far() && base::mutant!("index_near_search_only") {
                break;
            }
            if let Some(at) = self.find_free(identity, size, &mut search) {
                self.move_along(&search.steps, at)?;
                return Ok(true);
            }
        }
        // Meanwhile the key may have got other buckets.
        Ok(self.size() != size)
    }

    /// The step of a search in breadth whose bucket has a free place.
    fn find_free(&self, identity: Identity, size: Size, search: &mut Search) -> Option<usize> {
        for bucket in identity.buckets(size) {
            search.add(Step { bucket, from: START, place: 0 });
        }
        let mut at = 0;
        while at < search.steps.len() {
            let number = search.steps[at].bucket;
            // What is not loaded yet is passed over: there may be room elsewhere.
            let Some(bucket) = self.blocks.pair(number).unwrap_or_default().map(Bucket) else {
                at += 1;
                continue;
            };
            if bucket.free().is_some() {
                return Some(at);
            }
            for place in 0..BUCKET_SLOTS {
                let Some(slot) = bucket.slot(place) else { continue };
                if search.is_full() {
                    break;
                }
                let owner = Identity::of_bucket(slot.fingerprint, number);
                let other = owner.other_bucket(number, size);
                let step = Step { bucket: other, from: at as u16, place: place as u8 };
                if search.add(step) {
                    // All of a bucket's at once: one after the other each would be waited for.
                    let lines = self.blocks.pair_here(other).into_iter().flatten();
                    lines.for_each(prefetch::to_write);
                }
            }
            at += 1;
        }
        None
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
