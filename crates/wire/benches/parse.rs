//! The everyday benchmark of the memcached parser and writer: nanoseconds a request.
//!
//! ```text
//! cargo bench -p wire --bench parse            all lines
//! cargo bench -p wire --bench parse -- mg      only those with "mg" in their name
//! ```
//!
//! The best of interleaved rounds is shown, as times vary with what else the machine does. A line
//! is read off a pipeline of its like, and what was read is looked at once.

#![forbid(unsafe_code)]

use std::{hint::black_box, time::Instant};

use wire::memcached::reply::{Facts, LINE_BYTES_MAX, Renewal, Writer};
use wire::memcached::{Limits, MetaStore, Request, Step, Store, body::TERMINATOR_LEN, parse};

/// Rounds of each line: with ten lines of about 50 ns the run takes a second.
const ROUNDS: usize = 10;

/// Requests of a round, at least.
const REQUESTS: usize = 200_000;

/// Bytes of a pipeline: one read.
const PIPELINE_BYTES: usize = 14_000;

const LINES: &[(&str, &str)] = &[
    ("get", "get key_00001234\r\n"),
    ("get 4 keys", "get key_00001234 key_00001235 key_00001236 key_00001237\r\n"),
    ("set 32 bytes", "set key_00001234 0 3600 32\r\n0123456789abcdef0123456789abcdef\r\n"),
    ("cas 8 bytes", "cas key_00001234 0 3600 8 123456789\r\n01234567\r\n"),
    ("delete", "delete key_00001234\r\n"),
    ("incr", "incr key_00001234 1\r\n"),
    ("mg v", "mg key_00001234 v\r\n"),
    ("mg v t f O k q", "mg key_00001234 v t f O123 k q\r\n"),
    ("ms 8 bytes", "ms key_00001234 8 T3600 F5\r\n01234567\r\n"),
    ("md q", "md key_00001234 q\r\n"),
];

/// Reads a pipeline to its end: the number of requests, and a sum of what was seen.
fn drain(mut input: &[u8], limits: &Limits) -> (usize, usize) {
    let (mut requests, mut seen) = (0, 0);
    while let Step::Request { request, consumed } = parse(black_box(input), limits) {
        let body_len = match &request {
            Request::Store(Store { value_len, .. })
            | Request::MetaStore(MetaStore { value_len, .. }) => {
                *value_len as usize + TERMINATOR_LEN
            }
            _ => 0,
        };
        seen += match request {
            Request::Get(get) => get.keys.map(<[u8]>::len).sum(),
            Request::MetaGet(meta) => meta.key.plain_bytes().map_or(0, <[u8]>::len),
            _ => consumed,
        };
        requests += 1;
        input = &input[consumed + body_len..];
    }
    (requests, seen)
}

fn parse_ns(line: &str) -> f64 {
    let pipeline = line.repeat(PIPELINE_BYTES / line.len());
    let limits = Limits::default();
    let (start, mut requests) = (Instant::now(), 0);
    while requests < REQUESTS {
        let (count, seen) = drain(pipeline.as_bytes(), &limits);
        assert!(count > 0, "{line:?}");
        black_box(seen);
        requests += count;
    }
    start.elapsed().as_nanos() as f64 / requests as f64
}

/// The two heads that hits are sent with, one after the other.
fn write_ns() -> f64 {
    let limits = Limits::default();
    let Step::Request { request: Request::MetaGet(meta), .. } =
        parse(b"mg key_00001234 v t f\r\n", &limits)
    else {
        unreachable!("invariant: a request");
    };
    let facts = Facts { value_len: 32, client_flags: 5, ..Facts::default() };
    let mut room = [0; LINE_BYTES_MAX];
    let start = Instant::now();
    for _ in 0..REQUESTS {
        let mut writer = Writer::new(black_box(&mut room));
        writer.value_header(black_box(b"key_00001234"), 5, 32, None);
        writer.meta_get_hit(black_box(&meta), &facts, Renewal::default());
        black_box(writer.len());
    }
    start.elapsed().as_nanos() as f64 / REQUESTS as f64
}

fn main() {
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let mut cases: Vec<(&str, &dyn Fn() -> f64)> = vec![("write VALUE and VA", &write_ns)];
    let parsers: Vec<_> = LINES.iter().map(|(_, line)| move || parse_ns(line)).collect();
    cases.extend(LINES.iter().zip(&parsers).map(|((name, _), run)| (*name, run as _)));
    cases.retain(|(name, _)| name.contains(&filter));
    let mut best = vec![f64::INFINITY; cases.len()];
    for _ in 0..ROUNDS {
        for ((_, run), best) in cases.iter().zip(&mut best) {
            *best = best.min(run());
        }
    }
    for ((name, _), ns) in cases.iter().zip(best) {
        println!("{name:20} {ns:7.1} ns");
    }
}
