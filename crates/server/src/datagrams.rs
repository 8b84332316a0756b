//! UDP: requests of one datagram each, answered by as many as the replies take.
//!
//! One thread serves all UDP sockets, a datagram after the other, and sleeps in `poll` between
//! them. It is no event loop: a request is complete or it is nothing, and whoever asks by UDP has
//! agreed to lose replies. So nothing on the way of other requests has to know of it.
//!
//! Thread safety: a thread's own, but for the mailbox that ends it.
//!
//! Invariants:
//! 1. A datagram leaves nothing behind but records: the session begins anew with each.
//! 2. What is no command is not answered: a reply would be, and two servers, or one with itself,
//!    would go on for ever about one datagram with a forged sender.
//! 3. Nothing is sent but replies to a whole request, and to whom it came from.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    time::Duration,
};

use base::sync::Arc;
use cache::Cache;
use reactor::{Connection, Mailbox, Next, Pool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::memcached::{
    Limits, Step,
    binary::{MAGIC_REPLY, MAGIC_REQUEST},
    datagram::{self, DATAGRAM_BYTES_MAX, MESSAGE_BYTES_MAX},
    lines, parse,
};

use crate::{
    Error,
    config::{ListenAddress, Protocol},
    listener::{bind_datagrams, resolve, some_of},
    memcached::{Access, Context, LargeValue, Session},
    ready::Ready,
    stats::{OpenConnection, ServerStats},
};

/// The thread's name.
pub(crate) const NAME: &str = "udp";

/// Longest datagram that there can be.
const DATAGRAM_READ_BYTES_MAX: usize = 64 << 10;

/// Datagrams that are served from one socket before the others have their turn.
const DATAGRAMS_PER_TURN: usize = 32;

/// Buffers of the thread: one request and the replies of a turn.
const BUFFER_BYTES: usize = 1 << 20;

/// Longest reply. It lies in memory until it is sent, because each datagram tells how many there
/// are: a value of 1 MiB, which is the usual limit, and what goes with it.
const REPLY_BYTES_MAX: usize = (1 << 20) + (64 << 10);

const _: () = assert!(REPLY_BYTES_MAX <= MESSAGE_BYTES_MAX);

/// Turns that a datagram may take: one has at most 13,000 requests, or 32,000 keys, of which a turn
/// serves 512, and turns that wait for room are no more than replies have room for.
const TURNS_MAX: usize = 256;

/// Turns that wait for memory which others have pinned, a millisecond each, as the thread has other
/// clients. Then the reply is dropped.
const WAITS_MAX: usize = 10;

const WAIT: Duration = Duration::from_millis(1);

/// How long room for one datagram is waited for: 1400 bytes take so long at 1 Mbit/s.
const ROOM_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 11_000_000 };

/// The order to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End;

/// A UDP socket.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    socket: UdpSocket,
    address: SocketAddr,
    protocol: Option<Protocol>,
}

impl DatagramSocket {
    /// Binds a socket to everything that `addresses` name.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub(crate) fn open_all(addresses: &[ListenAddress]) -> Result<Vec<Self>, Error> {
        let mut sockets = Vec::new();
        for address in addresses {
            let all = resolve(address)?;
            let protocol = address.protocol();
            let opened = all.iter().map(|address| {
                let (socket, address) = bind_datagrams(*address)?;
                Ok(Self { socket, address, protocol })
            });
            sockets.extend(some_of(opened)?);
        }
        Ok(sockets)
    }

    /// Where it is bound.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn announce(&self) {
        tracing::info!(address = %self.address, "listening for datagrams");
        if self.is_exposed() {
            tracing::warn!(
                address = %self.address,
                "whoever reaches this address can read and change everything, and have replies \
                 sent to others"
            );
        }
    }

    /// Whether others than this machine's users may reach it.
    pub(crate) fn is_exposed(&self) -> bool {
        !self.address.ip().to_canonical().is_loopback()
    }
}

/// What the thread is made of.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) sockets: Vec<DatagramSocket>,
    pub(crate) mailbox: Mailbox<End>,
    pub(crate) cache: Cache,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) control: Arc<crate::StopControl>,
    pub(crate) access: Access,
}

impl Datagrams {
    /// Serves until told to end.
    pub(crate) fn run(self, ready: Ready) -> Result<(), Error> {
        let failed = |what: &'static str| {
            move |source: io::Error| Error::Thread { thread: NAME.to_owned(), what, source }
        };
        let worker = self.cache.worker()?;
        let context = Context::new(worker, &self.stats, self.control).with_access(self.access);
        let places = self.sockets.iter().map(|socket| self.stats.open_datagrams(socket.address));
        let mut desk = Desk::new(context, places);
        let waker = self.mailbox.waker();
        ready.tell();
        self.sockets.iter().for_each(DatagramSocket::announce);
        let mut room = vec![0; DATAGRAM_READ_BYTES_MAX];
        loop {
            let sockets = self.sockets.iter().map(|socket| socket.socket.as_fd());
            let awaited = sockets.chain([waker.as_fd()]);
            let mut awaited: Vec<_> =
                awaited.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            match desk.context.worker().offline(|| poll(&mut awaited, None)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("wait in")(error.into())),
            }
            if awaited.last().is_some_and(|last| !last.revents().is_empty()) {
                return Ok(());
            }
            for (place, socket) in self.sockets.iter().enumerate() {
                desk.serve(place, socket, &mut room);
            }
        }
    }
}

/// Whether a message is a reply of the binary protocol, or begins with a line that is no command,
/// as all replies of text do but numbers: those are refused in a line that is none either.
fn is_noise(message: &[u8]) -> bool {
    let step = parse(message, &Limits::default());
    match message.first() {
        Some(&MAGIC_REQUEST) => false,
        Some(&MAGIC_REPLY) => true,
        _ => matches!(step, Step::Invalid { reply, .. } if reply == lines::ERROR),
    }
}

/// One client after the other.
struct Desk {
    context: Context,
    pool: Pool,
    /// One for each socket, whoever sends to it.
    connections: Vec<Connection<Session, LargeValue>>,
}

impl Desk {
    fn new(context: Context, places: impl Iterator<Item = OpenConnection>) -> Self {
        let pool = Pool::new(BUFFER_BYTES);
        let connections =
            places.map(|place| Connection::standalone(Session::new(place), &pool)).collect();
        Self { context, pool, connections }
    }

    /// Answers what has arrived at the socket in this place.
    fn serve(&mut self, place: usize, at: &DatagramSocket, room: &mut [u8]) {
        let DatagramSocket { socket, protocol, .. } = at;
        for _ in 0..DATAGRAMS_PER_TURN {
            let (len, from) = match socket.recv_from(room) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // That an earlier reply did not arrive is told in this way, too.
                Err(_) => continue,
            };
            let Some((request, message)) = datagram::read(&room[..len]) else { continue };
            if is_noise(message) {
                continue;
            }
            let Some(reply) = self.answer(place, *protocol, message) else {
                tracing::debug!(%from, "a reply over UDP is dropped");
                continue;
            };
            for (frame, part) in datagram::parts(request, &reply) {
                let mut datagram = arrayvec::ArrayVec::<u8, DATAGRAM_BYTES_MAX>::new();
                datagram.extend(frame.into_iter().chain(part.iter().copied()));
                if !self.send(socket, &datagram, from) {
                    break;
                }
            }
        }
    }

    /// Sends a datagram, and waits a little until the system has room for it. Whoever asks by UDP
    /// does without a reply that cannot be sent.
    fn send(&mut self, socket: &UdpSocket, datagram: &[u8], to: SocketAddr) -> bool {
        match socket.send_to(datagram, to) {
            Ok(_) => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        let mut awaited = [PollFd::new(socket, PollFlags::OUT)];
        let has_room = self.context.worker().offline(|| poll(&mut awaited, Some(&ROOM_WAIT)));
        has_room.is_ok_and(|ready| ready > 0) && socket.send_to(datagram, to).is_ok()
    }

    /// The replies to the requests in `message`; `None` if they are too long, or never ready.
    fn answer(
        &mut self,
        place: usize,
        protocol: Option<Protocol>,
        mut message: &[u8],
    ) -> Option<Vec<u8>> {
        let Self { context, pool, connections } = self;
        let Connection { session, input, output, .. } = &mut connections[place];
        session.begin_anew(protocol);
        input.consume(input.bytes().len());
        let (mut reply, mut waits) = (Vec::new(), 0);
        for _ in 0..TURNS_MAX {
            let fed = input.feed(message, pool);
            message = &message[fed..];
            let now_ms = context.worker().cache().clock().now_ms();
            context.begin_group(now_ms);
            let next = session.serve(context, input, output);
            let mut chain = output.launch();
            if reply.len() + chain.len() > REPLY_BYTES_MAX {
                output.landed(reactor::Chain::default());
                return None;
            }
            reply.append(&mut chain.take_bytes());
            output.landed(chain);
            context.log_evictions();
            match next {
                Next::Finish | Next::Abort => return Some(reply),
                Next::Read if message.is_empty() || fed == 0 => return Some(reply),
                Next::Read | Next::Yield | Next::Blocked | Next::Behind => {}
                // Nobody rouses it: its session is gone with the datagram.
                Next::Wait => return None,
                Next::Retry if waits == WAITS_MAX => return None,
                Next::Retry => {
                    waits += 1;
                    context.worker().offline(|| std::thread::sleep(WAIT));
                }
            }
        }
        None
    }
}
