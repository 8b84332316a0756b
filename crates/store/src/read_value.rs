//! Values in the buffers that they were read into, and the buffers of a worker.
//!
//! A buffer is on its worker's [`Shelf`], with a read, or with an answer: a [`ReadValue`]. Whoever
//! has that has the buffer alone, and what is done with it, sending it for instance, has ended when
//! it is dropped; only then is anything else read into it.
//!
//! Thread safety: a worker takes buffers off its shelf, and any thread puts them back.

use std::{fmt, ops::Range, sync::Arc};

use base::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    lock,
};
use log::plan::Buffer;

use crate::limits::{READ_BUFFERS_MAX, READ_BYTES_KEPT, READS_ANSWERED_MAX};

/// Buffers of [`READ_BYTES_KEPT`] that nobody uses, and how many are with answers.
#[derive(Debug)]
pub(crate) struct Shelf {
    free: Mutex<Vec<Buffer>>,
    answered: AtomicUsize,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        Self { free: Mutex::new(Vec::new()), answered: AtomicUsize::new(0) }
    }

    pub(crate) fn take(&self) -> Option<Buffer> {
        lock(&self.free).pop()
    }

    /// Keeps a buffer if it is of the size of these, and there are not more than are ever used.
    pub(crate) fn give_back(&self, buffer: Buffer) {
        if buffer.as_slice().len() == READ_BYTES_KEPT {
            let mut free = lock(&self.free);
            if free.len() < READ_BUFFERS_MAX {
                free.push(buffer);
            }
        }
    }
}

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
        // Others have none of the buffers of reads to come.
        if self.buffer().as_slice().len() == READ_BYTES_KEPT {
            let answered = self.shelf.answered.fetch_add(1, Ordering::Relaxed);
            self.is_answered = true;
            if answered >= READS_ANSWERED_MAX && !base::mutant!("store_answers_keep_all") {
                return Err(self);
            }
        }
        Ok(self)
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
            self.shelf.answered.fetch_sub(1, Ordering::Relaxed);
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
