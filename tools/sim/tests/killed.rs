//! A log in files, whose process is killed again and again.

use std::process::{Command, Output};

/// What is printed when all rounds have passed, and how many writes it says were answered. Records
/// were moved meanwhile.
fn answered(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    println!("{text}");
    let line = text.lines().last().expect("a result");
    let number = |part: usize| {
        let number = line.split(", ").nth(part).and_then(|part| part.split(' ').next());
        number.and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    assert!(number(2) > 100, "too few records moved: {line}");
    number(1)
}

fn kill(rounds: &str) -> u64 {
    let program = env!("CARGO_BIN_EXE_disk-sim");
    let arguments = ["kill", "--seed", "1", "--count", rounds];
    answered(&Command::new(program).args(arguments).output().expect("it starts"))
}

/// In a mount namespace of its own, which ends with it.
fn kill_and_lose(rounds: &str) -> u64 {
    let mut unshare = Command::new("unshare");
    if !rustix::process::getuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--mount", env!("CARGO_BIN_EXE_disk-sim")]);
    unshare.args(["kill", "--held", "--seed", "1", "--count", rounds]);
    let output = unshare.output().expect("util-linux is there");
    let answered = answered(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    let lost = text.lines().find_map(|line| line.trim().strip_prefix("batches lost whole"));
    let lost: u64 = lost.and_then(|count| count.trim().parse().ok()).expect("a count");
    assert!(lost > 10, "{lost} batches were lost, too few to see one lost in part");
    answered
}

#[test]
fn a_kill_loses_nothing_that_was_promised() {
    assert!(kill("20") > 20, "too few writes to lose any");
}

#[test]
fn a_kill_on_a_disk_that_loses_what_is_not_flushed_loses_nothing_that_was_promised() {
    assert!(kill_and_lose("50") > 100, "too few writes to lose any");
}

#[test]
#[ignore = "soak: minutes of kills"]
fn soak_kills_lose_nothing_that_was_promised() {
    assert!(kill("200") > 1000);
    assert!(kill_and_lose("500") > 1000);
}
