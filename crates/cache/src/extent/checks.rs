//! Where the parts of a value are, for those who check a whole table.

use super::{LINKED_BIT, Parts, READERS_MASK};
use crate::{blocks::NO_BLOCK, memory::Memory};
use base::sync::atomic::Ordering;

/// What a published head holds.
#[derive(Debug)]
pub(crate) struct HeadParts {
    pub(crate) blocks: Vec<usize>,
    /// Class and location.
    pub(crate) pieces: Vec<(usize, usize)>,
    pub(crate) bytes: usize,
}

/// The parts of a head that is linked and that no reader has pinned. `None` for inline records.
pub(crate) fn parts_of(memory: &Memory, location: usize) -> Option<HeadParts> {
    if !memory.slot(location).header().in_parts() {
        return None;
    }
    let word = memory.arena.word(location).load(Ordering::Relaxed);
    assert_eq!(word & (LINKED_BIT | READERS_MASK), LINKED_BIT, "a head's counts");
    let parts = Parts::of_head(memory, location);
    let mut blocks = Vec::new();
    let mut block = parts.first_block;
    while block != NO_BLOCK {
        blocks.push(block as usize);
        block = memory.blocks.next(block);
    }
    let cut = parts.cut();
    assert_eq!(blocks.len(), cut.blocks, "a value's blocks");
    let pieces = parts.tail.iter().zip(cut.pieces);
    let pieces = pieces.filter_map(|(at, piece)| Some((piece?.0, at.expect("a piece")))).collect();
    Some(HeadParts { blocks, pieces, bytes: cut.arena_bytes() })
}
