//! The limits on how many clients there are and how long they stay.

use std::time::{Duration, Instant};

use super::LARGE_BYTES;
use crate::harness::conn::Conn;
use crate::harness::server::Server;

/// A stop takes no longer than this, whatever clients do: the drain timeout and some slack.
const STOP_MAX: Duration = Duration::from_secs(15);

#[test]
fn one_connection_too_many_is_told_so_and_closed() {
    const LIMIT: usize = 20;
    let server = Server::kelvin_with_memory(super::SERVING, "64MiB", &["--max-connections", "20"]);
    let mut conns: Vec<Conn> = Vec::new();
    while conns.len() < LIMIT {
        let mut conn = server.connect();
        // The probes of the start may still be counted.
        let (got, closed) = conn.exchange(&[b"mn\r\n"], |got| got.ends_with(b"\r\n"));
        if !closed && got == b"MN\r\n" {
            conns.push(conn);
        }
    }
    for _ in 0..3 {
        let mut refused = server.connect();
        let reply = refused.read_to_close();
        assert_eq!(String::from_utf8_lossy(&reply), "ERROR Too many open connections\r\n");
    }
    for conn in &mut conns {
        conn.ask(b"mn\r\n", b"MN\r\n");
    }
    conns.pop();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let (got, _) = server.connect().exchange(&[b"mn\r\n"], |got| got.ends_with(b"\r\n"));
        if got == b"MN\r\n" {
            break;
        }
        assert!(Instant::now() < deadline, "no place came free");
    }
}

#[test]
fn idle_connections_are_closed_and_busy_ones_kept() {
    let server = Server::kelvin_with_memory(super::SERVING, "64MiB", &["--idle-timeout", "1s"]);
    let start = Instant::now();
    let (mut idle, mut half, mut busy) = (server.connect(), server.connect(), server.connect());
    idle.ask(b"mn\r\n", b"MN\r\n");
    half.send(b"set k 0 0 100000\r\nhalf");
    while start.elapsed() < Duration::from_secs(3) {
        busy.ask(b"mn\r\n", b"MN\r\n");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(idle.read_to_close(), b"");
    assert_eq!(half.read_to_close(), b"");
    busy.ask(b"get k\r\n", b"END\r\n");
}

#[test]
fn without_a_timeout_idle_connections_stay() {
    let server = Server::kelvin(super::SERVING, &[]);
    let mut idle = server.connect();
    idle.ask(b"mn\r\n", b"MN\r\n");
    std::thread::sleep(Duration::from_secs(3));
    idle.ask(b"mn\r\n", b"MN\r\n");
}

#[test]
fn a_stop_delivers_the_replies_of_what_was_received() {
    const COMMANDS: usize = 300;
    let mut server = Server::kelvin(super::SERVING, &[]);
    let mut conns: Vec<Conn> =
        (0..8).map(|n| if n % 2 == 0 { server.connect() } else { server.connect_unix() }).collect();
    let value = "v".repeat(20_000);
    let stored = format!("set big 0 0 {}\r\n{value}\r\n", value.len());
    conns[0].ask(stored.as_bytes(), b"STORED\r\n");
    let one = format!("VALUE big 0 {}\r\n{value}\r\nEND\r\n", value.len());
    let request = b"get big\r\n".repeat(COMMANDS);
    for conn in &mut conns {
        conn.send(&request);
    }
    // The first reply shows that the burst has arrived: it is one packet.
    let mut first = vec![Vec::new(); conns.len()];
    for (conn, got) in conns.iter_mut().zip(&mut first) {
        conn.read_once(got, Duration::from_secs(10));
        assert!(!got.is_empty());
    }
    server.terminate();
    for (conn, mut got) in conns.iter_mut().zip(first) {
        got.extend(conn.read_to_close());
        assert_eq!(got.len(), one.len() * COMMANDS);
        assert!(got.chunks(one.len()).all(|c| c == one.as_bytes()));
    }
    let status = server.wait_for_end(STOP_MAX).expect("the server stops");
    assert!(status.success(), "{status}");
}

#[test]
fn a_stop_refuses_new_clients_and_leaves_no_socket() {
    let mut server = Server::kelvin(super::SERVING, &[]);
    let mut conn = server.connect();
    conn.ask(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    server.terminate();
    assert_eq!(conn.read_to_close(), b"");
    let status = server.wait_for_end(STOP_MAX).expect("the server stops");
    assert!(status.success(), "{status}");
    assert!(std::net::TcpStream::connect(server.addr()).is_err());
    assert!(!server.unix_path().exists(), "the socket's file is left");
}

#[test]
fn a_stop_does_not_wait_for_ever_for_a_client_that_does_not_read() {
    let mut server =
        Server::kelvin_with_memory(super::SERVING, "64MiB", &["--drain-timeout", "2s"]);
    let value = vec![b'v'; LARGE_BYTES];
    let head = format!("set big 0 0 {LARGE_BYTES}\r\n");
    let request = [head.as_bytes(), &value, b"\r\n"].concat();
    server.connect().ask(&request, b"STORED\r\n");
    let mut deaf = server.connect();
    deaf.send(&b"get big\r\n".repeat(50));
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    server.terminate();
    server.wait_for_end(STOP_MAX).expect("the server stops");
    assert!(start.elapsed() < Duration::from_secs(8), "it took {:?}", start.elapsed());
}
