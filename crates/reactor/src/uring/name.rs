//! What a ring is called by: its descriptor, or a number that its thread has for it.
//!
//! With a descriptor every call looks it up in the table that all threads share and counts a user
//! of it. The number leads to the ring at once, but it is the thread's own, and it keeps the ring
//! alive until it is given back or the thread ends.
//!
//! Thread safety: none. In another thread the number is of another ring or of none, so a name, and
//! what has one, stays in the thread that made it.
//!
//! Source: io_uring_enter(2) and io_uring_register(2), IORING_REGISTER_RING_FDS.
#![expect(unsafe_code, reason = "system calls that nobody offers with such a number")]

use std::{ffi::c_int, marker::PhantomData, os::fd::AsRawFd};

use io_uring::{EnterFlags, IoUring, types::SubmitArgs};
use rustix::io::Errno;

/// Operations of io_uring_register(2).
const REGISTER_RING_FDS: c_int = 20;
const UNREGISTER_RING_FDS: c_int = 21;

/// The kernel chooses the number.
const ANY: u32 = u32::MAX;

/// A ring's name.
#[derive(Debug)]
pub(super) struct Name {
    number: c_int,
    is_registered: bool,
    /// Neither `Send` nor `Sync`.
    of_this_thread: PhantomData<*const ()>,
}

/// What is registered: `struct io_uring_rsrc_update`.
#[repr(C)]
struct Update {
    number: u32,
    reserved: u32,
    descriptor: u64,
}

impl Name {
    /// The descriptor.
    pub(super) fn descriptor(queues: &IoUring) -> Self {
        Self { number: queues.as_raw_fd(), is_registered: false, of_this_thread: PhantomData }
    }

    /// A number, or the descriptor if the kernel gives none.
    pub(super) fn registered(queues: &IoUring) -> Self {
        let descriptor = queues.as_raw_fd();
        let mut update = Update { number: ANY, reserved: 0, descriptor: descriptor as u64 };
        match register(queues, REGISTER_RING_FDS, &mut update) {
            true => Self {
                number: update.number as c_int,
                is_registered: true,
                of_this_thread: PhantomData,
            },
            false => Self::descriptor(queues),
        }
    }

    #[cfg(test)]
    pub(super) fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// Gives the number back. Returns whether the ring has no name but its descriptor.
    pub(super) fn forget(&mut self, queues: &IoUring) -> bool {
        if self.is_registered {
            let mut update = Update { number: self.number as u32, reserved: 0, descriptor: 0 };
            self.is_registered = !register(queues, UNREGISTER_RING_FDS, &mut update);
        }
        !self.is_registered
    }

    /// Calls the ring: hands `submissions` operations over and waits for `wanted` completions.
    ///
    /// # Safety
    /// The queues that it is the name of must be alive, the operations as `squeue::push` demands
    /// it, and `flags` have EXT_ARG.
    pub(super) unsafe fn enter(
        &self,
        submissions: u32,
        wanted: u32,
        flags: EnterFlags,
        arguments: &SubmitArgs<'_, '_>,
    ) -> Result<(), Errno> {
        let registered =
            if self.is_registered { EnterFlags::REGISTERED_RING } else { EnterFlags::empty() };
        // SAFETY: the arguments are what EXT_ARG announces, and borrow what they point to; the rest
        // is the caller's promise.
        let entered = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.number,
                submissions,
                wanted,
                (flags | registered).bits(),
                std::ptr::from_ref(arguments),
                size_of::<SubmitArgs<'_, '_>>(),
            )
        };
        if entered < 0 { Err(last_error()) } else { Ok(()) }
    }
}

/// Registers one name, or takes one back. Returns whether the kernel did it.
fn register(queues: &IoUring, operation: c_int, update: &mut Update) -> bool {
    // SAFETY: the kernel reads and writes one update, laid out as it knows it.
    let count = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            queues.as_raw_fd(),
            operation,
            std::ptr::from_mut(update),
            1,
        )
    };
    count == 1
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
