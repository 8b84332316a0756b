//! Hashes of numbers.

use std::hash::Hasher;

/// The hash of a key, the same in every process: SplitMix64's for that seed (Steele, Lea and Flood
/// 2014).
#[inline]
pub(super) fn hash_of(key: u64) -> u64 {
    base::random::mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15))
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
