//! The free blocks, for those who check a whole table.

use base::sync::lock;

use super::Blocks;

impl Blocks {
    /// Free blocks, those in limbo and untouched ones included.
    pub(crate) fn all_free(&self) -> Vec<usize> {
        let free = lock(&self.free);
        let limbo = free.limbo.iter().map(|&(_, block)| block);
        let used = free.blocks.iter().copied().chain(limbo).map(|block| block as usize);
        let all: Vec<usize> = used.chain(free.untouched as usize..self.table.len()).collect();
        assert_eq!(all.len(), self.available(), "the count of free blocks");
        all
    }
}
