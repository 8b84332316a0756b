//! The buffers of one thread.
//!
//! Owns all memory that bytes are received into and replies are written to. Buffers have power of
//! two sizes, go back to the pool when dropped, and are used again without going through the
//! allocator. What a burst left behind is returned to the system by [`Pool::trim`].
//!
//! Memory is of two kinds. Each connection has a small part of its own, [`Share::Own`]: enough to
//! receive a short request and to write one unit of a reply. It is always granted, so no
//! connection can keep another from speaking. All else is shared, [`Share::Common`], within the
//! pool's limit: for bursts, long lines, and fast connections. What is not needed but helps is
//! granted up to an eighth of the common memory that is free, so that many greedy connections
//! get less each and never everything (the rule of dynamic thresholds in switches, Choudhury and
//! Hahne 1998).
//!
//! Thread safety: a pool and its buffers belong to one thread (they share it by `Rc`).
//!
//! Invariants:
//! 1. Common buffers in use take at most the limit, and one unit of a reply.
//! 2. Own buffers take at most [`OWN_BYTES_PER_CONNECTION`] for each connection.
//! 3. All buffers, free ones included, take at most what the first two allow: the limit, and the
//!    most that connections have ever had of their own at a time.

mod appetite;
mod buffer;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

pub(crate) use appetite::Appetite;
pub use buffer::Buffer;

/// Smallest buffer in bytes: a request of average size, or one whole probe of a line.
pub const BUFFER_BYTES_MIN: usize = 2 << 10;

/// Largest buffer in bytes: one retrieval line of the default limit.
pub const BUFFER_BYTES_MAX: usize = BUFFER_BYTES_MIN << (CLASSES - 1);

/// 2, 4, 8, ... 1024 KiB.
const CLASSES: usize = 10;

const _: () = assert!(BUFFER_BYTES_MAX == 1 << 20);

/// Number of a buffer size: class `c` holds `BUFFER_BYTES_MIN << c` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class(u8);

impl Class {
    pub(crate) const MIN: Self = Self(0);
    pub(crate) const MAX: Self = Self(CLASSES as u8 - 1);

    /// The smallest class for `bytes`, or none if there is no such buffer.
    #[inline]
    pub(crate) fn for_bytes(bytes: usize) -> Option<Self> {
        if bytes <= BUFFER_BYTES_MIN {
            return Some(Self::MIN);
        }
        let units = bytes.div_ceil(BUFFER_BYTES_MIN).max(1);
        let class = Self(u8::try_from(units.next_power_of_two().trailing_zeros()).ok()?);
        (class <= Self::MAX).then_some(class)
    }

    /// The class of exactly `bytes`.
    pub(crate) const fn fixed(bytes: usize) -> Self {
        assert!(bytes >= BUFFER_BYTES_MIN && bytes <= BUFFER_BYTES_MAX && bytes.is_power_of_two());
        Self((bytes / BUFFER_BYTES_MIN).trailing_zeros() as u8)
    }

    /// The largest class of at most `bytes`; the smallest if there is none.
    pub(crate) fn within(bytes: usize) -> Self {
        let units = (bytes / BUFFER_BYTES_MIN).max(1);
        Self(u8::try_from(units.ilog2()).unwrap_or(u8::MAX)).min(Self::MAX)
    }

    pub(crate) const fn bytes(self) -> usize {
        BUFFER_BYTES_MIN << self.0
    }

    pub(crate) fn larger(self) -> Self {
        Self(self.0 + 1).min(Self::MAX)
    }

    pub(crate) fn smaller(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Bytes of buffers that each connection may always have: one of the smallest for a request, and
/// one unit of a reply.
pub const OWN_BYTES_PER_CONNECTION: usize = BUFFER_BYTES_MIN + OWN_OUTPUT_BYTES;

/// The part of that for replies.
pub(crate) const OWN_OUTPUT_BYTES: usize = 8 << 10;

/// The part of the free common memory that may be taken without need: an eighth. With `n` greedy
/// connections `8 / (8 + n)` of it stay free: 3 % with 250.
const GREED_DIVISOR: usize = 8;

/// Whose memory a buffer is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// The connection's own.
    Own,
    /// Everybody's.
    Common,
}

/// The buffers of one thread. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Pool(Rc<Shelves>);

struct Shelves {
    limit_bytes: usize,
    used_bytes: Cell<usize>,
    /// The part of that which is no connection's own.
    common_bytes: Cell<usize>,
    /// All buffers, in use and free: what comes and goes only with the system's allocator.
    all_bytes: Cell<usize>,
    own_bytes_max: Cell<usize>,
    used_bytes_max: Cell<usize>,
    allocations: Cell<u64>,
    refusals: Cell<u64>,
    free: RefCell<[Shelf; CLASSES]>,
}

/// Free buffers of one size.
#[derive(Default)]
struct Shelf {
    buffers: Vec<Box<[u8]>>,
    /// Fewest free buffers since the last trim: so many were not needed.
    idle: usize,
}

/// Numbers about a pool. Bytes are those of whole buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes of common memory that may be used.
    pub limit_bytes: usize,
    /// Bytes of common memory in use now.
    pub common_bytes: usize,
    /// Bytes in use now, those that are connections' own included.
    pub used_bytes: usize,
    /// Most bytes that were in use at a time.
    pub used_bytes_max: usize,
    /// Bytes that wait to be used again.
    pub free_bytes: usize,
    /// Buffers that came from the system's allocator.
    pub allocations: u64,
    /// Requests for a buffer that were refused.
    pub refusals: u64,
}

impl Pool {
    /// An empty pool with `limit_bytes` of common memory.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self(Rc::new(Shelves {
            limit_bytes,
            used_bytes: Cell::new(0),
            common_bytes: Cell::new(0),
            all_bytes: Cell::new(0),
            own_bytes_max: Cell::new(0),
            used_bytes_max: Cell::new(0),
            allocations: Cell::new(0),
            refusals: Cell::new(0),
            free: RefCell::default(),
        }))
    }

    /// Numbers for `stats`.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let shelves = &self.0;
        PoolStats {
            limit_bytes: shelves.limit_bytes,
            common_bytes: shelves.common_bytes.get(),
            used_bytes: shelves.used_bytes.get(),
            used_bytes_max: shelves.used_bytes_max.get(),
            free_bytes: shelves.all_bytes.get() - shelves.used_bytes.get(),
            allocations: shelves.allocations.get(),
            refusals: shelves.refusals.get(),
        }
    }

    /// Bytes of common memory that a connection may have without need.
    pub(crate) fn greed_bytes(&self) -> usize {
        self.common_free_bytes() / GREED_DIVISOR
    }

    /// Whether common memory has room for one more buffer of `class`.
    pub(crate) fn has_room(&self, class: Class) -> bool {
        class.bytes() <= self.common_free_bytes()
    }

    /// The largest class up to `class` that greed allows; the smallest is always allowed.
    #[inline]
    pub(crate) fn temper(&self, class: Class) -> Class {
        if class == Class::MIN {
            return class;
        }
        class.min(Class::within(self.greed_bytes()))
    }

    /// A buffer of common memory, if there is room for it.
    pub(crate) fn take(&self, class: Class) -> Option<Buffer> {
        if self.has_room(class) {
            return Some(self.take_always(class, Share::Common));
        }
        self.0.refusals.set(self.0.refusals.get() + 1);
        None
    }

    /// A buffer of `class`, whatever the limit says. The caller takes a bounded number.
    pub(crate) fn take_always(&self, class: Class, share: Share) -> Buffer {
        let shelves = &self.0;
        shelves.count_use(class, share);
        let memory = shelves.pop(class).unwrap_or_else(|| shelves.make(class));
        Buffer::new(memory, class, share, Rc::clone(shelves))
    }

    /// Gives half of the memory that was not needed since the last call back to the system, so
    /// that a burst's buffers are gone after a few calls and a steady load never allocates.
    pub fn trim(&self) {
        let mut free = self.0.free.borrow_mut();
        for (class, shelf) in (0u8..).map(Class).zip(free.iter_mut()) {
            let surplus = shelf.idle.div_ceil(2);
            shelf.buffers.truncate(shelf.buffers.len() - surplus);
            shelf.idle = shelf.buffers.len();
            self.0.all_bytes.set(self.0.all_bytes.get() - surplus * class.bytes());
        }
    }

    fn common_free_bytes(&self) -> usize {
        self.0.limit_bytes.saturating_sub(self.0.common_bytes.get())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl Shelves {
    /// Counts a buffer as in use.
    fn count_use(&self, class: Class, share: Share) {
        let used_bytes = self.used_bytes.get() + class.bytes();
        self.used_bytes.set(used_bytes);
        // Of the greatest so far only what is new is written: mostly nothing is.
        if used_bytes > self.used_bytes_max.get() {
            self.used_bytes_max.set(used_bytes);
        }
        match share {
            Share::Common => self.common_bytes.set(self.common_bytes.get() + class.bytes()),
            Share::Own => {
                let own_bytes = used_bytes - self.common_bytes.get();
                if own_bytes > self.own_bytes_max.get() {
                    self.own_bytes_max.set(own_bytes);
                }
            }
        }
    }

    /// Whether all buffers are more than may be kept.
    fn is_over_limit(&self) -> bool {
        self.all_bytes.get() > self.limit_bytes + self.own_bytes_max.get()
    }

    fn pop(&self, class: Class) -> Option<Box<[u8]>> {
        let shelf = &mut self.free.borrow_mut()[class.index()];
        let memory = shelf.buffers.pop()?;
        shelf.idle = shelf.idle.min(shelf.buffers.len());
        Some(memory)
    }

    /// A buffer that there was not.
    #[cold]
    fn make(&self, class: Class) -> Box<[u8]> {
        self.all_bytes.set(self.all_bytes.get() + class.bytes());
        self.make_room(class);
        self.allocations.set(self.allocations.get() + 1);
        vec![0; class.bytes()].into_boxed_slice()
    }

    /// Gives free buffers of other sizes back to the system, the largest first, until one of
    /// `class`, which is counted already, fits.
    fn make_room(&self, class: Class) {
        let mut free = self.free.borrow_mut();
        for from in (0..CLASSES).rev().filter(|from| *from != class.index()) {
            let (shelf, bytes) = (&mut free[from], BUFFER_BYTES_MIN << from);
            while self.is_over_limit() {
                if shelf.buffers.pop().is_none() {
                    break;
                }
                self.all_bytes.set(self.all_bytes.get() - bytes);
            }
            shelf.idle = shelf.idle.min(shelf.buffers.len());
        }
    }

    fn put_back(&self, class: Class, share: Share, memory: Box<[u8]>) {
        self.used_bytes.set(self.used_bytes.get() - class.bytes());
        if share == Share::Common {
            self.common_bytes.set(self.common_bytes.get() - class.bytes());
        }
        if self.is_over_limit() {
            self.all_bytes.set(self.all_bytes.get() - class.bytes());
            return;
        }
        self.free.borrow_mut()[class.index()].buffers.push(memory);
    }
}
