//! A thousand clients that ask and never read: what each costs, and that others are served.

use std::time::{Duration, Instant};

use super::clients::{Crowd, raise_open_files};
use super::memory::{let_it_do_what_it_can, statistic};
use crate::harness::{
    conn::{Conn, REPLY_TIMEOUT},
    repeated,
    server::Server,
};

const CLIENTS: usize = 1000;

/// What `docs/memcached.md` says that a connection may have beside the common buffers.
const BYTES_PER_CONNECTION: u64 = 14 << 10;

/// Requests of each client. The replies to as many are several times what the kernel keeps for it.
const REQUESTS: usize = 1000;

/// Keys that others store and read.
const OTHER_KEYS: usize = 100;

/// Longer than a round of others' requests may take, most of it for a busy machine.
const ROUND_TIMEOUT: Duration = REPLY_TIMEOUT.checked_div(3).expect("three is not none");

/// Stores and reads back, each by a request of its own.
fn store_and_read(conn: &mut Conn, round: usize) {
    let start = Instant::now();
    for key in 0..OTHER_KEYS {
        conn.ask(format!("set o{key} 0 0 8\r\n{round:08}\r\n").as_bytes(), b"STORED\r\n");
        let reply = format!("VALUE o{key} 0 8\r\n{round:08}\r\nEND\r\n");
        conn.ask(format!("get o{key}\r\n").as_bytes(), reply.as_bytes());
    }
    assert!(start.elapsed() < ROUND_TIMEOUT, "round {round} took {:?}", start.elapsed());
}

/// Has a crowd ask for a value of so many bytes, and looks at the server meanwhile and afterwards.
fn never_read(value_bytes: usize) {
    raise_open_files();
    let mut server =
        Server::kelvin_with_memory(super::SERVING, "64MiB", &["--max-connections", "1100"]);
    let mut other = server.connect();
    // All memory for records is in use, so that none of what follows is new to the process.
    let mut fill = Vec::new();
    for key in 0..16_000 {
        fill.extend_from_slice(format!("set f{key} 0 0 4096 noreply\r\n").as_bytes());
        fill.extend(repeated(&format!("{key} "), 4096));
        fill.extend_from_slice(b"\r\n");
    }
    fill.extend(b"mn\r\n");
    other.ask(&fill, b"MN\r\n");
    store_and_read(&mut other, 0);
    let value = vec![b'v'; value_bytes];
    let header = format!("set v 0 0 {value_bytes}\r\n");
    other.ask(&[header.as_bytes(), &value, b"\r\n"].concat(), b"STORED\r\n");
    let buffer_bytes = statistic(&server, "memory_for_buffers ");
    assert_eq!(statistic(&server, "memory_for_connections "), 1100 * BYTES_PER_CONNECTION);
    let before = server.resident_bytes();

    let mut crowd = Crowd::connect_unix(&server, CLIENTS);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| crowd.send_until_stuck(|_| b"get v\r\n".repeat(REQUESTS)));
        while !sending.is_finished() {
            rounds += 1;
            store_and_read(&mut other, rounds);
        }
    });
    let_it_do_what_it_can(&server);
    store_and_read(&mut other, rounds + 1);
    // The clients are there, and have by far not been sent all that they asked for.
    assert_eq!(statistic(&server, "curr_connections "), CLIENTS as u64 + 2);
    let asked = (CLIENTS * REQUESTS) as u64;
    let hits = statistic(&server, "get_hits ");
    assert!((asked / 100..asked / 2).contains(&hits), "{hits} of {asked} found room");
    let cost = server.resident_bytes().saturating_sub(before);
    let most = CLIENTS as u64 * BYTES_PER_CONNECTION + buffer_bytes;
    assert!(cost <= most, "{cost} bytes for {CLIENTS} clients, {most} allowed");
    server.assert_serves();
}

#[test]
fn a_thousand_clients_that_never_read_values_that_are_copied() {
    never_read(4 << 10);
}

/// Many short values make more work for the queues than few long ones.
#[test]
fn a_thousand_clients_that_never_read_values_that_are_sent_in_place() {
    never_read(5 << 10);
}
