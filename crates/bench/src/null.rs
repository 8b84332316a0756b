//! A responder that does nothing but answer.
//!
//! Against it the generator shows what it can do at most: this is its ceiling, with the same
//! connections, depth, protocol and sizes. It finds out where requests end, and answers each with
//! the same bytes: a get with a value of mean size, a set with its confirmation. It stores nothing.
//!
//! Owns a thread and a listener, a loopback port or a socket in the temporary directory; both are
//! gone when it is dropped.

use std::{
    fs, io,
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::{Errno, ioctl_fionbio, retry_on_intr},
    net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt},
};

use crate::{
    Error,
    address::{Address, save_congestion_control},
    cpu,
    protocol::{LINE_BYTES_MAX, Protocol, put_number, read_number},
};

/// Bytes received by one call.
const RECEIVE_BYTES: usize = 128 * 1024;

/// Replies that wait for a peer to read them; beyond, nothing is read from it. A value more is
/// possible, since the request is taken when it is seen.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// How often it looks whether it should stop.
const LOOK_NS: i64 = 20_000_000;

const EVENTS_PER_WAIT: usize = 256;

const LISTENER: u64 = u64::MAX;

const WATCHED: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// A running responder.
#[derive(Debug)]
pub(crate) struct Null {
    pub(crate) address: Address,
    /// The thread, as the system calls it.
    pub(crate) thread_id: u32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
}

/// How it answers.
#[derive(Debug)]
struct Replies {
    protocol: Protocol,
    get: Vec<u8>,
    set: Vec<u8>,
}

impl Null {
    /// Listens on a Unix socket or on loopback and answers from a thread that runs on `cpus`, or
    /// anywhere if there are none.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn start(
        is_unix: bool,
        protocol: Protocol,
        value_bytes: usize,
        cpus: Vec<usize>,
    ) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::system("cannot listen as a null responder", source);
        let (listener, address, path) = listen(is_unix).map_err(failed)?;
        let replies = Replies::new(protocol, value_bytes);
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let seen = Arc::clone(&stop);
        let serve = move || {
            let ready = cpu::pin(&cpus).map(|()| cpu::thread_id());
            let _ = tell.send(ready);
            // It ends when told to; a broken system shows as a generator that gets no answer.
            let _ = Responder::new(listener, replies).and_then(|mut me| me.serve(&seen));
        };
        let thread = std::thread::Builder::new()
            .name("null".to_owned())
            .spawn(serve)
            .map_err(|source| Error::system("cannot start a thread", source))?;
        let thread_id = told.recv().expect("invariant: a thread says that it is there")?;
        Ok(Self { address, thread_id, stop, thread: Some(thread), path })
    }
}

impl Drop for Null {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn listen(is_unix: bool) -> io::Result<(OwnedFd, Address, Option<PathBuf>)> {
    if is_unix {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("kelvin-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        return Ok((listener.into(), Address::Unix(path.clone()), Some(path)));
    }
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener.into(), Address::Tcp("127.0.0.1".to_owned(), port), None))
}

impl Replies {
    fn new(protocol: Protocol, value_bytes: usize) -> Self {
        let mut get = Vec::new();
        get.extend_from_slice(match protocol {
            Protocol::Text => b"VALUE null 0 ".as_slice(),
            Protocol::Meta => b"VA ",
        });
        put_number(value_bytes, &mut get);
        get.extend_from_slice(b"\r\n");
        get.resize(get.len() + value_bytes, b'n');
        get.extend_from_slice(protocol.tail());
        let set = match protocol {
            Protocol::Text => b"STORED\r\n".to_vec(),
            Protocol::Meta => b"HD\r\n".to_vec(),
        };
        Self { protocol, get, set }
    }

    /// The bytes of data in front of which a set's `line` stands, their end included.
    fn data_bytes(&self, line: &[u8]) -> Option<usize> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let number = match self.protocol {
            Protocol::Text => line.rsplit(|byte| *byte == b' ').next(),
            Protocol::Meta => line.split(|byte| *byte == b' ').nth(2),
        };
        Some(read_number(number?)? + 2)
    }

    /// Answers the requests in `bytes`; returns how many bytes are used up. `skip` is what is left
    /// of a set's data.
    fn answer(&self, bytes: &[u8], skip: &mut usize, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        loop {
            if *skip > 0 {
                let count = (*skip).min(bytes.len() - at);
                *skip -= count;
                at += count;
                if *skip > 0 {
                    return at;
                }
                out.extend_from_slice(&self.set);
            }
            let rest = &bytes[at..];
            let Some(end) = memchr::memchr(b'\n', rest) else { return at };
            let line = &rest[..end];
            at += end + 1;
            if line.starts_with(b"get ") || line.starts_with(b"mg ") {
                out.extend_from_slice(&self.get);
            } else {
                match self.data_bytes(line) {
                    Some(count) => *skip = count,
                    None => out.extend_from_slice(b"ERROR\r\n"),
                }
            }
        }
    }
}

#[derive(Debug)]
struct Peer {
    socket: OwnedFd,
    held: Vec<u8>,
    skip: usize,
    out: Vec<u8>,
    sent: usize,
    is_blocked: bool,
}

struct Responder {
    epoll: OwnedFd,
    listener: OwnedFd,
    replies: Replies,
    peers: Vec<Option<Peer>>,
    buffer: Vec<u8>,
}

impl Responder {
    fn new(listener: OwnedFd, replies: Replies) -> rustix::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let buffer = vec![0; LINE_BYTES_MAX + RECEIVE_BYTES];
        Ok(Self { epoll, listener, replies, peers: Vec::new(), buffer })
    }

    fn serve(&mut self, stop: &AtomicBool) -> rustix::io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        while !stop.load(Ordering::Relaxed) {
            let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, room, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            // As a good server would: first all requests, then all replies.
            let index = |event: &epoll::Event| usize::try_from(event.data.u64()).ok();
            for event in &events {
                match index(event) {
                    Some(index) if index < self.peers.len() => self.receive(index),
                    _ => self.accept()?,
                }
            }
            events.iter().filter_map(index).for_each(|index| self.flush(index));
        }
        Ok(())
    }

    fn accept(&mut self) -> rustix::io::Result<()> {
        // The listener stays readable as long as somebody waits.
        let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { return Ok(()) };
        ioctl_fionbio(&socket, true)?;
        // Both fail on a Unix socket, which knows neither.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        save_congestion_control(&socket);
        let index = self.peers.len();
        epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), WATCHED)?;
        self.peers.push(Some(Peer {
            socket,
            held: Vec::new(),
            skip: 0,
            out: Vec::new(),
            sent: 0,
            is_blocked: false,
        }));
        Ok(())
    }

    /// Receives once from a peer and prepares its replies. A broken connection is closed.
    fn receive(&mut self, index: usize) {
        let Some(peer) = &mut self.peers[index] else { return };
        if peer.receive(&self.replies, &mut self.buffer).is_err() {
            self.peers[index] = None;
        }
    }

    /// Sends what a peer has coming; while it takes no more, nothing is received from it.
    fn flush(&mut self, index: usize) {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        let outcome = peer.flush().and_then(|is_through| {
            if peer.is_blocked == is_through {
                peer.is_blocked = !is_through;
                let wanted = if is_through { WATCHED } else { EventFlags::OUT };
                let name = EventData::new_u64(index as u64);
                epoll::modify(&self.epoll, &peer.socket, name, wanted)?;
            }
            Ok(())
        });
        if outcome.is_err() {
            self.peers[index] = None;
        }
    }
}

impl Peer {
    fn receive(&mut self, replies: &Replies, buffer: &mut [u8]) -> rustix::io::Result<()> {
        if self.out.len() > WAITING_BYTES_MAX {
            return Ok(());
        }
        let held = self.held.len();
        buffer[..held].copy_from_slice(&self.held);
        let room = &mut buffer[held..];
        let count = match retry_on_intr(|| recv(&self.socket, &mut *room, RecvFlags::empty())) {
            Ok((0, _)) => return Err(Errno::PIPE),
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error),
        };
        let bytes = &buffer[..held + count];
        let used = replies.answer(bytes, &mut self.skip, &mut self.out);
        let rest = &bytes[used..];
        if rest.len() > LINE_BYTES_MAX {
            return Err(Errno::PROTO);
        }
        self.held.clear();
        self.held.extend_from_slice(rest);
        Ok(())
    }

    fn flush(&mut self) -> rustix::io::Result<bool> {
        while self.sent < self.out.len() {
            let bytes = &self.out[self.sent..];
            match retry_on_intr(|| send(&self.socket, bytes, SendFlags::NOSIGNAL)) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::Replies;
    use crate::protocol::Protocol;

    /// Feeds `bytes` in pieces of `size` as sockets do, and returns the replies.
    fn answered(replies: &Replies, bytes: &[u8], size: usize) -> String {
        let (mut held, mut skip, mut out) = (Vec::new(), 0, Vec::new());
        for piece in bytes.chunks(size) {
            held.extend_from_slice(piece);
            let used = replies.answer(&held, &mut skip, &mut out);
            held.drain(..used);
        }
        assert!(held.is_empty() && skip == 0);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn answers_each_request_wherever_it_is_cut() {
        let text = b"get a\r\nset a 0 0 5\r\nget \n\r\nget b\r\nbad\r\n";
        let meta = b"mg a v\r\nms a 5 T0\r\nmg \r\n\r\nmn\r\n";
        for size in 1..text.len() {
            let replies = Replies::new(Protocol::Text, 3);
            let get = "VALUE null 0 3\r\nnnn\r\nEND\r\n";
            assert_eq!(
                answered(&replies, text, size),
                format!("{get}STORED\r\n{get}ERROR\r\n"),
                "{size}"
            );
            let replies = Replies::new(Protocol::Meta, 1);
            assert_eq!(answered(&replies, meta, size), "VA 1\r\nn\r\nHD\r\nERROR\r\n", "{size}");
        }
    }
}
