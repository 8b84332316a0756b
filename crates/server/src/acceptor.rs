//! The acceptor: takes new connections and gives each to the data thread that has fewest.

use std::{convert::Infallible, io, net::SocketAddr, thread, time::Duration};

use base::{
    clock::Clock,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use reactor::{
    Accepted, Connection, Control, Driver, Epoll, Handler, Loop, LoopConfig, Mailbox, Next, Pool,
    SendError, Sender,
};
use rustix::net::{SendFlags, send};
use wire::memcached::lines;

use crate::{
    Error,
    config::Protocol,
    listener::Listener,
    ready::Ready,
    stats::ServerStats,
    thread::{Load, Order},
};

/// The acceptor's own event loop receives nothing, so it needs no buffers.
const BUFFER_BYTES: usize = 0;

/// How often a place is looked for when connections wait: this thread has nothing else to do.
const PLACE_POLL: Duration = Duration::from_millis(5);

/// The acceptor's name.
pub(crate) const NAME: &str = "acceptor";

/// The order to end: listeners are closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End;

/// A data thread, as the acceptor sees it.
#[derive(Clone, Debug)]
pub(crate) struct Recipient {
    pub(crate) orders: Sender<Order>,
    pub(crate) load: Arc<Load>,
}

/// What the acceptor is made of.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) recipients: Vec<Recipient>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) connections_max: u64,
    /// Connections beyond that wait instead of being turned away.
    pub(crate) connections_wait: bool,
    /// The server ends.
    pub(crate) ends: Arc<AtomicBool>,
    pub(crate) mailbox: Mailbox<End>,
    pub(crate) clock: Clock,
}

impl Acceptor {
    /// Accepts until told to end.
    pub(crate) fn run(self, ready: Ready) -> Result<(), Error> {
        let failed = |source| Error::Loop { thread: NAME.to_owned(), source };
        let pool = Pool::new(BUFFER_BYTES);
        let mut driver = Epoll::new(pool.clone(), self.mailbox.waker()).map_err(failed)?;
        let mut doors = Vec::new();
        // Their sockets' files are removed when this function returns.
        let mut files = Vec::new();
        for (number, listener) in (0..).zip(self.listeners) {
            let (name, shown) = (listener.name().to_owned(), listener.shown());
            let protocol = listener.protocol();
            let (socket, file) = listener.into_parts();
            files.extend(file);
            Driver::<Infallible>::listen(&mut driver, number, socket).map_err(|source| {
                Error::Listen { address: name.clone(), what: "watching the socket", source }
            })?;
            doors.push((shown, protocol));
        }
        let reception = Reception {
            doors,
            recipients: self.recipients,
            stats: self.stats,
            connections_max: self.connections_max,
            connections_wait: self.connections_wait,
            ends: self.ends,
        };
        ready.tell();
        Loop::new(LoopConfig::default(), driver, reception, self.mailbox, pool, self.clock)
            .run()
            .map(drop)
            .map_err(failed)
    }
}

/// The handler of the acceptor's loop. It has no connections of its own.
#[derive(Debug)]
struct Reception {
    /// Of each listener its name, and what is spoken there if that is not up to the server.
    doors: Vec<(String, Option<Protocol>)>,
    recipients: Vec<Recipient>,
    stats: Arc<ServerStats>,
    connections_max: u64,
    connections_wait: bool,
    ends: Arc<AtomicBool>,
}

impl Reception {
    /// Lets a connection wait until there is a place for it, and all others behind it.
    fn await_place(&self) {
        let is_full = || self.stats.connection_counts().0 >= self.connections_max;
        if !is_full() {
            return;
        }
        self.stats.set_accepting(false);
        while is_full() && !self.ends.load(Ordering::Relaxed) {
            thread::sleep(PLACE_POLL);
        }
        self.stats.set_accepting(true);
    }

    fn give(&self, accepted: Accepted) {
        if self.connections_wait {
            self.await_place();
        }
        let (open, _, _) = self.stats.connection_counts();
        if open >= self.connections_max {
            self.stats.refuse();
            // Whoever is turned away at the door may not hear why: nothing waits for it.
            let _ = send(&accepted.socket, lines::TOO_MANY_CONNECTIONS, SendFlags::NOSIGNAL);
            return;
        }
        let (local, protocol) = self.doors[accepted.listener as usize].clone();
        let peer =
            accepted.peer.map_or_else(|| local.clone(), |peer: SocketAddr| format!("tcp:{peer}"));
        let order = Order::Serve(accepted.socket, self.stats.open(peer, local), protocol);
        let fewest = { self.recipients.iter() }
            .min_by_key(|recipient| recipient.load.connections())
            .expect("invariant: there is a data thread");
        fewest.load.add();
        match fewest.orders.send(order) {
            Ok(()) => {}
            // Full cannot be: a queue takes as many as may be open. Closed: the server ends.
            Err(SendError::Full(order) | SendError::Closed(order)) => {
                drop(order);
                fewest.load.remove();
            }
            Err(_) => unreachable!("invariant: there are two reasons"),
        }
    }
}

impl Handler for Reception {
    type Session = Infallible;
    type External = Infallible;
    type Message = End;

    fn serve(&mut self, connection: &mut Connection<Infallible, Infallible>) -> Next {
        match connection.session {}
    }

    fn accepted(&mut self, accepted: Accepted, _control: &mut Control<Infallible>) {
        self.give(accepted);
    }

    fn accept_paused(&mut self, error: Option<&io::Error>) {
        let (accepting, _) = self.stats.accepting();
        match error {
            Some(error) if accepting => {
                tracing::warn!(%error, "cannot accept connections for now");
            }
            Some(_) => {}
            None => tracing::info!("accepting connections again"),
        }
        self.stats.set_accepting(error.is_none());
    }

    fn message(&mut self, End: End, control: &mut Control<Infallible>) {
        control.drain();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream};

    use base::{clock::Clock, sync::Arc};
    use reactor::{Accepted, Mailbox, mailbox};

    use super::{Reception, Recipient};
    use crate::{
        stats::{ServerStats, Settings},
        thread::{Load, Order},
    };

    fn reception(threads: usize, connections_max: u64) -> (Reception, Vec<Mailbox<Order>>) {
        let stats = ServerStats::new(Settings::default(), Clock::manual(1));
        let (recipients, inboxes) = (0..threads)
            .map(|_| {
                let (orders, inbox) = mailbox(8).expect("an eventfd");
                (Recipient { orders, load: Arc::new(Load::default()) }, inbox)
            })
            .unzip();
        let doors = vec![("here".to_owned(), None)];
        let (connections_wait, ends) = (false, Arc::default());
        (Reception { doors, recipients, stats, connections_max, connections_wait, ends }, inboxes)
    }

    fn knock(reception: &Reception) -> UnixStream {
        let (client, server) = UnixStream::pair().expect("sockets");
        reception.give(Accepted { listener: 0, socket: server.into(), peer: None });
        client
    }

    fn loads(reception: &Reception) -> Vec<usize> {
        reception.recipients.iter().map(|recipient| recipient.load.connections()).collect()
    }

    #[test]
    fn the_thread_with_fewest_connections_gets_the_next() {
        let (reception, _inboxes) = reception(3, 100);
        let _clients: Vec<_> = (0..5).map(|_| knock(&reception)).collect();
        assert_eq!(loads(&reception), [2, 2, 1]);
        reception.recipients[1].load.remove();
        reception.recipients[1].load.remove();
        let _clients: Vec<_> = (0..3).map(|_| knock(&reception)).collect();
        assert_eq!(loads(&reception), [2, 2, 2]);
        assert_eq!(reception.stats.connection_counts(), (8, 8, 0));
    }

    #[test]
    fn beyond_the_limit_clients_are_turned_away() {
        let (reception, inboxes) = reception(1, 2);
        let _clients = [knock(&reception), knock(&reception)];
        let mut said = String::new();
        knock(&reception).read_to_string(&mut said).expect("an orderly end");
        assert_eq!(said, "ERROR Too many open connections\r\n");
        assert_eq!((loads(&reception), reception.stats.connection_counts()), (vec![2], (2, 2, 1)));
        // What waits for a thread that has ended is closed and counted out.
        drop(inboxes);
        assert_eq!(reception.stats.connection_counts().0, 0);
        knock(&reception).read_to_string(&mut said).expect("an orderly end");
        assert_eq!((loads(&reception), reception.stats.connection_counts().0), (vec![2], 0));
    }
}
