use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{
    Run, Summary, Violation,
    full::{CRASHES, REMOVES, REMOVES_REFUSED},
    steps::{ENCODED_BESIDE, MOVED_BY_WRITERS},
};
use crate::{fault::Kind, scenario::Scenario};

/// Runs of 1,000 operations each; about 10 ms a run.
const SEEDS: u64 = 10_000;

/// Runs these seeds on every processor, until one fails.
fn run_all(seeds: std::ops::Range<u64>) -> Result<Summary, Violation> {
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let all = Mutex::new(Ok(Summary::default()));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let outcome = Run::new(Scenario::new(seed)).run();
            let mut all = all.lock().expect("no run panics");
            match (outcome, &mut *all) {
                (Ok(summary), Ok(all)) => {
                    let operations = summary.deeds["operations"];
                    assert!(operations >= 1000, "seed {seed}: {operations} operations");
                    all.merge(&summary);
                }
                (Err(violation), Ok(_)) => {
                    failed.store(true, Ordering::Relaxed);
                    *all = Err(violation);
                }
                (_, Err(_)) => {}
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    all.into_inner().expect("no run panics")
}

#[test]
fn seeds_hold() {
    let summary = match run_all(0..SEEDS) {
        Ok(summary) => summary,
        Err(violation) => panic!("{violation}"),
    };
    println!("{summary}");
    assert_eq!(summary.faults.rarer_than(FEWEST), [], "kinds of fault that hardly ever struck");
    let of = |deed| summary.deeds.get(deed).copied().unwrap_or(0);
    for deed in DEEDS {
        let count = of(deed);
        assert!(count >= FEWEST, "{count} {deed}");
    }
    assert!(summary.faults.of(Kind::RecoveryCrash) > SEEDS, "too few crashes during recovery");
    assert!(of(REMOVES_REFUSED) < of(REMOVES), "removes are refused on a full disk");
}

/// A kind of fault, or a deed, that all runs together have met less often was not tested.
const FEWEST: u64 = 100;

/// What must have happened, beside every kind of fault.
const DEEDS: [&str; 47] = [
    MOVED_BY_WRITERS,
    ENCODED_BESIDE,
    "values written over in memory",
    "wipes",
    "wipes that a crash has met, and that were done",
    "wipes that a crash has met, and that were not",
    "openings that could not remove a file",
    "segments moved",
    "segments moved on a full disk",
    "records moved",
    "heads moved",
    "tombstones moved",
    "tombstones dropped",
    "expired values dropped",
    "moves lost",
    "iterations from an end",
    "iterations that went on",
    "keys listed",
    "puts again after a full disk",
    REMOVES,
    CRASHES,
    "segments freed",
    "segments freed on a full disk",
    "files removed",
    "iterations",
    "records shown",
    "copies",
    "batches",
    "large values in batches",
    "removes of what is not there in batches",
    "batches lost whole",
    "batches of more than may be lost",
    "safe batches",
    "growths of the range of keys",
    "large puts",
    "stops in order",
    "clean openings",
    "openings that could not read all",
    "keys hidden by what could not be read",
    "losses within the bound",
    "losses by name",
    "mode changes",
    "drained",
    "failed answers",
    "rewritten",
    "rewritten on a full disk",
    "waits for room",
];

#[test]
#[ignore = "soak: a million runs"]
fn soak_seeds_hold() {
    let summary = match run_all(0..100 * SEEDS) {
        Ok(summary) => summary,
        Err(violation) => panic!("{violation}"),
    };
    println!("{summary}");
}

#[test]
fn a_seed_repeats_itself() {
    let run = |seed| {
        let summary = Run::new(Scenario::new(seed)).run().expect("it holds");
        (summary.faults, summary.deeds)
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}
