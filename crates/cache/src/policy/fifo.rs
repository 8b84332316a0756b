//! `fifo`: first in, first out. The least that a policy can be, and what others are measured by.

use super::{Partition, Policy, Sizes, Verdict};

/// All records are temporary, and whoever's turn it is goes.
#[derive(Debug)]
pub(crate) struct Fifo;

impl Policy for Fifo {
    fn admit(&mut self, _remembered: Option<Partition>, _sizes: &Sizes) -> Partition {
        Partition::Temporary
    }

    fn target(&mut self, partition: Partition, sizes: &Sizes) -> usize {
        if partition == Partition::Temporary { sizes.all } else { 0 }
    }

    fn judge(&mut self, _partition: Partition, _counter: u64) -> Verdict {
        Verdict::Evict
    }
}

#[cfg(test)]
mod tests {
    use crate::{PolicyKind, UnitCache};

    #[test]
    fn a_hit_saves_nobody() {
        let mut cache = UnitCache::new(PolicyKind::Fifo, 3);
        let hits: Vec<bool> = [1, 2, 3, 1, 4, 1, 3, 5].map(|key| cache.access(key)).to_vec();
        assert_eq!(hits, [false, false, false, true, false, false, true, false]);
        assert!(cache.access(4) && !cache.access(2));
    }
}
