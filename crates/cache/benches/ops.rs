//! The everyday benchmark of the cache: nanoseconds, or instructions, an operation.
//!
//! ```text
//! cargo bench -p cache --bench ops                     best and median of interleaved rounds
//! cargo bench -p cache --bench ops -- get              only phases with "get" in their name
//! cargo bench -p cache --bench ops -- --instructions   counted by callgrind (valgrind), not timed
//! ```
//!
//! Times vary with what else the machine does; instruction counts of two commits can be compared
//! exactly. The counts come from the same phases on a smaller cache. callgrind's files stay in the
//! directory that is printed, for `callgrind_annotate`. Rival engines are in `tools/peers`.

#![forbid(unsafe_code)]

use std::{process::Command, time::Instant};

use base::clock::Clock;
use cache::{Cache, CacheConfig, Get, Meta, Output, Put, Value, Worker};

/// Operations of a batch, and between two announcements of a quiescent point.
const BURST: usize = 32;

/// Interleaved rounds. At about 200 ns an operation the whole run takes 3 seconds.
const ROUNDS: usize = 9;

/// The seed of the key hash: layouts, and so instruction counts, are the same in every run.
const HASH_SEED: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C834;

/// How large the caches are and how much is done in a round.
#[derive(Clone, Copy)]
struct Scale {
    memory_bytes: u64,
    ops: usize,
}

/// Records of about 70 bytes: far more than the processor's caches hold.
const TIMED: Scale = Scale { memory_bytes: 128 << 20, ops: 204_800 };

/// Small, because callgrind is 50 times slower.
const COUNTED: Scale = Scale { memory_bytes: 16 << 20, ops: 25_600 };

/// The cache for hits holds this much of its memory in records, so that none is evicted.
const BYTES_PER_RECORD_MAX: u64 = 128;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Keys only: what the others pay for the loop.
    Nothing,
    GetHit,
    GetMiss,
    GetBatch,
    /// A put of the value that is there.
    SetEqual,
    /// A put of another value of the same length.
    SetChanged,
    /// A put of a new key on a full cache.
    SetFresh,
    SetFreshBatch,
}

impl Phase {
    const ALL: [Self; 8] = [
        Self::Nothing,
        Self::GetHit,
        Self::GetMiss,
        Self::GetBatch,
        Self::SetEqual,
        Self::SetChanged,
        Self::SetFresh,
        Self::SetFreshBatch,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::GetHit => "get-hit",
            Self::GetMiss => "get-miss",
            Self::GetBatch => "get-batch",
            Self::SetEqual => "set-equal",
            Self::SetChanged => "set-changed",
            Self::SetFresh => "set-fresh",
            Self::SetFreshBatch => "set-fresh-batch",
        }
    }

    /// Works on the full cache.
    fn inserts(self) -> bool {
        matches!(self, Self::SetFresh | Self::SetFreshBatch)
    }
}

/// Keys have 16 bytes.
type KeyBytes = [u8; 16];

/// The key of a number.
fn key_bytes(number: u64) -> KeyBytes {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&mix(number).to_le_bytes());
    bytes
}

/// A bijection of 64 bits whose output looks random (the finaliser of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The value of a key: 8 to 23 bytes, the same number for every version.
fn value<'v>(key: &KeyBytes, version: u8, room: &'v mut [u8; 24]) -> &'v [u8] {
    room[..16].copy_from_slice(key);
    room[0] = version;
    &room[..8 + usize::from(key[8] & 15)]
}

/// A reply buffer that is neither allocated nor cleared.
struct Reply {
    len: usize,
    bytes: [u8; cache::INLINE_VALUE_MAX_BYTES],
}

impl Output for Reply {
    fn begin(&mut self, meta: &Meta) -> &mut [u8] {
        self.len = meta.value_len as usize;
        &mut self.bytes[..self.len.max(32)]
    }
}

/// Two caches, each filled when a phase needs it, and what runs on them.
struct Bench {
    scale: Scale,
    reply: Reply,
    /// Holds all of the numbers below `stored`.
    roomy: Worker,
    stored: u64,
    /// Is full; keys from `fresh` on were never seen.
    full: Worker,
    fresh: u64,
    seed: u64,
    keys: Vec<KeyBytes>,
}

impl Bench {
    fn new(scale: Scale, phases: &[Phase]) -> Self {
        let stored = scale.memory_bytes / BYTES_PER_RECORD_MAX;
        // At 40 bytes a record, more than any cache of this size holds.
        let fresh = scale.memory_bytes / 40;
        let (mut roomy, mut full) = (worker(scale.memory_bytes), worker(scale.memory_bytes));
        if !phases.iter().all(|phase| phase.inserts()) {
            fill(&mut roomy, 0..stored);
            assert_eq!(roomy.cache().stats().records, stored, "the roomy cache evicts");
        }
        if phases.iter().any(|phase| phase.inserts()) {
            fill(&mut full, 0..fresh);
        }
        let reply = Reply { len: 0, bytes: [0; cache::INLINE_VALUE_MAX_BYTES] };
        Self { scale, reply, roomy, stored, full, fresh, seed: 1, keys: Vec::new() }
    }

    /// Chooses the keys of a phase, so that the measured part does nothing but use them. Stored
    /// keys are drawn with a skew: half of all draws fall on a sixteenth of the keys. Only odd ones
    /// are ever changed.
    fn choose(&mut self, phase: Phase) {
        self.keys.clear();
        for at in 0..self.scale.ops as u64 {
            self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let unit = (mix(self.seed) >> 11) as f64 / (1u64 << 53) as f64;
            let number = match phase {
                _ if phase.inserts() => self.fresh + at,
                Phase::GetMiss => u64::MAX - mix(self.seed) % self.stored,
                _ => {
                    let half = (self.stored / 2) as f64 * unit.powi(4);
                    half as u64 * 2 + u64::from(phase == Phase::SetChanged)
                }
            };
            self.keys.push(key_bytes(number));
        }
        if phase.inserts() {
            self.fresh += self.scale.ops as u64;
        }
    }

    /// The part that is counted: callgrind knows it by its name.
    #[inline(never)]
    fn counted_part(&mut self, phase: Phase) {
        self.run(phase);
    }

    fn run(&mut self, phase: Phase) {
        let hits = match phase {
            Phase::Nothing => self.nothing(),
            Phase::GetHit | Phase::GetMiss => self.get(),
            Phase::GetBatch => self.get_batch(),
            Phase::SetEqual => self.set(false),
            Phase::SetChanged => self.set(true),
            Phase::SetFresh => self.set_fresh(),
            Phase::SetFreshBatch => self.set_fresh_batch(),
        };
        let expected = match phase {
            Phase::GetHit | Phase::GetBatch => self.scale.ops,
            _ => 0,
        };
        assert_eq!(hits, expected, "hits of {}", phase.name());
    }

    fn nothing(&mut self) -> usize {
        for key in &self.keys {
            std::hint::black_box(key);
        }
        0
    }

    fn get(&mut self) -> usize {
        let mut hits = 0;
        for burst in self.keys.chunks(BURST) {
            for key in burst {
                let key = self.roomy.key(key);
                hits += usize::from(matches!(self.roomy.get(key, &mut self.reply), Get::Hit(_)));
            }
            self.roomy.quiesce();
        }
        hits
    }

    fn get_batch(&mut self) -> usize {
        let mut hits = 0;
        for burst in self.keys.as_chunks::<BURST>().0 {
            for key in prefetch(&self.roomy, burst, false) {
                hits += usize::from(matches!(self.roomy.get(key, &mut self.reply), Get::Hit(_)));
            }
            self.roomy.quiesce();
        }
        hits
    }

    fn set(&mut self, changed: bool) -> usize {
        let mut room = [0; 24];
        for (version, burst) in self.keys.chunks(BURST).enumerate() {
            for key in burst {
                let version = if changed { version as u8 } else { 0 };
                let value = value(key, version, &mut room);
                set(&mut self.roomy, key, value);
            }
            self.roomy.quiesce();
        }
        0
    }

    fn set_fresh(&mut self) -> usize {
        let mut room = [0; 24];
        for burst in self.keys.chunks(BURST) {
            for key in burst {
                let value = value(key, 0, &mut room);
                set(&mut self.full, key, value);
            }
            self.full.quiesce();
        }
        0
    }

    fn set_fresh_batch(&mut self) -> usize {
        let mut room = [0; 24];
        for burst in self.keys.as_chunks::<BURST>().0 {
            for key in prefetch(&self.full, burst, true) {
                let bytes = key.bytes().try_into().expect("keys have 16 bytes");
                let put = Put::new(Value::Bytes(value(bytes, 0, &mut room)));
                self.full.set(key, &put).expect("a small value is always stored");
            }
            self.full.quiesce();
        }
        0
    }
}

/// Hashes a burst and runs both prefetch passes.
#[inline(always)]
fn prefetch<'k>(
    worker: &Worker,
    burst: &'k [KeyBytes; BURST],
    stores: bool,
) -> [cache::Key<'k>; BURST] {
    let keys = burst.each_ref().map(|bytes| worker.key(bytes));
    for key in &keys {
        worker.prefetch_index(key);
        if stores {
            worker.prefetch_ghosts(key);
        }
    }
    for key in &keys {
        worker.prefetch_record(key);
    }
    keys
}

fn worker(memory_bytes: u64) -> Worker {
    let mut config = CacheConfig::new(memory_bytes);
    config.hash_seed = HASH_SEED;
    let cache = Cache::new(config, Clock::system()).expect("a cache of this size can be built");
    cache.worker().expect("a place for the thread")
}

fn set(worker: &mut Worker, key: &KeyBytes, value: &[u8]) {
    let key = worker.key(key);
    worker.set(key, &Put::new(Value::Bytes(value))).expect("a small value is always stored");
}

fn fill(worker: &mut Worker, numbers: std::ops::Range<u64>) {
    let mut room = [0; 24];
    for number in numbers {
        let key = key_bytes(number);
        set(worker, &key, value(&key, 0, &mut room));
        if number.is_multiple_of(BURST as u64) {
            worker.quiesce();
        }
    }
}

fn main() {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [flag, name] = &args[..]
        && flag == "--counted-phase"
    {
        return counted_child(name);
    }
    let count = args.iter().any(|arg| arg == "--instructions");
    let filter = args.iter().find(|arg| !arg.starts_with("--")).map_or("", String::as_str);
    let phases: Vec<Phase> =
        Phase::ALL.into_iter().filter(|phase| phase.name().contains(filter)).collect();
    if count { count_instructions(&phases) } else { time(&phases) }
}

fn time(phases: &[Phase]) {
    let mut bench = Bench::new(TIMED, phases);
    let mut samples = vec![Vec::with_capacity(ROUNDS); phases.len()];
    for _ in 0..ROUNDS {
        for (&phase, samples) in phases.iter().zip(&mut samples) {
            bench.choose(phase);
            let start = Instant::now();
            bench.run(phase);
            samples.push(start.elapsed().as_nanos() as f64 / bench.scale.ops as f64);
        }
    }
    println!("{:<16}{:>10}{:>10}  ns an operation", "phase", "best", "median");
    for (phase, samples) in phases.iter().zip(&mut samples) {
        samples.sort_by(f64::total_cmp);
        println!("{:<16}{:>10.1}{:>10.1}", phase.name(), samples[0], samples[ROUNDS / 2]);
    }
}

/// Runs each phase once under callgrind, in a process of its own, counting only its measured part.
fn count_instructions(phases: &[Phase]) {
    let directory = env!("CARGO_TARGET_TMPDIR");
    println!("{:<16}{:>10}  instructions an operation; files in {directory}", "phase", "count");
    for phase in phases {
        let file = format!("{directory}/callgrind.{}.out", phase.name());
        let out = Command::new("valgrind")
            .args(["--tool=callgrind", "--collect-atstart=no", "--dump-instr=yes"])
            .arg("--toggle-collect=*counted_part*")
            .arg(format!("--callgrind-out-file={file}"))
            .arg(std::env::current_exe().expect("this program has a path"))
            .args(["--counted-phase", phase.name()])
            .output()
            .expect("valgrind is installed");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{text}");
        let line = text.lines().find_map(|line| line.split("Collected : ").nth(1));
        let count: f64 = line.and_then(|n| n.trim().parse().ok()).expect("callgrind's count");
        println!("{:<16}{:>10.1}", phase.name(), count / COUNTED.ops as f64);
    }
}

fn counted_child(name: &str) {
    let phase = Phase::ALL.into_iter().find(|phase| phase.name() == name).expect("a phase");
    let mut bench = Bench::new(COUNTED, &[phase]);
    // Once uncounted, so that what is counted is the steady state.
    bench.choose(phase);
    bench.run(phase);
    bench.choose(phase);
    bench.counted_part(phase);
}
