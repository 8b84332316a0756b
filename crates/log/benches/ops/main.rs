//! The everyday benchmark of the log: what a put and a get cost.
//!
//! ```text
//! cargo bench -p kelvin-log --bench ops                     on files: best and median of rounds
//! cargo bench -p kelvin-log --bench ops -- safe             only phases with "safe" in their name
//! cargo bench -p kelvin-log --bench ops -- --instructions   counted by callgrind, not timed
//! ```
//!
//! What is timed is a log on files, the final flush inside the time; the files are in the directory
//! that `KELVIN_BENCH_DIRECTORY` names, or in cargo's. The device decides much of it. What is
//! counted is an engine over a disk in memory, with everything that it does for a record: entry,
//! record, padding, footer. Counts of two commits can be compared exactly. callgrind's files stay
//! in the directory that is printed, for `callgrind_annotate`.

#![forbid(unsafe_code)]

mod counted;
mod memory;
mod timed;

use log::{
    blocking::Options,
    engine::{Mode, Put},
    format::manifest::IndexKind,
    index::IndexLimits,
};

/// The seeds of the hash of keys: layouts, and so instruction counts, are the same in every run.
const HASH_SEEDS: [u8; 128] = {
    let mut seeds = [0; 128];
    let mut at = 0;
    while at < seeds.len() {
        seeds[at] = (at * 37 + 11) as u8;
        at += 1;
    }
    seeds
};

/// Values are stretches of so many random bytes, and begin in the first few, which the processor's
/// cache holds: what fetching a value costs is the caller's matter.
const POOL_BYTES: usize = 1 << 18;
const STARTS: usize = 1 << 14;

/// Which index a log has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Table {
    /// Keys are integers: a flat index with entries of five bytes.
    Flat,
    /// Keys are strings of 16 bytes.
    Hash,
}

impl Table {
    /// How a log of so many keys is opened.
    fn options(self, directory: &str, keys: u64, mode: Mode) -> (Options, IndexLimits) {
        let (index, entry_bytes) = match self {
            Self::Flat => (IndexKind::Flat { kmin: 0, kmax: keys }, 5),
            Self::Hash => (IndexKind::Hash { seeds: HASH_SEEDS }, 0),
        };
        let mut options = Options::new(directory, index, entry_bytes);
        options.settings.mode = mode;
        (options, IndexLimits { kmax_limit: keys, entries_max: keys })
    }

    /// The key of a number.
    fn key(self, number: u64, room: &mut [u8; 16]) -> &[u8] {
        room[..8].copy_from_slice(&number.to_le_bytes());
        room[8..].copy_from_slice(&mix(number).to_le_bytes());
        match self {
            Self::Flat => &room[..8],
            Self::Hash => &room[..],
        }
    }
}

/// Random bytes, of which each key has a stretch for its value.
struct Pool(Vec<u8>);

impl Pool {
    fn new() -> Self {
        Self((0..POOL_BYTES as u64 / 8).flat_map(|at| mix(at).to_le_bytes()).collect())
    }

    fn value(&self, number: u64, bytes: usize) -> &[u8] {
        let from = mix(!number) as usize % STARTS;
        &self.0[from..from + bytes]
    }
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Put<'a> {
    Put { key, value, ..Put::default() }
}

/// A bijection of 64 bits whose output looks random (the finaliser of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The number at a place of a walk that meets each number below `count`, a power of two, once and
/// in no order that a cache could use.
fn shuffled(place: u64, count: u64) -> u64 {
    // An odd factor permutes the numbers, and so does a shift of the high bits into the low ones.
    let mask = count - 1;
    let half = count.ilog2() / 2;
    let x = place.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
    ((x ^ (x >> half)).wrapping_mul(0xBF58_476D_1CE4_E5B9)) & mask
}

fn main() {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [flag, name] = &args[..]
        && flag == "--counted-phase"
    {
        return counted::run_phase(name);
    }
    let filter = args.iter().find(|arg| !arg.starts_with("--")).map_or("", String::as_str);
    if args.iter().any(|arg| arg == "--instructions") {
        counted::count(filter);
    } else {
        timed::time(filter);
    }
}
