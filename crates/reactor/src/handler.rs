//! What a loop's owner implements, and what it may ask of the loop.

use std::{io, net::SocketAddr, os::fd::OwnedFd};

use crate::{
    connection::{ConnId, Connection, Next},
    output::External,
    pool::PoolStats,
};

/// All connections of one turn that have something to do.
pub type Burst<S, E> = [Box<Connection<S, E>>];

/// Why a connection ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// The session finished, or the peer sent its last and everything is answered.
    Finished,
    /// The session said [`Next::Abort`].
    Aborted,
    /// Nothing moved in either direction for the idle timeout.
    Idle,
    /// The pool had no memory for its input for [`crate::STARVED_MAX_MS`].
    Starved,
    /// The input is full and the session asked for more.
    InputFull,
    /// The loop stopped.
    Stopped,
    /// The system said no; the peer may have reset the connection.
    Failed(io::Error),
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// Number of the listener that it came through.
    pub listener: u32,
    /// The socket. It does not block and has its listener's options, such as TCP_NODELAY.
    pub socket: OwnedFd,
    /// The peer's address; none on a Unix socket.
    pub peer: Option<SocketAddr>,
}

/// The owner of a loop: makes sessions, serves them, and performs no I/O.
pub trait Handler {
    /// What belongs to one connection.
    type Session;
    /// Memory outside the pool that sessions send in place.
    type External: External;
    /// What other threads send to this one.
    type Message;

    /// Serves one connection: uses bytes of its input, appends replies to its output, and says
    /// what is to happen next. It must do a bounded amount of work, and it is called again when
    /// what it asked for has happened.
    fn serve(&mut self, connection: &mut Connection<Self::Session, Self::External>) -> Next;

    /// Serves all connections of one turn. A handler that gains from looking at many requests
    /// before it executes the first overrides this; each connection's `next` must be set.
    /// `now_ms` is the time on the loop's clock, read since the last wait.
    fn serve_all(&mut self, burst: &mut Burst<Self::Session, Self::External>, now_ms: u64) {
        let _ = now_ms;
        for connection in burst {
            connection.next = self.serve(connection);
        }
    }

    /// A connection has been accepted by one of this loop's listeners.
    fn accepted(&mut self, accepted: Accepted, control: &mut Control<Self::Session>) {
        let _ = (accepted, control);
    }

    /// Accepting failed for want of `error`'s resource and pauses, or goes on when it is `None`.
    fn accept_paused(&mut self, error: Option<&io::Error>) {
        let _ = error;
    }

    /// Another thread has sent `message`.
    fn message(&mut self, message: Self::Message, control: &mut Control<Self::Session>) {
        let _ = (message, control);
    }

    /// Operations on files have ended. Takes what [`crate::Files::take_done`] has, before any
    /// session is served, and rouses those that wait for them. What it leaves there it is told of
    /// again in the next turn, which comes at once: so it bounds a turn. It takes one at least.
    fn files_done(&mut self, control: &mut Control<Self::Session>) {
        let _ = control;
    }

    /// When [`Handler::woken`] is to be called at the latest, on the loop's clock; asked each turn.
    /// A time that has passed is at once, in the next turn and in every turn until it changes.
    fn wake_at_ms(&self) -> u64 {
        u64::MAX
    }

    /// The time that [`Handler::wake_at_ms`] has named has come.
    fn woken(&mut self, control: &mut Control<Self::Session>) {
        let _ = control;
    }

    /// Whether the handler is going to start operations on files, so that a loop that drains or is
    /// cut is not to end yet.
    fn has_work(&self) -> bool {
        false
    }

    /// A connection is about to be closed for want of memory or of sense: the last chance to tell
    /// the peer.
    fn refused(
        &mut self,
        connection: &mut Connection<Self::Session, Self::External>,
        reason: &CloseReason,
    ) {
        let _ = (connection, reason);
    }

    /// A connection has ended.
    fn closed(&mut self, session: Self::Session, reason: CloseReason) {
        let _ = (session, reason);
    }

    /// Called once a second.
    fn tick(&mut self, control: &mut Control<Self::Session>) {
        let _ = control;
    }

    /// Runs `wait`, which may block for long: the place to tell others not to wait for this
    /// thread.
    fn while_waiting<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        wait()
    }
}

/// What a handler asks of its loop. Requests take effect when the handler returns.
#[derive(Debug)]
pub struct Control<S> {
    pool: PoolStats,
    connections: usize,
    pub(crate) requests: Vec<Request<S>>,
}

#[derive(Debug)]
pub(crate) enum Request<S> {
    Adopt(OwnedFd, S),
    Rouse(ConnId),
    Drain,
    Cut,
    Stop,
}

impl<S> Control<S> {
    pub(crate) fn new(pool: PoolStats, connections: usize) -> Self {
        Self { pool, connections, requests: Vec::new() }
    }

    /// Numbers about the loop's buffers.
    #[must_use]
    pub fn pool(&self) -> PoolStats {
        self.pool
    }

    /// Open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Makes `socket`, which must be non-blocking, a connection of this loop. If the system
    /// refuses, [`Handler::closed`] gets the session back.
    pub fn adopt(&mut self, socket: OwnedFd, session: S) {
        self.requests.push(Request::Adopt(socket, session));
    }

    /// Has a session served in the next turn, though nothing has come for it. A connection that has
    /// ended, or is about to, is left alone.
    pub fn rouse(&mut self, connection: ConnId) {
        self.requests.push(Request::Rouse(connection));
    }

    /// Accepts nothing more, answers what has been received, sends the replies, closes, waits until
    /// nothing is under way on files, left, or about to be, and then stops the loop.
    pub fn drain(&mut self) {
        self.requests.push(Request::Drain);
    }

    /// Closes all connections as they are, waits until nothing is under way on files, or left, and
    /// then stops the loop.
    pub fn cut(&mut self) {
        self.requests.push(Request::Cut);
    }

    /// Closes everything as it is and stops the loop. What is under way on files ends in some way,
    /// or not at all, and nobody hears of it.
    pub fn stop(&mut self) {
        self.requests.push(Request::Stop);
    }
}
