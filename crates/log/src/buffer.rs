//! Memory that direct I/O can use.
//!
//! Thread safety: plain values; a shared buffer is not written.

use std::fmt;

/// Buffers begin at a multiple of this, which every device's alignment divides.
pub(crate) const ALIGNMENT_BYTES: usize = 4096;

/// Zeroed bytes whose first one lies at a multiple of 4096. They never move: a buffer is neither
/// resized nor copied.
pub struct Buffer {
    /// Larger than asked for by the alignment, so that an aligned stretch lies within.
    memory: Box<[u8]>,
    start: usize,
    bytes: usize,
    number: Option<u16>,
}

impl Buffer {
    /// A buffer of `bytes` bytes that belongs to no pool.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + ALIGNMENT_BYTES].into_boxed_slice();
        let start = memory.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        Self { memory, start, bytes, number: None }
    }

    /// Buffer `number` of a pool, of `bytes` bytes.
    #[must_use]
    pub fn of_pool(number: u16, bytes: usize) -> Self {
        Self { number: Some(number), ..Self::new(bytes) }
    }

    /// Its number in its pool.
    #[must_use]
    pub fn number(&self) -> Option<u16> {
        self.number
    }

    /// Its bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    /// Its bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &self.bytes)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Buffer;

    #[test]
    fn buffers_are_aligned_zeroed_and_of_their_size() {
        for bytes in [512, 4096, 1 << 20] {
            let mut buffer = Buffer::of_pool(3, bytes);
            assert_eq!(buffer.as_slice(), vec![0; bytes]);
            assert_eq!(buffer.as_mut_slice().as_ptr().align_offset(4096), 0);
            assert_eq!(buffer.number(), Some(3));
        }
    }
}
