//! The free pieces, for those who check a whole table.

use base::sync::lock;

use super::Pieces;
use crate::geometry::{BLOCK_WORDS, WORD_BYTES, piece_bytes};

impl Pieces {
    /// Class and location of every free piece.
    pub(crate) fn all_free(&self) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for (class, blocks) in self.classes.iter().enumerate() {
            for (&block, pieces) in &*lock(blocks) {
                let start = block as usize * BLOCK_WORDS;
                let words = piece_bytes(class) / WORD_BYTES;
                all.extend(pieces.iter().map(|&at| (class, start + usize::from(at) * words)));
            }
        }
        all
    }
}
