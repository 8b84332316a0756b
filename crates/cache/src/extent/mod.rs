//! Values in parts: whole blocks and a tail of pieces, immutable, sent in place.
//!
//! The head, in a slot of its own class, says where the parts are and counts who needs them: the
//! index once, and every reader. Thread safety: the count is the upper half of the head's first
//! word, and all of it changes by atomic operations on that word. Invariants:
//! 1. The bytes of parts change only before their head is published. Afterwards a piece may move,
//!    while nobody reads the value.
//! 2. A pin is taken under the lock of the head's bucket, and only while the index leads to it.
//! 3. Who lowers the count to 0 frees the parts.

#[cfg(all(test, not(loom)))]
pub(crate) mod checks;
mod compact;
mod parts;
mod pieces;
mod pinned;
mod upload;

pub(crate) use compact::compact;
pub(crate) use parts::Parts;
pub(crate) use pieces::Pieces;
pub use pinned::Pinned;
pub(crate) use pinned::show_linked;
pub use upload::Upload;

use base::sync::atomic::Ordering;

use crate::{memory::Memory, record::Header};

/// The index leads to this head.
pub(crate) const LINKED: u32 = 1 << 31;
const LINKED_BIT: u64 = (LINKED as u64) << 32;
const READER: u64 = 1 << 32;
const READERS_MASK: u64 = LINKED_BIT - READER;

fn header_of(word: u64) -> Header {
    Header(word as u32)
}

/// Notes that the record at a location is in the index no more. Returns whether its slot is free:
/// a head that readers still need is freed by the last of them.
pub(crate) fn unlinked(memory: &Memory, location: usize) -> bool {
    let word = memory.arena.word(location);
    if !header_of(word.load(Ordering::Relaxed)).in_parts() {
        return true;
    }
    let parts = Parts::of_head(memory, location);
    memory.note_value_bytes(location, parts.cut().arena_bytes(), true);
    let before = word.fetch_and(!LINKED_BIT, Ordering::AcqRel);
    if before & READERS_MASK != 0 {
        return false;
    }
    parts.free(memory);
    true
}

/// Bytes of the arena that the parts of a record take; 0 for an inline one.
pub(crate) fn bytes(memory: &Memory, location: usize) -> usize {
    let slot = memory.slot(location);
    let header = slot.header();
    if header.in_parts() && slot.holds(header) {
        Parts::of_head(memory, location).cut().arena_bytes()
    } else {
        0
    }
}

/// Before a record moves to another slot: nobody may pin it here any more. Fails while somebody
/// does. The caller holds the lock of its bucket.
pub(crate) fn begin_move(memory: &Memory, from: usize) -> bool {
    let word = memory.arena.word(from);
    let seen = word.load(Ordering::Relaxed);
    if !header_of(seen).in_parts() {
        return true;
    }
    seen & READERS_MASK == 0
        && word
            .compare_exchange(seen, seen & !LINKED_BIT, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
}

/// When a record is published, or has moved: it can be pinned where it is now. The caller holds
/// the lock of its bucket.
pub(crate) fn link(memory: &Memory, to: usize) {
    let word = memory.arena.word(to);
    if header_of(word.load(Ordering::Relaxed)).in_parts() {
        for (class, location) in Parts::of_head(memory, to).pieces() {
            memory.pieces.set_head(memory, class, location, to);
        }
        word.fetch_or(LINKED_BIT, Ordering::Release);
    }
}

/// Replaces the header of a published record and leaves its pins alone. The caller holds the lock
/// of its bucket.
pub(crate) fn set_header(memory: &Memory, location: usize, header: Header) {
    let word = memory.arena.word(location);
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let new = seen & !u64::from(u32::MAX) | u64::from(header.0);
        match word.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            // A reader has pinned or unpinned it.
            Err(now) => seen = now,
        }
    }
}

/// Adds a reader if the head is in the index.
pub(crate) fn pin(memory: &Memory, location: usize) -> bool {
    let word = memory.arena.word(location);
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        // The index's own count is what makes the number not 0 for a record that can be found.
        if !header_of(seen).in_parts() || seen & LINKED_BIT == 0 {
            return false;
        }
        match word.compare_exchange(seen, seen + READER, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
    if seen & READERS_MASK == 0 {
        let bytes = bytes(memory, location) as u64;
        memory.counters.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    true
}

/// Takes a reader away. Returns whether the slot is free now: the caller gives it back.
pub(crate) fn unpin(memory: &Memory, location: usize) -> bool {
    let word = memory.arena.word(location);
    let parts = Parts::of_head(memory, location);
    let before = word.fetch_sub(READER, Ordering::AcqRel);
    if before & READERS_MASK == READER {
        let bytes = parts.cut().arena_bytes() as u64;
        memory.counters.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before & LINKED_BIT == 0 {
            parts.free(memory);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
