//! The tests of `dropin` that are about records over a durable table with little memory, on epoll.

#[path = "dropin/binary.rs"]
mod binary;
#[path = "dropin/contention.rs"]
mod contention;
mod harness;
#[path = "dropin/import.rs"]
mod import;
#[path = "dropin/limits.rs"]
mod limits;
#[path = "dropin/meta.rs"]
mod meta;
#[path = "dropin/servers.rs"]
mod servers;

use harness::server::{Io, Serving};

/// How kelvin serves where its table has a directory.
const ON_DISK: Option<Serving> = Some(Serving::from_disk(Io::Epoll));
