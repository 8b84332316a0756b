use std::{
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use super::{Bound, Churn, ChurnOptions, Ledger, Popularity, run};
use crate::disk::{
    engine::{Engine, KINDS, OwnSpace, Session, memory::InMemory},
    load::Load,
    options::{Files, engine},
};

/// Whoever asks for a session has a bug.
struct Broken;

impl Engine for Broken {
    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        panic!("no session");
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_panic_ends_a_run_and_a_time_that_is_up_marks_it() {
    let options = ChurnOptions {
        times: 2,
        writers: 3,
        sample_time: Duration::from_millis(1),
        put_time_max: Duration::from_secs(600),
        ..ChurnOptions::default()
    };
    let load = Load::new(100, 8);
    let ledger = Ledger::new(&load);
    let place = std::env::temp_dir().join(format!("kelvin-peers-panic-{}", std::process::id()));
    fs::create_dir(&place).expect("a directory");
    let churn = |options: &ChurnOptions, engine: &dyn Engine| {
        let popularity = Popularity::Uniform;
        Churn { options, load: &load, ledger: &ledger, popularity }.run(engine, &place)
    };
    let begun = Instant::now();
    let panicked = catch_unwind(AssertUnwindSafe(|| churn(&options, &Broken)));
    assert!(panicked.is_err() && begun.elapsed() < Duration::from_secs(60));
    let whole = churn(&options, &InMemory::default()).expect("it runs");
    assert_eq!((whole.count, whole.is_cut), (3 * 66, false));
    let hurried = ChurnOptions { put_time_max: Duration::ZERO, ..options.clone() };
    let cut = churn(&hurried, &InMemory::default()).expect("it runs");
    assert_eq!((cut.count, cut.is_cut), (3, true));
    fs::remove_dir(&place).expect("it is empty");
}

#[test]
fn a_bound_is_what_is_kept_a_share_of_it_and_some_segments() {
    let own = OwnSpace { segment_bytes: 64, ..OwnSpace::default() };
    let bound = Bound::new(900, 1000, 130, Some(own));
    assert_eq!((bound.space_bytes, bound.kept_bytes), (1300, 576));
    assert!(bound.is_promised() && bound.holds(1876) && !bound.holds(1877));
    let of_others = Bound::new(1000, 1000, 130, None);
    assert!(!of_others.is_promised() && !of_others.holds(1301));
}

#[test]
fn a_tiny_run_says_what_every_store_took_and_when() {
    let directory = std::env::temp_dir().join(format!("kelvin-peers-churn-{}", std::process::id()));
    fs::create_dir(&directory).expect("a directory");
    let (json, svg) = (directory.join("churn.json"), directory.join("churn.svg"));
    let rival = KINDS.iter().find(|kind| kind.name == "leveldb").copied();
    let options = ChurnOptions {
        records: 4000,
        times: 3,
        writers: 2,
        segment_bytes: 4 << 20,
        window: Duration::from_millis(20),
        pairs: 2,
        settle_time_max: Duration::ZERO,
        wait_max: Duration::from_millis(200),
        sample_time: Duration::from_millis(1),
        engines: engine("kelvin").into_iter().chain(rival).collect(),
        directory: directory.join("stores"),
        files: Files { json: Some(json.clone()), svg: Some(svg.clone()) },
        ..ChurnOptions::default()
    };
    run(&options).expect("it runs");
    let text = fs::read_to_string(json).expect("it was written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let rows = report["rows"].as_array().expect("there are rows");
    assert_eq!(rows.len(), 4 * options.engines.len());
    for row in rows {
        let sample = &row["samples"][0];
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let looks = sample["looks"].as_array().expect("there are looks");
        let data_bytes = number(&sample["bound"]["data_bytes"]);
        // Of 1 KiB, or a hundredth of 100 KiB.
        assert!(data_bytes >= f64::from(4000 * 1024), "{row}");
        assert!(!looks.is_empty(), "{row}");
        assert!(number(&looks[0]["bytes"]) > 0.0, "{row}");
        let pairs = sample["pairs"].as_array().expect("there are pairs");
        assert_eq!(pairs.len(), 2, "{row}");
        let stored = pairs.iter().flat_map(|pair| [&pair["busy"], &pair["quiet"]]);
        let alone = pairs.iter().flat_map(|pair| [&pair["bare_busy"], &pair["bare_quiet"]]);
        let offered: Vec<_> = stored.chain(alone.map(|it| &it["offered"])).collect();
        assert_eq!(offered.len(), 8, "{row}");
        for pace in offered.iter().copied().chain([&sample["churned"]]) {
            assert!(number(&pace["per_s"]) > 0.0, "{row}");
            assert!(number(&pace["p99_us"]) > 0.0, "{row}");
        }
        assert!(offered.iter().all(|pace| pace["is_cut"] == false), "{row}");
        assert_eq!(sample["is_cut"], false, "{row}");
        assert_eq!(sample["is_settled"], false, "nobody waited for it");
        assert!(number(&sample["shrunk"]["removes_per_s"]) > 0.0, "{row}");
        if row["engine"] == "kelvin" {
            // All is written but what was overwritten in memory.
            let last = looks.last().expect("there are looks");
            let overwritten = number(&last["own"]["overwritten"]) / number(&last["overwrites"]);
            assert!(number(&sample["write_amplification"]) >= 1.0 - overwritten, "{row}");
        }
    }
    let svg = fs::read_to_string(svg).expect("it was written");
    let dashed = svg.matches("stroke-dasharray").count();
    assert_eq!(dashed, 4 + 1, "a bound in every panel, and in the legend");
    let left = fs::read_dir(directory.join("stores")).expect("it is there");
    assert_eq!(left.count(), 0, "stores are removed");
    fs::remove_dir_all(&directory).expect("it was there");
}
