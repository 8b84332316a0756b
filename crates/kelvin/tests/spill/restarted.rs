//! What a table that spills has after its server was killed or stopped.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::records::{KEYS, Records, serve};
use crate::harness::{
    log_directory::{Directory, stat},
    rng::Rng,
    server::Server,
};

const END_MAX: Duration = Duration::from_secs(20);

/// Keys that are some more than memory has room for.
const SOME: usize = 2000;

const RECOVERS: [&str; 2] = ["--spill-recover", "true"];

fn stop(mut server: Server) {
    server.terminate();
    let ended = server.wait_for_end(END_MAX).expect("it ends");
    assert!(ended.success(), "{ended}: {}", server.log());
}

#[test]
fn a_ring_begins_empty_after_a_kill_and_after_a_stop() {
    let directory = Directory::new();
    for end in [drop::<Server>, stop, drop] {
        let server = serve(&directory, &[]);
        let mut conn = server.connect();
        assert_eq!(stat(&mut conn, "log_entries"), 0);
        let mut records = Records::default();
        records.flush();
        records.check_all(&mut conn);
        records.store(&mut conn, 0..KEYS);
        assert!(records.check_all(&mut conn) < KEYS / 2);
        end(server);
    }
}

/// Whatever is there is the newest that was acknowledged, and most of it is there.
#[test]
fn a_ring_that_recovers_shows_nothing_old() {
    let directory = Directory::new();
    let mut records = Records::default();
    for (seed, end) in [drop::<Server>, stop, drop, drop].into_iter().enumerate() {
        let server = serve(&directory, &RECOVERS);
        let mut conn = server.connect();
        let missed = records.check_all(&mut conn);
        assert!(missed < KEYS * 3 / 4, "{missed} are lost");
        records.store(&mut conn, 0..KEYS);
        records.play(&mut conn, &mut Rng::new(seed as u64), 60);
        conn.ask(b"flush_all\r\n", b"CLIENT_ERROR flush_all not allowed\r\n");
        end(server);
    }
}

/// A run without tombstones leaves what is out of date: nobody gets to see it.
#[test]
fn a_ring_that_did_not_recover_is_emptied_before_it_does() {
    let directory = Directory::new();
    let server = serve(&directory, &RECOVERS);
    let mut records = Records::default();
    records.store(&mut server.connect(), 0..KEYS);
    stop(server);
    let server = serve(&directory, &[]);
    assert_eq!(stat(&mut server.connect(), "log_entries"), 0);
    records.store(&mut server.connect(), 0..KEYS);
    records.store(&mut server.connect(), (0..KEYS).step_by(2));
    stop(server);
    let server = serve(&directory, &RECOVERS);
    assert_eq!(records.check_all(&mut server.connect()), KEYS);
    assert!(server.log().contains("the ring begins empty"), "{}", server.log());
}

/// What a command of `kelvin log` says of a directory, and whether it succeeds.
fn tool(command: &str, path: &Path) -> (bool, String) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    let output = run.args(["log", command, "--quiet"]).arg(path).stdin(Stdio::null()).output();
    let output = output.expect("kelvin runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_tools_of_logs_look_into_a_ring_and_write_nothing_to_it() {
    for (arguments, purpose) in [
        (&[][..], "purpose a ring that every run begins empty\n"),
        (&RECOVERS[..], "purpose a ring that is opened again\n"),
    ] {
        let directory = Directory::new();
        let mut records = Records::default();
        for end in [drop::<Server>, stop] {
            let server = serve(&directory, arguments);
            let missed = records.check_all(&mut server.connect());
            assert!(arguments.is_empty() || missed < SOME * 3 / 4, "{missed} are lost");
            records.store(&mut server.connect(), 0..SOME);
            let (succeeded, said) = tool("stats", directory.path());
            assert!(!succeeded && said.contains("is in use"), "{said}");
            end(server);
            // What a server that was killed has handed to its ring may still be under way.
            let deadline = Instant::now() + END_MAX;
            let mut told = tool("stats", directory.path());
            while told.1.contains("is in use") && Instant::now() < deadline {
                told = tool("stats", directory.path());
            }
            let (succeeded, said) = told;
            let is_whole = said.contains(purpose) && said.contains("\ndamaged 0\n");
            assert!(succeeded && is_whole, "{said}");
            let (succeeded, said) = tool("verify", directory.path());
            assert!(succeeded && said.contains("; 0 places are damaged"), "{said}");
            for command in ["load", "compact"] {
                let (succeeded, said) = tool(command, directory.path());
                let is_told = said.contains("this is a ring") && said.contains("table spills");
                assert!(!succeeded && is_told, "{said}");
            }
        }
    }
}
