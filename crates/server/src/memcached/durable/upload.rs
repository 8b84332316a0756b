//! A value on its way, piece by piece, until the store can have all of it.
//!
//! A short one waits in the input. A longer one would take buffers that all connections share, so
//! it is put together here, in memory that grows with what has come of it: who announces much and
//! sends little holds little. That memory is what counts.

use std::{cell::Cell, rc::Rc};

use wire::memcached::body::{Inflow, InflowState};

/// Bytes for values that are arriving, of all connections of a thread: 128 of the longest. What
/// comes beyond is refused, and the rest of its value dropped.
pub(super) const UPLOAD_BYTES_MAX: usize = 32 << 20;

/// Bytes of a value, counted with those of others.
#[derive(Debug)]
pub(super) struct Upload {
    bytes: Vec<u8>,
    /// How many there will be.
    len: usize,
    /// How many there is room for: they are counted.
    room: usize,
    all_bytes: Rc<Cell<usize>>,
}

impl Upload {
    pub(super) fn new(len: usize, all_bytes: Rc<Cell<usize>>) -> Self {
        Self { bytes: Vec::new(), len, room: 0, all_bytes }
    }

    /// Adds what has come. Says whether there was room.
    #[must_use]
    pub(super) fn push(&mut self, piece: &[u8]) -> bool {
        let bytes = self.bytes.len() + piece.len();
        if bytes > self.room {
            let room = bytes.max((2 * self.room).min(self.len));
            let all_bytes = self.all_bytes.get() + room - self.room;
            if all_bytes > UPLOAD_BYTES_MAX {
                return false;
            }
            self.all_bytes.set(all_bytes);
            self.bytes.reserve_exact(room - self.bytes.len());
            self.room = room;
        }
        self.bytes.extend_from_slice(piece);
        true
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.all_bytes.set(self.all_bytes.get() - self.room);
    }
}

/// A command whose value is still arriving, or waits to be stored.
#[derive(Debug)]
pub(super) struct Receiving {
    /// Its line, or its frame without the value: it is read again when the value is there.
    pub(super) line: Box<[u8]>,
    inflow: Inflow,
    upload: Upload,
}

/// How far a value has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More is to come.
    Open,
    /// It is there.
    Complete,
    /// It was not followed by a line end.
    Malformed,
    /// There is no memory for it; so many bytes of it are still to come.
    NoRoom(u64),
}

impl Receiving {
    pub(super) fn new(line: &[u8], inflow: Inflow, upload: Upload) -> Self {
        Self { line: line.into(), inflow, upload }
    }

    /// Takes what `input` has of the value. Says how many bytes that is, and how far it has come.
    pub(super) fn take(&mut self, input: &[u8]) -> (usize, Progress) {
        let piece = self.inflow.take(input);
        if !self.upload.push(piece.value) {
            return (piece.consumed, Progress::NoRoom(self.inflow.left()));
        }
        let progress = match piece.state {
            InflowState::Open => Progress::Open,
            InflowState::Complete => Progress::Complete,
            InflowState::Malformed => Progress::Malformed,
        };
        (piece.consumed, progress)
    }

    /// What has come of it.
    pub(super) fn value(&self) -> &[u8] {
        &self.upload.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(len: usize, all_bytes: &Rc<Cell<usize>>) -> Upload {
        Upload::new(len, Rc::clone(all_bytes))
    }

    /// Twice as much as before, so that it is copied seldom, but no more than all of it.
    #[test]
    fn the_memory_for_a_value_grows_with_it_and_is_what_counts() {
        let all_bytes = Rc::new(Cell::new(0));
        let mut one = upload(5000, &all_bytes);
        for (piece, counted) in [(1000, 1000), (100, 2000), (900, 2000), (500, 4000), (2500, 5000)]
        {
            assert!(one.push(&vec![b'x'; piece]));
            assert_eq!((all_bytes.get(), one.bytes.capacity()), (counted, counted));
        }
        drop(one);
        assert_eq!(all_bytes.get(), 0);
    }

    #[test]
    fn values_that_arrive_are_counted_together_as_far_as_they_have_come() {
        let all_bytes = Rc::new(Cell::new(UPLOAD_BYTES_MAX - 10));
        let receive =
            |len| Receiving::new(b"line", Inflow::new(len), upload(len as usize, &all_bytes));
        let (mut one, mut other) = (receive(6), receive(100));
        assert_eq!(one.take(b"four"), (4, Progress::Open));
        assert_eq!(other.take(b"six..."), (6, Progress::Open));
        assert_eq!(all_bytes.get(), UPLOAD_BYTES_MAX);
        assert_eq!(other.take(b"x"), (1, Progress::NoRoom(95)));
        drop(other);
        assert_eq!(all_bytes.get(), UPLOAD_BYTES_MAX - 6);
        assert_eq!(one.take(b"ty\r\nmore"), (4, Progress::Complete));
        assert_eq!((one.value(), all_bytes.get()), (&b"fourty"[..], UPLOAD_BYTES_MAX - 4));
        drop(one);
        assert_eq!(all_bytes.get(), UPLOAD_BYTES_MAX - 10);
        assert_eq!(receive(1).take(b"xyz").1, Progress::Malformed);
    }
}
