//! Taking expired and flushed records back before anything live has to go.

use base::sync::lock;

use super::{State, SubTable};
use crate::{
    Dead,
    blocks::Owner,
    extent,
    geometry::BLOCK_WORDS,
    index::{Contended, Found},
    memory::Memory,
};

/// Blocks whose earliest expiry is looked at before one record is evicted.
const LOOK_BLOCKS_MAX: u32 = 64;

/// How many slots ahead of the sweep the index lines of dead records are asked for: they are cold,
/// and one after the other they would be most of a sweep's time.
const SWEEP_AHEAD: usize = 8;

impl SubTable {
    /// Removes what is dead in one block, if it belongs to this sub-table with these runs. Says
    /// whether all of that has gone: a record that somebody is at stays.
    pub(crate) fn sweep_block(
        &self,
        memory: &Memory,
        first_run: u32,
        block: usize,
        now_ms: u64,
    ) -> bool {
        let mut state = lock(&self.state);
        // Its owner may have changed between the caller's look and the lock.
        let is_ours = state.owns(memory, first_run, block);
        let is_clean = !is_ours || state.sweep(memory, first_run, block, now_ms);
        if !state.draining.is_empty() {
            self.finish_drains(memory, &mut state);
        }
        self.note_free_slots(memory, &state);
        is_clean
    }

    /// Appends the keys of what is live in one block, if it belongs to this sub-table with these
    /// runs: each as a byte of length, and its bytes.
    pub(crate) fn list_block(
        &self,
        memory: &Memory,
        first_run: u32,
        block: usize,
        now_ms: u64,
        keys: &mut Vec<u8>,
    ) {
        let state = lock(&self.state);
        if !state.owns(memory, first_run, block) {
            return;
        }
        let runs = u32::try_from(state.runs.runs_per_block).expect("invariant: at most 16");
        let slots = (first_run..first_run + runs).flat_map(|run| state.runs.slots(run));
        for location in slots {
            let slot = memory.slot(location);
            let header = slot.header();
            let len = header.key_len();
            let is_record = len != 0 && slot.holds(header) && memory.find(location).is_some();
            if is_record && !memory.is_dead(slot, header, now_ms) {
                keys.push(u8::try_from(len).expect("invariant: at most 250"));
                let start = keys.len();
                keys.resize(start + len, 0);
                slot.copy_exactly(header.key_at(), &mut keys[start..]);
            }
        }
    }
}

impl State {
    /// Whether a block's slots are these runs'.
    pub(super) fn owns(&self, memory: &Memory, first_run: u32, block: usize) -> bool {
        matches!(
            memory.blocks.owner(block),
            Owner::SubTable { first_run: run, .. } if run == first_run
        ) && self.runs.start_of(first_run) == Some(block * BLOCK_WORDS)
    }

    /// Whether a location is in a block that is this sub-table's.
    pub(super) fn has(&self, memory: &Memory, location: usize) -> bool {
        let block = location / BLOCK_WORDS;
        match memory.blocks.owner(block) {
            Owner::SubTable { first_run, .. } => self.owns(memory, first_run, block),
            _ => false,
        }
    }

    /// Before evicting: sweeps one block in which something has expired, if there is one near the
    /// cursor. Once in as many allocations as a block has slots, so that looking at a whole block
    /// costs each of them one slot.
    pub(super) fn reclaim_expired(&mut self, memory: &Memory, now_ms: u64) {
        self.since_sweep += 1;
        if self.since_sweep < self.runs.slots_per_run * self.runs.runs_per_block {
            return;
        }
        self.since_sweep = 0;
        for _ in 0..LOOK_BLOCKS_MAX {
            let next = self.runs.next_block(&mut self.sweep_cursor);
            let Some((first_run, start)) = next else { return };
            let block = start / BLOCK_WORDS;
            if memory.blocks.earliest_expiry_ms(block) <= now_ms {
                self.sweep(memory, first_run, block, now_ms);
                return;
            }
        }
    }

    /// Removes what is dead in one block. Says whether all of that has gone.
    fn sweep(&mut self, memory: &Memory, first_run: u32, block: usize, now_ms: u64) -> bool {
        debug_assert_eq!(self.runs.start(first_run) / BLOCK_WORDS, block);
        // Writers lower it again while this looks at every record.
        memory.blocks.forget_expiry(block);
        let runs = u32::try_from(self.runs.runs_per_block).expect("invariant: at most 16");
        let mut is_clean = true;
        for run in first_run..first_run + runs {
            let mut ahead = self.runs.slots(run);
            for location in ahead.by_ref().take(SWEEP_AHEAD) {
                ask_for_entry(memory, location, now_ms);
            }
            for location in self.runs.slots(run) {
                if let Some(later) = ahead.next() {
                    ask_for_entry(memory, later, now_ms);
                }
                is_clean &= self.sweep_slot(memory, location, now_ms);
            }
        }
        is_clean
    }

    /// Removes the record of a slot, if there is a dead one. Says whether there is none any more.
    fn sweep_slot(&mut self, memory: &Memory, location: usize, now_ms: u64) -> bool {
        let slot = memory.slot(location);
        let header = slot.header();
        if header.key_len() == 0 || !slot.holds(header) {
            return true;
        }
        self.tally.swept += 1;
        if !memory.is_dead(slot, header, now_ms) {
            if header.has_expiry() && slot.expiry_ms(header) != 0 {
                memory.blocks.note_expiry(location / BLOCK_WORDS, slot.expiry_ms(header));
            }
            return true;
        }
        let is_gone = match memory.find_surely(location) {
            // It is on its way out, or the slot on its way in.
            Ok(None) => true,
            Ok(Some(found)) => self.remove_dead(memory, &found, now_ms),
            Err(Contended) => false,
        };
        if !is_gone {
            // Somebody is at it, or moves its entry: it is looked at again next time.
            memory.blocks.note_expiry(location / BLOCK_WORDS, now_ms);
        }
        is_gone || base::mutant!("cache_sweep_skips")
    }

    /// Removes a record if it is dead. Says whether no dead one is left.
    fn remove_dead(&mut self, memory: &Memory, found: &Found<'_>, now_ms: u64) -> bool {
        let location = found.entry.location();
        let slot = memory.slot(location);
        let Some(lock) = found.bucket.try_lock() else { return false };
        // Under the lock the record cannot change: is it still the dead one?
        let header = slot.header();
        if !memory.is_dead(slot, header, now_ms) {
            return true;
        }
        let won = memory.index.remove(&memory.arena, found);
        drop(lock);
        if won {
            self.tally.reclaimed += 1;
            let expired = memory.why_dead(header) == Dead::Expired;
            self.tally.expired_unfetched += u64::from(!found.entry.fetched() && expired);
            if extent::unlinked(memory, location) {
                self.give(memory, location);
            }
        }
        won
    }
}

/// Asks for the index lines that lead to a record, if it is dead.
fn ask_for_entry(memory: &Memory, location: usize, now_ms: u64) {
    let slot = memory.slot(location);
    let header = slot.header();
    if header.key_len() != 0
        && slot.holds(header)
        && memory.is_dead(slot, header, now_ms)
        && let Some(hash) = memory.hash_at(location)
    {
        memory.index.prefetch(&memory.arena, memory.index.candidates(hash));
    }
}
