//! What was measured.

use crate::{
    Error,
    fleet::{Figures, Measured},
    identity::Identity,
    plan::Shape,
    tally::Tally,
};

/// Share of its time that the server's busiest thread works, at least, when a cell shows the
/// server's limit.
pub(crate) const SERVER_BUSY_MIN: f64 = 0.98;

/// Share of its time that the generator's busiest thread works, below which it is not the limit.
pub(crate) const GENERATOR_BUSY_MAX: f64 = 0.85;

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The servers, in the plan's order.
    pub servers: Vec<Identity>,
    /// The cells that were begun.
    pub cells: Vec<Cell>,
    /// What came of loading the keys, by server.
    pub loads: Vec<Tally>,
    /// Why it ended early, if it did.
    pub error: Option<Error>,
    /// It was asked to stop.
    pub is_interrupted: bool,
}

/// One shape, measured.
#[derive(Debug)]
pub struct Cell {
    /// Connections and depth.
    pub shape: Shape,
    /// What the generator can do at most.
    pub ceiling: Option<Ceiling>,
    /// By server.
    pub sides: Vec<Side>,
}

/// A run against the null responder.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling(pub Figures);

/// One server in one cell.
#[derive(Debug)]
pub struct Side {
    /// Everything that was counted, over all rounds.
    pub tally: Tally,
    /// The rounds.
    pub rounds: Vec<Lap>,
}

/// One round of one server.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    /// Replies and CPU time.
    pub figures: Figures,
    /// Median latency in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
}

impl Side {
    pub(crate) fn add(&mut self, measured: &Measured) {
        self.tally.add(&measured.tally);
        let Some(figures) = measured.figures.filter(|figures| figures.replies > 0) else { return };
        let all = measured.tally.all();
        self.rounds.push(Lap {
            figures,
            p50_ns: all.value_at_quantile(0.5),
            p99_ns: all.value_at_quantile(0.99),
        });
    }
}
