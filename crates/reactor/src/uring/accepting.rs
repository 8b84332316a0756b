//! How connections come.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{io::Errno, net::getpeername};

use super::{
    Uring,
    ring::{self, Completion},
    socket::Lasting,
    token::{Kind, Token},
};
use crate::{driver::Event, handler::Accepted, output::External};

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) number: u32,
    pub(super) socket: OwnedFd,
    pub(super) accepting: Lasting,
}

impl<E: External> Uring<E> {
    pub(super) fn hear_accepted(
        &mut self,
        index: u32,
        completion: &Completion,
        events: &mut Vec<Event<E>>,
    ) {
        let listener = &mut self.listeners[index as usize];
        let cancelled = listener.accepting == Lasting::Cancelled;
        if !completion.more {
            listener.accepting = Lasting::Off;
        }
        match completion.result {
            Ok(socket) => {
                let (listener, socket) = (listener.number, ring::adopt(socket));
                // A peer that has gone again has no address; its first receive tells.
                let peer = getpeername(&socket).ok().flatten();
                let peer = peer.and_then(|peer| peer.try_into().ok());
                events.push(Event::Accepted(Accepted { listener, socket, peer }));
            }
            // The connection that would have been next is gone (accept(2)).
            Err(
                Errno::CANCELED
                | Errno::AGAIN
                | Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::PERM
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
                | Errno::NOPROTOOPT
                | Errno::OPNOTSUPP,
            ) => {}
            Err(error) => return events.push(Event::AcceptFailed(error.into())),
        }
        if !cancelled {
            self.accept(index);
        }
    }

    /// Accepts from a listener, unless that is under way.
    pub(super) fn accept(&mut self, index: u32) {
        let listener = &mut self.listeners[index as usize];
        if listener.accepting == Lasting::Off {
            listener.accepting = Lasting::On;
            let token = Token { kind: Kind::Accept, slot: index };
            self.ring.accept(listener.socket.as_fd(), token);
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        for (index, listener) in (0..).zip(&mut self.listeners) {
            if listener.accepting == Lasting::On {
                listener.accepting = Lasting::Cancelled;
                self.ring.cancel(Token { kind: Kind::Accept, slot: index });
            }
        }
    }
}
