//! The blocks of one class of pieces, by how many pieces are free.

use crate::geometry::{BLOCK_PIECES_MAX, pieces_per_block};

/// No block in a list.
pub(super) const NO_PLACE: u32 = u32::MAX;

/// Blocks looked at for one that can be emptied: of those that could not, because somebody sends
/// or brings a value in them, more are left for another time.
const LOOKS_MAX: usize = 16;

const SET_BITS: usize = u64::BITS as usize;

/// Some of a block's pieces.
#[derive(Debug)]
pub(super) struct Set([u64; BLOCK_PIECES_MAX.div_ceil(SET_BITS)]);

impl Set {
    /// The first `count` pieces.
    fn of_first(count: usize) -> Self {
        Self(std::array::from_fn(|word| match count.saturating_sub(word * SET_BITS) {
            SET_BITS.. => u64::MAX,
            bits => (1 << bits) - 1,
        }))
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.0[number / SET_BITS] >> (number % SET_BITS) & 1 != 0
    }

    fn toggle(&mut self, number: usize) {
        self.0[number / SET_BITS] ^= 1 << (number % SET_BITS);
    }

    fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word * SET_BITS + self.0[word].trailing_zeros() as usize)
    }
}

/// A block of pieces.
#[derive(Debug)]
pub(super) struct PieceBlock {
    pub(super) block: u32,
    pub(super) free: Set,
    pub(super) free_count: u32,
    /// By piece: where its head is; 0 while it is free, and while its value arrives.
    pub(super) heads: Box<[u64]>,
    /// Neighbours in its list.
    previous: u32,
    pub(super) next: u32,
    pub(super) being_emptied: bool,
    /// The round in which it could not be emptied, if no piece of it has been freed since.
    held_in: Option<u64>,
}

/// The pieces of one class.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) per_block: usize,
    pub(super) blocks: Vec<PieceBlock>,
    /// Places in `blocks` that are not in use.
    vacant: Vec<u32>,
    /// By number of free pieces: the first block that has as many.
    pub(super) lists: Box<[u32]>,
    /// Free pieces of the blocks in lists.
    pub(super) free: usize,
    /// No block could be emptied, and nothing has happened since that changes that.
    is_stuck: bool,
    round: u64,
}

impl Class {
    pub(super) fn new(class: usize) -> Self {
        let per_block = pieces_per_block(class);
        let lists = vec![NO_PLACE; per_block + 1].into();
        Self {
            per_block,
            blocks: Vec::new(),
            vacant: Vec::new(),
            lists,
            free: 0,
            is_stuck: false,
            round: 0,
        }
    }

    pub(super) fn block(&mut self, place: u32) -> &mut PieceBlock {
        &mut self.blocks[place as usize]
    }

    /// Adds a block, all of it free. Returns its place.
    pub(super) fn add(&mut self, block: u32) -> u32 {
        let new = PieceBlock {
            block,
            free: Set::of_first(self.per_block),
            free_count: u32::try_from(self.per_block).expect("invariant: at most 512"),
            heads: vec![0; self.per_block].into(),
            previous: NO_PLACE,
            next: NO_PLACE,
            being_emptied: false,
            held_in: None,
        };
        let place = match self.vacant.pop() {
            Some(place) => {
                *self.block(place) = new;
                place
            }
            None => {
                self.blocks.push(new);
                u32::try_from(self.blocks.len() - 1).expect("invariant: fewer than 2^32 blocks")
            }
        };
        self.link(place);
        place
    }

    /// Takes a free piece of the block that has fewest. Returns its block and its number there.
    pub(super) fn take(&mut self) -> Option<(u32, usize)> {
        let place = *self.lists.iter().find(|&&first| first != NO_PLACE)?;
        self.unlink(place);
        let block = self.block(place);
        let number = block.free.first().expect("invariant: a listed block has a free piece");
        block.free.toggle(number);
        block.free_count -= 1;
        let block = block.block;
        self.link(place);
        Some((block, number))
    }

    /// Takes a piece back. Returns its block if that is of no use any more.
    pub(super) fn free(&mut self, place: u32, number: usize) -> Option<u32> {
        if !self.block(place).being_emptied {
            self.unlink(place);
        }
        let block = self.block(place);
        assert!(!block.free.has(number), "a piece was freed twice");
        block.free.toggle(number);
        block.free_count += 1;
        block.heads[number] = 0;
        if block.being_emptied {
            return None;
        }
        block.held_in = None;
        self.is_stuck = false;
        if self.block(place).free_count as usize == self.per_block {
            return Some(self.forget(place));
        }
        self.link(place);
        None
    }

    /// Puts a block into the list where it belongs.
    fn link(&mut self, place: u32) {
        let count = self.block(place).free_count as usize;
        self.free += count;
        if count == 0 {
            return;
        }
        let next = std::mem::replace(&mut self.lists[count], place);
        if next != NO_PLACE {
            self.block(next).previous = place;
        }
        let block = self.block(place);
        (block.previous, block.next) = (NO_PLACE, next);
    }

    /// Takes a block out of its list.
    fn unlink(&mut self, place: u32) {
        let block = self.block(place);
        let (count, previous, next) = (block.free_count as usize, block.previous, block.next);
        self.free -= count;
        if count == 0 {
            return;
        }
        if previous == NO_PLACE {
            self.lists[count] = next;
        } else {
            self.block(previous).next = next;
        }
        if next != NO_PLACE {
            self.block(next).previous = previous;
        }
    }

    /// The emptiest block that is not held.
    fn emptiest(&self) -> Option<u32> {
        let of_list = |first: u32| {
            std::iter::successors((first != NO_PLACE).then_some(first), |&place| {
                let next = self.blocks[place as usize].next;
                (next != NO_PLACE).then_some(next)
            })
        };
        let mut places = self.lists.iter().rev().flat_map(|&first| of_list(first)).take(LOOKS_MAX);
        places.find(|&place| self.blocks[place as usize].held_in != Some(self.round))
    }

    /// Forgets a block, all of whose pieces are free and which is in no list.
    fn forget(&mut self, place: u32) -> u32 {
        self.vacant.push(place);
        let block = self.block(place);
        block.heads = Box::default();
        block.block
    }

    /// Takes the emptiest block out, if the others have room for what is in it. Returns its place.
    pub(super) fn begin_emptying(&mut self) -> Option<u32> {
        if !self.has_spare() {
            return None;
        }
        let place = self.emptiest();
        self.is_stuck = place.is_none();
        if let Some(place) = place {
            self.unlink(place);
            self.block(place).being_emptied = true;
        }
        place
    }

    /// Returns the block if it is empty; if not, its free pieces can be had again.
    pub(super) fn end_emptying(&mut self, place: u32) -> Option<u32> {
        let block = self.block(place);
        block.being_emptied = false;
        if block.free_count as usize == self.per_block {
            return Some(self.forget(place));
        }
        self.block(place).held_in = Some(self.round);
        self.link(place);
        None
    }

    /// What could not be emptied may be tried again: nobody says when a value has been sent.
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
        self.is_stuck = false;
    }

    /// Whether the free pieces would fill a block, and one may be emptied.
    pub(super) fn has_spare(&self) -> bool {
        self.free >= self.per_block && !self.is_stuck
    }

    /// Heap bytes of the tables.
    pub(super) fn heap_bytes(&self) -> usize {
        let in_use = self.blocks.len() - self.vacant.len();
        self.blocks.capacity() * size_of::<PieceBlock>()
            + self.vacant.capacity() * size_of::<u32>()
            + in_use * self.per_block * size_of::<u64>()
            + self.lists.len() * size_of::<u32>()
    }
}
