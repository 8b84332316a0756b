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

use command::Step;
use generate::Dialect;
use harness::{
    log_directory::{Directory, stat},
    server::{Io, Server, Serving, Table},
};
use pair::{Chilled, Pair, Tally};
use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// How much of a test run there is.
#[derive(Clone, Copy)]
struct Extent {
    /// Commands in all.
    commands: usize,
    /// Runs at the same time, each with a seed and servers of its own: most of their time is rest.
    runs: usize,
    /// Rounds with short times in a run: each takes a rest of 4.3 s.
    rounds: usize,
}

const EXTENT: Extent = Extent { commands: 100_000, runs: 4, rounds: 8 };
/// One for each driver, of commands that wait for the disk. Memory is emptied some 15 times.
const EXTENT_ON_DISK: Extent = Extent { commands: 12_000, runs: 2, rounds: 0 };
/// Runs of a table that spills until one has lost nothing, or differs in nothing.
const ATTEMPTS: usize = 5;
/// Of a hundred keys that are looked up, so many must be found.
const HITS_PERCENT_MIN: usize = 30;
/// Rounds that may be given up because the machine was too slow, of all runs.
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

fn compare_with(peer: &Path, dialect: Dialect, table: Table) {
    let extent = if dialect == Dialect::OnDisk { EXTENT_ON_DISK } else { EXTENT };
    let runs: Vec<Tally> = thread::scope(|scope| {
        let workers: Vec<_> = (0..extent.runs as u64)
            .map(|run| {
                scope.spawn(move || {
                    one_run(peer, dialect, table, extent, first_seed() + run, ATTEMPTS)
                })
            })
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
    let least = extent.commands * 9 / 10;
    assert!(sum(|t| t.commands) >= least, "only {} commands", sum(|t| t.commands));
    assert!(hits * 100 >= lookups * HITS_PERCENT_MIN, "{hits} hits of {lookups}");
}

fn one_run(
    peer_path: &Path,
    dialect: Dialect,
    table: Table,
    extent: Extent,
    seed: u64,
    attempts: usize,
) -> Result<Tally, String> {
    let steps = generate::plan(seed, extent.commands / extent.runs, extent.rounds, dialect);
    // One driver after the other.
    let io = Io::BOTH[(seed % 2) as usize];
    let peer = Server::memcached(peer_path, &PEER_ARGUMENTS);
    match table {
        Table::Volatile => {
            compare(&mut Pair::new(Server::kelvin(io, &[]), peer, Chilled::Never), &steps, seed)
        }
        Table::Durable => {
            let directory = Directory::with_log();
            let start = move || directory.serve(io, &[]);
            compare(&mut Pair::new(start(), peer, Chilled::Killed(Box::new(start))), &steps, seed)
        }
        Table::Spill => {
            let kelvin = Server::kelvin(Serving::spilling(io), &[]);
            let mut pair = Pair::new(kelvin, peer, Chilled::CrowdedOut);
            let (tally, mismatch) = pair.run(&steps, 0);
            if mismatch.is_some() && attempts > 1 && has_lost(pair.kelvin()) {
                return one_run(peer_path, dialect, table, extent, seed, attempts - 1);
            }
            match mismatch {
                None => assert_much_was_cold(pair.kelvin(), extent.commands / extent.runs),
                Some(mismatch) => {
                    let trace = shrink::smallest(&mut pair, &steps, mismatch);
                    return Err(format!("KELVIN_SEED={seed}: {trace}"));
                }
            }
            Ok(tally)
        }
    }
}

/// Whether a table that spills has lost a record on its way to the disk: an eviction does not wait
/// for a thread that others keep from its processor, and whose record it was nobody knows.
fn has_lost(kelvin: &Server) -> bool {
    stat(&mut kelvin.connect(), "table_spills_lost") > 0
}

/// Of so many commands to a table that spills, some had to look on the disk.
fn assert_much_was_cold(kelvin: &Server, commands: usize) {
    // Each thread shows once a second what it has counted.
    thread::sleep(Duration::from_millis(1100));
    let disk = stat(&mut kelvin.connect(), "table_hits_disk") as usize;
    assert!(disk * 200 > commands, "{disk} were on the disk");
}

fn compare(pair: &mut Pair, steps: &[Step], seed: u64) -> Result<Tally, String> {
    match pair.run(steps, 0) {
        (tally, None) => Ok(tally),
        (_, Some(mismatch)) => {
            let trace = shrink::smallest(pair, steps, mismatch);
            Err(format!("KELVIN_SEED={seed}: {trace}"))
        }
    }
}

/// Killed again and again, so that all commands meet records that memory does not have.
#[test]
fn answers_like_the_installed_memcached_from_a_durable_table() {
    if harness::under_test().is_none() {
        compare_with(&installed_memcached(), Dialect::OnDisk, Table::Durable);
    }
}

/// Crowded out of memory again and again.
#[test]
fn answers_like_the_installed_memcached_from_a_table_that_spills() {
    if harness::under_test().is_none() {
        compare_with(&installed_memcached(), Dialect::OnDisk, Table::Spill);
    }
}

#[test]
fn answers_like_the_installed_memcached() {
    compare_with(&installed_memcached(), Dialect::Common, Table::Volatile);
}

#[test]
#[ignore = "needs KELVIN_PEER_MEMCACHED, a memcached 1.6.45"]
fn answers_like_memcached_1_6_45() {
    compare_with(&harness::peer_1_6_45(), Dialect::Full, Table::Volatile);
}
