//! Operations a second of a log on files, in interleaved rounds.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use log::{Log, engine::Mode, format::LogId, index::Keyed};

use super::{Pool, Table, mix, put, shuffled};

/// Interleaved rounds.
const ROUNDS: usize = 5;

/// How long something is done of which there is no end: a flush may take ten times as long as it
/// did a minute ago, so the time is short and there are rounds.
const WINDOW: Duration = Duration::from_secs(1);

/// Nanoseconds of a tick of `/proc/self/stat`: Linux shows 100 a second, whatever it counts in.
const TICK_NS: f64 = 1e7;

/// What is done.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    /// Puts of new keys into a new log, and the final flush.
    Fill,
    /// Puts that are flushed before they are answered.
    PutSafe,
    /// Gets from a log that is larger than its memory; with direct I/O each is a read.
    Get,
}

struct Phase {
    name: &'static str,
    table: Table,
    deed: Deed,
    value_bytes: usize,
    threads: u64,
}

const fn phase(
    name: &'static str,
    table: Table,
    deed: Deed,
    value_bytes: usize,
    threads: u64,
) -> Phase {
    Phase { name, table, deed, value_bytes, threads }
}

const PHASES: [Phase; 14] = [
    phase("fill-4b", Table::Flat, Deed::Fill, 4, 1),
    phase("fill-4b-by-4", Table::Flat, Deed::Fill, 4, 4),
    phase("fill-1k", Table::Flat, Deed::Fill, 1000, 1),
    phase("fill-1k-by-4", Table::Flat, Deed::Fill, 1000, 4),
    phase("fill-1k-hash", Table::Hash, Deed::Fill, 1000, 1),
    phase("fill-100k", Table::Flat, Deed::Fill, 100_000, 1),
    phase("fill-100k-by-4", Table::Flat, Deed::Fill, 100_000, 4),
    phase("safe-1k", Table::Flat, Deed::PutSafe, 1000, 1),
    phase("safe-1k-by-4", Table::Flat, Deed::PutSafe, 1000, 4),
    phase("safe-1k-by-16", Table::Flat, Deed::PutSafe, 1000, 16),
    phase("get-1k", Table::Flat, Deed::Get, 1000, 1),
    phase("get-1k-by-16", Table::Flat, Deed::Get, 1000, 16),
    phase("get-100k", Table::Flat, Deed::Get, 100_000, 1),
    phase("get-100k-by-4", Table::Flat, Deed::Get, 100_000, 4),
];

impl Phase {
    /// Keys of its log.
    fn keys(&self) -> u64 {
        match self.value_bytes {
            0..100 => 1 << 22,
            100..10_000 => 1 << 20,
            _ => 1 << 13,
        }
    }

    fn mode(&self) -> Mode {
        if self.deed == Deed::PutSafe { Mode::Safe } else { Mode::Async }
    }
}

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let above = std::env::var_os("KELVIN_BENCH_DIRECTORY")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        let path = above.join(format!("log-bench-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a new directory");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A log with what it takes to use it.
struct Bench {
    log: Log<Keyed>,
    pool: Pool,
    /// Last: it is removed when the log is stopped.
    _directory: Directory,
}

/// What a round of a phase came to.
struct Sample {
    ops_per_s: f64,
    cpu_us_per_op: f64,
    /// Records that a flush has made durable, on average.
    records_per_flush: f64,
    reads_per_op: f64,
}

impl Bench {
    fn new(phase: &Phase) -> Self {
        let directory = Directory::new(phase.name);
        let path = directory.0.to_str().expect("a name in UTF-8");
        let (options, limits) = phase.table.options(path, phase.keys(), phase.mode());
        let opened = Log::open(&options, LogId(7), limits, &mut |_| {});
        let log = opened.expect("a log").0;
        let bench = Self { log, pool: Pool::new(), _directory: directory };
        // Once the first segment has been made.
        bench.put(phase, 0);
        bench.log.flush().expect("a flush");
        bench
    }

    fn put(&self, phase: &Phase, number: u64) {
        let mut room = [0; 16];
        let key = phase.table.key(number, &mut room);
        let value = self.pool.value(number, phase.value_bytes);
        self.log.put(&put(key, value)).expect("room");
    }

    /// Puts every key, and flushes. Says how many operations that were.
    fn fill(&self, phase: &Phase) -> u64 {
        let (keys, threads) = (phase.keys(), phase.threads);
        thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    for at in (thread..keys).step_by(threads as usize) {
                        self.put(phase, shuffled(at, keys));
                    }
                });
            }
        });
        self.log.flush().expect("a flush");
        keys
    }

    /// Does `deed` in all threads until the time is over. Says how often.
    fn until_over(&self, phase: &Phase, deed: impl Fn(u64) + Sync) -> u64 {
        let (count, start, deed) = (AtomicU64::new(0), Instant::now(), &deed);
        thread::scope(|scope| {
            for thread in 0..phase.threads {
                let count = &count;
                scope.spawn(move || {
                    let mut done = 0;
                    while start.elapsed() < WINDOW {
                        deed(mix(thread << 32 | done) % phase.keys());
                        done += 1;
                    }
                    count.fetch_add(done, Ordering::Relaxed);
                });
            }
        });
        count.into_inner()
    }

    fn get(&self, phase: &Phase, number: u64) {
        let mut room = [0; 16];
        let key = phase.table.key(number, &mut room);
        let stored = self.log.get(key).expect("undamaged").expect("it was stored");
        assert!(stored.value == self.pool.value(number, phase.value_bytes), "another value");
    }

    fn run(&self, phase: &Phase) -> Sample {
        let (counts, reads, cpu_ns) = (self.log.counts(), self.log.disk_reads(), cpu_ns());
        let start = Instant::now();
        let ops = match phase.deed {
            Deed::Fill => self.fill(phase),
            Deed::PutSafe => self.until_over(phase, |number| self.put(phase, number)),
            Deed::Get => self.until_over(phase, |number| self.get(phase, number)),
        };
        let (ops, elapsed) = (ops as f64, start.elapsed());
        let after = self.log.counts();
        let records = (after.records - counts.records) as f64;
        Sample {
            ops_per_s: ops / elapsed.as_secs_f64(),
            cpu_us_per_op: (self::cpu_ns() - cpu_ns) / 1e3 / ops,
            records_per_flush: records / (after.flushes - counts.flushes).max(1) as f64,
            reads_per_op: (self.log.disk_reads() - reads) as f64 / ops,
        }
    }
}

/// Processor time of the process so far, user and system.
fn cpu_ns() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit(") ").next().expect("a name in parentheses").split(' ');
    let ticks = fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() * TICK_NS
}

/// Times each phase whose name has `filter` in it.
pub(super) fn time(filter: &str) {
    let phases: Vec<&Phase> = PHASES.iter().filter(|it| it.name.contains(filter)).collect();
    let mut samples: Vec<Vec<Sample>> = phases.iter().map(|_| Vec::new()).collect();
    let mut filled: Vec<(usize, Bench)> = Vec::new();
    for _ in 0..ROUNDS {
        for (phase, samples) in phases.iter().zip(&mut samples) {
            if phase.deed != Deed::Get {
                samples.push(Bench::new(phase).run(phase));
                continue;
            }
            // Filled once, for all phases with values of this size.
            let is_it = |(bytes, _): &(usize, Bench)| *bytes == phase.value_bytes;
            if !filled.iter().any(is_it) {
                let bench = Bench::new(phase);
                bench.fill(phase);
                filled.push((phase.value_bytes, bench));
            }
            let found = filled.iter().find(|it| is_it(it)).expect("it was filled");
            samples.push(found.1.run(phase));
        }
    }
    println!(
        "{:<16}{:>12}{:>12}{:>12}{:>14}{:>10}",
        "phase", "best ops/s", "median", "CPU us/op", "records/flush", "reads/op"
    );
    for (phase, samples) in phases.iter().zip(&mut samples) {
        samples.sort_by(|a, b| b.ops_per_s.total_cmp(&a.ops_per_s));
        let (best, median) = (&samples[0], &samples[ROUNDS / 2]);
        println!(
            "{:<16}{:>12.0}{:>12.0}{:>12.2}{:>14.1}{:>10.3}",
            phase.name,
            best.ops_per_s,
            median.ops_per_s,
            median.cpu_us_per_op,
            median.records_per_flush,
            median.reads_per_op
        );
    }
}
