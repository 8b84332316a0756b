//! A write mode that changes while the server serves.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use super::IO;
use crate::harness::{
    conn::{Conn, REPLY_TIMEOUT},
    log_directory::{Directory, record, set},
};

/// Whether `stats` has this line.
fn has_line(conn: &mut Conn, line: &str) -> bool {
    let (reply, _) = conn.exchange(&[b"stats\r\n"], |got| got.ends_with(b"END\r\n"));
    String::from_utf8_lossy(&reply).lines().any(|it| it == line)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + REPLY_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_hangup_reads_the_write_mode_again() {
    let (directory, other) = (Directory::with_log(), Directory::new());
    let file = other.path().join("settings.toml");
    let write = |mode: &str| {
        fs::write(&file, format!("write_mode = \"{mode}\"\n")).expect("a file can be written");
    };
    write("async");
    let server = directory.serve(IO, &["--config", file.to_str().expect("text")]);
    let mut conn = server.connect();
    let value = [b'v'; 3000];
    for key in 0..100 {
        conn.ask(&set(&format!("k{key}"), key, &value), b"STORED\r\n");
    }
    assert!(has_line(&mut conn, "STAT table_write_mode async"));
    write("safe");
    server.signal("HUP");
    wait_until("it is never confirmed", || {
        server.log().contains("what was answered before is on the disk")
    });
    assert!(has_line(&mut conn, "STAT table_write_mode safe"));
    conn.ask(&set("after", 0, &value), b"STORED\r\n");
    write("maybe");
    server.signal("HUP");
    wait_until("nothing is said", || server.log().contains("the write mode stays as it is"));
    assert!(has_line(&mut conn, "STAT table_write_mode safe"));
    // Killed: what was answered in either mode is on the disk.
    drop(server);
    write("safe");
    let server = directory.serve(IO, &["--config", file.to_str().expect("text")]);
    let mut conn = server.connect();
    let mut expected: Vec<u8> =
        (0..100).flat_map(|key| record(&format!("k{key}"), key, &value)).collect();
    expected.extend(record("after", 0, &value));
    let names: String = (0..100).map(|key| format!(" k{key}")).collect();
    let get = format!("get{names} after\r\n");
    conn.ask(get.as_bytes(), &[&expected[..], b"END\r\n"].concat());
    write("async");
    server.signal("HUP");
    wait_until("it stays safe", || has_line(&mut conn, "STAT table_write_mode async"));
    conn.ask(&set("after", 0, &value), b"STORED\r\n");
}

/// Whoever has the log has another server wait for it, which hears the signal meanwhile.
#[test]
fn a_hangup_while_the_log_is_opened_is_not_forgotten() {
    let (directory, other) = (Directory::with_log(), Directory::new());
    let file = other.path().join("settings.toml");
    fs::write(&file, "write_mode = \"async\"\n").expect("a file can be written");
    let first = directory.serve(IO, &[]);
    let server = directory.begin(IO, &["--config", file.to_str().expect("text")]);
    // It has read its settings by then.
    wait_until("it does not wait", || server.log().contains("somebody has the log"));
    fs::write(&file, "write_mode = \"safe\"\n").expect("a file can be written");
    server.signal("HUP");
    // Time to hear it: what comes later is heard in any case.
    thread::sleep(Duration::from_millis(200));
    drop(first);
    let mut conn = server.connect();
    wait_until("it is async", || has_line(&mut conn, "STAT table_write_mode safe"));
}
