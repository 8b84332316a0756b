//! How a connection gets its bytes: by the kernel, through chunks, or by calls of our own.

use std::os::fd::AsFd;

use rustix::{event::PollFlags, io::Errno};

use super::{
    Uring,
    ring::Completion,
    socket::Lasting,
    token::{Kind, Token},
};
use crate::{driver::Event, input::Receive, output::External, transfer};

/// A connection whose next receive is to take so many bytes reads them itself: to copy more costs
/// more than a system call.
const OWN_RECEIVE_BYTES_MIN: usize = 16 << 10;

/// While less than this part of the chunks is the kernel's, receiving into them is not begun.
const CHUNKS_SHORT_DIVISOR: usize = 4;

impl<E: External> Uring<E> {
    /// Receives once if that is asked for, or sees to it that the kernel tells when it can.
    pub(super) fn advance_receive(&mut self, slot: u32, events: &mut Vec<Event<E>>) {
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        let Some(request) = socket.receive.take() else { return };
        let conn = socket.conn;
        if !socket.held.is_empty() {
            match request.into_buffer(&self.pool) {
                Ok(mut buffer) => {
                    let mut count = 0;
                    while let Some(first) = socket.held.front_mut() {
                        let taken = buffer.append(self.ring.inbox().bytes(first));
                        count += taken;
                        if taken < first.len() {
                            first.consume(taken);
                            break;
                        }
                        let used = socket.held.pop_front().expect("invariant: it is the first");
                        self.ring.inbox().give_back(used);
                    }
                    events.push(Event::Received { conn, buffer, count });
                }
                Err(request) => events.push(Event::NoMemory { conn, request }),
            }
        } else if socket.receiving != Lasting::Off {
            socket.receive = Some(request);
            self.arm(slot);
        } else if let Some(error) = socket.failed.take() {
            events.push(Event::Failed { conn, error: error.into() });
        } else if socket.ended {
            events.push(Event::Ended { conn, held: request.into_held() });
        } else if socket.readable {
            self.pull(slot, request, events);
        } else {
            socket.receive = Some(request);
            self.arm(slot);
        }
    }

    /// Receives by a call of our own.
    fn pull(&mut self, slot: u32, request: Receive, events: &mut Vec<Event<E>>) {
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        let conn = socket.conn;
        let mut buffer = match request.into_buffer(&self.pool) {
            Ok(buffer) => buffer,
            Err(request) => return events.push(Event::NoMemory { conn, request }),
        };
        socket.readable = false;
        match transfer::pull(socket.fd.as_fd(), &mut buffer) {
            Ok((0, _)) => {
                let held = Some(buffer).filter(|buffer| !buffer.bytes().is_empty());
                events.push(Event::Ended { conn, held });
            }
            Ok((count, filled)) => {
                socket.readable = filled;
                events.push(Event::Received { conn, buffer, count });
            }
            Err(Errno::AGAIN) => {
                socket.receive = Some(Receive::again(buffer, &self.pool));
                self.arm(slot);
            }
            Err(error) => events.push(Event::Failed { conn, error: error.into() }),
        }
    }

    /// Has the kernel receive for a connection that asks and has nothing, or tell it when it can.
    pub(super) fn arm(&mut self, slot: u32) {
        let short = self.chunks_are_short();
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        let wanted_bytes = socket.receive.as_ref().map_or(0, Receive::wanted_bytes);
        let by_itself = wanted_bytes >= OWN_RECEIVE_BYTES_MIN;
        match socket.receiving {
            Lasting::On if by_itself => {
                socket.receiving = Lasting::Cancelled;
                self.ring.cancel(Token { kind: Kind::Receive, slot });
            }
            // What has been begun reports.
            Lasting::On | Lasting::Cancelled => {}
            Lasting::Off if socket.awaits_bytes => {}
            Lasting::Off if by_itself || short => {
                socket.awaits_bytes = true;
                let events = PollFlags::IN | PollFlags::RDHUP;
                let token = Token { kind: Kind::Readable, slot };
                self.ring.poll(socket.fd.as_fd(), events, false, token);
            }
            Lasting::Off => {
                socket.receiving = Lasting::On;
                self.ring.receive(socket.fd.as_fd(), Token { kind: Kind::Receive, slot });
            }
        }
    }

    fn chunks_are_short(&mut self) -> bool {
        let inbox = self.ring.inbox();
        let chunks = usize::from(inbox.chunks());
        chunks - inbox.held() < chunks / CHUNKS_SHORT_DIVISOR
    }

    pub(super) fn hear_received(&mut self, slot: u32, completion: Completion) {
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        if !completion.more {
            socket.receiving = Lasting::Off;
        }
        match completion.result {
            Ok(0) => socket.ended = true,
            // No chunk was left, or it is time to read by a call: there may be bytes.
            Err(Errno::NOBUFS | Errno::CANCELED) => socket.readable = true,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => socket.failed = Some(error),
        }
        match completion.held {
            Some(held) if socket.closed || held.len() == 0 => self.ring.inbox().give_back(held),
            Some(held) => socket.held.push_back(held),
            None => {}
        }
        if socket.closed {
            return self.free_if_done(slot);
        }
        if socket.receive.is_none() && socket.receiving == Lasting::On {
            socket.receiving = Lasting::Cancelled;
            self.ring.cancel(Token { kind: Kind::Receive, slot });
        }
        // What asks and has nothing is armed again.
        if socket.receive.is_some() && !std::mem::replace(&mut socket.queued, true) {
            self.ready.push_back(slot);
        }
    }
}
