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

use harness::server::{Io, Server};
use player::Way;
use recording::Recording;
use script::Script;
use std::sync::Mutex;

/// A script that counts seconds may meet the edge of one: it is tried again this often.
const ATTEMPTS: usize = 4;
/// Scripts that run at the same time; most of them wait for seconds to pass.
const WORKERS: usize = 6;

/// Runs `work` for each script, several at a time.
fn for_each_script(scripts: Vec<Script>, work: impl Fn(&Script) + Sync) {
    let queue = Mutex::new(scripts);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no worker panics with the lock").pop();
                    let Some(script) = next else { return };
                    work(&script);
                }
            });
        }
    });
}

fn replay_all(way: Way) {
    let failures = Mutex::new(Vec::new());
    for_each_script(Script::all(), |script| {
        let recorded = Recording::load(&script.name);
        let bursts = script.bursts().count();
        assert_eq!(bursts, recorded.replies.len(), "record {} again", script.name);
        let mut problems = Vec::new();
        for _ in 0..if script.counts_seconds { ATTEMPTS } else { 1 } {
            let server = Server::kelvin(way.io, &[]);
            problems = player::replay(script, &recorded, &server, way);
            if problems.is_empty() {
                return;
            }
        }
        let all = format!("{}.script: {}", script.name, problems.join("\n"));
        failures.lock().expect("no worker panics with the lock").push(all);
    });
    let failures = failures.into_inner().expect("no worker panics with the lock");
    assert!(failures.is_empty(), "{way:?}\n{}", failures.join("\n"));
}

#[test]
fn replies_are_memcacheds() {
    for io in Io::BOTH {
        replay_all(Way { io, unix: false, cut_seed: None });
    }
}

#[test]
fn replies_are_memcacheds_however_packets_are_cut() {
    let ways = Io::BOTH.into_iter().flat_map(|io| [true, false].map(|unix| (io, unix)));
    for (seed, (io, unix)) in (1..).zip(ways) {
        replay_all(Way { io, unix, cut_seed: Some(seed) });
    }
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
    for_each_script(scripts, |script| {
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
