//! What a key's hash says: who it is to the index, and the two buckets it may be in.

use super::{KeyHash, slot::Fingerprint};

/// Bits of a base: an index has at least two to that power of buckets.
#[cfg(not(any(loom, shuttle, miri)))]
pub(super) const BASE_BITS: u32 = 15;
/// A checker's index is small.
#[cfg(any(loom, shuttle, miri))]
pub(super) const BASE_BITS: u32 = 3;

/// Bits that growth asks for, of each of a key's two buckets.
const GROWTH_BITS: u32 = 20;
const GROWTH: u64 = (1 << GROWTH_BITS) - 1;

/// The most buckets that there may be: 4 TiB of them.
pub(super) const BUCKETS_MAX: u64 = 1 << (BASE_BITS + GROWTH_BITS);

/// Bit of the hash that a base begins at.
const BASE_AT: u32 = 128 - BASE_BITS;

/// How many buckets there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

/// Who a key is to the index, and one of its two bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) fingerprint: Fingerprint,
    base: u64,
}

impl Fingerprint {
    /// What one base differs by from the other: odd, so that the two buckets differ.
    #[inline]
    fn offset(self) -> u64 {
        (self.tag >> (2 * GROWTH_BITS) & ((1 << BASE_BITS) - 1)) | 1
    }

    /// The bits that growth asks for in the bucket of `base`, whose other base is `other`.
    #[inline]
    fn growth(self, base: u64, other: u64) -> u64 {
        let shift = if base < other { 0 } else { GROWTH_BITS };
        self.tag >> shift & GROWTH
    }
}

impl Identity {
    pub(super) fn of(KeyHash(hash): KeyHash) -> Self {
        let (tag, late) = (hash as u64, (hash >> 64) as u64);
        Self { fingerprint: Fingerprint::new(tag, late), base: (hash >> BASE_AT) as u64 }
    }

    /// The identity of whoever has this fingerprint in this bucket.
    #[inline]
    pub(super) fn of_bucket(fingerprint: Fingerprint, bucket: u64) -> Self {
        Self { fingerprint, base: bucket & ((1 << BASE_BITS) - 1) }
    }

    fn bases(self) -> [u64; 2] {
        [self.base, self.base ^ self.fingerprint.offset()]
    }

    /// Its two buckets.
    #[inline]
    pub(super) fn buckets(self, size: Size) -> [u64; 2] {
        let [one, other] = self.bases();
        [
            size.bucket(one, self.fingerprint.growth(one, other)),
            size.bucket(other, self.fingerprint.growth(other, one)),
        ]
    }

    /// The one that is not `bucket`.
    #[inline]
    pub(super) fn other_bucket(self, bucket: u64, size: Size) -> u64 {
        let [one, other] = self.buckets(size);
        if one == bucket { other } else { one }
    }
}

impl Size {
    /// The bucket of a base: linear hashing.
    #[inline]
    fn bucket(self, base: u64, growth: u64) -> u64 {
        let half = 1 << self.0.ilog2();
        let number = (growth << BASE_BITS | base) & (2 * half - 1);
        if number < self.0 { number } else { number - half }
    }

    /// The bucket that the next one takes from.
    pub(super) fn next_split(self) -> u64 {
        self.0 - (1 << self.0.ilog2())
    }

    pub(super) fn grown(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use base::random::Random;

    use super::*;

    fn drawn(random: &mut Random) -> Identity {
        let (low, high) = (random.bits(), random.bits());
        Identity::of(KeyHash(u128::from(high) << 64 | u128::from(low)))
    }

    #[test]
    fn either_bucket_of_a_key_tells_the_other_at_every_size() {
        let mut random = Random::new(3, 0);
        let least = 1 << BASE_BITS;
        for buckets in [least, least + 1, 2 * least - 1, 2 * least, 5 * least + 7, BUCKETS_MAX] {
            let size = Size(buckets);
            for _ in 0..1000 {
                let identity = drawn(&mut random);
                let [one, other] = identity.buckets(size);
                assert!(
                    one != other && one < buckets && other < buckets,
                    "{buckets}: {one} {other}"
                );
                for (bucket, expected) in [(one, other), (other, one)] {
                    let found = Identity::of_bucket(identity.fingerprint, bucket);
                    assert_eq!(found.other_bucket(bucket, size), expected);
                    let mut both = found.buckets(size);
                    both.sort_unstable();
                    assert_eq!(both, [one.min(other), one.max(other)]);
                }
            }
        }
    }

    #[test]
    fn a_new_bucket_takes_from_one_only() {
        let mut random = Random::new(4, 0);
        let mut size = Size(1 << BASE_BITS);
        let hashes: Vec<Identity> = (0..100).map(|_| drawn(&mut random)).collect();
        for _ in 0..5 << BASE_BITS.min(10) {
            for identity in &hashes {
                let (before, after) = (identity.buckets(size), identity.buckets(size.grown()));
                for (old, new) in before.into_iter().zip(after) {
                    assert!(old == new || (old, new) == (size.next_split(), size.0));
                }
            }
            size = size.grown();
        }
    }

    #[test]
    fn buckets_are_taken_evenly_when_a_round_of_growth_is_half_done() {
        // 1.5 times the least: the keys of an unsplit bucket are twice those of a split one.
        let size = Size(3 << (BASE_BITS - 1));
        let mut counts = vec![0_u32; size.0 as usize];
        let mut random = Random::new(5, 0);
        for _ in 0..size.0 * 8 {
            for bucket in drawn(&mut random).buckets(size) {
                counts[bucket as usize] += 1;
            }
        }
        let half = 1 << (BASE_BITS - 1);
        let mean = |buckets: &[u32]| f64::from(buckets.iter().sum::<u32>()) / buckets.len() as f64;
        let [split, unsplit, new] = [0..half, half..2 * half, 2 * half..3 * half]
            .map(|buckets: std::ops::Range<usize>| mean(&counts[buckets]));
        assert!((split - 12.0).abs() < 0.3 && (new - 12.0).abs() < 0.3, "{split} {new}");
        assert!((unsplit - 24.0).abs() < 0.3, "{unsplit}");
    }
}
