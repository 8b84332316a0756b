//! Emptying a block of pieces, so that it can be used for something else.
//!
//! What is in it moves to free pieces of other blocks; nothing is evicted for it. A piece moves
//! under the lock of the bucket that leads to its head, and only while nobody sends the value:
//! pins are taken under that lock, too, so nobody reads a piece that moves.

#![expect(unsafe_code, reason = "copies a piece of a value that nobody else can reach meanwhile")]

use base::sync::atomic::Ordering;

use super::{LINKED_BIT, Parts, READERS_MASK, header_of};
use crate::memory::Memory;

/// Empties a block of a class whose free pieces would fill one. Returns whether it is free now: it
/// is not when somebody sends or brings a value in it. Costs the copying of at most a block, and a
/// look at the index for each of its pieces.
///
/// The caller is online, holds nothing it found, and no lock of a bucket or of a sub-table.
pub(crate) fn compact(memory: &Memory) -> bool {
    let Some(emptying) = memory.pieces.begin_emptying() else { return false };
    let mut from = 0;
    while let Some(piece) = memory.pieces.next_taken(&emptying, from) {
        if let Some(head) = piece.head {
            move_piece(memory, emptying.class, piece.location, head);
        }
        from = piece.number + 1;
    }
    memory.pieces.end_emptying(memory, emptying)
}

/// Moves a piece of the value whose head was at `head` a moment ago. Does nothing when that has
/// changed, somebody sends the value, or no other piece is free.
fn move_piece(memory: &Memory, class: usize, from: usize, head: usize) {
    let Some((_, found)) = memory.find(head) else { return };
    let _lock = found.bucket.lock();
    if memory.index.confirm(&memory.arena, &found).is_none() {
        return;
    }
    // From here on the head is what the index leads to. It may be another value's than a moment
    // ago; its parts tell.
    let word = memory.arena.word(head).load(Ordering::Acquire);
    if !header_of(word).in_parts() || word & (LINKED_BIT | READERS_MASK) != LINKED_BIT {
        return;
    }
    let parts = Parts::of_head(memory, head);
    let Some(place) = parts.tail.iter().position(|&at| at == Some(from)) else { return };
    let Some((_, len)) = parts.cut().pieces[place] else { return };
    let Some(to) = memory.pieces.take(class) else { return };
    // SAFETY: nobody writes a published value. It is not freed meanwhile, because who frees it
    // takes it out of the index before, under the lock held here.
    let bytes = unsafe { memory.arena.bytes(from, len) };
    // SAFETY: the piece was free, hence is this thread's alone.
    unsafe { memory.arena.fill(to, 0, bytes) };
    Parts::patch_tail(memory, head, place, to);
    memory.pieces.set_head(memory, class, to, head);
    memory.pieces.free(memory, class, from);
}

#[cfg(test)]
mod tests;
