//! The memcached protocols over tables that have a log, or over several: requests in, replies out,
//! the store between.
//!
//! A [`Session`] is the state of one connection, a [`Table`] what one data thread has for all of
//! its connections. Neither performs I/O: what the store wants to be done is [polled](Table::poll)
//! and [reported](Table::complete).
//!
//! ```text
//!   Input -> request -> Deed -> store::Worker --> now: Output, or the slot behind others'
//!                                   |
//!                                   +--> later: Table -> slot of the session's Board -> Output
//! ```
//!
//! A request that cannot be answered at once takes a slot of its connection, and what has to be
//! known to answer it, its line without the value, waits under a number with the answer's table.
//! When the answer comes the reply goes into the slot, whether its connection is served just then
//! or not, and the connection is to be served.
//!
//! Thread safety: a table and its sessions belong to one thread.
//!
//! Invariants:
//! 1. Replies are in the order of their requests: one that is there waits in its slot for those
//!    before it, and what is answered at once goes behind them.
//! 2. A request takes effect once: it is taken off the input when the store has it, and not before.
//! 3. What waits is bounded, for each connection by the slots, for each thread by what the store
//!    lets wait and by [`table::UNSENT_BYTES_MAX`].

mod admin;
mod answers;
mod asking;
mod binary;
mod board;
mod deed;
mod desk;
mod flush;
mod keyed;
mod keys;
mod member;
mod retrieval;
mod router;
mod session;
mod table;
mod transfer;
mod unsent;
mod upload;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use deed::Deed;
pub(crate) use desk::Desk;
pub(crate) use flush::FlushTime;
pub(crate) use member::{Hands, Member};
pub(crate) use session::Session;
pub(crate) use table::Table;
pub(super) use transfer::SentPart;
pub(super) use unsent::UnsentValue;
