//! What is done beside the commands: taking dead records back, and remembering when was what.

use base::sync::{atomic::Ordering, lock};

use super::Worker;
use crate::{blocks::Owner, record::EPOCHS};

/// Blocks looked at without a sweep before other threads need not wait any longer: some 10 us.
const LOOKS_PER_QUIESCENCE: usize = 4096;

impl Worker {
    /// Reclaims expired and flushed records in at most `blocks_max` blocks that have some, going
    /// round the arena from call to call. Returns whether the round is not finished. To be called
    /// about once a second by one thread.
    pub fn sweep(&mut self, blocks_max: usize) -> bool {
        self.quiesce();
        self.sweep_on(blocks_max)
    }

    fn sweep_on(&self, blocks_max: usize) -> bool {
        let table = &self.cache.table;
        let memory = &table.memory;
        let mut round = lock(&table.sweep);
        if round.next == 0 {
            round.flushes = memory.flushes.load(Ordering::Acquire);
            round.is_clean = true;
        }
        // Records of an earlier generation can be anywhere.
        let everywhere = round.flushes != table.swept_flushes.load(Ordering::Relaxed);
        let mut swept = 0;
        let end = memory.blocks.touched_end();
        while round.next < end && swept < blocks_max {
            let block = round.next;
            if let Owner::SubTable { number, first_run } = memory.blocks.owner(block)
                && (everywhere || memory.blocks.earliest_expiry_ms(block) <= self.now_ms)
            {
                let sub_table = &table.sub_tables()[number];
                let is_clean = sub_table.sweep_block(memory, first_run, block, self.now_ms);
                round.is_clean &= is_clean;
                swept += 1;
                memory.qsbr.quiesce(self.place);
            }
            round.next += 1;
            if round.next.is_multiple_of(LOOKS_PER_QUIESCENCE) {
                memory.qsbr.quiesce(self.place);
            }
        }
        if round.next < end {
            return true;
        }
        // What was left would come back with its generation's number.
        if round.is_clean {
            table.swept_flushes.store(round.flushes, Ordering::Release);
        }
        round.next = 0;
        drop(round);
        table.keep_ghosts(self.now_ms);
        false
    }

    /// Takes one step, of some milliseconds, towards the memory that [`crate::Cache::set_memory`]
    /// asked for, and gives back what index and ghosts no longer need when memory is scarce.
    /// Returns whether there is more to do at once. To be called about once a second by one thread.
    pub fn fit(&mut self) -> bool {
        self.quiesce();
        self.cache.table.fit(self.now_ms)
    }

    /// Makes every record dead that has been stored, and forgets a flush that waits.
    pub fn flush(&mut self) {
        self.cache.table.flush_at(0);
        self.begin_generation();
    }

    /// The same where others have records beside the cache that are as dead from now on: what they
    /// have looked up before, and store with [`Worker::set_as_of`], is dead also if nothing was
    /// stored since the last flush.
    pub fn flush_with_source(&mut self) {
        // A flush after which none was drawn is the one before it.
        self.cache.table.draw();
        self.flush();
    }

    /// A record's header tells sixteen flush generations apart: before one comes round again, what
    /// was stored in it is swept. A flush after which nothing was stored needs no generation.
    #[cold]
    pub(super) fn begin_generation(&mut self) {
        let table = &self.cache.table;
        let memory = &table.memory;
        // Before the generation begins: a writer takes its generation before its sequence, so one
        // that is in the new generation drew its sequence after this.
        let sequence = table.next_sequence();
        if table.flushed_before.load(Ordering::Acquire) == sequence {
            // Whoever has begun it may not have come to this yet.
            if !base::mutant!("cache_flush_keeps_waiting") {
                self.clear_victims();
            }
            return;
        }
        loop {
            let flushes = memory.flushes.load(Ordering::Acquire);
            if flushes - table.swept_flushes.load(Ordering::Acquire) >= EPOCHS - 2 {
                self.sweep_on(usize::MAX);
                continue;
            }
            // On the number that was looked at: others flush, too.
            let next = flushes + 1;
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            if memory.flushes.compare_exchange(flushes, next, order.0, order.1).is_ok() {
                break;
            }
        }
        table.flushed_before.store(sequence, Ordering::Release);
        self.clear_victims();
    }
}
