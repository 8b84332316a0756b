//! `flush_all`, where it is allowed: all is gone, or nothing, whenever the server is killed.

use std::{thread, time::Duration};

use super::IO;
use crate::harness::{
    conn::Conn,
    log_directory::{Directory, set},
    server::Server,
};

const END_MAX: Duration = Duration::from_secs(20);

/// Some of them in parts, which memory never has.
const KEYS: usize = 40;
const LARGE_EACH: usize = 20;

/// How often a server is killed that was asked to flush.
const ROUNDS: usize = 16;

/// When that is: the first two know what is to be there, the others look for the moment at which
/// the flush is done.
#[derive(Clone, Copy)]
enum Killed {
    BeforeItIsRead,
    Answered,
    After(Duration),
}

/// One that takes values in parts, and flushes.
fn serve(directory: &Directory) -> Server {
    directory.serve_values(IO, "1MiB", &["--flush-durable", "true"])
}

fn fill(conn: &mut Conn, round: usize) {
    for key in 0..KEYS {
        let value = vec![b'v'; if key % LARGE_EACH == 0 { 300 << 10 } else { 100 + round }];
        conn.ask(&set(&format!("k{key}"), 0, &value), b"STORED\r\n");
    }
}

/// How many of the keys are there.
fn there(conn: &mut Conn) -> usize {
    let is_there = |key: &usize| {
        // Its value is not sent.
        let request = format!("mg k{key}\r\n");
        let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"\r\n"));
        reply.starts_with(b"HD")
    };
    (0..KEYS).filter(is_there).count()
}

#[test]
fn a_flush_is_refused_unless_it_is_allowed() {
    let directory = Directory::with_log();
    let server = directory.serve(IO, &[]);
    let mut conn = server.connect();
    conn.ask(b"set a 0 0 1\r\n1\r\n", b"STORED\r\n");
    let refused = b"CLIENT_ERROR flush_all not allowed\r\nVALUE a 0 1\r\n1\r\nEND\r\n";
    conn.ask(b"flush_all\r\nget a\r\n", refused);
}

/// Asks for a flush, and kills the server. Says whether the flush was answered.
fn flush_and_kill(server: Server, conn: &mut Conn, killed: Killed) -> bool {
    if matches!(killed, Killed::BeforeItIsRead) {
        server.signal("STOP");
    }
    conn.send(b"flush_all\r\n");
    match killed {
        Killed::BeforeItIsRead => {}
        Killed::Answered => conn.ask(b"", b"OK\r\n"),
        Killed::After(time) => thread::sleep(time),
    }
    // Killed, not told to end.
    drop(server);
    conn.read_to_close().starts_with(b"OK") || matches!(killed, Killed::Answered)
}

#[test]
fn all_is_gone_or_nothing_when_a_server_is_killed_that_flushes() {
    let directory = Directory::with_log();
    let mut after = Duration::from_millis(3);
    for round in 0..ROUNDS {
        let server = serve(&directory);
        let mut conn = server.connect();
        fill(&mut conn, round);
        let killed = match round {
            0 => Killed::BeforeItIsRead,
            1 => Killed::Answered,
            _ => Killed::After(after),
        };
        let is_answered = flush_and_kill(server, &mut conn, killed);
        let server = serve(&directory);
        let there = there(&mut server.connect());
        match (killed, there) {
            (Killed::BeforeItIsRead, KEYS) | (Killed::Answered, 0) => {}
            (Killed::After(_), 0) => after /= 2,
            (Killed::After(_), KEYS) => {
                assert!(!is_answered, "round {round}: a flush that was answered is undone");
                after = after * 2 + Duration::from_micros(100);
            }
            _ => panic!("round {round}: {there} of {KEYS} are there"),
        }
        println!("round {round}: {there} of {KEYS}, next {after:?}");
    }
}

#[test]
fn what_is_stored_behind_a_flush_outlasts_a_stop_and_a_kill() {
    let directory = Directory::with_log();
    for (round, is_killed) in [true, false, true].into_iter().enumerate() {
        let mut server = serve(&directory);
        let mut conn = server.connect();
        fill(&mut conn, round);
        conn.ask(b"flush_all\r\nset a 0 0 1\r\n1\r\n", b"OK\r\nSTORED\r\n");
        assert_eq!(there(&mut conn), 0);
        drop(conn);
        if !is_killed {
            server.terminate();
            assert!(server.wait_for_end(END_MAX).expect("it ends").success());
        }
        drop(server);
        let server = serve(&directory);
        let mut conn = server.connect();
        conn.ask(b"get a\r\n", b"VALUE a 0 1\r\n1\r\nEND\r\n");
        assert_eq!(there(&mut conn), 0, "what was flushed is back");
    }
}
