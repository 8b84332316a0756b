//! `paper`: source A's Algorithm 1 (Han, Guo, Zeng 2021, section 3.3), as clean as it can be read.
//!
//! The published algorithm contradicts its prose: writes move a record at the third touch and
//! reads at the second, the flag is cleared on every call, a write to a hot record stores nothing,
//! and nothing is said of a full cache. Read here as: every touch counts the same, being inserted
//! is the first, and the `n`-th moves a temporary record to the hot partition. A hit in recycle
//! moves to hot, one in hot moves nothing. Temporary and recycle evict whoever's turn it is, hit
//! or not; hot passes it on to recycle, its hits forgotten. Shares are 30, 50 and 20 %, fixed or
//! with room borrowed until the sub-table is full. Nothing is remembered of what was evicted.
//!
//! Kept for comparison. In the literature's traces it is level with LRU at best (fixed shares and 3
//! touches 10 % worse, borrowed shares and 2 touches 2 % better on the mean); `htr` is what became
//! of it. Every hit takes the sub-table's lock.

use super::{PaperRules, Partition, Policy, Sizes, Verdict};

/// Shares of the temporary, the hot and the recycle partition in percent. The paper names none;
/// with a tenth for the temporary one, 3 touches are 27 % worse than LRU.
const SHARES_PERCENT: [usize; 3] = [30, 50, 20];

/// The policy: it has rules and no state.
#[derive(Debug)]
pub(crate) struct Paper {
    rules: PaperRules,
}

impl Paper {
    pub(crate) fn new(rules: PaperRules) -> Self {
        Self { rules }
    }

    fn share(partition: Partition, sizes: &Sizes) -> usize {
        (sizes.all * SHARES_PERCENT[partition as usize] / 100).max(1)
    }
}

impl Policy for Paper {
    fn admit(&mut self, _remembered: Option<Partition>, _sizes: &Sizes) -> Partition {
        Partition::Temporary
    }

    fn target(&mut self, partition: Partition, sizes: &Sizes) -> usize {
        Self::share(partition, sizes)
    }

    fn judge(&mut self, partition: Partition, _counter: u64) -> Verdict {
        match partition {
            Partition::Temporary | Partition::Recycle => Verdict::Evict,
            Partition::Hot => Verdict::Move(Partition::Recycle),
        }
    }

    fn hit(&mut self, partition: Partition, counter: u64) -> Option<Partition> {
        match partition {
            Partition::Temporary => {
                (counter + 1 >= u64::from(self.rules.hits)).then_some(Partition::Hot)
            }
            Partition::Hot => None,
            Partition::Recycle => Some(Partition::Hot),
        }
    }

    fn ghosts_max(&mut self, _sizes: &Sizes) -> [usize; 2] {
        [0; 2]
    }

    fn limit(&self, partition: Partition, sizes: &Sizes) -> usize {
        if self.rules.is_fixed { Self::share(partition, sizes) } else { usize::MAX }
    }
}
