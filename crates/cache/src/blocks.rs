//! Who owns which block of the arena, and which blocks are free.
//!
//! The limit says how many blocks may be in use; it can be changed at any time. Blocks above it are
//! given back to the system as they become free, and taken again when it is raised.
//!
//! Thread safety: the table's fields are atomics; the free blocks are behind one mutex, a leaf
//! among the locks. Invariants:
//! 1. A block is in exactly one of: the free list, limbo, those never touched or given back to the
//!    system, its owner's books.
//! 2. A block whose slots readers may look at goes through limbo ([`Blocks::retire`]) before
//!    anybody else gets it.
//! 3. Nobody gets a block while as many are taken as the limit allows.

#[cfg(all(test, not(loom)))]
mod checks;

use std::collections::VecDeque;

use base::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering},
    lock,
};

use crate::{qsbr::Qsbr, zeroed::zeroed};

/// No block: nobody ever gets block 0, as location 0 means "no record".
pub(crate) const NO_BLOCK: u32 = 0;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nothing, or nothing that has slots: index, ghosts, whole blocks of values.
    None,
    /// Slots of a sub-table; its runs start at this number there.
    SubTable { number: usize, first_run: u32 },
    /// Pieces of this class; what is known of them is at this place there.
    Pieces { class: usize, place: u32 },
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
            Self::Pieces { class, place } => PIECES | (class as u64) << 8 | u64::from(place) << 32,
        }
    }

    #[inline]
    fn unpack(packed: u64) -> Self {
        let middle = (packed >> 8 & 0xff_ffff) as usize;
        match packed & 0xff {
            SUB_TABLE => Self::SubTable { number: middle, first_run: (packed >> 32) as u32 },
            PIECES => Self::Pieces { class: middle, place: (packed >> 32) as u32 },
            _ => Self::None,
        }
    }
}

/// What is known of one block, by the places below, but for what every put changes: whoever looks
/// for its owner would find it with another core. All zeros stand for a block that was never
/// touched. An array, because a struct would need a derived proof that it may be all zeros.
type Known = [AtomicU64; 3];

/// Its [`Owner`], packed.
const OWNER: usize = 0;
/// No record in it expires before [`u64::MAX`] less this, in milliseconds; 0 when none does at all.
const EXPIRY_LEAD_MS: usize = 1;
/// The next block of the same value.
const NEXT: usize = 2;

#[derive(Debug, Default)]
struct Free {
    /// Used before and free again.
    blocks: Vec<u32>,
    /// Never used from here on.
    untouched: u32,
    /// Retired, with the epoch that all threads must have passed.
    limbo: VecDeque<(u64, u32)>,
    /// Given back to the system, and as good as untouched.
    returned: Vec<u32>,
    /// On their way to the system.
    leaving: usize,
}

impl Free {
    /// A block that nobody looks at.
    fn pop(&mut self, qsbr: &Qsbr) -> Option<u32> {
        if self.blocks.is_empty() {
            while let Some(&(epoch, block)) = self.limbo.front()
                && qsbr.passed(epoch)
            {
                self.limbo.pop_front();
                self.blocks.push(block);
            }
        }
        self.blocks.pop()
    }

    /// A block that has no memory yet, unless the limit's worth of blocks has: then what readers
    /// may still look at has to be waited for.
    fn touch(&mut self, limit: usize) -> Option<u32> {
        if self.touched() >= limit {
            return None;
        }
        Some(self.returned.pop().unwrap_or_else(|| {
            self.untouched += 1;
            self.untouched - 1
        }))
    }

    /// Blocks that the system has given memory for.
    fn touched(&self) -> usize {
        self.untouched as usize - self.returned.len() - self.leaving
    }
}

/// A free block that nobody looks at and nobody can get.
#[derive(Debug)]
pub(crate) struct Surplus(u32);

impl Surplus {
    pub(crate) fn number(&self) -> usize {
        self.0 as usize
    }
}

/// The block table and the free blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    table: Box<[Known]>,
    /// Of each block the sequence of who wrote into it last, so that a copy can take just what
    /// changed. When two write at once it may be the smaller one, and a sequence that is drawn
    /// already may be noted later: a copy has to see to both.
    changed: Box<[AtomicU64]>,
    free: Mutex<Free>,
    /// Blocks with an owner, block 0 among them; changes under the lock of `free` only.
    taken: AtomicUsize,
    /// Most blocks that may be taken.
    limit: AtomicUsize,
    /// Free blocks that only index, ghosts and large values may take, so that none of them has to
    /// wait for readers in the middle of a command.
    reserve: AtomicUsize,
}

impl Blocks {
    /// A table for at most `blocks` blocks, of which `limit` may be in use, all free except block
    /// 0.
    pub(crate) fn new(blocks: usize, limit: usize) -> Self {
        let this = Self {
            table: zeroed(blocks),
            changed: zeroed(blocks),
            free: Mutex::new(Free { untouched: 1, ..Free::default() }),
            taken: AtomicUsize::new(1),
            limit: AtomicUsize::new(limit),
            reserve: AtomicUsize::new(0),
        };
        this.set_limit(limit);
        this
    }

    /// Bytes of the table for one block.
    pub(crate) const TABLE_BYTES_PER_BLOCK: usize = size_of::<Known>() + size_of::<AtomicU64>();

    /// Blocks that there are addresses for.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Blocks that may be in use, block 0 among them.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes how many blocks may be in use. Takes none away from anybody.
    pub(crate) fn set_limit(&self, limit: usize) {
        assert!(limit <= self.len(), "there are no addresses for so many blocks");
        let reserve = if cfg!(any(loom, shuttle, miri)) { 1 } else { (limit / 128).clamp(4, 64) };
        self.limit.store(limit, Ordering::Relaxed);
        self.reserve.store(reserve, Ordering::Relaxed);
    }

    /// Blocks behind this one have never been touched.
    pub(crate) fn touched_end(&self) -> usize {
        lock(&self.free).untouched as usize
    }

    /// Blocks that the system has given memory for, block 0 among them.
    pub(crate) fn touched(&self) -> usize {
        lock(&self.free).touched()
    }

    /// Blocks that may be taken, those that wait for readers included.
    pub(crate) fn available(&self) -> usize {
        self.limit().saturating_sub(self.taken())
    }

    /// Blocks that have an owner, block 0 among them.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Blocks that are kept free.
    pub(crate) fn reserve(&self) -> usize {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Whether less than the reserve is free.
    pub(crate) fn is_short(&self) -> bool {
        self.available() < self.reserve()
    }

    /// Whether memory is so full that what is of little use should be given back.
    pub(crate) fn is_scarce(&self) -> bool {
        self.available() <= 4 * self.reserve()
    }

    /// Takes a free block, but leaves the reserve alone.
    pub(crate) fn take(&self, qsbr: &Qsbr) -> Option<u32> {
        if self.available() <= self.reserve() { None } else { self.take_reserved(qsbr) }
    }

    /// Takes a free block, of the reserve if need be.
    pub(crate) fn take_reserved(&self, qsbr: &Qsbr) -> Option<u32> {
        let mut free = lock(&self.free);
        if self.available() == 0 {
            return None;
        }
        let block = free.pop(qsbr).or_else(|| free.touch(self.limit()))?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(block)
    }

    /// Takes a free block out that is one too many for the limit, to be given back to the system
    /// and then to [`Self::returned`].
    pub(crate) fn take_surplus(&self, qsbr: &Qsbr) -> Option<Surplus> {
        let mut free = lock(&self.free);
        if free.touched() <= self.limit() {
            return None;
        }
        let block = free.pop(qsbr)?;
        free.leaving += 1;
        Some(Surplus(block))
    }

    /// A block has no memory any more.
    pub(crate) fn returned(&self, block: Surplus) {
        let mut free = lock(&self.free);
        free.leaving -= 1;
        free.returned.push(block.0);
    }

    /// Gives back a block that no reader can be looking at.
    pub(crate) fn release(&self, block: u32) {
        self.set_owner(block, Owner::None);
        let mut free = lock(&self.free);
        free.blocks.push(block);
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives back a block that readers may still be looking at: it is free when all of them have
    /// been quiescent.
    pub(crate) fn retire(&self, qsbr: &Qsbr, block: u32) {
        self.set_owner(block, Owner::None);
        let epoch = qsbr.advance();
        let mut free = lock(&self.free);
        free.limbo.push_back((epoch, block));
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Who owns a block.
    #[inline]
    pub(crate) fn owner(&self, block: usize) -> Owner {
        Owner::unpack(self.table[block][OWNER].load(Ordering::Acquire))
    }

    pub(crate) fn set_owner(&self, block: u32, owner: Owner) {
        let entry = &self.table[block as usize];
        entry[EXPIRY_LEAD_MS].store(0, Ordering::Relaxed);
        entry[OWNER].store(owner.pack(), Ordering::Release);
    }

    /// Notes a write into a block: its sequence, and when the record expires (0 for never).
    #[inline]
    pub(crate) fn note_write(&self, block: usize, sequence: u64, expiry_ms: u64) {
        self.changed[block].store(sequence, Ordering::Relaxed);
        if expiry_ms != 0 {
            let lead_ms = &self.table[block][EXPIRY_LEAD_MS];
            if u64::MAX - expiry_ms > lead_ms.load(Ordering::Relaxed) {
                lead_ms.fetch_max(u64::MAX - expiry_ms, Ordering::Relaxed);
            }
        }
    }

    /// A write into a block will be noted soon, while its key is locked.
    #[inline]
    pub(crate) fn expect_write(&self, block: usize) {
        base::prefetch::to_write_at(&self.changed, block);
    }

    /// Sequence of who wrote into a block last.
    pub(crate) fn changed(&self, block: usize) -> u64 {
        self.changed[block].load(Ordering::Relaxed)
    }

    /// When the first record of a block expires, at the earliest; `u64::MAX` when none does.
    #[inline]
    pub(crate) fn earliest_expiry_ms(&self, block: usize) -> u64 {
        u64::MAX - self.table[block][EXPIRY_LEAD_MS].load(Ordering::Relaxed)
    }

    /// Forgets a block's earliest expiry before a sweep looks at every record again.
    pub(crate) fn forget_expiry(&self, block: usize) {
        self.table[block][EXPIRY_LEAD_MS].store(0, Ordering::Relaxed);
    }

    /// Lowers a block's earliest expiry.
    pub(crate) fn note_expiry(&self, block: usize, expiry_ms: u64) {
        self.table[block][EXPIRY_LEAD_MS].fetch_max(u64::MAX - expiry_ms, Ordering::Relaxed);
    }

    /// The block behind this one in a value.
    pub(crate) fn next(&self, block: u32) -> u32 {
        self.table[block as usize][NEXT].load(Ordering::Relaxed) as u32
    }

    /// Chains a value's blocks.
    pub(crate) fn set_next(&self, block: u32, next: u32) {
        self.table[block as usize][NEXT].store(u64::from(next), Ordering::Relaxed);
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
            Owner::Pieces { class: 31, place: u32::MAX },
        ] {
            assert_eq!(Owner::unpack(owner.pack()), owner);
        }
    }

    #[test]
    fn a_retired_block_waits_for_those_who_may_look_at_it() {
        let (qsbr, blocks) = (Qsbr::new(), Blocks::new(3, 3));
        let reader = qsbr.register().expect("a place");
        qsbr.online(reader);
        let block = blocks.take_reserved(&qsbr).expect("two are free");
        blocks.take_reserved(&qsbr).expect("one is free");
        blocks.retire(&qsbr, block);
        assert_eq!(blocks.take_reserved(&qsbr), None, "the reader has not been quiescent");
        qsbr.quiesce(reader);
        assert_eq!(blocks.take_reserved(&qsbr), Some(block));
        blocks.retire(&qsbr, block);
        qsbr.offline(reader);
        assert_eq!(blocks.take_reserved(&qsbr), Some(block));
    }

    #[test]
    fn the_reserve_is_left_for_those_who_may_have_it() {
        let (qsbr, blocks) = (Qsbr::new(), Blocks::new(8, 8));
        while blocks.available() > blocks.reserve() {
            assert!(blocks.take(&qsbr).is_some());
        }
        assert_eq!(blocks.take(&qsbr), None);
        assert!(!blocks.is_short());
        while blocks.available() > 0 {
            assert!(blocks.take_reserved(&qsbr).is_some());
            assert!(blocks.is_short());
        }
        assert_eq!(blocks.take_reserved(&qsbr), None);
    }

    #[test]
    fn blocks_above_a_lowered_limit_go_back_to_the_system_and_come_again() {
        let (qsbr, blocks) = (Qsbr::new(), Blocks::new(10, 6));
        let mut taken: Vec<u32> =
            (0..5).map(|_| blocks.take_reserved(&qsbr).expect("below the limit")).collect();
        assert_eq!(blocks.take_reserved(&qsbr), None, "block 0 counts");
        blocks.set_limit(4);
        assert_eq!(blocks.available(), 0);
        assert!(blocks.take_surplus(&qsbr).is_none(), "all are in use");
        taken.drain(..3).for_each(|block| blocks.release(block));
        let surplus = [(); 2].map(|()| blocks.take_surplus(&qsbr).expect("two too many"));
        assert!(blocks.take_surplus(&qsbr).is_none(), "the limit may keep its memory");
        surplus.into_iter().for_each(|block| blocks.returned(block));
        blocks.set_limit(10);
        while let Some(block) = blocks.take_reserved(&qsbr) {
            assert!(!taken.contains(&block), "block {block} twice");
            taken.push(block);
        }
        assert_eq!(taken.len(), 9);
    }

    #[test]
    fn no_more_is_touched_than_the_limit_while_readers_are_waited_for() {
        let (qsbr, blocks) = (Qsbr::new(), Blocks::new(10, 3));
        let reader = qsbr.register().expect("a place");
        qsbr.online(reader);
        let both = [(); 2].map(|()| blocks.take_reserved(&qsbr).expect("below the limit"));
        blocks.retire(&qsbr, both[0]);
        assert_eq!(blocks.available(), 1);
        assert_eq!(blocks.take_reserved(&qsbr), None);
        qsbr.quiesce(reader);
        assert_eq!(blocks.take_reserved(&qsbr), Some(both[0]));
    }
}
