//! Lists of keys.

use std::collections::BTreeSet;

use super::servers::{Server, eventually, on_both, on_recent};

/// The reply to `request`, to its last line, or that the server is busy with another list.
fn report(server: &Server, request: &str, end: &[u8]) -> String {
    let request = format!("{request}\r\n");
    let is_all = |got: &[u8]| got.ends_with(end) || got.starts_with(b"BUSY ");
    let (reply, _) = server.connect().exchange(&[request.as_bytes()], is_all);
    String::from_utf8(reply).expect("a list of keys is text")
}

/// The words of each line of a metadump, but for those that depend on the moment or on how records
/// are laid out, and the flags, which older versions do not tell.
fn steady(metadump: &str) -> BTreeSet<String> {
    let varies = ["exp=1", "la=", "cas=", "size=", "flags="];
    let lines = metadump.lines().filter(|line| line.starts_with("key="));
    lines
        .map(|line| {
            let words = line.split(' ').filter(|word| !varies.iter().any(|v| word.starts_with(v)));
            words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
        })
        .collect()
}

#[test]
fn a_metadump_has_all_keys_and_their_facts() {
    on_both(&[], |server| {
        let mut conn = server.connect();
        conn.ask(b"set a%b 5 0 2\r\nhi\r\n", b"STORED\r\n");
        conn.ask(b"set foo 7 100 3\r\nabc\r\n", b"STORED\r\n");
        conn.ask(b"get foo\r\n", b"VALUE foo 7 3\r\nabc\r\nEND\r\n");
        // A memcached leaves out what a thread has not let go of, though its reply has been sent,
        // and is busy a while after the end of a list.
        let mut lines = BTreeSet::new();
        eventually("both keys are listed", || {
            lines = steady(&report(server, "lru_crawler metadump all", b"END\r\n"));
            lines.len() == 2
        });
        server.ask(b"lru_crawler metadump x\r\n", b"BADCLASS invalid class id\r\n");
        lines
    });
}

#[test]
fn a_server_may_refuse_to_list_keys() {
    on_both(&["-X"], |server| {
        server.ask(b"lru_crawler metadump all\r\n", b"ERROR metadump not allowed\r\n");
        server.ask(b"stats cachedump 1 0\r\n", b"CLIENT_ERROR stats cachedump not allowed\r\n");
        server.stat("settings", "dump_enabled")
    });
}

#[test]
fn a_dump_needs_the_connection_for_itself() {
    // 1.6.18 sends what `get` replied at once; 1.6.45 does so for `mn` only.
    on_recent(&[], |server| {
        let mut conn = server.connect();
        conn.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
        let refused = b"ERROR cannot pipeline other commands before metadump\r\n";
        let dump = b"lru_crawler metadump all\r\n";
        for (before, reply) in [
            (&b"get k\r\n"[..], &b"VALUE k 0 1\r\nv\r\nEND\r\n"[..]),
            (b"get none\r\n", b"END\r\n"),
            (b"mg none v\r\n", b"EN\r\n"),
            (b"no-command\r\n", b"ERROR\r\n"),
        ] {
            conn.ask(&[before, dump].concat(), &[reply, refused].concat());
        }
        let sent = [b"get none\r\nmn\r\n", &dump[..]].concat();
        let (reply, _) = conn.exchange(&[&sent], |got| got.ends_with(b"\nEND\r\n"));
        assert!(reply.starts_with(b"END\r\nMN\r\nOK\r\nkey=k "), "{}", reply.escape_ascii());
    });
}
