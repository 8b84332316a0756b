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

/// What carries files and sockets where kelvin has a durable table.
const DURABLE_BY: Option<&str> = Some("epoll");
