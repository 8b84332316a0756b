//! Floor 1: the SSD tier. An append-only log of records, and the indexes over it.
//!
#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - [`Log`]: an embedded store; its calls block.
//! - [`engine`]: the log as a state machine that performs no I/O itself.
//! - [`plan`]: the contract with whatever performs the I/O.
//! - [`position`]: where a record lies and about how long it is; what an index stores.
//! - [`keys`]: what leads from a key to a position, as an engine uses it.
//! - [`index`]: the two indexes that there are.
//! - [`mod@format`]: bytes on disk.
//! - [`dump`]: records outside of a log.
//!
//! `docs/formats/log.md` describes every byte on disk, and the order of writes and flushes.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod dump;
pub mod engine;
pub mod error;
pub mod format;
pub mod index;
#[doc(hidden)]
#[cfg(all(debug_assertions, not(any(loom, shuttle))))]
pub mod instances;
pub mod keys;
pub mod plan;
pub mod position;

pub use blocking::{
    Compacting, Files, Kept, Log, OPEN_FILES_MAX, Options, Order, Records, Shown, failure,
    forget_unflushed, lacks_descriptor, open, open_locked, random,
};
pub use format::cursor::Cursor;
