//! Values in parts: they go in and out in pieces, and the server never has all of one.

use super::IO;
use crate::harness::{
    conn::Conn,
    log_directory::{Directory, record, set},
    server::Server,
};

/// What the server may have of memory beside what it has at rest: the log's chunks, parts that
/// arrive and leave, buffers of sockets.
const MORE_BYTES_MAX: u64 = 48 << 20;

fn serve(directory: &Directory, value_size_max: &str) -> Server {
    directory.serve_values(IO, value_size_max, &[])
}

/// Every 64 bytes begin otherwise, and the rest of them differs with the seed.
fn value(seed: u32, len: usize) -> Vec<u8> {
    let piece: [u8; 64] = std::array::from_fn(|at| seed.wrapping_add(at as u32) as u8);
    let mut bytes = piece.repeat(len / 64);
    for (at, piece) in (0..).zip(bytes.chunks_mut(64)) {
        let first: u32 = (at ^ seed).wrapping_mul(0x9E37_79B9);
        piece[..4].copy_from_slice(&first.to_le_bytes());
    }
    bytes
}

fn get(conn: &mut Conn, key: &str, value: &[u8]) {
    let expected = [&record(key, 7, value)[..], b"END\r\n"].concat();
    let request = format!("get {key}\r\n");
    let (got, _) = conn.exchange(&[request.as_bytes()], |got| got.len() >= expected.len());
    assert!(got == expected, "{} bytes of {} came, or others", got.len(), expected.len());
}

/// What the server had more at most while this was done.
fn more_bytes(server: &Server, deed: impl FnOnce()) -> u64 {
    let before = server.resident_bytes();
    server.forget_peak();
    deed();
    server.peak_bytes().saturating_sub(before)
}

fn in_and_out(server: &Server, len: usize) {
    let mut conn = server.connect();
    let first = value(1, len);
    let more = more_bytes(server, || {
        conn.ask(&set("large", 7, &first), b"STORED\r\n");
        get(&mut conn, "large", &first);
        conn.ask(b"touch large 1000\r\nadd large 0 0 1\r\nx\r\n", b"TOUCHED\r\nNOT_STORED\r\n");
    });
    assert!(more <= MORE_BYTES_MAX, "{more} bytes more were resident");
    conn.ask(b"delete large\r\nget large\r\n", b"DELETED\r\nEND\r\n");
}

#[test]
fn values_that_are_larger_than_memory_go_in_and_out() {
    let directory = Directory::new();
    in_and_out(&serve(&directory, "64MiB"), 64 << 20);
}

#[test]
fn who_takes_a_value_that_is_overwritten_meanwhile_has_one_of_them_whole() {
    // More than the buffers of sockets have.
    const LEN: usize = 12 << 20;
    let directory = Directory::new();
    let server = serve(&directory, "12MiB");
    let (mut conn, mut slow) = (server.connect(), server.connect());
    let (first, second) = (value(1, LEN), value(2, LEN));
    conn.ask(&set("large", 7, &first), b"STORED\r\n");
    slow.send(b"get large\r\n");
    conn.ask(&set("large", 7, &second), b"STORED\r\n");
    get(&mut conn, "large", &second);
    let expected = [&record("large", 7, &first)[..], b"END\r\n"].concat();
    let (got, _) = slow.exchange(&[], |got| got.len() >= expected.len());
    assert!(
        got == expected || got == [&record("large", 7, &second)[..], b"END\r\n"].concat(),
        "{} bytes of {} came, or a mixture",
        got.len(),
        expected.len()
    );
}

#[test]
#[ignore = "soak: writes a value of a gibibyte"]
fn soak_values_of_a_gibibyte_go_in_and_out() {
    const POOL_BYTES: u64 = 128 << 20;
    let directory = Directory::new();
    let path = directory.path().to_str().expect("a path of the tests' own");
    let arguments = ["--net-threads", "2", "--value-size-max", "1GiB", "--data-dir", path];
    let server = Server::kelvin_with_memory(IO, "128MiB", &arguments);
    server.connect().ask(b"mn\r\n", b"MN\r\n");
    in_and_out(&server, 1 << 30);
    let all = server.peak_bytes();
    assert!(all < 2 * POOL_BYTES, "{all} bytes were resident, of {POOL_BYTES} that it may have");
}

/// `count` clients that each send a part of a large value, and some of the next one.
fn half_sent(count: u32) {
    let directory = Directory::new();
    let server = serve(&directory, "1MiB");
    let large = value(7, 1 << 20);
    let mut half = Vec::new();
    let more = more_bytes(&server, || {
        for number in 0..count {
            let mut conn = server.connect();
            let whole = set(&format!("half-{number}"), 0, &value(number, 1 << 20));
            // What the server does not take stays with the client's kernel.
            let _ = conn.try_send(&whole[..400_000]);
            half.push(conn);
        }
        let mut conn = server.connect();
        conn.ask(&set("small", 7, b"value"), b"STORED\r\n");
        get(&mut conn, "small", b"value");
        conn.ask(&set("large", 7, &large), b"STORED\r\n");
        get(&mut conn, "large", &large);
    });
    assert!(more <= MORE_BYTES_MAX, "{more} bytes more were resident: no budget holds them");
    drop(half);
    let mut conn = server.connect();
    conn.ask(&set("other", 7, &large), b"STORED\r\n");
    get(&mut conn, "other", &large);
}

#[test]
fn values_that_are_sent_by_half_cost_little_and_stop_nobody() {
    half_sent(500);
}

#[test]
#[ignore = "soak: a thousand clients that stop half-way"]
fn soak_a_thousand_values_are_sent_by_half() {
    half_sent(1000);
}

/// Clients that ask for a large value and do not read.
#[test]
fn values_that_are_not_taken_cost_little() {
    let directory = Directory::new();
    let server = serve(&directory, "12MiB");
    let mut conn = server.connect();
    let large = value(1, 12 << 20);
    conn.ask(&set("large", 7, &large), b"STORED\r\n");
    let mut idle = Vec::new();
    let more = more_bytes(&server, || {
        for _ in 0..5 {
            let mut conn = server.connect();
            conn.send(b"get large\r\nget large\r\n");
            idle.push(conn);
        }
        get(&mut conn, "large", &large);
    });
    assert!(more <= MORE_BYTES_MAX, "{more} bytes more were resident");
}
