//! One socket with what is under way on it.

use std::{collections::VecDeque, os::fd::OwnedFd};

use rustix::io::Errno;

use super::inbox::Held;
use crate::{ConnId, input::Receive, output::Chain};

/// An operation that goes on until it is cancelled or fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasting {
    Off,
    On,
    /// To be off: its last completion follows.
    Cancelled,
}

/// A socket. It stays open until the last completion of each of its operations.
#[derive(Debug)]
pub(super) struct Socket<E> {
    pub(super) fd: OwnedFd,
    pub(super) conn: ConnId,
    /// The connection is closed; what is under way is waited for.
    pub(super) closed: bool,
    /// In the driver's queue of sockets to try.
    pub(super) queued: bool,
    /// The kernel receives into chunks.
    pub(super) receiving: Lasting,
    /// The kernel waits for bytes.
    pub(super) awaits_bytes: bool,
    /// The kernel waits for room.
    pub(super) awaits_room: bool,
    /// The kernel sends.
    pub(super) sending: bool,
    /// Its session waits for that.
    pub(super) is_awaited: bool,
    /// Sends that were begun, up to when the kernel is told of the socket.
    pub(super) sends: u32,
    /// The kernel knows the socket by its slot.
    pub(super) kept: bool,
    /// A receive of our own may get ahead.
    pub(super) readable: bool,
    /// A send of our own may get ahead.
    pub(super) writable: bool,
    /// The kernel has received all that there is.
    pub(super) ended: bool,
    /// The kernel could not receive.
    pub(super) failed: Option<Errno>,
    /// Received and not asked for yet.
    pub(super) held: VecDeque<Held>,
    /// What is asked for.
    pub(super) receive: Option<Receive>,
    /// What is to be sent and not on its way.
    pub(super) send: Option<Chain<E>>,
}

impl<E> Socket<E> {
    pub(super) fn new(fd: OwnedFd, conn: ConnId) -> Self {
        Self {
            fd,
            conn,
            closed: false,
            queued: false,
            receiving: Lasting::Off,
            awaits_bytes: false,
            awaits_room: false,
            sending: false,
            is_awaited: false,
            sends: 0,
            kept: false,
            readable: false,
            writable: true,
            ended: false,
            failed: None,
            held: VecDeque::new(),
            receive: None,
            send: None,
        }
    }

    /// Whether the kernel still has an operation on it.
    pub(super) fn is_busy(&self) -> bool {
        self.receiving != Lasting::Off || self.awaits_bytes || self.awaits_room || self.sending
    }

    /// Whether trying an operation may lead somewhere.
    pub(super) fn may_advance(&self) -> bool {
        (self.receive.is_some() && self.has_news()) || (self.writable && self.send.is_some())
    }

    fn has_news(&self) -> bool {
        !self.held.is_empty()
            || (self.receiving == Lasting::Off
                && (self.readable || self.ended || self.failed.is_some()))
    }
}
