//! The server on epoll: where listeners are Unix sockets, that is what costs least.

use std::{io, os::fd::OwnedFd};

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::{Errno, ioctl_fionbio, retry_on_intr},
    net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt},
};

use super::{Answers, outbox::Outbox, replies::Replies, requests::Requests};

/// Bytes received by one call.
const RECEIVE_BYTES: usize = 128 << 10;

const EVENTS_PER_WAIT: usize = 256;

const LISTENER: u64 = u64::MAX;

const WATCHED: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

struct Peer {
    socket: OwnedFd,
    requests: Requests,
    outbox: Outbox<u64>,
    /// It waits for room, and nothing is received meanwhile.
    is_blocked: bool,
}

/// Serves who connects to `listener`.
///
/// # Errors
/// When waiting or accepting fails.
pub(super) fn serve(listener: &OwnedFd, mut replies: Replies) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    ioctl_fionbio(listener, true)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut peers: Vec<Option<Peer>> = Vec::new();
    let mut buffer = vec![0; RECEIVE_BYTES];
    let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // First all requests, then all replies: the kernel's paths stay warm.
        for event in &events {
            match event.data.u64() {
                LISTENER => add(&epoll, listener, &mut peers)?,
                index => with(&mut peers, index, |peer| peer.receive(&mut replies, &mut buffer)),
            }
        }
        for event in &events {
            let index = event.data.u64();
            if index != LISTENER {
                with(&mut peers, index, |peer| peer.flush(&epoll, index, &replies));
            }
        }
    }
}

fn add(
    epoll: &OwnedFd,
    listener: &OwnedFd,
    peers: &mut Vec<Option<Peer>>,
) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // The listener stays readable as long as somebody waits.
    let Ok(socket) = accept_with(listener, flags) else { return Ok(()) };
    // It fails on a Unix socket, which delays nothing.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    let free = peers.iter().position(Option::is_none);
    let index = free.unwrap_or_else(|| {
        peers.push(None);
        peers.len() - 1
    });
    epoll::add(epoll, &socket, EventData::new_u64(index as u64), WATCHED)?;
    let (requests, outbox) = (Requests::default(), Outbox::default());
    peers[index] = Some(Peer { socket, requests, outbox, is_blocked: false });
    Ok(())
}

/// Closes a connection for which `act` fails.
fn with(
    peers: &mut [Option<Peer>],
    index: u64,
    act: impl FnOnce(&mut Peer) -> rustix::io::Result<()>,
) {
    let peer = &mut peers[index as usize];
    if peer.as_mut().is_some_and(|peer| act(peer).is_err()) {
        *peer = None;
    }
}

impl Peer {
    fn receive(&mut self, replies: &mut Replies, buffer: &mut [u8]) -> rustix::io::Result<()> {
        if self.is_blocked {
            return Ok(());
        }
        let count = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return Err(Errno::PIPE),
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        let answered = replies.answer(0, &mut self.requests, &buffer[..count], &mut self.outbox);
        answered.map_err(|_| Errno::PROTO)
    }

    fn flush(&mut self, epoll: &OwnedFd, index: u64, replies: &Replies) -> rustix::io::Result<()> {
        let is_blocked = loop {
            let bytes = self.outbox.unsent(|key| replies.long(key));
            if bytes.is_empty() {
                break false;
            }
            match retry_on_intr(|| send(&self.socket, bytes, SendFlags::NOSIGNAL)) {
                Ok(count) => drop(self.outbox.advance(count)),
                Err(Errno::AGAIN) => break true,
                Err(error) => return Err(error),
            }
        };
        if is_blocked != self.is_blocked {
            self.is_blocked = is_blocked;
            let wanted = if is_blocked { EventFlags::OUT } else { WATCHED };
            epoll::modify(epoll, &self.socket, EventData::new_u64(index), wanted)?;
        }
        Ok(())
    }
}
