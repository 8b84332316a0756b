//! A record as a writer sees it under its lock.

use base::sync::Arc;

use crate::{
    Get, INLINE_VALUE_MAX_BYTES, Meta, Output, Pinned, extent,
    index::Found,
    record::{Header, Slot},
    table::Table,
};

/// A record as it is under its lock.
#[derive(Debug)]
pub struct View<'r> {
    table: &'r Arc<Table>,
    found: Found<'r>,
    slot: Slot<'r>,
    header: Header,
    now_ms: u64,
}

impl<'r> View<'r> {
    pub(super) fn new(table: &'r Arc<Table>, found: Found<'r>, now_ms: u64) -> Self {
        let slot = table.memory.slot(found.entry.location());
        Self { table, found, slot, header: slot.header(), now_ms }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.table.memory.is_dead(self.slot, self.header, self.now_ms)
    }

    pub(super) fn found(&self) -> &Found<'r> {
        &self.found
    }

    pub(super) fn header(&self) -> Header {
        self.header
    }

    pub(super) fn slot(&self) -> Slot<'r> {
        self.slot
    }

    /// The record's fields.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.slot.meta(self.header, self.found.entry.fetched())
    }

    /// Copies the first bytes of the value, as many as `out` has room for; returns how many. Of a
    /// value longer than [`INLINE_VALUE_MAX_BYTES`] nothing is copied.
    pub fn copy_prefix(&self, out: &mut [u8]) -> usize {
        let len = out.len().min(self.header.value_len()).min(INLINE_VALUE_MAX_BYTES);
        self.slot.copy_exactly(self.header.value_at(), &mut out[..len]);
        len
    }

    pub(super) fn value_len(&self) -> usize {
        self.meta().value_len as usize
    }

    /// Copies the value, which `out` has room for.
    pub(super) fn copy(&self, out: &mut Vec<u8>) {
        if self.header.in_parts() {
            let location = self.found.entry.location();
            return extent::show_linked(&self.table.memory, location, |part| {
                out.extend_from_slice(part);
            });
        }
        out.resize(self.header.value_len(), 0);
        self.slot.copy_exactly(self.header.value_at(), out);
    }

    /// Reads the record into `out`, as [`crate::Worker::get`] would.
    pub fn read(&self, out: &mut impl Output) -> Get {
        let meta = self.meta();
        if !self.header.in_parts() {
            self.slot.copy(self.header.value_at(), self.header.value_len(), out.begin(&meta));
            return Get::Hit(meta);
        }
        super::read::pin(self.table, self.found.entry.location(), meta)
    }

    /// Pins a value in parts, whatever else is pinned.
    pub(super) fn pin(&self) -> Option<Pinned> {
        let location = self.found.entry.location();
        extent::pin(&self.table.memory, location)
            .then(|| Pinned::new(Arc::clone(self.table), location, self.meta()))
    }

    /// Milliseconds since the record's token was drawn: since it was stored. Right to a tenth of a
    /// second for recent records; of no meaning for a token that a client chose.
    ///
    /// Reading writes nothing, so nobody knows when a record was last read.
    #[must_use]
    pub fn age_ms(&self) -> u64 {
        self.table.age_ms(self.meta().token, self.now_ms)
    }
}
