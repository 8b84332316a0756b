//! The binary protocol.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
};

use super::servers::{Server, is_durable, on_both, on_kelvin};
use crate::harness::binary::{Answer, Ask, converse, exchange};

/// Flush, and quiet.
const FLUSHES: [u8; 2] = [0x08, 0x18];

/// Bytes of a value that comes and goes in pieces.
const LARGE_BYTES: u32 = if super::ON_DISK.is_none() { 400_000 } else { 120_000 };

/// Tokens as the order in which they were first seen: each server has numbers of its own.
fn ranked(mut answers: Vec<Answer>) -> Vec<Answer> {
    let mut seen = vec![0];
    for answer in &mut answers {
        let rank = seen.iter().position(|token| *token == answer.token).unwrap_or(seen.len());
        if rank == seen.len() {
            seen.push(answer.token);
        }
        answer.token = rank as u64;
    }
    answers
}

fn told(server: &Server, asks: &[Ask]) -> (Vec<Answer>, bool) {
    let (answers, closed) = converse(&mut server.connect(), asks);
    (ranked(answers), closed)
}

/// Append, prepend, or a login.
fn join(opcode: u8, key: &str, value: &str) -> Ask {
    Ask { value: value.into(), ..Ask::new(opcode, key) }
}

/// All that reads.
fn retrievals(key: &str) -> Vec<Ask> {
    let plain = [0x00, 0x09, 0x0c, 0x0d].map(|opcode| Ask::new(opcode, key));
    let timed = [0x1c, 0x1d, 0x1e, 0x23, 0x24].map(|opcode| Ask::timed(opcode, key, 1000));
    [&plain[..], &timed].concat()
}

/// What finds no record, and at last makes one.
fn of_no_record() -> Vec<Ask> {
    vec![
        Ask::store(0x03, "k", 0, "1"),
        Ask::store(0x13, "k", 0, "1"),
        join(0x0e, "k", "1"),
        join(0x19, "k", "1"),
        join(0x0f, "k", "1"),
        join(0x1a, "k", "1"),
        Ask::new(0x04, "k"),
        Ask::new(0x14, "k"),
        Ask { token: 1, ..Ask::store(0x01, "k", 0, "1") },
        Ask { token: 1, ..Ask::new(0x04, "k") },
        Ask::store(0x02, "k", 0, "1"),
    ]
}

/// What finds it.
fn of_a_record() -> Vec<Ask> {
    vec![
        Ask::store(0x02, "k", 0, "2"),
        Ask::store(0x12, "k", 0, "2"),
        Ask::store(0x03, "k", 0, "3"),
        Ask::store(0x13, "k", 0, "4"),
        join(0x0e, "k", "5"),
        join(0x19, "k", "6"),
        join(0x0f, "k", "2"),
        join(0x1a, "k", "1"),
        Ask::new(0x0c, "k"),
    ]
}

/// What finds another token.
fn of_another_token() -> Vec<Ask> {
    vec![
        Ask { token: 1 << 60, ..Ask::store(0x01, "k", 0, "x") },
        Ask { token: 1 << 60, ..Ask::store(0x11, "k", 0, "x") },
        Ask { token: 1 << 60, ..join(0x0e, "k", "x") },
        Ask { token: 1 << 60, ..Ask::new(0x04, "k") },
        Ask { token: 1 << 60, ..Ask::count(0x05, "k", 1, 0, 0) },
    ]
}

/// Times in the past and far off, and numbers.
fn of_times_and_numbers() -> Vec<Ask> {
    vec![
        Ask::store(0x11, "past", 2_592_001, "x"),
        Ask::new(0x00, "past"),
        Ask::store(0x11, "later", u32::MAX, "x"),
        Ask::new(0x00, "later"),
        Ask::count(0x05, "n", 1, 0, u32::MAX),
        Ask::count(0x15, "n", 1, 0, u32::MAX),
        Ask::count(0x06, "n", 1, 40, 0),
        Ask::count(0x05, "n", 2, 0, 0),
        Ask::count(0x15, "n", 2, 0, 0),
        Ask::count(0x06, "n", 45, 0, 0),
        Ask::count(0x05, "n", u64::MAX, 0, 0),
        Ask::count(0x05, "n", 2, 0, 0),
        Ask::new(0x00, "n"),
        Ask::store(0x11, "s", 0, "text"),
        Ask::count(0x05, "s", 1, 0, 0),
        Ask::count(0x16, "s", 1, 0, 0),
    ]
}

/// What ends, and what is about no record.
fn of_nothing() -> Vec<Ask> {
    vec![
        Ask::new(0x14, "k"),
        Ask::new(0x04, "n"),
        Ask::timed(0x08, "", 1000),
        Ask::new(0x08, ""),
        Ask::new(0x18, ""),
        Ask::new(0x00, "s"),
        Ask::new(0x1b, ""),
        Ask::new(0xee, ""),
        Ask::new(0x20, ""),
        join(0x21, "PLAIN", "\0a\0b"),
        Ask::new(0x0a, ""),
        Ask::new(0x10, "nothing"),
        Ask::new(0x10, "detail"),
    ]
}

#[test]
fn every_operation_is_answered_alike() {
    let mut script = [
        retrievals("k"),
        of_no_record(),
        retrievals("k"),
        of_a_record(),
        of_another_token(),
        of_times_and_numbers(),
        of_nothing(),
    ]
    .concat();
    if is_durable("`flush_all`") {
        script.retain(|ask| !FLUSHES.contains(&ask.opcode));
    }
    on_both(&[], |server| {
        let told = told(server, &script);
        assert!(!told.1 && told.0.len() > 50, "{told:?}");
        told
    });
}

#[test]
fn what_is_malformed_is_answered_alike() {
    let form = |opcode, extras: usize, key: usize, value: usize| Ask {
        extras: vec![0; extras],
        value: vec![b'v'; value],
        ..Ask::new(opcode, vec![b'k'; key])
    };
    let mut requests: Vec<Vec<u8>> = [
        form(0x00, 0, 0, 0),
        form(0x00, 4, 1, 0),
        form(0x00, 0, 1, 1),
        form(0x00, 0, 251, 0),
        form(0x01, 0, 1, 1),
        form(0x01, 8, 0, 1),
        form(0x04, 0, 0, 0),
        form(0x05, 0, 1, 0),
        form(0x05, 20, 1, 1),
        form(0x07, 0, 1, 0),
        form(0x08, 5, 0, 0),
        form(0x0a, 0, 1, 0),
        form(0x0b, 0, 0, 1),
        form(0x0e, 8, 1, 1),
        form(0x10, 4, 0, 0),
        form(0x1c, 0, 1, 0),
        form(0x1d, 4, 0, 0),
        form(0x07, 0, 0, 0),
        form(0x17, 0, 0, 0),
        form(0x20, 0, 1, 0),
    ]
    .iter()
    .map(Ask::bytes)
    .collect();
    let with = |at: usize, bytes: &[u8]| {
        let mut request = Ask::store(0x01, "key", 0, "value").bytes();
        request[at..at + bytes.len()].copy_from_slice(bytes);
        request
    };
    requests.push([Ask::new(0x0a, "").bytes(), with(0, &[0x81])].concat());
    requests.push(with(8, &[0, 0, 0, 5]));
    on_both(&[], |server| {
        let told = requests.iter().map(|request| exchange(&mut server.connect(), &[request]));
        let told: Vec<_> = told.collect();
        assert!(told.iter().all(|(answers, closed)| answers.len() <= 1 && *closed), "{told:?}");
        told
    });
}

#[test]
fn large_values_come_and_go_in_pieces() {
    let value: Vec<u8> = (0..LARGE_BYTES).map(|number| (number * 7 % 251) as u8).collect();
    let asks = [
        Ask::store(0x11, "large", 0, &value),
        Ask { value: value.clone(), ..Ask::new(0x19, "large") },
        Ask::new(0x0c, "large"),
        Ask::store(0x01, "large", 0, vec![b'x'; (1 << 20) + 1]),
        Ask::new(0x09, "large"),
    ];
    let bytes: Vec<u8> = asks.iter().flat_map(Ask::bytes).collect();
    let pieces: Vec<&[u8]> = bytes.chunks(90_001).collect();
    on_both(&[], |server| {
        let (answers, closed) = exchange(&mut server.connect(), &pieces);
        let [got, refused] = &answers[..] else { panic!("{} answers", answers.len()) };
        assert!(got.value == [&value[..], &value].concat());
        assert_eq!((refused.status, &refused.value[..], closed), (3, &b"Too large."[..], false));
    });
}

#[test]
fn one_protocol_may_be_all_that_is_spoken() {
    let noop = Ask::new(0x0a, "");
    on_both(&["-B", "binary"], |server| {
        assert_eq!(told(server, std::slice::from_ref(&noop)).0.len(), 1);
        let mut conn = server.connect();
        conn.send(b"get a-key-of-more-than-a-header\r\n");
        assert_eq!(conn.read_to_close(), b"");
    });
    on_both(&["-B", "ascii"], |server| {
        let mut conn = server.connect();
        conn.send(&Ask::new(0x0b, "").bytes());
        conn.ask(b"\r\n", b"ERROR\r\n");
        server.stat("settings", "binding_protocol")
    });
    on_both(&["-B", "auto"], |server| {
        assert_eq!(told(server, std::slice::from_ref(&noop)).0.len(), 1);
        server.ask(b"mn\r\n", b"MN\r\n");
        server.stat("settings", "binding_protocol")
    });
}

#[test]
fn statistics_have_the_names_that_text_has() {
    on_both(&[], |server| {
        server.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
        for report in ["", "settings", "items", "slabs", "sizes"] {
            let (answers, _) = told(server, &[Ask::new(0x10, report)]);
            let names: BTreeSet<_> =
                answers.iter().map(|answer| String::from_utf8_lossy(&answer.key)).collect();
            assert!(names.contains(""), "the end of {report:?}");
            for name in names.iter().filter(|name| !name.is_empty()) {
                assert!(server.stat(report, name).is_some(), "{report:?} {name}");
            }
            assert_eq!(answers.len(), names.len(), "{report:?}");
        }
        let (answers, _) = told(server, &[Ask::new(0x10, "detail on")]);
        told(server, &[Ask::store(0x01, "a:1", 0, "v"), Ask::new(0x00, "a:1")]);
        (answers, told(server, &[Ask::new(0x10, "detail dump")]))
    });
}

/// The conformance checker of libmemcached, which Debian calls by another name.
#[test]
fn memcapable_is_content() {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&paths)
        .flat_map(|dir| ["memcapable", "memccapable"].map(|name| dir.join(name)))
        .find(|file| file.is_file())
        .expect("no memcapable in PATH: `cargo xtask setup` installs it");
    on_kelvin(&[], |server| {
        let address = server.tcp();
        let output = Command::new(program)
            .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()])
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let passed = |kind: &str| {
            said.lines().filter(|line| line.starts_with(kind) && line.contains("[pass]")).count()
        };
        // Four are about a flush, two of them quiet.
        let of_flushes = if is_durable("`flush_all`") { 2 } else { 0 };
        let expected = 27 - of_flushes;
        assert_eq!((passed("ascii"), passed("binary")), (expected, expected), "{said}");
        assert_eq!(output.status.success(), of_flushes == 0, "{said}");
    });
}
