//! The server: listeners, threads, sessions, statistics.
//!
//! ```text
//!   acceptor --> data thread: event loop + sessions + a worker of the cache   (one of n)
//!                                                   ^
//!   housekeeping -- sweeps ------------------------ cache
//! ```
//!
//! [`Running::start`] builds everything from a [`config::Config`]; the acceptor gives each
//! connection to the data thread that has fewest, and that thread alone serves it.
#![forbid(unsafe_code)]

mod abort;
mod acceptor;
pub mod config;
mod cpus;
mod datagrams;
mod descriptors;
mod durable;
mod error;
mod housekeeping;
mod io;
mod listener;
pub mod memcached;
mod memory;
mod ready;
pub mod restart;
mod running;
pub mod stats;
mod thread;
pub mod users;
pub mod watch;

pub use abort::abort_on_panic;
pub use descriptors::provide_for as provide_descriptors;
pub use durable::WriteModes;
pub use error::Error;
pub use listener::Listener;
pub use running::{Running, Stop, StopControl};
