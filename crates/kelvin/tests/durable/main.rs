//! A durable table over the wire: it keeps what it has acknowledged, whatever memory it has. Here
//! on io_uring; `durable_epoll.rs` has the same on epoll.

mod cold;
mod descriptors;
mod flushed;
mod full;
#[path = "../harness/mod.rs"]
mod harness;
mod large;
mod modes;
mod settings;
mod stopped;

use harness::server::Io;

const IO: Io = Io::Uring;
