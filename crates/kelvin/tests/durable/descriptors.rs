//! A process that has no descriptors left for a while.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::IO;
use crate::harness::{
    conn::{Conn, Got, REPLY_TIMEOUT},
    log_directory::{Directory, record, set, stat},
    repeated,
    server::Server,
};

/// The standard streams: whatever is opened then is one too many.
const NONE: u64 = 3;

const KEYS: usize = 600;

/// Whatever is to happen happens before: after ten seconds writes would hear of it.
const WAIT_MAX: Duration = Duration::from_secs(8);

fn limit(server: &Server, current: u64) -> Option<u64> {
    let pid = Pid::from_raw(server.pid().try_into().expect("a number of a process"));
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(current), maximum };
    prlimit(pid, Resource::Nofile, limit).expect("a process of the same user").current
}

fn value(key: usize) -> Vec<u8> {
    repeated(&format!("{key} "), 16 << 10)
}

/// It takes more segments than there are, each of them a file, and more than memory.
fn set_all(conn: &mut Conn) -> Vec<u8> {
    let requests: Vec<u8> =
        (0..KEYS).flat_map(|key| set(&format!("k{key}"), 0, &value(key))).collect();
    conn.send(&requests);
    let mut replies = Vec::new();
    while replies.len() < KEYS * b"STORED\r\n".len() {
        assert_eq!(conn.read_once(&mut replies, REPLY_TIMEOUT), Got::Bytes, "no answer comes");
    }
    replies
}

#[test]
fn writes_wait_for_descriptors_and_go_on() {
    let directory = Directory::with_log();
    let server = directory.serve(IO, &[]);
    let (mut conn, mut other) = (server.connect(), server.connect());
    conn.ask(b"set first 0 0 1\r\nx\r\n", b"STORED\r\n");
    other.ask(b"mn\r\n", b"MN\r\n");
    let before = limit(&server, NONE).expect("it has a limit");
    thread::scope(|scope| {
        let replies = scope.spawn(|| set_all(&mut conn));
        let deadline = Instant::now() + WAIT_MAX;
        while stat(&mut other, "table_keys_stalled") == 0 {
            assert!(Instant::now() < deadline, "nothing needs a descriptor");
            thread::sleep(Duration::from_millis(10));
        }
        assert!(!replies.is_finished(), "nothing needs a descriptor");
        assert_eq!(stat(&mut other, "log_read_only"), 0, "a lack of descriptors is for good");
        limit(&server, before);
        let replies = replies.join().expect("answers come");
        assert!(replies == b"STORED\r\n".repeat(KEYS), "{}", replies.escape_ascii());
    });
    assert_eq!(stat(&mut other, "log_read_only"), 0, "a lack of descriptors is for good");
    for key in 0..KEYS {
        let expected = [&record(&format!("k{key}"), 0, &value(key))[..], b"END\r\n"].concat();
        other.ask(format!("get k{key}\r\n").as_bytes(), &expected);
    }
}
