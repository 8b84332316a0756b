//! The memcached protocols over one connection: requests in, replies out, the cache between.
//!
//! A [`Session`] is the state of one connection, a [`Context`] what one data thread has for all of
//! its connections. Neither performs I/O: bytes come in by `reactor::Input`, go out by
//! `reactor::Output`, and time is the cache's.
//!
//! ```text
//!   Inputs -> group: parse up to 32 requests of one or several connections,
//!                |   prefetch their buckets, then their records
//!                v
//!             execute one after the other --> Output: head, value copied once, line end
//!                |                                    or a pinned value, sent in place
//!                +-- a long value: Upload, bit by bit --> store
//! ```
//!
//! Thread safety: a session and its context belong to one thread.
//!
//! Invariants:
//! 1. Replies are in the order of their requests.
//! 2. A request takes effect once, also when it had to wait for room before it was answered.
//! 3. Whether a request takes effect, and what it reads, is decided under its key's lock.
//! 4. A session holds no more than one upload and a place in one report, and copies no value but
//!    into its record and its reply.
//!
//! The behaviour is that of memcached 1.6.45, from its protocol's description and from what it was
//! seen to do; `docs/memcached.md` has the differences. The passes over a burst are those of
//! `design: batches` in the cache: hash and prefetch before the first probe.

mod admin;
mod arithmetic;
mod binary;
mod burst;
mod command;
mod context;
mod deadline;
mod dialect;
mod dump;
pub(crate) mod durable;
mod execute;
mod group;
mod large;
mod meta;
mod number;
mod record;
mod reports;
mod retrieval;
mod session;
mod sizes;
mod storage;
mod tokens;
mod upload;
mod watch;

pub use context::{Context, Control};
pub use dialect::Access;
pub use group::serve_all;
pub use large::LargeValue;
pub use session::{Session, TURN_COMMANDS_MAX};

#[cfg(test)]
mod tests;
