//! `kelvin memcached` beside memcached: the same options, the same script, the same verdict.
//!
//! A test gives options and a script, which asserts what it sees and may return what is to be
//! equal. [`servers::on_both`] runs it with kelvin and with the memcached of the system (Debian's
//! is 1.6.18); [`servers::on_recent`], for what only 1.6.45 speaks, with kelvin and, where
//! `KELVIN_PEER_MEMCACHED` names one, with that; [`servers::on_kelvin`] is for what memcached has
//! not, or not so. One file per subject.
//!
//! The same tests over a table in memory, over a durable one and over one that spills, these two
//! with little memory. Left out of theirs are those of what keeps such a server from starting
//! (`restart`, `tokens`, `udp`), of what it refuses (`dump`, `watch`), and of scripts that have
//! options of their own (`debian`); on epoll there are those that are about records.

#[path = "../harness/mod.rs"]
mod harness;

#[path = "."]
mod volatile {
    mod auth;
    mod binary;
    mod contention;
    mod daemon;
    mod debian;
    mod dump;
    mod exporter;
    mod import;
    mod import_lists;
    mod limits;
    mod meta;
    mod restart;
    mod sasl;
    mod servers;
    mod signals;
    mod startup;
    mod stats;
    mod tokens;
    mod udp;
    mod watch;

    use crate::harness::server::Serving;

    /// How kelvin serves where its table has a directory; here it has none.
    const ON_DISK: Option<Serving> = None;
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod durable_uring {
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
    const ON_DISK: Option<Serving> = Some(Serving::from_disk(Io::Uring));
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod durable_epoll {
    mod binary;
    mod contention;
    mod import;
    mod limits;
    mod meta;
    mod servers;

    use crate::harness::server::{Io, Serving};

    /// How kelvin serves where its table has a directory.
    const ON_DISK: Option<Serving> = Some(Serving::from_disk(Io::Epoll));
}

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod spill_uring {
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

#[path = "."]
#[allow(clippy::duplicate_mod, reason = "the same tests of another server")]
mod spill_epoll {
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
