//! The tests of `dropin` over a table that spills, with little memory, on both drivers: those that
//! `dropin_durable` and `dropin_durable_epoll` have of a durable one.

#[path = "dropin"]
mod uring {
    mod auth;
    mod binary;
    mod contention;
    mod daemon;
    mod exporter;
    mod import;
    mod import_lists;
    mod limits;
    mod meta;
    mod sasl;
    mod servers;
    mod signals;
    mod startup;
    mod stats;

    use crate::harness::server::{Io, Serving};

    /// How kelvin serves where its table has a directory.
    const ON_DISK: Option<Serving> = Some(Serving::spilling(Io::Uring));
}

#[path = "dropin"]
#[allow(clippy::duplicate_mod, reason = "each driver has the same tests")]
mod epoll {
    mod binary;
    mod contention;
    mod import;
    mod limits;
    mod meta;
    mod servers;

    use crate::harness::server::{Io, Serving};

    /// How kelvin serves where its table has a directory.
    const ON_DISK: Option<Serving> = Some(Serving::spilling(Io::Epoll));
}

mod harness;
