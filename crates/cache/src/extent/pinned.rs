//! A value that somebody sends.

#![expect(unsafe_code, reason = "shows parts of the arena as bytes while they are pinned")]

use base::sync::Arc;

use super::{Parts, unpin};
use crate::{Meta, memory::Memory, table::Table};

/// A large value that stays where it is, unchanged, until this is dropped.
#[derive(Debug)]
pub struct Pinned {
    table: Arc<Table>,
    location: usize,
    meta: Meta,
    parts: Parts,
}

impl Pinned {
    /// Takes over a pin that was taken and confirmed.
    pub(crate) fn new(table: Arc<Table>, location: usize, meta: Meta) -> Self {
        let parts = Parts::of_head(&table.memory, location);
        Self { table, location, meta, parts }
    }

    /// Where its head is.
    pub(crate) fn location(&self) -> usize {
        self.location
    }

    /// The record's fields.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The value in order, in slices of at most 64 KiB.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.ranges(&self.table.memory).map(|(at, len)| {
            // SAFETY: parts are written before their head is published and freed when nobody is
            // counted in it; this pin is counted until `self` is dropped.
            unsafe { self.table.memory.arena.bytes(at, len) }
        })
    }
}

/// Shows the value in parts of a record, in slices of at most 64 KiB. The caller holds the lock of
/// its bucket, and its head is linked: the index leads to it, or has until a moment ago.
pub(crate) fn show_linked(memory: &Memory, location: usize, mut show: impl FnMut(&[u8])) {
    for (at, len) in Parts::of_head(memory, location).ranges(memory) {
        // SAFETY: parts are written before their head is published and freed when nobody is counted
        // in it; the index is until `unlinked` says that it leads there no more, which comes behind
        // this. Pieces move under the lock of the bucket only.
        show(unsafe { memory.arena.bytes(at, len) });
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if unpin(&self.table.memory, self.location) {
            self.table.free_slot(self.location);
        }
    }
}
