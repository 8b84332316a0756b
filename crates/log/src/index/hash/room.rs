//! Making room in a full bucket by moving slots to their other buckets.
//!
//! A search in breadth from the key's two buckets finds the shortest chain of moves that ends in a
//! free place (MemC3, section 3.1); it looks without locks, and each move looks again under those
//! of its two buckets. Moves are made from the free end, so that each slot is in a bucket at all
//! times. A bucket that is known to be full is not loaded to look for a place there, only to learn
//! where its slots could move to: most searches wait for one bucket beside the key's own.

use base::random;

use super::{Bucket, HashIndex, Identity, Loading, Size, bucket::BUCKET_SLOTS};

/// Buckets that the first search knows of at most. Near the end of a round of growth and at a load
/// of 0.91 it comes to know 7 on average, the key's own two among them (the test below prints it).
/// A search that looked at buckets only when their turn came needed 190 at most in a simulation of
/// a million puts; this one needs no more.
const NEAR_BUCKETS_MAX: usize = 256;

/// Buckets that it has memory for at first: hardly ever does it come to know more.
const SOON_BUCKETS: usize = 2 * BUCKET_SLOTS + 2;

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
        let steps = Vec::with_capacity(SOON_BUCKETS);
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

    fn is_at_end(&self) -> bool {
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
            let step = Step { bucket, from: START, place: 0 };
            if search.add(step) && self.bucket_has_room(bucket) {
                return Some(search.steps.len() - 1);
            }
        }
        let mut at = 0;
        while at < search.steps.len() && !search.is_at_end() {
            // One that is known to be full was not loaded to be looked at.
            if let Some(next) = search.steps.get(at + 1) {
                self.ask_for_bucket(next.bucket);
            }
            let number = search.steps[at].bucket;
            let Some(bucket) = self.blocks.pair_here(number).map(Bucket) else {
                at += 1;
                continue;
            };
            for place in 0..BUCKET_SLOTS {
                // It may have got room since.
                let Some(slot) = bucket.slot(place) else { return Some(at) };
                if search.is_at_end() {
                    break;
                }
                let owner = Identity::of_bucket(slot.fingerprint, number);
                let bucket = owner.other_bucket(number, size);
                let step = Step { bucket, from: at as u16, place: place as u8 };
                if search.add(step) && self.bucket_has_room(bucket) {
                    return Some(search.steps.len() - 1);
                }
            }
            at += 1;
        }
        None
    }

    /// Whether a bucket has a free place. What is not loaded yet has none: there may be room
    /// elsewhere.
    fn bucket_has_room(&self, number: u64) -> bool {
        if self.full.has(number) && !base::mutant!("index_full_unbelieved") {
            return false;
        }
        let Ok(pair) = self.blocks.pair(number) else { return false };
        let Some(bucket) = pair.map(Bucket) else { return true };
        // Both lines at once: the place may be in the second.
        bucket.ask_for();
        bucket.free().is_some()
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
        let locked = self.lock_both([from.min(to), from.max(to)])?;
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
        target.fill(free, slot);
        source.clear(1 << place);
        Ok(true)
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use base::random::Random;

    use super::*;
    use crate::index::hash::{
        identity::BASE_BITS,
        tests::{entry, hash, publish},
    };

    /// When the buckets that are not split yet are fullest: a round of growth is nearly done.
    const BUCKETS: u64 = (2 << BASE_BITS) - (2 << BASE_BITS) / 16;

    fn grown(random: &mut Random) -> HashIndex {
        let index = HashIndex::new(4_000_000).expect("an index");
        for at in 1.. {
            if index.buckets() >= BUCKETS {
                break;
            }
            publish(&index, hash(random), entry(at));
        }
        index
    }

    #[test]
    fn a_search_passes_full_buckets_by_as_all_are_known() {
        let mut random = Random::new(11, 0);
        let index = grown(&mut random);
        index.validate();
        let identities = std::iter::repeat_with(|| Identity::of(hash(&mut random)));
        let is_crowded =
            |it: &Identity| it.buckets(index.size()).iter().all(|bucket| index.full.has(*bucket));
        let (mut steps, mut most) = (0, 0);
        for identity in identities.filter(is_crowded).take(1000) {
            let mut search = Search::near();
            let at = index.find_free(identity, index.size(), &mut search).expect("room");
            assert_eq!(at, search.steps.len() - 1, "it goes on behind what it looked for");
            (steps, most) = (steps + search.steps.len(), most.max(search.steps.len()));
            // What it is told it believes.
            let bucket = search.steps[at].bucket;
            assert!(index.bucket_has_room(bucket));
            index.full.add(bucket);
            assert!(!index.bucket_has_room(bucket), "one known to be full was looked at");
            index.full.remove(bucket);
        }
        println!("{} buckets a search, {most} at most", f64::from(steps as u32) / 1000.0);
        assert!(steps < 9 * 1000 && most < NEAR_BUCKETS_MAX / 2, "{steps} and {most} buckets");
    }
}
