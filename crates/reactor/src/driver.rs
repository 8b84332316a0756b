//! What a loop asks of the kernel, and what it hears back.

use std::{io, os::fd::OwnedFd, time::Duration};

use crate::{
    connection::ConnId,
    handler::Accepted,
    input::Receive,
    output::{Chain, External},
    pool::Buffer,
};

/// Performs I/O for a loop.
///
/// Operations are asked for by name of the connection and reported by [`Event`]s. At most one
/// receive and one send are under way per connection. What is handed over belongs to the driver
/// until an event hands it back, or until the connection is closed.
pub trait Driver<E: External> {
    /// Accepts connections from `socket`, which listens and does not block, and reports them
    /// under the number `listener`.
    ///
    /// # Errors
    /// What the system says.
    fn listen(&mut self, listener: u32, socket: OwnedFd) -> io::Result<()>;

    /// Pauses accepting on all listeners, or goes on.
    ///
    /// # Errors
    /// What the system says.
    fn set_accepting(&mut self, accepting: bool) -> io::Result<()>;

    /// Closes all listeners: who connects from now on is refused by the system.
    fn close_listeners(&mut self);

    /// Takes over the socket of a connection, which does not block.
    ///
    /// # Errors
    /// What the system says; the socket is closed then.
    fn open(&mut self, conn: ConnId, socket: OwnedFd) -> io::Result<()>;

    /// Receives once. No buffer is occupied before bytes are there.
    fn receive(&mut self, conn: ConnId, request: Receive);

    /// Sends a chain that is not empty.
    fn send(&mut self, conn: ConnId, chain: Chain<E>) -> Sending<E>;

    /// Has a pending send be reported as soon as it is through: its session waits for that.
    fn expect_sent(&mut self, _conn: ConnId) {}

    /// Shuts one direction of a connection down. Without the receiving side, what has arrived is
    /// still received, and then the end.
    fn shutdown(&mut self, conn: ConnId, direction: Direction);

    /// Closes a connection. Its operations are not reported any more; what they hold is dropped
    /// as soon as the kernel lets go of it.
    fn close(&mut self, conn: ConnId);

    /// Whether a [`Driver::wait`] without timeout may report something, as far as that can be
    /// told without asking the kernel.
    fn has_news(&mut self) -> bool {
        true
    }

    /// Whether operations on files have been started that have not ended, or were not taken.
    fn is_carrying(&self) -> bool {
        false
    }

    /// Waits until something happens, `timeout` has passed or the mailbox is not empty, and
    /// appends what happened to `events`. May return early without any.
    ///
    /// # Errors
    /// What the system says of the waiting itself.
    fn wait(&mut self, timeout: Duration, events: &mut Vec<Event<E>>) -> io::Result<()>;
}

/// How far a send came at once.
#[derive(Debug)]
pub enum Sending<E> {
    /// Everything is sent; the empty chain comes back.
    Done(Chain<E>),
    /// [`Event::Sent`] follows.
    Pending,
    /// The connection is broken.
    Failed(io::Error),
}

/// A direction of a connection, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer.
    Receive,
    /// To the peer.
    Send,
}

/// Something that happened.
#[derive(Debug)]
pub enum Event<E> {
    /// A connection was accepted.
    Accepted(Accepted),
    /// Accepting failed for want of a resource and will go on failing.
    AcceptFailed(io::Error),
    /// `count` bytes, at least one, were received; they are the last of `buffer`.
    Received {
        /// The connection.
        conn: ConnId,
        /// What was held before, and behind it the new bytes.
        buffer: Buffer,
        /// New bytes.
        count: usize,
    },
    /// The peer sends no more.
    Ended {
        /// The connection.
        conn: ConnId,
        /// What was held.
        held: Option<Buffer>,
    },
    /// There are bytes, but the pool has no buffer for them.
    NoMemory {
        /// The connection.
        conn: ConnId,
        /// The request as it was.
        request: Receive,
    },
    /// Bytes of a pending send went out later than it was asked for.
    Progress {
        /// The connection.
        conn: ConnId,
    },
    /// A pending send is through. It may be reported only when something else happens, too.
    Sent {
        /// The connection.
        conn: ConnId,
        /// The empty chain.
        chain: Chain<E>,
    },
    /// An operation failed: the connection is broken.
    Failed {
        /// The connection.
        conn: ConnId,
        /// What the system said.
        error: io::Error,
    },
    /// The mailbox has messages.
    Woken,
    /// Operations on files have ended: [`crate::Files::take_done`] has them. Reported by each wait,
    /// which does not sleep then, until all are taken.
    FilesDone,
}
