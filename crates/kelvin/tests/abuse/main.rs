//! Clients that do what they should not: the server stays whole, answers others, and its memory
//! stays within what it was given. Here on io_uring; `abuse_epoll.rs` has the same on epoll.

mod clients;
#[path = "../harness/mod.rs"]
mod harness;
mod lifetime;
mod memory;
mod never_read;
mod requests;

use harness::server::Io;

const IO: Io = Io::Uring;
