//! Why a bench cannot go on.

use std::io;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is wrong, or settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// A server's name leads nowhere.
    #[error("cannot resolve {address}")]
    Resolve {
        /// The server.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// A server does not accept a connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// The server.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// A server closed a connection.
    #[error("{address} closed a connection with {under_way} requests under way")]
    Closed {
        /// The server.
        address: String,
        /// Requests of this connection that were not answered.
        under_way: usize,
    },
    /// A connection broke.
    #[error("the connection to {address} broke")]
    Broken {
        /// The server.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// A server answers what is no reply.
    #[error("{address} answered {got}, expected {expected}")]
    Garbled {
        /// The server.
        address: String,
        /// What it said.
        got: String,
        /// What it should have said.
        expected: &'static str,
    },
    /// A server does not answer any more.
    #[error("{address} has not answered {under_way} requests for {waited_ms} ms")]
    Stalled {
        /// The server.
        address: String,
        /// Requests that were not answered.
        under_way: usize,
        /// How long nothing came.
        waited_ms: u64,
    },
    /// There is no trace to replay.
    #[error("cannot replay")]
    Trace(#[from] trace::Error),
    /// A server's process cannot be looked at.
    #[error("cannot read the CPU time of process {pid}")]
    Process {
        /// The process.
        pid: u32,
        /// What the system says.
        source: io::Error,
    },
    /// What a disk does cannot be seen.
    #[error("cannot read what the disk of {path} does")]
    Device {
        /// Something on it, or its counters.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The system refuses something the generator needs.
    #[error("{what}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}
