//! The blocks of ghosts, for those who check a whole table.

use base::sync::atomic::Ordering;

use super::Ghosts;

impl Ghosts {
    /// Blocks of fingerprints.
    pub(crate) fn all_blocks(&self) -> Vec<usize> {
        let blocks = usize::try_from(self.size().blocks()).expect("few blocks");
        let all = &self.directory[..blocks];
        let all: Vec<usize> = all.iter().map(|at| at.load(Ordering::Relaxed) as usize).collect();
        assert!(!all.contains(&0), "a place without a block");
        all
    }
}
