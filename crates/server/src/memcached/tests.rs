//! Sessions driven with bytes and a manual clock only.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use base::clock::Clock;
use cache::{Cache, CacheConfig};
use reactor::{Connection, Next, Pool};

use super::{Context, Control, LargeValue, Session};
use crate::stats::{ServerStats, Settings};

mod admin;
mod arithmetic;
mod binary;
mod bounds;
mod dump;
mod framing;
mod group;
mod large;
mod meta_get;
mod meta_other;
mod model;
mod stats;
mod storage;
mod text;
mod watch;

/// Where the tests' clocks start: a Unix time in milliseconds.
const START_MS: u64 = 1_700_000_000_000;

/// Counts the calls, the graceful ones a thousandfold.
#[derive(Debug, Default)]
struct Shutdowns(AtomicU64);

impl Control for Shutdowns {
    fn shutdown(&self, graceful: bool) {
        self.0.fetch_add(if graceful { 1000 } else { 1 }, Ordering::Relaxed);
    }
}

/// A server without sockets.
struct Server {
    clock: Clock,
    cache: Cache,
    stats: Arc<ServerStats>,
    shutdowns: Arc<Shutdowns>,
    context: Context,
    pool: Pool,
}

/// One connection to it.
struct Client {
    connection: Connection<Session, LargeValue>,
}

impl Server {
    fn new() -> Self {
        Self::with(CacheConfig::new(32 << 20), Settings { threads: 1, ..Settings::default() })
    }

    fn with(config: CacheConfig, settings: Settings) -> Self {
        let clock = Clock::manual(START_MS);
        let config = CacheConfig { hash_seed: 7, writers: 1, ..config };
        let cache = Cache::new(config, clock.clone()).expect("a small cache");
        let stats = ServerStats::new(settings, clock.clone());
        let shutdowns = Arc::new(Shutdowns::default());
        let worker = cache.worker().expect("a place");
        let control: Arc<Shutdowns> = Arc::clone(&shutdowns);
        let context = Context::new(worker, &stats, control);
        Self { clock, cache, stats, shutdowns, context, pool: Pool::new(64 << 20) }
    }

    fn client(&self) -> Client {
        let open = self.stats.open("tcp:127.0.0.1:1".into(), "tcp:127.0.0.1:11211".into());
        Client { connection: Connection::standalone(Session::new(open), &self.pool) }
    }

    /// Serves until the client's input has nothing more to offer. Returns the replies and how it
    /// ended.
    fn run(&mut self, client: &mut Client) -> (Vec<u8>, Next) {
        let mut replies = Vec::new();
        loop {
            self.context.worker().quiesce();
            let Connection { session, input, output, .. } = &mut client.connection;
            let next = session.serve(&mut self.context, input, output);
            let mut chain = output.launch();
            replies.extend(chain.take_bytes());
            output.landed(chain);
            match next {
                Next::Yield | Next::Blocked => {}
                next => return (replies, next),
            }
        }
    }

    /// Sends `bytes` to the server and returns its replies.
    fn send(&mut self, client: &mut Client, bytes: &[u8]) -> Vec<u8> {
        self.send_until(client, bytes).0
    }

    fn send_until(&mut self, client: &mut Client, mut bytes: &[u8]) -> (Vec<u8>, Next) {
        let mut replies = Vec::new();
        loop {
            let fed = client.connection.input.feed(bytes, &self.pool);
            bytes = &bytes[fed..];
            let (more, next) = self.run(client);
            replies.extend(more);
            if bytes.is_empty() || next == Next::Finish {
                return (replies, next);
            }
        }
    }

    fn advance(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
        self.context.worker().quiesce();
    }
}

/// Sends lines, each ended with CRLF, on a connection of their own, and returns the reply with its
/// CRLFs as line feeds.
fn ask(server: &mut Server, lines: &[&str]) -> String {
    let mut client = server.client();
    let request: String = lines.iter().flat_map(|line| [line, "\r\n"]).collect();
    let reply = server.send(&mut client, request.as_bytes());
    String::from_utf8(reply).expect("text").replace("\r\n", "\n")
}

/// Sends `request` to a new server and returns what it says.
fn fresh(lines: &[&str]) -> String {
    ask(&mut Server::new(), lines)
}
