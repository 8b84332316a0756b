//! Copies of all records of a live memcached.

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use super::servers::{Directory, Program, Server, on_kelvin};
use crate::harness::rng::Rng;

/// Records of a copy: enough for batches, and for growth on both sides.
const RECORDS: usize = 100_000;

/// The same where there is time.
const SOAK_RECORDS: usize = 1_000_000;

/// A hash table of memcached that need not grow for so many: a 1.6.18 that is told to list keys
/// just when its table begins to grow may come to a standstill, its threads waiting for each other.
const HASH_SIZE: &str = "hashpower=21";

/// Records that are stored, or compared, with one packet.
const BATCH: usize = 200;

/// How far apart the times that are left may be, as both servers count them in seconds: beside what
/// a batch of what is copied has waited, and who asks one server after the other.
const TIME_DIFFERENCE_MAX_S: u64 = 1;

const MS_PER_S: u64 = 1000;

/// Runs `kelvin import` from one server to another: whether it succeeded, and what it said.
fn import(source: &Server, target: &Server) -> (bool, String) {
    import_with(source, target, &[])
}

/// The same with further flags.
fn import_with(source: &Server, target: &Server, flags: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    let target = target.tcp().to_string();
    command.args(["import", &source.tcp().to_string(), "--into", &target, "--quiet"]);
    command.args(flags);
    let output = command.output().expect("kelvin runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn key(number: usize) -> String {
    format!("key:%{number:x}")
}

/// Seconds that a record is stored for: for ever, or for longer than the test takes, told as a
/// duration or as a time of day.
fn ttl_s(number: usize) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now.expect("it is later than 1970").as_secs();
    match number % 4 {
        0 => 0,
        1 => 3_600 + number as u64 % 1_000,
        2 => 2_592_000,
        _ => now_s + 3_000_000 + number as u64 % 1_000,
    }
}

/// Stores records of different sizes, flags and times.
fn fill(source: &Server, records: usize) {
    let mut conn = source.connect();
    for first in (0..records).step_by(BATCH) {
        let mut request = Vec::new();
        for number in first..records.min(first + BATCH) {
            let value = "v".repeat(number % 100);
            let (flags, ttl_s) = (number % 65_536, ttl_s(number));
            let head = format!("set {} {flags} {ttl_s} {} noreply", key(number), value.len());
            request.extend(format!("{head}\r\n{value}\r\n").bytes());
        }
        request.extend(b"mn\r\n");
        conn.ask(&request, b"MN\r\n");
    }
}

/// What `kelvin import` says that its slowest batch took.
fn batch_ms(said: &str) -> u64 {
    let (_, took) = said.split_once("the slowest batch took ").expect(said);
    took.split(' ').next().and_then(|ms| ms.parse().ok()).expect("a number of milliseconds")
}

/// Asserts that both servers have the same records but for the time, and nearly that: the target's
/// were stored `batch_ms` after the source was asked for them, or sooner.
fn compare(source: &Server, target: &Server, numbers: std::ops::Range<usize>, batch_ms: u64) {
    let (mut there, mut here) = (source.connect(), target.connect());
    for first in numbers.clone().step_by(BATCH) {
        let keys = (first..numbers.end.min(first + BATCH)).map(key);
        let ask: String = keys.map(|key| format!("mg {key} v f t\r\n")).collect();
        let ask = format!("{ask}mn\r\n");
        let asked = Instant::now();
        let mut answers = [&mut there, &mut here].map(|conn| {
            let (reply, _) = conn.exchange(&[ask.as_bytes()], |got| got.ends_with(b"MN\r\n"));
            String::from_utf8(reply).expect("text")
        });
        let between_ms = asked.elapsed().as_millis() as u64;
        let apart_s =
            TIME_DIFFERENCE_MAX_S + batch_ms.div_ceil(MS_PER_S) + between_ms.div_ceil(MS_PER_S);
        let times = answers.each_mut().map(take_times);
        assert_eq!(answers[0], answers[1]);
        assert!(!answers[0].contains("EN"), "the source has lost a record: {}", answers[0]);
        let differs = |(there, here): (&i64, &i64)| {
            there.abs_diff(*here) > apart_s || (*there == -1) != (*here == -1)
        };
        assert!(!times[0].iter().zip(&times[1]).any(differs), "{apart_s} s: {times:?}");
    }
}

/// Copies so many records while a client reads them, and looks at every one.
fn copy_a_live_memcached(records: usize, memory_mib: &str) {
    let options = ["-m", memory_mib, "-o", HASH_SIZE];
    let source = Server::start(&Program::installed(), &options);
    fill(&source, records);
    let large = [b"set large 5 0 250000\r\n", &[b'L'; 250_000][..], b"\r\n"].concat();
    source.ask(&large, b"STORED\r\n");
    on_kelvin(&["-m", memory_mib], |target| {
        // What a client has written stays.
        target.ask(b"set key:%0 1 0 5\r\nnewer\r\n", b"STORED\r\n");
        let is_over = AtomicBool::new(false);
        let started = Instant::now();
        let (succeeded, said) = std::thread::scope(|scope| {
            scope.spawn(|| keep_reading(&source, records, &is_over));
            let outcome = import(&source, target);
            is_over.store(true, Ordering::Relaxed);
            outcome
        });
        let took_ms = started.elapsed().as_millis() as u64;
        println!("{said} in {took_ms} ms");
        // What is read moves in the lists of a memcached, and may be met twice: it is there then.
        assert!(succeeded && said.contains(&format!(": {records} copied, ")), "{said}");
        let batch_ms = batch_ms(&said);
        assert!(batch_ms <= took_ms, "a batch took longer than all of them: {said}");
        compare(&source, target, 1..records, batch_ms);
        target.ask(b"mg large s f t\r\n", b"HD s250000 f5 t-1\r\n");
        target.ask(b"mg key:%0 v f\r\n", b"VA 5 f1\r\nnewer\r\n");
        let (succeeded, said) = import(&source, target);
        assert!(succeeded && said.contains(": 0 copied"), "{said}");
    });
}

/// Reads records at random until `is_over`.
fn keep_reading(source: &Server, records: usize, is_over: &AtomicBool) {
    let (mut conn, mut rng) = (source.connect(), Rng::new(1));
    while !is_over.load(Ordering::Relaxed) {
        let keys = (0..BATCH).map(|_| key(rng.below(records)));
        let ask = keys.map(|key| format!("get {key}\r\n")).collect::<String>() + "mn\r\n";
        conn.exchange(&[ask.as_bytes()], |got| got.ends_with(b"\r\nMN\r\n"));
    }
}

#[test]
fn a_live_memcached_is_copied_with_flags_and_time() {
    copy_a_live_memcached(RECORDS, "256");
}

#[test]
#[ignore = "soak: a million records"]
fn soak_a_million_records_are_copied() {
    copy_a_live_memcached(SOAK_RECORDS, "1024");
}

#[test]
fn an_import_logs_in_where_it_is_asked_to() {
    let dir = Directory::new();
    let there = dir.file("there", "me:secret\nother:password\n");
    let here = dir.file("here", "other:password\n");
    let log_in = |server: &Server, login: &[u8]| {
        let mut conn = server.connect();
        let head = format!("set k 0 0 {}\r\n", login.len());
        conn.ask(&[head.as_bytes(), login, b"\r\n"].concat(), b"STORED\r\n");
        conn
    };
    let source = Server::start(&Program::installed(), &["-Y", &there]);
    log_in(&source, b"me secret").ask(b"set a 7 0 1\r\nx\r\n", b"STORED\r\n");
    on_kelvin(&["-Y", &here], |target| {
        let (succeeded, said) = import(&source, target);
        assert!(!succeeded && said.contains("asks for a login: --login names"), "{said}");
        let (succeeded, said) = import_with(&source, target, &["--login", &there]);
        assert!(!succeeded && said.contains("asks for a login: --into-login"), "{said}");
        let (succeeded, said) = import_with(&source, target, &["--login", &here]);
        assert!(!succeeded, "the source has two users: {said}");
        let both = ["--login", &there, "--into-login", &here];
        let (succeeded, said) = import_with(&source, target, &both);
        assert!(succeeded && said.starts_with("1 records: 1 copied"), "{said}");
        log_in(target, b"other password").ask(b"mg a v f\r\n", b"VA 1 f7\r\nx\r\n");
        let both = ["--login", &there, "--into-login", &there];
        let (succeeded, said) = import_with(&source, target, &both);
        assert!(!succeeded && said.contains("refuses the login of --into-login"), "{said}");
    });
    // Where nobody has to log in, a login is not stored as a record.
    on_kelvin(&[], |target| {
        let both = ["--login", &there, "--into-login", &there];
        let (succeeded, said) = import_with(&source, target, &both);
        assert!(succeeded, "{said}");
        assert_eq!(target.stat("", "curr_items").as_deref(), Some("1"));
    });
}

#[test]
fn who_speaks_binary_only_cannot_be_copied() {
    let source = Server::start(&Program::installed(), &["-B", "binary"]);
    on_kelvin(&[], |target| {
        let (succeeded, said) = import(&source, target);
        assert!(!succeeded && said.contains("does not answer in the text protocol"), "{said}");
    });
}

/// Takes the times out of the heads of meta replies.
fn take_times(text: &mut String) -> Vec<i64> {
    let mut times = Vec::new();
    let lines: Vec<String> = text
        .lines()
        .map(|line| match line.rsplit_once(" t") {
            Some((head, time)) if line.starts_with("VA ") => {
                times.push(time.parse().expect("a time is a number"));
                head.to_owned()
            }
            _ => line.to_owned(),
        })
        .collect();
    *text = lines.join("\n");
    times
}

#[test]
fn what_is_stale_or_awaited_is_not_copied_and_stays_as_it_was() {
    // To mark as stale is what a memcached of 1.6.18 can as well.
    let source = Server::start(&Program::installed(), &[]);
    let mut conn = source.connect();
    conn.ask(b"ms stale 3 T100\r\nold\r\nmd stale I T30\r\n", b"HD\r\nHD\r\n");
    conn.ask(b"ms won 3 T100\r\nold\r\nmd won I T30\r\nmg won\r\n", b"HD\r\nHD\r\nHD X W\r\n");
    conn.ask(b"mg vivid N30 v\r\nms fresh 3\r\nnew\r\n", b"VA 0 W\r\n\r\nHD\r\n");
    on_kelvin(&[], |target| {
        let (succeeded, said) = import(&source, target);
        let counts = "4 records: 1 copied, 0 were there already, 0 were gone, 3 are being renewed";
        assert!(succeeded && said.starts_with(counts), "{said}");
        target.ask(b"mg stale\r\nmg won\r\nmg vivid\r\n", b"EN\r\nEN\r\nEN\r\n");
        target.ask(b"mg fresh v\r\n", b"VA 3\r\nnew\r\n");
    });
    // Who asks first still is the one to renew it; the others know that somebody does.
    conn.ask(b"mg stale\r\nmg stale\r\n", b"HD X W\r\nHD Z X\r\n");
    conn.ask(b"mg won\r\nmg vivid\r\n", b"HD Z X\r\nHD Z\r\n");
}

#[test]
fn an_import_says_what_is_in_its_way() {
    let source = Server::start(&Program::installed(), &["-X"]);
    on_kelvin(&[], |target| {
        let (succeeded, said) = import(&source, target);
        assert!(!succeeded && said.contains("it was started with -X"), "{said}");
        let (succeeded, said) = import(target, target);
        assert!(!succeeded && said.contains("cannot be copied into itself"), "{said}");
    });
}
