//! `kelvin bench` as a command, against `kelvin serve`.

use std::{
    fs,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::process::{self, Directory, PATIENCE, kelvin};

fn bench(arguments: &[&str]) -> Output {
    let short = ["bench", "--duration", "50ms", "--warm-up", "10ms", "--keys", "1000", "--quiet"];
    kelvin(&[&short, arguments].concat()).output().expect("kelvin runs")
}

/// A server on a Unix socket in a directory of its own.
struct Serving {
    server: process::Serving,
    directory: Directory,
}

impl Serving {
    fn start(name: &str) -> Self {
        let directory = Directory::new(name);
        let server =
            process::Serving::start(&["--unix", &directory.path("socket"), "--memory", "64MiB"]);
        Self { server, directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path(name)
    }

    fn address(&self) -> String {
        format!("unix:{}", self.path("socket"))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_run_shows_a_table_and_writes_its_files() {
    let [first, second, third] = ["first", "second", "third"].map(Serving::start);
    let (json, svg, record) = (first.path("j"), first.path("s"), first.path("r"));
    let pid = second.server.pid().to_string();
    let arguments = [
        &first.address(),
        "--against",
        &second.address(),
        "--against-pid",
        &pid,
        "--against",
        &third.address(),
        "--unverified",
        &second.address(),
        "--connections",
        "2,4",
        "--depth",
        "1,8",
        "--rounds",
        "2",
        "--protocol",
        "meta",
        "--json",
        &json,
        "--svg",
        &svg,
        "--record",
        &record,
    ];
    let output = bench(&arguments);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{shown}{said}");
    assert_eq!(said, "");
    // The process behind a Unix socket is found out.
    let found = format!("process {} `kelvin`", first.server.pid());
    for part in ["2 x 1 ", "4 x 8 ", "A needs ", &found, "ceiling", "than C"] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    let unverified = shown.lines().filter(|line| line.ends_with("NOT VERIFIED"));
    assert!(unverified.eq(shown.lines().filter(|line| line.starts_with("B: "))), "{shown}");
    assert!(!shown.contains("FAILED") && !shown.contains("refused"), "{shown}");
    let json = fs::read_to_string(json).expect("it is written");
    assert!(json.contains("\"faults\": 0") && json.contains("\"value_bytes\": \"32B\""));
    assert!(fs::read_to_string(svg).expect("it is written").ends_with("</svg>\n"));
    assert!(fs::read_to_string(record).expect("it is written").lines().count() > 100);
}

#[test]
fn a_fixed_rate_is_kept() {
    let server = Serving::start("rate");
    let json = server.path("json");
    let output = bench(&[
        &server.address(),
        "--rate",
        "2k",
        "--rounds",
        "1",
        "--duration",
        "500ms",
        "--json",
        &json,
        "--no-ceiling",
    ]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("open loop, 2000 requests a second at random gaps"), "{shown}");
    assert!(shown.contains("the generator itself sent at most"), "{shown}");
    let json = fs::read_to_string(json).expect("it is written");
    assert!(json.contains("\"open_rate_per_s\": 2000.0"), "{json}");
}

#[test]
fn a_trace_is_replayed() {
    let [first, second] = ["first", "second"].map(Serving::start);
    let json = first.path("j");
    let arguments = ["--trace", "loop:keys=300,requests=3000", "--copies", "2", "--json", &json];
    let servers = ["bench", &first.address(), "--against", &second.address(), "--quiet"];
    let output = kelvin(&[&servers[..], &arguments].concat()).output().expect("kelvin runs");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("2 copies: 6000 requests of 600 keys"), "{shown}");
    let json = fs::read_to_string(json).expect("it is written");
    // Both keep all of it.
    assert_eq!(json.matches("\"misses\": 600").count(), 2, "{json}");
    assert_eq!(json.matches("\"resident_bytes\": null").count(), 0, "{json}");
}

#[test]
fn every_key_is_asked_for_once_in_each_pass_and_an_earlier_run_is_believed() {
    let server = Serving::start("each");
    let json = server.path("json");
    let address = server.address();
    let load = ["bench", &address, "--keys", "500", "--quiet", "--json", &json];
    let shown = |arguments: &[&str]| {
        let output = kelvin(&[&load[..], arguments].concat()).output().expect("kelvin runs");
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
        shown
    };
    let sweep = shown(&["--each", "set,get,mend", "--connections", "3"]);
    assert!(
        sweep.contains("500 keys once in each pass, values of 32B, 3 connections x 1"),
        "{sweep}"
    );
    let read = || fs::read_to_string(&json).expect("it is written");
    let report = read();
    for (part, count) in [("\"stored\": 500", 1), ("\"hits\": 500", 1), ("\"kept\": 500", 1)] {
        assert_eq!(report.matches(part).count(), count, "{part}: {report}");
    }
    let round = ["--rounds", "1", "--duration", "200ms", "--mix", "1:0", "--no-ceiling"];
    shown(&[&["--loaded"], &round[..]].concat());
    let report = read();
    // All was verified.
    assert!(report.contains("\"unjudged\": 0") && report.contains("\"misses\": 0"), "{report}");
}

#[test]
fn mistakes_are_explained() {
    let gone = std::env::temp_dir().join("kelvin-bench-test-nobody");
    let gone = format!("unix:{}", gone.display());
    for (arguments, code, expected) in [
        (&[gone.as_str()][..], 1, "cannot connect to unix:"),
        (&[], 2, "<ADDR>"),
        (&["a:b"], 2, "`a:b` is no address"),
        (&["x", "--popularity", "zip"], 2, "`zip` is no distribution"),
        (&["x", "--mix", "90"], 2, "`90` is no mix"),
        (&["x", "--value-size", "2GiB"], 2, "out of range"),
        (&["x", "--against-pid", "1"], 2, "--against"),
        (&["x", "--unverified", "y"], 1, "--unverified y:11211: this server is not measured"),
        (&["x", "--against", "x:11211"], 1, "x:11211 is given twice"),
        (&["x", "--trace", "zipf:", "--depth", "4"], 2, "cannot be used with '--depth"),
        (&["x", "--trace", "zipf:size=4"], 2, "no parameter"),
        (&["x", "--copies", "4"], 2, "--trace"),
        (&["x", "--duration", "0s"], 1, "the duration must be above 0"),
        (&["x", "--key-size", "4"], 1, "too short for `key:`"),
        (&["x", "--protocol", "binary"], 2, "`binary` is no protocol"),
    ] {
        let output = kelvin(&[&["bench"], arguments].concat()).output().expect("kelvin runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_signal_shows_what_was_measured() {
    let server = Serving::start("signal");
    let mut bench = kelvin(&["bench", &server.address(), "--keys", "100", "--duration", "5m"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kelvin runs");
    std::thread::sleep(Duration::from_secs(3));
    let pid = bench.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
    assert!(sent.success());
    let begun = Instant::now();
    while bench.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < PATIENCE, "it ends");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = bench.wait_with_output().expect("a child");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(shown.contains("16 x 1 ") && shown.contains("Interrupted"), "{shown}");
    assert!(text(&output.stderr).ends_with("error: interrupted\n"));
}
