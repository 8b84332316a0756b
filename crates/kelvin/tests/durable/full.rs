//! A file system that is full, until it has room again.

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::IO;
use crate::harness::{
    conn::Conn,
    log_directory::{make_log, record, serve, set},
    repeated,
    small_disk::on_small_disk,
};

/// The file system at first, and when it has room again.
const SMALL: &str = "24m";
const LARGE: &str = "96m";

const VALUE_BYTES: usize = 16 << 10;

/// Whatever is to happen happens before.
const WAIT_MAX: Duration = Duration::from_secs(30);

const FULL: &[u8] = b"SERVER_ERROR the disk is full\r\n";

#[test]
fn a_full_disk_refuses_writes_until_it_has_room() {
    let name = "a_full_disk_refuses_writes_until_it_has_room";
    on_small_disk(module_path!(), name, SMALL, fill);
}

fn reply(conn: &mut Conn, request: &[u8]) -> Vec<u8> {
    conn.exchange(&[request], |got| got.ends_with(b"\r\n")).0
}

fn value(key: usize) -> Vec<u8> {
    repeated(&format!("{key} "), VALUE_BYTES)
}

fn name(key: usize) -> String {
    format!("k{key}")
}

/// Sets keys from `first` on until one is refused, and says which.
fn set_until_refused(conn: &mut Conn, first: usize) -> usize {
    let mut key = first;
    loop {
        let said = reply(conn, &set(&name(key), 0, &value(key)));
        if said != b"STORED\r\n" {
            assert_eq!(said.escape_ascii().to_string(), FULL.escape_ascii().to_string());
            return key;
        }
        key += 1;
        assert!(key < 10_000, "the disk does not become full");
    }
}

fn wait_until_stored(conn: &mut Conn, key: usize) {
    let deadline = Instant::now() + WAIT_MAX;
    while reply(conn, &set(&name(key), 0, &value(key))) != b"STORED\r\n" {
        assert!(Instant::now() < deadline, "there is room, and writes are refused");
        thread::sleep(Duration::from_millis(20));
    }
}

fn fill(path: &Path) {
    make_log(path);
    let server = serve(path, IO, &[]);
    let mut conn = server.connect();
    let refused = set_until_refused(&mut conn, 0);
    assert!(refused > 100, "{refused} were stored");
    // Reads go on, and removes.
    for key in (0..refused).step_by(7) {
        let expected = [&record(&name(key), 0, &value(key))[..], b"END\r\n"].concat();
        conn.ask(format!("get {}\r\n", name(key)).as_bytes(), &expected);
    }
    for key in 0..refused / 2 {
        conn.ask(format!("delete {}\r\n", name(key)).as_bytes(), b"DELETED\r\n");
    }
    // What was removed makes room, and so does a larger disk.
    wait_until_stored(&mut conn, 0);
    let refused = set_until_refused(&mut conn, refused);
    let options = format!("remount,size={LARGE}");
    let mounted = Command::new("mount").args(["-o", &options]).arg(path).status();
    assert!(mounted.is_ok_and(|status| status.success()), "it can be mounted larger");
    wait_until_stored(&mut conn, refused);
    for key in refused + 1..refused + 200 {
        conn.ask(&set(&name(key), 0, &value(key)), b"STORED\r\n");
    }
    conn.ask(b"get k1\r\n", b"END\r\n");
}
