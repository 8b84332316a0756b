//! Clients that try to make the server hold more than it may.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::clients::{Crowd, open_files, raise_open_files};
use super::{LARGE_BYTES, SERVING};
use crate::harness::conn::REPLY_TIMEOUT;
use crate::harness::server::{Server, Table};

/// What the server is given for everything it keeps.
const MEMORY: &str = "64MiB";
const MEMORY_BYTES: u64 = 64 << 20;
/// The program itself, its threads' stacks and what the allocator keeps back.
const PROGRAM_BYTES_MAX: u64 = 12 << 20;
/// What the server is given for copies where its table is durable, what the log has beside it,
/// parts of large values on their way, and, for each of two threads, what may wait, be untaken and
/// be arriving: `docs/store.md`.
const DURABLE_BYTES: u64 = (2 + 32 + 2 * 4 + 2 * (16 + 64 + 32)) << 20;
/// The same of a table that spills, with what waits to be written, and its places.
const SPILL_BYTES: u64 = (8 + 32 + 2 + 2 * (16 + 64 + 32)) << 20;
/// Between two looks at the resident set.
const SAMPLE: Duration = Duration::from_millis(5);
/// A server that has done nothing for so long has nothing to do.
const QUIET: Duration = Duration::from_millis(300);

/// Runs `work` while another thread watches the server's resident set.
fn within_memory(server: &mut Server, work: impl FnOnce(&Server)) {
    let (done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let running = &*server;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(running.resident_bytes(), Ordering::Relaxed);
                std::thread::sleep(SAMPLE);
            }
        });
        // A panic must end the watch, too.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(running)));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    let most = most.load(Ordering::Relaxed);
    println!("at most {most} bytes were resident");
    let given = match SERVING.table {
        Table::Volatile => MEMORY_BYTES,
        Table::Durable => DURABLE_BYTES,
        Table::Spill => SPILL_BYTES,
    };
    assert!(most <= given + PROGRAM_BYTES_MAX, "{most} bytes were resident");
    server.assert_serves();
}

fn server() -> Server {
    Server::kelvin_with_memory(SERVING, MEMORY, &[])
}

#[test]
fn a_million_pipelined_requests() {
    const REQUESTS: usize = 1_000_000;
    let mut server = server();
    within_memory(&mut server, |server| {
        let mut conn = server.connect();
        conn.ask(b"set k 0 0 10\r\n0123456789\r\n", b"STORED\r\n");
        let request = b"get k\r\n".repeat(REQUESTS);
        let reply = b"VALUE k 0 10\r\n0123456789\r\nEND\r\n";
        let (got, closed) = conn.exchange(&[&request], |got| got.len() >= reply.len() * REQUESTS);
        assert_eq!(got.len(), reply.len() * REQUESTS, "closed: {closed}");
        assert!(got.chunks(reply.len()).all(|one| one == reply));
    });
}

#[test]
fn a_million_pipelined_writes() {
    // Each connection has 64 of them under way at most, and these wait for the disk.
    const REQUESTS: usize = if SERVING.table.is_durable() { 100_000 } else { 1_000_000 };
    let mut server = server();
    within_memory(&mut server, |server| {
        let mut request = Vec::new();
        for n in 0..REQUESTS {
            let set = format!("set k{n} 0 0 40 noreply\r\n{n:040}\r\n");
            request.extend_from_slice(set.as_bytes());
        }
        request.extend(b"mn\r\n");
        let (got, _) = server.connect().exchange(&[&request], |got| got.ends_with(b"MN\r\n"));
        assert_eq!(got.escape_ascii().to_string(), "MN\\r\\n");
        let last = REQUESTS - 1;
        let reply = format!("VALUE k{last} 0 40\r\n{last:040}\r\nEND\r\n");
        server.connect().ask(format!("get k{last}\r\n").as_bytes(), reply.as_bytes());
    });
}

#[test]
fn a_thousand_clients_send_half_a_large_value_each() {
    const CLIENTS: usize = 1000;
    const VALUE_BYTES: usize = LARGE_BYTES;
    raise_open_files();
    let mut server = server();
    within_memory(&mut server, |server| {
        let mut crowd = Crowd::connect(server, CLIENTS);
        crowd.send_until_stuck(|client| {
            let mut request = format!("set half{client} 0 0 {VALUE_BYTES}\r\n").into_bytes();
            request.resize(request.len() + VALUE_BYTES / 2, b'h');
            request
        });
        let mut other = server.connect();
        for n in 0..1000 {
            other.ask(format!("set o{n} 0 0 5\r\nother\r\n").as_bytes(), b"STORED\r\n");
            let reply = format!("VALUE o{n} 0 5\r\nother\r\nEND\r\n");
            other.ask(format!("get o{n}\r\n").as_bytes(), reply.as_bytes());
        }
        other.ask(b"get half0 half500 half999\r\n", b"END\r\n");
    });
}

/// A client that sends a part of a value and leaves.
fn leave_in_the_middle(server: &Server) {
    let mut leaver = server.connect();
    let mut request = format!("set k 0 0 {LARGE_BYTES}\r\n").into_bytes();
    request.resize(request.len() + LARGE_BYTES * 3 / 10, b'x');
    // The server may refuse and stop reading: that is an answer, too.
    let _ = leaver.try_send(&request);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_value_changes_nothing() {
    let mut server = server();
    within_memory(&mut server, |server| {
        let mut conn = server.connect();
        conn.ask(b"set k 0 0 3\r\nold\r\n", b"STORED\r\n");
        for _ in 0..5 {
            leave_in_the_middle(server);
            conn.ask(b"get k\r\n", b"VALUE k 0 3\r\nold\r\nEND\r\n");
        }
    });
}

#[test]
fn clients_that_leave_in_the_middle_of_a_value_leave_nothing_behind() {
    // In sum 180 MB: almost three times the memory, were it kept. (45 MB for a durable table.)
    const CLIENTS: usize = 600;
    let mut server = server();
    within_memory(&mut server, |server| {
        for _ in 0..CLIENTS {
            leave_in_the_middle(server);
        }
        let deadline = Instant::now() + REPLY_TIMEOUT;
        while statistic(server, "upload_bytes") > 0 {
            assert!(Instant::now() < deadline, "parts of values are kept");
        }
        let mut conn = server.connect();
        let value = vec![b'y'; LARGE_BYTES];
        let head = format!("set k 0 0 {LARGE_BYTES}\r\n");
        let set = [head.as_bytes(), &value, b"\r\n"].concat();
        // What they had is free when every thread of the server has had its turn.
        while conn.exchange(&[&set], |got| got.ends_with(b"\r\n")).0 != b"STORED\r\n" {
            assert!(Instant::now() < deadline, "memory does not come free");
        }
        let head = format!("VALUE k 0 {LARGE_BYTES}\r\n");
        let reply = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
        conn.ask(b"get k\r\n", &reply);
    });
}

/// A number that `stats` reports.
pub(crate) fn statistic(server: &Server, name: &str) -> u64 {
    let (reply, _) = server.connect().exchange(&[b"stats\r\n"], |got| got.ends_with(b"END\r\n"));
    let text = String::from_utf8_lossy(&reply);
    let line = text.lines().find_map(|l| l.strip_prefix("STAT ")?.strip_prefix(name));
    line.and_then(|l| l.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn clients_that_do_not_read_their_replies() {
    const CLIENTS: usize = 20;
    const GETS: usize = 500;
    const VALUE_BYTES: usize = 100_000;
    let mut server = server();
    within_memory(&mut server, |server| {
        let value = vec![b'v'; VALUE_BYTES];
        let header = format!("set big 0 0 {VALUE_BYTES}\r\n");
        let request = [header.as_bytes(), &value, b"\r\n"].concat();
        server.connect().ask(&request, b"STORED\r\n");
        let mut crowd = Crowd::connect(server, CLIENTS);
        // The replies would take 1 GB.
        crowd.send_until_stuck(|_| b"get big\r\n".repeat(GETS));
        let mut other = server.connect();
        other.ask(b"set o 0 0 1\r\nx\r\n", b"STORED\r\n");
        other.ask(b"get o\r\n", b"VALUE o 0 1\r\nx\r\nEND\r\n");
        let header = format!("VALUE big 0 {VALUE_BYTES}\r\n");
        let one = [header.as_bytes(), &value, b"\r\nEND\r\n"].concat();
        crowd.expect_all(&one.repeat(GETS));
    });
}

#[test]
fn clients_that_do_not_read_large_values_keep_nobody_waiting() {
    const CLIENTS: usize = 20;
    // A durable table has them in parts.
    const VALUE_BYTES: usize = LARGE_BYTES;
    let mut server = server();
    within_memory(&mut server, |server| {
        let value = vec![b'v'; VALUE_BYTES];
        let mut conn = server.connect();
        for key in 0..CLIENTS {
            let header = format!("set b{key} 0 0 {VALUE_BYTES}\r\n");
            conn.ask(&[header.as_bytes(), &value, b"\r\n"].concat(), b"STORED\r\n");
        }
        // What the kernel takes for a client, 6 MB, and more.
        let mut crowd = Crowd::connect(server, CLIENTS);
        crowd.send_until_stuck(|key| format!("get b{key}\r\n").into_bytes().repeat(20));
        let_it_do_what_it_can(server);
        // A quarter of 48 MiB has room for twelve and no more; of 2 MiB for two.
        let has_room_for = if SERVING.table.has_disk() { 0..=2 } else { 12..=12 };
        let pinned = statistic(server, "pinned_bytes ") / VALUE_BYTES as u64;
        assert!(has_room_for.contains(&pinned), "room for {pinned} was found");
        let start = Instant::now();
        let last = format!("get b{}\r\nmn\r\n", CLIENTS - 1);
        let (got, _) = conn.exchange(&[last.as_bytes()], |got| got.ends_with(b"MN\r\n"));
        if SERVING.table.has_disk() {
            // It is read from the disk.
            let head = format!("VALUE b{} 0 {VALUE_BYTES}\r\n", CLIENTS - 1);
            assert!(got == [head.as_bytes(), &value, b"\r\nEND\r\nMN\r\n"].concat());
        } else {
            // A miss: there is no memory for the reply.
            assert_eq!(got.escape_ascii().to_string(), "END\\r\\nMN\\r\\n");
        }
        assert!(start.elapsed() < REPLY_TIMEOUT / 3, "it took {:?}", start.elapsed());
    });
}

/// Waits until the server looks up no more keys: until it has done all that it will do for clients
/// that do not read.
pub(crate) fn let_it_do_what_it_can(server: &Server) {
    let deadline = Instant::now() + REPLY_TIMEOUT;
    let mut before = u64::MAX;
    loop {
        let now = statistic(server, "cmd_get ");
        if now == before {
            return;
        }
        assert!(Instant::now() < deadline, "it goes on and on");
        before = now;
        std::thread::sleep(QUIET);
    }
}

/// Each of some clients asks 20,000 times for the longest value that is copied, and reads nothing.
/// What the server receives at a time, 64 KiB, asks for some 30 MB.
fn do_not_read(request: &[u8]) {
    const CLIENTS: usize = 30;
    let mut server = server();
    within_memory(&mut server, |server| {
        let value = [b'v'; 4096];
        let set = [b"set s 0 0 4096\r\n", value.as_slice(), b"\r\n"].concat();
        server.connect().ask(&set, b"STORED\r\n");
        let mut crowd = Crowd::connect(server, CLIENTS);
        crowd.send_until_stuck(|_| request.to_vec());
        let_it_do_what_it_can(server);
        server.connect().ask(b"mg s s\r\n", b"HD s4096\r\n");
    });
}

#[test]
fn clients_that_do_not_read_small_replies() {
    do_not_read(&b"mg s v\r\n".repeat(20_000));
}

#[test]
fn clients_that_do_not_read_the_reply_to_many_keys() {
    do_not_read(&[b"get".to_vec(), b" s".repeat(20_000), b"\r\n".to_vec()].concat());
}

#[test]
fn clients_that_do_not_read_long_reports() {
    const PREFIXES: usize = 20_000;
    const CLIENTS: usize = 100;
    let mut server = server();
    within_memory(&mut server, |server| {
        let mut conn = server.connect();
        let mut request = b"stats detail on\r\n".to_vec();
        for prefix in 0..PREFIXES {
            let delete = format!("delete {prefix:0200}:k noreply\r\n");
            request.extend_from_slice(delete.as_bytes());
        }
        request.extend(b"mn\r\n");
        conn.ask(&request, b"OK\r\nMN\r\n");
        // 3 MB each at least, 300 MB in sum, would they be written before they are taken.
        let mut crowd = Crowd::connect(server, CLIENTS);
        crowd.send_until_stuck(|_| b"stats detail dump\r\nstats conns\r\n".repeat(10));
        std::thread::sleep(Duration::from_secs(1));
        conn.ask(b"mn\r\n", b"MN\r\n");
    });
}

#[test]
fn data_of_a_refused_value_is_thrown_away() {
    const DATA_BYTES: usize = 200 << 20;
    let mut server = server();
    within_memory(&mut server, |server| {
        let mut conn = server.connect();
        let mut request = format!("set k 0 0 {DATA_BYTES}\r\n").into_bytes();
        request.resize(request.len() + DATA_BYTES, b'x');
        request.extend(b"\r\nget k\r\n");
        conn.ask(&request, b"SERVER_ERROR object too large for cache\r\nEND\r\n");
    });
}

#[test]
fn a_multiget_without_an_end() {
    const KEYS: usize = 5_000_000;
    let mut server = server();
    within_memory(&mut server, |server| {
        let mut conn = server.connect();
        conn.ask(b"set last 0 0 1\r\nx\r\n", b"STORED\r\n");
        for command in [&b"get "[..], b"gat 0 "] {
            let request = [command, &b"none ".repeat(KEYS), b"last\r\n"].concat();
            conn.ask(&request, b"VALUE last 0 1\r\nx\r\nEND\r\n");
        }
    });
}

#[test]
fn idle_connections_cost_little() {
    const BYTES_EACH_MAX: u64 = 4 << 10;
    raise_open_files();
    // Other tests of this process have connections, too.
    let count = 10_000.min(open_files() / 2);
    let server = Server::kelvin_with_memory(SERVING, "256MiB", &["--max-connections", "10100"]);
    server.connect().ask(b"mn\r\n", b"MN\r\n");
    let before = server.resident_bytes();
    let mut idle: Vec<_> = (0..count).map(|_| server.connect()).collect();
    // Each has spoken once and has nothing to say now.
    for conn in &mut idle {
        conn.ask(b"mn\r\n", b"MN\r\n");
    }
    let each = server.resident_bytes().saturating_sub(before) / count as u64;
    assert!(each <= BYTES_EACH_MAX, "{each} bytes for each of {count} idle connections");
}
