//! Whole runs against servers that are right, wrong, slow or gone.
//!
//! No test depends on how fast the machine is: what is asserted holds however long things take.

mod fake;
mod replay;
mod sweep;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bench::{Error, Kind, Load, Outcome, Pace, Plan, Popularity, Protocol, Server, Shape, Sizes};
use fake::Fault;

fn plan(addresses: &[&str]) -> Plan {
    let server = |address: &&str| Server {
        address: address.parse().expect(address),
        pid: None,
        verifies: true,
    };
    Plan {
        servers: addresses.iter().map(server).collect(),
        shapes: vec![Shape { connections: 4, depth: 4 }],
        protocol: Protocol::Text,
        keys: 100,
        popularity: Popularity::Zipf { exponent: 0.99 },
        key_prefix: "key:".to_owned(),
        key_sizes: Sizes::Fixed(16),
        value_sizes: Sizes::Fixed(32),
        gets: 0.9,
        pace: Pace::Closed,
        threads: 1,
        cpus: Vec::new(),
        rounds: 1,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(100),
        spins: false,
        patience: Duration::from_secs(20),
        seed: 1,
        load: Load::Sets,
        finds_ceiling: false,
        records: true,
        device: None,
    }
}

fn run(plan: &Plan) -> Outcome {
    bench::run(plan, &AtomicBool::new(false), &mut |_| {}).expect("it begins")
}

fn run_against(fault: Fault, change: impl FnOnce(&mut Plan)) -> (Plan, Outcome) {
    let mut plan = plan(&[&fake::start(fault)]);
    change(&mut plan);
    let outcome = run(&plan);
    (plan, outcome)
}

#[test]
fn a_right_server_is_found_right_in_both_protocols() {
    for (protocol, sizes) in [
        (Protocol::Text, Sizes::Fixed(32)),
        (Protocol::Meta, Sizes::Uniform(1, 300)),
        (Protocol::Text, Sizes::Fixed(300_000)),
    ] {
        let (_, outcome) = run_against(Fault::None, |plan| {
            plan.protocol = protocol;
            plan.value_sizes = sizes;
            plan.threads = 2;
            plan.gets = 0.5;
        });
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(outcome.loads[0].counts.stored, 100);
        let tally = &outcome.cells[0].sides[0].tally;
        assert_eq!(bench::faults(&outcome), 0, "{:?}", tally.samples);
        assert!(tally.counts.hits > 0 && tally.counts.stored > 0);
        assert_eq!((tally.counts.misses, tally.counts.refused, tally.counts.unjudged), (0, 0, 0));
    }
}

#[test]
fn a_wrong_server_is_found_wrong() {
    for (fault, stale, samples) in [
        (Fault::Swap, false, "wrong value"),
        (Fault::Flip, false, "begin as version"),
        (Fault::Forget, true, "stale value"),
    ] {
        let (plan, outcome) = run_against(fault, |plan| {
            plan.protocol = Protocol::Meta;
            plan.duration = Duration::from_millis(300);
            plan.gets = 0.5;
        });
        let tally = &outcome.cells[0].sides[0].tally;
        assert!(bench::faults(&outcome) > 0, "{fault:?}");
        assert_eq!(tally.counts.stale > 0, stale, "{fault:?}: {:?}", tally.counts);
        assert_eq!(tally.counts.wrong > 0, !stale, "{fault:?}: {:?}", tally.counts);
        assert!(tally.samples.iter().any(|sample| sample.contains(samples)), "{:?}", tally.samples);
        assert!(fault != Fault::Flip || tally.counts.wrong == 1);
        let table = bench::table(&plan, &outcome);
        assert!(table.contains("FAILED"), "{table}");
    }
    // Without verification nothing is compared.
    let (_, outcome) = run_against(Fault::Swap, |plan| {
        plan.protocol = Protocol::Meta;
        plan.servers[0].verifies = false;
    });
    assert_eq!(bench::faults(&outcome), 0);
}

#[test]
fn a_stall_is_in_the_latency_of_everything_that_was_due_in_it() {
    let slow_gets = |pace, depth| {
        let (_, outcome) = run_against(Fault::Stall(300), |plan| {
            plan.shapes = vec![Shape { connections: 1, depth }];
            plan.pace = pace;
            plan.gets = 1.0;
            plan.duration = Duration::from_millis(1000);
        });
        let tally = &outcome.cells[0].sides[0].tally;
        let slow = tally.raw.iter().filter(|raw| raw.latency_ns >= 100_000_000).count();
        (slow, tally.gets.clone(), tally.raw.clone(), tally.unsent)
    };
    for (is_poisson, depth) in [(false, 5000), (true, 5000), (true, 4)] {
        // 2000 a second: some 600 were due while nothing was answered, two thirds of them 100 ms
        // or more before it ended. It makes no difference whether they could be sent.
        let pace = Pace::Open { rate: 2000.0, is_poisson };
        let (slow, gets, raw, unsent) = slow_gets(pace, depth);
        assert!(slow >= 350, "{slow}");
        assert!(gets.value_at_quantile(0.9) >= 100_000_000);
        assert!((1800..2200).contains(&(raw.len() as u64 + unsent)), "{} {unsent}", raw.len());
        // Due times go on through the stall.
        let gaps = raw.windows(2).map(|pair| pair[1].due_ns.abs_diff(pair[0].due_ns));
        assert!(gaps.max() < Some(10_000_000));
    }
    // The closed loop asks one at a time, and so sees one slow reply.
    let (slow, ..) = slow_gets(Pace::Closed, 1);
    assert!((1..20).contains(&slow), "{slow}");
}

#[test]
fn a_generator_that_spins_is_busy_only_while_it_has_something_to_do() {
    for spins in [false, true] {
        let (_, outcome) = run_against(Fault::None, |plan| {
            plan.spins = spins;
            plan.pace = Pace::Open { rate: 500.0, is_poisson: true };
            plan.duration = Duration::from_millis(300);
        });
        let figures = outcome.cells[0].sides[0].rounds[0].figures;
        let busy_ns = figures.generator.busiest_ns;
        // Others may have had the CPU, but not in every pause.
        let idle_ns = figures.span_ns.saturating_sub(busy_ns);
        assert!(idle_ns > 1_000_000, "{spins}: {busy_ns} of {}", figures.span_ns);
        assert!(busy_ns > 0 || !spins);
    }
}

#[test]
fn a_rate_that_a_server_cannot_keep_is_reported() {
    let (plan, outcome) = run_against(Fault::Slow(3), |plan| {
        plan.shapes = vec![Shape { connections: 2, depth: 1 }];
        plan.pace = Pace::Open { rate: 4000.0, is_poisson: true };
        plan.gets = 1.0;
    });
    let tally = &outcome.cells[0].sides[0].tally;
    // 400 are due, and at most some 70 can be answered.
    assert!(tally.unsent > 200, "{}", tally.unsent);
    assert!(bench::table(&plan, &outcome).contains("the server does not keep up with the rate"));
}

#[test]
fn refused_sets_are_counted_and_no_fault() {
    let (plan, outcome) = run_against(Fault::Full, |_| {});
    assert_eq!(outcome.loads[0].counts.refused, 100);
    assert_eq!((bench::faults(&outcome), outcome.error.is_none()), (0, true));
    let table = bench::table(&plan, &outcome);
    assert!(table.contains("loading A: 100 requests were refused"), "{table}");
    assert!(table.contains("`SERVER_ERROR out of memory storing object`"), "{table}");
}

#[test]
fn a_server_that_leaves_ends_the_bench_and_the_figures_stay() {
    let end = |fault| {
        let (plan, outcome) = run_against(fault, |plan| {
            if fault == Fault::Silence {
                plan.patience = Duration::from_millis(500);
            }
            plan.duration = Duration::from_secs(20);
        });
        let side = &outcome.cells[0].sides[0];
        assert!(side.tally.counts.hits > 0);
        // A round that was cut short says nothing of a server's speed.
        assert_eq!(side.rounds.len(), 0);
        let report: serde_json::Value =
            serde_json::from_str(&bench::json(&plan, &outcome)).expect("JSON");
        let error = outcome.error.expect("it ends early");
        assert_eq!(report["error"], error.to_string());
        error
    };
    assert!(matches!(end(Fault::Close), Error::Closed { .. }));
    assert!(matches!(end(Fault::Silence), Error::Stalled { under_way: 1.., .. }));
    let error = end(Fault::Babble);
    assert!(error.to_string().ends_with("answered `I am sorry`, expected the reply to a get"));
}

#[test]
fn what_cannot_begin_says_why() {
    let begin = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan(&["127.0.0.1:1"]);
        change(&mut plan);
        bench::run(&plan, &AtomicBool::new(false), &mut |_| {}).expect_err("it cannot begin")
    };
    assert_eq!(begin(&|_| {}).to_string(), "cannot connect to 127.0.0.1:1");
    let gone = |plan: &mut Plan| {
        plan.servers[0].address = "unix:/nonexistent/socket".parse().expect("an address");
    };
    assert!(matches!(begin(&gone), Error::Connect { .. }));
    let short = |plan: &mut Plan| plan.key_sizes = Sizes::Fixed(5);
    assert_eq!(begin(&short).to_string(), "keys of 5B are too short for `key:` and 2 digits");
    assert!(matches!(begin(&|plan| plan.rounds = 0), Error::Settings(_)));
    let mut strange = plan(&[&fake::start(Fault::None)]);
    strange.servers[0].pid = Some(u32::MAX);
    let error = bench::run(&strange, &AtomicBool::new(false), &mut |_| {}).expect_err("no process");
    assert!(matches!(error, Error::Process { pid: u32::MAX, .. }));
}

#[test]
fn asked_to_stop_it_shows_what_it_has() {
    let mut plan = plan(&[&fake::start(Fault::None)]);
    plan.duration = Duration::from_secs(600);
    let stop = AtomicBool::new(false);
    let mut heard = 0;
    let outcome = bench::run(&plan, &stop, &mut |text| {
        assert!(text.contains("requests a second") || text.contains("loading"), "{text}");
        heard += 1;
        stop.store(heard >= 2, Ordering::Relaxed);
    });
    let outcome = outcome.expect("it begins");
    assert!(outcome.is_interrupted);
    assert_eq!(outcome.cells[0].sides[0].rounds.len(), 1);
    assert!(bench::table(&plan, &outcome).contains("Interrupted"));
}

#[test]
fn servers_are_measured_in_turn_and_asked_the_same() {
    // The last one is wrong, but nobody looks.
    let servers = [Fault::None, Fault::None, Fault::Swap].map(fake::start);
    let mut plan = plan(&[&servers[0], &servers[1], &servers[2]]);
    for server in &mut plan.servers {
        server.pid = Some(std::process::id());
    }
    plan.servers[2].verifies = false;
    plan.protocol = Protocol::Meta;
    plan.rounds = 3;
    plan.finds_ceiling = true;
    plan.shapes.push(Shape { connections: 1, depth: 1 });
    let outcome = run(&plan);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    for cell in &outcome.cells {
        let rounds: Vec<usize> = cell.sides.iter().map(|side| side.rounds.len()).collect();
        assert_eq!(rounds, [3, 3, 3]);
        assert!(cell.ceiling.is_some_and(|ceiling| ceiling.0.replies > 0));
        // The times at which requests were due tell.
        let named = ['A', 'B', 'C'].into_iter().zip(&cell.sides);
        let times = |(name, side): (char, &bench::Side)| {
            side.tally.raw.iter().map(|raw| (raw.due_ns, name)).collect::<Vec<_>>()
        };
        let mut all: Vec<(u64, char)> = named.flat_map(times).collect();
        all.sort_unstable();
        let mut order: Vec<char> = all.into_iter().map(|(_, name)| name).collect();
        order.dedup();
        assert_eq!(order, ['A', 'B', 'C', 'B', 'C', 'A', 'C', 'A', 'B']);
    }
    assert_eq!(bench::faults(&outcome), 0);
    let table = bench::table(&plan, &outcome);
    for (text, count) in [
        ("A needs ", 4),
        (" less CPU a request than B", 2),
        (" less CPU a request than C", 2),
        (" null ", 2),
        (", NOT VERIFIED", 1),
    ] {
        let lines = table.lines().filter(|line| line.contains(text));
        assert_eq!(lines.count(), count, "{text}: {table}");
    }
    assert!(table.contains("values verified but of those marked"), "{table}");
    assert!(table.contains("In parentheses: not the server's limit"), "{table}");
}

#[test]
fn progress_is_told_of_every_run() {
    let mut plan = plan(&[&fake::start(Fault::None)]);
    plan.finds_ceiling = true;
    // Long enough for two runs against the null responder to be heard of.
    plan.duration = Duration::from_millis(500);
    let mut heard = Vec::new();
    let outcome = bench::run(&plan, &AtomicBool::new(false), &mut |text| {
        heard.push(text.to_owned());
    });
    assert!(outcome.expect("it begins").error.is_none());
    let about = |what: &str| heard.iter().filter(|text| text.contains(what)).count();
    assert!(about("4 x 4, the generator's ceiling: ") >= 2, "{heard:?}");
    assert!(about(", round 1: ") >= 1, "{heard:?}");
    // Counts begin anew in each run: none is huge for having become negative.
    assert!(heard.iter().all(|text| text.len() < 80), "{heard:?}");
}

#[test]
fn reports_agree_with_an_independent_computation() {
    let (plan, outcome) = run_against(Fault::None, |plan| plan.rounds = 2);
    let tally = &outcome.cells[0].sides[0].tally;
    // The percentiles of the JSON against the sorted numbers of the recording.
    let report: serde_json::Value =
        serde_json::from_str(&bench::json(&plan, &outcome)).expect("JSON");
    let recording = bench::recording(&outcome);
    let mut lines = recording.lines();
    assert_eq!(lines.next(), Some("connections,depth,server,kind,due_ns,latency_ns"));
    let mut recorded: Vec<(String, u64)> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields[..3], ["4", "4", "A"]);
            (fields[3].to_owned(), fields[5].parse().expect("a number"))
        })
        .collect();
    recorded.sort_by_key(|(_, latency_ns)| *latency_ns);
    let side = &report["cells"][0]["sides"][0];
    for kind in ["all", "get", "set"] {
        let sorted: Vec<u64> = recorded
            .iter()
            .filter(|(found, _)| kind == "all" || found == kind)
            .map(|(_, latency_ns)| *latency_ns)
            .collect();
        let shown = &side["latency_ns"][kind];
        assert_eq!(shown["count"], sorted.len());
        // Nothing is shared with what is tested: sorted numbers, their ends, mean and ranks.
        let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
        for (name, exact) in
            [("min", sorted[0] as f64), ("max", sorted[sorted.len() - 1] as f64), ("mean", mean)]
        {
            let found = shown[name].as_f64().expect("a number");
            assert!(
                (found / exact - 1.0).abs() <= 0.001,
                "{kind} {name}: {found}, exactly {exact}"
            );
        }
        for (name, at) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            let rank = (at * sorted.len() as f64).ceil() as usize;
            let exact = sorted[rank - 1] as f64;
            let found = shown[name].as_f64().expect("a number");
            assert!(
                (found / exact - 1.0).abs() <= 0.001,
                "{kind} {name}: {found}, exactly {exact}"
            );
        }
    }
    assert_eq!(side["counts"]["hits"], tally.counts.hits);
    assert_eq!(report["plan"]["keys"], 100);
    assert_eq!(report["servers"][0]["version"], "fake");
    assert_eq!(side["rounds"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["cells"][0]["proven"], false);
    assert_eq!((&report["faults"], &report["error"]), (&0.into(), &serde_json::Value::Null));
    assert!(tally.raw.iter().any(|raw| raw.kind == Kind::Set));
}

#[test]
fn charts_are_well_formed() {
    let (mut plan, mut outcome) = run_against(Fault::None, |plan| {
        plan.servers[0].pid = Some(std::process::id());
        plan.shapes.push(Shape { connections: 2, depth: 8 });
    });
    let chart = bench::svg(&plan, &outcome);
    assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"));
    assert!(chart.contains("4 x 4") && chart.contains("2 x 8"));
    // Everything is inside of what is shown, and no number is none.
    assert!(!chart.contains("NaN") && !chart.contains("inf"));
    for open in ["<text ", "<style>"] {
        let close = open.replace(['<', '>', ' '], "");
        assert_eq!(chart.matches(open).count(), chart.matches(&format!("</{close}>")).count());
    }
    // What nobody measured makes an empty chart, not a broken one.
    outcome.cells.clear();
    plan.shapes.clear();
    assert!(!bench::svg(&plan, &outcome).contains("NaN"));
}
