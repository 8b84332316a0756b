//! The blocks of ghosts, for those who check a whole table.

use base::sync::atomic::Ordering;

use super::Ghosts;

impl Ghosts {
    /// Blocks of fingerprints.
    pub(crate) fn all_blocks(&self) -> Vec<usize> {
        let blocks = self.directory.iter().map(|at| at.load(Ordering::Relaxed) as usize);
        let all: Vec<usize> = blocks.filter(|&block| block != 0).collect();
        assert_eq!(all.len() as u64, self.blocks.load(Ordering::Relaxed), "the count of ghosts");
        all
    }
}
