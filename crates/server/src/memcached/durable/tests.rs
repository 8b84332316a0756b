//! Sessions over a log in files of which the test says when something is done to them.

mod ahead;
mod bounds;
mod flushed;
mod large;
mod order;
mod reads;
mod refusals;
mod spilled;

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
    engine::{Engine, Ring},
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
    plan::{Action, FileName, Plan},
};
use reactor::{Connection, Frames, Next, Pool, Shape};
use store::{
    Admission, Store,
    limits::{PENDING_MAX, READ_BUFFERS_MAX, READ_BYTES_KEPT, SLOTS_MAX},
};

use super::{Desk, Hands, Member, Session, Table, deed::Deed};
use crate::{
    memcached::{Access, Control, LargeValue},
    stats::{ServerStats, Settings},
};

const START_MS: u64 = 1_700_000_000_000;
/// The bytes of its multiples are as good as random.
const SEED: u64 = 0x9e37_79b9;
const MEMORY_BYTES: u64 = 32 << 20;
const VALUE_BYTES_MAX: usize = 256 << 10;

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
    store: Store<Keyed, Deed<'static>>,
    files: Files,
    pool: Pool,
}

type Client = Connection<Session, LargeValue>;

impl Stage {
    fn new(directory: &Directory) -> Self {
        Self::with(directory, MEMORY_BYTES, Access::default())
    }

    fn with(directory: &Directory, memory_bytes: u64, access: Access) -> Self {
        Self::made(directory, memory_bytes, access, None)
    }

    /// With values of so many bytes at most.
    fn limited(directory: &Directory, value_bytes_max: usize) -> Self {
        Self::built(directory, MEMORY_BYTES, Access::default(), None, value_bytes_max)
    }

    fn made(directory: &Directory, memory_bytes: u64, access: Access, ring: Option<Ring>) -> Self {
        Self::built(directory, memory_bytes, access, ring, VALUE_BYTES_MAX)
    }

    fn built(
        directory: &Directory,
        memory_bytes: u64,
        access: Access,
        ring: Option<Ring>,
        value_bytes_max: usize,
    ) -> Self {
        let clock = Clock::manual(START_MS);
        let seeds = std::array::from_fn(|at| ((at as u64 * SEED) >> 8) as u8);
        let mut options = Options::new(&directory.0, IndexKind::Hash { seeds }, 0);
        options.shape.segment_bytes = 1 << 20;
        options.clock = clock.clone();
        options.settings.ring = ring;
        let limits = IndexLimits { kmax_limit: 0, entries_max: 10_000 };
        let opened = log::open(&options, LogId(1), limits, &mut |_| ());
        let (engine, files, _): (Engine<Keyed>, _, _) = opened.expect("a log");
        let config = CacheConfig { hash_seed: 7, writers: 1, ..CacheConfig::new(memory_bytes) };
        let config = CacheConfig { value_size_max: value_bytes_max as u64, ..config };
        let victim_bytes = if ring.is_some() { 1 << 20 } else { 0 };
        let config = CacheConfig { victim_bytes, ..config };
        let cache = Cache::new(config, clock.clone()).expect("a small cache");
        let stats = ServerStats::new(Settings::default(), clock.clone());
        let store = match ring {
            None => Store::new(engine, cache.clone(), 1),
            Some(_) => Store::spilling(engine, cache.clone(), 1, Admission::All).expect("a ring"),
        };
        let control = Arc::new(Nobody);
        let mut worker = store.worker(0).expect("a place");
        let frames = Frames::new(&[Shape { bytes: READ_BYTES_KEPT, count: READ_BUFFERS_MAX }]);
        while let Some(frame) = frames.take(READ_BYTES_KEPT) {
            worker.lend(frame.into_buffer());
        }
        let hands = Hands::Log(Box::new(worker));
        let large_bytes_max = stats.settings().value_size_max;
        let member = Member::new(hands, &cache, large_bytes_max, VALUE_BYTES_MAX);
        let table = Table::new(member, [], Desk::new(cache, &stats, control, access));
        Self { clock, stats, table, store, files, pool: Pool::new(64 << 20) }
    }

    fn client(&self) -> Client {
        let open = self.stats.open("tcp:127.0.0.1:1".into(), "tcp:127.0.0.1:11211".into());
        Connection::standalone(Session::new(open, None, &self.table), &self.pool)
    }

    /// One turn, of a client that takes nothing yet.
    fn turn(&mut self, client: &mut Client) -> Next {
        self.table.begin();
        let id = client.id();
        let Connection { session, input, output, .. } = client;
        session.serve(&mut self.table, id, input, output)
    }

    /// Serves until the client's input has nothing more to offer. Returns the replies and how it
    /// ended.
    fn serve_bytes(&mut self, client: &mut Client) -> (Vec<u8>, Next) {
        let mut replies = Vec::new();
        loop {
            let next = self.turn(client);
            replies.extend(taken(client));
            if !matches!(next, Next::Yield | Next::Blocked | Next::Behind) {
                return (replies, next);
            }
        }
    }

    /// The same, of a client that speaks text.
    fn serve(&mut self, client: &mut Client) -> (String, Next) {
        let (replies, next) = self.serve_bytes(client);
        (String::from_utf8(replies).expect("text").replace("\r\n", "\n"), next)
    }

    fn feed(&self, client: &mut Client, request: &[u8]) {
        assert_eq!(client.input.feed(request, &self.pool), request.len());
    }

    /// Sends so much that it comes in pieces.
    fn stream(&mut self, client: &mut Client, mut request: &[u8]) -> (String, Next) {
        let mut replies = String::new();
        loop {
            request = &request[client.input.feed(request, &self.pool)..];
            let (more, next) = self.serve(client);
            replies += &more;
            if request.is_empty() {
                return (replies, next);
            }
            // A large value may wait for room.
            assert!(
                next == Next::Read || next == Next::Wait && self.go_on(),
                "{next:?} with {} to come",
                request.len()
            );
        }
    }

    /// Sends lines, each ended with CRLF.
    fn send(&mut self, client: &mut Client, lines: &[&str]) -> (String, Next) {
        let request: String = lines.iter().flat_map(|line| [line, "\r\n"]).collect();
        self.stream(client, request.as_bytes())
    }

    /// Does all that the store wants. Says whether connections are to be served.
    fn go_on(&mut self) -> bool {
        let (held, is_roused) = self.go_on_without(|_| false);
        assert!(held.is_empty());
        is_roused
    }

    /// The same, but for some actions, which are not done yet.
    fn go_on_without(&mut self, is_held: impl Fn(&Action) -> bool) -> (Vec<Plan>, bool) {
        self.table.begin();
        let mut held = Vec::new();
        loop {
            match self.table.poll(0) {
                Some(plan) if is_held(&plan.action) => held.push(plan),
                Some(plan) => self.perform(plan),
                None if !self.table.goes_on(0) => break,
                None => {}
            }
        }
        self.table.deliver();
        (held, self.take_roused())
    }

    /// Whether connections are to be served, which are from now on.
    fn take_roused(&mut self) -> bool {
        let mut any = false;
        self.table.take_roused(|_| any = true);
        any
    }

    fn perform(&mut self, plan: Plan) {
        let outcome = self.files.perform(plan.action);
        self.table.complete(0, plan.token, outcome);
    }

    /// Does what was not done. Says whether connections are to be served.
    fn make_up(&mut self, held: Vec<Plan>) -> bool {
        held.into_iter().for_each(|plan| self.perform(plan));
        self.go_on()
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

/// Takes what waits for a client.
fn taken(client: &mut Client) -> Vec<u8> {
    let mut chain = client.output.launch();
    let bytes = chain.take_bytes();
    client.output.landed(chain);
    bytes
}

/// Whether it makes writes durable.
fn is_flush(action: &Action) -> bool {
    matches!(action, Action::Flush { file } if matches!(file.name, FileName::Segment(_)))
}

/// A table of values of this length that are on the disk alone, under `c0` and so on.
fn cold(directory: &Directory, count: usize, value_bytes: usize) -> Stage {
    let mut stage = Stage::new(directory);
    let value = "v".repeat(value_bytes);
    for key in 0..count {
        assert_eq!(stage.ask(&[&format!("set c{key} 0 0 {value_bytes}"), &value]), "STORED\n");
    }
    drop(stage);
    Stage::new(directory)
}
