//! A data thread allocates nothing for a `get` or a `set` once it is warm: its buffers, queues and
//! lists have grown to what the load needs.
//!
//! Once a second a thread gives back what it has not needed, so that buffers suit the load. While
//! a load warms up, the clock passes several seconds; then it stands still, and nothing is given
//! back any more. How many requests a turn meets, and so how many buffers are in use at a time,
//! remains a matter of chance. So a load goes on until several windows in a row were free of
//! allocations: what allocates for a request, or for a turn, never gets there.

mod counting;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use base::{clock::Clock, size::ByteSize};
use counting::{Counting, Thread};
use reactor::TICK_MS;
use server::{
    Running, Stop,
    config::{Config, IoMode, ListenAddress, Threads},
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Longer than a reply may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests of a window.
const WINDOW_REQUESTS: usize = 256;

/// Windows before which a second passes: free buffers of other sizes are fewer by half after each.
const WARM_UP_WINDOWS: usize = 8;

/// Windows in a row that have to be free of allocations.
const QUIET_WINDOWS: usize = 4;

/// Windows behind these after which a load that still allocates does so for good.
const WINDOWS_MAX: usize = 40;

/// Keys that are stored and read: with the longest values 32 MiB, twice the memory for records.
const KEYS: usize = 8 << 10;

/// Clients and the requests that each of them has under way.
const SHAPES: [(usize, usize); 3] = [(1, 1), (64, 1), (4, 16)];

/// Lengths of values: short ones are copied without a look at their length, those of 4 KiB are the
/// longest that lie in their record.
const VALUES_BYTES: [usize; 3] = [32, 1 << 10, 4 << 10];

struct Served {
    running: Running,
    clock: Clock,
    address: SocketAddr,
    thread: &'static Thread,
}

impl Served {
    fn start(io: IoMode) -> Self {
        let config = Config {
            listen: vec![ListenAddress::Address(SocketAddr::from(([127, 0, 0, 1], 0)))],
            memory: ByteSize(32 << 20),
            net_threads: Threads::Count(1),
            io,
            ..Config::default()
        };
        let clock = Clock::manual(1_700_000_000_000);
        let running = Running::start(&config, &clock).unwrap_or_else(|error| panic!("{error}"));
        let address = running.addresses()[0];
        Self { running, clock, address, thread: Thread::named("data-0") }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// Runs `load` until it is served without an allocation.
    fn settle(&self, load: &Load, value_bytes: usize) {
        for (clients, depth) in SHAPES {
            let mut streams: Vec<_> = (0..clients).map(|_| self.connect()).collect();
            let mut number = 0;
            let mut window = || {
                let before = self.thread.allocations();
                for _ in 0..WINDOW_REQUESTS / (clients * depth) {
                    load.exchange(&mut streams, depth, &mut number);
                }
                self.thread.allocations() - before
            };
            for _ in 0..WARM_UP_WINDOWS {
                self.clock.advance_ms(TICK_MS);
                window();
            }
            let mut counts = Vec::new();
            while !counts.ends_with(&[0; QUIET_WINDOWS]) {
                let name = load.name;
                assert!(
                    counts.len() < WINDOWS_MAX,
                    "{name}, {value_bytes} bytes, {clients} clients, {depth} deep: {counts:?} \
                     allocations in {WINDOW_REQUESTS} requests each"
                );
                counts.push(window());
            }
        }
    }
}

/// Requests of one kind, and what is replied.
struct Load {
    name: &'static str,
    request: Box<dyn Fn(usize) -> String>,
    reply: Box<dyn Fn(usize) -> String>,
}

impl Load {
    fn new(
        name: &'static str,
        request: impl Fn(usize) -> String + 'static,
        reply: impl Fn(usize) -> String + 'static,
    ) -> Self {
        Self { name, request: Box::new(request), reply: Box::new(reply) }
    }

    /// Has all clients ask before the first reads.
    fn exchange(&self, streams: &mut [TcpStream], depth: usize, number: &mut usize) {
        let first = *number;
        for stream in &mut *streams {
            let requests: String = (*number..*number + depth).map(&self.request).collect();
            *number += depth;
            stream.write_all(requests.as_bytes()).expect("the server reads");
        }
        for (stream, place) in streams.iter_mut().zip(0..) {
            let start = first + place * depth;
            let expected: String = (start..start + depth).map(&self.reply).collect();
            let mut got = vec![0; expected.len()];
            stream.read_exact(&mut got).expect("the server replies");
            assert!(got == expected.as_bytes(), "{}: {}", self.name, got.escape_ascii());
        }
    }
}

/// What clients do with values of one length.
fn loads(value_bytes: usize) -> Vec<Load> {
    let value = "v".repeat(value_bytes);
    let with_value = |make: fn(usize, &str) -> String| {
        let value = value.clone();
        move |number| make(number, &value)
    };
    // What was stored last is there.
    let recent = |number: usize| number % 64;
    vec![
        Load::new(
            "set",
            with_value(|n, value| format!("set k{} 0 0 {}\r\n{value}\r\n", n % KEYS, value.len())),
            |_| "STORED\r\n".to_owned(),
        ),
        Load::new(
            "ms",
            with_value(|n, value| format!("ms k{} {}\r\n{value}\r\n", n % 64, value.len())),
            |_| "HD\r\n".to_owned(),
        ),
        Load::new(
            "get",
            move |n| format!("get k{}\r\n", recent(n)),
            with_value(|n, value| {
                format!("VALUE k{} 0 {}\r\n{value}\r\nEND\r\n", n % 64, value.len())
            }),
        ),
        Load::new(
            "get of several",
            move |n| format!("get k{} none k{}\r\n", recent(n), recent(n + 1)),
            with_value(|n, value| {
                let one = |n| format!("VALUE k{} 0 {}\r\n{value}\r\n", n % 64, value.len());
                one(n) + &one(n + 1) + "END\r\n"
            }),
        ),
        Load::new(
            "mg",
            move |n| format!("mg k{} v k\r\n", recent(n)),
            with_value(|n, value| format!("VA {} kk{}\r\n{value}\r\n", value.len(), n % 64)),
        ),
        Load::new("get of nothing", |n| format!("get n{n}\r\n"), |_| "END\r\n".into()),
    ]
}

fn nothing_is_allocated(io: IoMode) {
    let served = Served::start(io);
    for value_bytes in VALUES_BYTES {
        let loads = loads(value_bytes);
        let mut streams = [served.connect()];
        // The first values fill the memory, so that what is measured evicts.
        let mut number = 0;
        while number < 2 * KEYS {
            loads[0].exchange(&mut streams, 16, &mut number);
        }
        loads.iter().for_each(|load| served.settle(load, value_bytes));
    }
    served.running.control().stop(Stop::Now);
    served.running.wait().expect("an orderly end");
}

// One test, as a thread is found by its name.
#[test]
fn gets_and_sets_allocate_nothing_on_either_driver() {
    for io in [IoMode::Epoll, IoMode::Uring] {
        nothing_is_allocated(io);
    }
}
