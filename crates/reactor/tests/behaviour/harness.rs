//! A loop on a thread of its own that speaks a small line protocol:
//!
//! ```text
//! echo TEXT  ->  TEXT
//! big N      ->  N bytes sent in place, and a line end
//! many N     ->  N lines of 1,000 bytes, written unit by unit
//! quit       ->  finishes
//! abort      ->  aborts
//! ```

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use base::clock::Clock;
use reactor::{
    Accepted, CloseReason, Connection, Control, Driver, External, Gather, Handler, Input, Loop,
    LoopConfig, Mailbox, Next, Output, Pool, PoolStats, Sender, Spin, mailbox,
};

/// Longer than anything here may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Values sent in place that are alive.
#[derive(Clone, Default)]
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A value sent in place, in slices of 64 KiB.
pub(crate) struct Value {
    bytes: Arc<Vec<u8>>,
    len: usize,
    alive: Alive,
}

impl External for Value {
    fn len(&self) -> usize {
        self.len
    }

    fn gather<'a>(&'a self, skip: usize, to: &mut Gather<'a, '_>) {
        for slice in self.bytes[skip..self.len].chunks(64 << 10) {
            if !to.push(slice) {
                return;
            }
        }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Byte `i` of every value.
pub(crate) fn value_byte(i: usize) -> u8 {
    (i % 251) as u8
}

const VALUE_BYTES_MAX: usize = 32 << 20;
static VALUES: LazyLock<Arc<Vec<u8>>> =
    LazyLock::new(|| Arc::new((0..VALUE_BYTES_MAX).map(value_byte).collect()));

pub(crate) struct Speaker {
    values: Arc<Vec<u8>>,
    alive: Alive,
    reasons: BTreeMap<String, usize>,
    served: u64,
}

/// Lines of `many` that are still to be written.
#[derive(Default)]
pub(crate) struct Session {
    lines_left: usize,
}

#[derive(Debug)]
pub(crate) enum Message {
    Report(mpsc::Sender<Report>),
    Adopt(OwnedFd),
    Drain,
    Stop,
}

/// What the loop looks like from inside.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) pool: PoolStats,
    pub(crate) connections: usize,
    pub(crate) reasons: BTreeMap<String, usize>,
    pub(crate) served: u64,
}

impl Speaker {
    fn speak(
        &mut self,
        session: &mut Session,
        input: &mut Input,
        output: &mut Output<Value>,
    ) -> Next {
        self.served += 1;
        loop {
            if !output.has_room() {
                return Next::Blocked;
            }
            if session.lines_left > 0 {
                session.lines_left -= 1;
                output.put(&[b'm'; 999]);
                output.put(b"\n");
                continue;
            }
            let Some(end) = input.bytes().iter().position(|byte| *byte == b'\n') else {
                return Next::Read;
            };
            let line = &input.bytes()[..end];
            let (verb, rest) = line.split_at(line.len().min(5));
            match verb {
                b"echo " => {
                    for part in rest.chunks(32 << 10) {
                        output.put(part);
                    }
                    output.put(b"\n");
                }
                b"many " => session.lines_left = number(rest),
                b"big  " => {
                    self.alive.0.fetch_add(1, Ordering::SeqCst);
                    output.attach(Value {
                        bytes: Arc::clone(&self.values),
                        len: number(rest),
                        alive: self.alive.clone(),
                    });
                    output.put(b"\n");
                }
                b"quit " => return Next::Finish,
                b"abort" => return Next::Abort,
                _ => output.put(b"what?\n"),
            }
            input.consume(end + 1);
        }
    }
}

fn number(text: &[u8]) -> usize {
    String::from_utf8_lossy(text).trim().parse().expect("tests send numbers")
}

impl Handler for Speaker {
    type Session = Session;
    type External = Value;
    type Message = Message;

    fn serve(&mut self, connection: &mut Connection<Session, Value>) -> Next {
        let Connection { session, input, output, .. } = connection;
        self.speak(session, input, output)
    }

    fn accepted(&mut self, accepted: Accepted, control: &mut Control<Session>) {
        control.adopt(accepted.socket, Session::default());
    }

    fn message(&mut self, message: Message, control: &mut Control<Session>) {
        match message {
            Message::Report(to) => {
                let report = Report {
                    pool: control.pool(),
                    connections: control.connections(),
                    reasons: self.reasons.clone(),
                    served: self.served,
                };
                let _ = to.send(report);
            }
            Message::Adopt(socket) => control.adopt(socket, Session::default()),
            Message::Drain => control.drain(),
            Message::Stop => control.stop(),
        }
    }

    fn refused(&mut self, connection: &mut Connection<Session, Value>, reason: &CloseReason) {
        connection.output.put(format!("refused {}\n", name(reason)).as_bytes());
    }

    fn closed(&mut self, _session: Session, reason: CloseReason) {
        *self.reasons.entry(name(&reason)).or_default() += 1;
    }
}

fn name(reason: &CloseReason) -> String {
    let text = format!("{reason:?}");
    text.split(['(', ' ']).next().unwrap_or_default().to_owned()
}

pub(crate) struct Served {
    pub(crate) addr: SocketAddr,
    pub(crate) sender: Sender<Message>,
    pub(crate) alive: Alive,
    thread: Option<JoinHandle<Report>>,
}

/// All that a loop is made of, but its driver.
pub(crate) struct Start {
    pub(crate) config: LoopConfig,
    pub(crate) listener: OwnedFd,
    pub(crate) speaker: Speaker,
    pub(crate) inbox: Mailbox<Message>,
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
}

impl Start {
    /// Runs the loop to its end.
    pub(crate) fn run(self, mut driver: impl Driver<Value>) -> Report {
        driver.listen(0, self.listener).expect("a listener");
        let (inbox, pool) = (self.inbox, self.pool.clone());
        let event_loop = Loop::new(self.config, driver, self.speaker, inbox, pool, self.clock);
        let speaker = event_loop.run().expect("the loop runs");
        Report {
            pool: self.pool.stats(),
            connections: 0,
            reasons: speaker.reasons,
            served: speaker.served,
        }
    }
}

pub(crate) struct Setup {
    pub(crate) pool_bytes: usize,
    pub(crate) idle_timeout_ms: u64,
    pub(crate) spin: Spin,
    pub(crate) clock: Clock,
    /// Send buffer of accepted sockets, in bytes.
    pub(crate) send_buffer_bytes: Option<usize>,
    /// A listener instead of a TCP one on loopback.
    pub(crate) listener: Option<OwnedFd>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            pool_bytes: 64 << 20,
            idle_timeout_ms: 0,
            spin: Spin::Off,
            clock: Clock::system(),
            send_buffer_bytes: None,
            listener: None,
        }
    }
}

impl Served {
    pub(crate) fn start(setup: Setup) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        // A longer queue than the standard library's: connecting must not depend on timing.
        rustix::net::listen(&tcp, 4096).expect("it listens already");
        tcp.set_nonblocking(true).expect("a listener can be non-blocking");
        if let Some(bytes) = setup.send_buffer_bytes {
            // Accepted sockets inherit it.
            rustix::net::sockopt::set_socket_send_buffer_size(&tcp, bytes).expect("any size");
        }
        let addr = tcp.local_addr().expect("a bound socket has an address");
        let listener = setup.listener.unwrap_or_else(|| tcp.into());
        let (sender, inbox) = mailbox(128).expect("an eventfd");
        let alive = Alive::default();
        let (their_alive, clock) = (alive.clone(), setup.clock);
        let config = LoopConfig { idle_timeout_ms: setup.idle_timeout_ms, spin: setup.spin };
        let pool_bytes = setup.pool_bytes;
        let thread = std::thread::spawn(move || {
            let pool = Pool::new(pool_bytes);
            let speaker = Speaker {
                values: Arc::clone(&VALUES),
                alive: their_alive,
                reasons: BTreeMap::new(),
                served: 0,
            };
            crate::run(Start { config, listener, speaker, inbox, pool, clock })
        });
        Self { addr, sender, alive, thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).expect("the loop accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time");
        stream
    }

    pub(crate) fn report(&self) -> Report {
        let (to, from) = mpsc::channel();
        self.sender.send(Message::Report(to)).expect("the loop lives");
        from.recv_timeout(PATIENCE).expect("the loop answers")
    }

    /// Waits until the report is as wished.
    pub(crate) fn wait_for(&self, what: &str, wished: impl Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let report = self.report();
            if wished(&report) {
                return report;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}: {report:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the loop; returns what it looked like in the end.
    pub(crate) fn finish(mut self, message: Message) -> Report {
        self.sender.send(message).expect("the loop lives");
        self.thread.take().expect("once").join().expect("the loop does not panic")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.sender.send(Message::Stop);
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the loop panicked");
        }
    }
}

/// Sends `request` and reads exactly the bytes of `reply`.
pub(crate) fn ask(stream: &mut (impl Read + Write), request: &[u8], reply: &[u8]) {
    stream.write_all(request).expect("the loop reads");
    expect(stream, reply);
}

pub(crate) fn expect(stream: &mut impl Read, reply: &[u8]) {
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).expect("the loop replies");
    assert!(got == reply, "{} bytes that differ", reply.len());
}

/// Asserts that the peer has ended.
pub(crate) fn expect_end(stream: &mut impl Read) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an orderly end");
    assert_eq!(rest, b"", "nothing but the end");
}

/// Descriptors that this process may have.
pub(crate) fn descriptors() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").expect("Linux");
    let line = text.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let soft = line.split_whitespace().nth(3).expect("a number");
    soft.parse().expect("a number")
}
