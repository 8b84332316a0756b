//! The buffers of a worker that nobody uses.
//!
//! Those of short reads are all of one size, [`READ_BYTES_KEPT`]. A longer read has one of its own
//! size, nearly: a new one is memory that the system provides, a page at a time and zeroed, which
//! takes longer than to read into it.
//!
//! Thread safety: a worker takes buffers off its shelf, and any thread puts them back.

use std::collections::VecDeque;

use base::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    lock,
};
use log::plan::Buffer;

use crate::limits::{LONG_BYTES_KEPT, READ_BUFFERS_MAX, READ_BYTES_KEPT, READS_ANSWERED_MAX};

/// Buffers of longer reads have a multiple of this, so that one does for reads of about its size.
const LONG_STEP_BYTES: usize = 16 << 10;

/// Buffers that nobody uses, and how many of the short ones are with answers.
#[derive(Debug)]
pub(crate) struct Shelf {
    short: Mutex<Vec<Buffer>>,
    long: Mutex<Long>,
    answered: AtomicUsize,
}

/// Those of longer reads, the one that was put back last at the end.
#[derive(Debug, Default)]
struct Long {
    free: VecDeque<Buffer>,
    bytes: usize,
}

impl Long {
    /// One for `bytes` bytes, the one used last if there are several: but none that is much longer,
    /// as memory is counted by what is read, and a read of its own size would miss it.
    fn take(&mut self, bytes: usize) -> Option<Buffer> {
        let fits = |it: &Buffer| (bytes..=bytes + 2 * LONG_STEP_BYTES).contains(&len(it));
        let at = self.free.iter().rposition(fits)?;
        let buffer = self.free.remove(at)?;
        self.bytes -= len(&buffer);
        Some(buffer)
    }

    /// Keeps it, and as many of those used last as there is room for.
    fn put(&mut self, buffer: Buffer) {
        self.bytes += len(&buffer);
        self.free.push_back(buffer);
        while self.bytes > LONG_BYTES_KEPT && !base::mutant!("store_long_kept_unbounded") {
            let Some(buffer) = self.free.pop_front() else { return };
            self.bytes -= len(&buffer);
        }
    }
}

impl Shelf {
    pub(crate) fn new() -> Self {
        let (short, long) = (Mutex::new(Vec::new()), Mutex::new(Long::default()));
        Self { short, long, answered: AtomicUsize::new(0) }
    }

    /// One for a short read.
    pub(crate) fn take_short(&self) -> Buffer {
        let buffer = lock(&self.short).pop();
        buffer.unwrap_or_else(|| Buffer::new(READ_BYTES_KEPT))
    }

    /// One for `bytes` bytes that is no buffer of a short read.
    pub(crate) fn take_long(&self, bytes: usize) -> Buffer {
        if bytes < READ_BYTES_KEPT {
            // The last part of a value: it counts for what is read, and many may have one.
            return Buffer::new(bytes);
        }
        let buffer = lock(&self.long).take(bytes);
        buffer.unwrap_or_else(|| Buffer::new(long_bytes(bytes)))
    }

    /// Keeps a buffer, within its bounds.
    pub(crate) fn give_back(&self, buffer: Buffer) {
        if Self::is_short(&buffer) {
            let mut short = lock(&self.short);
            if short.len() < READ_BUFFERS_MAX {
                short.push(buffer);
            }
        } else if (READ_BYTES_KEPT..=LONG_BYTES_KEPT).contains(&len(&buffer)) {
            lock(&self.long).put(buffer);
        }
    }

    /// Whether it is one for a short read.
    pub(crate) fn is_short(buffer: &Buffer) -> bool {
        len(buffer) == READ_BYTES_KEPT
    }

    /// A short one goes with an answer. False when as many are with answers as may be; it counts as
    /// one until [`Shelf::end_answer`] all the same.
    pub(crate) fn answer(&self) -> bool {
        let answered = self.answered.fetch_add(1, Ordering::Relaxed);
        answered < READS_ANSWERED_MAX || base::mutant!("store_answers_keep_all")
    }

    pub(crate) fn end_answer(&self) {
        self.answered.fetch_sub(1, Ordering::Relaxed);
    }
}

fn len(buffer: &Buffer) -> usize {
    buffer.as_slice().len()
}

/// Bytes of a buffer for a longer read.
fn long_bytes(bytes: usize) -> usize {
    let rounded = bytes.next_multiple_of(LONG_STEP_BYTES);
    if rounded == READ_BYTES_KEPT { READ_BYTES_KEPT + LONG_STEP_BYTES } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::{LONG_BYTES_KEPT, Shelf, len};
    use crate::limits::{READ_BUFFERS_MAX, READ_BYTES_KEPT};

    const KIB: usize = 1024;

    /// Takes one for `bytes` bytes and marks it.
    fn marked(shelf: &Shelf, bytes: usize, mark: u8) -> log::plan::Buffer {
        let mut buffer = shelf.take_long(bytes);
        buffer.as_mut_slice()[0] = mark;
        buffer
    }

    #[test]
    fn what_was_used_last_is_used_again_for_a_read_of_about_its_size() {
        let shelf = Shelf::new();
        let (first, second) = (marked(&shelf, 70 * KIB, 1), marked(&shelf, 70 * KIB, 2));
        shelf.give_back(first);
        shelf.give_back(second);
        assert_eq!(shelf.take_long(81 * KIB).as_slice()[0], 0, "it is too short");
        assert_eq!(shelf.take_long(40 * KIB).as_slice()[0], 0, "it is far too long");
        assert_eq!(shelf.take_long(66 * KIB).as_slice()[0], 2);
        assert_eq!(shelf.take_long(80 * KIB).as_slice()[0], 1);
        assert_eq!(shelf.take_long(66 * KIB).as_slice()[0], 0, "it is with somebody");
    }

    #[test]
    fn longer_ones_have_a_bound_and_those_used_longest_ago_go() {
        let shelf = Shelf::new();
        let old: Vec<_> = (0..10).map(|_| marked(&shelf, 270 * KIB, 1)).collect();
        let new: Vec<_> = (0..20).map(|_| marked(&shelf, 70 * KIB, 2)).collect();
        old.into_iter().chain(new).for_each(|buffer| shelf.give_back(buffer));
        let long = base::sync::lock(&shelf.long);
        let bytes: usize = long.free.iter().map(len).sum();
        assert_eq!(bytes, long.bytes);
        assert!(bytes <= LONG_BYTES_KEPT, "{bytes} bytes of longer reads are kept");
        assert_eq!(long.free.iter().filter(|it| it.as_slice()[0] == 2).count(), 20);
        drop(long);
        shelf.give_back(marked(&shelf, LONG_BYTES_KEPT + 1, 3));
        assert_eq!(base::sync::lock(&shelf.long).bytes, bytes, "one that is too long is kept");
    }

    #[test]
    fn short_ones_are_of_short_reads_alone() {
        let shelf = Shelf::new();
        for bytes in [1, READ_BYTES_KEPT - 1, READ_BYTES_KEPT] {
            let buffer = shelf.take_long(bytes);
            assert!(!Shelf::is_short(&buffer) && len(&buffer) >= bytes, "{bytes} bytes");
            shelf.give_back(buffer);
        }
        assert_eq!(len(&shelf.take_long(4096)), 4096, "it counts for less than it has");
        for _ in 0..=READ_BUFFERS_MAX {
            shelf.give_back(log::plan::Buffer::new(READ_BYTES_KEPT));
        }
        assert_eq!(base::sync::lock(&shelf.short).len(), READ_BUFFERS_MAX);
        assert!(Shelf::is_short(&shelf.take_short()));
        assert_eq!(base::sync::lock(&shelf.short).len(), READ_BUFFERS_MAX - 1);
    }
}
