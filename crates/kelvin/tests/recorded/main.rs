//! Kelvin against the recorded replies of memcached 1.6.45.
//!
//! Every script in `fixtures/memcached` is played to kelvin, in whole bursts and cut into packets
//! at random, and each reply must be memcached's, byte for byte, after the masks of `masked`. Where
//! kelvin differs, the script names a row of the table in `docs/memcached.md`.

mod differences;
#[path = "../harness/mod.rs"]
mod harness;
mod masked;
mod player;
mod recording;
mod script;

use harness::{
    log_directory::{Directory, stat},
    server::{Io, Server, Serving, Table},
};
use player::Way;
use recording::Recording;
use script::Script;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// A script that counts seconds may meet the edge of one, and a table that spills may lose a record
/// where an eviction would have to wait: it is tried again this often.
const ATTEMPTS: usize = 4;
/// Scripts that run at the same time; most of them wait for seconds to pass.
const WORKERS: usize = 16;

const ANEW: &str = "who touches a record, counts in it or makes it by `mg` has not read it; and a \
    look with `u` is a read";

/// What a table with a disk does not answer as memcached does: the table, the script, the lines of
/// its bursts (none: it is not played), and why.
const ASIDE: [(&[Table], &str, &[usize], &str); 12] = [
    (BOTH, "admin", &[64, 66, 104, 108, 112, 116, 124], "dumps"),
    (BOTH, "admin", &[128, 131, 137, 140], "watch"),
    (BOTH, "arithmetic", &[101], "a number in a value of more than 20 bytes is not filled up"),
    (
        BOTH,
        "expiry",
        &[55],
        "a delete does not look at what only the disk has: it may have expired",
    ),
    (DURABLE, "flush", &[], "flush_all"),
    (BOTH, "last_access", &[], "seconds since the last access"),
    (BOTH, "meta_debug", &[3], ANEW),
    (BOTH, "meta_dogpile", &[15], ANEW),
    (BOTH, "meta_dogpile", &[190], "its tokens are greater than what is old to the script"),
    (BOTH, "meta_get", &[41, 78, 81, 179], ANEW),
    (BOTH, "stats", &[43], "a list of keys"),
    (DURABLE, "values", &[30, 34, 86], "nothing is put before or behind a value in parts"),
];

const BOTH: &[Table] = &[Table::Durable, Table::Spill];
const DURABLE: &[Table] = &[Table::Durable];

/// Records that replays have found on the disk of a table that spills.
static COLD: AtomicU64 = AtomicU64::new(0);
/// So many there have to be, or memory had everything.
const COLD_MIN: u64 = 50;

/// Runs `work` for each task, several at a time.
fn for_each<T: Send>(tasks: impl IntoIterator<Item = T>, work: impl Fn(&T) + Sync) {
    let queue = Mutex::new(tasks.into_iter().collect::<Vec<T>>());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no worker panics with the lock").pop();
                    let Some(task) = next else { return };
                    work(&task);
                }
            });
        }
    });
}

/// Replays every script in every way.
fn replay_all(ways: &[Way]) {
    replay_those(|_| true, ways);
}

/// Replays some scripts in every way.
fn replay_those(is_played: impl Fn(&Script) -> bool, ways: &[Way]) {
    let failures = Mutex::new(Vec::new());
    let mut scripts = Script::all();
    scripts.retain(is_played);
    let tasks = scripts.iter().flat_map(|script| ways.iter().map(move |way| (script, *way)));
    for_each(tasks, |(script, way)| {
        let problems = replay(script, *way);
        if !problems.is_empty() {
            let all = format!("{}.script, {way:?}: {}", script.name, problems.join("\n"));
            failures.lock().expect("no worker panics with the lock").push(all);
        }
    });
    let failures = failures.into_inner().expect("no worker panics with the lock");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The problems that every attempt met.
fn replay(script: &Script, way: Way) -> Vec<String> {
    let recorded = Recording::load(&script.name);
    let bursts = script.bursts().count();
    assert_eq!(bursts, recorded.replies.len(), "record {} again", script.name);
    let mut problems = Vec::new();
    for _ in 0..ATTEMPTS {
        let directory = way.table.is_durable().then(Directory::with_log);
        let server = match &directory {
            Some(directory) => directory.serve_values(way.io, "1MiB", &[]),
            None => Server::kelvin(serving(way, script), &[]),
        };
        let is_aside = |line| is_aside(way.table, &script.name, line);
        problems = player::replay(script, &recorded, &server, way, is_aside);
        let mut has_lost = false;
        if way.table == Table::Spill {
            // Each thread shows once a second what it has counted.
            thread::sleep(Duration::from_millis(1100));
            let mut conn = server.connect();
            COLD.fetch_add(stat(&mut conn, "table_hits_disk"), Ordering::Relaxed);
            has_lost = stat(&mut conn, "table_spills_lost") > 0;
        }
        if problems.is_empty() || !(script.counts_seconds || has_lost) {
            break;
        }
    }
    problems
}

/// How kelvin serves without a log. What spills has little memory, and for the script of large
/// values twice as much.
fn serving(way: Way, script: &Script) -> Serving {
    let serving = Serving::from(way.io, way.table);
    if script.name == "values" { serving.of_large_values() } else { serving }
}

/// Whether a table answers the burst of this line in its own way.
fn is_aside(table: Table, script: &str, line: usize) -> bool {
    ASIDE.iter().any(|(tables, name, lines, _)| {
        tables.contains(&table) && *name == script && lines.contains(&line)
    })
}

/// Replays on both drivers what a table with a disk answers as memcached does.
fn replay_from(table: Table) {
    if harness::under_test().is_some() {
        return;
    }
    let names: Vec<String> = Script::all().into_iter().map(|script| script.name).collect();
    let unknown = ASIDE.iter().find(|(_, name, ..)| !names.iter().any(|known| known == name));
    assert_eq!(unknown, None, "there is no such script");
    let ways = Io::BOTH.map(|io| Way { io, unix: false, table, cut_seed: Some(9) });
    let is_played = |script: &Script| {
        !ASIDE.iter().any(|(tables, name, lines, _)| {
            tables.contains(&table) && *name == script.name && lines.is_empty()
        })
    };
    replay_those(is_played, &ways);
}

#[test]
fn replies_are_memcacheds() {
    replay_all(&Io::BOTH.map(|io| Way { io, unix: false, table: Table::Volatile, cut_seed: None }));
}

/// The same from a durable table with little memory, but for what `docs/memcached.md` says of it.
#[test]
fn replies_from_a_durable_table_are_memcacheds() {
    replay_from(Table::Durable);
}

/// The same from a table that spills, whose memory has nothing of the records now and then.
#[test]
fn replies_from_a_table_that_spills_are_memcacheds() {
    replay_from(Table::Spill);
    let cold = COLD.load(Ordering::Relaxed);
    assert!(cold >= COLD_MIN || harness::under_test().is_some(), "{cold} were on the disk");
}

#[test]
fn replies_are_memcacheds_however_packets_are_cut() {
    let ways = Io::BOTH.into_iter().flat_map(|io| [true, false].map(|unix| (io, unix)));
    let cut = |(seed, (io, unix))| Way { io, unix, table: Table::Volatile, cut_seed: Some(seed) };
    replay_all(&(1..).zip(ways).map(cut).collect::<Vec<_>>());
}

#[test]
fn differences_are_the_ones_documented() {
    differences::assert_documented(&Script::all());
}

/// Records every script anew. Two recordings must agree, else a second passed in between.
#[test]
#[ignore = "needs KELVIN_PEER_MEMCACHED, a memcached 1.6.45; writes fixtures/memcached"]
fn record() {
    let peer = harness::peer_1_6_45();
    let only = std::env::var("KELVIN_RECORD_ONLY").ok();
    let mut scripts = Script::all();
    scripts.retain(|s| only.as_ref().is_none_or(|name| *name == s.name));
    for_each(scripts, |script| {
        let headings: Vec<String> = script.bursts().map(script::Burst::heading).collect();
        for _ in 0..ATTEMPTS {
            let once = player::record(script, &Server::memcached(&peer, &[]));
            let twice = player::record(script, &Server::memcached(&peer, &[]));
            if once == twice {
                return once.store(&script.name, &headings);
            }
        }
        panic!("{} has no stable recording", script.name);
    });
}
