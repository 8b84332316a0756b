//! The server on io_uring.
//!
//! Everything that is known to help: receives that go on by themselves into chunks that the
//! kernel picks, and sends that are handed over by the call that waits.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{Shutdown, shutdown, sockopt},
};

use super::{
    Answers,
    outbox::Outbox,
    requests::Requests,
    ring::{Completion, Ring, Token, adopt},
};

/// Chunks hold several requests, and a value of 100 KiB fills two.
const CHUNK_BYTES_MIN: usize = 2 << 10;
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Room for the line of a set.
const LINE_BYTES: usize = 256;

/// How long it sleeps at most: a peer whose reply did not fit its socket is looked at again.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// A send up to this size fits a socket that nothing waits in.
const SMALL_SEND_BYTES_MAX: usize = 16 << 10;

struct Peer<L> {
    socket: OwnedFd,
    requests: Requests,
    outbox: Outbox<L>,
    /// A send, or a wait for room, is under way.
    is_sending: bool,
    /// Nothing is received any more.
    is_over: bool,
}

struct Server<A: Answers> {
    ring: Ring,
    answers: A,
    listener: OwnedFd,
    peers: Vec<Option<Peer<A::Long>>>,
    /// What was received when there was no room, in its order.
    held: VecDeque<(u32, Completion)>,
    /// Peers that may have something to send.
    touched: Vec<u32>,
    /// Completions to wait for at least.
    wanted: usize,
}

/// Serves who connects to `listener`.
///
/// # Errors
/// When the system has no such io_uring, or waiting fails.
pub(super) fn serve<A: Answers>(listener: OwnedFd, mut answers: A) -> io::Result<()> {
    let chunk_bytes = (2 * (answers.value_bytes() + LINE_BYTES)).next_power_of_two();
    let mut ring = Ring::new(chunk_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX))?;
    answers.register(&mut ring)?;
    let (peers, held, touched) = (Vec::new(), VecDeque::new(), Vec::new());
    let mut server = Server { ring, answers, listener, peers, held, touched, wanted: 1 };
    server.ring.accept(server.listener.as_fd());
    let mut completions = Vec::new();
    loop {
        server.ring.enter(server.wanted, SLEEP_MAX, &mut completions)?;
        for completion in completions.drain(..) {
            server.complete(completion)?;
        }
        while server.answers.has_room()
            && let Some((slot, completion)) = server.held.pop_front()
        {
            server.received(slot, &completion);
        }
        server.answers.begin(&mut server.ring);
        server.send();
    }
}

impl<A: Answers> Server<A> {
    fn complete(&mut self, completion: Completion) -> io::Result<()> {
        match completion.token {
            Token::Accept => {
                if let Ok(socket) = completion.result {
                    self.add(adopt(socket));
                }
                if !completion.more {
                    self.ring.accept(self.listener.as_fd());
                }
            }
            Token::Receive(slot) if self.held.is_empty() && self.answers.has_room() => {
                self.received(slot, &completion);
            }
            Token::Receive(slot) => self.held.push_back((slot, completion)),
            Token::Send(slot) => self.sent(slot, completion.result),
            Token::Room(slot) => {
                if let Some(peer) = &mut self.peers[slot as usize] {
                    peer.is_sending = false;
                    self.touched.push(slot);
                }
            }
            token @ (Token::Read(_) | Token::Write(_)) => {
                self.touched.extend(self.answers.end(token, completion.result)?);
            }
        }
        Ok(())
    }

    fn add(&mut self, socket: OwnedFd) {
        // It fails on a Unix socket, which delays nothing.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let free = self.peers.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        self.ring.receive(socket.as_fd(), index as u32);
        self.peers[index] = Some(Peer {
            socket,
            requests: Requests::default(),
            outbox: Outbox::default(),
            is_sending: false,
            is_over: false,
        });
    }

    fn received(&mut self, slot: u32, completion: &Completion) {
        let Some(peer) = &mut self.peers[slot as usize] else { return };
        let mut is_over = !matches!(completion.result, Ok(1..) | Err(Errno::NOBUFS));
        if let (Ok(count), Some(chunk)) = (completion.result, completion.chunk) {
            let bytes = self.ring.chunk(chunk, count as usize);
            let (requests, outbox) = (&mut peer.requests, &mut peer.outbox);
            is_over |= self.answers.answer(slot, requests, bytes, outbox).is_err();
            self.ring.offer(chunk);
            self.touched.push(slot);
        }
        if is_over && completion.more {
            // It is over when the receive says so.
            let _ = shutdown(&peer.socket, Shutdown::Both);
        } else if is_over {
            peer.is_over = true;
            self.close(slot);
        } else if !completion.more {
            self.ring.receive(peer.socket.as_fd(), slot);
        }
    }

    fn sent(&mut self, slot: u32, result: Result<u32, Errno>) {
        let Some(peer) = &mut self.peers[slot as usize] else { return };
        peer.is_sending = false;
        match result {
            Ok(count) => {
                if let Some(long) = peer.outbox.advance(count as usize) {
                    self.answers.forget(long);
                }
                self.touched.push(slot);
            }
            Err(Errno::AGAIN) => {
                peer.is_sending = true;
                self.ring.room(peer.socket.as_fd(), slot);
            }
            Err(_) => drop(shutdown(&peer.socket, Shutdown::Both)),
        }
        self.close(slot);
    }

    /// Forgets a peer that nothing is under way for.
    fn close(&mut self, slot: u32) {
        let peer = &mut self.peers[slot as usize];
        if let Some(over) = peer.take_if(|peer| peer.is_over && !peer.is_sending) {
            over.outbox.longs().for_each(|long| self.answers.forget(long));
        }
    }

    /// Begins a send for each peer that has something to send and is not sending.
    fn send(&mut self) {
        // Sends complete while they are handed over. To wait for one completion more saves a call
        // when there is nothing else; but a long send may be cut short, and has to go on at once.
        self.wanted = 1;
        let mut are_small = true;
        for slot in self.touched.drain(..) {
            let Some(peer) = &mut self.peers[slot as usize] else { continue };
            let bytes = peer.outbox.unsent(|long| self.answers.long(long));
            if peer.is_sending || peer.is_over || bytes.is_empty() {
                continue;
            }
            are_small &= bytes.len() <= SMALL_SEND_BYTES_MAX;
            self.ring.send(peer.socket.as_fd(), bytes, slot);
            peer.is_sending = true;
            self.wanted += 1;
        }
        if !are_small {
            self.wanted = 1;
        }
    }
}
