//! The tests of `durable`, on epoll.

#[path = "durable/cold.rs"]
mod cold;
#[path = "durable/descriptors.rs"]
mod descriptors;
#[path = "durable/flushed.rs"]
mod flushed;
#[path = "durable/full.rs"]
mod full;
mod harness;
#[path = "durable/large.rs"]
mod large;
#[path = "durable/modes.rs"]
mod modes;
#[path = "durable/settings.rs"]
mod settings;
#[path = "durable/stopped.rs"]
mod stopped;

use harness::server::Io;

const IO: Io = Io::Epoll;
