//! What is to be measured, and how.

use std::{path::PathBuf, time::Duration};

use crate::{
    Error, address::Address, popularity::Popularity, protocol::Protocol, sizes::Sizes,
    workload::Pace,
};

/// A server to measure.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it is.
    pub address: Address,
    /// Its process; found out if not given and the server is on this machine.
    pub pid: Option<u32>,
    /// Whether values that it returns are compared with what was written.
    pub verifies: bool,
}

/// Most servers of one run: as many colours as people tell apart.
pub const SERVERS_MAX: usize = 8;

/// Connections and requests under way on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Connections, over all threads.
    pub connections: u32,
    /// Most requests under way on each.
    pub depth: usize,
}

/// What keys have at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// What this run gives them: every key is set once.
    Sets,
    /// What an earlier run gave them, with the same seed, sizes and prefix: every key was set once.
    Earlier,
    /// Nobody knows.
    Unknown,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One server, or up to [`SERVERS_MAX`], the first of which is compared with each other one.
    pub servers: Vec<Server>,
    /// The cells, one after another.
    pub shapes: Vec<Shape>,
    /// Text or meta.
    pub protocol: Protocol,
    /// Number of keys, at least one.
    pub keys: u32,
    /// How accesses are spread over them.
    pub popularity: Popularity,
    /// What keys begin with.
    pub key_prefix: String,
    /// Sizes of keys.
    pub key_sizes: Sizes,
    /// Sizes of values.
    pub value_sizes: Sizes,
    /// Share of the requests that are gets, from 0 to 1.
    pub gets: f64,
    /// When requests are sent.
    pub pace: Pace,
    /// Threads of the generator.
    pub threads: u32,
    /// CPUs that they run on, one each, in turn; anywhere if there are none.
    pub cpus: Vec<usize>,
    /// Rounds of each cell, at least one.
    pub rounds: u32,
    /// Before each round's span.
    pub warm_up: Duration,
    /// Of each round's span.
    pub duration: Duration,
    /// Whether the generator's threads look for replies all the time instead of sleeping.
    pub spins: bool,
    /// How long a server may leave requests unanswered.
    pub patience: Duration,
    /// Repeats a run: keys, sizes, order of requests and arrivals.
    pub seed: u64,
    /// What keys have at the beginning.
    pub load: Load,
    /// Whether the generator's ceiling is measured in each cell.
    pub finds_ceiling: bool,
    /// Whether every single latency is kept.
    pub records: bool,
    /// Something on the disk whose reads and writes are counted.
    pub device: Option<PathBuf>,
}

impl Plan {
    /// # Errors
    /// [`Error::Settings`] when it cannot be carried out.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::Settings(text.to_owned()));
        if self.servers.is_empty() || self.shapes.is_empty() {
            return wrong("nothing is asked for");
        }
        if self.servers.len() > SERVERS_MAX {
            return Err(Error::Settings(format!("more than {SERVERS_MAX} servers")));
        }
        for (number, server) in self.servers.iter().enumerate() {
            // What one of the two writes would be wrong for the other.
            let mut others = self.servers[..number].iter();
            if others.any(|other| other.address == server.address) {
                return Err(Error::Settings(format!("{} is given twice", server.address)));
            }
        }
        if self.keys == 0 || self.threads == 0 || self.rounds == 0 || self.duration.is_zero() {
            return wrong("keys, threads, rounds and the duration must be above 0");
        }
        if self.shapes.iter().any(|shape| shape.connections == 0 || shape.depth == 0) {
            return wrong("connections and depth must be above 0");
        }
        if !(0.0..=1.0).contains(&self.gets) {
            return wrong("the share of gets must be from 0 to 1");
        }
        match self.pace {
            Pace::Open { rate, .. } if !(rate.is_finite() && rate > 0.0) => {
                wrong("the rate must be above 0")
            }
            _ => Ok(()),
        }
    }
}
