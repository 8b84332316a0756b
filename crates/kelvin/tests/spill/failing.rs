//! A disk that fails: the server goes on as a cache, and shows nothing old.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    process::Command,
};

use super::records::{KEYS, Records, count, serve, serve_by};
use crate::harness::{
    log_directory::{Directory, stat},
    rng::Rng,
    server::Server,
};

/// Has writes beyond what files may have fail, and not end the process.
const HEEDLESS: [&str; 3] = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];

/// No file of the server may be written beyond so many bytes from now on.
fn fail_writes(server: &Server) {
    let pid = server.pid().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, "--fsize=65536:65536"]).status();
    assert!(set.expect("util-linux is there").success(), "the limit cannot be set");
}

#[test]
fn a_disk_that_cannot_be_written_is_done_without() {
    for arguments in [&[][..], &["--spill-recover", "true"]] {
        let directory = Directory::new();
        let mut server = serve_by(&HEEDLESS, directory.path(), arguments);
        let mut conn = server.connect();
        let mut records = Records::default();
        records.store(&mut conn, 0..KEYS);
        assert!(records.check_all(&mut conn) < KEYS / 2);
        fail_writes(&server);
        if arguments.is_empty() {
            records.store(&mut conn, (0..KEYS).step_by(2));
            assert_eq!(stat(&mut conn, "log_read_only"), 1, "no write has failed");
            assert!(stat(&mut conn, "table_spills") > 0);
            records.remove(&mut conn, (0..KEYS).step_by(3));
            records.play(&mut conn, &mut Rng::new(3), 30);
            // What the disk had is there, but for what was changed.
            let missed = records.check_all(&mut conn);
            assert!(missed < KEYS, "nothing is there");
        } else {
            // Who must not come back is not overwritten; new ones are taken.
            for key in 0..KEYS {
                let request = format!("set new-{key} 0 0 3\r\nnew\r\n");
                let (reply, _) = conn.exchange(&[request.as_bytes()], |got| got.ends_with(b"\r\n"));
                let is_told = reply == b"STORED\r\n" || reply.starts_with(b"SERVER_ERROR ");
                assert!(is_told, "{}", reply.escape_ascii());
            }
            records.check_all(&mut conn);
        }
        server.assert_serves();
    }
}

/// What cannot be read is a miss.
#[test]
fn what_the_disk_has_lost_is_a_miss() {
    let directory = Directory::new();
    let mut server = serve(&directory, &[]);
    let mut conn = server.connect();
    let mut records = Records::default();
    records.store(&mut conn, 0..KEYS);
    let entries = fs::read_dir(directory.path()).expect("it is there");
    for path in entries.map(|entry| entry.expect("it can be listed").path()) {
        if path.extension().is_some_and(|it| it == "segment") {
            let file = OpenOptions::new().write(true).open(&path).expect("it can be opened");
            file.write_all_at(&[0x55; 512 << 10], 256 << 10).expect("it can be written");
        }
    }
    let missed = records.check_all(&mut conn);
    assert!((KEYS / 10..KEYS).contains(&missed), "{missed} are lost");
    assert!(count(&mut conn, "table_reads_failed") > 0);
    records.store(&mut conn, 0..KEYS);
    records.check_all(&mut conn);
    server.assert_serves();
}
