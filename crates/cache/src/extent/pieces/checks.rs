//! The pieces, for those who check a whole table.

use base::sync::lock;

use super::{
    Pieces,
    class::{Class, NO_PLACE},
    location_of, place_of,
};
use crate::memory::Memory;

impl Pieces {
    /// Class and location of every free piece. Panics when the lists do not fit.
    pub(crate) fn all_free(&self) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for (class, state) in self.classes.iter().enumerate() {
            for (block, number) in lock(state).all_free() {
                all.push((class, location_of(class, block, number)));
            }
        }
        all
    }

    /// Where the head of a piece is.
    pub(crate) fn head_of(&self, memory: &Memory, class: usize, location: usize) -> Option<usize> {
        let (place, number) = place_of(memory, class, location);
        let head = lock(&self.classes[class]).block(place).heads[number];
        (head != 0).then_some(head as usize)
    }
}

impl Class {
    /// Block and number of every free piece.
    fn all_free(&self) -> Vec<(u32, usize)> {
        let mut all = Vec::new();
        for (count, &first) in self.lists.iter().enumerate() {
            let mut place = first;
            while place != NO_PLACE {
                let block = &self.blocks[place as usize];
                assert!(!block.being_emptied, "a listed block is being emptied");
                let free = (0..self.per_block).filter(|&number| block.free.has(number));
                let before = all.len();
                all.extend(free.map(|number| (block.block, number)));
                assert_eq!(all.len() - before, count, "a block is in the list of its free pieces");
                place = block.next;
            }
        }
        assert_eq!(all.len(), self.free, "the count of free pieces");
        all
    }
}
