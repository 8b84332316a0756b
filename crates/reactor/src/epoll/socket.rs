//! One socket with what is under way on it.

use std::{io::IoSlice, os::fd::OwnedFd};

use rustix::{
    event::epoll::EventFlags,
    io::{Errno, retry_on_intr},
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg},
};

use crate::{
    ConnId,
    driver::{Event, Sending},
    input::Receive,
    output::{Chain, External, Gather},
    pool::Pool,
};

/// Slices per call: 4 MiB of a value in pieces of 64 KiB, more than a socket takes at a time, and
/// 1 KiB of stack. The system's own limit is 1024.
const SLICES_PER_SEND: usize = 64;

/// Calls per turn for one connection, so that a fast reader of a huge value does not keep others
/// waiting: 16 MiB, some 2 ms.
const SENDS_PER_TURN: usize = 4;

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
        let room = buffer.room();
        let space = room.len();
        match retry_on_intr(|| recv(&self.fd, &mut *room, RecvFlags::empty())) {
            Ok((0, _)) => {
                self.readable = false;
                let held = Some(buffer).filter(|buffer| !buffer.bytes().is_empty());
                events.push(Event::Ended { conn, held });
            }
            Ok((count, _)) => {
                self.readable = count == space || self.ending;
                buffer.commit(count);
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
            Ok(()) if chain.is_empty() => {
                events.push(Event::Sent { conn, chain });
                return false;
            }
            Ok(()) => {
                if chain.len() < before {
                    events.push(Event::Progress { conn });
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
        for _ in 0..SENDS_PER_TURN {
            let mut slices = [IoSlice::new(&[]); SLICES_PER_SEND];
            let mut gather = Gather::new(&mut slices);
            chain.gather(&mut gather);
            let (count, bytes) = (gather.count(), gather.bytes());
            let flags = SendFlags::NOSIGNAL;
            let sent = retry_on_intr(|| match &slices[..count] {
                [slice] => send(&self.fd, slice, flags),
                slices => sendmsg(&self.fd, slices, &mut SendAncillaryBuffer::default(), flags),
            });
            match sent {
                Ok(sent) => {
                    chain.advance(sent);
                    self.writable = sent == bytes;
                }
                Err(Errno::AGAIN) => self.writable = false,
                Err(error) => return Err(error),
            }
            if !self.writable || chain.is_empty() {
                break;
            }
        }
        Ok(())
    }
}
