//! What a sub-table's books say, checked against each other.

use std::collections::BTreeSet;

use base::sync::lock;

use super::SubTable;
use crate::{geometry::BLOCK_WORDS, memory::Memory, order::Holdings};

impl SubTable {
    /// Checks runs, rings, free lists and the order's own books. Panics on what does not fit
    /// together. Blocks are returned by number.
    pub(crate) fn holdings(&self, memory: &Memory) -> Holdings {
        let mut state = lock(&self.state);
        let known: BTreeSet<u32> = state.draining.iter().copied().collect();
        let (order, runs, ground) = state.parts(memory);
        let mut holdings = runs.holdings(&ground);
        order.check(runs, &ground, &holdings.taken);
        holdings.blocks = holdings.blocks.iter().map(|start| start / BLOCK_WORDS).collect();
        assert_eq!(holdings.blocks.len(), self.blocks(), "a sub-table's count of blocks");
        let drained: BTreeSet<u32> = runs.draining_blocks().collect();
        assert_eq!(drained, known, "draining blocks that nobody waits for");
        holdings
    }
}
