//! The free blocks, for those who check a whole table.

use base::sync::{atomic::Ordering, lock};

use super::Blocks;

impl Blocks {
    /// Blocks that nobody has: free, in limbo, untouched, and given back to the system.
    pub(crate) fn all_free(&self) -> Vec<usize> {
        let free = lock(&self.free);
        let limbo = free.limbo.iter().map(|&(_, block)| block);
        let used = free.blocks.iter().chain(&free.returned).copied().chain(limbo);
        let used = used.map(|block| block as usize);
        let all: Vec<usize> = used.chain(free.untouched as usize..self.table.len()).collect();
        let taken = self.taken.load(Ordering::Relaxed);
        assert_eq!(all.len() + taken, self.len(), "the count of taken blocks");
        all
    }
}
