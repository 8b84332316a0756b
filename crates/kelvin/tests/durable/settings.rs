//! What is refused at the start, in words.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::IO;
use crate::harness::log_directory::Directory;

/// Longer than a server waits for a log that another one has.
const END_MAX: Duration = Duration::from_secs(20);

fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("kelvin runs");
    let deadline = Instant::now() + END_MAX;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().and_then(|()| child.wait()).expect("it runs");
            panic!("{arguments:?} was taken");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(!status.success(), "{arguments:?} was taken");
    // Less than a pipe has room for.
    let mut said = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
    said
}

#[test]
fn a_table_that_cannot_be_is_refused_in_words() {
    let directory = Directory::new();
    let path = directory.path().to_str().expect("text");
    for (arguments, words) in [
        (&["--table-kind", "durable"][..], "a durable table has a `data_dir`"),
        (&["--table-kind", "spill"], "a table that spills has a `data_dir`"),
        (&["--table-kind", "volatile", "--data-dir", path], "has no use for `data_dir`"),
        (&["--data-dir", path, "--write-mode", "maybe"], "neither safe nor async"),
        (&["--data-dir", path, "--restart-file", "x"], "has not a file that keeps records"),
        (&["--data-dir", path, "--listen-udp", "127.0.0.1:0"], "has not datagrams"),
        (&["--data-dir", path, "--evictions", "false"], "has not memory that keeps all"),
        (&["--flush-durable", "true"], "is of a durable table"),
        (&["--data-dir", path, "--cas-tokens", "false"], "has not records without tokens"),
        (&["--data-dir", path, "--spill-size", "1GiB"], "a table that spills, as of `table_kind`"),
        (&["--spill-recover", "false"], "a table that spills, as of `table_kind`"),
        (&["--write-mode", "safe"], "a table that has a `data_dir`"),
        (&["--data-dir", "/proc/none"], "cannot make the directory /proc/none"),
    ] {
        let said = refusal(arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn a_log_that_cannot_be_served_is_refused_in_words() {
    let directory = Directory::new();
    let path = directory.path().to_str().expect("text");
    let server = directory.serve(IO, &[]);
    // It listens before it has the log.
    server.connect().ask(b"mn\r\n", b"MN\r\n");
    let said = refusal(&["--data-dir", path]);
    assert!(said.contains("cannot open the log") && said.contains(path), "{said}");
    assert!(said.contains("somebody has the log"), "{said}");
    drop(server);
    let other = Directory::new();
    let path = other.path().to_str().expect("text");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["log", "load", "--quiet", "--create", "integers:0-100", path]);
    let status = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    assert!(status.status().expect("kelvin runs").success());
    let said = refusal(&["--data-dir", path]);
    assert!(said.contains("integers"), "{said}");
}
