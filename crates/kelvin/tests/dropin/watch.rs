//! Connections that become logs.

use std::time::Duration;

use super::servers::{eventually, on_both, on_recent};
use crate::harness::conn::Conn;

/// Lines come within this time, which in memcached is a second where nothing was logged for long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads lines until one contains `wanted`, and returns what they tell from `type=` on.
fn lines_up_to(conn: &mut Conn, wanted: &str) -> Vec<String> {
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).lines().any(|line| line.contains(wanted)) {
        let got = conn.read_once(&mut heard, PATIENCE);
        assert_eq!(got, crate::harness::conn::Got::Bytes, "no {wanted} in {:?}", heard);
    }
    let text = String::from_utf8(heard).expect("logs are text");
    let told = |line: &str| {
        assert!(line.starts_with("ts=") && line.contains(" gid="), "{line}");
        let what = &line[line.find("type=").expect("each line has a type")..];
        // Slab classes and numbers of connections are the server's own.
        let own = |word: &&str| !word.starts_with("clsid=") && !word.starts_with("cfd=");
        what.split(' ').filter(own).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(told).collect()
}

#[test]
fn looks_and_stores_are_told() {
    on_both(&["-t", "1"], |server| {
        let mut watcher = server.connect();
        watcher.ask(b"watch fetchers mutations\r\n", b"OK\r\n");
        let mut client = server.connect();
        client.ask(b"set a%b 0 0 4\r\nvbar\r\n", b"STORED\r\n");
        client.ask(b"get a%b\r\n", b"VALUE a%b 0 4\r\nvbar\r\nEND\r\n");
        client.ask(b"get last\r\n", b"END\r\n");
        lines_up_to(&mut watcher, "key=last")
    });
}

#[test]
fn deletions_are_told() {
    on_recent(&["-t", "1"], |server| {
        let mut watcher = server.connect();
        watcher.ask(b"watch deletions\r\n", b"OK\r\n");
        let mut client = server.connect();
        client.ask(b"md none\r\n", b"NF\r\n");
        for delete in [&b"delete a\r\n"[..], b"md a\r\n"] {
            client.ask(b"set a 0 0 4\r\nvbar\r\n", b"STORED\r\n");
            let reply: &[u8] = if delete[0] == b'm' { b"HD\r\n" } else { b"DELETED\r\n" };
            client.ask(delete, reply);
        }
        lines_up_to(&mut watcher, "cmd=md")
    });
}

#[test]
fn watchers_are_counted_while_they_are_there() {
    on_both(&[], |server| {
        let mut watcher = server.connect();
        watcher.ask(b"watch\r\n", b"OK\r\n");
        let watchers = || server.stat("", "log_watchers");
        eventually("a watcher", || watchers().as_deref() == Some("1"));
        drop(watcher);
        eventually("none", || watchers().as_deref() == Some("0"));
    });
}

#[test]
fn a_server_may_refuse_to_be_watched() {
    on_both(&["-W"], |server| {
        server.ask(b"watch\r\n", b"CLIENT_ERROR watch commands not allowed\r\n");
    });
}
