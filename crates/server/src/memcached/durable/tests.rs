//! Sessions over a log in files of which the test says when something is done to them.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use base::clock::Clock;
use cache::{Cache, CacheConfig};
use log::{
    Files, Options,
    engine::Engine,
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};
use reactor::{Connection, Next, Pool};
use store::{Store, limits::PENDING_MAX, limits::SLOTS_MAX};

use super::{Desk, Session, Table};
use crate::{
    memcached::{Control, LargeValue},
    stats::{ServerStats, Settings},
};

const START_MS: u64 = 1_700_000_000_000;

static NUMBER: AtomicUsize = AtomicUsize::new(0);

struct Nobody;

impl Control for Nobody {
    fn shutdown(&self, _graceful: bool) {}
}

/// It is gone when the value is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("kelvin-sessions-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server without sockets and threads.
struct Stage {
    clock: Clock,
    stats: Arc<ServerStats>,
    table: Table,
    files: Files,
    pool: Pool,
}

type Client = Connection<Session, LargeValue>;

impl Stage {
    fn new(directory: &Directory) -> Self {
        let clock = Clock::manual(START_MS);
        let mut options = Options::new(&directory.0, IndexKind::Hash { seeds: [7; 128] }, 0);
        options.shape.segment_bytes = 1 << 20;
        options.clock = clock.clone();
        let limits = IndexLimits { kmax_limit: 0, entries_max: 10_000 };
        let opened = log::open(&options, LogId(1), limits, &mut |_| ());
        let (engine, files, _): (Engine<Keyed>, _, _) = opened.expect("a log");
        let config = CacheConfig { hash_seed: 7, writers: 1, ..CacheConfig::new(32 << 20) };
        let cache = Cache::new(config, clock.clone()).expect("a small cache");
        let stats = ServerStats::new(Settings::default(), clock.clone());
        let store = Store::new(engine, cache.clone(), 1);
        let control = Arc::new(Nobody);
        let desk = Desk::new(cache, &stats, control, Default::default(), 256 << 10);
        let table = Table::new(store.worker(0).expect("a place"), desk);
        Self { clock, stats, table, files, pool: Pool::new(64 << 20) }
    }

    fn client(&self) -> Client {
        let open = self.stats.open("tcp:127.0.0.1:1".into(), "tcp:127.0.0.1:11211".into());
        Connection::standalone(Session::new(open, None, &self.table), &self.pool)
    }

    /// Serves until the client's input has nothing more to offer. Returns the replies and how it
    /// ended.
    fn serve(&mut self, client: &mut Client) -> (String, Next) {
        let mut replies = Vec::new();
        loop {
            self.table.begin();
            let id = client.id();
            let Connection { session, input, output, .. } = client;
            let next = session.serve(&mut self.table, id, input, output);
            let mut chain = output.launch();
            replies.extend(chain.take_bytes());
            output.landed(chain);
            if !matches!(next, Next::Yield | Next::Blocked) {
                let text = String::from_utf8(replies).expect("text").replace("\r\n", "\n");
                return (text, next);
            }
        }
    }

    /// Sends lines, each ended with CRLF.
    fn send(&mut self, client: &mut Client, lines: &[&str]) -> (String, Next) {
        let request: String = lines.iter().flat_map(|line| [line, "\r\n"]).collect();
        assert_eq!(client.input.feed(request.as_bytes(), &self.pool), request.len());
        self.serve(client)
    }

    /// Does all that the store wants. Says whether connections are to be served.
    fn go_on(&mut self) -> bool {
        self.table.begin();
        while let Some(plan) = self.table.poll() {
            let outcome = self.files.perform(plan.action);
            self.table.complete(plan.token, outcome);
        }
        self.table.deliver();
        !self.table.take_roused().is_empty()
    }

    /// Sends lines and returns what has come when all is done.
    fn ask(&mut self, lines: &[&str]) -> String {
        let mut client = self.client();
        let (mut replies, _) = self.send(&mut client, lines);
        while self.go_on() {
            replies += &self.serve(&mut client).0;
        }
        replies
    }
}

#[test]
fn what_is_there_waits_for_what_was_asked_before() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    let lines = ["set a 7 0 1", "1", "get a", "version", "get none", "delete a", "get a"];
    assert_eq!(stage.send(&mut client, &lines), (String::new(), Next::Read));
    assert!(stage.go_on(), "it is to be served");
    let (replies, next) = stage.serve(&mut client);
    let version = "VERSION 1.6.45-kelvin-";
    assert!(replies.starts_with(&format!("STORED\nVALUE a 7 1\n1\nEND\n{version}")), "{replies}");
    assert!(replies.ends_with("\nEND\nDELETED\nEND\n"), "{replies}");
    assert_eq!(next, Next::Read);
    // With nothing under way, no slot is needed.
    let told = stage.send(&mut client, &["get a", "mn"]);
    assert_eq!(told, ("END\nMN\n".to_owned(), Next::Read));
}

#[test]
fn a_connection_has_so_many_requests_under_way() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    let names: Vec<String> = (0..SLOTS_MAX + 6).map(|key| format!("set k{key} 0 0 1")).collect();
    let lines: Vec<&str> = names.iter().flat_map(|name| [name, "x"]).collect();
    assert_eq!(stage.send(&mut client, &lines), (String::new(), Next::Wait));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".repeat(SLOTS_MAX), Next::Read));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".repeat(6), Next::Read));
}

#[test]
fn the_last_requests_are_answered_before_the_end() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    let told = stage.send(&mut client, &["set a 0 0 1", "1", "quit", "get a"]);
    assert_eq!(told, (String::new(), Next::Wait));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".to_owned(), Next::Finish));
    let mut client = stage.client();
    assert_eq!(stage.send(&mut client, &["set a 0 0 1", "2"]), (String::new(), Next::Read));
    client.input.end();
    assert_eq!(stage.serve(&mut client), (String::new(), Next::Wait));
    assert!(stage.go_on());
    assert_eq!(stage.serve(&mut client), ("STORED\n".to_owned(), Next::Read));
}

/// Who has gone is answered into the void.
#[test]
fn a_connection_that_ends_leaves_its_answers_to_nobody() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let mut client = stage.client();
    stage.send(&mut client, &["set a 0 0 1", "1", "set b 0 0 1", "2", "version"]);
    drop(client);
    stage.go_on();
    assert!(!stage.table.is_waited_for());
    assert!(!stage.table.is_laden());
    assert_eq!(stage.ask(&["get a b"]), "VALUE a 0 1\n1\nVALUE b 0 1\n2\nEND\n");
}

/// The record is on the disk alone, or not flushed: a `mg` of it has to wait, and what comes behind
/// it does not take effect before it.
#[test]
fn who_renews_a_stale_record_is_decided_in_the_order_of_requests() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    for key in ["k", "l"] {
        let lines = [format!("ms {key} 3"), "old".to_owned(), format!("md {key} I")];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(stage.ask(&lines), "HD\nHD\n");
    }
    drop(stage);
    let mut stage = Stage::new(&directory);
    let told = stage.ask(&["mg k v", "set k 0 0 3", "new", "mg k v"]);
    assert_eq!(told, "VA 3 X W\nold\nSTORED\nVA 3\nnew\n");
    let told = stage.ask(&["mg l v", "mg l v"]);
    assert_eq!(told, "VA 3 X W\nold\nVA 3 Z X\nold\n");
    let told = stage.ask(&["md l I", "mg l v", "md l I", "mg l s", "mg l s"]);
    assert_eq!(told, "HD\nVA 3 X W\nold\nHD\nHD s3 X W\nHD s3 Z X\n");
}

#[test]
fn whom_the_store_has_no_place_for_waits_and_hears_it_after_a_second() {
    let directory = Directory::new();
    let mut stage = Stage::new(&directory);
    let names: Vec<String> = (0..SLOTS_MAX).map(|key| format!("set k{key} 0 0 1")).collect();
    let lines: Vec<&str> = names.iter().flat_map(|name| [name, "x"]).collect();
    let mut clients: Vec<Client> = (0..PENDING_MAX / SLOTS_MAX).map(|_| stage.client()).collect();
    for client in &mut clients {
        assert_eq!(stage.send(client, &lines), (String::new(), Next::Read));
    }
    let mut late = stage.client();
    assert_eq!(stage.send(&mut late, &["set late 0 0 1", "x"]), (String::new(), Next::Retry));
    stage.clock.advance_ms(999);
    assert_eq!(stage.serve(&mut late), (String::new(), Next::Retry));
    stage.clock.advance_ms(1);
    let words = "SERVER_ERROR too much waits for the disk\n";
    assert_eq!(stage.serve(&mut late), (words.to_owned(), Next::Read));
    while stage.go_on() {}
    assert_eq!(stage.serve(&mut clients[0]).0, "STORED\n".repeat(SLOTS_MAX));
    assert_eq!(stage.ask(&["get late k1"]), "VALUE k1 0 1\nx\nEND\n");
}
