//! What a server tells a memcached client does not depend on how the client's bytes are cut into
//! packets, and whatever the client does, nothing of it stays behind but records.

use std::sync::Arc;

use base::clock::Clock;
use cache::{Cache, CacheConfig};
use reactor::{Connection, Next, Pool};
use server::{
    memcached::{Context, Control, LargeValue, Session},
    stats::{ServerStats, Settings},
};
use wire::memcached::{binary::MAGIC_REQUEST, limits::LINE_PROBE_BYTES};

/// The least that a cache takes.
const CACHE_BYTES: u64 = 16 << 20;
/// A Unix time in milliseconds.
const NOW_MS: u64 = 1_700_000_000_000;
/// More turns than any input takes: each but the last executes a command or takes bytes.
const TURNS_MAX: usize = 100_000;

/// Cuts the input behind its first bytes, which say where, and compares what is answered to the
/// pieces with what is answered to the whole.
///
/// # Panics
/// When the answers differ.
pub fn body(data: &[u8]) {
    let Some((head, input)) = data.split_first_chunk::<4>() else { return };
    let mut cuts = head.map(|byte| usize::from(byte) * input.len() / 256);
    cuts.sort_unstable();
    let whole = told(&[input]);
    let (mut pieces, mut start) = (Vec::new(), 0);
    for end in cuts.into_iter().chain([input.len()]) {
        pieces.push(&input[start..end]);
        start = end;
    }
    let in_pieces = told(&pieces);
    if depends_on_nothing_else(input) {
        assert_eq!(shown(&whole), shown(&in_pieces));
    }
}

/// Whether nothing in `input` asks for what changes from run to run, or may be refused according
/// to how much of a line has come.
fn depends_on_nothing_else(input: &[u8]) -> bool {
    // In the binary protocol by the operation Stat.
    let asks_for_times = input.windows(5).any(|word| word == b"stats")
        || input.windows(2).any(|word| word == [MAGIC_REQUEST, 0x10]);
    let is_long = |line: &[u8]| line.len() >= LINE_PROBE_BYTES;
    !asks_for_times && !input.split(|&byte| byte == b'\n').any(is_long)
}

/// The answers to a new server's first client, and whether it ended the connection.
fn told(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let clock = Clock::manual(NOW_MS);
    let config = CacheConfig { hash_seed: 7, writers: 1, ..CacheConfig::new(CACHE_BYTES) };
    let cache = Cache::new(config, clock.clone()).expect("invariant: a cache can be this small");
    let stats = ServerStats::new(Settings::default(), clock);
    let worker = cache.worker().expect("invariant: a place for one");
    let mut context = Context::new(worker, &stats, Arc::new(Deaf));
    let pool = Pool::new(1 << 20);
    let session = Session::new(stats.open("client".into(), "server".into()));
    let mut connection = Connection::standalone(session, &pool);
    let mut answers = Vec::new();
    let ended = pieces.iter().any(|piece| {
        send(&mut connection, &mut context, &pool, piece, &mut answers) == Next::Finish
    });
    drop(connection);
    context.worker().quiesce();
    let left = cache.stats();
    assert_eq!((left.upload_bytes, left.pinned_bytes), (0, 0));
    (answers, ended)
}

/// Sends `bytes` and appends what is answered. Returns what the session waits for at last.
fn send(
    connection: &mut Connection<Session, LargeValue>,
    context: &mut Context,
    pool: &Pool,
    mut bytes: &[u8],
    answers: &mut Vec<u8>,
) -> Next {
    for _ in 0..TURNS_MAX {
        let fed = connection.input.feed(bytes, pool);
        bytes = &bytes[fed..];
        context.worker().quiesce();
        let Connection { session, input, output, .. } = &mut *connection;
        let next = session.serve(context, input, output);
        let mut chain = output.launch();
        answers.extend(chain.take_bytes());
        output.landed(chain);
        if next == Next::Finish || next == Next::Read && bytes.is_empty() {
            return next;
        }
    }
    panic!("it goes on and on");
}

fn shown((answers, ended): &(Vec<u8>, bool)) -> (String, bool) {
    (answers.escape_ascii().to_string(), *ended)
}

struct Deaf;

impl Control for Deaf {
    fn shutdown(&self, _graceful: bool) {}
}
