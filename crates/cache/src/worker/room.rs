//! Memory for a new record, and waiting for it.

use super::Worker;
use crate::{StoreError, subtable::Newcomer};

/// Times that a thread waits for memory, which others hold until their present command ends: at
/// first it lets them run, then it sleeps for [`WAIT`] while a block waits for them. All of it is
/// some 30 ms, enough for a thread that was preempted on a busy machine.
pub(super) const WAITS_MAX: usize =
    if cfg!(any(loom, shuttle, miri)) { 8 } else { 19 * WAITS_PER_REFILL + 1 };
const YIELDS: usize = 16;
#[cfg(not(any(loom, shuttle, miri)))]
const WAIT: std::time::Duration = std::time::Duration::from_micros(50);

/// Of these, the first and every so many more ask other sub-tables for a block: that costs more
/// than waiting for one that was given.
const WAITS_PER_REFILL: usize = 16;

/// The same for a thread that can do without the record: it asks twice, and lets others run
/// between.
pub(super) const HASTY_WAITS_MAX: usize =
    if cfg!(any(loom, shuttle, miri)) { 2 } else { WAITS_PER_REFILL + 1 };

/// Whether the next put will need a slot, as the last ones did or did not.
#[derive(Debug, Default)]
pub(super) struct SlotNeed(u8);

impl SlotNeed {
    /// Puts that are remembered, more or less. One that needed no slot counts twice, as a slot that
    /// is made in vain costs more than one that is made late.
    const MAX: u8 = if cfg!(any(loom, shuttle, miri)) { 2 } else { 16 };

    #[inline]
    pub(super) fn is_likely(&self) -> bool {
        self.0 >= Self::MAX / 2
    }

    #[inline]
    pub(super) fn note(&mut self, needed: bool) {
        self.0 = if needed { (self.0 + 1).min(Self::MAX) } else { self.0.saturating_sub(2) };
    }
}

impl Worker {
    /// A block for a large value of `len` bytes.
    pub(crate) fn take_block(&mut self, len: usize) -> Result<u32, StoreError> {
        for wait in 0..self.waits_max {
            let memory = &self.table().memory;
            if let Some(block) = memory.blocks.take_reserved(&memory.qsbr) {
                self.table().refill_reserve(None, self.now_ms);
                return Ok(block);
            }
            if wait % WAITS_PER_REFILL == 0 {
                self.table().refill_reserve(None, self.now_ms);
            }
            if !self.wait_for_memory(wait) {
                break;
            }
        }
        self.table().note_out_of_memory();
        Err(StoreError::OutOfMemory { len })
    }

    /// A slot for a record with `len` bytes of value. No locks and nothing found may be held.
    pub(super) fn take_slot(
        &mut self,
        class: usize,
        hash: u64,
        len: usize,
    ) -> Result<usize, StoreError> {
        let left = self.table().memory.take_ghost(hash);
        for wait in 0..self.waits_max {
            let newcomer = Newcomer { turn: &self.turn, hash, left, now_ms: self.now_ms };
            if wait % WAITS_PER_REFILL == 0 {
                if let Ok(location) = self.table().allocate(class, newcomer) {
                    return Ok(location);
                }
                // All that this shard has may be held for long.
                self.turn.skip();
            }
            if !self.wait_for_memory(wait) {
                break;
            }
        }
        self.table().note_out_of_memory();
        Err(StoreError::OutOfMemory { len })
    }

    /// What was just given is free when every thread has been quiescent, this one first. Returns
    /// whether there is anything to wait for.
    fn wait_for_memory(&mut self, wait: usize) -> bool {
        self.quiesce();
        if wait < YIELDS {
            base::sync::thread::yield_now();
            return true;
        }
        // Nobody asks again after the last time, and what is not evicted is not on its way.
        let memory = &self.table().memory;
        if wait + 1 >= self.waits_max || memory.blocks.available() == 0 || !memory.evicts {
            return false;
        }
        // Offline, so that others who wait need not wait for this one.
        #[cfg(not(any(loom, shuttle, miri)))]
        self.offline(|| base::sync::thread::sleep(WAIT));
        true
    }

    /// A piece for the tail of a large value.
    pub(crate) fn take_piece(&mut self, class: usize) -> Result<usize, StoreError> {
        loop {
            if let Some(piece) = self.table().memory.pieces.take(class) {
                return Ok(piece);
            }
            let block = self.take_block(crate::geometry::piece_bytes(class))?;
            let memory = &self.table().memory;
            memory.pieces.supply(memory, class, block);
        }
    }
}
