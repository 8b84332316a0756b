//! Regular files beside the sockets of a thread.
//!
//! A handler and its driver share a [`Files`]: the handler gives it open files and starts
//! operations, the driver carries them out and puts back what came of them. So a handler still
//! performs no I/O, and a loop without files has nothing to look at.
//!
//! ```text
//!   Handler -- start --> waiting --> Driver: io_uring, or threads that block
//!      ^                                |
//!      +------ take_done <--- done <----+   Event::FilesDone, Handler::files_done
//! ```
//!
//! What a handler starts in a turn is handed over with the wait that ends the turn. A token names
//! an operation; the reactor knows nothing of what it is for. If that is a connection, its
//! [`crate::ConnId`] is what must be kept: roused after its end it wakes nobody, not even the
//! connection that has its place by then. The operation itself goes on: nothing that is under way
//! is called back, but for a driver that is dropped, and its buffer is the driver's until the
//! kernel has reported. A loop that drains goes on until nothing is under way, nor left in `done`.
//!
//! Operations are in no order. What must come after another one is started after that is done.
//!
//! Thread safety: none; both ends belong to one thread.
//!
//! Invariants:
//! 1. From its start to [`Files::take_done`] an operation is counted, and no more than the depth
//!    are: a start beyond is refused, and nothing queues without bound.
//! 2. An operation has its file open until its end, whoever closes it.
//! 3. Each operation that was started ends up in `done`, once, unless the driver is dropped.
//! 4. A flush is tried once.

mod ended;
mod errand;
mod threads;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt, io,
    os::fd::OwnedFd,
    rc::Rc,
    sync::Arc,
};

use base::aligned::Buffer;

use ended::Ended;
pub(crate) use errand::{Errand, Rest, Work};
pub(crate) use threads::FileThreads;

/// Most operations at a time: four times what keeps a fast device busy. Each has a place of some
/// 150 bytes in a driver's table.
pub const FILE_DEPTH_MAX: usize = 256;

/// Most files that are open at a time: as many as a process mostly may have descriptors.
pub const FILES_MAX: usize = 1024;

/// Most files that are kept open as long as anything is under way: a directory for each log of a
/// server.
pub const GUARDS_MAX: usize = 64;

/// Names an open file. A number is used again only with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    pub(crate) index: u32,
    generation: u32,
}

impl FileId {
    /// None that was ever opened.
    pub(crate) const NONE: Self = Self { index: u32::MAX, generation: 0 };
}

/// Something to be done with a file.
#[derive(Debug)]
pub enum Operation {
    /// Read into the start of a buffer.
    Read {
        /// The file.
        file: FileId,
        /// Where in it.
        offset: u64,
        /// What to read into.
        buffer: Buffer,
        /// How many bytes, at least one.
        bytes: usize,
    },
    /// Write a part of a buffer.
    Write {
        /// The file.
        file: FileId,
        /// Where in it.
        offset: u64,
        /// What to write from.
        buffer: Arc<Buffer>,
        /// The first byte of the buffer to write: of direct I/O a multiple of its block.
        from: usize,
        /// How many bytes, at least one.
        bytes: usize,
    },
    /// Make durable what has been written.
    Flush {
        /// The file.
        file: FileId,
    },
}

impl Operation {
    /// Whether it is about places that a file can have: the system takes some others for something
    /// else.
    fn is_within_a_file(&self) -> bool {
        let end = match self {
            Self::Read { offset, bytes, .. } | Self::Write { offset, bytes, .. } => {
                offset.checked_add(*bytes as u64)
            }
            Self::Flush { .. } => Some(0),
        };
        end.is_some_and(|end| i64::try_from(end).is_ok())
    }

    fn file(&self) -> FileId {
        match self {
            Self::Read { file, .. } | Self::Write { file, .. } | Self::Flush { file } => *file,
        }
    }
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Done {
    /// What it was started under.
    pub token: u64,
    /// Bytes read or written: fewer than asked for at the end of the file only. 0 of a flush.
    pub result: Result<usize, Failure>,
    /// What was read into.
    pub buffer: Option<Buffer>,
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The file takes no more bytes, and no reason is given.
    #[error("the file takes no more")]
    Stuck,
    /// What the system says.
    #[error("{0}")]
    System(#[source] io::Error),
}

/// An operation that is not started.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// The operation as it was.
    pub operation: Operation,
}

/// Why an operation is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// As many are under way as may be.
    #[error("as many operations are under way as may be")]
    Full,
    /// The file has been closed.
    #[error("no open file has this number")]
    Unknown,
    /// No file reaches so far.
    #[error("no file has such a place")]
    OutOfRange,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::System(error) => error,
            Failure::Stuck => Self::other(failure),
        }
    }
}

/// What carries operations out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// Threads that block.
    #[default]
    Threads,
    /// The ring that carries the sockets.
    Ring,
    /// That ring, and the kernel knows the frames that it reads into.
    Registered,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Threads => "files by threads",
            Self::Ring => "files on the ring",
            Self::Registered => "files on the ring, registered",
        })
    }
}

/// The files of one thread. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Files(Rc<Desk>);

/// What handler and driver hand each other.
struct Desk {
    depth: usize,
    places: RefCell<Places>,
    waiting: RefCell<VecDeque<Errand>>,
    done: RefCell<Ended>,
    /// Waiting, under way, and done but not taken.
    counted: Cell<usize>,
    guards: RefCell<Vec<Arc<OwnedFd>>>,
}

#[derive(Default)]
struct Places {
    files: Vec<Place>,
    free: Vec<u32>,
    /// Closed since the driver looked.
    closed: Vec<FileId>,
}

struct Place {
    generation: u32,
    file: Option<Arc<OwnedFd>>,
}

impl Files {
    /// No files, and room for up to `depth` operations at a time: at least one, and no more than
    /// [`FILE_DEPTH_MAX`].
    #[must_use]
    pub fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, FILE_DEPTH_MAX);
        Self(Rc::new(Desk {
            depth,
            places: RefCell::default(),
            waiting: RefCell::new(VecDeque::with_capacity(depth)),
            done: RefCell::default(),
            counted: Cell::new(0),
            guards: RefCell::default(),
        }))
    }

    /// Takes an open file. Others may have it as well: it costs no descriptor.
    ///
    /// # Errors
    /// The file when [`FILES_MAX`] are open.
    pub fn open(&self, file: Arc<OwnedFd>) -> Result<FileId, Arc<OwnedFd>> {
        let mut places = self.0.places.borrow_mut();
        let index = match places.free.pop() {
            Some(index) => index,
            None if places.files.len() < FILES_MAX => {
                places.files.push(Place { generation: 0, file: None });
                (places.files.len() - 1) as u32
            }
            None => return Err(file),
        };
        let place = &mut places.files[index as usize];
        place.file = Some(file);
        Ok(FileId { index, generation: place.generation })
    }

    /// Keeps a file open until the last operation has ended in the kernel, also when the process is
    /// killed meanwhile: a lock on it then tells others that something may still be written. To be
    /// called before a driver carries these files; one that cannot do it on its ring has threads
    /// carry them, for which the system does it by itself.
    ///
    /// # Panics
    /// Panics when [`GUARDS_MAX`] are kept.
    pub fn guard(&self, file: Arc<OwnedFd>) {
        let mut guards = self.0.guards.borrow_mut();
        assert!(guards.len() < GUARDS_MAX, "more than {GUARDS_MAX} files are guards");
        guards.push(file);
    }

    /// Lets a file go as soon as nothing is under way on it, on this thread: if it has no name any
    /// more, and nobody else has it, the system then frees its blocks. One that is closed stays so.
    pub fn close(&self, file: FileId) {
        let mut places = self.0.places.borrow_mut();
        let Some(place) = places.files.get_mut(file.index as usize) else { return };
        if place.generation == file.generation && place.file.take().is_some() {
            place.generation = place.generation.wrapping_add(1);
            places.free.push(file.index);
            places.closed.push(file);
        }
    }

    /// Starts an operation. What comes of it is reported under `token`.
    ///
    /// # Errors
    /// The operation, and why it cannot be started.
    ///
    /// # Panics
    /// Panics when it is about no bytes, or about more than its buffer has.
    pub fn start(&self, token: u64, operation: Operation) -> Result<(), Refused> {
        let Some(fd) = self.find(operation.file()) else {
            return Err(Refused { why: Refusal::Unknown, operation });
        };
        if self.0.counted.get() >= self.0.depth && !base::mutant!("files_without_depth") {
            return Err(Refused { why: Refusal::Full, operation });
        }
        if !operation.is_within_a_file() {
            return Err(Refused { why: Refusal::OutOfRange, operation });
        }
        self.0.waiting.borrow_mut().push_back(Errand::new(token, operation, fd));
        self.0.counted.set(self.0.counted.get() + 1);
        Ok(())
    }

    /// What came of an operation, in the order in which they ended, but reads behind all others:
    /// to take one may take long, and a write that somebody waits for is not to wait for many.
    /// `None` until another one has ended.
    #[must_use]
    pub fn take_done(&self) -> Option<Done> {
        let done = self.0.done.borrow_mut().pop()?;
        self.0.counted.set(self.0.counted.get() - 1);
        Some(done)
    }

    /// Operations that may be started now.
    #[must_use]
    pub fn room(&self) -> usize {
        self.0.depth - self.0.counted.get()
    }

    /// Operations at a time.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    fn find(&self, file: FileId) -> Option<Arc<OwnedFd>> {
        let places = self.0.places.borrow();
        let place = places.files.get(file.index as usize)?;
        let is_it = place.generation == file.generation || base::mutant!("files_by_index");
        if is_it { place.file.clone() } else { None }
    }

    /// What is to be open as long as anything is under way.
    pub(crate) fn guards(&self) -> Vec<Arc<OwnedFd>> {
        self.0.guards.borrow().clone()
    }

    /// The next operation for the driver.
    pub(crate) fn take_waiting(&self) -> Option<Errand> {
        self.0.waiting.borrow_mut().pop_front()
    }

    /// Whether something waits to be handed over.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.0.waiting.borrow().is_empty()
    }

    /// The next file that has been closed since the driver looked.
    pub(crate) fn take_closed(&self) -> Option<FileId> {
        self.0.places.borrow_mut().closed.pop()
    }

    /// An operation has ended.
    pub(crate) fn finish(&self, errand: Errand, result: Result<usize, Failure>) {
        self.0.done.borrow_mut().push(errand, result);
    }

    /// Whether something is waiting, under way, or not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.counted.get() > 0
    }

    /// Whether there is something to take.
    #[must_use]
    pub fn has_done(&self) -> bool {
        !self.0.done.borrow().is_empty()
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({} of {} operations)", self.0.counted.get(), self.0.depth)
    }
}

#[cfg(test)]
mod tests;
