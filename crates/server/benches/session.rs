//! The everyday benchmark of a session: nanoseconds a command, bytes to bytes, no sockets.
//!
//! ```text
//! cargo bench -p server --bench session            1, 16 and 64 commands at a time
//! cargo bench -p server --bench session -- mg      only those with "mg" in their name
//! ```
//!
//! The best of interleaved rounds is shown, as times vary with what else the machine does. Keys
//! have 12 bytes, values 32, and all records stay in the core's cache: what is measured is the way
//! there and back.

#![forbid(unsafe_code)]

use std::{fmt::Write, sync::Arc, time::Instant};

use base::clock::Clock;
use cache::{Cache, CacheConfig};
use reactor::{Connection, Next, Pool};
use server::{
    memcached::{Context, Control, LargeValue, Session},
    stats::{ServerStats, Settings},
};

/// Rounds of each command and depth: with 15 of them of about 0.2 us the run takes 10 seconds.
const ROUNDS: usize = 10;

/// Commands of a round.
const COMMANDS: usize = 320_000;

/// Records, few enough for the core's cache.
const RECORDS: usize = 1_000;

/// Commands that a client sends at a time.
const DEPTHS: [usize; 3] = [1, 16, 64];

/// Different batches of a round.
const BATCHES: usize = 64;

const NAMES: [&str; 5] = ["get", "get many", "mg v", "set", "ms"];

struct Deaf;

impl Control for Deaf {
    fn shutdown(&self, _graceful: bool) {}
}

struct Bench {
    context: Context,
    pool: Pool,
    client: Connection<Session, LargeValue>,
}

impl Bench {
    fn new() -> Self {
        let clock = Clock::system();
        let cache = Cache::new(CacheConfig::new(64 << 20), clock.clone()).expect("64 MiB");
        let stats = ServerStats::new(Settings::default(), clock);
        let worker = cache.worker().expect("a place for a thread");
        let context = Context::new(worker, &stats, Arc::new(Deaf));
        let pool = Pool::new(16 << 20);
        let session = Session::new(stats.open("peer".into(), "local".into()));
        let client = Connection::standalone(session, &pool);
        let mut bench = Self { context, pool, client };
        for key in 0..RECORDS {
            bench.run(batch("set", &[key]).as_bytes());
        }
        bench
    }

    /// Serves one batch and returns the bytes of its replies.
    fn run(&mut self, mut bytes: &[u8]) -> usize {
        let mut replied = 0;
        while !bytes.is_empty() {
            let Connection { session, input, output, .. } = &mut self.client;
            let fed = input.feed(bytes, &self.pool);
            bytes = &bytes[fed..];
            loop {
                self.context.worker().quiesce();
                let next = session.serve(&mut self.context, input, output);
                let mut chain = output.launch();
                replied += chain.len();
                chain.advance(chain.len());
                output.landed(chain);
                if next == Next::Read {
                    break;
                }
            }
        }
        replied
    }
}

fn batch(name: &str, keys: &[usize]) -> String {
    let mut text = String::new();
    for (place, key) in keys.iter().enumerate() {
        match name {
            "get" => write!(text, "get key:{key:08}\r\n"),
            "mg v" => write!(text, "mg key:{key:08} v\r\n"),
            "set" => write!(text, "set key:{key:08} 0 0 32\r\n{key:032}\r\n"),
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

/// Batches of keys without a pattern that the core could learn.
fn batches(name: &str, depth: usize) -> Vec<String> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % RECORDS as u64) as usize
    };
    (0..BATCHES).map(|_| batch(name, &(0..depth).map(|_| next()).collect::<Vec<_>>())).collect()
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &&str| filter.as_deref().is_none_or(|filter| name.contains(filter));
    let mut bench = Bench::new();
    println!("{:<10}{:>8}{:>8}{:>8}  ns a command, at a depth of", "", 1, 16, 64);
    for name in NAMES.into_iter().filter(wanted) {
        let lines = DEPTHS.map(|depth| batches(name, depth));
        let mut best = [f64::INFINITY; DEPTHS.len()];
        for _ in 0..ROUNDS {
            for ((depth, lines), best) in DEPTHS.iter().zip(&lines).zip(&mut best) {
                let start = Instant::now();
                for round in 0..COMMANDS / depth {
                    assert!(bench.run(lines[round % BATCHES].as_bytes()) > 0);
                }
                *best = best.min(start.elapsed().as_nanos() as f64 / COMMANDS as f64);
            }
        }
        println!("{name:<10}{:>8.0}{:>8.0}{:>8.0}", best[0], best[1], best[2]);
    }
}
