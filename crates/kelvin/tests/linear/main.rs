//! Commands that come at once take effect in one order, whatever memory has, on a durable table.
//!
//! Eight clients send commands for a few keys, over connections with several commands under way,
//! and read others between them: memory has room for one in a hundred. A ninth overwrites what
//! lies in the log, so that it is compacted all the time. The keys that all want change from
//! round to round, so that memory has lost them when they come again. After each round the
//! checker looks for an order, key by key.

mod client;
mod cold;
mod flushes;
#[path = "../harness/mod.rs"]
mod harness;
mod kills;
mod raced;
mod spilling;
mod words;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use client::{Client, Operations, Stage};
use cold::Cold;
use harness::{
    conn::Conn,
    log_directory::{Directory, stat},
    rng::Rng,
    server::{Io, Server},
};
use histories::{Answer, CLIENTS, Deed, Known, Operation};

/// Keys that are wanted at once, and rounds until they are wanted again: three times the memory is
/// read meanwhile, and more written.
const KEYS_OF_ROUND: usize = 4;
const GROUPS: usize = 10;
/// Each group this often at least: the first time its keys are new.
const ROUNDS_MIN: usize = 4 * GROUPS;
/// What is to happen happens before.
const ROUNDS_TIME_MAX: Duration = Duration::from_secs(60);

/// The most memory that is one percent of the data.
const MEMORY_BYTES: u64 = 2 << 20;

const END_MAX: Duration = Duration::from_secs(20);

struct Group {
    keys: Vec<(String, bool)>,
    known: Vec<Known>,
}

impl Group {
    fn new(number: usize, known: Known) -> Self {
        // Of every other one the value is a number.
        let keys = (0..KEYS_OF_ROUND).map(|key| (format!("hot-{number}-{key}"), key % 2 == 1));
        Self { keys: keys.collect(), known: vec![known; KEYS_OF_ROUND] }
    }

    /// What it had was flushed.
    fn forget(&mut self) {
        self.known.iter_mut().for_each(|it| *it = it.after(&Answer::Miss));
    }

    /// Whether what was answered in a round has an order. Returns how many operations there were.
    fn check(&mut self, played: Vec<Operations>, looked: Operations) -> usize {
        let mut all = looked;
        let known: Vec<Known> = self.known.clone();
        for (key, last) in all.iter().enumerate() {
            self.known[key] = known[key].after(&last[0].answer);
        }
        for operations in played {
            for (all, of_client) in all.iter_mut().zip(operations) {
                all.extend(of_client);
            }
        }
        let count = all.iter().map(Vec::len).sum();
        for ((name, _), (known, operations)) in self.keys.iter().zip(known.into_iter().zip(all)) {
            if let Err(no_order) = histories::check(known, operations) {
                panic!("{name}: {no_order}");
            }
        }
        count
    }
}

/// Sets a flag when it is dropped, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Play {
    clock: AtomicU64,
    cold: Cold,
    groups: Vec<Group>,
    /// What has to have happened in a round.
    happened: &'static [&'static str],
    /// Bytes that live in the log at the least.
    live_bytes: u64,
    /// Of a thousand commands so many flush all keys.
    flushes: usize,
    /// Rounds on a server at the least.
    rounds_min: usize,
}

impl Play {
    /// `known`: what is known of keys at first.
    fn new(known: Known, cold: Cold, happened: &'static [&'static str], live_bytes: u64) -> Self {
        let groups = (0..GROUPS).map(|number| Group::new(number, known)).collect();
        let (clock, rounds_min) = (AtomicU64::new(1), ROUNDS_MIN);
        Self { clock, cold, groups, happened, live_bytes, flushes: 0, rounds_min }
    }

    fn has_tried_all(&self, conn: &mut Conn) -> bool {
        self.happened.iter().all(|name| stat(conn, name) > 0) && stat(conn, LIVE) > self.live_bytes
    }

    fn told(&self, conn: &mut Conn) -> String {
        let names = self.happened.iter().chain(&TOLD).chain([&LIVE]);
        let told: Vec<String> = names.map(|name| format!("{name} {}", stat(conn, name))).collect();
        told.join(", ")
    }

    /// Rounds on one server, for some time.
    fn rounds(&mut self, server: &Server, seed: u64, time: Duration) -> (usize, usize) {
        let clients = 0..CLIENTS - 1;
        let mut clients: Vec<Client> =
            clients.map(|number| Client::new(number, server.connect(), seed)).collect();
        let mut last = Client::new(CLIENTS - 1, server.connect(), seed);
        let mut groups = std::mem::take(&mut self.groups);
        let (clock, cold, flushes) = (&self.clock, &self.cold, self.flushes);
        let stop = AtomicBool::new(false);
        let begun = Instant::now();
        let (mut rounds, mut operations) = (0, 0);
        thread::scope(|scope| {
            let _guard = Stop(&stop);
            let (mut conn, stop) = (server.connect(), &stop);
            scope.spawn(move || cold.churn(&mut conn, seed, stop));
            let mut figures = server.connect();
            while rounds < self.rounds_min
                || begun.elapsed() < time
                || !self.has_tried_all(&mut figures)
            {
                let is_late = begun.elapsed() >= ROUNDS_TIME_MAX + time;
                assert!(!is_late, "{}", self.told(&mut figures));
                let group = &mut groups[rounds % GROUPS];
                let stage = &Stage { clock, cold, keys: &group.keys, flushes };
                if flushes > 0 {
                    // Only the disk has them, and what else is read, when all is flushed.
                    let stored = last.store(stage);
                    group.known.iter_mut().zip(&stored).for_each(|(it, had)| *it = it.after(had));
                    cold.crowd(&mut figures);
                }
                let played: Vec<Operations> = thread::scope(|scope| {
                    let play = |client| scope.spawn(move || Client::play(client, stage));
                    let playing: Vec<_> = clients.iter_mut().map(play).collect();
                    let join = |it: thread::ScopedJoinHandle<'_, _>| it.join().expect("it plays");
                    playing.into_iter().map(join).collect()
                });
                let looked = last.look(stage);
                let is_flush = |it: &Operation| matches!(it.deed, Deed::Flush);
                let flushed = played.iter().any(|it| it[0].iter().any(is_flush));
                operations += group.check(played, looked);
                if flushed {
                    groups.iter_mut().enumerate().for_each(|(number, it)| {
                        if number != rounds % GROUPS {
                            it.forget();
                        }
                    });
                }
                rounds += 1;
            }
        });
        self.groups = groups;
        (rounds, operations)
    }
}

/// Serves one directory on both drivers and in both modes, one after the other.
fn play(time: Duration) {
    let directory = Directory::with_log();
    let mut play = Play::new(Known::default(), Cold::new(), &HAPPENED, 100 * MEMORY_BYTES);
    let server = directory.serve(Io::Uring, &["--write-mode", "async"]);
    let mut conn = server.connect();
    play.cold.fill(&mut conn, |_| ());
    let mut rng = Rng::new(99);
    // From the begin so much is dead that there is always something to be moved.
    while stat(&mut conn, "log_segments_moved") == 0 {
        play.cold.overwrite(&mut conn, &mut rng);
    }
    end(server);
    let ways =
        [(Io::Uring, "safe"), (Io::Epoll, "async"), (Io::Epoll, "safe"), (Io::Uring, "async")];
    for ((io, mode), seed) in ways.into_iter().zip(1..) {
        let server = directory.serve(io, &["--write-mode", mode]);
        let (rounds, operations) = play.rounds(&server, seed, time);
        let figures = play.told(&mut server.connect());
        println!("{io:?} {mode}: {rounds} rounds, {operations} operations, {figures}");
        end(server);
    }
}

fn end(mut server: Server) {
    server.terminate();
    let ended = server.wait_for_end(END_MAX).expect("it ends");
    assert!(ended.success(), "{ended}");
}

/// What is to be seen in `stats`: how much lives, and what has to have happened.
const LIVE: &str = "log_live_bytes";
const HAPPENED: [&str; 6] = [
    "table_hits_memory",
    "table_hits_disk",
    "table_reads",
    "table_reads_shared",
    "log_segments_moved",
    "log_segments_freed",
];
/// And what is told, too.
const TOLD: [&str; 2] = ["table_fills", "table_fills_refused"];

#[test]
fn what_is_answered_has_an_order() {
    play(Duration::from_secs(2));
}

#[test]
#[ignore = "soak: minutes"]
fn soak_what_is_answered_has_an_order() {
    play(Duration::from_secs(60));
}
