//! Operations on files that the kernel is at work on.
//!
//! Owns each from its begin until it has ended, and with it the memory that the kernel reads or
//! writes: that is neither touched nor dropped in between. Those that never end are leaked.
//!
//! Thread safety: none.

use std::{
    mem,
    os::fd::{AsRawFd, RawFd},
};

use base::aligned::{Buffer, Rack};
use rustix::io::Errno;

use crate::files::{Errand, Failure, Rest, Work};

/// Errands under way, by slot.
#[derive(Debug)]
pub(super) struct Errands {
    slots: Vec<Option<Begun>>,
    free: Vec<u32>,
    /// The rack whose buffers the kernel knows by their numbers.
    pub(super) registered: Option<Rack>,
}

/// An errand, and the place by which the kernel knows its file, if it does.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) errand: Errand,
    pub(super) place: Option<u32>,
}

/// What the kernel is asked for. What is pointed to stays valid until the errand is given back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    Read { fd: RawFd, start: *mut u8, len: u32, offset: u64, number: Option<u16> },
    Write { fd: RawFd, start: *const u8, len: u32, offset: u64, number: Option<u16> },
    Flush { fd: RawFd },
}

impl Span {
    pub(super) fn fd(&self) -> RawFd {
        match *self {
            Self::Read { fd, .. } | Self::Write { fd, .. } | Self::Flush { fd } => fd,
        }
    }
}

impl Errands {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), registered: None }
    }

    /// Makes room for at least so many at a time.
    pub(super) fn grow(&mut self, depth: usize) {
        let vacant = self.slots.len() as u32..depth as u32;
        self.free.extend(vacant.rev());
        self.slots.resize_with(self.slots.len().max(depth), || None);
    }

    /// Takes an errand over, with the place by which the kernel knows its file. Its slot.
    ///
    /// # Panics
    /// Panics when there is no room.
    pub(super) fn begin(&mut self, errand: Errand, place: Option<u32>) -> u32 {
        let slot = self.free.pop().expect("invariant: no more are begun than the depth");
        let vacant = &mut self.slots[slot as usize];
        assert!(vacant.is_none(), "one errand a slot");
        *vacant = Some(Begun { errand, place });
        slot
    }

    /// What is to be asked of the kernel next, and the file's place.
    ///
    /// # Panics
    /// Panics when the slot has none under way.
    pub(super) fn span(&mut self, slot: u32) -> (Span, Option<u32>) {
        let registered = self.registered;
        let number = |buffer: &Buffer| {
            let is_registered = registered.is_some() && buffer.rack() == registered;
            buffer.number().filter(|_| is_registered)
        };
        // It is in its place: memory must not be moved behind a pointer.
        let Begun { errand, place } =
            self.slots[slot as usize].as_mut().expect("invariant: it has begun and not ended");
        let (fd, Rest { skip, bytes, offset }) = (errand.fd().as_raw_fd(), errand.rest());
        let span = match &mut errand.work {
            Work::Read(buffer) => {
                let number = number(buffer);
                let part = &mut buffer.as_mut_slice()[skip..skip + bytes];
                Span::Read { fd, start: part.as_mut_ptr(), len: part.len() as u32, offset, number }
            }
            Work::Write(buffer, from) => {
                let part = &buffer.as_slice()[*from + skip..][..bytes];
                let (start, len) = (part.as_ptr(), part.len() as u32);
                Span::Write { fd, start, len, offset, number: number(buffer) }
            }
            Work::Flush => Span::Flush { fd },
        };
        (span, *place)
    }

    /// Notes what came of a call. What has ended is given back.
    ///
    /// # Panics
    /// Panics when the slot has none under way.
    pub(super) fn hear(
        &mut self,
        slot: u32,
        called: Result<usize, Errno>,
    ) -> Option<(Begun, Result<usize, Failure>)> {
        let under_way = self.slots[slot as usize].as_mut();
        let begun = under_way.expect("invariant: it has begun and not ended");
        let result = begun.errand.hear(called)?;
        Some((self.land(slot), result))
    }

    /// Gives an errand back that the kernel has reported.
    ///
    /// # Panics
    /// Panics when the slot has none under way.
    pub(super) fn land(&mut self, slot: u32) -> Begun {
        let begun = self.slots[slot as usize].take().expect("invariant: it has begun");
        self.free.push(slot);
        begun
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        if self.slots.iter().any(Option::is_some) {
            // The kernel may still be at work on their memory.
            mem::forget(mem::take(&mut self.slots));
        }
    }
}

#[cfg(test)]
mod tests;
