//! Traces of requests: readers of files in the formats that research uses, and generators.
//!
//! ```text
//!   Source --> Compression --> Lines, or bytes --> a reader a format --> keys of 64 bits
//!         \--> Synthetic --------------------------------------------/        |
//!                                                  Trace: keys from 0 <-- Builder
//! ```
//!
//! A file may hold anything: what is wrong with it is an [`Error`] that says what and where.
//! Nothing a file says makes a reader take more memory than its named limits allow.
#![forbid(unsafe_code)]

mod binary;
mod compression;
mod error;
mod events;
mod format;
mod lines;
mod lis;
mod requests;
mod sizes;
mod source;
mod synthetic;
mod text;

pub use compression::Compression;
pub use error::{Error, Flaw, Place, What};
pub use format::{FORMATS, Format, read};
pub use requests::{Builder, REQUESTS_MAX, Trace};
pub use sizes::LogNormal;
pub use source::Source;
pub use synthetic::Synthetic;

#[cfg(test)]
mod tests;
