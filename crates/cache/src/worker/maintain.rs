//! What is done beside the commands: taking dead records back, and remembering when was what.

use base::sync::atomic::Ordering;

use super::Worker;
use crate::{blocks::Owner, record::EPOCHS};

impl Worker {
    /// Reclaims expired and flushed records in at most `blocks_max` blocks that have some, going
    /// round the arena from call to call. Returns whether the round is not finished. To be called
    /// about once a second by one thread.
    pub fn sweep(&mut self, blocks_max: usize) -> bool {
        self.quiesce();
        let table = &self.cache.table;
        let memory = &table.memory;
        table.note_time(self.now_ms);
        let total = memory.blocks.len();
        let mut swept = 0;
        let mut at = table.sweep_cursor.load(Ordering::Relaxed);
        if at == 0 {
            let flushes = memory.flushes.load(Ordering::Acquire);
            table.sweep_round_flushes.store(flushes, Ordering::Relaxed);
        }
        // Records of an earlier generation can be anywhere.
        let everywhere =
            memory.flushes.load(Ordering::Acquire) != table.swept_flushes.load(Ordering::Relaxed);
        while at < total && swept < blocks_max {
            if let Owner::SubTable { number, first_run } = memory.blocks.owner(at)
                && (everywhere || memory.blocks.earliest_expiry_ms(at) <= self.now_ms)
            {
                table.sub_tables()[number].sweep_block(memory, first_run, at, self.now_ms);
                swept += 1;
                memory.qsbr.quiesce(self.place);
            }
            at += 1;
        }
        let finished = at >= total;
        if finished {
            let flushes = table.sweep_round_flushes.load(Ordering::Relaxed);
            table.swept_flushes.store(flushes, Ordering::Relaxed);
            table.keep_ghosts(self.now_ms);
        }
        table.sweep_cursor.store(if finished { 0 } else { at }, Ordering::Relaxed);
        !finished
    }

    /// Flushes now. A record's header tells eight generations apart: before one comes round again,
    /// what was stored in it is swept.
    pub fn flush(&mut self) {
        loop {
            let memory = &self.table().memory;
            let flushes = memory.flushes.load(Ordering::Acquire);
            if flushes - self.table().swept_flushes.load(Ordering::Acquire) < EPOCHS - 2 {
                break;
            }
            self.sweep(usize::MAX);
        }
        self.cache.table.flush_at(0);
    }
}
