//! How replies go out: handed over with the next call, or by calls of our own.

use std::os::fd::AsFd;

use rustix::{event::PollFlags, io::Errno};

use super::{
    Uring,
    socket::Socket,
    token::{Kind, Token},
};
use crate::{
    driver::Event,
    output::{Chain, External},
    transfer,
};

/// After so many sends the kernel is told of a socket: who has sent so often will save again what
/// these two calls cost.
const SENDS_OF_SPEAKER: u32 = 64;

impl<E: External> Uring<E> {
    /// Has the kernel send a chain of one slice with the next call.
    pub(super) fn hand_over(&mut self, slot: u32, chain: Chain<E>) {
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        socket.sending = true;
        self.sends.push(slot);
        if !socket.kept {
            socket.sends += 1;
            if socket.sends == SENDS_OF_SPEAKER {
                (socket.sends, socket.kept) = (0, self.ring.keep(slot, socket.fd.as_fd()));
            }
        }
        let fd = if socket.kept { None } else { Some(socket.fd.as_fd()) };
        self.ring.send(fd, chain, Token { kind: Kind::Send, slot });
    }

    /// Goes on with a send that waits for room.
    pub(super) fn advance_send(&mut self, slot: u32, events: &mut Vec<Event<E>>) {
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        let Some(mut chain) = socket.send.take() else { return };
        let (conn, before) = (socket.conn, chain.len());
        match transfer::push(socket.fd.as_fd(), &mut chain) {
            Ok(writable) => {
                if chain.len() < before {
                    events.push(Event::Progress { conn });
                }
                if chain.is_empty() {
                    return events.push(Event::Sent { conn, chain });
                }
                socket.writable = writable;
                socket.send = Some(chain);
                self.await_room(slot);
            }
            Err(error) => events.push(Event::Failed { conn, error: error.into() }),
        }
    }

    /// Has the kernel tell when a full socket takes bytes again.
    pub(super) fn await_room(&mut self, slot: u32) {
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        if !socket.writable && !std::mem::replace(&mut socket.awaits_room, true) {
            let token = Token { kind: Kind::Writable, slot };
            self.ring.poll(socket.fd.as_fd(), PollFlags::OUT, false, token);
        }
    }

    /// Completions that are worth waking up for. A send that is complete is none, unless its
    /// connection waits for just that, or asks for nothing and may.
    pub(super) fn wanted(&self) -> u32 {
        let is_awaited = |socket: &Socket<E>| {
            socket.is_awaited && !base::mutant!("uring_sent_unheard") || socket.receive.is_none()
        };
        let asks = |slot: &u32| {
            let socket = self.sockets[*slot as usize].as_ref();
            socket.is_none_or(|socket| socket.closed || !is_awaited(socket))
        };
        let sends = if self.sends.iter().all(asks) { self.sends.len() as u32 } else { 0 };
        sends + 1
    }

    pub(super) fn hear_sent(
        &mut self,
        slot: u32,
        result: Result<u32, Errno>,
        events: &mut Vec<Event<E>>,
    ) {
        let mut chain = self.ring.land(slot);
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        (socket.sending, socket.is_awaited) = (false, false);
        if socket.closed {
            drop(chain);
            return self.free_if_done(slot);
        }
        let conn = socket.conn;
        match result {
            Ok(count) => chain.advance(count as usize),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return events.push(Event::Failed { conn, error: error.into() }),
        }
        if chain.is_empty() {
            return events.push(Event::Sent { conn, chain });
        }
        // The rest by calls of our own, which find out whether the socket is full.
        socket.send = Some(chain);
        self.note(slot);
    }
}
