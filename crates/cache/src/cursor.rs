//! Going through all records of a cache while it serves.
//!
//! A record that is there from the first step to the last is met at least once, however the index
//! grows meanwhile; one that is written again in between is met as it was or as it is, never torn.
//! Records that come or go may be met or not. A step visits one bucket, so it is over within a
//! microsecond, and it counts for nobody's replacement. While somebody goes through a cache its
//! index does not shrink.
//!
//! Thread safety: a cursor may go from thread to thread; each step is made with the worker of the
//! thread that makes it.

use base::sync::Arc;

use crate::{KEY_LEN_MAX, Meta, Step, Worker, index::Found, table::Table};

/// A place in a cache that is gone through. Dropped, it lets another one begin.
#[derive(Debug)]
pub struct Cursor {
    table: Arc<Table>,
    walk: u64,
}

/// A record that a cursor has met. It is locked as long as it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'r> {
    /// The key.
    pub key: &'r [u8],
    /// The other fields.
    pub meta: Meta,
    /// Milliseconds since it was stored, as [`crate::View::age_ms`] has them.
    pub age_ms: u64,
}

impl Cursor {
    /// A cursor before the first record. `None` while another goes through the same cache, unless
    /// it has made no step for half a minute: then that one is lost.
    #[must_use]
    pub fn begin(worker: &Worker) -> Option<Self> {
        let table = Arc::clone(worker.table());
        let walk = table.memory.index.begin_walk(worker.now_ms())?;
        Some(Self { table, walk })
    }

    /// Shows `visit` the live records of the next bucket: few, often none, never more than some
    /// hundred. They are locked meanwhile: `visit` must be quick, and call no worker.
    pub fn step(&mut self, worker: &mut Worker, mut visit: impl FnMut(&Listed<'_>)) -> Step {
        assert!(Arc::ptr_eq(&self.table, worker.table()), "a cursor goes through its own cache");
        let (table, now_ms) = (&*self.table, worker.now_ms());
        let memory = &table.memory;
        let show = |found: Found<'_>| {
            let slot = memory.slot(found.entry.location());
            let header = slot.header();
            if memory.is_dead(slot, header, now_ms) {
                return;
            }
            let mut room = [0; KEY_LEN_MAX];
            let key = &mut room[..header.key_len()];
            slot.copy_exactly(header.key_at(), key);
            let meta = slot.meta(header, found.entry.fetched());
            visit(&Listed { key, meta, age_ms: table.age_ms(meta.token, now_ms) });
        };
        memory.index.step_walk(&memory.arena, self.walk, now_ms, show)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.table.memory.index.end_walk(self.walk);
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests;
