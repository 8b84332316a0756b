//! What is refused at the start, in words.

use std::{
    fs,
    process::{Command, Stdio},
};

use super::records::{Records, serve};
use crate::harness::log_directory::{Directory, make_log};

fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let output = command.stdin(Stdio::null()).output().expect("kelvin runs");
    assert!(!output.status.success(), "{arguments:?} was taken");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_table_that_cannot_spill_is_refused_in_words() {
    let directory = Directory::new();
    let path = directory.path().to_str().expect("text");
    let spill = ["--table-kind", "spill", "--data-dir", path];
    for (arguments, words) in [
        (&["--spill-size", "15MiB"][..], "must be from 16MiB to 4TiB"),
        (&["--spill-admission", "some"], "neither all nor seen"),
        (&["--write-mode", "safe"], "answers without the disk"),
        (&["--restart-file", "x"], "a table that spills, as of `data_dir`, has not a file"),
        (&["--evictions", "false"], "has not memory that keeps all"),
        (&["--memory", "1GiB", "--value-size-max", "17MiB"], "values of 16MiB at most"),
        (&["--memory", "48MiB"], "for the log, which leaves"),
    ] {
        let said = refusal(&[&spill, arguments].concat());
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let said = refusal(&["--table-kind", "spill"]);
    assert!(said.contains("a table that spills has a `data_dir`"), "{said}");
    assert!(fs::read_dir(path).expect("it is there").next().is_none(), "something was made");
}

/// Nothing of a durable table is removed, and nothing of a ring is taken for durable.
#[test]
fn a_directory_of_the_other_kind_is_refused_as_it_is() {
    let directory = Directory::new();
    let path = directory.path().to_str().expect("text");
    make_log(directory.path());
    let before = names(&directory);
    for recovers in ["false", "true"] {
        let spill = ["--table-kind", "spill", "--data-dir", path, "--spill-recover", recovers];
        let said = refusal(&spill);
        assert!(said.contains("durable"), "{said}");
        assert_eq!(names(&directory), before, "something was removed");
    }
    let directory = Directory::new();
    let path = directory.path().to_str().expect("text");
    let server = serve(&directory, &["--spill-recover", "true"]);
    let mut records = Records::default();
    records.store(&mut server.connect(), 0..2000);
    drop(server);
    let said = refusal(&["--data-dir", path]);
    assert!(said.contains("ring"), "{said}");
    let server = serve(&directory, &["--spill-recover", "true"]);
    assert!(records.check_all(&mut server.connect()) < 2000, "its records are lost");
}

fn names(directory: &Directory) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).expect("it is there");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("it can be listed").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}
