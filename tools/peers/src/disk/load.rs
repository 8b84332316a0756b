//! Keys in a random order, each once, and values that cannot be compressed and name their key.

use crate::random::Random;

/// Where values are cut from. It stays in the processor's caches, as what has just been received
/// does.
const POOL_BYTES: usize = 1 << 20;

/// The keys and values of a cell.
#[derive(Debug)]
pub(super) struct Load {
    records: u32,
    bits: u32,
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
        let bits = records.next_power_of_two().trailing_zeros().max(2);
        Self { records, bits, value_bytes, pool }
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
        let mut key = self.scatter(at % self.records);
        // What falls outside walks on along its cycle, which comes back inside.
        while key >= self.records {
            key = self.scatter(key);
        }
        key
    }

    /// A bijection of the numbers of `bits` bits.
    #[inline]
    fn scatter(&self, x: u32) -> u32 {
        let (mask, shift) = (u32::MAX >> (32 - self.bits), self.bits.div_ceil(2));
        let x = x.wrapping_mul(0x85EB_CA6B) & mask;
        let x = (x ^ (x >> shift)).wrapping_mul(0xC2B2_AE35) & mask;
        let x = (x ^ (x >> shift)).wrapping_mul(0x9E37_79B1) & mask;
        x ^ (x >> shift)
    }

    /// The value of a key.
    #[inline]
    pub(super) fn value(&self, key: u32) -> &[u8] {
        let mixed = (u64::from(key) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let from = (mixed >> 44) as usize % POOL_BYTES;
        &self.pool[from..from + self.value_bytes]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
                let near = keys.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < records / 50);
                assert!(near.count() < records as usize / 10, "{records}");
            }
        }
    }

    #[test]
    fn values_tell_keys_apart_and_have_no_pattern() {
        let load = Load::new(1000, 1024);
        let values: HashSet<&[u8]> = (0..1000).map(|key| load.value(key)).collect();
        assert_eq!(values.len(), 1000);
        let mut counts = [0u32; 256];
        values.iter().flat_map(|value| value.iter()).for_each(|b| counts[usize::from(*b)] += 1);
        assert!(counts.iter().all(|count| (3000..5000).contains(count)), "{counts:?}");
    }
}
