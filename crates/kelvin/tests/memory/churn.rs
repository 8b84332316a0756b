//! Values of other sizes every few seconds, over and over.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    client::Client,
    harness::{
        rng::Rng,
        server::{Io, Server},
    },
};

const MIB: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 256 * MIB;
/// What a process may take beyond its budget: code, stacks, the allocator's own.
const BEYOND_BYTES: u64 = 32 * MIB;
const CONNECTIONS: usize = 100;
const CLIENT_THREADS: usize = 4;

/// What is stored for a while.
#[derive(Clone, Copy)]
struct Phase {
    name: &'static str,
    /// Sizes: uniform between these.
    bytes: (usize, usize),
    /// The part of the budget that is keys and values at its end, at least.
    live_percent: u64,
}

/// Of a value of a hundred bytes a third more is needed for what belongs to it.
const PHASES: [Phase; 6] = [
    Phase { name: "hundred", bytes: (50, 150), live_percent: 65 },
    Phase { name: "thousand", bytes: (100, 1900), live_percent: LIVE_PERCENT },
    Phase { name: "both", bytes: (1, 8000), live_percent: LIVE_PERCENT },
    Phase { name: "large", bytes: (1000, 399_000), live_percent: LIVE_PERCENT },
    Phase { name: "page", bytes: (4000, 5000), live_percent: LIVE_PERCENT },
    Phase { name: "again", bytes: (100, 1900), live_percent: LIVE_PERCENT },
];

/// The part of the budget that is keys and values when values have a kilobyte and more.
const LIVE_PERCENT: u64 = 85;

/// Bytes stored in a phase, in budgets: fewer of small values, which take longest and need least.
const TURNOVERS: [u64; PHASES.len()] = [3, 10, 10, 10, 10, 10];

impl Phase {
    fn mean_bytes(&self) -> u64 {
        (self.bytes.0 + self.bytes.1) as u64 / 2
    }

    /// Twice as many as fit.
    fn keys(&self) -> usize {
        (2 * MEMORY_BYTES / (self.mean_bytes() + 50)) as usize
    }

    fn key(&self, number: usize) -> String {
        format!("{}:{number}", self.name)
    }
}

/// Ends the observation whatever happens: a failure must not wait for it.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Says of a phase, by its number, after a time and so many bytes stored, whether it has ended.
type Ends = fn(usize, Duration, u64) -> bool;

fn churn(ends: Ends) {
    let arguments = ["--net-threads", "2", "--max-connections", "128"];
    let server = Server::kelvin_with_memory(Io::Uring, "256MiB", &arguments);
    let (stop, peak_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                peak_bytes.fetch_max(server.resident_bytes(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let _stop = StopOnDrop(&stop);
        let mut observer = Client::new(&server);
        for (number, phase) in PHASES.iter().enumerate() {
            run(&server, phase, |elapsed, stored| ends(number, elapsed, stored));
            let holds = |phase: &Phase| {
                let phase = *phase;
                observer.holds((0..phase.keys()).map(move |number| phase.key(number))).0
            };
            let live_bytes: u64 = PHASES[..=number].iter().map(holds).sum();
            let percent = live_bytes * 100 / MEMORY_BYTES;
            let share = live_bytes as f64 / MEMORY_BYTES as f64;
            println!("{}: {share:.4} of the memory is keys and values", phase.name);
            for name in [
                "curr_items",
                "bytes",
                "index_bytes",
                "ghost_bytes",
                "table_bytes",
                "arena_bytes",
                "arena_used_bytes",
                "evictions",
            ] {
                print!(" {name} {}", observer.stat(name));
            }
            println!();
            assert!(percent >= phase.live_percent, "{}: {percent} %", phase.name);
        }
    });
    let peak_bytes = peak_bytes.into_inner();
    println!("at most {} MiB resident", peak_bytes / MIB);
    assert!(peak_bytes <= MEMORY_BYTES + BEYOND_BYTES, "{} MiB", peak_bytes / MIB);
}

/// Stores at random until the phase ends, over all connections.
fn run(server: &Server, phase: &Phase, ends: impl Fn(Duration, u64) -> bool + Sync) {
    let (start, stored_bytes) = (Instant::now(), AtomicU64::new(0));
    let (ends, stored_bytes) = (&ends, &stored_bytes);
    thread::scope(|scope| {
        for seed in 0..CLIENT_THREADS {
            scope.spawn(move || {
                let mut rng = Rng::new(seed as u64 + 1);
                let value = vec![b'v'; phase.bytes.1];
                let mut clients: Vec<Client> =
                    (0..CONNECTIONS / CLIENT_THREADS).map(|_| Client::new(server)).collect();
                while !ends(start.elapsed(), stored_bytes.load(Ordering::Relaxed)) {
                    for client in &mut clients {
                        for _ in 0..64 {
                            let key = phase.key(rng.below(phase.keys()));
                            let len = phase.bytes.0 + rng.below(phase.bytes.1 - phase.bytes.0);
                            client.set(&key, 0, &value[..len]);
                            stored_bytes.fetch_add(len as u64, Ordering::Relaxed);
                        }
                        client.finish();
                    }
                }
            });
        }
    });
}

#[test]
fn memory_stays_within_its_limit_and_full_of_values_while_sizes_change() {
    churn(|phase, _, stored_bytes| stored_bytes >= TURNOVERS[phase] * MEMORY_BYTES);
}

#[test]
#[ignore = "soak: ten minutes"]
fn soak_memory_stays_within_its_limit_and_full_of_values_while_sizes_change() {
    churn(|_, elapsed, _| elapsed >= Duration::from_secs(100));
}
