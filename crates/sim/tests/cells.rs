//! Cells, shards and comparisons on traces that are made.

use std::sync::atomic::AtomicBool;

use sim::{Kind, Mode, Outcome, Plan};

fn plan(sources: &[&str], policies: &str, sizes: &[&str], mode: Mode) -> Plan {
    Plan {
        sources: sources.iter().map(|source| source.parse().expect(source)).collect(),
        mode,
        percents: sizes.iter().map(|size| size.parse().expect(size)).collect(),
        policies: Kind::parse_list(policies).expect(policies),
        seed: 1,
        threads: 2,
    }
}

fn run(plan: &Plan) -> Outcome {
    sim::run(plan, &AtomicBool::new(false), &mut |_| {}).expect("made traces")
}

const UNITS: Mode = Mode::Units { shards: 1 };

#[test]
fn threads_and_their_number_decide_nothing() {
    let sources = ["zipf:keys=3000,requests=30000", "drift:keys=500,requests=20000,period=9000"];
    let mut plan = plan(&sources, "htr,lru,2q,belady", &["1%", "10%"], UNITS);
    let figures = |outcome: &Outcome| sim::json(outcome);
    let first = figures(&run(&plan));
    assert_eq!(first.matches("\"misses\"").count(), 2 * 4 * 2);
    plan.threads = 7;
    assert_eq!(figures(&run(&plan)), first);
    plan.seed = 2;
    assert_ne!(figures(&run(&plan)), first);
}

#[test]
fn shards_cost_little_and_are_each_given_their_share() {
    let source = ["zipf:keys=20000,requests=200000"];
    let misses = |shards| {
        let plan = plan(&source, "lru", &["5%", "100%"], Mode::Units { shards });
        let rows = run(&plan).traces.remove(0).rows;
        assert_eq!(rows[1].requests, 200_000);
        (rows[0].misses, rows[1].misses)
    };
    let (one, all) = misses(1);
    let (sixteen, rest) = misses(16);
    assert_ne!(one, sixteen);
    assert!(one.abs_diff(sixteen) * 50 < one, "within 2 %: {one} and {sixteen}");
    // With room for everything, what a shard has too little of misses again.
    assert!(rest >= all && (rest - all) * 50 < all, "{all} and {rest}");
}

#[test]
fn a_stop_shows_what_was_done() {
    let plan = plan(&["zipf:keys=1000,requests=300000"; 3], "lru", &["10%"], UNITS);
    let stop = AtomicBool::new(true);
    let outcome = sim::run(&plan, &stop, &mut |_| {}).expect("made traces");
    assert!(outcome.is_interrupted);
    assert_eq!(outcome.traces.len(), 1);
    // A cell that was not replayed to its end is not shown.
    assert!(outcome.traces[0].rows.is_empty());
    assert!(sim::table(&plan, &outcome).ends_with("was replayed to its end.\n"));
    assert_eq!(sim::json(&outcome), "[\n\n]\n");
}

#[test]
fn comparisons_are_over_cells_that_hold_enough_keys() {
    // Of the loop's 200 keys, 20 % are too few to be compared; the other two cells hold 60 and 120.
    let sources = ["loop:keys=200,requests=20000"];
    let plan = plan(&sources, "lru,lirs,belady", &["20%", "30%", "60%"], UNITS);
    let outcome = run(&plan);
    let all = sim::comparisons(&plan, &outcome);
    let lirs = &all[1];
    assert_eq!((lirs.policy, lirs.cells, lirs.worse), ("lirs".parse().expect("a name"), 2, 0));
    // LIRS keeps all places but two, from the second of a hundred rounds on.
    let fewer = |capacity: f64| (capacity - 2.0) * 99.0 / 20_000.0;
    assert!((lirs.fewer_misses - f64::midpoint(fewer(60.0), fewer(120.0))).abs() < 1e-9);
    assert!((lirs.worst - fewer(60.0)).abs() < 1e-9);
    assert_eq!(lirs.worst_cell, "loop:keys=200,requests=20000 at 30 %");
    assert!((all[0].miss_ratio - 1.0).abs() < 1e-9 && all[0].fewer_misses == 0.0);
    // Without LRU there is nothing to compare with.
    let plan = self::plan(&sources, "lirs", &["30%"], UNITS);
    assert!(sim::comparisons(&plan, &run(&plan)).is_empty());
}

#[test]
fn what_only_counts_keys_runs_no_whole_cache() {
    let whole = Mode::Whole { memory_min_bytes: 1 << 23, writers: 1 };
    let plan = plan(&["zipf:"], "htr,s3fifo", &["10%"], whole);
    let error = sim::run(&plan, &AtomicBool::new(false), &mut |_| {}).expect_err("s3fifo");
    assert!(matches!(error, sim::Error::UnitOnly { policy } if policy == "s3fifo"));
}

/// With one copy of enough keys, whatever their sizes: the whole cache misses a little less than
/// units do, because small records stay longer in it.
#[test]
fn a_whole_cache_misses_less_than_units() {
    let source = ["zipf:keys=120000,requests=400000,exponent=0.8"];
    let ratio = |mode| {
        let plan = plan(&source, "htr", &["30%"], mode);
        let row = run(&plan).traces.remove(0).rows[0];
        assert_eq!(row.refused, 0);
        row.miss_ratio()
    };
    let units = ratio(UNITS);
    let whole = ratio(Mode::Whole { memory_min_bytes: 16 << 20, writers: 1 });
    let less = units - whole;
    assert!((0.0..0.03).contains(&less), "{whole} in the whole cache, {units} in units");
}
