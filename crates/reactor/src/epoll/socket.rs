//! One socket with what is under way on it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{event::epoll::EventFlags, io::Errno};

use crate::{
    ConnId,
    driver::{Event, Sending},
    input::Receive,
    output::{Chain, External},
    pool::Pool,
    transfer,
};

#[derive(Debug)]
pub(super) struct Socket<E> {
    pub(super) fd: OwnedFd,
    pub(super) generation: u32,
    /// In the driver's queue of sockets to try.
    pub(super) queued: bool,
    /// Registered to hear of writability.
    pub(super) watched: bool,
    /// A send may get ahead.
    pub(super) writable: bool,
    /// A receive may get ahead.
    readable: bool,
    /// The peer is heard to have ended: reading on leads to the end, whatever a receive returns.
    ending: bool,
    receive: Option<Receive>,
    send: Option<Chain<E>>,
}

impl<E: External> Socket<E> {
    pub(super) fn new(fd: OwnedFd, generation: u32) -> Self {
        Self {
            fd,
            generation,
            queued: false,
            watched: false,
            writable: true,
            readable: false,
            ending: false,
            receive: None,
            send: None,
        }
    }

    /// Notes what the kernel says.
    pub(super) fn hear(&mut self, flags: EventFlags) {
        let over = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        self.ending |= over || flags.contains(EventFlags::RDHUP);
        self.readable |= self.ending || flags.contains(EventFlags::IN);
        self.writable |= over || flags.contains(EventFlags::OUT);
    }

    pub(super) fn sending(&self) -> bool {
        self.send.is_some()
    }

    /// Whether trying an operation may lead somewhere.
    pub(super) fn may_advance(&self) -> bool {
        (self.readable && self.receive.is_some()) || (self.writable && self.send.is_some())
    }

    pub(super) fn ask(&mut self, request: Receive) {
        debug_assert!(self.receive.is_none(), "one receive at a time");
        self.receive = Some(request);
    }

    /// Receives once if a receive is asked for and may succeed.
    pub(super) fn advance_receive(
        &mut self,
        conn: ConnId,
        pool: &Pool,
        events: &mut Vec<Event<E>>,
    ) {
        if !self.readable {
            return;
        }
        let Some(request) = self.receive.take() else { return };
        let mut buffer = match request.into_buffer(pool) {
            Ok(buffer) => buffer,
            Err(request) => {
                events.push(Event::NoMemory { conn, request });
                return;
            }
        };
        match transfer::pull(self.fd.as_fd(), &mut buffer) {
            Ok((0, _)) => {
                self.readable = false;
                let held = Some(buffer).filter(|buffer| !buffer.bytes().is_empty());
                events.push(Event::Ended { conn, held });
            }
            Ok((count, filled)) => {
                self.readable = filled || self.ending;
                events.push(Event::Received { conn, buffer, count });
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                self.receive = Some(Receive::again(buffer, pool));
            }
            Err(error) => {
                self.readable = false;
                events.push(Event::Failed { conn, error: error.into() });
            }
        }
    }

    /// Sends as much as possible; the rest is kept.
    pub(super) fn send(&mut self, chain: Chain<E>) -> Sending<E> {
        debug_assert!(self.send.is_none(), "one send at a time");
        let mut chain = chain;
        if let Err(error) = self.push(&mut chain) {
            return Sending::Failed(error.into());
        }
        if chain.is_empty() {
            return Sending::Done(chain);
        }
        self.send = Some(chain);
        Sending::Pending
    }

    /// Goes on with the send that is under way; true if the socket is full.
    pub(super) fn advance_send(&mut self, conn: ConnId, events: &mut Vec<Event<E>>) -> bool {
        let Some(mut chain) = self.send.take() else { return false };
        let before = chain.len();
        match self.push(&mut chain) {
            Ok(()) => {
                if chain.len() < before {
                    events.push(Event::Progress { conn });
                }
                if chain.is_empty() {
                    events.push(Event::Sent { conn, chain });
                    return false;
                }
                self.send = Some(chain);
            }
            Err(error) => {
                self.writable = false;
                events.push(Event::Failed { conn, error: error.into() });
            }
        }
        !self.writable
    }

    fn push(&mut self, chain: &mut Chain<E>) -> Result<(), Errno> {
        self.writable = transfer::push(self.fd.as_fd(), chain)?;
        Ok(())
    }
}
