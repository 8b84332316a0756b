//! A driver without a kernel: the test says what happens and sees what was asked.

use std::{cell::RefCell, collections::VecDeque, io, os::fd::OwnedFd, rc::Rc, time::Duration};

use crate::{
    CloseReason, ConnId, Connection, Control, Next, Pool,
    driver::{Direction, Driver, Event, Sending},
    handler::{Accepted, Burst, Handler},
    input::Receive,
    output::{Chain, External, Gather},
};

/// A value of one repeated byte.
#[derive(Debug)]
pub(super) struct Blob(pub(super) Vec<u8>);

impl External for Blob {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn gather<'a>(&'a self, skip: usize, to: &mut Gather<'a, '_>) {
        to.push(&self.0[skip..]);
    }
}

/// What the loop asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Open(ConnId),
    Receive(ConnId),
    Send(ConnId, Vec<u8>),
    ExpectSent(ConnId),
    Shutdown(ConnId, Direction),
    Close(ConnId),
    SetAccepting(bool),
    CloseListeners,
}

#[derive(Default)]
pub(super) struct Script {
    pub(super) events: VecDeque<Event<Blob>>,
    pub(super) asked: Vec<Asked>,
    pub(super) receives: Vec<(ConnId, Receive)>,
    pub(super) chains: Vec<(ConnId, Chain<Blob>)>,
    pub(super) timeouts_ms: Vec<u64>,
    /// Sends stay pending.
    pub(super) full: bool,
    pub(super) refuse_open: bool,
    pub(super) fail_wait: bool,
    /// Files are at work.
    pub(super) is_carrying: bool,
}

#[derive(Clone, Default)]
pub(super) struct Fake(pub(super) Rc<RefCell<Script>>);

impl Fake {
    /// What the loop has asked for since the last call.
    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.borrow_mut().asked)
    }

    pub(super) fn happens(&self, event: Event<Blob>) {
        self.0.borrow_mut().events.push_back(event);
    }

    /// Bytes arrive on a connection that is being received from.
    pub(super) fn arrives(&self, conn: ConnId, bytes: &[u8], pool: &Pool) {
        let request = self.take_receive(conn);
        let mut buffer = request.into_buffer(pool).expect("enough memory");
        let count = buffer.append(bytes);
        assert_eq!(count, bytes.len());
        self.happens(Event::Received { conn, buffer, count });
    }

    pub(super) fn ends(&self, conn: ConnId) {
        let held = self.take_receive(conn).into_held();
        self.happens(Event::Ended { conn, held });
    }

    pub(super) fn take_receive(&self, conn: ConnId) -> Receive {
        let receives = &mut self.0.borrow_mut().receives;
        let at = receives.iter().position(|(of, _)| *of == conn).expect("it is received from");
        receives.remove(at).1
    }

    /// A pending send goes through.
    pub(super) fn sent(&self, conn: ConnId) {
        let mut script = self.0.borrow_mut();
        let at = script.chains.iter().position(|(of, _)| *of == conn).expect("it is sending");
        let (_, mut chain) = script.chains.remove(at);
        drop(chain.take_bytes());
        script.events.push_back(Event::Sent { conn, chain });
    }
}

impl Driver<Blob> for Fake {
    fn listen(&mut self, _listener: u32, _socket: OwnedFd) -> io::Result<()> {
        Ok(())
    }

    fn set_accepting(&mut self, accepting: bool) -> io::Result<()> {
        self.0.borrow_mut().asked.push(Asked::SetAccepting(accepting));
        Ok(())
    }

    fn close_listeners(&mut self) {
        self.0.borrow_mut().asked.push(Asked::CloseListeners);
    }

    fn open(&mut self, conn: ConnId, _socket: OwnedFd) -> io::Result<()> {
        let mut script = self.0.borrow_mut();
        if script.refuse_open {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        script.asked.push(Asked::Open(conn));
        Ok(())
    }

    fn receive(&mut self, conn: ConnId, request: Receive) {
        let mut script = self.0.borrow_mut();
        assert!(script.receives.iter().all(|(of, _)| *of != conn), "one receive at a time");
        script.asked.push(Asked::Receive(conn));
        script.receives.push((conn, request));
    }

    fn send(&mut self, conn: ConnId, mut chain: Chain<Blob>) -> Sending<Blob> {
        assert!(!chain.is_empty(), "nothing to send");
        let mut script = self.0.borrow_mut();
        assert!(script.chains.iter().all(|(of, _)| *of != conn), "one send at a time");
        if script.full {
            script.asked.push(Asked::Send(conn, Vec::new()));
            script.chains.push((conn, chain));
            return Sending::Pending;
        }
        script.asked.push(Asked::Send(conn, chain.take_bytes()));
        Sending::Done(chain)
    }

    fn expect_sent(&mut self, conn: ConnId) {
        self.0.borrow_mut().asked.push(Asked::ExpectSent(conn));
    }

    fn shutdown(&mut self, conn: ConnId, direction: Direction) {
        self.0.borrow_mut().asked.push(Asked::Shutdown(conn, direction));
    }

    fn close(&mut self, conn: ConnId) {
        let mut script = self.0.borrow_mut();
        script.asked.push(Asked::Close(conn));
        script.receives.retain(|(of, _)| *of != conn);
        script.chains.retain(|(of, _)| *of != conn);
    }

    fn is_carrying(&self) -> bool {
        self.0.borrow().is_carrying
    }

    fn wait(&mut self, timeout: Duration, events: &mut Vec<Event<Blob>>) -> io::Result<()> {
        let mut script = self.0.borrow_mut();
        script.timeouts_ms.push(timeout.as_millis().try_into().expect("a short time"));
        events.extend(script.events.drain(..));
        if script.fail_wait { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
    }
}

/// Bytes of the request that begins with `N`.
const NEED: usize = 4096;

/// A handler whose session is told by each byte what to do: an upper-case letter says what is
/// next, any other byte is echoed.
#[derive(Default)]
pub(super) struct Puppet {
    /// Sizes of the bursts.
    pub(super) bursts: Vec<usize>,
    pub(super) closed: Vec<(u32, String)>,
    pub(super) pauses: Vec<bool>,
    pub(super) ticks: usize,
    pub(super) waits: usize,
    /// When it wants to be woken next.
    pub(super) wake_at_ms: Option<u64>,
    /// Connections to rouse then.
    pub(super) to_rouse: Vec<ConnId>,
}

impl Handler for Puppet {
    /// The name of the connection in the test.
    type Session = u32;
    type External = Blob;
    type Message = Order;

    fn serve(&mut self, connection: &mut Connection<u32, Blob>) -> Next {
        loop {
            if !connection.output.has_room() {
                return Next::Blocked;
            }
            let Some(byte) = connection.input.bytes().first().copied() else { return Next::Read };
            if byte == b'.' && connection.input.bytes().len() < 3 && !connection.input.ended() {
                return Next::Read; // Three bytes are one request.
            }
            if byte == b'N' && connection.input.bytes().len() < NEED && !connection.input.ended() {
                connection.input.need(NEED);
                return Next::Read;
            }
            if byte == b'B' && !connection.output.is_idle() {
                return Next::Behind;
            }
            connection.input.consume(1);
            match byte {
                b'Y' => return Next::Yield,
                b'R' => return Next::Retry,
                b'F' => return Next::Finish,
                b'A' => return Next::Abort,
                b'L' => connection.output.attach(Blob(vec![b'l'; 2 << 20])),
                byte => connection.output.put(&[byte]),
            }
        }
    }

    fn serve_all(&mut self, burst: &mut Burst<u32, Blob>, _now_ms: u64) {
        self.bursts.push(burst.len());
        for connection in burst {
            connection.next = self.serve(connection);
        }
    }

    fn accepted(&mut self, accepted: Accepted, control: &mut Control<u32>) {
        control.adopt(accepted.socket, accepted.listener);
    }

    fn accept_paused(&mut self, error: Option<&io::Error>) {
        self.pauses.push(error.is_some());
    }

    fn message(&mut self, order: Order, control: &mut Control<u32>) {
        match order {
            Order::Drain => control.drain(),
            Order::Stop => control.stop(),
        }
    }

    fn wake_at_ms(&self) -> u64 {
        self.wake_at_ms.unwrap_or(u64::MAX)
    }

    fn woken(&mut self, control: &mut Control<u32>) {
        self.wake_at_ms = None;
        self.to_rouse.drain(..).for_each(|conn| control.rouse(conn));
    }

    fn refused(&mut self, connection: &mut Connection<u32, Blob>, _reason: &CloseReason) {
        connection.output.put(b"sorry");
    }

    fn closed(&mut self, session: u32, reason: CloseReason) {
        self.closed.push((session, format!("{reason:?}").split('(').next().unwrap().to_owned()));
    }

    fn tick(&mut self, _control: &mut Control<u32>) {
        self.ticks += 1;
    }

    fn while_waiting<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        self.waits += 1;
        wait()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Drain,
    Stop,
}
