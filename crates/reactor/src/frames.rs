//! Buffers that a file is read into and that are sent from where they lie.
//!
//! Owns a fixed number of buffers of a few sizes, all allocated at the start, so that a driver may
//! have the kernel know them ([`crate::Carrier::Registered`]). A [`Frame`] has a page before the
//! bytes that are read and a little room behind them: what a reply has around a value is written
//! there, and the whole is one slice.
//!
//! ```text
//!   |            head, 4096 bytes | what is read, from a multiple of 4096 on        | tail, 64 |
//!                 | header        | header | VALUE                 | trailer |
//!                 '---------------+-- one send ---------------------'
//! ```
//!
//! While it is read into, a frame is a plain [`Buffer`], which may go to another thread and through
//! whatever plans the read; [`Frames::adopt`] makes it a frame again. A buffer that is dropped in
//! between is missing from then on, and [`FramesStats::lent`] shows it.
//!
//! Thread safety: frames belong to one thread; buffers may go to others and must come back.
//!
//! Idea: one pool for sockets and device is UKV's (An et al. 2020).

use std::{
    cell::{Cell, RefCell},
    fmt, mem,
    num::NonZeroU32,
    ops::Range,
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering},
};

use base::aligned::{ALIGNMENT_BYTES, Buffer, Rack};

use crate::output::{External, Gather};

/// Bytes before what is read: a header of a reply with the longest key takes some 300.
pub const FRAME_HEAD_BYTES: usize = ALIGNMENT_BYTES;

/// Bytes behind what is read: the end of a value's line, and of a reply.
pub const FRAME_TAIL_BYTES: usize = 64;

/// Most frames: what the kernel takes as registered buffers is four times that.
pub const FRAMES_MAX: usize = 4096;

/// Racks that there have been in this process.
static RACKS: AtomicU32 = AtomicU32::new(1);

/// Frames of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What can be read into each, in bytes: a multiple of 4096.
    pub bytes: usize,
    /// How many.
    pub count: usize,
}

/// Numbers about frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramesStats {
    /// Bytes of all of them, margins included.
    pub all_bytes: usize,
    /// Frames in use. One that has been sent is until the loop hears of it.
    pub used: usize,
    /// Those of them that are plain buffers, mostly because they are read into.
    pub lent: usize,
    /// How often there was none.
    pub refusals: u64,
}

/// The frames of one thread. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Frames(Rc<Shelves>);

struct Shelves {
    rack: Rack,
    shelves: RefCell<Vec<Shelf>>,
    stats: Cell<FramesStats>,
}

/// Frames of one size that nobody uses.
struct Shelf {
    bytes: usize,
    free: Vec<Buffer>,
}

/// A buffer with room around it. Dropped, it goes back to its [`Frames`].
pub struct Frame {
    /// Nothing, once it has become a plain one.
    buffer: Option<Buffer>,
    /// What is to be sent, within the whole of the buffer.
    sent: Range<usize>,
    home: Rc<Shelves>,
}

impl Frames {
    /// Allocates all frames.
    ///
    /// # Panics
    /// Panics when a size is no multiple of 4096, or there are more than [`FRAMES_MAX`].
    #[must_use]
    pub fn new(shapes: &[Shape]) -> Self {
        let count: usize = shapes.iter().map(|shape| shape.count).sum();
        assert!(count <= FRAMES_MAX, "{count} frames");
        let number = RACKS.fetch_add(1, Ordering::Relaxed);
        let rack = Rack {
            number: NonZeroU32::new(number).expect("invariant: fewer than 2^32 racks"),
            head_bytes: FRAME_HEAD_BYTES as u32,
            tail_bytes: FRAME_TAIL_BYTES as u32,
        };
        let mut numbers = 0..count as u16;
        let mut all_bytes = 0;
        let mut shelves: Vec<Shelf> = shapes
            .iter()
            .map(|shape| {
                let bytes = shape.bytes;
                assert!(bytes.is_multiple_of(ALIGNMENT_BYTES) && bytes > 0, "{bytes} bytes");
                all_bytes += shape.count * (FRAME_HEAD_BYTES + bytes + FRAME_TAIL_BYTES);
                let free = numbers.by_ref().take(shape.count);
                let free = free.map(|number| Buffer::of_rack(rack, number, bytes)).collect();
                Shelf { bytes, free }
            })
            .collect();
        shelves.sort_by_key(|shelf| shelf.bytes);
        let stats = Cell::new(FramesStats { all_bytes, ..FramesStats::default() });
        Self(Rc::new(Shelves { rack, shelves: RefCell::new(shelves), stats }))
    }

    /// A frame that `bytes` can be read into: the smallest that is free. None if there is none.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<Frame> {
        let mut shelves = self.0.shelves.borrow_mut();
        let fitting = shelves.iter_mut().filter(|shelf| shelf.bytes >= bytes);
        let buffer = { fitting }.find_map(|shelf| shelf.free.pop());
        self.0.count(|stats| match buffer {
            Some(_) => stats.used += 1,
            None => stats.refusals += 1,
        });
        let home = Rc::clone(&self.0);
        buffer.map(|buffer| Frame { buffer: Some(buffer), sent: 0..0, home })
    }

    /// The frame that has become `buffer`.
    ///
    /// # Errors
    /// The buffer when it is none of these.
    pub fn adopt(&self, buffer: Buffer) -> Result<Frame, Buffer> {
        if buffer.rack() != Some(self.0.rack) {
            return Err(buffer);
        }
        self.0.count(|stats| stats.lent -= 1);
        Ok(Frame { buffer: Some(buffer), sent: 0..0, home: Rc::clone(&self.0) })
    }

    /// Numbers for `stats`.
    #[must_use]
    pub fn stats(&self) -> FramesStats {
        self.0.stats.get()
    }

    /// Which rack they are, and calls `each` with the bytes of every frame, by number.
    ///
    /// # Panics
    /// Panics when one is in use.
    pub(crate) fn register<R>(&self, each: impl FnOnce(Rack, &[&[u8]]) -> R) -> R {
        assert_eq!(self.stats().used, 0, "frames are registered before they are used");
        let shelves = self.0.shelves.borrow();
        let mut free: Vec<&Buffer> = shelves.iter().flat_map(|shelf| &shelf.free).collect();
        free.sort_by_key(|buffer| buffer.number());
        let bytes: Vec<&[u8]> = free.into_iter().map(Buffer::as_slice).collect();
        each(self.0.rack, &bytes)
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl Shelves {
    fn count(&self, change: impl FnOnce(&mut FramesStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }
}

impl Frame {
    /// The plain buffer, to be read into.
    #[must_use]
    pub fn into_buffer(mut self) -> Buffer {
        self.home.count(|stats| stats.lent += 1);
        self.buffer.take().expect("invariant: it has one until now")
    }

    /// What has been read into it, and whatever was there before.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.buffer().as_slice()
    }

    /// Says what is sent: `header`, the bytes `value` of the data, and `trailer`. What lay around
    /// the value is overwritten.
    ///
    /// # Panics
    /// Panics when there is nothing, the value is not within the data, or either is longer than the
    /// room for it: a page and what is before the value, [`FRAME_TAIL_BYTES`] and what is behind.
    pub fn dress(&mut self, value: Range<usize>, header: &[u8], trailer: &[u8]) {
        let buffer = self.buffer.as_mut().expect("invariant: it has one until it is a plain one");
        let sent = buffer.wrap(value, header, trailer);
        self.sent = sent.expect("what is around a value is no longer than its room");
        assert!(!self.sent.is_empty(), "a frame from which nothing is sent");
    }

    fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("invariant: it has one until it is a plain one")
    }
}

impl External for Frame {
    fn len(&self) -> usize {
        self.sent.len()
    }

    fn gather<'a>(&'a self, skip: usize, to: &mut Gather<'a, '_>) {
        to.push(&self.buffer().whole()[self.sent.clone()][skip..]);
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.home.count(|stats| stats.used -= usize::from(self.buffer.is_some()));
        let Some(buffer) = mem::take(&mut self.buffer) else { return };
        let mut shelves = self.home.shelves.borrow_mut();
        let bytes = buffer.as_slice().len();
        let shelf = shelves.iter_mut().find(|shelf| shelf.bytes == bytes);
        shelf.expect("invariant: it came from one").free.push(buffer);
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes to be sent)", self.sent.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAME_TAIL_BYTES, Frame, Frames, FramesStats, Shape};
    use crate::{
        output::{External, Output},
        pool::Pool,
    };

    fn frames() -> Frames {
        Frames::new(&[Shape { bytes: 16 << 10, count: 1 }, Shape { bytes: 4 << 10, count: 2 }])
    }

    /// A frame into which `data` was read.
    fn read(frames: &Frames, data: &[u8]) -> Frame {
        let mut buffer = frames.take(data.len()).expect("a frame").into_buffer();
        buffer.as_mut_slice()[..data.len()].copy_from_slice(data);
        frames.adopt(buffer).expect("it is of these frames")
    }

    #[test]
    fn the_smallest_that_is_free_is_taken_and_comes_back() {
        let frames = frames();
        let held = [1, 4096, 1].map(|bytes| frames.take(bytes));
        let sizes = held.each_ref().map(|frame| frame.as_ref().map(|frame| frame.data().len()));
        assert_eq!(sizes, [Some(4096), Some(4096), Some(16 << 10)]);
        assert!(frames.take(1).is_none(), "a fourth frame");
        let all_bytes = 3 * (4096 + FRAME_TAIL_BYTES) + 2 * 4096 + (16 << 10);
        let stats = FramesStats { all_bytes, used: 3, lent: 0, refusals: 1 };
        assert_eq!(frames.stats(), stats);
        drop(held);
        assert_eq!(frames.stats(), FramesStats { used: 0, ..stats });
        let large = frames.take(5000).expect("it is back");
        assert_eq!(large.data().len(), 16 << 10);
        assert!(frames.take((16 << 10) + 1).is_none(), "none is so large");
    }

    #[test]
    fn a_buffer_becomes_the_frame_that_it_was() {
        let (frames, others) = (frames(), frames());
        let buffer = frames.take(1).expect("a frame").into_buffer();
        assert_eq!((frames.stats().used, frames.stats().lent), (1, 1));
        let buffer = others.adopt(buffer).expect_err("it is of other frames");
        drop(frames.adopt(buffer).expect("it is of these frames"));
        assert_eq!((frames.stats().used, frames.stats().lent), (0, 0));
        assert!(frames.adopt(base::aligned::Buffer::of_pool(0, 4096)).is_err());
    }

    #[test]
    fn header_value_and_trailer_are_one_slice_wherever_the_value_lies() {
        let frames = frames();
        let data: Vec<u8> = (0..4096u32).map(|at| (at % 251) as u8).collect();
        for value in [0..4096, 0..1, 4095..4096, 700..1700, 5..5] {
            let mut frame = read(&frames, &data);
            frame.dress(value.clone(), b"VALUE key 0\r\n", b"\r\nEND\r\n");
            let expected = [b"VALUE key 0\r\n", &data[value.clone()], b"\r\nEND\r\n"].concat();
            assert_eq!(frame.len(), expected.len());
            let mut output = Output::new(Pool::new(1 << 20));
            output.attach(frame);
            let mut chain = output.launch();
            assert!(chain.is_one_piece(), "{value:?}");
            chain.advance(3);
            assert!(chain.is_one_piece(), "{value:?}");
            assert_eq!(chain.take_bytes(), &expected[3..], "{value:?}");
        }
        assert_eq!(frames.stats().used, 0);
    }

    #[test]
    #[should_panic(expected = "is no longer than its room")]
    fn a_header_longer_than_a_page_is_a_mistake() {
        read(&frames(), b"value").dress(0..5, &[b'h'; 4097], b"");
    }
}
