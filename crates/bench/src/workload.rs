//! What is asked for, and when.
//!
//! Pure: randomness comes from a seed and time from the caller.

use std::{
    collections::VecDeque,
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use base::random::Random;

use crate::{popularity::Sampler, session::Ask};

/// Requests drawn ahead: 64 connections with 16 each.
const AHEAD_MAX: usize = 1024;

/// Where a thread's requests come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Gets and sets of keys drawn by popularity, without end.
    Mix(Mix),
    /// Every key once, shared out among the threads.
    Each { pass: Pass, next: Arc<AtomicU32>, keys: u32 },
}

/// What is asked of every key once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A new value.
    Set,
    /// The value.
    Get,
    /// That the value is there: it is added if it is not.
    Mend,
}

impl Pass {
    fn ask(self, key: u32) -> Ask {
        match self {
            Self::Set => Ask::Set { key },
            Self::Get => Ask::Get { key },
            Self::Mend => Ask::Add { key },
        }
    }
}

impl FromStr for Pass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "set" => Ok(Self::Set),
            "get" => Ok(Self::Get),
            "mend" => Ok(Self::Mend),
            _ => Err(format!("`{text}` is no pass: write set, get or mend")),
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Set => "set",
            Self::Get => "get",
            Self::Mend => "mend",
        })
    }
}

impl Source {
    pub(crate) fn next(&mut self) -> Option<Ask> {
        match self {
            Self::Mix(mix) => Some(mix.ahead.pop_front().unwrap_or_else(|| mix.draw())),
            Self::Each { pass, next, keys } => {
                let take = |next: u32| (next < *keys).then_some(next + 1);
                let key = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
                Some(pass.ask(key))
            }
        }
    }

    /// Draws a request that [`Self::next`] returns later, in its turn; false if enough are drawn.
    /// For whoever has nothing else to do: a draw takes some 40 ns.
    pub(crate) fn draw_ahead(&mut self) -> bool {
        match self {
            Self::Mix(mix) if mix.ahead.len() < AHEAD_MAX => {
                let ask = mix.draw();
                mix.ahead.push_back(ask);
                true
            }
            Self::Mix(_) | Self::Each { .. } => false,
        }
    }
}

/// A mix of gets and sets.
#[derive(Debug)]
pub(crate) struct Mix {
    random: Random,
    sampler: Arc<Sampler>,
    gets: f64,
    /// Drawn already, in order.
    ahead: VecDeque<Ask>,
}

impl Mix {
    /// `gets` is the share of gets, from 0 to 1.
    pub(crate) fn new(random: Random, sampler: Arc<Sampler>, gets: f64) -> Self {
        Self { random, sampler, gets, ahead: VecDeque::new() }
    }

    fn draw(&mut self) -> Ask {
        let is_get = self.random.unit() < self.gets;
        let key = self.sampler.draw(&mut self.random);
        if is_get { Ask::Get { key } } else { Ask::Set { key } }
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: the next request is sent when an earlier one is answered.
    Closed,
    /// Open loop: requests are due at this rate whatever the server does.
    Open {
        /// Requests a second, over all connections.
        rate: f64,
        /// Whether the gaps are random, as those of many independent clients are, or all alike.
        is_poisson: bool,
    },
}

/// The times at which one connection's requests are due in an open loop.
///
/// The times are a function of the rate and the seed alone. A connection that has too many requests
/// under way falls behind, and what it sends later was due earlier: latencies count from then, so
/// the server's stall is in the latency of every request that it held up.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    next_ns: f64,
    gap_ns: f64,
    poisson: Option<Random>,
}

impl Arrivals {
    /// For connection `index` of `count`, which share `rate` requests a second; begins at
    /// `start_ns`.
    pub(crate) fn new(
        (rate, is_poisson): (f64, bool),
        (index, count): (u32, u32),
        start_ns: u64,
        seed: u64,
    ) -> Self {
        let gap_ns = f64::from(count) * 1e9 / rate;
        // Even gaps are staggered, so that all connections together have even gaps, too.
        let offset_ns = gap_ns * f64::from(index) / f64::from(count);
        let poisson = is_poisson.then(|| Random::new(seed, ARRIVAL_STREAM + u64::from(index)));
        let mut arrivals = Self { next_ns: float(start_ns), gap_ns, poisson };
        if is_poisson {
            arrivals.advance();
        } else {
            arrivals.next_ns += offset_ns;
        }
        arrivals
    }

    /// When the next request is due.
    pub(crate) fn due_ns(&self) -> u64 {
        whole(self.next_ns)
    }

    /// Goes on to the one after it.
    pub(crate) fn advance(&mut self) {
        let gaps = match &mut self.poisson {
            // Of 1 - u, which is never 0.
            Some(random) => -(1.0 - random.unit()).ln(),
            None => 1.0,
        };
        self.next_ns += gaps * self.gap_ns;
    }

    /// Goes on to the first that is due at `until_ns` or later; returns how many were due before.
    pub(crate) fn skip(&mut self, until_ns: u64) -> u64 {
        let mut count = 0;
        while self.due_ns() < until_ns {
            self.advance();
            count += 1;
        }
        count
    }
}

/// Streams of a seed from here on are arrivals.
const ARRIVAL_STREAM: u64 = 1 << 32;

#[expect(clippy::cast_precision_loss, reason = "exact to the nanosecond for 104 days")]
fn float(ns: u64) -> f64 {
    ns as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never below 0")]
fn whole(ns: f64) -> u64 {
    ns as u64
}

#[cfg(test)]
mod tests;
