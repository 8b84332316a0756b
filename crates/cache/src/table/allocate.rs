//! Finding a slot for a new record: in which shard, and what is done when it has none.

use super::Table;
use crate::subtable::{Newcomer, NoSlot};

/// Attempts to find memory for one record: each takes a block from another sub-table, and two in
/// a row fail only when other threads take what was freed, or look at it.
const ALLOCATE_ATTEMPTS: usize = 4;

impl Table {
    /// The sub-table that a new record goes to.
    #[inline]
    fn number(&self, class: usize, newcomer: Newcomer<'_>) -> usize {
        class << self.shard_bits | newcomer.turn.shard(1 << self.shard_bits)
    }

    /// A slot of `class` for a key, its old content of no meaning. Fails when it takes a block that
    /// readers may still be looking at.
    pub(crate) fn allocate(&self, class: usize, newcomer: Newcomer<'_>) -> Result<usize, NoSlot> {
        let mut number = self.number(class, newcomer);
        let allocated = self.sub_tables[number].try_allocate(&self.memory, newcomer);
        let allocated = allocated.unwrap_or_else(|| {
            // Another thread is here: rather than follow it from shard to shard, go on to the next.
            newcomer.turn.skip();
            number = self.number(class, newcomer);
            self.sub_tables[number].allocate(&self.memory, newcomer, false)
        });
        match allocated {
            Ok((location, lap)) => {
                if lap {
                    self.rebalance(number, newcomer.now_ms);
                }
                Ok(location)
            }
            Err(NoSlot) => self.allocate_anyhow(number, newcomer),
        }
    }

    /// The same for a sub-table that has nothing to evict, or need not: it gets a block of the
    /// reserve, and the reserve one back.
    #[cold]
    #[inline(never)]
    fn allocate_anyhow(&self, number: usize, newcomer: Newcomer<'_>) -> Result<usize, NoSlot> {
        let sub_table = &self.sub_tables[number];
        if !self.memory.evicts {
            return self.allocate_unused(number, newcomer);
        }
        for _ in 1..ALLOCATE_ATTEMPTS {
            if let Some(block) = self.memory.blocks.take_reserved(&self.memory.qsbr) {
                sub_table.supply(&self.memory, block, newcomer.now_ms);
            }
            self.refill_reserve(Some(number), newcomer.now_ms);
            if let Ok((location, lap)) = sub_table.allocate(&self.memory, newcomer, true) {
                if lap {
                    self.rebalance(number, newcomer.now_ms);
                }
                return Ok(location);
            }
        }
        Err(NoSlot)
    }

    /// The same where nothing is evicted: only what nobody uses can be had, in any shard. What this
    /// one has not, another one may have, up to a block less a slot.
    fn allocate_unused(&self, number: usize, newcomer: Newcomer<'_>) -> Result<usize, NoSlot> {
        let class = number >> self.shard_bits;
        for _ in 0..1 << self.shard_bits {
            newcomer.turn.skip();
            let sub_table = &self.sub_tables[self.number(class, newcomer)];
            if let Ok((location, _)) = sub_table.allocate(&self.memory, newcomer, true) {
                return Ok(location);
            }
        }
        // It is free when all threads have been quiescent.
        self.take_spare();
        Err(NoSlot)
    }
}
