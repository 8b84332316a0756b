//! Replays a trace on servers: gets, and a set after each miss; which of them keeps more?
//!
//! Everything is as `kelvin sim` has it, so that the two can be compared: a trace in as many copies
//! as are asked for, each with keys of its own and all in step; keys of 16 hexadecimal digits;
//! values whose size is a function of seed and key. What a server holds of memory is what the
//! system says of its process when the last request is answered.
//!
//! Each server is asked over one connection, so no get overtakes a set of its key; requests are
//! sent in bursts of different keys, so that none would have found what another one of the burst
//! stores.

mod conversation;
mod report;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base::clock::Stopwatch;
use trace::{LogNormal, Source, Trace};

use self::conversation::Conversation;
pub use self::{
    conversation::ReplayCounts,
    report::{replay_json, replay_table},
};
use crate::{Error, cpu, identity::Identity, plan::Server, sizes::Sizes, value::Values};

/// Sizes of values.
const SIZES: LogNormal = LogNormal::SMALL_OBJECTS;

/// Bytes of a key.
const KEY_BYTES: u64 = 16;

/// Requests between two looks at whether to stop, and words of progress.
const REQUESTS_PER_LOOK: u64 = 1 << 16;

/// What is to be replayed, on whom.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// One after the other. All should be empty.
    pub servers: Vec<Server>,
    /// The trace.
    pub source: Source,
    /// How often it is replayed at once, each time with other keys.
    pub copies: u32,
    /// Repeats sizes of values, and traces that are generated.
    pub seed: u64,
    /// How long a server may leave requests unanswered.
    pub patience: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct ReplayOutcome {
    /// The trace's name.
    pub trace: String,
    /// Requests to each server.
    pub requests: u64,
    /// Different keys.
    pub keys: u64,
    /// Bytes of all keys and values.
    pub record_bytes: u64,
    /// By server, as far as it came.
    pub sides: Vec<ReplaySide>,
    /// It was asked to stop.
    pub is_interrupted: bool,
}

/// One server.
#[derive(Debug)]
pub struct ReplaySide {
    /// Who it is.
    pub server: Identity,
    /// Replies.
    pub counts: ReplayCounts,
    /// Sentences of what went wrong.
    pub samples: Vec<String>,
    /// Resident bytes of its process, before and after, if it is known.
    pub resident_bytes: Option<(u64, u64)>,
    /// How long it took.
    pub elapsed_ns: u64,
}

/// Replays until it is done or `stop` is set. `watch` hears from time to time how far it is.
///
/// # Errors
/// [`Error::Trace`] and [`Error::Settings`], and what keeps it from reaching a server or from
/// understanding it.
pub fn replay(
    plan: &ReplayPlan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&str),
) -> Result<ReplayOutcome, Error> {
    if plan.servers.is_empty() || plan.copies == 0 {
        return Err(Error::Settings("nothing is asked for".to_owned()));
    }
    watch(&format!("reading {}", plan.source));
    let trace = plan.source.load(plan.seed)?;
    let names = Names { seed: plan.seed };
    let copies = u64::from(plan.copies);
    let all = (0..copies).flat_map(|copy| (0..trace.footprint()).map(move |key| (copy, key)));
    let mut outcome = ReplayOutcome {
        trace: trace.name().to_owned(),
        requests: trace.keys().len() as u64 * copies,
        keys: u64::from(trace.footprint()) * copies,
        record_bytes: all.map(|(copy, key)| KEY_BYTES + u64::from(names.bytes(copy, key))).sum(),
        sides: Vec::new(),
        is_interrupted: false,
    };
    // Only the pattern is used: sizes are the trace's.
    let values = Arc::new(Values::new(Sizes::Fixed(1), plan.seed));
    for server in &plan.servers {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let replayer = Replayer { plan, trace: &trace, names, values: &values, stop };
        outcome.sides.push(replayer.replay_on(server, watch)?);
    }
    outcome.is_interrupted = stop.load(Ordering::Relaxed);
    Ok(outcome)
}

/// What keys of copies are called, and how long their values are.
#[derive(Clone, Copy, Debug)]
struct Names {
    seed: u64,
}

impl Names {
    fn of(copy: u64, key: u32) -> u64 {
        copy << 32 | u64::from(key)
    }

    fn bytes(self, copy: u64, key: u32) -> u32 {
        SIZES.bytes(self.seed, Self::of(copy, key))
    }
}

struct Replayer<'a> {
    plan: &'a ReplayPlan,
    trace: &'a Trace,
    names: Names,
    values: &'a Values,
    stop: &'a AtomicBool,
}

impl Replayer<'_> {
    fn replay_on(&self, server: &Server, watch: &mut dyn FnMut(&str)) -> Result<ReplaySide, Error> {
        let identity = Identity::ask(&server.address, server.pid)?;
        let pid = identity.process.as_ref().map(|process| process.pid);
        let resident = || pid.map(cpu::resident_bytes).transpose();
        let before = resident()?;
        let clock = Stopwatch::start();
        let mut conversation = Conversation::open(server, self.values, self.plan.patience)?;
        let mut asked = 0_u64;
        'trace: for key in self.trace.keys() {
            for copy in 0..u64::from(self.plan.copies) {
                conversation.ask(Names::of(copy, *key), self.names.bytes(copy, *key))?;
                asked += 1;
                if asked.is_multiple_of(REQUESTS_PER_LOOK) {
                    if self.stop.load(Ordering::Relaxed) {
                        break 'trace;
                    }
                    let of = self.trace.keys().len() as u64 * u64::from(self.plan.copies);
                    let (name, address) = (self.trace.name(), &server.address);
                    watch(&format!("{name}, {address}: {asked} of {of} requests"));
                }
            }
        }
        let (counts, samples) = conversation.finish()?;
        Ok(ReplaySide {
            server: identity,
            counts,
            samples,
            elapsed_ns: clock.elapsed_ns(),
            resident_bytes: before.zip(resident()?),
        })
    }
}
