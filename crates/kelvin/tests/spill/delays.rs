//! `flush_all` at a later time, of a table in memory, of one that spills and of a durable one:
//! their clients hear the same.

use std::{thread, time::Duration};

use super::IO;
use crate::harness::{conn::Conn, log_directory::Directory, server::Server};

/// What is asked, and how long is waited before: longer than a flush of a durable table takes once
/// it is due.
const ASKED: [(u64, &str); 9] = [
    (0, "set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\nflush_all 1\r\nget a b\r\n"),
    (0, "set b 0 0 1\r\n3\r\nappend a 0 0 1\r\n4\r\nget a b\r\n"),
    // Also what was stored behind it, as long as it waits.
    (1600, "get a b\r\nadd a 0 0 1\r\n5\r\nget a\r\n"),
    // It is done once.
    (1200, "get a\r\nflush_all 1\r\nflush_all 1000\r\n"),
    // The later one took the earlier one back.
    (1600, "get a\r\nflush_all 1\r\nflush_all\r\nget a\r\nset a 0 0 1\r\n6\r\n"),
    // And one at once takes back what waits.
    (1600, "get a\r\nflush_all 1 noreply\r\ntouch a 1000\r\n"),
    (1600, "touch a 1000\r\nincr a 1\r\nset a 0 0 1\r\n7\r\n"),
    (0, "flush_all x\r\nflush_all -1\r\nget a\r\n"),
    (0, "add a 0 0 1\r\n8\r\nget a\r\n"),
];

/// Everything that a client hears.
fn heard(conn: &mut Conn) -> Vec<String> {
    let one = |(wait_ms, asked): &(u64, &str)| {
        thread::sleep(Duration::from_millis(*wait_ms));
        let request = format!("{asked}mn\r\n");
        let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"MN\r\n"));
        String::from_utf8(reply).expect("text")
    };
    ASKED.iter().map(one).collect()
}

#[test]
fn flushes_that_wait_are_heard_of_alike_whatever_the_table_is() {
    let (spilled, durable) = (Directory::new(), Directory::with_log());
    let servers = [
        ("volatile", Server::kelvin(IO, &[])),
        ("spill", spilled.serve(IO, &["--table-kind", "spill", "--spill-size", "16MiB"])),
        ("durable", durable.serve(IO, &["--flush-durable", "true"])),
    ];
    let all: Vec<_> = thread::scope(|scope| {
        let each = servers.iter().map(|(kind, server)| {
            let thread = scope.spawn(move || heard(&mut server.connect()));
            (kind, thread)
        });
        let each: Vec<_> = each.collect();
        each.into_iter().map(|(kind, it)| (kind, it.join().expect("it is heard"))).collect()
    });
    let (_, volatile) = &all[0];
    assert!(volatile[2].starts_with("END\r\nSTORED\r\nVALUE a 0 1\r\n5\r\n"), "{volatile:?}");
    for (kind, heard) in &all[1..] {
        for ((asked, expected), heard) in ASKED.iter().zip(volatile).zip(heard) {
            assert_eq!(heard, expected, "a {kind} table, asked {asked:?}");
        }
    }
}
