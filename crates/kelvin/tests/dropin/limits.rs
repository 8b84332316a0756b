//! `-M`, `-c`, `-R`, `-F` and `-o`: what a server refuses, and what it lets wait.

use std::time::Duration;

use super::servers::{Server, eventually, has_disk, on_both, on_kelvin};
use crate::harness::conn::{Conn, Got};

/// Time in which nothing is expected.
const QUIET: Duration = Duration::from_millis(100);

fn line(conn: &mut Conn, request: &[u8]) -> String {
    let (reply, _) = conn.exchange(&[request], |got| got.ends_with(b"\r\n"));
    String::from_utf8(reply).expect("replies are text")
}

/// A connection that has a place: who looked whether the server listens may have one still.
fn served(server: &Server) -> Conn {
    let mut found = None;
    eventually("there is a place", || {
        let mut conn = server.connect();
        let has_place = line(&mut conn, b"mn\r\n") == "MN\r\n";
        found = has_place.then_some(conn);
        has_place
    });
    found.expect("there is a place")
}

#[test]
fn full_memory_refuses_instead_of_evicting() {
    if has_disk("`--evictions false`") {
        return;
    }
    on_both(&["-M", "-m", "16", "-s", "{dir}/socket"], |server| {
        let mut conn = server.connect();
        let value = "v".repeat(8192);
        let set = |key: u32| format!("set key{key} 0 0 8192\r\n{value}\r\n").into_bytes();
        let refused = (0..10_000).find(|&key| line(&mut conn, &set(key)) != "STORED\r\n");
        let first = refused.expect("memory is not endless");
        assert!(first > 500, "only {first} records of 8 KiB in 16 MiB");
        let words = b"SERVER_ERROR out of memory storing object\r\n";
        conn.ask(&set(first), words);
        // All that was stored is there.
        for key in 0..first {
            conn.ask(format!("mg key{key} s\r\n").as_bytes(), b"HD s8192\r\n");
        }
        conn.ask(b"delete key0\r\n", b"DELETED\r\n");
        conn.ask(&set(first), b"STORED\r\n");
        conn.ask(&set(first + 1), words);
        let stats = ["evictions", "store_no_memory"].map(|name| server.stat("", name));
        assert_eq!(stats.map(Option::unwrap_or_default), ["0", "3"]);
        server.stat("settings", "evictions")
    });
}

#[test]
fn little_memory_may_become_more() {
    on_both(&["-m", "3", "-s", "{dir}/socket"], |server| {
        let mut conn = server.connect();
        let value = "v".repeat(66_000);
        let mut set = |key: u32| {
            let request = format!("set key{key} 0 0 66000\r\n{value}\r\n");
            assert_eq!(line(&mut conn, request.as_bytes()), "STORED\r\n");
        };
        let number = |report, name| {
            let text = server.stat(report, name).expect("it is told");
            text.parse::<u64>().expect("a number")
        };
        (0..60).for_each(&mut set);
        let (evicted, malloced) = (number("", "evictions"), number("slabs", "total_malloced"));
        assert!(evicted > 0 && malloced > 0, "{evicted} of 60 evicted, {malloced} bytes");
        server.ask(b"cache_memlimit 8\r\n", b"OK\r\n");
        (60..80).for_each(&mut set);
        assert!(number("slabs", "total_malloced") > malloced, "{malloced} bytes before");
        assert_eq!(number("", "evictions"), evicted, "there is more memory now");
        number("settings", "maxbytes")
    });
}

#[test]
fn beyond_the_limit_connections_are_turned_away() {
    on_kelvin(&["-c", "2", "-s", "{dir}/socket"], |server| {
        let mut open = vec![served(server), served(server)];
        let mut third = server.connect();
        assert_eq!(third.read_to_close(), b"ERROR Too many open connections\r\n");
        open.pop();
        served(server);
    });
}

#[test]
fn beyond_the_limit_connections_may_wait() {
    on_kelvin(&["-c", "2", "-o", "no_maxconns_fast", "-s", "{dir}/socket"], |server| {
        let mut open = vec![served(server), served(server)];
        let mut third = server.connect();
        third.send(b"mn\r\n");
        assert_eq!(third.read_once(&mut Vec::new(), QUIET), Got::Nothing);
        let stats = b"STAT accepting_conns 0\r\n";
        let (reply, _) = open[0].exchange(&[b"stats\r\n"], |got| got.ends_with(b"END\r\n"));
        assert!(reply.windows(stats.len()).any(|part| part == stats), "it says that it waits");
        open.pop();
        third.ask(b"", b"MN\r\n");
        // It ends although one waits.
        let _fourth = server.connect();
        server.signal("TERM");
        assert_eq!(server.wait().and_then(|status| status.code()), Some(0));
    });
}

#[test]
fn flush_all_is_refused_if_disabled() {
    on_both(&["-F", "-s", "{dir}/socket"], |server| {
        let mut conn = server.connect();
        conn.ask(b"set key 0 0 1\r\nx\r\n", b"STORED\r\n");
        conn.ask(b"flush_all\r\n", b"CLIENT_ERROR flush_all not allowed\r\n");
        conn.ask(b"get key\r\n", b"VALUE key 0 1\r\nx\r\nEND\r\n");
        (server.stat("", "cmd_flush"), server.stat("settings", "flush_enabled"))
    });
}

#[test]
fn a_connection_gives_way_after_some_requests() {
    let yields = |options: &[&str]| {
        on_kelvin(options, |server| {
            let request = b"mn\r\n".repeat(200);
            server.ask(&request, &b"MN\r\n".repeat(200));
            let yields = server.stat("", "conn_yields").expect("it is counted");
            (yields.parse::<u32>().expect("a number"), server.stat("settings", "reqs_per_event"))
        })
    };
    let (few, shown) = yields(&["-R", "10", "-t", "1", "-s", "{dir}/socket"]);
    assert!((18..=20).contains(&few), "{few} turns of 10 requests for 200");
    assert_eq!(shown.as_deref(), Some("10"));
    assert_eq!(yields(&["-t", "1", "-s", "{dir}/socket"]).0, 0);
}

#[test]
fn one_request_may_be_all_of_a_turn() {
    on_both(&["-R", "1", "-t", "1", "-s", "{dir}/socket"], |server| {
        let set = "set key 0 0 5\r\nvalue\r\n";
        server.ask(set.repeat(6).as_bytes(), &b"STORED\r\n".repeat(6));
        let yields = server.stat("", "conn_yields").and_then(|text| text.parse::<u32>().ok());
        assert!(yields >= Some(5), "{yields:?}");
    });
}

#[test]
fn idle_connections_are_closed() {
    on_both(&["-o", "idle_timeout=1"], |server| {
        let mut conn = server.connect();
        conn.ask(b"mn\r\n", b"MN\r\n");
        assert_eq!(conn.read_to_close(), b"");
        server.stat("settings", "idle_timeout")
    });
}
