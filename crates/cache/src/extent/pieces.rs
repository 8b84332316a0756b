//! Pieces: what is left of a value behind its whole blocks, in size classes of their own.
//!
//! A piece has no policy and no index entry; its head's eviction frees it. A block without pieces
//! goes back at once. New pieces go to the fullest blocks, so that others become empty, and when
//! the free pieces of a class would fill a block, one is emptied ([`super::compact()`]): for that,
//! every piece knows its head.
//!
//! Thread safety: one lock a class, leaves among the locks but for the free blocks' one.
//! Invariants:
//! 1. A block with free pieces is in the list for as many, unless it is being emptied; then
//!    nobody gets a piece of it.
//! 2. The head of a piece is known from the moment the head is linked until the piece is freed. It
//!    changes under the lock of the head's bucket, before the slot that the head was in is free.

#[cfg(all(test, not(loom)))]
mod checks;
mod class;

use base::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
    lock,
};

use self::class::Class;
use crate::{
    blocks::Owner,
    geometry::{BLOCK_WORDS, PIECE_CLASSES, WORD_BYTES, piece_bytes},
    memory::Memory,
};

/// A block that is being emptied: nobody gets a piece of it.
#[derive(Debug)]
pub(super) struct Emptying {
    pub(super) class: usize,
    place: u32,
}

/// A piece that is in use.
#[derive(Debug)]
pub(super) struct Taken {
    /// Its number in its block.
    pub(super) number: usize,
    pub(super) location: usize,
    /// Where its head is, if its value has arrived.
    pub(super) head: Option<usize>,
}

/// All pieces.
#[derive(Debug)]
pub(crate) struct Pieces {
    classes: [Mutex<Class>; PIECE_CLASSES],
    /// Bit by bit: the classes whose free pieces would fill a block.
    spare: AtomicU32,
}

const _: () = assert!(PIECE_CLASSES <= u32::BITS as usize);

/// Where its class keeps the block of a piece, and the piece's number in it.
fn place_of(memory: &Memory, class: usize, location: usize) -> (u32, usize) {
    let Owner::Pieces { class: its, place } = memory.blocks.owner(location / BLOCK_WORDS) else {
        unreachable!("a block has its owner until all of its pieces are free");
    };
    assert_eq!(class, its, "a piece is of its block's class");
    (place, location % BLOCK_WORDS * WORD_BYTES / piece_bytes(class))
}

fn location_of(class: usize, block: u32, number: usize) -> usize {
    block as usize * BLOCK_WORDS + number * piece_bytes(class) / WORD_BYTES
}

impl Pieces {
    pub(crate) fn new() -> Self {
        Self {
            classes: std::array::from_fn(|class| Mutex::new(Class::new(class))),
            spare: AtomicU32::new(0),
        }
    }

    /// Tells others whether a class has pieces to spare. The caller has changed that.
    fn note_spare(&self, class: usize, state: &MutexGuard<'_, Class>) {
        let (bit, is_spare) = (1 << class, state.has_spare());
        if (self.spare.load(Ordering::Relaxed) & bit != 0) == is_spare {
            return;
        }
        if is_spare {
            self.spare.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.spare.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Whether some class has free pieces for a whole block.
    #[cfg(test)]
    pub(crate) fn has_spare(&self) -> bool {
        self.spare.load(Ordering::Relaxed) != 0
    }

    /// Takes a free piece.
    pub(crate) fn take(&self, class: usize) -> Option<usize> {
        let mut state = lock(&self.classes[class]);
        let (block, number) = state.take()?;
        self.note_spare(class, &state);
        Some(location_of(class, block, number))
    }

    /// Adds a free block.
    pub(crate) fn supply(&self, memory: &Memory, class: usize, block: u32) {
        let mut state = lock(&self.classes[class]);
        let place = state.add(block);
        memory.blocks.set_owner(block, Owner::Pieces { class, place });
        self.note_spare(class, &state);
    }

    /// Takes a piece back.
    pub(crate) fn free(&self, memory: &Memory, class: usize, location: usize) {
        let (place, number) = place_of(memory, class, location);
        let mut state = lock(&self.classes[class]);
        if let Some(block) = state.free(place, number) {
            memory.blocks.release(block);
        }
        self.note_spare(class, &state);
    }

    /// Notes where the head of a piece is now. The caller holds the lock of the head's bucket.
    pub(super) fn set_head(&self, memory: &Memory, class: usize, location: usize, head: usize) {
        let (place, number) = place_of(memory, class, location);
        let mut state = lock(&self.classes[class]);
        state.block(place).heads[number] = head as u64;
    }

    /// Has blocks tried again that could not be emptied. To be called now and then.
    pub(crate) fn begin_round(&self) {
        for (class, state) in self.classes.iter().enumerate() {
            let mut state = lock(state);
            state.begin_round();
            self.note_spare(class, &state);
        }
    }

    /// Chooses a block to be emptied. The caller gives it to [`Self::end_emptying`].
    pub(super) fn begin_emptying(&self) -> Option<Emptying> {
        let spare = self.spare.load(Ordering::Relaxed);
        (0..PIECE_CLASSES).filter(|class| spare >> class & 1 != 0).find_map(|class| {
            let mut state = lock(&self.classes[class]);
            let place = state.begin_emptying();
            self.note_spare(class, &state);
            place.map(|place| Emptying { class, place })
        })
    }

    /// The first piece in use of a block that is being emptied, from number `from` on.
    pub(super) fn next_taken(&self, emptying: &Emptying, from: usize) -> Option<Taken> {
        let mut state = lock(&self.classes[emptying.class]);
        let block = state.block(emptying.place);
        let number = (from..block.heads.len()).find(|&number| !block.free.has(number))?;
        let head = block.heads[number];
        Some(Taken {
            number,
            location: location_of(emptying.class, block.block, number),
            head: (head != 0).then_some(head as usize),
        })
    }

    /// Returns whether the block is free now.
    pub(super) fn end_emptying(&self, memory: &Memory, emptying: Emptying) -> bool {
        let Emptying { class, place } = emptying;
        let mut state = lock(&self.classes[class]);
        let empty = state.end_emptying(place);
        self.note_spare(class, &state);
        drop(state);
        empty.inspect(|&block| memory.blocks.release(block)).is_some()
    }

    /// Heap bytes of its tables.
    pub(crate) fn table_bytes(&self) -> usize {
        self.classes.iter().map(|class| lock(class).heap_bytes()).sum()
    }
}
