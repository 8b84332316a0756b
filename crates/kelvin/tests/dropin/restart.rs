//! Records that survive a restart.

use std::{fs, path::Path};

use super::servers::{Directory, Program, Server};

const OPTIONS: [&str; 6] = ["-e", "{dir}/kept", "-s", "{dir}/socket", "-m", "64"];

/// Ends a server by a signal and starts it again in the same directory.
fn again(server: Server, signal: &str) -> Server {
    let dir = server.end_by(signal);
    Server::start_in(dir, &Program::Kelvin, &OPTIONS)
}

fn token(server: &Server, key: &str) -> u64 {
    let request = format!("mg {key} c\r\n");
    let (reply, _) = server.connect().exchange(&[request.as_bytes()], |got| got.ends_with(b"\r\n"));
    let text = String::from_utf8(reply).expect("text");
    let token = text.trim().strip_prefix("HD c").unwrap_or_else(|| panic!("{key}: {text}"));
    token.parse().expect("a token is a number")
}

#[test]
fn records_survive_every_orderly_end() {
    let mut server = Server::start_in(Directory::new(), &Program::Kelvin, &OPTIONS);
    let large = "x".repeat(700_000);
    let set = format!("set large 9 0 {}\r\n{large}\r\n", large.len());
    server.ask(set.as_bytes(), b"STORED\r\n");
    server.ask(b"set soon 0 1 1\r\n1\r\nset later 7 1000 5\r\nlater\r\n", b"STORED\r\nSTORED\r\n");
    server.ask(b"set gone 0 0 1\r\nx\r\ndelete gone\r\n", b"STORED\r\nDELETED\r\n");
    let before = token(&server, "later");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    // At once, within the same second, however it is ended.
    for signal in ["USR1", "TERM", "INT"] {
        server = again(server, signal);
        let value = format!("VALUE large 9 {}\r\n{large}\r\nEND\r\n", large.len());
        server.ask(b"get large\r\n", value.as_bytes());
        assert!(!Path::new(&server.dir().path("kept")).exists(), "the file is used up");
        server.ask(b"get soon gone later\r\n", b"VALUE later 7 5\r\nlater\r\nEND\r\n");
        assert_eq!(token(&server, "later"), before);
        let mut conn = server.connect();
        let (reply, _) = conn.exchange(&[b"mg later t\r\n"], |got| got.ends_with(b"\r\n"));
        let text = String::from_utf8(reply).expect("text");
        let left: i64 = text.trim().strip_prefix("HD t").expect("a hit").parse().expect("seconds");
        assert!((900..1000).contains(&left), "{left} seconds are left");
        server.ask(b"set new 0 0 1\r\nn\r\n", b"STORED\r\n");
        assert!(token(&server, "new") > before, "tokens go on");
    }
    assert_eq!(server.stat("settings", "memory_file"), Some(server.dir().path("kept")));
    // What was flushed does not come back.
    server.ask(b"flush_all\r\n", b"OK\r\n");
    server = again(server, "USR1");
    assert_eq!(server.stat("", "curr_items").as_deref(), Some("0"));
}

#[test]
fn a_server_that_is_killed_keeps_nothing() {
    let server = Server::start_in(Directory::new(), &Program::Kelvin, &OPTIONS);
    server.ask(b"set key 0 0 1\r\nx\r\n", b"STORED\r\n");
    let server = again(server, "USR1");
    // It listens before it has read the file: one killed until then leaves the file as it was.
    server.ask(b"get key\r\n", b"VALUE key 0 1\r\nx\r\nEND\r\n");
    let server = again(server, "KILL");
    server.ask(b"get key\r\n", b"END\r\n");
}

#[test]
fn a_file_that_is_damaged_is_told_of() {
    let server = Server::start_in(Directory::new(), &Program::Kelvin, &OPTIONS);
    server.ask(b"set key 0 0 1\r\nx\r\n", b"STORED\r\n");
    // Flipped near the end: the value is not served.
    let dir = server.end_by("TERM");
    let mut bytes = fs::read(dir.path("kept")).expect("it was written");
    let at = bytes.len() - 12;
    bytes[at] ^= 1;
    dir.file("kept", bytes);
    let server = Server::start_in(dir, &Program::Kelvin, &OPTIONS);
    server.ask(b"get key\r\n", b"END\r\n");
    assert!(server.log().contains("a checksum is wrong at byte 64"), "{}", server.log());
}

#[test]
fn a_signal_while_it_reads_ends_it_and_loses_nothing() {
    const RECORDS: usize = 40_000;
    let options = ["-e", "{dir}/kept", "-s", "{dir}/socket", "-m", "256"];
    let start = |dir| Server::start_in(dir, &Program::Kelvin, &options);
    let server = start(Directory::new());
    let value = "v".repeat(1_000);
    let sets: String =
        (0..RECORDS).map(|key| format!("set key{key} 0 0 1000 noreply\r\n{value}\r\n")).collect();
    server.ask(&[sets.as_bytes(), b"mn\r\n"].concat(), b"MN\r\n");
    let mut dir = server.end_by("USR1");
    // At different places of what it does then; the first ones before it catches signals.
    for wait_ms in [30, 60, 100, 150, 200] {
        let file = dir.path("kept");
        let mut child = Program::Kelvin
            .command(&["-e", &file, "-s", &dir.path("socket"), "-m", "256"])
            .spawn()
            .expect("it runs");
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        super::servers::signal(child.id(), "TERM");
        let status = child.wait().expect("a child can be waited for");
        assert!(matches!(status.code(), Some(0) | None), "after {wait_ms} ms: {status}");
        assert!(Path::new(&file).exists(), "after {wait_ms} ms");
    }
    let server = start(std::mem::take(&mut dir));
    assert_eq!(server.stat("", "curr_items"), Some(RECORDS.to_string()));
}

#[test]
fn what_a_memcached_has_left_stays() {
    let dir = Directory::new();
    dir.file("kept", "memory of a memcached");
    dir.file("kept.meta", "what is in it");
    let (code, _, errors) = Program::Kelvin.run(&["-e", &dir.path("kept"), "-p", "-1"]);
    assert_eq!((code, errors.contains("kept.meta is there")), (Some(1), true), "{errors}");
    assert!(fs::read(dir.path("kept")).is_ok_and(|bytes| bytes == b"memory of a memcached"));
}
