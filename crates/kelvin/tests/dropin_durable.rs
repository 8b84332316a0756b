//! The tests of `dropin` over a durable table with little memory, on io_uring. Left out are those
//! of what keeps such a server from starting (`restart`, `tokens`, `udp`), of what it refuses
//! (`dump`, `watch`), and of scripts that have options of their own (`debian`).

#[path = "dropin/auth.rs"]
mod auth;
#[path = "dropin/binary.rs"]
mod binary;
#[path = "dropin/contention.rs"]
mod contention;
#[path = "dropin/daemon.rs"]
mod daemon;
#[path = "dropin/exporter.rs"]
mod exporter;
mod harness;
#[path = "dropin/import.rs"]
mod import;
#[path = "dropin/import_lists.rs"]
mod import_lists;
#[path = "dropin/limits.rs"]
mod limits;
#[path = "dropin/meta.rs"]
mod meta;
#[path = "dropin/sasl.rs"]
mod sasl;
#[path = "dropin/servers.rs"]
mod servers;
#[path = "dropin/signals.rs"]
mod signals;
#[path = "dropin/startup.rs"]
mod startup;
#[path = "dropin/stats.rs"]
mod stats;

use harness::server::{Io, Serving};

/// How kelvin serves where its table has a directory.
const ON_DISK: Option<Serving> = Some(Serving::from_disk(Io::Uring));
