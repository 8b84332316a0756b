//! What is set: buffers that are filled one behind the other, and where in the file they go. Pure.

use std::ops::Range;

/// Written at a time.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

/// One is filled while the others are written.
pub(super) const BUFFERS: usize = 4;

/// More than what is received at a time takes, the headers of short values included.
const ROOM_BYTES: usize = 256 << 10;

/// A full buffer, and where it is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) buffer: usize,
    pub(super) at: u64,
}

/// Buffers side by side, each of which begins where the one before has ended; at the end of the
/// file from its start again.
#[derive(Debug)]
pub(super) struct Tail {
    buffer: usize,
    filled: usize,
    is_written: [bool; BUFFERS],
    at: u64,
    file_bytes: u64,
}

impl Tail {
    /// The file has `file_bytes`, which are whole buffers.
    pub(super) fn new(file_bytes: u64) -> Self {
        Self { buffer: 0, filled: 0, is_written: [false; BUFFERS], at: 0, file_bytes }
    }

    /// Whether what is received at a time can be taken.
    pub(super) fn has_room(&self) -> bool {
        let next = (self.buffer + 1) % BUFFERS;
        let fits = self.filled + ROOM_BYTES <= BUFFER_BYTES;
        !self.is_written[self.buffer] && (fits || !self.is_written[next])
    }

    /// Where bytes go.
    pub(super) fn room(&self) -> Range<usize> {
        assert!(!self.is_written[self.buffer], "room was asked for before");
        let start = self.buffer * BUFFER_BYTES;
        start + self.filled..start + BUFFER_BYTES
    }

    /// Notes that `count` bytes of the room are taken.
    pub(super) fn fill(&mut self, count: usize) -> Option<Write> {
        self.filled += count;
        if self.filled < BUFFER_BYTES {
            return None;
        }
        let write = Write { buffer: self.buffer, at: self.at };
        self.is_written[self.buffer] = true;
        self.buffer = (self.buffer + 1) % BUFFERS;
        self.filled = 0;
        self.at = (self.at + BUFFER_BYTES as u64) % self.file_bytes;
        Some(write)
    }

    /// Notes that a buffer is written.
    pub(super) fn end(&mut self, buffer: usize) {
        self.is_written[buffer] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFER_BYTES, BUFFERS, ROOM_BYTES, Tail, Write};

    #[test]
    fn buffers_go_to_the_file_in_turn_and_round_it() {
        let mut tail = Tail::new(3 * BUFFER_BYTES as u64);
        let mut write = || {
            assert_eq!(tail.fill(BUFFER_BYTES - 1), None);
            assert_eq!(tail.room().len(), 1);
            let write = tail.fill(1).expect("it is full");
            tail.end(write.buffer);
            write
        };
        for (buffer, megabyte) in [(0, 0), (1, 1), (2, 2), (3, 0), (0, 1)] {
            assert_eq!(write(), Write { buffer, at: megabyte << 20 });
        }
    }

    #[test]
    fn there_is_no_room_when_all_others_are_written_and_this_one_is_nearly_full() {
        let mut tail = Tail::new(16 * BUFFER_BYTES as u64);
        (1..BUFFERS).for_each(|_| assert!(tail.fill(BUFFER_BYTES).is_some()));
        tail.fill(BUFFER_BYTES - ROOM_BYTES);
        assert!(tail.has_room());
        tail.fill(1);
        assert!(!tail.has_room());
        // Who asks for room only when there is some has it, whatever is written first.
        tail.end(1);
        assert!(!tail.has_room());
        tail.end(0);
        assert!(tail.has_room());
        tail.fill(ROOM_BYTES - 1);
        assert!(tail.has_room());
        assert_eq!(tail.room(), 0..BUFFER_BYTES);
    }

    #[test]
    fn a_buffer_that_is_written_is_not_filled() {
        let mut tail = Tail::new(16 * BUFFER_BYTES as u64);
        (0..BUFFERS).for_each(|_| assert!(tail.fill(BUFFER_BYTES).is_some()));
        assert!(!tail.has_room());
        tail.end(0);
        assert!(tail.has_room());
    }
}
