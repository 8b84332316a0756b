//! A server that is stopped in order keeps everything, and the next one starts with it.

use std::{net::TcpStream, thread, time::Duration};

use super::IO;
use crate::harness::{
    conn::{Conn, Got, REPLY_TIMEOUT},
    log_directory::{Directory, record, set, stat},
    server::Server,
};

const END_MAX: Duration = Duration::from_secs(20);

#[test]
fn everything_is_there_after_a_stop_in_order() {
    for mode in ["safe", "async"] {
        let directory = Directory::with_log();
        let mut server = directory.serve(IO, &["--write-mode", mode]);
        let mut conn = server.connect();
        let value = vec![b'v'; 3000];
        for key in 0..2000 {
            let request = [&set(&format!("k{key}"), key, &value)[..], b"mn\r\n"].concat();
            conn.ask(&request, b"STORED\r\nMN\r\n");
        }
        conn.ask(
            b"set soon 0 1 1\r\n1\r\nset later 7 1000 5\r\nlater\r\n",
            b"STORED\r\nSTORED\r\n",
        );
        conn.ask(b"delete k7\r\nincr none 1\r\n", b"DELETED\r\nNOT_FOUND\r\n");
        let told = |conn: &mut Conn| {
            let (reply, _) = conn.exchange(&[b"mg k8 c f s\r\n"], |got| got.ends_with(b"\r\n"));
            reply
        };
        let before = told(&mut conn);
        server.terminate();
        let ended = server.wait_for_end(END_MAX).expect("it ends");
        assert!(ended.success(), "{mode}: {ended}");
        drop(server);
        let server = directory.serve(IO, &[]);
        let mut conn = server.connect();
        conn.ask(b"mn\r\n", b"MN\r\n");
        assert!(server.log().contains("stopped_in_order=true"), "it is read: {}", server.log());
        // One of them may be a tombstone.
        let entries = stat(&mut conn, "log_entries");
        assert!((2000..=2002).contains(&entries), "{entries} entries");
        thread::sleep(Duration::from_millis(1100));
        conn.ask(b"get k7 soon later\r\n", b"VALUE later 7 5\r\nlater\r\nEND\r\n");
        for key in (0..2000).filter(|key| *key != 7) {
            let expected = [&record(&format!("k{key}"), key, &value)[..], b"END\r\n"].concat();
            conn.ask(format!("get k{key}\r\n").as_bytes(), &expected);
        }
        assert_eq!(told(&mut conn), before, "token and flags stay");
    }
}

#[test]
fn large_values_outlast_a_stop_and_the_next_start_is_no_recovery() {
    let directory = Directory::with_log();
    let mut server = directory.serve_values(IO, "1MiB", &[]);
    let mut conn = server.connect();
    let value = |key: u8| vec![b'a' + key; 300_000 + 100_000 * usize::from(key)];
    for key in 0..6 {
        conn.ask(&set(&format!("k{key}"), 0, &value(key)), b"STORED\r\n");
    }
    conn.ask(b"delete k5\r\ntouch k4 1000\r\n", b"DELETED\r\nTOUCHED\r\n");
    drop(conn);
    server.terminate();
    assert!(server.wait_for_end(END_MAX).expect("it ends").success());
    drop(server);
    let server = directory.serve_values(IO, "1MiB", &[]);
    assert!(server.log().contains("stopped_in_order=true"), "it is read: {}", server.log());
    let mut conn = server.connect();
    for key in 0..5 {
        let name = format!("k{key}");
        let expected = [&record(&name, 0, &value(key))[..], b"END\r\n"].concat();
        conn.ask(format!("get {name}\r\n").as_bytes(), &expected);
    }
    conn.ask(b"get k5\r\n", b"END\r\n");
}

const KEYS: usize = 300;

fn set_keys(conn: &mut Conn) {
    let value = vec![b'v'; 3000];
    for key in 0..KEYS {
        conn.ask(&set(&format!("k{key}"), 0, &value), b"STORED\r\n");
    }
}

fn check_keys(server: &Server) {
    let (mut conn, value) = (server.connect(), vec![b'v'; 3000]);
    for key in 0..KEYS {
        let expected = [&record(&format!("k{key}"), 0, &value)[..], b"END\r\n"].concat();
        conn.ask(format!("get k{key}\r\n").as_bytes(), &expected);
    }
}

/// Sets keys until the server is gone.
fn keep_setting(mut conn: Conn, number: usize) {
    let value = vec![b'o'; 3000];
    for key in 0.. {
        let name = format!("other{number}-{}", key % 1000);
        let request: Vec<u8> = (0..8).flat_map(|_| set(&name, 0, &value)).collect();
        let (mut reply, all) = (Vec::new(), 8 * b"STORED\r\n".len());
        if conn.try_send(&request).is_err() {
            return;
        }
        while reply.len() < all {
            if conn.read_once(&mut reply, REPLY_TIMEOUT) != Got::Bytes {
                return;
            }
        }
    }
}

/// Clients may be cut off; what was acknowledged before is not in memory alone.
#[test]
fn a_stop_that_waits_for_nobody_keeps_what_was_acknowledged() {
    let directory = Directory::with_log();
    let arguments = ["--write-mode", "async", "--shutdown-command", "true"];
    let mut server = directory.serve(IO, &arguments);
    let mut conn = server.connect();
    thread::scope(|scope| {
        for number in 0..4 {
            let stream = TcpStream::connect(server.addr()).expect("the server accepts connections");
            scope.spawn(move || keep_setting(Conn::tcp(stream), number));
        }
        set_keys(&mut conn);
        conn.send(b"shutdown\r\n");
        let ended = server.wait_for_end(END_MAX).expect("it ends");
        assert!(ended.success(), "{ended}: {}", server.log());
    });
    drop(server);
    let server = directory.serve(IO, &[]);
    check_keys(&server);
    assert!(server.log().contains("stopped_in_order=true"), "{}", server.log());
}

/// A client that takes no replies has the server wait for it; meanwhile others' writes are flushed.
#[test]
fn what_is_acknowledged_is_flushed_while_a_server_waits_for_clients() {
    let directory = Directory::with_log();
    let mut server = directory.serve(IO, &["--write-mode", "async", "--drain-timeout", "60s"]);
    let (mut slow, mut conn) = (server.connect(), server.connect());
    slow.ask(&set("large", 0, &vec![b'l'; 200_000]), b"STORED\r\n");
    slow.send(&b"get large\r\n".repeat(500));
    set_keys(&mut conn);
    server.terminate();
    // A second and a flush are what it may take.
    assert_eq!(server.wait_for_end(Duration::from_secs(4)), None, "{}", server.log());
    // Killed.
    drop((server, slow));
    let server = directory.serve(IO, &[]);
    check_keys(&server);
}
