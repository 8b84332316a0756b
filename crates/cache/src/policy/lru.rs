//! `lru`: least recently used goes first, exactly.
//!
//! The yardstick of the literature, and of the tests here. Every hit moves a record and so takes
//! the sub-table's lock; where hits are many and cores few, `htr` keeps more of what is wanted at
//! less cost.

use super::{Partition, Policy, Sizes, Verdict};

/// All records are temporary, and a hit makes a record the newest.
#[derive(Debug)]
pub(crate) struct Lru;

impl Policy for Lru {
    fn admit(&mut self, _remembered: Option<Partition>, _sizes: &Sizes) -> Partition {
        Partition::Temporary
    }

    fn target(&mut self, partition: Partition, sizes: &Sizes) -> usize {
        if partition == Partition::Temporary { sizes.all } else { 0 }
    }

    fn judge(&mut self, _partition: Partition, _counter: u64) -> Verdict {
        Verdict::Evict
    }

    fn hit(&mut self, _partition: Partition, _counter: u64) -> Option<Partition> {
        Some(Partition::Temporary)
    }
}

#[cfg(test)]
mod tests {
    use crate::{PolicyKind, UnitCache};

    #[test]
    fn what_was_used_last_stays() {
        let mut cache = UnitCache::new(PolicyKind::Lru, 3);
        let hits: Vec<bool> = [1, 2, 3, 1, 4, 1, 3, 2].map(|key| cache.access(key)).to_vec();
        assert_eq!(hits, [false, false, false, true, false, true, true, false]);
        assert!(!cache.access(4), "2 has pushed it out");
    }

    /// A list of keys, searched from one end to the other.
    #[test]
    fn it_is_exact() {
        let (mut cache, mut list) = (UnitCache::new(PolicyKind::Lru, 40), Vec::new());
        let mut random = 7u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let key = (random >> 40) % 90 * ((random >> 50) % 3);
            let at = list.iter().position(|known| *known == key);
            assert_eq!(cache.access(key), at.is_some());
            if let Some(at) = at {
                list.remove(at);
            } else if list.len() == 40 {
                list.remove(0);
            }
            list.push(key);
        }
    }
}
