//! The server: listeners, sessions, statistics.
#![forbid(unsafe_code)]

pub mod memcached;
pub mod stats;
