//! Clients that want the same record, or more memory than there is.

use std::{collections::BTreeMap, thread};

use super::servers::{has_disk, on_both};
use crate::harness::conn::Conn;

/// Clients that change one record.
const WRITERS: usize = 4;

/// How often each of them does.
const CHANGES: usize = 200;

/// Bytes of a value that takes many reads and many blocks.
const LARGE_BYTES: usize = if super::ON_DISK.is_none() { 400_000 } else { 250_000 };

/// The reply up to an end that no value here has.
fn reply(conn: &mut Conn, request: &[u8], ends: &[&[u8]]) -> Vec<u8> {
    conn.exchange(&[request], |got| ends.iter().any(|end| got.ends_with(end))).0
}

fn line(conn: &mut Conn, request: &[u8]) -> String {
    String::from_utf8(reply(conn, request, &[b"\r\n"])).expect("replies are text")
}

/// Adds one by `gets` and `cas` until it is stored; counts what each `cas` was answered.
fn add_one(conn: &mut Conn, answers: &mut BTreeMap<String, usize>) {
    loop {
        let found = reply(conn, b"gets count\r\n", &[b"END\r\n"]);
        let found = String::from_utf8(found).expect("it is a number");
        let words: Vec<&str> = found.split_ascii_whitespace().collect();
        let ["VALUE", "count", "0", _, token, number, "END"] = words[..] else {
            panic!("{found}");
        };
        let next = (number.parse::<usize>().expect("it is a number") + 1).to_string();
        let cas = format!("cas count 0 0 {} {token}\r\n{next}\r\n", next.len());
        let answer = line(conn, cas.as_bytes());
        let is_stored = answer == "STORED\r\n";
        *answers.entry(answer).or_default() += 1;
        if is_stored {
            return;
        }
    }
}

#[test]
fn of_clients_that_race_by_cas_none_undoes_another() {
    on_both(&["-t", "2"], |server| {
        server.connect().ask(b"set count 0 0 1\r\n0\r\n", b"STORED\r\n");
        let conns: Vec<Conn> = (0..WRITERS).map(|_| server.connect()).collect();
        let answers: Vec<BTreeMap<String, usize>> = thread::scope(|scope| {
            let add_all = |mut conn: Conn| {
                let mut answers = BTreeMap::new();
                (0..CHANGES).for_each(|_| add_one(&mut conn, &mut answers));
                answers
            };
            let clients: Vec<_> =
                conns.into_iter().map(|conn| scope.spawn(move || add_all(conn))).collect();
            clients.into_iter().map(|client| client.join().expect("it ends")).collect()
        });
        for answers in &answers {
            assert_eq!(answers["STORED\r\n"], CHANGES);
            assert!(answers.keys().all(|it| ["STORED\r\n", "EXISTS\r\n"].contains(&&**it)));
        }
        let total = (WRITERS * CHANGES).to_string();
        let expected = format!("VALUE count 0 {}\r\n{total}\r\nEND\r\n", total.len());
        server.connect().ask(b"get count\r\n", expected.as_bytes());
    });
}

#[test]
fn who_reads_a_large_value_sees_one_that_was_stored() {
    on_both(&["-t", "2", "-m", "64"], |server| {
        let set = |fill: u8| {
            let head = format!("set large 0 0 {LARGE_BYTES}\r\n").into_bytes();
            [head, vec![fill; LARGE_BYTES], b"\r\n".to_vec()].concat()
        };
        server.connect().ask(&set(b'a'), b"STORED\r\n");
        let (writers, mut reader) = ([server.connect(), server.connect()], server.connect());
        let head = format!("VALUE large 0 {LARGE_BYTES}\r\n").into_bytes();
        let seen = thread::scope(|scope| {
            for (mut conn, fills) in writers.into_iter().zip([b"bc", b"de"]) {
                let sets = fills.map(set);
                scope.spawn(move || {
                    (0..CHANGES).for_each(|at| conn.ask(&sets[at % 2], b"STORED\r\n"));
                });
            }
            let mut seen = 0;
            for _ in 0..CHANGES {
                let got = reply(&mut reader, b"get large\r\n", &[b"\r\nEND\r\n"]);
                let value = got.strip_prefix(&head[..]).expect("it is there");
                let value = value.strip_suffix(b"\r\nEND\r\n").expect("it has an end");
                assert_eq!(value.len(), LARGE_BYTES);
                assert!(b"abcde".contains(&value[0]), "{}", value[0]);
                assert!(value.iter().all(|byte| *byte == value[0]), "two values in one");
                seen += 1;
            }
            seen
        });
        assert_eq!(seen, CHANGES);
    });
}

#[test]
fn full_memory_evicts_what_is_old_and_keeps_what_is_new() {
    if has_disk("Nothing is evicted but copies") {
        return;
    }
    on_both(&["-m", "16", "-s", "{dir}/socket"], |server| {
        let mut conn = server.connect();
        let value = "v".repeat(8192);
        for key in 0..5_000 {
            let set = format!("set key{key} 0 0 8192\r\n{value}\r\n");
            conn.ask(set.as_bytes(), b"STORED\r\n");
        }
        let newest = (4_900..5_000)
            .all(|key| line(&mut conn, format!("mg key{key} s\r\n").as_bytes()) == "HD s8192\r\n");
        let oldest = (0..100)
            .any(|key| line(&mut conn, format!("mg key{key} s\r\n").as_bytes()) != "EN\r\n");
        let stat = |name| server.stat("", name).and_then(|it| it.parse::<u64>().ok());
        let (items, evictions) = (stat("curr_items"), stat("evictions"));
        assert_eq!(items.zip(evictions).map(|(items, gone)| items + gone), Some(5_000));
        (newest, oldest)
    });
}
