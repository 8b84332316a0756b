//! A value on its way, piece by piece, until the store can have all of it.
//!
//! A short one waits in the input. A longer one would take buffers that all connections share, so
//! it is put together here, in memory that grows with what has come of it: who announces much and
//! sends little holds little. That memory is what counts.
//! Where there is no memory for more, the value makes way of which nothing has come for longest.

use std::{
    cell::{Cell, Ref, RefCell},
    rc::{Rc, Weak},
};

use store::limits::{LARGE_IDLE_MS, LARGE_IDLE_WANTED_MS};
use wire::memcached::body::{Inflow, InflowState};

/// Bytes for values that are arriving, of all connections of a thread: 128 of the longest. What
/// comes beyond is refused, and the rest of its value dropped.
pub(super) const UPLOAD_BYTES_MAX: usize = 32 << 20;

/// All values that are arriving at a thread.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    bytes: Cell<usize>,
    now_ms: Cell<u64>,
    /// In the order in which they began; some are gone.
    there: RefCell<Vec<Weak<Shelf>>>,
}

/// What has come of one.
#[derive(Debug, Default)]
struct Shelf {
    bytes: RefCell<Vec<u8>>,
    /// How many there is room for: they are counted.
    room: Cell<usize>,
    begun_ms: u64,
    /// When something came of it last; `None` when nothing is missing.
    brought_ms: Cell<Option<u64>>,
    has_made_way: Cell<bool>,
}

impl Uploads {
    pub(super) fn set_now(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
    }

    /// Bytes that they have room for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    fn enter(&self, shelf: &Rc<Shelf>) {
        let mut there = self.there.borrow_mut();
        // Half of them may be gone.
        if there.len() == there.capacity() {
            there.retain(|it| it.strong_count() > 0);
        }
        there.push(Rc::downgrade(shelf));
    }

    /// Has room for so many bytes more, for which others may have to make way: who has brought
    /// nothing for a while, or takes too long for all of it.
    fn take(&self, bytes: usize, own: &Rc<Shelf>) -> bool {
        while self.bytes.get() + bytes > UPLOAD_BYTES_MAX {
            let Some(slow) = self.slowest(own) else { return false };
            slow.has_made_way.set(true);
            self.bytes.set(self.bytes.get() - slow.room.take());
            slow.bytes.take();
        }
        self.bytes.set(self.bytes.get() + bytes);
        true
    }

    fn slowest(&self, own: &Rc<Shelf>) -> Option<Rc<Shelf>> {
        if base::mutant!("server_uploads_stay") {
            return None;
        }
        let now_ms = self.now_ms.get();
        let there = self.there.borrow();
        let open = there.iter().filter_map(Weak::upgrade).filter(|it| !Rc::ptr_eq(it, own));
        let slow = open.filter_map(|it| {
            let brought_ms = it.brought_ms.get()?;
            let is_slow = now_ms >= brought_ms + LARGE_IDLE_WANTED_MS
                || now_ms >= it.begun_ms + LARGE_IDLE_MS;
            (is_slow && it.room.get() > 0).then_some((brought_ms, it))
        });
        slow.min_by_key(|(brought_ms, _)| *brought_ms).map(|(_, it)| it)
    }
}

/// Bytes of a value, counted with those of others.
#[derive(Debug)]
pub(super) struct Upload {
    shelf: Rc<Shelf>,
    /// How many there will be.
    len: usize,
    all: Rc<Uploads>,
}

impl Upload {
    pub(super) fn new(len: usize, all: &Rc<Uploads>) -> Self {
        let begun_ms = all.now_ms.get();
        let brought_ms = Cell::new(Some(begun_ms));
        let shelf = Rc::new(Shelf { begun_ms, brought_ms, ..Shelf::default() });
        all.enter(&shelf);
        Self { shelf, len, all: Rc::clone(all) }
    }

    /// Adds what has come. Says whether there was room, and it has not had to make way.
    #[must_use]
    pub(super) fn push(&mut self, piece: &[u8]) -> bool {
        let shelf = &self.shelf;
        if shelf.has_made_way.get() {
            return false;
        }
        let had = shelf.room.get();
        let bytes = shelf.bytes.borrow().len() + piece.len();
        if bytes > had {
            let room = bytes.max((2 * had).min(self.len));
            if !self.all.take(room - had, shelf) {
                return false;
            }
            shelf.room.set(room);
            let mut there = shelf.bytes.borrow_mut();
            let len = there.len();
            there.reserve_exact(room - len);
        }
        shelf.bytes.borrow_mut().extend_from_slice(piece);
        if bytes == self.len {
            shelf.brought_ms.set(None);
        } else if !piece.is_empty() {
            shelf.brought_ms.set(Some(self.all.now_ms.get()));
        }
        true
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.all.bytes.set(self.all.bytes.get() - self.shelf.room.get());
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
    pub(super) fn value(&self) -> Ref<'_, Vec<u8>> {
        self.upload.shelf.bytes.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: usize) -> Rc<Uploads> {
        Rc::new(Uploads { bytes: Cell::new(bytes), ..Uploads::default() })
    }

    /// Twice as much as before, so that it is copied seldom, but no more than all of it.
    #[test]
    fn the_memory_for_a_value_grows_with_it_and_is_what_counts() {
        let all = all(0);
        let mut one = Upload::new(5000, &all);
        for (piece, counted) in [(1000, 1000), (100, 2000), (900, 2000), (500, 4000), (2500, 5000)]
        {
            assert!(one.push(&vec![b'x'; piece]));
            assert_eq!((all.bytes(), one.shelf.bytes.borrow().capacity()), (counted, counted));
        }
        drop(one);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn values_that_arrive_are_counted_together_as_far_as_they_have_come() {
        let all = all(UPLOAD_BYTES_MAX - 10);
        let receive =
            |len| Receiving::new(b"line", Inflow::new(len), Upload::new(len as usize, &all));
        let (mut one, mut other) = (receive(6), receive(100));
        assert_eq!(one.take(b"four"), (4, Progress::Open));
        assert_eq!(other.take(b"six..."), (6, Progress::Open));
        assert_eq!(all.bytes(), UPLOAD_BYTES_MAX);
        assert_eq!(other.take(b"x"), (1, Progress::NoRoom(95)));
        drop(other);
        assert_eq!(all.bytes(), UPLOAD_BYTES_MAX - 6);
        assert_eq!(one.take(b"ty\r\nmore"), (4, Progress::Complete));
        assert_eq!((&one.value()[..], all.bytes()), (&b"fourty"[..], UPLOAD_BYTES_MAX - 4));
        drop(one);
        assert_eq!(all.bytes(), UPLOAD_BYTES_MAX - 10);
        assert_eq!(receive(1).take(b"xyz").1, Progress::Malformed);
    }

    #[test]
    fn who_brings_nothing_makes_way_to_who_does() {
        let all = all(UPLOAD_BYTES_MAX - 30);
        let (mut idle, mut slow, mut whole) =
            (Upload::new(20, &all), Upload::new(20, &all), Upload::new(10, &all));
        assert!(idle.push(&[1; 10]) && slow.push(&[2; 10]) && whole.push(&[3; 10]));
        all.set_now(LARGE_IDLE_WANTED_MS - 1);
        assert!(slow.push(&[]), "nothing is no progress, and needs no room");
        let mut late = Upload::new(15, &all);
        assert!(!late.push(&[4; 5]), "nobody was idle for so long");
        drop(late);
        assert!(idle.push(&[]));
        all.set_now(LARGE_IDLE_WANTED_MS);
        slow.shelf.brought_ms.set(Some(1));
        let mut late = Upload::new(15, &all);
        assert!(late.push(&[4; 5]), "nobody makes way");
        assert!(!idle.push(&[1]), "it has made way");
        assert!(slow.push(&[]), "one was enough");
        assert_eq!(all.bytes(), UPLOAD_BYTES_MAX - 5);
        drop(idle);
        assert_eq!(all.bytes(), UPLOAD_BYTES_MAX - 5, "its memory is given back twice");
        // Who brings a byte now and then is slow as well. What is whole waits for others.
        all.set_now(LARGE_IDLE_MS);
        slow.shelf.brought_ms.set(Some(LARGE_IDLE_MS));
        assert!(late.push(&[4; 10]), "it keeps its memory by a byte now and then");
        assert!(!slow.push(&[2]));
        assert_eq!(whole.shelf.bytes.borrow().len(), 10);
        let mut more = Upload::new(20, &all);
        assert!(!more.push(&[5; 20]), "what is whole has made way");
    }
}
