//! Values in the buffers that they were read into.
//!
//! A buffer is on its worker's [`Shelf`], with a read, or with an answer: a [`ReadValue`]. Whoever
//! has that has the buffer alone, and what is done with it, sending it for instance, has ended when
//! it is dropped; only then is anything else read into it.

use std::{fmt, ops::Range, sync::Arc};

use log::plan::Buffer;

use crate::shelf::Shelf;

/// A value in the buffer that it was read into.
pub struct ReadValue {
    /// Nothing, once it is dropped.
    buffer: Option<Buffer>,
    /// Where the value is in it.
    value: Range<usize>,
    /// What is to be sent, within the whole of the buffer, if that is known.
    sent: Option<Range<usize>>,
    shelf: Arc<Shelf>,
    /// It counts as one that an answer has.
    is_answered: bool,
}

impl ReadValue {
    /// What was read into a buffer, of which nothing is known yet.
    pub(crate) fn new(buffer: Buffer, shelf: &Arc<Shelf>) -> Self {
        let (buffer, shelf) = (Some(buffer), Arc::clone(shelf));
        Self { buffer, value: 0..0, sent: None, shelf, is_answered: false }
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("invariant: it has one until it is dropped")
    }

    /// Says where in the buffer the value is.
    pub(crate) fn lies_at(&mut self, value: Range<usize>) {
        self.value = value;
    }

    /// Lets it go with an answer. Itself when as many are with answers as may be.
    pub(crate) fn answer(mut self) -> Result<Self, Self> {
        if !Shelf::is_short(self.buffer()) {
            // It has none of the buffers that reads to come are sure of.
            return Ok(self);
        }
        self.is_answered = true;
        if self.shelf.answer() { Ok(self) } else { Err(self) }
    }

    /// The value.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer().as_slice()[self.value.clone()]
    }

    /// Bytes of the buffer.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.buffer().as_slice().len()
    }

    /// Writes `header` before the value and `trailer` behind it, where they lie. False, and nothing
    /// is written, where the buffer has no room for them.
    #[must_use]
    pub fn dress(&mut self, header: &[u8], trailer: &[u8]) -> bool {
        let buffer = self.buffer.as_mut().expect("invariant: it has one until it is dropped");
        self.sent = buffer.wrap(self.value.clone(), header, trailer);
        self.sent.is_some()
    }

    /// Whether something was written around it.
    #[must_use]
    pub fn is_dressed(&self) -> bool {
        self.sent.is_some()
    }

    /// The value with what was written around it.
    #[must_use]
    pub fn dressed(&self) -> &[u8] {
        match &self.sent {
            Some(sent) => &self.buffer().whole()[sent.clone()],
            None => self.bytes(),
        }
    }
}

impl Drop for ReadValue {
    fn drop(&mut self) {
        if self.is_answered {
            self.shelf.end_answer();
        }
        if let Some(buffer) = self.buffer.take()
            && !base::mutant!("store_read_values_lost")
        {
            self.shelf.give_back(buffer);
        }
    }
}

impl fmt::Debug for ReadValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes that were read", self.value.len())
    }
}
