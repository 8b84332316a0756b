//! How blocks go from one owner to the other: from sub-tables that can do without to those that
//! need one, and to the reserve that index, ghosts and large values take from.

use arrayvec::ArrayVec;
use base::sync::atomic::Ordering;

use super::Table;
use crate::{
    extent,
    geometry::{BLOCK_BYTES, is_head_class},
    index::Need,
    subtable::SubTable,
};

/// Sub-tables with less than this are taken from last, so that rare sizes keep a place.
const FLOOR_BYTES: usize = 2 * BLOCK_BYTES;

/// Values in parts go before blocks of slots unless those stay half as long again, as a fraction:
/// values go one by one and in the policy's order, a block with whatever lies in it.
const VALUES_FIRST: (u64, u64) = (3, 2);

/// Times that somebody gives something to refill the reserve, which has at most 64 blocks: values
/// that readers hold, and pieces of blocks, free nothing at once.
const REFILL_STEPS_MAX: usize = 256;

/// Sub-tables that are asked for a block in one go: those beyond have no more to give than these.
const DONORS_MAX: usize = 32;

impl Table {
    /// After a sub-table evicted a block's worth: takes a block for it from the one whose records
    /// stay longest for their size, if they stay much longer than its own.
    #[cold]
    pub(super) fn rebalance(&self, number: usize, now_ms: u64) {
        let own = self.sub_tables[number].weighted_residence(&self.memory, now_ms);
        if let Some(donor) = self.donor(&[number], FLOOR_BYTES, now_ms)
            && let ratio = donor.residence_ratio(&self.memory, own, now_ms)
            && self.sub_tables[number].may_take(ratio)
            && self.take_from(donor)
            && let Some(block) = self.memory.blocks.take_reserved(&self.memory.qsbr)
        {
            self.sub_tables[number].supply(&self.memory, block, now_ms);
        }
        self.refill_reserve(Some(number), now_ms);
        self.keep_ghosts(now_ms);
    }

    /// The sub-table whose records stay longest for their size, and of equals the largest, `except`
    /// aside.
    fn donor(&self, except: &[usize], floor_bytes: usize, now_ms: u64) -> Option<&SubTable> {
        let candidates = self.sub_tables.iter().filter(|sub_table| {
            sub_table.bytes(&self.memory) >= floor_bytes.max(1)
                && !except.contains(&sub_table.number())
        });
        candidates.max_by_key(|sub_table| {
            let of_heads = is_head_class(sub_table.number() >> self.shard_bits);
            let favour = if of_heads { VALUES_FIRST.0 } else { VALUES_FIRST.1 };
            let residence = sub_table.weighted_residence(&self.memory, now_ms);
            (favour * residence, sub_table.bytes(&self.memory))
        })
    }

    /// Makes a free block of free slots or free pieces, if there are enough of one class. Returns
    /// whether one is on its way.
    pub(crate) fn take_spare(&self) -> bool {
        self.take_spare_slots() || extent::compact(&self.memory)
    }

    /// Takes a block from the sub-table with most free slots, if one could do without.
    fn take_spare_slots(&self) -> bool {
        let hint = &self.memory.has_spare_slots;
        if !hint.load(Ordering::Relaxed) {
            return false;
        }
        let spare = |sub_table: &&SubTable| sub_table.spare_blocks();
        match self.sub_tables.iter().max_by_key(spare).filter(|donor| donor.spare_blocks() > 0) {
            Some(donor) => donor.give_block(&self.memory),
            None => {
                hint.store(false, Ordering::Relaxed);
                false
            }
        }
    }

    fn take_from(&self, donor: &SubTable) -> bool {
        if is_head_class(donor.number() >> self.shard_bits) {
            donor.give_value(&self.memory)
        } else {
            donor.give_block(&self.memory)
        }
    }

    /// Takes blocks from sub-tables until the reserve is full again, or nothing more can be had at
    /// once: first from those that have some, `needy` the last of them, then from whoever has one.
    /// The only block of `needy` stays: it may be the one that it was just given.
    pub(crate) fn refill_reserve(&self, needy: Option<usize>, now_ms: u64) {
        let mut steps = REFILL_STEPS_MAX;
        for (floor_bytes, spared) in [(FLOOR_BYTES, needy), (FLOOR_BYTES, None), (0, needy)] {
            let mut except: ArrayVec<usize, DONORS_MAX> = spared.into_iter().collect();
            while steps > 0 {
                steps -= 1;
                if !self.memory.blocks.is_short() {
                    return;
                }
                if self.take_spare() {
                    continue;
                }
                if !self.memory.evicts {
                    return;
                }
                match self.donor(&except, floor_bytes, now_ms) {
                    Some(donor) if self.take_from(donor) => {}
                    Some(donor) if !except.is_full() => except.push(donor.number()),
                    Some(_) => return,
                    None => break,
                }
            }
        }
    }

    /// Grows index and ghosts if the number of records asks for it.
    #[inline]
    pub(crate) fn keep_up(&self, now_ms: u64) {
        if self.memory.index.wants_growth(self.memory.records.load(Ordering::Relaxed)) {
            self.grow_index(now_ms);
        }
    }

    #[cold]
    fn grow_index(&self, now_ms: u64) {
        let memory = &self.memory;
        while let Some(need) = memory.index.growth_need() {
            let Some(block) = self.zeroed_block(now_ms) else { return };
            if let Err(block) = memory.index.supply(need, block) {
                memory.blocks.release(block);
                if need == Need::Overflow {
                    break;
                }
            }
        }
        memory.index.grow(&memory.arena, memory.records.load(Ordering::Relaxed));
    }

    /// What a failed insertion needs: overflow lines and more buckets. Returns whether there is
    /// reason to try again.
    pub(crate) fn make_index_room(&self, now_ms: u64) -> bool {
        let index = &self.memory.index;
        let before = (index.bytes(), index.buckets());
        self.grow_index(now_ms);
        (index.bytes(), index.buckets()) != before || index.has_overflow_lines()
    }

    /// After evictions: more ghosts if they would be used.
    pub(crate) fn keep_ghosts(&self, now_ms: u64) {
        let memory = &self.memory;
        if memory.ghosts.wants_block(memory.records.load(Ordering::Relaxed))
            && let Some(block) = self.zeroed_block(now_ms)
            && let Err(block) = memory.ghosts.supply(block)
        {
            memory.blocks.release(block);
        }
    }

    fn zeroed_block(&self, now_ms: u64) -> Option<u32> {
        let block = self.memory.blocks.take_reserved(&self.memory.qsbr);
        self.refill_reserve(None, now_ms);
        let block = block.or_else(|| self.memory.blocks.take_reserved(&self.memory.qsbr))?;
        self.memory.zero(block);
        Some(block)
    }
}
