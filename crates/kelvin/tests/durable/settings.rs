//! What is refused at the start, in words.

use std::process::Command;

use crate::{IO, harness::log_directory::Directory};

fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let output = command.output().expect("kelvin runs");
    assert!(!output.status.success(), "{arguments:?} was taken");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_table_that_cannot_be_is_refused_in_words() {
    let directory = Directory::new();
    let path = directory.path().to_str().expect("text");
    for (arguments, words) in [
        (&["--table-kind", "durable"][..], "a durable table has a `data_dir`"),
        (&["--table-kind", "spill"], "not built yet"),
        (&["--table-kind", "volatile", "--data-dir", path], "has no use for `data_dir`"),
        (&["--data-dir", path, "--write-mode", "maybe"], "neither safe nor async"),
        (&["--data-dir", path, "--restart-file", "x"], "has not a file that keeps records"),
        (&["--data-dir", path, "--listen-udp", "127.0.0.1:0"], "has not datagrams"),
        (&["--data-dir", path, "--evictions", "false"], "has not memory that keeps all"),
        (&["--data-dir", path, "--cas-tokens", "false"], "has not records without tokens"),
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
    let said = refusal(&["--data-dir", path]);
    assert!(said.contains("cannot open the log") && said.contains(path), "{said}");
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
