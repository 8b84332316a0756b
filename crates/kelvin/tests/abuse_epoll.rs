//! The tests of `abuse`, on epoll.

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

use harness::server::Io;

const IO: Io = Io::Epoll;
