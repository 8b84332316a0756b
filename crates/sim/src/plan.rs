//! What is to be simulated.

use std::{fmt, str::FromStr};

use trace::Source;

use crate::policy::Kind;

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The traces.
    pub sources: Vec<Source>,
    /// What is replayed into.
    pub mode: Mode,
    /// Sizes of the caches.
    pub percents: Vec<Percent>,
    /// The policies.
    pub policies: Vec<Kind>,
    /// Repeats generated traces, sizes of values and the cache's hash.
    pub seed: u64,
    /// Threads that replay, at least one.
    pub threads: usize,
}

/// What is replayed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A cache that counts keys.
    Units {
        /// Parts that the keys are divided into by their hash, at least one.
        shards: u32,
    },
    /// The product's cache, with a budget in bytes.
    Whole {
        /// Smallest budget of a cell: the trace is repeated with keys of its own until it is
        /// reached.
        memory_min_bytes: u64,
        /// Threads that the cache is laid out for; more of them get more shards.
        writers: usize,
    },
}

/// The size of a cache, in percent of what it would take to hold every key.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// The number; above 0 and at most 100.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0
    }

    /// This part of a whole, at least 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "at most the whole; beyond 2^53 bytes precision does not matter"
    )]
    pub fn of(self, whole: u64) -> u64 {
        ((whole as f64 * self.0 / 100.0).round() as u64).max(1)
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
        number
            .filter(|percent| *percent > 0.0 && *percent <= 100.0)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no size: write percent, as 3% or 0.1%"))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}
