//! The threads that drive one server, and one round of measuring it.
//!
//! Each thread owns its connections for as long as the fleet exists, so that two servers can be
//! measured in turn over connections that stay open. While a round runs, the calling thread
//! samples CPU time and the count of replies at the beginning and at the end of the span: both
//! figures are of exactly the same time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::Duration,
};

use base::clock::Stopwatch;

use crate::{
    Error,
    address::Address,
    cpu::{self, Sample, Used},
    device::{Device, Traffic},
    session::Subject,
    span::Span,
    tally::Tally,
    worker::{Progress, Round, Worker},
    workload::{Pace, Source},
};

/// How often the calling thread looks up while a round runs.
const LOOK: Duration = Duration::from_millis(50);

/// How connections and threads are laid out.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) connections: u32,
    pub(crate) depth: usize,
    /// At most as many as connections are started.
    pub(crate) threads: u32,
    /// Where they run; anywhere if there are none.
    pub(crate) cpus: Vec<usize>,
}

/// One round.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) pace: Pace,
    pub(crate) warm_up_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) seed: u64,
    pub(crate) records: bool,
    pub(crate) patience_ns: u64,
    /// Threads look for replies all the time instead of sleeping until they come.
    pub(crate) spins: bool,
    /// Whose CPU time is the server's: a process, and if given only some of its threads.
    pub(crate) server: Option<(u32, Option<Vec<u32>>)>,
    /// The disk that is watched.
    pub(crate) device: Option<Device>,
}

/// What a round gave.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    /// None when it ended before it was measured.
    pub(crate) figures: Option<Figures>,
    pub(crate) error: Option<Error>,
}

/// Counted over the span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Length of the span in nanoseconds.
    pub span_ns: u64,
    /// Replies in it.
    pub replies: u64,
    /// CPU time of the server, if it can be seen.
    pub server: Option<Used>,
    /// CPU time of the generator; when it spins, the time in which it had something to do.
    pub generator: Used,
    /// What the disk did, if it is watched.
    pub device: Option<Traffic>,
}

impl Measured {
    /// Takes what was seen at the beginning and at the end, if both were.
    fn judge(&mut self, glances: Result<Vec<Glance>, Error>) {
        match glances {
            // When the server has gone, its connections say so better than its process does.
            Err(error) => self.error = self.error.take().or(Some(error)),
            Ok(glances) => {
                if let ([before, after], None) = (glances.as_slice(), &self.error) {
                    self.figures = Some(Figures::between(before, after));
                }
            }
        }
    }
}

struct Member {
    orders: mpsc::Sender<Round>,
    thread: JoinHandle<()>,
}

type Report = (Tally, Result<(), Error>);

/// The threads that drive one server.
pub(crate) struct Fleet {
    members: Vec<Member>,
    reports: mpsc::Receiver<Report>,
    thread_ids: Vec<u32>,
    clock: Stopwatch,
}

/// What was seen at one moment.
struct Glance {
    at_ns: u64,
    replies: u64,
    server: Option<Sample>,
    generator: Sample,
    device: Option<Traffic>,
    /// Of threads that spin, how long each found nothing to do.
    idle_ns: Vec<u64>,
}

impl Fleet {
    /// Starts threads and opens connections.
    ///
    /// # Errors
    /// Those of connecting and of pinning.
    pub(crate) fn open(
        address: &Address,
        subject: &Arc<Subject>,
        clock: Stopwatch,
        layout: &Layout,
    ) -> Result<Self, Error> {
        let threads = layout.threads.min(layout.connections).max(1);
        let (report, reports) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let mut fleet = Self { members: Vec::new(), reports, thread_ids: Vec::new(), clock };
        let mut first = 0;
        for number in 0..threads {
            let count =
                layout.connections / threads + u32::from(number < layout.connections % threads);
            let numbers = (first, count, layout.connections);
            first += count;
            let (orders, ordered) = mpsc::channel::<Round>();
            let (address, subject) = (address.clone(), Arc::clone(subject));
            let (depth, cpus) = (layout.depth, share(&layout.cpus, number));
            let (report, tell) = (report.clone(), tell.clone());
            let serve = move || {
                let ready = cpu::pin(&cpus)
                    .and_then(|()| Worker::connect(&address, subject, clock, numbers, depth));
                let mut worker = match ready {
                    Ok(worker) => worker,
                    Err(error) => return drop(tell.send(Err(error))),
                };
                prompt_timers();
                let _ = tell.send(Ok(cpu::thread_id()));
                drop(tell);
                for mut round in ordered {
                    let (tally, outcome) = worker.run(&mut round);
                    if outcome.is_err() {
                        round.shared.stop.store(true, Ordering::Relaxed);
                    }
                    let _ = report.send((tally, outcome));
                }
            };
            let thread = std::thread::Builder::new()
                .name(format!("generator-{number}"))
                .spawn(serve)
                .map_err(|source| Error::system("cannot start a thread", source))?;
            fleet.members.push(Member { orders, thread });
        }
        drop(tell);
        for ready in told {
            fleet.thread_ids.push(ready?);
        }
        Ok(fleet)
    }

    /// Asks until the sources, which have an end, run dry; the figures are of all that time.
    /// `watch` hears the count of replies from time to time.
    pub(crate) fn exhaust(
        &self,
        order: &Order,
        source: &dyn Fn() -> Source,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(u64),
    ) -> Measured {
        let shared = Arc::new(Progress::default());
        let end = End(&shared);
        let idle = self.idle(order);
        let before = self.glance(order, &shared, &idle);
        for (number, member) in self.members.iter().enumerate() {
            let _ = member.orders.send(Round {
                source: source(),
                pace: Pace::Closed,
                span: Span { from_ns: 0, until_ns: u64::MAX },
                seed: order.seed,
                records: order.records,
                shared: Arc::clone(&shared),
                patience_ns: order.patience_ns,
                spin_idle_ns: idle.get(number).cloned(),
            });
        }
        let mut reports = Vec::new();
        while reports.len() < self.members.len() {
            self.look(LOOK, &mut reports);
            watch(shared.replies.load(Ordering::Relaxed));
            if stop.load(Ordering::Relaxed) {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        let after = self.glance(order, &shared, &idle);
        drop(end);
        let mut measured = collect(reports, order.records);
        measured.judge([before, after].into_iter().collect());
        measured
    }

    /// Measures one round. `source` makes each thread's requests, by its number. `watch` hears the
    /// count of replies from time to time. A round that ends with an error has no figures.
    pub(crate) fn measure(
        &self,
        order: &Order,
        source: &dyn Fn(u64) -> Source,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(u64),
    ) -> Measured {
        let shared = Arc::new(Progress::default());
        let end = End(&shared);
        let idle = self.idle(order);
        let from_ns = self.clock.elapsed_ns() + order.warm_up_ns;
        let span = Span { from_ns, until_ns: from_ns + order.duration_ns };
        for (number, member) in (0_u64..).zip(&self.members) {
            let _ = member.orders.send(Round {
                source: source(number),
                pace: order.pace,
                span,
                seed: order.seed,
                records: order.records,
                shared: Arc::clone(&shared),
                patience_ns: order.patience_ns,
                spin_idle_ns: idle.get(number as usize).cloned(),
            });
        }
        let mut reports = Vec::new();
        let mut until = |until_ns: u64, reports: &mut Vec<Report>| loop {
            let left_ns = until_ns.saturating_sub(self.clock.elapsed_ns());
            let is_stopped = stop.load(Ordering::Relaxed);
            if left_ns == 0 || is_stopped || !reports.is_empty() {
                return is_stopped;
            }
            self.look(LOOK.min(Duration::from_nanos(left_ns)), reports);
            watch(shared.replies.load(Ordering::Relaxed));
        };
        let mut glances = Vec::new();
        let is_stopped = until(span.from_ns, &mut reports);
        if !is_stopped && reports.is_empty() {
            glances.push(self.glance(order, &shared, &idle));
            // If this thread comes late, so does the end: the load goes on until told to stop.
            let until_ns = span.until_ns.max(self.clock.elapsed_ns() + order.duration_ns);
            until(until_ns, &mut reports);
            glances.push(self.glance(order, &shared, &idle));
        }
        drop(end);
        while reports.len() < self.members.len() {
            self.look(LOOK, &mut reports);
        }
        let mut measured = collect(reports, order.records);
        measured.judge(glances.into_iter().collect());
        measured
    }

    /// Of threads that spin, where each counts how long it found nothing to do.
    fn idle(&self, order: &Order) -> Vec<Arc<AtomicU64>> {
        self.members.iter().filter(|_| order.spins).map(|_| Arc::default()).collect()
    }

    /// Waits for a report, not long.
    fn look(&self, timeout: Duration, reports: &mut Vec<Report>) {
        match self.reports.recv_timeout(timeout) {
            Ok(report) => reports.push(report),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                panic!("invariant: a generator's thread reports before it ends")
            }
        }
    }

    fn glance(
        &self,
        order: &Order,
        shared: &Progress,
        idle: &[Arc<AtomicU64>],
    ) -> Result<Glance, Error> {
        let server = match &order.server {
            Some((pid, threads)) => Some(Sample::take(*pid, threads.as_deref())?),
            None => None,
        };
        let generator = Sample::take(std::process::id(), Some(&self.thread_ids))?;
        let device = order.device.as_ref().map(Device::traffic).transpose()?;
        let replies = shared.replies.load(Ordering::Relaxed);
        let idle_ns = idle.iter().map(|idle_ns| idle_ns.load(Ordering::Relaxed)).collect();
        Ok(Glance { at_ns: self.clock.elapsed_ns(), replies, server, generator, device, idle_ns })
    }
}

/// Ends a round when it is dropped, so that a panic does not leave threads that load a server.
struct End<'a>(&'a Progress);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for Member { orders, thread } in self.members.drain(..) {
            drop(orders);
            let _ = thread.join();
        }
    }
}

impl Figures {
    fn between(before: &Glance, after: &Glance) -> Self {
        let server = after.server.as_ref().zip(before.server.as_ref());
        let span_ns = after.at_ns - before.at_ns;
        let worked_ns = after.idle_ns.iter().zip(&before.idle_ns).map(|(after, before)| {
            // All that was not idle, also if somebody else had the CPU.
            span_ns.saturating_sub(after - before)
        });
        let spun = worked_ns.clone().max().map(|busiest_ns| {
            let all_ns = worked_ns.sum();
            Used { all_ns, busiest_ns }
        });
        Self {
            span_ns,
            replies: after.replies - before.replies,
            server: server.map(|(after, before)| after.since(before)),
            generator: spun.unwrap_or_else(|| after.generator.since(&before.generator)),
            device: after.device.zip(before.device).map(|(after, before)| after.since(before)),
        }
    }
}

fn collect(reports: Vec<Report>, records: bool) -> Measured {
    let mut all = Measured { tally: Tally::new(records), figures: None, error: None };
    for (tally, outcome) in reports {
        all.tally.add(&tally);
        all.error = all.error.or(outcome.err());
    }
    all
}

/// The CPUs of thread `number`: one of the list if there is a list.
fn share(cpus: &[usize], number: u32) -> Vec<usize> {
    cpus.get(number as usize % cpus.len().max(1)).copied().into_iter().collect()
}

/// Timers may fire 50 us late unless told otherwise, which an open loop would see as latency.
fn prompt_timers() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
