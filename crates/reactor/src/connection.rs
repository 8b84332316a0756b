//! One connection as a session sees it.

use std::mem;

use crate::{
    input::{Input, Receive},
    output::{External, Output},
    pool::Pool,
};

/// Names a connection of a loop. A number is used again only with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What a session wants after it has been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes: nothing can be done with those that are left. If the peer has sent its last,
    /// the connection is closed once its replies are out.
    Read,
    /// Its turn is over, though there is more to do with the bytes at hand.
    Yield,
    /// [`Output::has_room`] said no: to be called again when there is room.
    Blocked,
    /// [`Output::is_idle`] said no: to be called again when all that is queued has been sent.
    Behind,
    /// Something outside the connection is missing, such as memory that other threads must
    /// release: to be called again in the next turn, or a little later if nothing else happens.
    Retry,
    /// Something that was started for it, such as a read of a file: to be called again when it is
    /// roused ([`crate::Control::rouse`]) or bytes come that were asked for before. None are asked
    /// for now, and the connection stays though its peer may have sent its last.
    Wait,
    /// The end, once what is queued has been sent. Bytes that still come are dropped.
    Finish,
    /// The end at once; what is queued is dropped.
    Abort,
}

/// A connection: a session and what it reads and writes.
#[derive(Debug)]
pub struct Connection<S, E> {
    /// The handler's own part.
    pub session: S,
    /// Received bytes.
    pub input: Input,
    /// Replies.
    pub output: Output<E>,
    /// What is to happen when the burst has been served; [`crate::Handler::serve_all`] sets it.
    pub next: Next,
    pub(crate) id: ConnId,
    pub(crate) state: State,
}

/// What the loop knows of a connection.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// A receive is under way.
    pub(crate) receiving: bool,
    /// A send is under way.
    pub(crate) sending: bool,
    /// In the loop's queue of connections to serve.
    pub(crate) queued: bool,
    /// In the loop's queue of connections that lack memory.
    pub(crate) hungry: bool,
    /// Lacks memory since this time.
    pub(crate) starved_since_ms: Option<u64>,
    /// It was refused at this time: nothing more is read, and what is left is not sent for ever.
    pub(crate) refused_ms: Option<u64>,
    /// When a byte last moved, in milliseconds.
    pub(crate) active_ms: u64,
}

/// Where in its life a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Replies are sent, nothing more is read.
    Finishing,
    /// Everything is sent and the peer knows it; what it still sends is dropped until it ends or
    /// this time comes. (Closing with bytes unread would reset the connection and could destroy
    /// replies on their way.)
    Lingering {
        until_ms: u64,
        bytes_left: usize,
    },
}

impl<S, E: External> Connection<S, E> {
    /// A connection outside of any loop, for simulations: bytes go in by [`Input::feed`] and come
    /// out by [`Output::launch`].
    #[must_use]
    pub fn standalone(session: S, pool: &Pool) -> Self {
        Self::new(session, ConnId { index: 0, generation: 0 }, pool, 0)
    }

    pub(crate) fn new(session: S, id: ConnId, pool: &Pool, now_ms: u64) -> Self {
        let state = State {
            phase: Phase::Open,
            receiving: false,
            sending: false,
            queued: false,
            hungry: false,
            starved_since_ms: None,
            refused_ms: None,
            active_ms: now_ms,
        };
        Self {
            session,
            input: Input::new(),
            output: Output::new(pool.clone()),
            next: Next::Read,
            id,
            state,
        }
    }

    /// What the driver is to be asked for, unless it has been asked.
    #[inline]
    pub(crate) fn request(&mut self) -> Option<Receive> {
        (!mem::replace(&mut self.state.receiving, true)).then(|| self.input.request())
    }

    /// Whether it waits for bytes that the driver has been asked for, and for nothing else.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.state.receiving
            && self.next == Next::Read
            && self.state.phase == Phase::Open
            && self.output.is_empty()
    }

    /// Its name in the loop.
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.id
    }
}
