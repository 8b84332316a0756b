//! What a record tells of itself.

use std::{thread, time::Duration};

use super::servers::{has_disk, on_both};

/// Long enough that seconds are told apart from none.
const PAUSE: Duration = Duration::from_millis(2_200);

/// The number behind a flag of a reply.
fn number(reply: &[u8], flag: char) -> i64 {
    let text = String::from_utf8_lossy(reply);
    let word = text.split_ascii_whitespace().find_map(|word| word.strip_prefix(flag));
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {flag} in {text}"))
}

#[test]
fn a_record_that_nobody_has_read_tells_what_memcached_tells() {
    if has_disk("tell 0 seconds since the last access") {
        return;
    }
    on_both(&[], |server| {
        let mut conn = server.connect();
        conn.ask(b"ms a 1 T100\r\nx\r\nset b 0 0 1\r\ny\r\n", b"HD\r\nSTORED\r\n");
        thread::sleep(PAUSE);
        let mut told = Vec::new();
        for (key, ttl_s) in [("a", 97..=98), ("b", -1..=-1)] {
            let request = format!("mg {key} h l t\r\n");
            let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"\n"));
            // The clock of memcached ticks once a second.
            assert!((1..=3).contains(&number(&reply, 'l')), "{}", reply.escape_ascii());
            assert!(ttl_s.contains(&number(&reply, 't')), "{}", reply.escape_ascii());
            told.push(number(&reply, 'h'));
        }
        told
    });
}

#[test]
fn reading_is_remembered_and_time_is_what_was_said_last() {
    on_both(&[], |server| {
        let mut conn = server.connect();
        conn.ask(b"set k 0 100 1\r\nx\r\nmg k h\r\nmg k h\r\n", b"STORED\r\nHD h0\r\nHD h1\r\n");
        conn.ask(b"ms k 1\r\ny\r\nmg k h t\r\n", b"HD\r\nHD h0 t-1\r\n");
        conn.ask(b"touch k 50\r\nget k\r\n", b"TOUCHED\r\nVALUE k 0 1\r\ny\r\nEND\r\n");
        let (reply, _) = conn.exchange(&[b"mg k T200 t h\r\n"], |got| got.ends_with(b"\n"));
        assert!((199..=200).contains(&number(&reply, 't')), "{}", reply.escape_ascii());
        let (next, _) = conn.exchange(&[b"mg k t l\r\n"], |got| got.ends_with(b"\n"));
        assert!((199..=200).contains(&number(&next, 't')), "{}", next.escape_ascii());
        assert!((0..=1).contains(&number(&next, 'l')), "{}", next.escape_ascii());
        number(&reply, 'h')
    });
}
