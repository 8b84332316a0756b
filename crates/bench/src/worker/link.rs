//! A socket with its session.

use std::os::fd::OwnedFd;

use rustix::{
    io::{Errno, ioctl_fionbio, retry_on_intr},
    net::{RecvFlags, SendFlags, recv, send},
};

use crate::{
    Error,
    session::{Garbled, Session, Subject},
    span::Span,
    tally::Tally,
};

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    pub(super) session: Session,
    /// The start of a line that is not complete.
    held: Vec<u8>,
    /// The socket takes no more; it is watched for room.
    pub(super) is_blocked: bool,
}

/// What one call received.
#[derive(Debug)]
pub(super) struct Received {
    /// Bytes in the buffer, what was held included; 0 if nothing came.
    pub(super) bytes: usize,
    /// The socket is empty now.
    pub(super) is_last: bool,
}

/// Why nothing can be received.
#[derive(Debug)]
pub(super) enum Cause {
    Closed,
    Broken(Errno),
}

impl Link {
    pub(super) fn new(socket: OwnedFd) -> Result<Self, Error> {
        ioctl_fionbio(&socket, true)
            .map_err(|source| Error::system("cannot set up a socket", source))?;
        Ok(Self { socket, session: Session::new(), held: Vec::new(), is_blocked: false })
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn under_way(&self) -> usize {
        self.session.under_way()
    }

    /// Receives once, behind what was held.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<Received, Cause> {
        let held = self.held.len();
        buffer[..held].copy_from_slice(&self.held);
        let room = &mut buffer[held..];
        let size = room.len();
        match retry_on_intr(|| recv(&self.socket, &mut *room, RecvFlags::empty())) {
            Ok((0, _)) => Err(Cause::Closed),
            // A call that does not fill its buffer has emptied the socket (epoll(7)).
            Ok((count, _)) => Ok(Received { bytes: held + count, is_last: count < size }),
            Err(Errno::AGAIN) => Ok(Received { bytes: 0, is_last: true }),
            Err(error) => Err(Cause::Broken(error)),
        }
    }

    /// Reads the replies in `bytes` and holds what is left.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        span: Span,
        subject: &Subject,
        tally: &mut Tally,
    ) -> Result<(), Garbled> {
        let used = self.session.take(bytes, now_ns, span, subject, tally)?;
        self.held.clear();
        self.held.extend_from_slice(&bytes[used..]);
        Ok(())
    }

    /// Sends what there is; says whether all of it went.
    pub(super) fn flush(&mut self) -> Result<bool, Errno> {
        loop {
            let bytes = self.session.unsent();
            if bytes.is_empty() {
                return Ok(true);
            }
            match retry_on_intr(|| send(&self.socket, bytes, SendFlags::NOSIGNAL)) {
                Ok(count) => self.session.advance(count),
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}
