//! The everyday benchmark of sessions: a command, bytes to bytes, without sockets.
//!
//! ```text
//! cargo bench -p server --bench session                     nanoseconds, best of several rounds
//! cargo bench -p server --bench session -- mg               only what has "mg" in its name
//! cargo bench -p server --bench session -- --instructions   counted by callgrind (valgrind)
//! ```
//!
//! A column is a number of clients and of commands that each of them sends at a time; all are
//! served as the burst of one turn. Keys have 12 bytes, values 32, or 1024 where the name says 1k.
//! Records stay in the core's cache, so that what is measured is the way there and back, but for
//! those that are "far", of which there are more than a core's cache holds. Times vary with what
//! else the machine does; instruction counts of two commits can be compared exactly.

#![forbid(unsafe_code)]

use std::{fmt::Write, process::Command, sync::Arc, time::Instant};

use base::clock::Clock;
use cache::{Cache, CacheConfig};
use reactor::{Connection, Next, Pool};
use server::{
    memcached::{Context, Control, LargeValue, Session, serve_all},
    stats::{ServerStats, Settings},
};

/// Rounds of each command and shape.
const ROUNDS: usize = 10;

/// Commands of a round: 0.1 s.
const COMMANDS: usize = 327_680;

/// Commands that are counted: callgrind is 50 times slower.
const COUNTED_COMMANDS: usize = 10_240;

/// Records, few enough for the core's cache.
const RECORDS: usize = 1_000;

/// Bytes of records that are not.
const FAR_BYTES: usize = 150_000_000;

/// Bytes of a record beside its value, about.
const RECORD_BYTES: usize = 68;

/// Clients, and commands that each sends at a time.
const SHAPES: [(usize, usize); 4] = [(1, 1), (64, 1), (1, 16), (16, 16)];

/// Different turns of a round.
const TURNS: usize = 64;

/// Different turns when no record is to be near: each key comes once in a round.
const FAR_TURNS: usize = 1024;

/// The seed of the key hash: layouts, and so instruction counts, are the same in every run.
const HASH_SEED: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C834;

const NAMES: [&str; 10] = [
    "get",
    "get many",
    "mg v",
    "set",
    "set noreply",
    "ms",
    "get far",
    "get 1k",
    "set 1k",
    "get 1k far",
];

fn is_far(name: &str) -> bool {
    name.ends_with(" far")
}

fn value_bytes(name: &str) -> usize {
    if name.contains("1k") { 1024 } else { 32 }
}

fn records(name: &str) -> usize {
    if is_far(name) { FAR_BYTES / (RECORD_BYTES + value_bytes(name)) } else { RECORDS }
}

struct Deaf;

impl Control for Deaf {
    fn shutdown(&self, _graceful: bool) {}
}

/// As a loop has it.
type Client = Box<Connection<Session, LargeValue>>;

/// What each client sends in a turn.
type Turn = Vec<String>;

struct Bench {
    context: Context,
    pool: Pool,
    clients: Vec<Client>,
    is_answered: bool,
}

impl Bench {
    fn new(name: &str) -> Self {
        let clock = Clock::system();
        let config = CacheConfig { hash_seed: HASH_SEED, ..CacheConfig::new(256 << 20) };
        let cache = Cache::new(config, clock.clone()).expect("256 MiB");
        let stats = ServerStats::new(Settings::default(), clock);
        let worker = cache.worker().expect("a place for a thread");
        let context = Context::new(worker, &stats, Arc::new(Deaf));
        let pool = Pool::new(16 << 20);
        let clients = SHAPES.map(|(clients, _)| clients).into_iter().max().unwrap_or(1);
        let client = |_| {
            let session = Session::new(stats.open("peer".into(), "local".into()));
            Box::new(Connection::standalone(session, &pool))
        };
        let clients = (0..clients).map(client).collect();
        let is_answered = !name.ends_with(" noreply");
        let mut bench = Self { context, pool, clients, is_answered };
        let set = if value_bytes(name) > 32 { "set 1k" } else { "set" };
        for key in 0..records(name) {
            bench.run(&[batch(set, &[key])]);
        }
        bench
    }

    /// Serves one turn and returns the bytes of its replies.
    fn run(&mut self, turn: &[String]) -> usize {
        let burst = &mut self.clients[..turn.len()];
        for (client, bytes) in burst.iter_mut().zip(turn) {
            let mut bytes = bytes.as_bytes();
            while !bytes.is_empty() {
                let fed = client.input.feed(bytes, &self.pool);
                bytes = &bytes[fed..];
            }
        }
        let now_ms = self.context.worker().cache().clock().now_ms();
        serve_all(&mut self.context, burst, now_ms);
        let mut replied = 0;
        for client in burst {
            assert_eq!(client.next, Next::Read, "a turn is served at once");
            let mut chain = client.output.launch();
            replied += chain.len();
            chain.advance(chain.len());
            client.output.landed(chain);
        }
        replied
    }

    fn run_checked(&mut self, turn: &[String]) {
        let replied = self.run(turn);
        assert_eq!(replied > 0, self.is_answered, "{replied} bytes of replies");
    }

    #[inline(never)]
    fn counted_part(&mut self, turns: &[Turn], commands: usize) {
        let per_turn = commands_of(&turns[0]);
        for turn in turns.iter().cycle().take(commands / per_turn) {
            self.run_checked(turn);
        }
    }
}

fn batch(name: &str, keys: &[usize]) -> String {
    let mut text = String::new();
    for (place, key) in keys.iter().enumerate() {
        match name {
            "get" | "get far" | "get 1k" | "get 1k far" => write!(text, "get key:{key:08}\r\n"),
            "mg v" => write!(text, "mg key:{key:08} v\r\n"),
            "set" => write!(text, "set key:{key:08} 0 0 32\r\n{key:032}\r\n"),
            "set noreply" => write!(text, "set key:{key:08} 0 0 32 noreply\r\n{key:032}\r\n"),
            "set 1k" => {
                write!(text, "set key:{key:08} 0 0 1024\r\n{key:01024}\r\n")
            }
            "ms" => write!(text, "ms key:{key:08} 32\r\n{key:032}\r\n"),
            _ => write!(text, "{} key:{key:08}", if place == 0 { "get" } else { "" }),
        }
        .expect("invariant: a string takes all text");
    }
    if name == "get many" {
        text += "\r\n";
    }
    text
}

fn commands_of(turn: &Turn) -> usize {
    turn.iter().map(|batch| batch.matches("key:").count()).sum()
}

/// Turns of keys without a pattern that the core could learn.
fn turns(name: &str, (clients, depth): (usize, usize)) -> Vec<Turn> {
    let (records, turns) = (records(name), if is_far(name) { FAR_TURNS } else { TURNS });
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % records as u64) as usize
    };
    let mut keys = |_| batch(name, &(0..depth).map(|_| next()).collect::<Vec<_>>());
    (0..turns).map(|_| (0..clients).map(&mut keys).collect()).collect()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--counted") {
        return counted_child(&args[at + 1], args[at + 2].parse().expect("a number of a shape"));
    }
    let filter = args.iter().find(|arg| !arg.starts_with('-')).map_or("", String::as_str);
    let count = args.iter().any(|arg| arg == "--instructions");
    // Far records take longer to get, and no other instructions.
    let is_wanted = |name: &&str| name.contains(filter) && !(count && is_far(name));
    let names = NAMES.into_iter().filter(is_wanted);
    let unit = if count { "instructions" } else { "ns" };
    let shapes = SHAPES.map(|(clients, depth)| format!("{:>9}", format!("{clients}x{depth}")));
    println!("{:<10}{}  {unit} a command", "", shapes.concat());
    for name in names {
        let figures = if count { count_instructions(name) } else { time(name) };
        println!("{name:<10}{}", figures.map(|figure| format!("{figure:>9.0}")).concat());
    }
}

fn time(name: &str) -> [f64; SHAPES.len()] {
    let mut bench = Bench::new(name);
    let turns = SHAPES.map(|shape| turns(name, shape));
    let mut best = [f64::INFINITY; SHAPES.len()];
    for _ in 0..ROUNDS {
        for (turns, best) in turns.iter().zip(&mut best) {
            let start = Instant::now();
            bench.counted_part(turns, COMMANDS);
            *best = best.min(start.elapsed().as_nanos() as f64 / COMMANDS as f64);
        }
    }
    best
}

/// Runs each shape under callgrind, in a process of its own, counting only its measured part.
fn count_instructions(name: &str) -> [f64; SHAPES.len()] {
    let directory = env!("CARGO_TARGET_TMPDIR");
    let mut shape = 0;
    SHAPES.map(|(clients, depth)| {
        let file = format!("{directory}/callgrind.{name}.{clients}x{depth}.out");
        let out = Command::new("valgrind")
            .args(["--tool=callgrind", "--collect-atstart=no", "--dump-instr=yes"])
            .arg("--toggle-collect=*counted_part*")
            .arg(format!("--callgrind-out-file={file}"))
            .arg(std::env::current_exe().expect("this program has a path"))
            .args(["--counted", name, &shape.to_string()])
            .output()
            .expect("valgrind is installed");
        shape += 1;
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{text}");
        let line = text.lines().find_map(|line| line.split("Collected : ").nth(1));
        let count: f64 = line.and_then(|n| n.trim().parse().ok()).expect("callgrind's count");
        count / COUNTED_COMMANDS as f64
    })
}

fn counted_child(name: &str, shape: usize) {
    let mut bench = Bench::new(name);
    let turns = turns(name, SHAPES[shape]);
    // Once uncounted, so that what is counted is the steady state.
    turns.iter().for_each(|turn| bench.run_checked(turn));
    bench.counted_part(&turns, COUNTED_COMMANDS);
}
