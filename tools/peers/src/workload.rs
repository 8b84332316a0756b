//! The workloads, and how one of them is run and timed on one engine.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::{
    engine::{Engine, Session},
    load::{BURST, Key, Load, Names, Op, RANKS_MAX, ValueBuffer},
};

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// 90 % get, 10 % put, Zipf.
    Get90,
    /// 30 % get, 70 % put, Zipf.
    Get30,
    /// Gets in batches of 32, Zipf.
    Batch32,
    /// Puts of keys that were never seen.
    Insert,
    /// The same in batches of 32.
    Insert32,
}

impl Extent {
    /// Operations of a stream that one run of `ops` uses, its lead-in included.
    pub(crate) const fn stream_ops(ops: usize) -> usize {
        ops + (ops / LEAD_IN_DIVISOR).next_multiple_of(BURST)
    }
}

impl Workload {
    pub(crate) const ALL: [Self; 5] =
        [Self::Get90, Self::Get30, Self::Batch32, Self::Insert, Self::Insert32];

    /// The name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get90 => "get90",
            Self::Get30 => "get30",
            Self::Batch32 => "batch32",
            Self::Insert => "insert",
            Self::Insert32 => "insert32",
        }
    }

    /// Percentage of puts in the stream that it reads.
    pub(crate) fn put_percent(self) -> u32 {
        match self {
            Self::Get90 => 10,
            Self::Get30 => 70,
            Self::Batch32 => 0,
            Self::Insert | Self::Insert32 => 100,
        }
    }

    /// Replaces what the cache holds, so it runs after all others.
    pub(crate) fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::Insert32)
    }
}

/// What is run once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) workload: Workload,
    pub(crate) threads: usize,
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Measured operations a thread, a multiple of [`BURST`].
    pub(crate) ops: usize,
    /// Operations of each stream that earlier runs have used.
    pub(crate) offset: usize,
}

/// What one run took and found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) ops: u64,
    pub(crate) cpu_ns: f64,
    pub(crate) wall_ns: f64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) wrong: u64,
    pub(crate) evictions: Option<u64>,
}

impl Sample {
    /// Million operations a second of thread CPU time, all threads together.
    pub(crate) fn cpu_mops(&self, threads: usize) -> f64 {
        self.ops as f64 * threads as f64 * 1e3 / self.cpu_ns
    }

    /// Million operations a second of wall time.
    pub(crate) fn wall_mops(&self) -> f64 {
        self.ops as f64 * 1e3 / self.wall_ns
    }
}

/// What one thread found.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    gets: u64,
    hits: u64,
    wrong: u64,
}

/// One thread's timing.
struct Timing {
    tally: Tally,
    cpu: Duration,
    start: Instant,
    end: Instant,
}

/// Lead-in before the clock starts, as a divisor of the measured operations: it brings the
/// engine's code and hot records back into the processor's caches after another engine ran.
const LEAD_IN_DIVISOR: usize = 8;

/// Runs a cell. Every thread opens its own session, does the lead-in, waits for the others, and
/// is timed from there on.
pub(crate) fn run<const N: usize, E: Engine<N>>(
    engine: &E,
    load: &Load,
    fresh: &AtomicU32,
    cell: Cell,
    extent: Extent,
) -> Sample {
    let barrier = Barrier::new(cell.threads);
    let before = std::sync::Mutex::new(None);
    let timings: Vec<Timing> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cell.threads)
            .map(|thread| {
                let (barrier, before) = (&barrier, &before);
                scope.spawn(move || {
                    let mut thread = Thread::new(engine, load, fresh, cell.workload, thread);
                    let lead_in = Extent::stream_ops(extent.ops) - extent.ops;
                    thread.work(extent.offset, lead_in);
                    if barrier.wait().is_leader() {
                        *before.lock().expect("not poisoned") = engine.evictions();
                    }
                    barrier.wait();
                    thread.timed(extent.offset + lead_in, extent.ops)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
    });
    let before = before.into_inner().expect("not poisoned");
    let mut sample = Sample {
        evictions: engine.evictions().zip(before).map(|(after, before)| after - before),
        ..Sample::default()
    };
    let start = timings.iter().map(|timing| timing.start).min().expect("at least one thread");
    let end = timings.iter().map(|timing| timing.end).max().expect("at least one thread");
    sample.wall_ns = (end - start).as_nanos() as f64;
    for timing in timings {
        sample.ops += extent.ops as u64;
        sample.cpu_ns += timing.cpu.as_nanos() as f64;
        sample.gets += timing.tally.gets;
        sample.hits += timing.tally.hits;
        sample.wrong += timing.tally.wrong;
    }
    sample
}

/// Fills an engine and lets its replacement policy settle: first `filling`, then the load's
/// warming. Returns the share of the last puts whose key was absent.
pub(crate) fn prepare<const N: usize, E: Engine<N>>(
    engine: &E,
    load: &Load,
    filling: &[&[u32]],
) -> f64 {
    let (mut session, mut out) = (engine.session(), ValueBuffer::new());
    for burst in filling.iter().flat_map(|ranks| ranks.chunks(BURST)) {
        for &rank in burst {
            session.put(&Key::of(rank), load.names.value(Op::put(rank)));
        }
        session.burst_end();
    }
    let probed_from = load.warming.len() - load.warming.len() / 10;
    let (mut puts, mut absent) = (0u64, 0u64);
    for (at, &op) in load.warming.iter().enumerate() {
        let key = Key::of(op.rank());
        if at >= probed_from && op.is_put() {
            puts += 1;
            absent += u64::from(!session.get(&key, &mut out));
        }
        if op.is_put() {
            session.put(&key, load.names.value(op));
        } else {
            session.get(&key, &mut out);
        }
        if at.is_multiple_of(BURST) {
            session.burst_end();
        }
    }
    absent as f64 / puts.max(1) as f64
}

/// The keys of a burst, in memory before its first operation begins, as what a server has received
/// is. A key made just before its operation would be read by wider loads than it was stored by, and
/// wait for all that came before it; an engine that is inlined would have it in registers instead.
#[inline(always)]
fn received<const N: usize>(rank: impl Fn(usize) -> u32) -> [Key<N>; BURST] {
    std::hint::black_box(std::array::from_fn(|at| Key::of(rank(at))))
}

/// One thread of a run.
struct Thread<'r, const N: usize, S> {
    session: S,
    out: ValueBuffer,
    names: &'r Names,
    stream: &'r [Op],
    fresh: &'r AtomicU32,
    workload: Workload,
}

impl<'r, const N: usize, S: Session<N>> Thread<'r, N, S> {
    fn new<E: Engine<N, Session<'r> = S>>(
        engine: &'r E,
        load: &'r Load,
        fresh: &'r AtomicU32,
        workload: Workload,
        thread: usize,
    ) -> Self {
        let stream = match workload.inserts() {
            true => &[],
            false => load.stream(workload.put_percent(), thread),
        };
        let (session, out) = (engine.session(), ValueBuffer::new());
        Self { session, out, names: &load.names, stream, fresh, workload }
    }

    fn timed(&mut self, offset: usize, ops: usize) -> Timing {
        let (cpu, start) = (cpu_time(), Instant::now());
        let tally = self.work(offset, ops);
        Timing { tally, cpu: cpu_time() - cpu, start, end: Instant::now() }
    }

    fn work(&mut self, offset: usize, ops: usize) -> Tally {
        let mut tally = Tally::default();
        if self.workload.inserts() {
            let first = self.fresh.fetch_add(ops as u32, Ordering::Relaxed);
            assert!(first <= RANKS_MAX - ops as u32, "all fresh keys are used up");
            match self.workload {
                Workload::Insert32 => self.insert_batches(first, ops),
                _ => self.insert(first, ops),
            }
            return tally;
        }
        let mut at = offset % self.stream.len();
        let mut left = ops;
        while left > 0 {
            let part = left.min(self.stream.len() - at);
            let stream: &'r [Op] = self.stream;
            let part_tally = match self.workload {
                Workload::Batch32 => self.get_batches(&stream[at..at + part]),
                _ => self.mixed(&stream[at..at + part]),
            };
            tally.gets += part_tally.gets;
            tally.hits += part_tally.hits;
            tally.wrong += part_tally.wrong;
            (at, left) = (0, left - part);
        }
        tally
    }

    #[inline(never)]
    fn mixed(&mut self, ops: &[Op]) -> Tally {
        let mut tally = Tally::default();
        for burst in ops.as_chunks::<BURST>().0 {
            let keys = received(|at| burst[at].rank());
            for (key, &op) in keys.iter().zip(burst) {
                if op.is_put() {
                    self.session.put(key, self.names.value(op));
                } else {
                    tally.gets += 1;
                    if self.session.get(key, &mut self.out) {
                        tally.hits += 1;
                        tally.wrong += self.names.mismatch(op, &self.out);
                    }
                }
            }
            self.session.burst_end();
        }
        tally
    }

    #[inline(never)]
    fn get_batches(&mut self, ops: &[Op]) -> Tally {
        let mut tally = Tally { gets: ops.len() as u64, ..Tally::default() };
        let names = self.names;
        for burst in ops.as_chunks::<BURST>().0 {
            let keys = received(|at| burst[at].rank());
            self.session.get_batch(&keys, &mut self.out, |at, hit, out| {
                if hit {
                    tally.hits += 1;
                    tally.wrong += names.mismatch(burst[at], out);
                }
            });
            self.session.burst_end();
        }
        tally
    }

    #[inline(never)]
    fn insert(&mut self, first: u32, ops: usize) {
        for burst in 0..ops / BURST {
            let rank = |at: usize| first + (burst * BURST + at) as u32;
            for (at, key) in received::<N>(rank).iter().enumerate() {
                self.session.put(key, self.names.value(Op::put(rank(at))));
            }
            self.session.burst_end();
        }
    }

    #[inline(never)]
    fn insert_batches(&mut self, first: u32, ops: usize) {
        for burst in 0..ops / BURST {
            let rank = |at: usize| first + (burst * BURST + at) as u32;
            let keys = received(rank);
            let values: [&[u8]; BURST] =
                std::array::from_fn(|at| self.names.value(Op::put(rank(at))));
            self.session.put_batch(&keys, &values);
            self.session.burst_end();
        }
    }
}

/// Processor time of the calling thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
