//! One buffer of a pool.

use std::{fmt, rc::Rc};

use super::{Class, Share, Shelves};

/// Memory of a pool with some bytes in it. Dropped, it goes back to its pool.
pub struct Buffer {
    memory: Box<[u8]>,
    /// At most [`super::BUFFER_BYTES_MAX`]. Buffers are moved often, so they are kept short.
    len: u32,
    class: Class,
    share: Share,
    home: Rc<Shelves>,
}

impl Buffer {
    /// One without bytes.
    #[inline]
    pub(super) fn new(memory: Box<[u8]>, class: Class, share: Share, home: Rc<Shelves>) -> Self {
        Self { memory, len: 0, class, share, home }
    }

    /// The bytes in it.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.len()]
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes it can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// The room behind its bytes. What is in there is of no meaning.
    #[must_use]
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.memory[self.len as usize..]
    }

    /// Makes the first `count` bytes of the room part of the bytes.
    ///
    /// # Panics
    /// Panics when the room is smaller.
    pub fn commit(&mut self, count: usize) {
        self.commit_with(count, &[]);
    }

    /// Makes the first `count` bytes of the room part of the bytes, and `tail` behind them.
    ///
    /// # Panics
    /// Panics when the room is smaller than both.
    #[inline]
    pub(crate) fn commit_with(&mut self, count: usize, tail: &[u8]) {
        let behind = &mut self.memory[self.len as usize..][count..];
        behind[..tail.len()].copy_from_slice(tail);
        self.len += (count + tail.len()) as u32;
    }

    /// Appends as many of `bytes` as there is room for; returns how many.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let room = self.room();
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.len += count as u32;
        count
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len().min(len) as u32;
    }

    /// Removes the first `count` bytes by moving the others to the front.
    pub(crate) fn remove_front(&mut self, count: usize) {
        self.memory.copy_within(count..self.len(), 0);
        self.len -= count as u32;
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    pub(crate) fn share(&self) -> Share {
        self.share
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.put_back(self.class, self.share, std::mem::take(&mut self.memory));
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len, self.capacity())
    }
}
