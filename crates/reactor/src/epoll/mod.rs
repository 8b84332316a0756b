//! The driver for every Linux: epoll, edge-triggered, and non-blocking calls.
//!
//! Owns the sockets. A receive or send that is asked for is tried when the socket may be ready
//! and kept until it succeeds. Sockets are registered once, edge-triggered for reading: a receive
//! that does not fill its buffer has emptied the socket (epoll(7)), so a request and its reply
//! take two system calls, and back-pressure takes none: a socket is simply not read. Writability
//! is asked for only while a send waits, because a Unix socket reports it after every reply read.
//! Files are always ready for epoll: threads block on them.
//!
//! Invariants:
//! 1. A socket with a receive under way and possibly bytes, or with a send under way and possibly
//!    room, is in `ready`; so `wait` does not sleep on it, nor on what of files was not taken.
//! 2. Events of the kernel carry the generation of the connection they are for: one that comes
//!    late for a closed connection changes nothing.

mod socket;

use std::{collections::VecDeque, fmt, io, os::fd::OwnedFd, time::Duration};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
    net::{Shutdown, SocketFlags, acceptfrom_with, shutdown},
};

use crate::{
    ConnId, Error,
    driver::{Direction, Driver, Event, Sending},
    files::{FileThreads, Files},
    handler::Accepted,
    input::Receive,
    mailbox::Waker,
    output::{Chain, External},
    pool::Pool,
};
use socket::Socket;

/// Events taken from the kernel at a time: enough to make a burst, and 3 KiB.
const EVENTS_PER_WAIT: usize = 256;

/// Connections accepted from one listener per turn, so that a storm of them does not keep others
/// waiting for more than about 0.3 ms.
const ACCEPTS_PER_TURN: usize = 64;

/// The waker's name among the events; listeners count down from below it.
const WAKER: u64 = u64::MAX;
const LISTENER_LAST: u64 = WAKER - 1;

/// Most listeners: their names must not meet those of connections.
const LISTENERS_MAX: u32 = 1 << 16;

/// The epoll driver.
pub struct Epoll<E> {
    epoll: OwnedFd,
    waker: Waker,
    pool: Pool,
    listeners: Vec<(u32, OwnedFd)>,
    sockets: Vec<Option<Socket<E>>>,
    ready: VecDeque<ConnId>,
    kernel: Vec<epoll::Event>,
    files: Option<Box<FileThreads>>,
}

impl<E: External> Epoll<E> {
    /// A driver that receives into buffers of `pool` and sleeps until `waker` is readable.
    ///
    /// # Errors
    /// [`Error::Setup`] when the system has no epoll to give.
    pub fn new(pool: Pool, waker: Waker) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|source| Error::setup("creating an epoll", source))?;
        epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN)
            .map_err(|source| Error::setup("watching an eventfd", source))?;
        Ok(Self {
            epoll,
            waker,
            pool,
            listeners: Vec::new(),
            sockets: Vec::new(),
            ready: VecDeque::new(),
            kernel: Vec::with_capacity(EVENTS_PER_WAIT),
            files: None,
        })
    }

    /// Carries out the operations of `files` from now on, by threads.
    ///
    /// # Errors
    /// [`Error::Setup`] when there is no thread to be had.
    ///
    /// # Panics
    /// Panics when files are carried already.
    pub fn carry_files(&mut self, files: &Files) -> Result<(), Error> {
        assert!(self.files.is_none(), "one set of files is carried");
        self.files = Some(Box::new(FileThreads::new(files.clone(), self.waker.clone())?));
        Ok(())
    }

    /// Gives what has been started to the threads. Cold, so that a wait without files, which most
    /// are, is as short as it can be.
    #[cold]
    fn hand_over_files(&mut self) {
        if let Some(files) = &mut self.files {
            files.hand_over();
        }
    }

    /// Whether something has ended that nobody has taken.
    fn has_files_done(&self) -> bool {
        let has_done = self.files.as_ref().is_some_and(|files| files.has_done());
        has_done && !base::mutant!("epoll_sleeps_on_files")
    }

    /// Reports what has ended.
    #[cold]
    fn report_files(&mut self, events: &mut Vec<Event<E>>) {
        if let Some(files) = &mut self.files {
            files.collect();
            if files.has_done() {
                events.push(Event::FilesDone);
            }
        }
    }

    fn socket(&mut self, conn: ConnId) -> Option<&mut Socket<E>> {
        let socket = self.sockets.get_mut(conn.index as usize)?.as_mut()?;
        (socket.generation == conn.generation).then_some(socket)
    }

    fn accept(&self, name: u64, events: &mut Vec<Event<E>>) {
        let listener = u32::try_from(LISTENER_LAST - name).expect("invariant: a listener's name");
        let Some((_, socket)) = self.listeners.iter().find(|(id, _)| *id == listener) else {
            return;
        };
        for _ in 0..ACCEPTS_PER_TURN {
            match acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| peer.try_into().ok());
                    events.push(Event::Accepted(Accepted { listener, socket, peer }));
                }
                Err(Errno::AGAIN) => return,
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    events.push(Event::AcceptFailed(error.into()));
                    return;
                }
                // The connection that would have been next is gone (accept(2)): try another.
                Err(_) => {}
            }
        }
    }

    /// Puts a connection into `ready` if something may come of trying it.
    fn note(&mut self, conn: ConnId) {
        if let Some(socket) = self.socket(conn)
            && socket.may_advance()
            && !std::mem::replace(&mut socket.queued, true)
        {
            self.ready.push_back(conn);
        }
    }

    /// Tries every connection that is ready now, once.
    fn advance_ready(&mut self, events: &mut Vec<Event<E>>) {
        let pool = self.pool.clone();
        for _ in 0..self.ready.len() {
            let conn = self.ready.pop_front().expect("invariant: counted");
            let Some(socket) = self.socket(conn) else { continue };
            socket.queued = false;
            if socket.sending() && socket.writable {
                let outcome = socket.advance_send(conn, events);
                self.watch_writable(conn, outcome);
            }
            if let Some(socket) = self.socket(conn) {
                socket.advance_receive(conn, &pool, events);
            }
            self.note(conn);
        }
    }

    /// Asks to be told when the socket takes bytes again while a send waits for that, and no
    /// longer than that.
    fn watch_writable(&mut self, conn: ConnId, watch: bool) {
        let Some(socket) = self.sockets[conn.index as usize].as_mut() else { return };
        if std::mem::replace(&mut socket.watched, watch) == watch {
            return;
        }
        let flags = if watch { READ_FLAGS | EventFlags::OUT } else { READ_FLAGS };
        // It cannot fail: the socket is registered, and nothing is allocated.
        let _ = epoll::modify(&self.epoll, &socket.fd, EventData::new_u64(name(conn)), flags);
    }
}

const READ_FLAGS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

fn name(conn: ConnId) -> u64 {
    u64::from(conn.index) << 32 | u64::from(conn.generation)
}

fn conn(name: u64) -> ConnId {
    ConnId { index: (name >> 32) as u32, generation: name as u32 }
}

impl<E> fmt::Debug for Epoll<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoll({} ready)", self.ready.len())
    }
}

impl<E: External> Driver<E> for Epoll<E> {
    fn listen(&mut self, listener: u32, socket: OwnedFd) -> io::Result<()> {
        assert!(listener < LISTENERS_MAX, "listeners are counted from 0");
        let data = EventData::new_u64(LISTENER_LAST - u64::from(listener));
        epoll::add(&self.epoll, &socket, data, EventFlags::IN)?;
        self.listeners.push((listener, socket));
        Ok(())
    }

    fn set_accepting(&mut self, accepting: bool) -> io::Result<()> {
        let flags = if accepting { EventFlags::IN } else { EventFlags::empty() };
        for (listener, socket) in &self.listeners {
            let data = EventData::new_u64(LISTENER_LAST - u64::from(*listener));
            epoll::modify(&self.epoll, socket, data, flags)?;
        }
        Ok(())
    }

    fn close_listeners(&mut self) {
        self.listeners.clear();
    }

    fn open(&mut self, conn: ConnId, socket: OwnedFd) -> io::Result<()> {
        epoll::add(&self.epoll, &socket, EventData::new_u64(name(conn)), READ_FLAGS)?;
        let index = conn.index as usize;
        if index >= self.sockets.len() {
            self.sockets.resize_with(index + 1, || None);
        }
        self.sockets[index] = Some(Socket::new(socket, conn.generation));
        Ok(())
    }

    fn receive(&mut self, conn: ConnId, request: Receive) {
        if let Some(socket) = self.socket(conn) {
            socket.ask(request);
            self.note(conn);
        }
    }

    fn send(&mut self, conn: ConnId, chain: Chain<E>) -> Sending<E> {
        let Some(socket) = self.socket(conn) else {
            return Sending::Failed(Errno::NOTCONN.into());
        };
        let sending = socket.send(chain);
        if matches!(sending, Sending::Pending) {
            let full = !socket.writable;
            self.watch_writable(conn, full);
            self.note(conn);
        }
        sending
    }

    fn shutdown(&mut self, conn: ConnId, direction: Direction) {
        if let Some(socket) = self.socket(conn) {
            let how = match direction {
                Direction::Receive => Shutdown::Read,
                Direction::Send => Shutdown::Write,
            };
            // It fails when the connection is gone, which the next operation reports.
            let _ = shutdown(&socket.fd, how);
        }
    }

    fn close(&mut self, conn: ConnId) {
        if self.socket(conn).is_some() {
            self.sockets[conn.index as usize] = None;
        }
    }

    fn is_carrying(&self) -> bool {
        self.files.as_ref().is_some_and(|files| files.is_busy())
    }

    fn wait(&mut self, timeout: Duration, events: &mut Vec<Event<E>>) -> io::Result<()> {
        let is_at_once = !self.ready.is_empty() || self.has_files_done();
        let timeout = if is_at_once { Duration::ZERO } else { timeout };
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        if self.files.is_some() {
            self.hand_over_files();
        }
        self.kernel.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.kernel);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for i in 0..self.kernel.len() {
            let (flags, data) = (self.kernel[i].flags, self.kernel[i].data.u64());
            if data == WAKER {
                self.waker.clear();
                events.push(Event::Woken);
            } else if data > LISTENER_LAST - u64::from(LISTENERS_MAX) {
                self.accept(data, events);
            } else if let Some(socket) = self.socket(conn(data)) {
                socket.hear(flags);
                self.note(conn(data));
            }
        }
        self.advance_ready(events);
        if self.files.is_some() {
            self.report_files(events);
        }
        Ok(())
    }
}
