//! Sockets that the kernel knows by their slots.
//!
//! An operation that names a descriptor looks it up in the table that all threads share and counts
//! a user of the socket, and one fewer when it is done. One that names a place in the ring's own
//! table does neither. To fill a place takes a call, so only those get one who send often.
//!
//! Thread safety: none. Invariant: a socket in the table stays open, whoever closes its descriptor,
//! so who closes one empties its place first.

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::IoUring;

/// Places: as many descriptors as a process mostly may have, which is the most that the kernel
/// gives them. 8 KiB of its memory. Sockets in slots beyond go by their descriptors.
const PLACES: u32 = 1024;

/// An empty place.
const NOBODY: i32 = -1;

/// The table of a ring.
#[derive(Debug)]
pub(super) struct Files {
    places: u32,
}

impl Files {
    /// An empty table; without places if the kernel has none to give.
    pub(super) fn new(queues: &IoUring) -> Self {
        let registered = queues.submitter().register_files_sparse(PLACES);
        Self { places: if registered.is_ok() { PLACES } else { 0 } }
    }

    /// None at all.
    pub(super) fn none() -> Self {
        Self { places: 0 }
    }

    /// Puts a socket into the place of its slot. Returns whether it is there.
    pub(super) fn keep(&self, queues: &IoUring, slot: u32, socket: BorrowedFd<'_>) -> bool {
        slot < self.places
            && matches!(
                queues.submitter().register_files_update(slot, &[socket.as_raw_fd()]),
                Ok(1)
            )
    }

    /// Empties the place of a slot, in which there is a socket. Returns whether it is empty: a
    /// kernel that has no memory for that keeps the socket until another one takes the place.
    #[must_use]
    pub(super) fn let_go(&self, queues: &IoUring, slot: u32) -> bool {
        matches!(queues.submitter().register_files_update(slot, &[NOBODY]), Ok(1))
    }

    /// Empties all places.
    pub(super) fn clear(&self, queues: &IoUring) {
        if self.places > 0 {
            // Without it they are emptied a little after the ring has ended.
            let _ = queues.submitter().unregister_files();
        }
    }
}
