//! Operations on files, and what the kernel is told of beforehand to make them cheaper.

use std::{io, os::fd::BorrowedFd};

use base::aligned::Rack;
use io_uring::{
    opcode,
    squeue::Flags,
    types::{Fd, FsyncFlags},
};
use rustix::io::Errno;

use super::Ring;
use crate::{
    files::{Errand, Failure},
    output::External,
    uring::{
        errands::{Begun, Span},
        token::{Kind, Token},
    },
};

impl<E: External> Ring<E> {
    /// Makes room for so many operations on files.
    pub(in crate::uring) fn carry_files(&mut self, depth: usize) {
        self.errands.grow(depth);
    }

    /// Has the kernel know the buffers of a rack by their numbers.
    ///
    /// # Errors
    /// What it says: mostly that memory is not to be locked.
    pub(in crate::uring) fn register(&mut self, rack: Rack, buffers: &[&[u8]]) -> io::Result<()> {
        let as_vector = |buffer: &&[u8]| libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: buffer.len(),
        };
        let vectors: Vec<libc::iovec> = buffers.iter().map(as_vector).collect();
        // SAFETY: they are buffers. The kernel locks their pages, so that they stay even if a
        // buffer does not; it refuses addresses that were not registered under the number, and
        // touches others only for an operation that names them, whose buffer is an errand's.
        unsafe { self.queues.submitter().register_buffers(&vectors) }?;
        self.errands.registered = Some(rack);
        Ok(())
    }

    /// Has the kernel know the buffers of no rack.
    pub(in crate::uring) fn unregister(&mut self) {
        self.errands.registered = None;
        // It fails if none are registered.
        let _ = self.queues.submitter().unregister_buffers();
    }

    /// Has the kernel know a file by one of the places for that, which held another one before or
    /// none. Returns whether it does.
    pub(in crate::uring) fn keep_file(&self, place: u32, file: BorrowedFd<'_>) -> bool {
        self.files.keep_file(&self.queues, place, file)
    }

    /// Empties a place of files.
    pub(in crate::uring) fn let_file_go(&self, place: u32) {
        self.files.let_file_go(&self.queues, place);
    }

    /// Begins an operation on a file, which the kernel may know by a place. Its token's slot.
    ///
    /// # Panics
    /// Panics when there is no room for it.
    pub(in crate::uring) fn begin_file(&mut self, errand: Errand, place: Option<u32>) -> u32 {
        let slot = self.errands.begin(errand, place);
        self.call_file(slot);
        slot
    }

    /// Notes what came of a call, and goes on with the rest of it. What has ended comes back.
    pub(in crate::uring) fn hear_file(
        &mut self,
        slot: u32,
        result: Result<u32, Errno>,
    ) -> Option<(Begun, Result<usize, Failure>)> {
        let ended = self.errands.hear(slot, result.map(|count| count as usize));
        if ended.is_none() {
            self.call_file(slot);
        }
        ended
    }

    fn call_file(&mut self, slot: u32) {
        let (span, place) = self.errands.span(slot);
        let (number, flags) = match place.and_then(|place| self.files.file_place(place)) {
            Some(place) => (Fd(place as i32), Flags::FIXED_FILE),
            None => (Fd(span.fd()), Flags::empty()),
        };
        let entry = match span {
            Span::Read { start, len, offset, number: None, .. } => {
                opcode::Read::new(number, start, len).offset(offset).build()
            }
            Span::Read { start, len, offset, number: Some(buffer), .. } => {
                opcode::ReadFixed::new(number, start, len, buffer).offset(offset).build()
            }
            Span::Write { start, len, offset, number: None, .. } => {
                opcode::Write::new(number, start, len).offset(offset).build()
            }
            Span::Write { start, len, offset, number: Some(buffer), .. } => {
                opcode::WriteFixed::new(number, start, len, buffer).offset(offset).build()
            }
            Span::Flush { .. } => opcode::Fsync::new(number).flags(FsyncFlags::DATASYNC).build(),
        };
        self.start(entry.flags(flags), Token { kind: Kind::File, slot });
    }
}
