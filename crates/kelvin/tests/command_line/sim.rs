//! `kelvin sim` as a command.

use std::{fs, process::Output};

use crate::process::{Directory, kelvin};

fn sim(arguments: &[&str]) -> Output {
    kelvin(&[&["sim", "--quiet"], arguments].concat()).output().expect("kelvin runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_run_shows_a_table_and_writes_its_files() {
    let directory = Directory::new("sim");
    let trace = directory.file("loop.keys", &"a\nb\nc\nd\n".repeat(50));
    let (json, svg) = (directory.path("j"), directory.path("s"));
    let output = sim(&[
        "--unit-size",
        "--sizes",
        "75%,25%",
        "--policies",
        "lru,belady",
        "--json",
        &json,
        "--svg",
        &svg,
        &trace,
        "loop:keys=2,requests=10",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    let expected = "\
units; seed 1

loop.keys: 200 requests, 4 keys
size            25 %      75 %
keys               1         3
lru           1.0000    1.0000
belady        1.0000    0.3450

loop:keys=2,requests=10: 10 requests, 2 keys
size            25 %      75 %
keys               1         2
lru           1.0000    0.2000
belady        1.0000    0.2000
";
    assert_eq!(text(&output.stdout), expected);
    let row =
        |trace: &str, policy: &str, percent: &str, capacity: u32, requests: u32, misses: u32| {
            format!(
                "{{\"capacity\":{capacity},\"misses\":{misses},\"policy\":\"{policy}\",\
             \"requests\":{requests},\"size_percent\":{percent},\"trace\":\"{trace}\"}}"
            )
        };
    let rows = [
        row("loop.keys", "lru", "25.0", 1, 200, 200),
        row("loop.keys", "lru", "75.0", 3, 200, 200),
        row("loop.keys", "belady", "25.0", 1, 200, 200),
        row("loop.keys", "belady", "75.0", 3, 200, 69),
        row("loop:keys=2,requests=10", "lru", "25.0", 1, 10, 10),
        row("loop:keys=2,requests=10", "lru", "75.0", 2, 10, 2),
        row("loop:keys=2,requests=10", "belady", "25.0", 1, 10, 10),
        row("loop:keys=2,requests=10", "belady", "75.0", 2, 10, 2),
    ];
    let written = fs::read_to_string(&json).expect("it was written");
    assert_eq!(written, format!("[\n{}\n]\n", rows.join(",\n")));
    let drawn = fs::read_to_string(&svg).expect("it was written");
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
    assert_eq!(drawn.matches(">loop.keys</text>").count(), 1);
    // A line of the legend and one in each of the two charts for each policy.
    assert_eq!(drawn.matches("stroke-width=\"1.5\"").count(), 6);
}

#[test]
fn the_whole_cache_is_replayed_with_a_budget_in_bytes() {
    let arguments = ["--policies", "htr", "--sizes", "50%", "--min-memory", "8MiB"];
    let run = || {
        let output = sim(&[arguments.as_slice(), &["zipf:keys=500,requests=3000"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let first = run();
    let figure = |name: &str| -> f64 {
        let line = first.lines().find(|line| line.starts_with(name));
        let cell = line.and_then(|line| line.split_whitespace().last());
        cell.and_then(|cell| cell.parse().ok()).unwrap_or_else(|| panic!("{name}: {first}"))
    };
    // Copies are added until half of what their keys take is 8 MiB or more.
    assert!(figure("MiB") >= 8.0 && figure("MiB") < 9.0, "{first}");
    assert!(figure("copies") > 10.0, "{first}");
    // 412 first uses of 3000 miss anyway, and half of the keys do not fit.
    assert!((0.15..0.35).contains(&figure("htr")), "{first}");
    assert_eq!(run(), first, "nothing but the parameters decides");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let directory = Directory::new("sim-wrong");
    let bad = directory.file("bad.trc", "1\n2\nthree\n");
    let output = sim(&["--unit-size", &bad]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), format!("error: {bad}: line 3: `three` is no number\n"));
    assert!(output.stdout.is_empty());

    let missing = directory.path("none.lis.gz");
    let output = sim(&["--unit-size", &missing]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with(&format!("error: cannot open {missing}: ")));

    let output = sim(&["--policies", "lirs", "zipf:"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`lirs` is no policy of the cache"));
}

#[test]
fn what_is_not_understood_is_refused_before_anything_runs() {
    for (arguments, expected) in [
        (vec!["--unit-size"], "<TRACE>"),
        (vec!["--unit-size", "access.log"], "write FORMAT:access.log"),
        (vec!["--unit-size", "--sizes", "0%", "zipf:"], "`0%` is no size"),
        (vec!["--unit-size", "--policies", "clock", "zipf:"], "`clock` is no policy"),
        (vec!["--unit-size", "zipf:keys=1"], "`keys=1` is out of range"),
        (vec!["--shards", "2", "zipf:"], "--unit-size"),
    ] {
        let output = sim(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}
