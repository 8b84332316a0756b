//! `kelvin memcached` beside memcached: the same options, the same script, the same verdict.
//!
//! A test gives options and a script, which asserts what it sees and may return what is to be
//! equal. [`servers::on_both`] runs it with kelvin and with the memcached of the system (Debian's
//! is 1.6.18); [`servers::on_recent`], for what only 1.6.45 speaks, with kelvin and, where
//! `KELVIN_PEER_MEMCACHED` names one, with that; [`servers::on_kelvin`] is for what memcached has
//! not, or not so. One file per subject.

mod auth;
mod binary;
mod contention;
mod daemon;
mod debian;
mod dump;
mod exporter;
#[path = "../harness/mod.rs"]
mod harness;
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

/// How kelvin serves where its table has a directory; here it has none.
const ON_DISK: Option<harness::server::Serving> = None;
