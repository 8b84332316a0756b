//! Runs the cells of a plan over its threads.
//!
//! One trace after another is loaded; its cells are taken by whichever thread is free, the largest
//! work first. Cells share the trace, which nobody changes, and nothing else.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use trace::Trace;

use crate::{
    Error,
    outcome::{Outcome, Replayed, Row, ratio},
    plan::{Mode, Percent, Plan},
    policy::Kind,
    pulse::Pulse,
    units::Units,
    whole::{Setup, Whole},
};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Replays every trace of a plan through every policy at every size.
///
/// `stop` ends it early with what was replayed until then; `show` is told now and then what is
/// being done.
///
/// # Errors
/// [`Error`]. The first one ends it.
pub fn run(plan: &Plan, stop: &AtomicBool, show: &mut dyn FnMut(&str)) -> Result<Outcome, Error> {
    if matches!(plan.mode, Mode::Whole { .. }) {
        for policy in &plan.policies {
            if let Kind::Reference(_) = policy {
                return Err(Error::UnitOnly { policy: policy.to_string() });
            }
        }
    }
    let setup = match plan.mode {
        Mode::Units { .. } => None,
        Mode::Whole { memory_min_bytes, writers } => {
            show("measuring what records cost");
            Some(Setup::new(plan.seed, memory_min_bytes, writers)?)
        }
    };
    let mut outcome = Outcome::default();
    for (number, source) in plan.sources.iter().enumerate() {
        let place = format!("trace {} of {}", number + 1, plan.sources.len());
        show(&format!("{place}: reading {source}"));
        let trace = source.load(plan.seed)?;
        let mut show = |text: &str| show(&format!("{place}, {}: {text}", trace.name()));
        outcome.traces.push(replay(plan, &trace, setup, stop, &mut show)?);
        if stop.load(Ordering::Relaxed) {
            outcome.is_interrupted = true;
            break;
        }
    }
    Ok(outcome)
}

/// What a trace's cells are replayed from.
enum Subject<'t> {
    Units(Units),
    Whole(Whole<'t>),
}

impl Subject<'_> {
    fn requests(&self, percent: Percent) -> u64 {
        match self {
            Self::Units(units) => units.requests(),
            Self::Whole(whole) => whole.requests(percent),
        }
    }

    fn replay(&self, cell: Cell, pulse: &Pulse<'_>) -> Result<Option<Row>, Error> {
        let (policy, percent) = cell;
        match self {
            Self::Units(units) => Ok(units.replay(policy, percent, pulse)),
            Self::Whole(whole) => whole.replay(policy, percent, pulse),
        }
    }
}

type Cell = (Kind, Percent);

fn replay(
    plan: &Plan,
    trace: &Trace,
    setup: Option<Setup>,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&str),
) -> Result<Replayed, Error> {
    let subject = match (plan.mode, setup) {
        (Mode::Units { shards }, _) => Subject::Units(Units::new(trace, shards)),
        (Mode::Whole { .. }, setup) => {
            let setup = setup.expect("invariant: made for this mode");
            Subject::Whole(Whole::new(trace, setup, &plan.percents)?)
        }
    };
    let footprint_bytes = match &subject {
        Subject::Units(_) => None,
        Subject::Whole(whole) => Some(whole.footprint_bytes()),
    };
    let mut replayed = Replayed {
        name: trace.name().to_owned(),
        requests: trace.keys().len() as u64,
        footprint: trace.footprint().into(),
        footprint_bytes,
        rows: Vec::new(),
    };
    let order = |row: &Row| {
        let policy = plan.policies.iter().position(|policy| *policy == row.policy);
        let percent = plan.percents.iter().position(|percent| *percent == row.percent);
        (policy, percent)
    };
    replayed.rows = cells(plan, &subject, stop, show)?;
    replayed.rows.sort_by_key(order);
    Ok(replayed)
}

/// Replays all cells of a trace, in no particular order.
fn cells(
    plan: &Plan,
    subject: &Subject<'_>,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, Error> {
    let mut cells: Vec<Cell> = plan
        .percents
        .iter()
        .flat_map(|percent| plan.policies.iter().map(|policy| (*policy, *percent)))
        .collect();
    cells.sort_by_key(|(_, percent)| std::cmp::Reverse(subject.requests(*percent)));
    let all: u64 = cells.iter().map(|(_, percent)| subject.requests(*percent)).sum();
    let pulse = Pulse::new(stop);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..plan.threads.min(cells.len()) {
            let (sender, pulse, next, cells) = (sender.clone(), &pulse, &next, &cells);
            scope.spawn(move || {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = subject.replay(*cell, pulse);
                    let is_end = !matches!(result, Ok(Some(_)));
                    // Nobody listens any more when another cell has failed.
                    if sender.send(result).is_err() || is_end {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut rows = Vec::new();
        loop {
            match receiver.recv_timeout(SHOW_EVERY) {
                Ok(result) => rows.extend(result.inspect_err(|_| {
                    // The other cells need not go on.
                    next.store(cells.len(), Ordering::Relaxed);
                })?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(rows),
            }
            let done = ratio(pulse.requests(), all) * 100.0;
            show(&format!("{} of {} cells, {done:.0} %", rows.len(), cells.len()));
        }
    })
}
