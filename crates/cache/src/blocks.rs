//! Who owns which block of the arena, and which blocks are free.
//!
//! Thread safety: the table's fields are atomics; the free blocks are behind one mutex, a leaf
//! among the locks. Invariants:
//! 1. A block is in exactly one of: the free list, limbo, its owner's books.
//! 2. A block whose slots readers may look at goes through limbo ([`Blocks::retire`]) before
//!    anybody else gets it.

#[cfg(all(test, not(loom)))]
mod checks;

use std::collections::VecDeque;

use base::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    lock,
};

use crate::qsbr::Qsbr;

/// No block.
pub(crate) const NO_BLOCK: u32 = u32::MAX;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nothing, or nothing that has slots: index, ghosts, whole blocks of values.
    None,
    /// Slots of a sub-table; its runs start at this number there.
    SubTable { number: usize, first_run: u32 },
    /// Pieces of this class.
    Pieces { class: usize },
}

const SUB_TABLE: u64 = 1;
const PIECES: u64 = 2;

impl Owner {
    fn pack(self) -> u64 {
        match self {
            Self::None => 0,
            Self::SubTable { number, first_run } => {
                SUB_TABLE | (number as u64) << 8 | u64::from(first_run) << 32
            }
            Self::Pieces { class } => PIECES | (class as u64) << 8,
        }
    }

    #[inline]
    fn unpack(packed: u64) -> Self {
        let middle = (packed >> 8 & 0xff_ffff) as usize;
        match packed & 0xff {
            SUB_TABLE => Self::SubTable { number: middle, first_run: (packed >> 32) as u32 },
            PIECES => Self::Pieces { class: middle },
            _ => Self::None,
        }
    }
}

#[derive(Debug)]
struct Block {
    owner: AtomicU64,
    /// No record in it expires before; `u64::MAX` when none does at all.
    earliest_expiry_ms: AtomicU64,
    /// Sequence of the last write into it, so that a copy can take just what changed.
    changed: AtomicU64,
    /// The next block of the same value.
    next: AtomicU32,
}

#[derive(Debug, Default)]
struct Free {
    /// Used before and free again.
    blocks: Vec<u32>,
    /// Never used from here on.
    untouched: u32,
    /// Retired, with the epoch that all threads must have passed.
    limbo: VecDeque<(u64, u32)>,
}

/// The block table and the free blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    table: Box<[Block]>,
    free: Mutex<Free>,
    /// Free blocks, limbo included; a hint for those who do not hold the lock.
    available: AtomicUsize,
    /// Free blocks that only index, ghosts and large values may take, so that none of them has to
    /// wait for readers in the middle of a command.
    reserve: usize,
}

impl Blocks {
    /// A table for `blocks` blocks, all free except block 0: location 0 means "no record".
    pub(crate) fn new(blocks: usize, reserve: usize) -> Self {
        let block = || Block {
            owner: AtomicU64::new(0),
            earliest_expiry_ms: AtomicU64::new(u64::MAX),
            changed: AtomicU64::new(0),
            next: AtomicU32::new(NO_BLOCK),
        };
        Self {
            table: (0..blocks).map(|_| block()).collect(),
            free: Mutex::new(Free { untouched: 1, ..Free::default() }),
            available: AtomicUsize::new(blocks - 1),
            reserve,
        }
    }

    /// Bytes of the table for one block.
    pub(crate) const TABLE_BYTES_PER_BLOCK: usize = size_of::<Block>();

    /// Number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Blocks that nobody owns, those that wait for readers included.
    pub(crate) fn available(&self) -> usize {
        self.available.load(Ordering::Relaxed)
    }

    /// Whether less than the reserve is free.
    pub(crate) fn is_short(&self) -> bool {
        self.available() < self.reserve
    }

    /// Takes a free block, but leaves the reserve alone.
    pub(crate) fn take(&self, qsbr: &Qsbr) -> Option<u32> {
        if self.available() <= self.reserve { None } else { self.take_reserved(qsbr) }
    }

    /// Takes a free block, of the reserve if need be.
    pub(crate) fn take_reserved(&self, qsbr: &Qsbr) -> Option<u32> {
        let mut free = lock(&self.free);
        if free.blocks.is_empty() {
            while let Some(&(epoch, block)) = free.limbo.front()
                && qsbr.passed(epoch)
            {
                free.limbo.pop_front();
                free.blocks.push(block);
            }
        }
        let block = free.blocks.pop().or_else(|| {
            let next = free.untouched;
            ((next as usize) < self.table.len()).then(|| {
                free.untouched += 1;
                next
            })
        })?;
        self.available.fetch_sub(1, Ordering::Relaxed);
        Some(block)
    }

    /// Gives back a block that no reader can be looking at.
    pub(crate) fn release(&self, block: u32) {
        self.set_owner(block, Owner::None);
        lock(&self.free).blocks.push(block);
        self.available.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back a block that readers may still be looking at: it is free when all of them have
    /// been quiescent.
    pub(crate) fn retire(&self, qsbr: &Qsbr, block: u32) {
        self.set_owner(block, Owner::None);
        let epoch = qsbr.advance();
        lock(&self.free).limbo.push_back((epoch, block));
        self.available.fetch_add(1, Ordering::Relaxed);
    }

    /// Who owns a block.
    #[inline]
    pub(crate) fn owner(&self, block: usize) -> Owner {
        Owner::unpack(self.table[block].owner.load(Ordering::Acquire))
    }

    pub(crate) fn set_owner(&self, block: u32, owner: Owner) {
        let entry = &self.table[block as usize];
        entry.earliest_expiry_ms.store(u64::MAX, Ordering::Relaxed);
        entry.owner.store(owner.pack(), Ordering::Release);
    }

    /// Notes a write into a block: its sequence, and when the record expires (0 for never).
    #[inline]
    pub(crate) fn note_write(&self, block: usize, sequence: u64, expiry_ms: u64) {
        let entry = &self.table[block];
        entry.changed.store(sequence, Ordering::Relaxed);
        if expiry_ms != 0 && expiry_ms < entry.earliest_expiry_ms.load(Ordering::Relaxed) {
            entry.earliest_expiry_ms.fetch_min(expiry_ms, Ordering::Relaxed);
        }
    }

    /// Sequence of the last write into a block.
    pub(crate) fn changed(&self, block: usize) -> u64 {
        self.table[block].changed.load(Ordering::Relaxed)
    }

    /// When the first record of a block expires, at the earliest.
    #[inline]
    pub(crate) fn earliest_expiry_ms(&self, block: usize) -> u64 {
        self.table[block].earliest_expiry_ms.load(Ordering::Relaxed)
    }

    /// Forgets a block's earliest expiry before a sweep looks at every record again.
    pub(crate) fn forget_expiry(&self, block: usize) {
        self.table[block].earliest_expiry_ms.store(u64::MAX, Ordering::Relaxed);
    }

    /// Lowers a block's earliest expiry.
    pub(crate) fn note_expiry(&self, block: usize, expiry_ms: u64) {
        self.table[block].earliest_expiry_ms.fetch_min(expiry_ms, Ordering::Relaxed);
    }

    /// The block behind this one in a value.
    pub(crate) fn next(&self, block: u32) -> u32 {
        self.table[block as usize].next.load(Ordering::Relaxed)
    }

    /// Chains a value's blocks.
    pub(crate) fn set_next(&self, block: u32, next: u32) {
        self.table[block as usize].next.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_survive_packing() {
        for owner in [
            Owner::None,
            Owner::SubTable { number: 0xff_ffff, first_run: u32::MAX },
            Owner::Pieces { class: 33 },
        ] {
            assert_eq!(Owner::unpack(owner.pack()), owner);
        }
    }

    #[test]
    fn a_retired_block_waits_for_those_who_may_look_at_it() {
        let (qsbr, blocks) = (Qsbr::new(), Blocks::new(3, 0));
        let reader = qsbr.register().expect("a place");
        qsbr.online(reader);
        let block = blocks.take(&qsbr).expect("two are free");
        blocks.take(&qsbr).expect("one is free");
        blocks.retire(&qsbr, block);
        assert_eq!(blocks.take(&qsbr), None, "the reader has not been quiescent");
        qsbr.quiesce(reader);
        assert_eq!(blocks.take(&qsbr), Some(block));
        blocks.retire(&qsbr, block);
        qsbr.offline(reader);
        assert_eq!(blocks.take(&qsbr), Some(block));
    }

    #[test]
    fn the_reserve_is_left_for_those_who_may_have_it() {
        let (qsbr, blocks) = (Qsbr::new(), Blocks::new(4, 2));
        assert!(blocks.take(&qsbr).is_some());
        assert_eq!(blocks.take(&qsbr), None);
        assert!(!blocks.is_short());
        assert!(blocks.take_reserved(&qsbr).is_some());
        assert!(blocks.is_short());
        assert!(blocks.take_reserved(&qsbr).is_some());
        assert_eq!(blocks.take_reserved(&qsbr), None);
    }
}
