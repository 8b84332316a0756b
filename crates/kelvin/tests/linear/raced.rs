//! What one client gets is read while another sets it: memory is left with what was set.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    end,
    harness::{
        conn::{Got, REPLY_TIMEOUT},
        log_directory::{Directory, record, set, stat},
        repeated,
        server::Io,
    },
};

/// Keys that memory does not have, as the server has just begun.
const KEYS: usize = 960;
const VALUE_BYTES: usize = 1000;
/// Of these so many are got and set at once: fewer than a connection may have under way.
const TOGETHER: usize = 32;

fn name(key: usize) -> String {
    format!("raced-{key}")
}

fn play(io: Io) {
    let directory = Directory::with_log();
    let server = directory.serve(io, &[]);
    let old = |key: usize| set(&name(key), 0, &repeated(&format!("old {key} "), VALUE_BYTES));
    let stored = |count: usize| b"STORED\r\n".repeat(count);
    server.connect().ask(&(0..KEYS).flat_map(old).collect::<Vec<u8>>(), &stored(KEYS));
    end(server);

    let server = directory.serve(io, &[]);
    let (mut reader, mut writer) = (server.connect(), server.connect());
    for first in (0..KEYS).step_by(TOGETHER) {
        let keys = first..first + TOGETHER;
        let gets: String = keys.clone().map(|key| format!("get {}\r\n", name(key))).collect();
        // The last gets are read the longest, so it is their keys that are set first.
        let new = |key: usize| set(&name(key), 0, b"new");
        let sets: Vec<u8> = keys.clone().rev().flat_map(new).collect();
        reader.send(gets.as_bytes());
        writer.ask(&sets, &stored(TOGETHER));
        let mut got = Vec::new();
        while ends(&got) < TOGETHER {
            assert_eq!(reader.read_once(&mut got, REPLY_TIMEOUT), Got::Bytes, "gets are answered");
        }
        let shown: Vec<u8> = keys
            .flat_map(|key| [&record(&name(key), 0, b"new")[..], b"END\r\n"].concat())
            .collect();
        let (got, _) = reader.exchange(&[gets.as_bytes()], |got| ends(got) >= TOGETHER);
        assert!(got == shown, "{io:?}: memory is stale: {}", got.escape_ascii());
    }
    // Threads show their figures once a second.
    let deadline = Instant::now() + REPLY_TIMEOUT;
    while stat(&mut writer, "table_fills_refused") == 0 {
        assert!(Instant::now() < deadline, "{io:?}: no set came while its key was read");
        thread::sleep(Duration::from_millis(50));
    }
    end(server);
}

/// How many gets were answered.
fn ends(got: &[u8]) -> usize {
    got.windows(5).filter(|it| it == b"END\r\n").count()
}

#[test]
fn a_read_leaves_nothing_older_in_memory() {
    play(Io::Uring);
    play(Io::Epoll);
}
