//! Pieces: what is left of a value behind its whole blocks, in size classes of their own.
//!
//! Thread safety: one lock a class, leaves among the locks but for the free blocks' one. A piece
//! has no policy and no index entry; its head's eviction frees it, and a block without pieces goes
//! back at once.

#[cfg(all(test, not(loom)))]
mod checks;

use std::collections::BTreeMap;

use base::sync::{Mutex, lock};

use crate::{
    blocks::Owner,
    geometry::{BLOCK_BYTES, BLOCK_WORDS, PIECE_CLASSES, WORD_BYTES, piece_bytes},
    memory::Memory,
};

/// Free pieces by class.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// For every block that has some: the numbers of its free pieces.
    classes: [Mutex<BTreeMap<u32, Vec<u16>>>; PIECE_CLASSES],
}

impl Pieces {
    pub(crate) fn new() -> Self {
        Self { classes: std::array::from_fn(|_| Mutex::new(BTreeMap::new())) }
    }

    /// Takes a free piece.
    pub(crate) fn take(&self, class: usize) -> Option<usize> {
        let mut blocks = lock(&self.classes[class]);
        let mut entry = blocks.first_entry()?;
        let piece = entry.get_mut().pop().expect("invariant: a listed block has a free piece");
        let block = *entry.key() as usize;
        if entry.get().is_empty() {
            entry.remove();
        }
        Some(block * BLOCK_WORDS + usize::from(piece) * piece_bytes(class) / WORD_BYTES)
    }

    /// Adds a free block.
    pub(crate) fn supply(&self, memory: &Memory, class: usize, block: u32) {
        memory.blocks.set_owner(block, Owner::Pieces { class });
        let pieces =
            u16::try_from(BLOCK_BYTES / piece_bytes(class)).expect("invariant: at most 512");
        lock(&self.classes[class]).insert(block, (0..pieces).rev().collect());
    }

    /// Takes a piece back.
    pub(crate) fn free(&self, memory: &Memory, class: usize, location: usize) {
        let per_block = BLOCK_BYTES / piece_bytes(class);
        let block =
            u32::try_from(location / BLOCK_WORDS).expect("invariant: fewer than 2^32 blocks");
        let piece = location % BLOCK_WORDS * WORD_BYTES / piece_bytes(class);
        let piece = u16::try_from(piece).expect("invariant: at most 512");
        let mut blocks = lock(&self.classes[class]);
        let free = blocks.entry(block).or_default();
        assert!(!free.contains(&piece), "a piece was freed twice");
        free.push(piece);
        if free.len() == per_block {
            blocks.remove(&block);
            memory.blocks.release(block);
        }
    }
}
