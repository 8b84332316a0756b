//! The driver for newer systems: io_uring.
//!
//! Owns the sockets. A connection that receives little at a time has one operation that lasts: the
//! kernel receives into chunks of an inbox that all connections share, and the bytes are copied
//! into the connection's own buffer, so that a request costs no system call and an idle connection
//! no buffer. One that receives much at a time is waited for and read from as the epoll driver
//! does it, straight into its buffer; so is any other while chunks are short. What a turn has to
//! send is handed over together, with the wait for the next turn; long replies in many pieces are
//! sent by calls of their own. Files are read and written by operations of the same ring, which the
//! kernel gets before what the turn sends: then a device works while it sends.
//!
//! Invariants:
//! 1. A socket on which something can be done at once is in `ready`; so `wait` does not sleep, nor
//!    while something of files was not taken.
//! 2. A slot, and the descriptor in it, is used again after the last completion of each of its
//!    operations. So a completion is always for the socket that is in its slot. When the
//!    descriptor is closed the kernel knows the socket by nothing else any more.
//! 3. What the kernel receives for a connection that does not ask is at most what it receives in
//!    one call; then its receiving is cancelled until it asks. All chunks together are the limit.
//! 4. Sends are tried once and do not wait in the kernel, so each reports in the call that hands
//!    it over, and a call that waits for one completion more than it has sends waits for news.
//!    What has ended of a file is news.
//!
//! Idea: multishot receives into provided buffers, deferred task work: `io_uring(7)`.

mod accepting;
mod carrying;
mod errands;
mod files;
mod flight;
mod inbox;
mod name;
mod probe;
mod receiving;
mod ring;
mod sending;
mod socket;
#[cfg(all(test, not(miri)))]
mod tests;
mod token;

use std::{
    collections::VecDeque,
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::PollFlags,
    io::Errno,
    net::{Shutdown, shutdown},
};

use crate::{
    ConnId, Error,
    driver::{Direction, Driver, Event, Sending},
    input::Receive,
    mailbox::Waker,
    output::{Chain, External},
    pool::Pool,
    transfer,
};
use accepting::Listener;
use carrying::Cargo;
pub use carrying::Carried;
use inbox::Inbox;
pub use ring::Features;
use ring::{Completion, Ring};
use socket::{Lasting, Socket};
use token::{Kind, Token};

/// Bytes of a chunk: some thirty requests, or one with a value of 1 KiB.
const CHUNK_BYTES: usize = 2 << 10;

/// Sockets that are tried per turn: enough to make a burst. More wait, and hold no buffer yet.
const READY_PER_TURN: usize = 256;

/// No slot.
const NOWHERE: u32 = u32::MAX;

/// The slot of operations that belong to no connection.
const NO_SLOT: u32 = 0;

/// The io_uring driver.
pub struct Uring<E: External> {
    // Dropped first: then the kernel uses no descriptor any more.
    ring: Ring<E>,
    waker: Waker,
    pool: Pool,
    listeners: Vec<Listener>,
    sockets: Vec<Option<Socket<E>>>,
    vacant: Vec<u32>,
    /// Slots by the index of a connection.
    places: Vec<u32>,
    ready: VecDeque<u32>,
    completions: Vec<Completion>,
    /// Slots with sends that report in the next call.
    sends: Vec<u32>,
    /// Files, if there are any.
    cargo: Option<Box<Cargo>>,
}

impl<E: External> Uring<E> {
    /// A driver that receives into buffers of `pool` and sleeps until `waker` is readable. Beside
    /// the pool it takes `inbox_bytes`, at least 16 KiB, to receive into.
    ///
    /// Which features the kernel has is found out by using them.
    ///
    /// # Errors
    /// [`Error::Setup`] with what does not work.
    pub fn new(pool: Pool, waker: Waker, inbox_bytes: usize) -> Result<Self, Error> {
        Self::with_at_most(Features::All, pool, waker, inbox_bytes)
    }

    /// A driver on a ring with at most the features `most`, as an older kernel has it.
    ///
    /// # Errors
    /// As of [`Uring::new`].
    pub fn with_at_most(
        most: Features,
        pool: Pool,
        waker: Waker,
        inbox_bytes: usize,
    ) -> Result<Self, Error> {
        let chunks = (inbox_bytes / CHUNK_BYTES).clamp(8, inbox::CHUNKS_MAX);
        let chunks = 1 << chunks.ilog2();
        let inbox = Inbox::new(chunks, CHUNK_BYTES)
            .ok_or_else(|| Error::setup("allocating an inbox", Errno::NOMEM))?;
        let mut ring = Ring::new(inbox, most).map_err(|(what, error)| Error::setup(what, error))?;
        probe::run(&mut ring).map_err(|(what, error)| Error::setup(what, error))?;
        let mut driver = Self {
            ring,
            waker,
            pool,
            listeners: Vec::new(),
            sockets: Vec::new(),
            vacant: Vec::new(),
            places: Vec::new(),
            ready: VecDeque::new(),
            completions: Vec::new(),
            sends: Vec::new(),
            cargo: None,
        };
        driver.await_mail();
        Ok(driver)
    }

    fn await_mail(&mut self) {
        let token = Token { kind: Kind::Wake, slot: NO_SLOT };
        self.ring.poll(self.waker.as_fd(), PollFlags::IN, true, token);
    }

    fn slot(&self, conn: ConnId) -> Option<u32> {
        let slot = *self.places.get(conn.index as usize)?;
        let socket = self.sockets.get(slot as usize)?.as_ref()?;
        (socket.conn == conn && !socket.closed).then_some(slot)
    }

    fn socket(&mut self, slot: u32) -> &mut Socket<E> {
        self.sockets[slot as usize].as_mut().expect("invariant: a slot is kept while it is used")
    }

    /// Puts a socket into `ready` if something may come of trying it.
    fn note(&mut self, slot: u32) {
        let socket = self.socket(slot);
        if socket.may_advance() && !std::mem::replace(&mut socket.queued, true) {
            self.ready.push_back(slot);
        }
    }

    /// Tries every socket that is ready now, once.
    fn advance_ready(&mut self, events: &mut Vec<Event<E>>) {
        for _ in 0..self.ready.len().min(READY_PER_TURN) {
            let slot = self.ready.pop_front().expect("invariant: counted");
            let Some(socket) = self.sockets[slot as usize].as_mut() else { continue };
            socket.queued = false;
            if socket.writable && socket.send.is_some() {
                self.advance_send(slot, events);
            }
            self.advance_receive(slot, events);
            self.note(slot);
        }
    }

    /// Frees the slot of a connection that is closed when nothing is under way any more.
    fn free_if_done(&mut self, slot: u32) {
        if self.sockets[slot as usize]
            .as_ref()
            .is_some_and(|socket| socket.closed && !socket.is_busy())
        {
            if self.socket(slot).kept && !self.ring.let_go(slot) {
                // The kernel has it open still; the client is to hear of its end all the same.
                let _ = shutdown(&self.socket(slot).fd, Shutdown::Both);
            }
            self.sockets[slot as usize] = None;
            self.vacant.push(slot);
        }
    }

    fn hear(&mut self, completion: Completion, events: &mut Vec<Event<E>>) {
        let Token { kind, slot } = completion.token;
        match kind {
            Kind::Receive => self.hear_received(slot, completion),
            Kind::Send => self.hear_sent(slot, completion.result, events),
            Kind::Readable => {
                let socket = self.socket(slot);
                socket.awaits_bytes = false;
                socket.readable = true;
                self.go_on(slot);
            }
            Kind::Writable => {
                let socket = self.socket(slot);
                socket.awaits_room = false;
                socket.writable = true;
                self.go_on(slot);
            }
            Kind::Accept => self.hear_accepted(slot, &completion, events),
            Kind::Wake => {
                self.waker.clear();
                events.push(Event::Woken);
                if !completion.more {
                    self.await_mail();
                }
            }
            Kind::File => self.hear_file(slot, completion.result),
            Kind::Cancel | Kind::Probe => {}
        }
    }

    fn go_on(&mut self, slot: u32) {
        if self.socket(slot).closed {
            self.free_if_done(slot);
        } else {
            self.note(slot);
        }
    }
}

impl<E: External> fmt::Debug for Uring<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uring({} ready)", self.ready.len())
    }
}

impl<E: External> Driver<E> for Uring<E> {
    fn listen(&mut self, listener: u32, socket: OwnedFd) -> io::Result<()> {
        self.listeners.push(Listener { number: listener, socket, accepting: Lasting::Off });
        self.accept(self.listeners.len() as u32 - 1);
        Ok(())
    }

    fn set_accepting(&mut self, accepting: bool) -> io::Result<()> {
        if accepting {
            (0..self.listeners.len() as u32).for_each(|index| self.accept(index));
        } else {
            self.stop_accepting();
        }
        Ok(())
    }

    fn close_listeners(&mut self) {
        self.stop_accepting();
        for listener in &self.listeners {
            // The kernel may hold them open a little longer. It fails when one does not listen.
            let _ = shutdown(&listener.socket, Shutdown::Both);
        }
    }

    fn open(&mut self, conn: ConnId, socket: OwnedFd) -> io::Result<()> {
        let index = conn.index as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        let socket = Some(Socket::new(socket, conn));
        self.places[index] = match self.vacant.pop() {
            Some(slot) => {
                self.sockets[slot as usize] = socket;
                slot
            }
            None => {
                self.sockets.push(socket);
                (self.sockets.len() - 1) as u32
            }
        };
        Ok(())
    }

    fn receive(&mut self, conn: ConnId, request: Receive) {
        let Some(slot) = self.slot(conn) else { return };
        let socket = self.socket(slot);
        debug_assert!(socket.receive.is_none(), "one receive at a time");
        socket.receive = Some(request);
        if socket.may_advance() {
            self.note(slot);
        } else {
            self.arm(slot);
        }
    }

    fn send(&mut self, conn: ConnId, mut chain: Chain<E>) -> Sending<E> {
        let Some(slot) = self.slot(conn) else {
            return Sending::Failed(Errno::NOTCONN.into());
        };
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        debug_assert!(!socket.sending && socket.send.is_none(), "one send at a time");
        if chain.one_slice().is_some() || chain.is_one_piece() {
            if self.sends.is_empty() && self.cargo.is_some() {
                self.begin_files();
            }
            self.hand_over(slot, chain);
            return Sending::Pending;
        }
        match transfer::push(socket.fd.as_fd(), &mut chain) {
            Ok(_) if chain.is_empty() => Sending::Done(chain),
            Ok(writable) => {
                socket.writable = writable;
                socket.send = Some(chain);
                self.await_room(slot);
                self.note(slot);
                Sending::Pending
            }
            Err(error) => Sending::Failed(error.into()),
        }
    }

    fn expect_sent(&mut self, conn: ConnId) {
        if let Some(slot) = self.slot(conn) {
            let socket = self.socket(slot);
            socket.is_awaited = socket.sending;
        }
    }

    fn shutdown(&mut self, conn: ConnId, direction: Direction) {
        if let Some(slot) = self.slot(conn) {
            let how = match direction {
                Direction::Receive => Shutdown::Read,
                Direction::Send => Shutdown::Write,
            };
            // It fails when the connection is gone, which the next operation reports.
            let _ = shutdown(&self.socket(slot).fd, how);
        }
    }

    fn close(&mut self, conn: ConnId) {
        let Some(slot) = self.slot(conn) else { return };
        self.places[conn.index as usize] = NOWHERE;
        let socket = self.sockets[slot as usize].as_mut().expect("invariant: it is in use");
        socket.closed = true;
        socket.receive = None;
        socket.send = None;
        for held in std::mem::take(&mut socket.held) {
            self.ring.inbox().give_back(held);
        }
        if socket.receiving == Lasting::On {
            socket.receiving = Lasting::Cancelled;
            self.ring.cancel(Token { kind: Kind::Receive, slot });
        }
        if socket.awaits_bytes {
            self.ring.cancel(Token { kind: Kind::Readable, slot });
        }
        if socket.awaits_room {
            self.ring.cancel(Token { kind: Kind::Writable, slot });
        }
        self.free_if_done(slot);
    }

    fn has_news(&mut self) -> bool {
        !self.ready.is_empty() || self.ring.has_news()
    }

    fn is_carrying(&self) -> bool {
        self.cargo.as_ref().is_some_and(|cargo| cargo.is_busy())
    }

    fn wait(&mut self, timeout: Duration, events: &mut Vec<Event<E>>) -> io::Result<()> {
        let is_at_once = !self.ready.is_empty() || self.has_files_done();
        let timeout = if is_at_once { Duration::ZERO } else { timeout };
        if self.cargo.is_some() {
            self.hand_over_files();
        }
        let wanted = self.wanted();
        self.sends.clear();
        self.ring.enter(wanted, timeout)?;
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.take_completions(&mut completions);
        for completion in completions.drain(..) {
            self.hear(completion, events);
        }
        self.completions = completions;
        self.advance_ready(events);
        if self.cargo.is_some() {
            self.report_files(events);
        }
        Ok(())
    }
}
