//! Memory and disk as one store: a cache over a log, without I/O of its own.
//!
//! - [`Store`]: a durable table, or one that spills. Shared by all threads; each has a [`Worker`].
//! - [`Volatile`]: a table in memory alone, with the same commands.
//! - [`Command`]: what is done to a record, as the caller's protocol has it.
//! - [`Answer`]: what came of it, at once or later.
//! - [`Slots`]: replies of a connection, in the order of its commands.
//! - [`Large`], [`Notice`]: values in parts, which come in pieces and leave part by part.
//! - [`limits`]: how much may wait.
//!
//! A worker is asked, hands out the log's plans, is told what came of them, and has answers for
//! what could not be answered at once. `docs/store.md` says what a command does and why it is
//! right.
#![forbid(unsafe_code)]

mod answer;
mod budget;
#[cfg(all(test, loom))]
mod checks;
mod command;
mod error;
mod held;
mod large;
pub mod limits;
mod pace;
mod pending;
mod queued;
mod read_value;
mod reads;
mod replies;
mod shelf;
mod spill;
mod store;
#[cfg(all(test, not(loom)))]
mod tests;
mod unflushed;
mod worker;

pub use answer::{Answer, Answered, Asked, Found, FoundValue, Got};
pub use command::{Command, Needs, Present};
pub use error::Error;
pub use large::{Large, Notice, Part, ReaderId, Took, UploadId, What};
pub use read_value::ReadValue;
pub use replies::{SlotId, Slots};
pub use spill::Admission;
pub use store::Store;
pub use worker::{Figures, Volatile, VolatileWorker, Worker};
