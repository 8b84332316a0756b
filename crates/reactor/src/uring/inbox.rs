//! Memory that the kernel receives into, in chunks that it chooses itself.
//!
//! Owns one block: a ring of entries that tells the kernel which chunks it may fill, and the
//! chunks. A chunk is either the kernel's, from [`Inbox::offer`] until the completion that names
//! it, or ours, as a [`Held`]. A `Held` is not dropped but given back.
//!
//! Thread safety: none; the kernel fills chunks and reads entries only within calls that the
//! owning thread makes, or while no chunk in question is ours.
//!
//! Invariants:
//! 1. A chunk is never read while it is the kernel's, and never offered while it is held.
//! 2. The block outlives the registration with the kernel: who registers it sees to that.
//!
//! Source: io_uring_register_buf_ring(3).
#![expect(unsafe_code, reason = "memory shared with the kernel")]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

/// Bytes of an entry: address, length, number of the chunk, and two bytes of reserve, which in
/// the first entry are the ring's tail.
const ENTRY_BYTES: usize = 16;
const LENGTH_AT: usize = 8;
const NUMBER_AT: usize = 12;
const TAIL_AT: usize = 14;

/// The ring has to begin on a page.
const ALIGN_BYTES: usize = 4096;

/// Most chunks: the kernel counts them in 16 bits, and a ring is at most half of that.
pub(super) const CHUNKS_MAX: usize = 1 << 15;

/// The block.
#[derive(Debug)]
pub(super) struct Inbox {
    block: NonNull<u8>,
    layout: Layout,
    chunks: u16,
    chunk_bytes: usize,
    chunks_at: usize,
    tail: u16,
    /// Whose each chunk is.
    ours: Vec<bool>,
    held: usize,
}

/// A chunk that is ours, and which of its bytes have not been used.
#[derive(Debug)]
pub(super) struct Held {
    number: u16,
    start: usize,
    end: usize,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Notes that the first `count` bytes have been used.
    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "more used than received");
        self.start += count;
    }
}

impl Inbox {
    /// `chunks` (a power of two) chunks of `chunk_bytes`, all offered. `None` without memory.
    pub(super) fn new(chunks: usize, chunk_bytes: usize) -> Option<Self> {
        assert!(chunks.is_power_of_two() && chunks <= CHUNKS_MAX, "{chunks} chunks");
        let chunks_at = (chunks * ENTRY_BYTES).next_multiple_of(ALIGN_BYTES);
        let bytes = chunks_at + chunks * chunk_bytes;
        let layout = Layout::from_size_align(bytes, ALIGN_BYTES).ok()?;
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let number = u16::try_from(chunks).expect("invariant: CHUNKS_MAX fits");
        let ours = vec![true; chunks];
        let mut inbox = Self {
            block,
            layout,
            chunks: number,
            chunk_bytes,
            chunks_at,
            tail: 0,
            ours,
            held: chunks,
        };
        (0..number).for_each(|number| inbox.offer(number));
        inbox.publish();
        Some(inbox)
    }

    /// Where the ring of entries begins.
    pub(super) fn address(&self) -> u64 {
        self.block.as_ptr().expose_provenance() as u64
    }

    pub(super) fn chunks(&self) -> u16 {
        self.chunks
    }

    /// Chunks that are ours.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Takes the chunk that a completion names, with `len` bytes.
    ///
    /// # Panics
    /// Panics when the chunk is not the kernel's or not so long: then nothing about the memory is
    /// known any more.
    pub(super) fn take(&mut self, number: u16, len: usize) -> Held {
        let ours = &mut self.ours[usize::from(number)];
        assert!(!*ours && len <= self.chunk_bytes, "a chunk that the kernel cannot have filled");
        *ours = true;
        self.held += 1;
        Held { number, start: 0, end: len }
    }

    /// The bytes of a chunk that have not been used.
    pub(super) fn bytes(&self, held: &Held) -> &[u8] {
        debug_assert!(self.ours[usize::from(held.number)], "held chunks are ours");
        let at = self.chunks_at + usize::from(held.number) * self.chunk_bytes + held.start;
        // SAFETY: a `Held` comes from `take`, so its chunk lies in the block, its bytes are
        // initialized (the block was zeroed), and the kernel has let go of it until `give_back`
        // consumes the `Held`, which the borrow of it keeps from happening.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().add(at), held.len()) }
    }

    /// Gives a chunk back to the kernel; seen by it after [`Inbox::publish`].
    #[expect(clippy::needless_pass_by_value, reason = "it must not be used again")]
    pub(super) fn give_back(&mut self, held: Held) {
        self.offer(held.number);
    }

    /// Shows the kernel what has been given back.
    pub(super) fn publish(&mut self) {
        // SAFETY: the tail lies in the block, is aligned to two bytes, and is touched by atomic
        // accesses only; the kernel reads it with acquire, so that it sees the entries.
        let tail = unsafe { AtomicU16::from_ptr(self.block.as_ptr().add(TAIL_AT).cast()) };
        tail.store(self.tail, Ordering::Release);
    }

    fn offer(&mut self, number: u16) {
        let index = usize::from(number);
        assert!(std::mem::replace(&mut self.ours[index], false), "offered twice");
        self.held -= 1;
        let at = usize::from(self.tail & (self.chunks - 1)) * ENTRY_BYTES;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the entry lies in the block at a multiple of its size, and the chunk behind the
        // entries. No more chunks are offered than there are entries, so the kernel has read
        // what this one overwrites. The last two bytes are left alone: see `publish`.
        unsafe {
            let chunk = self.block.as_ptr().add(self.chunks_at + index * self.chunk_bytes);
            let entry = self.block.as_ptr().add(at);
            entry.cast::<u64>().write(chunk.expose_provenance() as u64);
            entry.add(LENGTH_AT).cast::<u32>().write(self.chunk_bytes as u32);
            entry.add(NUMBER_AT).cast::<u16>().write(number);
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout, and who registered it keeps the inbox
        // until the kernel has let go of it.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests;
