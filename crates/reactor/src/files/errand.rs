//! One operation on its way: how far it has come, and whether it goes on.
//!
//! Owned by whoever carries it out. What a call transferred is [heard](Errand::hear); then it is
//! over, or the [rest](Errand::rest) is to be asked for.
//!
//! A call that ends in the middle of a page is gone on with from the start of that page: direct
//! I/O takes no other place. If that comes to the same place or gets nothing, a read is at the end
//! of its file; if it comes less far, it was interrupted.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use base::aligned::{ALIGNMENT_BYTES, Buffer};
use rustix::{
    fs::fdatasync,
    io::{Errno, pread, pwrite},
};

use super::{Done, Failure, FileId, Operation};

/// How often an operation is begun anew because a signal or a lack of resources kept it from being
/// begun: what goes on for longer is no accident.
const INTERRUPTIONS_MAX: u32 = 64;

/// Most bytes of a call: what the system takes at a time, in whole pages.
const CALL_BYTES_MAX: usize = 1 << 30;

/// An operation on its way.
#[derive(Debug)]
pub(crate) struct Errand {
    token: u64,
    file: FileId,
    fd: Arc<OwnedFd>,
    offset: u64,
    bytes: usize,
    /// How far it has come.
    reached: usize,
    interruptions: u32,
    pub(crate) work: Work,
}

/// What is done, and with which memory.
#[derive(Debug)]
pub(crate) enum Work {
    Read(Buffer),
    /// From a place in the buffer on.
    Write(Arc<Buffer>, usize),
    Flush,
}

/// What the next call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Bytes from the start of the operation.
    pub(crate) skip: usize,
    pub(crate) bytes: usize,
    /// In the file.
    pub(crate) offset: u64,
}

impl Errand {
    /// # Panics
    /// Panics when it is about no bytes, or about more than its buffer has.
    pub(crate) fn new(token: u64, operation: Operation, fd: Arc<OwnedFd>) -> Self {
        let file = operation.file();
        let (offset, from, bytes, work) = match operation {
            Operation::Read { offset, buffer, bytes, .. } => (offset, 0, bytes, Work::Read(buffer)),
            Operation::Write { offset, buffer, from, bytes, .. } => {
                (offset, from, bytes, Work::Write(buffer, from))
            }
            Operation::Flush { .. } => (0, 0, 0, Work::Flush),
        };
        let held_bytes = match &work {
            Work::Read(buffer) => Some(buffer.as_slice().len()),
            Work::Write(buffer, _) => Some(buffer.as_slice().len()),
            Work::Flush => None,
        };
        if let Some(held_bytes) = held_bytes {
            let fits = from.checked_add(bytes).is_some_and(|end| end <= held_bytes);
            assert!(fits && bytes > 0, "{bytes} bytes of {held_bytes}");
        }
        Self { token, file, fd, offset, bytes, reached: 0, interruptions: 0, work }
    }

    pub(crate) fn file(&self) -> FileId {
        self.file
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What is still to be done.
    pub(crate) fn rest(&self) -> Rest {
        let skip = if base::mutant!("files_go_on_in_a_page") {
            self.reached
        } else {
            self.reached - self.reached % ALIGNMENT_BYTES
        };
        let bytes = (self.bytes - skip).min(CALL_BYTES_MAX);
        Rest { skip, bytes, offset: self.offset + skip as u64 }
    }

    /// Notes what came of a call: what came of the whole, or `None` when the rest is to be done.
    pub(crate) fn hear(&mut self, called: Result<usize, Errno>) -> Option<Result<usize, Failure>> {
        let is_flush = matches!(self.work, Work::Flush);
        match called {
            _ if is_flush && base::mutant!("files_flush_again") && called.is_err() => {
                self.interruptions += 1;
                (self.interruptions > 1).then_some(Ok(0))
            }
            Ok(_) if is_flush => Some(Ok(0)),
            Ok(count) => self.move_on(count),
            // Nothing was transferred. A flush may have come across an error, which it tells once.
            Err(Errno::INTR | Errno::AGAIN)
                if !is_flush && self.interruptions < INTERRUPTIONS_MAX =>
            {
                self.interruptions += 1;
                None
            }
            Err(errno) => Some(Err(Failure::System(errno.into()))),
        }
    }

    fn move_on(&mut self, count: usize) -> Option<Result<usize, Failure>> {
        let reached = self.rest().skip + count;
        if reached >= self.bytes {
            return Some(Ok(self.bytes));
        }
        if reached > self.reached {
            self.reached = reached;
            return None;
        }
        let is_interrupted = count > 0 && reached < self.reached;
        if is_interrupted && self.interruptions < INTERRUPTIONS_MAX {
            self.interruptions += 1;
            return None;
        }
        Some(match self.work {
            Work::Read(_) if !is_interrupted => Ok(self.reached),
            _ => Err(Failure::Stuck),
        })
    }

    /// Performs all of it, and waits for it.
    pub(super) fn perform(&mut self) -> Result<usize, Failure> {
        loop {
            let Rest { skip, bytes, offset } = self.rest();
            let called = match &mut self.work {
                Work::Read(buffer) => {
                    pread(&self.fd, &mut buffer.as_mut_slice()[skip..skip + bytes], offset)
                }
                Work::Write(buffer, from) => {
                    let start = *from + skip;
                    pwrite(&self.fd, &buffer.as_slice()[start..start + bytes], offset)
                }
                Work::Flush => fdatasync(&self.fd).map(|()| 0),
            };
            if let Some(ended) = self.hear(called) {
                return ended;
            }
        }
    }

    /// It has ended.
    pub(crate) fn end(self, result: Result<usize, Failure>) -> Done {
        let buffer = match self.work {
            Work::Read(buffer) => Some(buffer),
            Work::Write(..) | Work::Flush => None,
        };
        Done { token: self.token, result, buffer }
    }
}
