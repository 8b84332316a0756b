//! The tests of `durable`, on epoll.

#[path = "durable/cold.rs"]
mod cold;
#[path = "durable/full.rs"]
mod full;
mod harness;
#[path = "durable/killed.rs"]
mod killed;
#[path = "durable/settings.rs"]
mod settings;
#[path = "durable/stopped.rs"]
mod stopped;

use harness::server::Io;

const IO: Io = Io::Epoll;
