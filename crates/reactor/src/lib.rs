//! One event loop a thread: sockets in, bytes handed to sessions, replies out.
//!
//! A [`Loop`] drives a [`Driver`], which performs the I/O and reports what has completed, and a
//! [`Handler`], which performs none: it is given bytes and time, and appends to output queues.
//!
//! ```text
//!   other threads --> Mailbox --+                          +--> Handler::serve_all
//!                               v                          |    (all connections of the turn)
//!   kernel <--> Driver --> events --> Loop: one turn ------+
//!      ^                              | buffers: Pool      |
//!      +------- Chain (one send) <----+--- Output <--------+
//! ```
//!
//! One turn: wait; receive from every connection that has bytes; serve them as one burst; send
//! once per connection; look at timers and messages.
//!
//! The driver's interface has the shape of completions. A driver owns a buffer from the call that
//! hands it over to the event that hands it back, so the kernel may read and write it in between,
//! and what a connection receives may come in a buffer that the driver chose.
//!
//! Regular files are beside the sockets ([`Files`]): a handler starts operations on them in a turn,
//! and hears of their end in another one. What is read into a [`Frame`] is sent from there.
//!
//! Thread safety: a loop and everything in it belongs to one thread. Only the ends of a
//! [`mailbox()`] cross threads.
//!
//! Invariants:
//! 1. A connection that has nothing to say or to send holds no buffer.
//! 2. A connection holds at most [`INPUT_BYTES_MAX`] of input and, beyond the unit in which a
//!    session writes, [`OUTPUT_BYTES_HIGH`] of replies and [`EXTERNAL_BYTES_HIGH`] of memory that
//!    lies elsewhere (one value more, if that is larger).
//! 3. A thread's buffers take at most the pool's limit, one such unit, and
//!    [`OWN_BYTES_PER_CONNECTION`] for each connection; within the latter a connection is served
//!    whatever others hold.
//! 4. Nothing is read for a connection whose replies wait at the bound.
//!
//! Idea: the symmetric multi-process event-driven model, pooled buffers that adapt and a path
//! without malloc are Bullet Cache's (Voras 2012); one loop a core with one pool is UKV's (An et
//! al. 2020).
#![deny(unsafe_code)]

mod connection;
mod driver;
mod epoll;
mod error;
mod event_loop;
mod files;
mod frames;
mod handler;
mod input;
mod mailbox;
mod output;
mod pool;
mod transfer;
mod uring;
mod wheel;

pub use connection::{ConnId, Connection, Next};
pub use driver::{Direction, Driver, Event, Sending};
pub use epoll::Epoll;
pub use error::Error;
pub use event_loop::{
    ACCEPT_PAUSE_MS, BURST_MAX, CONNECTIONS_MAX, LINGER_BYTES_MAX, LINGER_MS, Loop, LoopConfig,
    SPIN_US_MAX, STARVED_MAX_MS, Spin, TICK_MS,
};
pub use files::{
    Carrier, Done, FILE_DEPTH_MAX, FILES_MAX, Failure, FileId, Files, GUARDS_MAX, Operation,
    Refusal, Refused,
};
pub use frames::{
    FRAME_HEAD_BYTES, FRAME_TAIL_BYTES, FRAMES_MAX, Frame, Frames, FramesStats, Shape,
};
pub use handler::{Accepted, Burst, CloseReason, Control, Handler};
pub use input::{INPUT_BYTES_MAX, Input, Receive};
pub use mailbox::{Mailbox, SendError, Sender, Waker, mailbox};
pub use output::{
    Chain, EXTERNAL_BYTES_HIGH, External, Gather, Mark, OUTPUT_BYTES_HIGH, OUTPUT_UNIT_BYTES_MAX,
    Output,
};
pub use pool::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, Buffer, OWN_BYTES_PER_CONNECTION, Pool, PoolStats,
};
pub use uring::{Carried, Features, Uring};
