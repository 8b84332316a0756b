//! Kelvin and memcached, told the same random commands, must answer the same.
//!
//! Few keys, all flags, pipelines of up to 40 commands cut into packets at random, expiry with
//! rests in which both servers forget. CAS tokens are compared by relation: what is one token on
//! one server is one on the other; and a new one of kelvin's is greater than the key's older ones.
//! (memcached's need not be: behind a bad data chunk of `ms`, 1.6.45 uses a token drawn before.) A
//! difference is reported with its seed and the fewest commands that show it.

mod binary;
mod command;
mod generate;
#[path = "../harness/mod.rs"]
mod harness;
mod meta;
mod pair;
mod shrink;
mod text;
mod tokens;

use generate::Dialect;
use harness::server::{Io, Server};
use pair::{Pair, Tally};
use std::path::{Path, PathBuf};

/// Commands of a test run in all.
const COMMANDS: usize = 100_000;
/// Runs at the same time, each with a seed and servers of its own: most of their time is rest.
const RUNS: usize = 4;
/// Rounds with short times in a run: each takes a rest of 4.3 s.
const ROUNDS: usize = 8;
/// Of a hundred keys that are looked up, so many must be found.
const HITS_PERCENT_MIN: usize = 30;
/// Rounds that may be given up because the machine was too slow, of `RUNS * ROUNDS`.
const SLOW_ROUNDS_MAX: usize = 8;
/// memcached without its maintainer thread, which at times holds a record that arithmetic would
/// otherwise change in place.
const PEER_ARGUMENTS: [&str; 2] = ["-o", "no_lru_maintainer"];

/// The first seed: another one explores other runs.
fn first_seed() -> u64 {
    let text = std::env::var("KELVIN_SEED").unwrap_or_else(|_| "1".into());
    text.parse().expect("KELVIN_SEED is a number")
}

/// Debian's memcached, from the path.
fn installed_memcached() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join("memcached"))
        .find(|file| file.is_file())
        .expect("no memcached in PATH: `cargo xtask setup` installs it")
}

fn compare_with(peer: &Path, dialect: Dialect) {
    let runs: Vec<Tally> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..RUNS as u64)
            .map(|run| scope.spawn(move || one_run(peer, dialect, first_seed() + run)))
            .collect();
        let results = workers.into_iter().map(|w| w.join().expect("a run does not panic"));
        let (tallies, failures): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
        let failures: Vec<String> = failures.into_iter().filter_map(Result::err).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
        tallies.into_iter().filter_map(Result::ok).collect()
    });
    let sum = |of: fn(&Tally) -> usize| runs.iter().map(of).sum::<usize>();
    let (lookups, hits) = (sum(|t| t.lookups), sum(|t| t.hits));
    let slow = sum(|t| t.slow_rounds);
    assert!(slow <= SLOW_ROUNDS_MAX, "{slow} rounds were too slow to compare");
    assert!(sum(|t| t.commands) >= COMMANDS * 9 / 10, "only {} commands", sum(|t| t.commands));
    assert!(hits * 100 >= lookups * HITS_PERCENT_MIN, "{hits} hits of {lookups}");
}

fn one_run(peer: &Path, dialect: Dialect, seed: u64) -> Result<Tally, String> {
    let steps = generate::plan(seed, COMMANDS / RUNS, ROUNDS, dialect);
    // One driver after the other.
    let io = Io::BOTH[(seed % 2) as usize];
    let mut pair = Pair::new(Server::kelvin(io, &[]), Server::memcached(peer, &PEER_ARGUMENTS));
    match pair.run(&steps, 0) {
        (tally, None) => Ok(tally),
        (_, Some(mismatch)) => {
            let trace = shrink::smallest(&mut pair, &steps, mismatch);
            Err(format!("KELVIN_SEED={seed}: {trace}"))
        }
    }
}

#[test]
fn answers_like_the_installed_memcached() {
    compare_with(&installed_memcached(), Dialect::Common);
}

#[test]
#[ignore = "needs KELVIN_PEER_MEMCACHED, a memcached 1.6.45"]
fn answers_like_memcached_1_6_45() {
    compare_with(&harness::peer_1_6_45(), Dialect::Full);
}
