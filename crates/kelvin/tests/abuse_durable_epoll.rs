//! The tests of `abuse` over a durable table with little memory, on epoll.

#[path = "abuse/clients.rs"]
mod clients;
mod harness;
#[path = "abuse/lifetime.rs"]
mod lifetime;
#[path = "abuse/memory.rs"]
mod memory;
#[path = "abuse/never_read.rs"]
mod never_read;
#[path = "abuse/requests.rs"]
mod requests;

use harness::server::{Io, Serving};

/// Bytes of a large value: as many as are taken.
const LARGE_BYTES: usize = harness::server::large_bytes(SERVING);

const SERVING: Serving = Serving::from_disk(Io::Epoll).of_large_values();
