//! A load generator for servers of memcached's protocols: `kelvin bench`.
//!
//! ```text
//!   Plan --> run() --> Fleet (threads of one server, connections stay open)
//!              |         Worker: epoll, sockets, one turn after another
//!              |           Session: requests to bytes, bytes to replies      (no I/O, no clock)
//!              |             Source, Arrivals: what and when                 (from a seed)
//!              |             Values, Ledger: which value a get may see
//!              |             Tally: counts, histograms
//!              +--> cpu: the server's and the generator's time, over the same span
//!              +--> Outcome --> table, JSON, SVG
//! ```
//!
//! Invariants:
//! 1. Latency counts from the time at which a request was due. In an open loop that is a function
//!    of the rate and the seed alone, so a server that stalls cannot postpone what it is asked.
//! 2. Every value that a get returns is compared with those that were written to its key, and no
//!    value that the server may rightly return is called wrong.
//! 3. CPU time and replies are counted over the same span.
//! 4. Several servers are measured in turn, and compared round by round.
#![forbid(unsafe_code)]

mod address;
mod cpu;
mod device;
mod error;
mod fleet;
mod identity;
mod ledger;
mod null;
mod outcome;
mod plan;
mod popularity;
mod protocol;
mod replay;
mod report;
mod run;
mod session;
mod sizes;
mod span;
mod spread;
mod tally;
mod value;
mod worker;
mod workload;

pub use address::Address;
pub use cpu::Used;
pub use device::Traffic;
pub use error::Error;
pub use fleet::Figures;
pub use identity::{Identity, Process};
pub use outcome::{Ceiling, Cell, Outcome, Side};
pub use plan::{Load, Plan, SERVERS_MAX, Server, Shape};
pub use popularity::Popularity;
pub use protocol::Protocol;
pub use replay::{
    ReplayCounts, ReplayOutcome, ReplayPlan, ReplaySide, replay, replay_json, replay_table,
};
pub use report::{Summary, faults, json, recording, svg, table};
pub use run::{SweepOutcome, Swept, run, sweep, sweep_json, sweep_table};
pub use sizes::{KEY_BYTES_MAX, Sizes, VALUE_BYTES_MAX};
pub use spread::Spread;
pub use tally::{Counts, Kind, Raw, Tally};
pub use workload::{Pace, Pass};
