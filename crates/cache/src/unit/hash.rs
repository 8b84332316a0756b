//! Hashes of numbers.

use std::hash::Hasher;

/// The hash of a key, the same in every process (the finalizer of SplitMix64, Steele, Lea and
/// Flood 2014).
#[inline]
pub(super) fn hash_of(key: u64) -> u64 {
    let mut hash = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// [`hash_of`] for maps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = hash_of(self.0 ^ number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
