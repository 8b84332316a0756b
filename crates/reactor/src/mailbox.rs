//! Messages from other threads to a loop.
//!
//! A bounded queue, and an eventfd that wakes the loop when the queue becomes non-empty. A sender
//! that finds the queue full gets its message back and decides: nothing here waits.
//!
//! Thread safety: senders may be cloned and used by any thread; the other end belongs to the loop.
//! No lock is held across a system call.

use std::{
    collections::VecDeque,
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use base::sync::{Arc, Mutex, lock};
use rustix::{
    event::{EventfdFlags, eventfd},
    io::{read, write},
};

use crate::Error;

/// Makes a queue for at most `limit` messages.
///
/// # Errors
/// [`Error::Setup`] when the system has no eventfd to give.
pub fn mailbox<M>(limit: usize) -> Result<(Sender<M>, Mailbox<M>), Error> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let wake = eventfd(0, flags).map_err(|source| Error::setup("creating an eventfd", source))?;
    let queue = Mutex::new(Queue { messages: VecDeque::new(), closed: false });
    let shared = Arc::new(Shared { queue, limit, waker: Waker(Arc::new(wake)) });
    Ok((Sender(Arc::clone(&shared)), Mailbox(shared)))
}

struct Shared<M> {
    queue: Mutex<Queue<M>>,
    limit: usize,
    waker: Waker,
}

struct Queue<M> {
    messages: VecDeque<M>,
    closed: bool,
}

/// The end that sends. Clones share the queue.
pub struct Sender<M>(Arc<Shared<M>>);

/// The end that a loop reads.
pub struct Mailbox<M>(Arc<Shared<M>>);

/// What a loop sleeps on: readable while there may be messages, or files are done with.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Makes it readable.
    pub(crate) fn wake(&self) {
        // It fails only when the counter is at its maximum, and then the loop is awake.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable until the next message; to be called before messages are taken.
    pub fn clear(&self) {
        // It fails only when it is unreadable already.
        let _ = read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A message that could not be sent.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError<M> {
    /// The queue holds as many as it may.
    Full(M),
    /// The loop has ended.
    Closed(M),
}

impl<M> Sender<M> {
    /// Sends `message` and wakes the loop if it may sleep.
    ///
    /// # Errors
    /// [`SendError`] with the message.
    pub fn send(&self, message: M) -> Result<(), SendError<M>> {
        let was_empty = {
            let mut queue = lock(&self.0.queue);
            if queue.closed {
                return Err(SendError::Closed(message));
            }
            if queue.messages.len() >= self.0.limit {
                return Err(SendError::Full(message));
            }
            let was_empty = queue.messages.is_empty();
            queue.messages.push_back(message);
            was_empty
        };
        if was_empty {
            self.0.waker.wake();
        }
        Ok(())
    }
}

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Sender<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender(at most {} messages)", self.0.limit)
    }
}

impl<M> Mailbox<M> {
    /// What to sleep on.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.0.waker.clone()
    }

    /// Moves all messages to the end of `into`.
    pub(crate) fn take_all(&self, into: &mut VecDeque<M>) {
        into.append(&mut lock(&self.0.queue).messages);
    }
}

impl<M> Drop for Mailbox<M> {
    fn drop(&mut self) {
        let unread = {
            let mut queue = lock(&self.0.queue);
            queue.closed = true;
            std::mem::take(&mut queue.messages)
        };
        drop(unread); // Sockets among them are closed after the lock is released.
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox({} of {} messages)", lock(&self.0.queue).messages.len(), self.0.limit)
    }
}
