//! Keys in a random order, each once, and values that cannot be compressed and name their key.

use crate::random::Random;

/// Where values are cut from. It stays in the processor's caches, as what has just been received
/// does.
const POOL_BYTES: usize = 1 << 20;

/// The keys and values of a cell.
#[derive(Debug)]
pub(super) struct Load {
    records: u32,
    value_bytes: usize,
    pool: Vec<u8>,
}

impl Load {
    /// Keys 0 to `records - 1` with values of `value_bytes`.
    ///
    /// # Panics
    /// Panics when there are none, or more than 2^31.
    pub(super) fn new(records: u32, value_bytes: usize) -> Self {
        assert!((1..=1 << 31).contains(&records), "{records} records");
        let mut random = Random::new(u64::from(records));
        let words = (POOL_BYTES + value_bytes).div_ceil(8);
        let pool = (0..words).flat_map(|_| random.next().to_le_bytes()).collect();
        Self { records, value_bytes, pool }
    }

    pub(super) fn records(&self) -> u32 {
        self.records
    }

    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The key at a place of the order, which begins anew behind its end.
    #[inline]
    pub(super) fn key(&self, at: u32) -> u32 {
        scattered(at, self.records)
    }

    /// One of the first `stored` keys of the order; `at` counts them, each once, in another order:
    /// what was put one after the other is not read so.
    #[inline]
    pub(super) fn stored_key(&self, at: u32, stored: u32) -> u32 {
        self.key(scattered(at, stored))
    }

    /// The value of a key.
    #[inline]
    pub(super) fn value(&self, key: u32) -> &[u8] {
        self.later_value(key, 0)
    }

    /// What a key has after it was overwritten `version` times.
    #[inline]
    pub(super) fn later_value(&self, key: u32, version: u8) -> &[u8] {
        let mixed = (u64::from(version) << 32 | u64::from(key)) + 1;
        let from = (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44) as usize % POOL_BYTES;
        &self.pool[from..from + self.value_bytes]
    }
}

/// A bijection of the numbers below `count`, which begins anew behind its end.
#[inline]
fn scattered(at: u32, count: u32) -> u32 {
    let bits = count.next_power_of_two().trailing_zeros().max(2);
    let mut x = scattered_bits(at % count, bits);
    // What falls outside walks on along its cycle, which comes back inside.
    while x >= count {
        x = scattered_bits(x, bits);
    }
    x
}

/// A bijection of the numbers of `bits` bits.
#[inline]
fn scattered_bits(x: u32, bits: u32) -> u32 {
    let (mask, shift) = (u32::MAX >> (32 - bits), bits.div_ceil(2));
    let x = x.wrapping_mul(0x85EB_CA6B) & mask;
    let x = (x ^ (x >> shift)).wrapping_mul(0xC2B2_AE35) & mask;
    let x = (x ^ (x >> shift)).wrapping_mul(0x9E37_79B1) & mask;
    x ^ (x >> shift)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::Load;

    #[test]
    fn every_key_comes_once_and_in_no_order() {
        for records in [1, 2, 3, 1000, 1 << 16, 100_003] {
            let load = Load::new(records, 4);
            let keys: Vec<u32> = (0..records).map(|at| load.key(at)).collect();
            let distinct: HashSet<u32> = keys.iter().copied().collect();
            assert_eq!(distinct.len(), records as usize);
            assert!(keys.iter().all(|key| *key < records));
            assert_eq!(load.key(records), keys[0]);
            if records >= 1000 {
                assert!(is_scattered(&keys), "{records}");
            }
        }
    }

    fn is_scattered(numbers: &[u32]) -> bool {
        let count = numbers.len();
        let pairs = numbers.windows(2);
        let near = pairs.filter(|pair| (pair[0].abs_diff(pair[1]) as usize) < count / 50);
        near.count() < count / 10
    }

    #[test]
    fn what_is_stored_is_read_in_another_order_than_it_was_put() {
        for (records, stored) in [(3, 2), (1000, 1000), (1 << 16, 1 << 14), (100_003, 70_001)] {
            let load = Load::new(records, 4);
            let put: HashMap<u32, u32> = (0..stored).map(|at| (load.key(at), at)).collect();
            let read = |at| put[&load.stored_key(at, stored)];
            let places: Vec<u32> = (0..stored).map(read).collect();
            let distinct: HashSet<u32> = places.iter().copied().collect();
            assert_eq!(distinct.len(), stored as usize);
            assert!(stored < 1000 || is_scattered(&places), "{records} {stored}");
        }
    }

    #[test]
    fn values_tell_keys_apart_and_have_no_pattern() {
        let load = Load::new(1000, 1024);
        let values: HashSet<&[u8]> = (0..1000).map(|key| load.value(key)).collect();
        assert_eq!(values.len(), 1000);
        let later: HashSet<&[u8]> = (0..=255).map(|count| load.later_value(7, count)).collect();
        assert_eq!((later.len(), load.later_value(7, 0)), (256, load.value(7)));
        let mut counts = [0u32; 256];
        values.iter().flat_map(|value| value.iter()).for_each(|b| counts[usize::from(*b)] += 1);
        assert!(counts.iter().all(|count| (3000..5000).contains(count)), "{counts:?}");
    }
}
