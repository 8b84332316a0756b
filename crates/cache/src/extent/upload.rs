//! A value that arrives.

#![expect(unsafe_code, reason = "writes parts of the arena that nobody else can reach")]

use base::sync::{Arc, atomic::Ordering};

use super::Parts;
use crate::{
    StoreError, Worker,
    blocks::NO_BLOCK,
    geometry::{BLOCK_BYTES, BLOCK_WORDS, Cut, TAIL_PIECES_MAX, piece_bytes},
    table::Table,
};

/// A large value that is still arriving. Dropped, it gives its memory back.
#[derive(Debug)]
pub struct Upload {
    table: Arc<Table>,
    parts: Parts,
    cut: Cut,
    /// The block that is being filled; the last one of the chain.
    last_block: u32,
    filled: usize,
    held_bytes: usize,
    /// A head stands for the parts now.
    published: bool,
}

impl Upload {
    pub(crate) fn new(table: Arc<Table>, len: usize) -> Self {
        let parts = Parts { value_len: len, first_block: NO_BLOCK, tail: [None; TAIL_PIECES_MAX] };
        Self {
            table,
            parts,
            cut: Cut::new(len),
            last_block: NO_BLOCK,
            filled: 0,
            held_bytes: 0,
            published: false,
        }
    }

    /// Bytes of the whole value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.value_len
    }

    /// Whether the value has no bytes at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that are still missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.len() - self.filled
    }

    /// Takes the next bytes of the value: as many of `bytes` as are missing. Returns how many it
    /// took. May wait up to some 30 ms for each block for memory that readers are just leaving.
    ///
    /// # Errors
    /// [`StoreError::OutOfMemory`] and [`StoreError::UploadsFull`] when there is no memory for
    /// them; what has been taken stays.
    pub fn push(&mut self, worker: &mut Worker, bytes: &[u8]) -> Result<usize, StoreError> {
        let mut rest = &bytes[..bytes.len().min(self.missing())];
        let taken = rest.len();
        while !rest.is_empty() {
            let (at, skip, room) = self.place(worker)?;
            let (now, later) = rest.split_at(rest.len().min(room));
            // SAFETY: the part is this upload's alone until its head is published, and its block
            // was free, hence passed by every reader, when it was taken.
            unsafe { self.table.memory.arena.fill(at, skip, now) };
            self.filled += now.len();
            rest = later;
        }
        Ok(taken)
    }

    /// Where the next byte goes: first word of its part, bytes to skip there, bytes of room.
    fn place(&mut self, worker: &mut Worker) -> Result<(usize, usize, usize), StoreError> {
        let in_blocks = self.cut.blocks * BLOCK_BYTES;
        if self.filled < in_blocks {
            let skip = self.filled % BLOCK_BYTES;
            if skip == 0 {
                self.chain_block(worker)?;
            }
            return Ok((self.last_block as usize * BLOCK_WORDS, skip, BLOCK_BYTES - skip));
        }
        let mut skip = self.filled - in_blocks;
        for (place, piece) in self.cut.pieces.into_iter().enumerate() {
            let Some((class, bytes)) = piece else { continue };
            if skip < bytes {
                let at = match self.parts.tail[place] {
                    Some(at) => at,
                    None => {
                        self.hold(piece_bytes(class))?;
                        let at = worker.take_piece(class).inspect_err(|_| {
                            self.unhold(piece_bytes(class));
                        })?;
                        self.parts.tail[place] = Some(at);
                        at
                    }
                };
                return Ok((at, skip, bytes - skip));
            }
            skip -= bytes;
        }
        unreachable!("nothing is placed behind the last byte");
    }

    fn chain_block(&mut self, worker: &mut Worker) -> Result<(), StoreError> {
        self.hold(BLOCK_BYTES)?;
        let block = worker.take_block(self.len()).inspect_err(|_| self.unhold(BLOCK_BYTES))?;
        let blocks = &self.table.memory.blocks;
        blocks.set_next(block, NO_BLOCK);
        if self.last_block == NO_BLOCK {
            self.parts.first_block = block;
        } else {
            blocks.set_next(self.last_block, block);
        }
        self.last_block = block;
        Ok(())
    }

    fn hold(&mut self, bytes: usize) -> Result<(), StoreError> {
        let counter = &self.table.memory.counters.upload_bytes;
        let held = counter.fetch_add(bytes as u64, Ordering::Relaxed) as usize;
        let max = self.table.on_their_way_max_bytes();
        if held + bytes > max {
            counter.fetch_sub(bytes as u64, Ordering::Relaxed);
            return Err(StoreError::UploadsFull { held, max });
        }
        self.held_bytes += bytes;
        Ok(())
    }

    fn unhold(&mut self, bytes: usize) {
        self.held_bytes -= bytes;
        self.table.memory.counters.upload_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// The bytes that have arrived, in order. Only for a value that is complete.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        assert_eq!(self.missing(), 0, "an incomplete value has holes");
        self.parts.ranges(&self.table.memory).map(|(at, len)| {
            // SAFETY: the parts are this upload's alone, and writing them takes it by `&mut`.
            unsafe { self.table.memory.arena.bytes(at, len) }
        })
    }

    /// Where the parts are, to write a head.
    pub(crate) fn parts(&self) -> Parts {
        self.parts
    }

    /// Leaves the parts to the head that has been published.
    pub(crate) fn publish(mut self) {
        self.published = true;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.unhold(self.held_bytes);
        if !self.published {
            self.parts.free(&self.table.memory);
        }
    }
}
