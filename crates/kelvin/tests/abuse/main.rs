//! Clients that do what they should not: the server stays whole, answers others, and its memory
//! stays within what it was given. Here on io_uring; `abuse_epoll.rs` has the same on epoll.

mod clients;
#[path = "../harness/mod.rs"]
mod harness;
mod lifetime;
mod memory;
mod never_read;
mod requests;

use harness::server::{Io, Serving};

/// Bytes of a large value: as many as are taken.
const LARGE_BYTES: usize = harness::server::large_bytes(SERVING);

const SERVING: Serving = Serving::from_memory(Io::Uring);
