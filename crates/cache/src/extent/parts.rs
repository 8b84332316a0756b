//! Where the parts of one value are.

use crate::{
    blocks::NO_BLOCK,
    geometry::{BLOCK_BYTES, BLOCK_WORDS, Cut, TAIL_PIECES_MAX},
    memory::Memory,
    record::{Header, LOCATION_BYTES, WordSink, patch},
};

/// A tail location that is not used.
const NO_LOCATION: u64 = (1 << (LOCATION_BYTES * 8)) - 1;

/// Where a head says where a piece of the tail is.
fn tail_at(header: Header, piece: usize) -> usize {
    header.value_at() + 8 + piece * LOCATION_BYTES
}

/// Where the parts of one value are, as its head says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(super) value_len: usize,
    pub(super) first_block: u32,
    pub(super) tail: [Option<usize>; TAIL_PIECES_MAX],
}

impl Parts {
    /// Reads a head. Of no meaning unless the caller holds a count or the bucket's lock.
    pub(crate) fn of_head(memory: &Memory, location: usize) -> Self {
        let slot = memory.slot(location);
        let at = slot.header().value_at();
        let tail = std::array::from_fn(|piece| {
            let location = slot.number(tail_at(slot.header(), piece), LOCATION_BYTES);
            (location != NO_LOCATION).then_some(location as usize)
        });
        Self {
            value_len: slot.number(at, 4) as usize,
            first_block: slot.number(at + 4, 4) as u32,
            tail,
        }
    }

    /// Writes what stands for the value in a head.
    pub(crate) fn write(&self, sink: &mut WordSink<'_>) {
        sink.push(self.value_len as u64, 4);
        sink.push(u64::from(self.first_block), 4);
        for piece in self.tail {
            sink.push(piece.map_or(NO_LOCATION, |at| at as u64), LOCATION_BYTES);
        }
    }

    /// Writes into a head where a piece of the tail has moved. The caller holds the lock of the
    /// head's bucket, and nobody has pinned the value.
    pub(super) fn patch_tail(memory: &Memory, head: usize, piece: usize, to: usize) {
        let slot = memory.slot(head);
        patch(slot.0, tail_at(slot.header(), piece), LOCATION_BYTES, to as u64);
    }

    /// Class and location of each piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, usize)> {
        let pieces = self.tail.into_iter().zip(self.cut().pieces);
        pieces.filter_map(|(at, piece)| Some((piece?.0, at?)))
    }

    pub(crate) fn cut(&self) -> Cut {
        Cut::new(self.value_len)
    }

    /// Gives the memory back.
    pub(crate) fn free(&self, memory: &Memory) {
        let mut block = self.first_block;
        while block != NO_BLOCK {
            let next = memory.blocks.next(block);
            memory.blocks.release(block);
            block = next;
        }
        for (class, location) in self.pieces() {
            memory.pieces.free(memory, class, location);
        }
    }

    /// The value's parts in order: first word and bytes of each.
    pub(crate) fn ranges(self, memory: &Memory) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut block = self.first_block;
        let blocks = std::iter::from_fn(move || {
            let at = block;
            (at != NO_BLOCK).then(|| {
                block = memory.blocks.next(at);
                (at as usize * BLOCK_WORDS, BLOCK_BYTES)
            })
        });
        let pieces = self.tail.into_iter().zip(self.cut().pieces);
        blocks.chain(pieces.filter_map(|(at, piece)| Some((at?, piece?.1))))
    }
}
