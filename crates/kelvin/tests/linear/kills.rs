//! A server that is killed under load, again and again. `safe`: nothing that was answered is
//! missing or stale, and nothing that anybody was shown. `async`: what is missing is no older,
//! and no more, than the log's settings say.

use std::{
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::harness::{
    conn::{Conn, Got, REPLY_TIMEOUT},
    log_directory::{Directory, set},
    rng::Rng,
    server::{Io, Server},
};

const WRITERS: usize = 4;
/// Each shows its last key to those who only look.
const KEYS: usize = 60;
const SHOWN: usize = KEYS - 1;
const LOOKERS: usize = 2;

/// The settings of the log that is served.
const AT_RISK_BYTES_MAX: usize = 16 << 20;
const AT_RISK_AGE_MAX: Duration = Duration::from_millis(1000);
/// Two flushes of a slow disk, or of one that others use, too.
const FLUSHES: Duration = Duration::from_millis(1000);
/// Longer than what may be at risk: what was answered at its begin has to be there.
const LONG: Duration = Duration::from_millis(2600);
/// Of so many rounds one is long, in `async`.
const LONG_EACH: usize = 10;
/// Between two pipelines of a long round: so little is written that age alone has it written.
const PAUSE: Duration = Duration::from_millis(200);

/// Something that was asked for: a number, or no record. And when it was answered.
#[derive(Clone, Copy, Debug)]
struct Write {
    number: Option<u64>,
    answered: Option<Instant>,
}

/// A client with keys of its own: of each what it had, and what was asked for since.
struct Writer {
    name: usize,
    keys: Vec<Vec<Write>>,
    rng: Rng,
    next: u64,
}

/// What a killed server has lost.
#[derive(Default)]
struct Lost {
    writes: usize,
    bytes: usize,
    oldest: Duration,
}

/// A number, and more up to some length.
fn text(number: u64) -> String {
    format!("{number} {}", "x".repeat(20 + (number as usize * 7919) % 6000))
}

fn number_of(text: &str) -> u64 {
    let (number, _) = text.split_once(' ').expect("a number and more");
    number.parse().expect("a number")
}

fn key_name(writer: usize, key: usize) -> String {
    format!("w{writer}-{key}")
}

/// The numbers of keys that are there, in the order of the keys; they are whole.
fn numbers(conn: &mut Conn, names: &[String]) -> Vec<Option<u64>> {
    let mut request = Vec::new();
    names.iter().for_each(|name| request.extend(format!("get {name}\r\n").bytes()));
    let ends = |got: &[u8]| got.windows(5).filter(|bytes| bytes == b"END\r\n").count();
    let (reply, _) = conn.exchange(&[&request], |got| ends(got) == names.len());
    let reply = String::from_utf8(reply).expect("text");
    let mut lines = reply.lines();
    let mut next = || lines.next().expect("an answer to each");
    let one = |name: &String| {
        let line = next();
        if line == "END" {
            return None;
        }
        assert!(line.starts_with(&format!("VALUE {name} 0 ")), "of {name}: {line}");
        let value = next();
        let number = number_of(value);
        assert!(value == text(number) && next() == "END", "{name} is damaged");
        Some(number)
    };
    names.iter().map(one).collect()
}

impl Writer {
    fn new(name: usize) -> Self {
        let nothing = Write { number: None, answered: None };
        let keys = vec![vec![nothing]; KEYS];
        Self { name, keys, rng: Rng::new(name as u64 + 1), next: 1 }
    }

    /// Writes in pipelines until the server is gone.
    fn write(&mut self, addr: SocketAddr, pause: Duration, answers: &AtomicUsize) {
        let Ok(stream) = TcpStream::connect(addr) else { return };
        let mut conn = Conn::tcp(stream);
        loop {
            thread::sleep(pause);
            let mut request = Vec::new();
            let mut asked = Vec::new();
            for _ in 0..=self.rng.below(8) {
                let key = self.rng.below(SHOWN);
                let is_set = !self.rng.chance(15);
                asked.push(self.ask(key, is_set, &mut request));
            }
            asked.push(self.ask(SHOWN, true, &mut request));
            if conn.try_send(&request).is_err() {
                return;
            }
            let mut reply = Vec::new();
            while !asked.is_empty() {
                if conn.read_once(&mut reply, REPLY_TIMEOUT) != Got::Bytes {
                    return;
                }
                self.note(&mut reply, &mut asked);
                answers.fetch_or(1 << self.name, Ordering::Relaxed);
            }
        }
    }

    /// One command: the key, and the place of what was asked for.
    fn ask(&mut self, key: usize, is_set: bool, request: &mut Vec<u8>) -> (usize, usize) {
        let name = key_name(self.name, key);
        let number = is_set.then_some(self.next);
        match number {
            Some(number) => request.extend(set(&name, 0, text(number).as_bytes())),
            None => request.extend(format!("delete {name}\r\n").bytes()),
        }
        self.next += 1;
        self.keys[key].push(Write { number, answered: None });
        (key, self.keys[key].len() - 1)
    }

    /// Takes the lines that are whole, the answers to what was asked first.
    fn note(&mut self, reply: &mut Vec<u8>, asked: &mut Vec<(usize, usize)>) {
        let now = Instant::now();
        let whole = reply.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = reply.drain(..whole).collect();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let (key, at) = asked.remove(0);
            let write = &mut self.keys[key][at];
            let is_fine: &[&[u8]] = match write.number {
                Some(_) => &[b"STORED\r\n"],
                None => &[b"DELETED\r\n", b"NOT_FOUND\r\n"],
            };
            assert!(is_fine.contains(&line), "{}", line.escape_ascii());
            write.answered = Some(now);
        }
    }

    /// What is missing of what was answered before the server was killed. Forgets the rest.
    fn find(&mut self, conn: &mut Conn, killed: Instant) -> Lost {
        let names: Vec<String> = (0..KEYS).map(|key| key_name(self.name, key)).collect();
        let mut lost = Lost::default();
        for (key, found) in numbers(conn, &names).into_iter().enumerate() {
            let writes = &mut self.keys[key];
            // Of removes, which are equal, the last: the others were before it.
            let at = writes.iter().rposition(|it| it.number == found);
            let at = at.unwrap_or_else(|| panic!("{} has {found:?}, never asked for", names[key]));
            for write in &writes[at + 1..] {
                let Some(answered) = write.answered else { continue };
                lost.writes += 1;
                lost.bytes += write.number.map_or(0, |number| text(number).len());
                lost.oldest = lost.oldest.max(killed.saturating_duration_since(answered));
            }
            *writes = vec![Write { number: found, answered: None }];
        }
        lost
    }
}

/// Looks at what the writers show until the server is gone.
fn look(addr: SocketAddr, seen: &[AtomicU64]) {
    let Ok(stream) = TcpStream::connect(addr) else { return };
    let mut conn = Conn::tcp(stream);
    for writer in (0..WRITERS).cycle() {
        let request = format!("get {}\r\n", key_name(writer, SHOWN));
        let mut reply = Vec::new();
        if conn.try_send(request.as_bytes()).is_err() {
            return;
        }
        while !reply.ends_with(b"END\r\n") {
            if conn.read_once(&mut reply, REPLY_TIMEOUT) != Got::Bytes {
                return;
            }
        }
        let reply = String::from_utf8(reply).expect("text");
        if let Some(value) = reply.lines().nth(1) {
            seen[writer].fetch_max(number_of(value), Ordering::Relaxed);
        }
    }
}

fn kill_and_look(io: Io, mode: &str, rounds: usize) {
    let directory = Directory::with_log();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut rng = Rng::new(7);
    let mut killed = Instant::now();
    let mut most = Lost::default();
    for round in 0..=rounds {
        let server = directory.serve(io, &["--write-mode", mode]);
        let mut conn = server.connect();
        let mut lost = Lost::default();
        for writer in &mut writers {
            let of_writer = writer.find(&mut conn, killed);
            lost.writes += of_writer.writes;
            lost.bytes += of_writer.bytes;
            lost.oldest = lost.oldest.max(of_writer.oldest);
        }
        let Lost { writes, bytes, oldest } = lost;
        if mode == "safe" {
            assert!(writes == 0, "round {round}: {writes} writes are lost that were answered");
        }
        assert!(bytes <= AT_RISK_BYTES_MAX, "round {round}: {bytes} bytes are lost");
        let is_recent = oldest <= AT_RISK_AGE_MAX + FLUSHES;
        assert!(is_recent, "round {round}: what was answered {oldest:?} before is lost");
        most.writes = most.writes.max(writes);
        most.bytes = most.bytes.max(bytes);
        most.oldest = most.oldest.max(oldest);
        let is_long = mode == "async" && round % LONG_EACH == 1;
        let short = Duration::from_millis(30 + rng.below(200) as u64);
        let (time, pause) = if is_long { (LONG, PAUSE) } else { (short, Duration::ZERO) };
        killed = load(server, &mut writers, (time, pause), mode);
    }
    let Lost { writes, bytes, oldest } = most;
    println!("{io:?} {mode}: at most {writes} writes lost, {bytes} bytes, the oldest {oldest:?}");
}

/// Writes and looks for so long after each writer was answered, and kills the server.
fn load(
    server: Server,
    writers: &mut [Writer],
    (time, pause): (Duration, Duration),
    mode: &str,
) -> Instant {
    let (addr, answers) = (server.addr(), &AtomicUsize::new(0));
    let seen: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let killed = thread::scope(|scope| {
        for writer in &mut *writers {
            scope.spawn(move || writer.write(addr, pause, answers));
        }
        for _ in 0..LOOKERS {
            scope.spawn(|| look(addr, &seen));
        }
        let begun = Instant::now();
        while answers.load(Ordering::Relaxed) != (1 << WRITERS) - 1 {
            assert!(begun.elapsed() < REPLY_TIMEOUT, "nothing is answered");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(time);
        let killed = Instant::now();
        // Killed, not told to end.
        drop(server);
        killed
    });
    if mode == "safe" {
        // Who was shown a record may count on it as whoever wrote it.
        for (writer, seen) in writers.iter_mut().zip(seen) {
            let seen = seen.into_inner();
            for write in &mut writer.keys[SHOWN] {
                if write.number == Some(seen) {
                    write.answered = write.answered.or(Some(killed));
                }
            }
        }
    }
    killed
}

const ROUNDS: usize = 10;
const ROUNDS_SOAK: usize = 200;

#[test]
fn a_safe_table_on_io_uring_keeps_what_it_answered_when_it_is_killed() {
    kill_and_look(Io::Uring, "safe", ROUNDS);
}

#[test]
fn a_safe_table_on_epoll_keeps_what_it_answered_when_it_is_killed() {
    kill_and_look(Io::Epoll, "safe", ROUNDS);
}

#[test]
fn an_async_table_on_io_uring_loses_no_more_than_it_says_when_it_is_killed() {
    kill_and_look(Io::Uring, "async", ROUNDS);
}

#[test]
fn an_async_table_on_epoll_loses_no_more_than_it_says_when_it_is_killed() {
    kill_and_look(Io::Epoll, "async", ROUNDS);
}

#[test]
#[ignore = "soak: minutes"]
fn soak_tables_that_are_killed_keep_what_they_say() {
    for io in Io::BOTH {
        for mode in ["safe", "async"] {
            kill_and_look(io, mode, ROUNDS_SOAK);
        }
    }
}
