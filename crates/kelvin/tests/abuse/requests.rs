//! Requests that are cut, mangled or made of noise.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::conn::Conn;
use crate::harness::rng::Rng;
use crate::harness::server::Server;

/// How long a server that waits for the rest of a request is watched to say nothing.
const SILENCE: Duration = Duration::from_millis(100);

/// Bytes that may be put behind a value, whatever the table.
const APPENDED_MAX: usize = 250_000;

fn assert_silent(conn: &mut Conn) {
    let (got, closed) = conn.read_until_quiet(SILENCE);
    assert_eq!((got, closed), (Vec::new(), false));
}

#[test]
fn half_lines_wait_for_the_rest() {
    let server = Server::kelvin(super::SERVING, &[]);
    let mut conn = server.connect();
    for part in ["se", "t half 0 0 ", "5", "\r"] {
        conn.send(part.as_bytes());
        assert_silent(&mut conn);
    }
    conn.send(b"\n12\n");
    assert_silent(&mut conn);
    conn.send(b"45\r");
    assert_silent(&mut conn);
    conn.ask(b"\n", b"STORED\r\n");
    conn.ask(b"get half\r\n", b"VALUE half 0 5\r\n12\n45\r\nEND\r\n");
}

#[test]
fn bytes_that_come_one_by_one() {
    let server = Server::kelvin(super::SERVING, &[]);
    for mut conn in [server.connect(), server.connect_unix()] {
        let request =
            b"set a 1 0 3\r\nabc\r\nget a\r\nms b 2 c\r\nxy\r\nmg a v f\r\nincr a 1\r\nmn\r\n";
        let pieces: Vec<&[u8]> = request.chunks(1).collect();
        let (got, _) = conn.exchange(&pieces, |got| got.ends_with(b"MN\r\n"));
        let text = String::from_utf8(got).expect("the replies are text");
        let (before, after) = text.split_once("HD c").expect("ms gives a token");
        let (token, after) = after.split_once("\r\n").expect("a line ends");
        assert_eq!(before, "STORED\r\nVALUE a 1 3\r\nabc\r\nEND\r\n");
        assert!(token.parse::<u64>().is_ok_and(|t| t > 0), "{token}");
        let non_numeric = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        assert_eq!(after, format!("VA 3 f1\r\nabc\r\n{non_numeric}MN\r\n"));
    }
}

#[test]
fn an_error_keeps_the_replies_before_and_behind_it() {
    let server = Server::kelvin(super::SERVING, &[]);
    let mut conn = server.connect();
    let long = "k".repeat(251);
    conn.ask(
        format!("set a 0 0 1\r\nx\r\nget a\r\nget {long}\r\nget a {long}\r\nget a\r\n").as_bytes(),
        b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nCLIENT_ERROR bad command line format\r\n\
          CLIENT_ERROR bad command line format\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
    );
}

#[test]
fn a_large_value_without_its_end_changes_nothing() {
    let server = Server::kelvin(super::SERVING, &[]);
    for length in [1, 100, 4096, 4097, 70_000, super::LARGE_BYTES] {
        let mut conn = server.connect();
        conn.ask(b"set k 5 0 3\r\nold\r\n", b"STORED\r\n");
        for command in ["set", "append", "replace"] {
            // What could not be put behind a value anyway is not waited for.
            let length = if command == "append" { length.min(APPENDED_MAX) } else { length };
            let mut request = format!("{command} k 0 0 {length}\r\n").into_bytes();
            request.resize(request.len() + length, b'n');
            request.extend(b"XXget k\r\nget k\r\n");
            let reply = b"CLIENT_ERROR bad data chunk\r\nVALUE k 5 3\r\nold\r\nEND\r\n\
                          VALUE k 5 3\r\nold\r\nEND\r\n";
            conn.ask(&request, reply);
        }
    }
}

#[test]
fn a_line_that_does_not_end_is_hung_up_on() {
    let mut server = Server::kelvin(super::SERVING, &[]);
    for start in ["", "set ", "mg ", "delete ", "incr ", "\0\0\0"] {
        let mut conn = server.connect();
        let line = [start.as_bytes(), &b"x".repeat(1 << 20)].concat();
        // The server closes before all of it is sent.
        let _ = conn.try_send(&line);
        assert_eq!(conn.read_to_close().escape_ascii().to_string(), "", "{start:?}");
    }
    server.assert_serves();
}

#[test]
fn noise_ends_in_error_lines_or_a_closed_connection() {
    const SEEDS: u64 = 60;
    const BYTES: usize = 50_000;
    const WORDS: [&str; 16] = [
        "get", "set", "ms", "mg", "md", "ma", "incr", "cas", "0", "1", "-1", "k", "v", "c", "q",
        "noreply",
    ];
    let mut server = Server::kelvin(super::SERVING, &[]);
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let mut noise = Vec::with_capacity(BYTES);
        while noise.len() < BYTES {
            match rng.below(10) {
                0 => noise.extend(rng.next().to_le_bytes()),
                1..4 => noise.extend(b"\r\n"),
                _ => noise.extend([rng.pick(&WORDS), " "].concat().bytes()),
            }
        }
        let mut conn = server.connect();
        let _ = conn.try_send(&noise);
        conn.shut_write_if_open();
        conn.read_to_close();
    }
    server.assert_serves();
}

#[test]
fn a_client_that_half_closes_gets_its_replies() {
    let server = Server::kelvin(super::SERVING, &[]);
    for mut conn in [server.connect(), server.connect_unix()] {
        conn.send(b"set a 0 0 1\r\nx\r\nget a\r\nget ");
        conn.shut_write_if_open();
        let reply = conn.read_to_close();
        assert_eq!(
            reply.escape_ascii().to_string(),
            "STORED\\r\\nVALUE a 0 1\\r\\nx\\r\\nEND\\r\\n"
        );
    }
}

#[test]
fn netcat_gets_its_replies() {
    let server = Server::kelvin(super::SERVING, &[]);
    let port = server.addr().port();
    let line = r"printf 'set a 0 0 1\r\nx\r\nget a\r\n' | nc -N 127.0.0.1 ";
    let output = Command::new("sh")
        .args(["-c", &format!("{line}{port}")])
        .stdin(Stdio::null())
        .output()
        .expect("sh runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nc is needed, `cargo xtask setup` installs it: {errors}");
    assert_eq!(output.stdout, b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}
