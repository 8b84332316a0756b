//! Floor 1: the SSD tier. An append-only log of records, and the indexes over it.
//!
//! - [`position`]: where a record lies and about how long it is; what an index stores.
//! - [`plan`]: the contract with whatever performs the I/O. The log itself opens no file.
//!
//! `docs/formats/log.md` describes every byte on disk, and the order of writes and flushes.
#![forbid(unsafe_code)]

mod buffer;
pub mod plan;
pub mod position;
