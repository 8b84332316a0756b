//! A whole server in this process: how it serves, refuses, and ends.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use base::{clock::Clock, size::ByteSize};
use server::{
    Error, Running, Stop, StopControl,
    config::{Config, Cpus, Duration as Time, ListenAddress, Threads},
};

/// Longer than anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn config() -> Config {
    Config {
        listen: vec![ListenAddress::Address(SocketAddr::from(([127, 0, 0, 1], 0)))],
        memory: ByteSize(64 << 20),
        net_threads: Threads::Count(2),
        io: crate::IO,
        ..Config::default()
    }
}

struct Served {
    running: Option<Running>,
    address: SocketAddr,
    control: StopControl,
}

impl Served {
    fn start(config: &Config) -> Self {
        Self::with_clock(config, &Clock::system())
    }

    fn with_clock(config: &Config, clock: &Clock) -> Self {
        let running = Running::start(config, clock).unwrap_or_else(|error| panic!("{error}"));
        let (address, control) = (running.addresses()[0], running.control());
        Self { running: Some(running), address, control }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it has not been stopped")
    }

    fn open(&self) -> u64 {
        self.running().stats().connection_counts().0
    }

    fn wait_for(&self, what: &str, wished: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wished(self) {
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asks it to stop, and lets it.
    fn stop(mut self, how: Stop) -> Result<(), Error> {
        self.control.stop(how);
        self.running.take().expect("once").wait()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.control.stop(Stop::Now);
            let outcome = running.wait();
            assert!(outcome.is_ok() || thread::panicking(), "{outcome:?}");
        }
    }
}

fn ask(stream: &mut (impl Read + Write), request: &[u8], reply: &[u8]) {
    stream.write_all(request).expect("the server reads");
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).expect("the server replies");
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(reply));
}

fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an orderly end");
    rest
}

/// A number of `stats`.
fn statistic(client: &mut TcpStream, name: &str) -> u64 {
    client.write_all(b"stats\r\n").expect("the server reads");
    let (mut reply, mut lines) = (String::new(), BufReader::new(client));
    while !reply.ends_with("END\r\n") {
        let count = lines.read_line(&mut reply).expect("the server replies");
        assert!(count > 0, "the connection has ended");
    }
    let line = reply.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {reply}")).parse().expect("a number")
}

fn unix_path() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("running-{}-{number}.socket", std::process::id()))
}

#[test]
fn clients_of_all_threads_and_sockets_see_the_same_records() {
    let path = unix_path();
    let served = Served::start(&Config { unix: Some(path.clone()), ..config() });
    let mut clients: Vec<_> = (0..4).map(|_| served.connect()).collect();
    ask(&mut clients[0], b"set a 0 0 5\r\nfirst\r\n", b"STORED\r\n");
    for client in &mut clients {
        ask(client, b"get a\r\n", b"VALUE a 0 5\r\nfirst\r\nEND\r\n");
    }
    let mut unix = UnixStream::connect(&path).expect("it listens");
    ask(&mut unix, b"get a\r\n", b"VALUE a 0 5\r\nfirst\r\nEND\r\n");
    served.stop(Stop::Now).expect("an orderly end");
    assert!(!path.exists(), "its socket goes with it");
}

#[test]
fn a_value_of_many_blocks_comes_and_goes() {
    let served = Served::start(&config());
    let mut client = served.connect();
    let value: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    let mut request = format!("set big 0 0 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(&value);
    request.extend_from_slice(b"\r\n");
    ask(&mut client, &request, b"STORED\r\n");
    let mut reply = format!("VALUE big 0 {}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(&value);
    reply.extend_from_slice(b"\r\nEND\r\n");
    client.write_all("get big\r\n".repeat(20).as_bytes()).expect("the server reads");
    for _ in 0..20 {
        ask(&mut client, b"", &reply);
    }
}

#[test]
fn one_connection_too_many_is_told_so() {
    let served = Served::start(&Config { max_connections: 3, ..config() });
    let mut clients: Vec<_> = (0..3).map(|_| served.connect()).collect();
    for client in &mut clients {
        ask(client, b"mn\r\n", b"MN\r\n");
    }
    for _ in 0..3 {
        assert_eq!(rest(&mut served.connect()), b"ERROR Too many open connections\r\n");
    }
    let (open, opened, refused) = served.running().stats().connection_counts();
    assert_eq!((open, opened, refused), (3, 3, 3));
    clients.pop();
    served.wait_for("a free place", |served| served.open() == 2);
    ask(&mut served.connect(), b"mn\r\n", b"MN\r\n");
}

#[test]
fn idle_clients_are_closed() {
    let clock = Clock::manual(1_700_000_000_000);
    let config = Config { idle_timeout: Time(30_000), ..config() };
    let served = Served::with_clock(&config, &clock);
    let mut idle = served.connect();
    let mut busy = served.connect();
    ask(&mut idle, b"mn\r\n", b"MN\r\n");
    // One step more than the time: the first may pass before the loop hears that the idle
    // client's reply has left.
    for _ in 0..5 {
        ask(&mut busy, b"mn\r\n", b"MN\r\n");
        clock.advance_ms(10_000);
    }
    ask(&mut busy, b"mn\r\n", b"MN\r\n");
    assert_eq!(rest(&mut idle), b"");
    served.wait_for("the count", |served| served.running().stats().totals().idle_kicks == 1);
    ask(&mut busy, b"mn\r\n", b"MN\r\n");
}

#[test]
fn expired_records_give_their_memory_back() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with_clock(&config(), &clock);
    let mut client = served.connect();
    for i in 0..1000 {
        ask(&mut client, format!("set {i} 0 5 1\r\nx\r\n").as_bytes(), b"STORED\r\n");
    }
    let mut items = || statistic(&mut client, "curr_items");
    assert_eq!(items(), 1000);
    clock.advance_ms(6000);
    let deadline = Instant::now() + PATIENCE;
    while items() > 0 {
        assert!(Instant::now() < deadline, "{} are still there", items());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn memory_is_accounted_for() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with_clock(&config(), &clock);
    let mut client = served.connect();
    let parts = ["memory_for_records", "memory_for_buffers", "memory_for_connections"];
    let sum: u64 = parts.iter().map(|part| statistic(&mut client, part)).sum();
    assert_eq!(sum, 64 << 20);
    assert_eq!(statistic(&mut client, "limit_maxbytes"), 64 << 20);
    assert_eq!(statistic(&mut client, "open_to_network"), 0);
    // Half a request keeps a buffer, and the threads show it once a second.
    let mut half = served.connect();
    half.write_all(b"set half").expect("the server reads");
    let deadline = Instant::now() + PATIENCE;
    while statistic(&mut client, "read_buf_bytes") == 0 {
        assert!(Instant::now() < deadline, "no buffer is shown");
        clock.advance_ms(1000);
    }
}

#[test]
fn a_graceful_stop_answers_what_was_received() {
    let served = Served::start(&config());
    let mut silent = served.connect();
    let mut slow = served.connect();
    let value = vec![b'v'; 1 << 20];
    let mut request = format!("set big 0 0 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(&value);
    request.extend_from_slice(b"\r\n");
    ask(&mut slow, &request, b"STORED\r\n");
    slow.write_all("get big\r\n".repeat(30).as_bytes()).expect("the server reads");
    thread::sleep(Duration::from_millis(50));
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        rest(&mut slow).len()
    });
    let address = served.address;
    let before = Instant::now();
    served.stop(Stop::Graceful).expect("an orderly end");
    assert!(before.elapsed() < Duration::from_secs(9), "less than the drain timeout");
    assert_eq!(rest(&mut silent), b"");
    let reply_bytes = b"VALUE big 0 1048576\r\n".len() + value.len() + b"\r\nEND\r\n".len();
    assert_eq!(reader.join().expect("a reader"), 30 * reply_bytes);
    let refused = TcpStream::connect(address).expect_err("nobody listens any more");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

/// A server with a client that does not read what it asked for.
fn with_a_stubborn_client(drain_timeout: Time) -> (Served, TcpStream) {
    let served = Served::start(&Config { drain_timeout, ..config() });
    let mut client = served.connect();
    let value = vec![b'v'; 1 << 20];
    let mut request = format!("set big 0 0 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(&value);
    request.extend_from_slice(b"\r\n");
    ask(&mut client, &request, b"STORED\r\n");
    client.write_all("get big\r\n".repeat(100).as_bytes()).expect("the server reads");
    thread::sleep(Duration::from_millis(100));
    (served, client)
}

#[test]
fn a_graceful_stop_does_not_wait_for_ever() {
    let (served, _client) = with_a_stubborn_client(Time(300));
    let before = Instant::now();
    served.stop(Stop::Graceful).expect("an orderly end");
    let waited = before.elapsed();
    assert!((Duration::from_millis(300)..PATIENCE / 2).contains(&waited), "{waited:?}");
}

#[test]
fn a_second_request_to_stop_ends_the_waiting() {
    let (served, _client) = with_a_stubborn_client(Time(3_600_000));
    served.control.stop(Stop::Graceful);
    let before = Instant::now();
    served.stop(Stop::Graceful).expect("an orderly end");
    assert!(before.elapsed() < PATIENCE / 2);
}

#[test]
fn a_client_may_stop_the_server_if_it_is_allowed_to() {
    let served = Served::start(&Config { shutdown_command: true, ..config() });
    let mut client = served.connect();
    client.write_all(b"shutdown graceful\r\n").expect("the server reads");
    let mut served = served;
    served.running.take().expect("once").wait().expect("an orderly end");

    let served = Served::start(&config());
    ask(&mut served.connect(), b"shutdown\r\n", b"SERVER_ERROR: shutdown not enabled\r\n");
    ask(&mut served.connect(), b"mn\r\n", b"MN\r\n");
}

#[test]
fn half_closed_clients_get_their_replies() {
    let served = Served::start(&config());
    let mut client = served.connect();
    client.write_all(b"set a 0 0 1\r\nx\r\nget a\r\n").expect("the server reads");
    client.shutdown(Shutdown::Write).expect("an open socket");
    assert_eq!(rest(&mut client), b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn what_cannot_start_says_why_and_leaves_nothing_behind() {
    let served = Served::start(&config());
    let taken = Config { listen: vec![ListenAddress::Address(served.address)], ..config() };
    let error = Running::start(&taken, &Clock::system()).expect_err("taken");
    let Error::Listen { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), ErrorKind::AddrInUse);

    let path = unix_path();
    let absent = Config {
        unix: Some(path.clone()),
        cpus: Cpus(vec![1023]),
        net_threads: Threads::Count(1),
        ..config()
    };
    let error = Running::start(&absent, &Clock::system()).expect_err("no such CPU");
    assert!(matches!(&error, Error::Cpu { cpu: 1023 }), "{error}");
    assert!(!path.exists());
}

#[test]
fn threads_run_on_the_cpus_they_are_pinned_to() {
    let served = Served::start(&Config { cpus: Cpus(vec![0]), ..config() });
    ask(&mut served.connect(), b"mn\r\n", b"MN\r\n");
    let mut pinned = 0;
    for task in std::fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let field = |name| status.lines().find_map(|line: &str| line.strip_prefix(name));
        if field("Name:\tdata-").is_some() && field("Cpus_allowed_list:\t") == Some("0") {
            pinned += 1;
        }
    }
    assert!(pinned >= 2, "{pinned}");
}
