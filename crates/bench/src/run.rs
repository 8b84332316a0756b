//! A whole bench: servers, cells, rounds; or passes over all keys.
//!
//! Every cell (a number of connections and a depth) runs its rounds one after another; with several
//! servers each round measures one after the other, and the next round begins with the next one.
//! The machine's mood is then in all figures of a round, and cancels out of their ratios.

mod sweep;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base::{
    clock::Stopwatch,
    random::{Random, mix},
};

use crate::{
    Error,
    address::Address,
    cpu,
    device::Device,
    fleet::{Figures, Fleet, Layout, Measured, Order},
    identity::Identity,
    ledger::Ledger,
    null::Null,
    outcome::{Ceiling, Cell, Outcome, Side},
    plan::{Load, Plan, Server, Shape},
    popularity::Sampler,
    session::Subject,
    sizes::KeyNames,
    tally::Tally,
    value::Values,
    workload::{Mix, Pace, Pass, Source},
};

pub use self::sweep::{SweepOutcome, Swept, sweep, sweep_json, sweep_table};

/// Connections that load the keys, and requests under way on each: enough to keep any server busy.
const LOAD_CONNECTIONS: u32 = 4;
const LOAD_DEPTH: usize = 32;

/// The ceiling is the best of a few short runs: what slows one of them is no limit.
const CEILING_RUNS: u32 = 3;
const CEILING_NS_MAX: u64 = 400_000_000;
const CEILING_WARM_UP_NS_MAX: u64 = 100_000_000;

/// How often the one who watches hears of progress.
const WATCH_NS: u64 = 200_000_000;

/// Runs `plan` until it is done or `stop` is set. `watch` hears from time to time what is being
/// done. Errors of a server after the start are in the outcome, beside what was measured before.
///
/// # Errors
/// When it cannot begin: [`Error::Settings`], and what keeps it from reaching the servers.
pub fn run(plan: &Plan, stop: &AtomicBool, watch: &mut dyn FnMut(&str)) -> Result<Outcome, Error> {
    let (bench, servers) = Bench::new(plan, stop)?;
    let mut outcome = Outcome {
        servers,
        cells: Vec::new(),
        loads: Vec::new(),
        error: None,
        is_interrupted: false,
    };
    outcome.error = bench.fill(&mut outcome, watch).err();
    outcome.is_interrupted = stop.load(Ordering::Relaxed);
    Ok(outcome)
}

/// A plan that is being carried out.
struct Bench<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    clock: Stopwatch,
    /// By server.
    subjects: Vec<Arc<Subject>>,
    null: Option<Arc<Subject>>,
    null_cpus: Vec<usize>,
    sampler: Arc<Sampler>,
    device: Option<Device>,
}

impl<'a> Bench<'a> {
    /// Finds the servers and makes what they are asked with.
    fn new(plan: &'a Plan, stop: &'a AtomicBool) -> Result<(Self, Vec<Identity>), Error> {
        let names = KeyNames::new(&plan.key_prefix, plan.key_sizes, plan.keys, plan.seed)
            .map_err(Error::Settings)?;
        plan.check()?;
        let servers = plan
            .servers
            .iter()
            .map(|server| Identity::ask(&server.address, server.pid))
            .collect::<Result<Vec<_>, _>>()?;
        let values = Arc::new(Values::new(plan.value_sizes, plan.seed));
        let names = Arc::new(names);
        let subject = |verifies, is_null| {
            Arc::new(Subject {
                protocol: plan.protocol,
                names: Arc::clone(&names),
                values: Arc::clone(&values),
                ledger: match plan.load {
                    Load::Earlier => Ledger::set_once(plan.keys),
                    Load::Sets | Load::Unknown => Ledger::new(plan.keys),
                },
                verifies,
                is_null,
            })
        };
        let subjects = plan.servers.iter().map(|server| subject(server.verifies, false)).collect();
        // The ceiling is that of the generator with all its work.
        let verifies_any = plan.servers.iter().any(|server| server.verifies);
        let null_cpus = servers.iter().find_map(|server| {
            server
                .process
                .as_ref()
                .map(|process| process.cpus.clone())
                .filter(|cpus| !cpus.is_empty())
        });
        // Where a server is pinned, this thread keeps away from it as the generator's threads do.
        cpu::pin(&plan.cpus)?;
        let bench = Bench {
            plan,
            stop,
            clock: Stopwatch::start(),
            subjects,
            null: plan.finds_ceiling.then(|| subject(verifies_any, true)),
            null_cpus: null_cpus.unwrap_or_default(),
            sampler: Arc::new(Sampler::new(plan.popularity, plan.keys)),
            device: plan.device.as_deref().map(Device::of).transpose()?,
        };
        Ok((bench, servers))
    }

    fn fill(&self, outcome: &mut Outcome, watch: &mut dyn FnMut(&str)) -> Result<(), Error> {
        if self.plan.load == Load::Sets {
            for (server, subject) in self.plan.servers.iter().zip(&self.subjects) {
                let loaded = self.load(server, subject, watch)?;
                outcome.loads.push(loaded.tally);
                loaded.error.map_or(Ok(()), Err)?;
            }
        }
        for shape in &self.plan.shapes {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let sides = self
                .plan
                .servers
                .iter()
                .map(|_| Side { tally: Tally::new(self.plan.records), rounds: Vec::new() });
            outcome.cells.push(Cell { shape: *shape, ceiling: None, sides: sides.collect() });
            let cell = outcome.cells.last_mut().expect("invariant: just pushed");
            self.fill_cell(cell, &outcome.servers, watch)?;
        }
        Ok(())
    }

    fn load(
        &self,
        server: &Server,
        subject: &Arc<Subject>,
        watch: &mut dyn FnMut(&str),
    ) -> Result<Measured, Error> {
        let shape = Shape { connections: LOAD_CONNECTIONS, depth: LOAD_DEPTH };
        let fleet = Fleet::open(&server.address, subject, self.clock, &self.layout(shape))?;
        let order = Order { records: false, spins: false, ..self.order(0, None) };
        Ok(self.pass(&fleet, Pass::Set, &order, watch, &format!("loading {}", server.address)))
    }

    fn fill_cell(
        &self,
        cell: &mut Cell,
        servers: &[Identity],
        watch: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        if let Some(subject) = &self.null {
            cell.ceiling = self.ceiling(cell.shape, subject, watch)?;
        }
        let layout = self.layout(cell.shape);
        let mut fleets = Vec::new();
        for (server, subject) in self.plan.servers.iter().zip(&self.subjects) {
            fleets.push(Fleet::open(&server.address, subject, self.clock, &layout)?);
        }
        for round in 0..self.plan.rounds {
            for turn in 0..fleets.len() {
                let side = (turn + round as usize) % fleets.len();
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let pid = servers[side].process.as_ref().map(|process| (process.pid, None));
                let order = self.order(round, pid);
                let name = &servers[side].address;
                let mut hear =
                    self.watcher(watch, cell.shape, format!("{name}, round {}", round + 1));
                let measured =
                    fleets[side].measure(&order, &self.source(order.seed), self.stop, &mut hear);
                cell.sides[side].add(&measured);
                measured.error.map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    fn ceiling(
        &self,
        shape: Shape,
        subject: &Arc<Subject>,
        watch: &mut dyn FnMut(&str),
    ) -> Result<Option<Ceiling>, Error> {
        let is_unix = matches!(self.plan.servers[0].address, Address::Unix(_));
        let null = Null::start(
            is_unix,
            self.plan.protocol,
            mean_bytes(self.plan),
            self.null_cpus.clone(),
        )?;
        let fleet = Fleet::open(&null.address, subject, self.clock, &self.layout(shape))?;
        let mut order = self.order(0, Some((std::process::id(), Some(vec![null.thread_id]))));
        order.pace = Pace::Closed;
        order.records = false;
        order.warm_up_ns = order.warm_up_ns.min(CEILING_WARM_UP_NS_MAX);
        order.duration_ns = order.duration_ns.min(CEILING_NS_MAX);
        let mut best: Option<Figures> = None;
        for _ in 0..CEILING_RUNS {
            let mut hear = self.watcher(watch, shape, "the generator's ceiling".to_owned());
            let measured = fleet.measure(&order, &self.source(order.seed), self.stop, &mut hear);
            measured.error.map_or(Ok(()), Err)?;
            let rate = |figures: &Figures| per_second(figures.replies, figures.span_ns);
            best = best
                .into_iter()
                .chain(measured.figures)
                .max_by(|first, second| rate(first).total_cmp(&rate(second)));
        }
        Ok(best.map(Ceiling))
    }

    fn order(&self, round: u32, server: Option<(u32, Option<Vec<u32>>)>) -> Order {
        Order {
            pace: self.plan.pace,
            warm_up_ns: nanoseconds(self.plan.warm_up),
            duration_ns: nanoseconds(self.plan.duration),
            // All servers are asked the same in the same round.
            seed: mix(self.plan.seed ^ u64::from(round)),
            records: self.plan.records,
            patience_ns: nanoseconds(self.plan.patience),
            spins: self.plan.spins,
            server,
            device: self.device.clone(),
        }
    }

    fn source(&self, seed: u64) -> impl Fn(u64) -> Source {
        let (sampler, gets) = (Arc::clone(&self.sampler), self.plan.gets);
        move |thread| Source::Mix(Mix::new(Random::new(seed, thread), Arc::clone(&sampler), gets))
    }

    fn layout(&self, shape: Shape) -> Layout {
        Layout {
            connections: shape.connections,
            depth: shape.depth,
            threads: self.plan.threads,
            cpus: self.plan.cpus.clone(),
        }
    }

    fn watcher<'w>(
        &self,
        watch: &'w mut dyn FnMut(&str),
        shape: Shape,
        what: String,
    ) -> impl FnMut(u64) + use<'w> {
        let mut ticker = Ticker::new(self.clock);
        let clock = self.clock;
        let mut last = (clock.elapsed_ns(), 0);
        move |replies| {
            if !ticker.is_time() {
                return;
            }
            let now_ns = clock.elapsed_ns();
            let per_s = per_second(replies - last.1, now_ns - last.0);
            last = (now_ns, replies);
            let Shape { connections, depth } = shape;
            watch(&format!("{connections} x {depth}, {what}: {per_s:.0} requests a second"));
        }
    }
}

/// Says when it is time to speak.
struct Ticker {
    clock: Stopwatch,
    next_ns: u64,
}

impl Ticker {
    fn new(clock: Stopwatch) -> Self {
        Self { clock, next_ns: clock.elapsed_ns() + WATCH_NS }
    }

    fn is_time(&mut self) -> bool {
        let now_ns = self.clock.elapsed_ns();
        let is_time = now_ns >= self.next_ns;
        if is_time {
            self.next_ns = now_ns + WATCH_NS;
        }
        is_time
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn per_second(count: u64, ns: u64) -> f64 {
    count as f64 * 1e9 / ns.max(1) as f64
}

fn nanoseconds(duration: Duration) -> u64 {
    // A century is enough for everybody, and two of them can be added.
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 8).min(u64::MAX / 8)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 1 GiB")]
fn mean_bytes(plan: &Plan) -> usize {
    plan.value_sizes.mean().round() as usize
}
