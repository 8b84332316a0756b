//! Every key once, in passes.

use std::sync::atomic::{AtomicBool, Ordering};

use bench::{Load, Pass, Plan, Protocol, Shape, SweepOutcome, sweep, sweep_json, sweep_table};

use crate::{
    fake::{self, Fault},
    plan,
};

fn run(plan: &Plan, passes: &[Pass]) -> SweepOutcome {
    sweep(plan, passes, &AtomicBool::new(false), &mut |_| {}).expect("it begins")
}

/// Hits, misses, stored, kept of each pass.
fn counts(outcome: &SweepOutcome) -> Vec<[u64; 4]> {
    let counts = outcome.passes.iter().map(|swept| swept.tally.counts);
    counts.map(|counts| [counts.hits, counts.misses, counts.stored, counts.kept]).collect()
}

#[test]
fn what_a_server_acknowledges_and_drops_is_seen_and_mended() {
    for protocol in [Protocol::Text, Protocol::Meta] {
        let address = fake::start(Fault::Drop);
        let mut plan = plan(&[&address]);
        plan.protocol = protocol;
        plan.threads = 2;
        plan.shapes = vec![Shape { connections: 3, depth: 2 }];
        let outcome = run(&plan, &[Pass::Set, Pass::Get, Pass::Mend, Pass::Get]);
        let expected = [[0, 0, 100, 0], [90, 10, 0, 0], [0, 0, 10, 90], [100, 0, 0, 0]];
        assert_eq!(counts(&outcome), expected, "{protocol}");
        assert_eq!((outcome.faults(), outcome.error.is_none()), (0, true));
        for swept in &outcome.passes {
            assert_eq!(swept.figures.map(|figures| figures.replies), Some(100));
            assert_eq!(swept.tally.all().len(), 100);
        }
        let table = sweep_table(&plan, &outcome);
        assert!(table.contains("100 keys once in each pass, values of 32B, 3 connections x 2"));
        assert_eq!(table.lines().filter(|line| line.contains("  get ")).count(), 2, "{table}");
        let report: serde_json::Value =
            serde_json::from_str(&sweep_json(&plan, &outcome)).expect("JSON");
        assert_eq!(report["passes"][1]["counts"]["misses"], 10);
        assert_eq!(report["passes"][2]["latency_ns"]["count"], 100);
        // Another run knows what the first has left, mended values included.
        plan.load = Load::Earlier;
        let later = run(&plan, &[Pass::Get]);
        assert_eq!(counts(&later), [[100, 0, 0, 0]]);
        assert_eq!((later.faults(), later.passes[0].tally.counts.unjudged), (0, 0));
    }
}

#[test]
fn what_is_there_from_before_is_wrong_for_a_run_with_another_seed() {
    let address = fake::start(Fault::None);
    let mut plan = plan(&[&address]);
    assert_eq!(counts(&run(&plan, &[Pass::Set])), [[0, 0, 100, 0]]);
    plan.load = Load::Earlier;
    plan.seed = 2;
    let outcome = run(&plan, &[Pass::Get]);
    assert_eq!(outcome.faults(), 100);
    assert!(sweep_table(&plan, &outcome).contains("FAILED"));
}

#[test]
fn a_pass_that_ends_early_has_no_figures() {
    let address = fake::start(Fault::Close);
    let outcome = run(&plan(&[&address]), &[Pass::Set, Pass::Get, Pass::Get]);
    assert_eq!(outcome.passes.len(), 2);
    assert!(outcome.passes[0].figures.is_some() && outcome.passes[1].figures.is_none());
    assert!(outcome.error.is_some());
    let stop = AtomicBool::new(false);
    let address = fake::start(Fault::Slow(3));
    let mut plan = plan(&[&address]);
    plan.keys = 1_000_000;
    let stopped = sweep(&plan, &[Pass::Get], &stop, &mut |text| {
        assert!(text.starts_with("get, ") && text.ends_with(" of 1000000 keys"), "{text}");
        stop.store(true, Ordering::Relaxed);
    });
    assert!(stopped.expect("it begins").is_interrupted);
}
