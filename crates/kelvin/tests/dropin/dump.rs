//! Lists of keys, and copies of all records by them.

use std::{collections::BTreeSet, process::Command};

use crate::servers::{Program, Server, on_both, on_kelvin};

/// Records of the copy: enough for batches and for growth on both sides.
const RECORDS: usize = 20_000;

/// The reply to `request`, to its last line.
fn report(server: &Server, request: &str, end: &[u8]) -> String {
    let request = format!("{request}\r\n");
    let (reply, _) = server.connect().exchange(&[request.as_bytes()], |got| got.ends_with(end));
    String::from_utf8(reply).expect("a list of keys is text")
}

/// The words of each line of a metadump, but for those that depend on the moment or on how records
/// are laid out, and the flags, which older versions do not tell.
fn steady(metadump: &str) -> BTreeSet<String> {
    let varies = ["exp=1", "la=", "cas=", "size=", "flags="];
    let lines = metadump.lines().filter(|line| line.starts_with("key="));
    lines
        .map(|line| {
            let words = line.split(' ').filter(|word| !varies.iter().any(|v| word.starts_with(v)));
            words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
        })
        .collect()
}

#[test]
fn a_metadump_has_all_keys_and_their_facts() {
    on_both(&[], |server| {
        let mut conn = server.connect();
        conn.ask(b"set a%b 5 0 2\r\nhi\r\n", b"STORED\r\n");
        conn.ask(b"set foo 7 100 3\r\nabc\r\n", b"STORED\r\n");
        conn.ask(b"get foo\r\n", b"VALUE foo 7 3\r\nabc\r\nEND\r\n");
        let dump = report(server, "lru_crawler metadump all", b"END\r\n");
        let lines = steady(&dump);
        assert_eq!(lines.len(), 2, "{dump}");
        server.ask(b"lru_crawler metadump x\r\n", b"BADCLASS invalid class id\r\n");
        lines
    });
}

#[test]
fn a_server_may_refuse_to_list_keys() {
    on_both(&["-X"], |server| {
        server.ask(b"lru_crawler metadump all\r\n", b"ERROR metadump not allowed\r\n");
        server.ask(b"stats cachedump 1 0\r\n", b"CLIENT_ERROR stats cachedump not allowed\r\n");
        server.stat("settings", "dump_enabled")
    });
}

/// Runs `kelvin import` from one server to another: whether it succeeded, and what it said.
fn import(source: &Server, target: &Server) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    let target = target.tcp().to_string();
    command.args(["import", &source.tcp().to_string(), "--into", &target, "--quiet"]);
    let output = command.output().expect("kelvin runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn key(number: usize) -> String {
    format!("key:%{number:x}")
}

#[test]
fn a_memcached_is_copied_with_flags_and_time() {
    let source = Server::start(&Program::installed(), &["-m", "128"]);
    let mut conn = source.connect();
    let mut request = Vec::new();
    for number in 0..RECORDS {
        let (ttl_s, value) = ([0, 3_600, 2_000_000][number % 3], "v".repeat(number % 100));
        let head = format!("{} {} {ttl_s} {}", key(number), number % 65_536, value.len());
        request.extend(format!("set {head} noreply\r\n{value}\r\n").bytes());
    }
    request.extend(b"set large 5 0 300000 noreply\r\n");
    request.extend([b'L'; 300_000]);
    request.extend(b"\r\nmn\r\n");
    conn.ask(&request, b"MN\r\n");
    on_kelvin(&["-m", "128"], |target| {
        // What a client has written stays.
        target.ask(b"set key:%0 1 0 5\r\nnewer\r\n", b"STORED\r\n");
        let (succeeded, said) = import(&source, target);
        let copied = format!("{} records: {RECORDS} copied, 1 were there already", RECORDS + 1);
        assert!(succeeded && said.starts_with(&copied), "{said}");
        let (mut there, mut here) = (source.connect(), target.connect());
        for first in (1..RECORDS).step_by(100) {
            let keys: Vec<String> = (first..RECORDS.min(first + 100)).map(key).collect();
            let ask: String = keys.iter().map(|key| format!("mg {key} v f t\r\n")).collect();
            let ask = format!("{ask}mn\r\n");
            let mut answers = [&mut there, &mut here].map(|conn| {
                let (reply, _) = conn.exchange(&[ask.as_bytes()], |got| got.ends_with(b"MN\r\n"));
                String::from_utf8(reply).expect("text")
            });
            let times = answers.each_mut().map(take_times);
            assert_eq!(answers[0], answers[1]);
            let differs = |(there, here): (&i64, &i64)| there.abs_diff(*here) > 1;
            assert!(!times[0].iter().zip(&times[1]).any(differs), "{times:?}");
        }
        target.ask(b"mg large s f t\r\n", b"HD s300000 f5 t-1\r\n");
        target.ask(b"mg key:%0 v f\r\n", b"VA 5 f1\r\nnewer\r\n");
        let (succeeded, said) = import(&source, target);
        assert!(succeeded && said.contains(": 0 copied"), "{said}");
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
