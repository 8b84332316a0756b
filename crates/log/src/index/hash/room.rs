//! Making room in a full bucket by moving slots to their other buckets.
//!
//! A search in breadth from the key's two buckets finds the shortest chain of moves that ends in a
//! free place (MemC3, section 3.1); it looks without locks, and each move looks again under those
//! of its two buckets. Moves are made from the free end, so that each slot is in a bucket at all
//! times. A bucket that is known to be full is not loaded to look for a place there, only to learn
//! where its slots could move to: most searches load one bucket beside the key's own.

use base::{prefetch, random};

use super::{Bucket, HashIndex, Identity, Loading, Size, bucket::BUCKET_SLOTS};

/// Buckets that the first search knows of at most. Near the end of a round of growth and at a load
/// of 0.91 it comes to know 7 on average, and 34 at most for two thousand keys (the test below has
/// the figures).
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
            if search.add(Step { bucket, from: START, place: 0 }) && self.has_room(bucket) {
                return Some(search.steps.len() - 1);
            }
        }
        let mut at = 0;
        while at < search.steps.len() && !search.is_full() {
            let number = search.steps[at].bucket;
            let bucket = self.blocks.pair_here(number).map(Bucket);
            let slots = bucket.into_iter().flat_map(|bucket| {
                (0..BUCKET_SLOTS).filter_map(move |place| Some((place, bucket.slot(place)?)))
            });
            for (place, slot) in slots {
                if search.is_full() {
                    break;
                }
                let owner = Identity::of_bucket(slot.fingerprint, number);
                let bucket = owner.other_bucket(number, size);
                let step = Step { bucket, from: at as u16, place: place as u8 };
                if search.add(step) && self.has_room(bucket) {
                    return Some(search.steps.len() - 1);
                }
            }
            at += 1;
        }
        None
    }

    /// Whether a bucket has a free place. What is not loaded yet has none: there may be room
    /// elsewhere.
    fn has_room(&self, number: u64) -> bool {
        if self.full.has(number) {
            return false;
        }
        let Ok(pair) = self.blocks.pair(number) else { return false };
        let Some(bucket) = pair.map(Bucket) else { return true };
        // Both at once: the place may be in the second, and what is found is written to.
        bucket.0.iter().for_each(prefetch::to_write);
        let has_room = bucket.free().is_some();
        if !has_room {
            bucket.lock(number, &self.full).note_if_full();
        }
        has_room
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
        full::FullBuckets,
        identity::BASE_BITS,
        tests::{entry, hash, publish},
    };

    /// When the buckets that are not split yet are fullest: a round of growth is nearly done.
    const BUCKETS: u64 = (4 << BASE_BITS) - (4 << BASE_BITS) / 16;

    fn grown() -> (HashIndex, Random) {
        let index = HashIndex::new(4_000_000).expect("an index");
        let mut random = Random::new(11, 0);
        for at in 1.. {
            if index.buckets() >= BUCKETS {
                break;
            }
            publish(&index, hash(&mut random), entry(at));
        }
        (index, random)
    }

    /// Keys of which both buckets are full.
    fn crowded(index: &HashIndex, random: &mut Random) -> Vec<Identity> {
        let is_full = |number: &u64| {
            let pair = index.blocks.pair(*number).expect("loaded").expect("made");
            Bucket(pair).free().is_none()
        };
        std::iter::repeat_with(|| Identity::of(hash(random)))
            .filter(|identity| identity.buckets(index.size()).iter().all(is_full))
            .take(2000)
            .collect()
    }

    #[test]
    fn a_search_loads_no_bucket_to_learn_that_it_is_full() {
        let (index, mut random) = grown();
        let (mut steps, mut most) = (0, 0);
        let identities = crowded(&index, &mut random);
        for identity in &identities {
            let mut search = Search::near();
            let at = index.find_free(*identity, index.size(), &mut search).expect("room");
            assert_eq!(at, search.steps.len() - 1, "it goes on behind what it looked for");
            let known = search.steps.iter().filter(|step| index.full.has(step.bucket)).count();
            assert_eq!(known, at, "of all but the last it was known");
            steps += search.steps.len();
            most = most.max(search.steps.len());
        }
        println!("{} buckets a search, {most} at most", steps as f64 / identities.len() as f64);
    }

    #[test]
    fn what_a_search_has_seen_to_be_full_the_next_one_knows() {
        let (mut index, mut random) = grown();
        let identities = crowded(&index, &mut random);
        // As of an index that was saved.
        index.full = FullBuckets::none_of(index.buckets_max());
        let identity = identities[0];
        let mut search = Search::near();
        let at = index.find_free(identity, index.size(), &mut search).expect("room");
        let buckets: Vec<u64> = search.steps.iter().map(|step| step.bucket).collect();
        assert!(buckets[..at].iter().all(|bucket| index.full.has(*bucket)), "{buckets:?}");
        assert!(!index.full.has(buckets[at]));
        index.validate();
    }
}
