//! Every key once, in passes: what is kept of what was stored, and how fast it was.

mod report;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub use self::report::{sweep_json, sweep_table};
use super::{Bench, Ticker};
use crate::{
    Error, Figures,
    fleet::{Fleet, Measured, Order},
    identity::Identity,
    plan::Plan,
    tally::Tally,
    workload::{Pass, Source},
};

/// What came of passes.
#[derive(Debug)]
pub struct SweepOutcome {
    /// The servers, in the plan's order.
    pub servers: Vec<Identity>,
    /// The passes that were begun, in order; of each the servers one after another.
    pub passes: Vec<Swept>,
    /// Why it ended early, if it did.
    pub error: Option<Error>,
    /// It was asked to stop.
    pub is_interrupted: bool,
}

/// A pass on a server.
#[derive(Debug)]
pub struct Swept {
    /// What was asked.
    pub pass: Pass,
    /// Of whom: its place in the plan.
    pub server: usize,
    /// What was answered.
    pub tally: Tally,
    /// Of the whole pass; none when it ended early.
    pub figures: Option<Figures>,
}

impl SweepOutcome {
    /// Values that are not what was written.
    #[must_use]
    pub fn faults(&self) -> u64 {
        let counts = self.passes.iter().map(|swept| swept.tally.counts);
        counts.map(|counts| counts.wrong + counts.stale).sum()
    }
}

/// Asks for every key once in each of `passes`, over the connections of the plan's first shape:
/// no rounds. What a pass stores is what the next one expects.
///
/// # Errors
/// As [`crate::run()`].
pub fn sweep(
    plan: &Plan,
    passes: &[Pass],
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&str),
) -> Result<SweepOutcome, Error> {
    let (bench, servers) = Bench::new(plan, stop)?;
    let mut outcome =
        SweepOutcome { servers, passes: Vec::new(), error: None, is_interrupted: false };
    outcome.error = bench.sweep(passes, &mut outcome, watch).err();
    outcome.is_interrupted = stop.load(Ordering::Relaxed);
    Ok(outcome)
}

impl Bench<'_> {
    fn sweep(
        &self,
        passes: &[Pass],
        outcome: &mut SweepOutcome,
        watch: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let layout = self.layout(self.plan.shapes[0]);
        let mut fleets = Vec::new();
        for (server, subject) in self.plan.servers.iter().zip(&self.subjects) {
            fleets.push(Fleet::open(&server.address, subject, self.clock, &layout)?);
        }
        for pass in passes {
            for (at, fleet) in fleets.iter().enumerate() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let server = &outcome.servers[at];
                let process = server.process.as_ref().map(|process| (process.pid, None));
                let what = format!("{pass}, {}", server.address);
                let Measured { tally, figures, error } =
                    self.pass(fleet, *pass, &self.order(0, process), watch, &what);
                outcome.passes.push(Swept { pass: *pass, server: at, tally, figures });
                error.map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// One pass on one server.
    pub(super) fn pass(
        &self,
        fleet: &Fleet,
        pass: Pass,
        order: &Order,
        watch: &mut dyn FnMut(&str),
        what: &str,
    ) -> Measured {
        let (next, keys) = (Arc::default(), self.plan.keys);
        let source = || Source::Each { pass, next: Arc::clone(&next), keys };
        let mut ticker = Ticker::new(self.clock);
        let mut hear = |replies| {
            if ticker.is_time() {
                watch(&format!("{what}: {replies} of {keys} keys"));
            }
        };
        fleet.exhaust(order, &source, self.stop, &mut hear)
    }
}
