//! Traces replayed on servers.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bench::{Error, ReplayOutcome, ReplayPlan, Server, replay, replay_json, replay_table};

use crate::fake::{self, Fault};

fn plan(trace: &str, copies: u32, faults: &[Fault]) -> ReplayPlan {
    let server = |fault: &Fault| Server {
        address: fake::start(*fault).parse().expect("an address"),
        // Not the server's, but some process that there is.
        pid: Some(std::process::id()),
        verifies: true,
    };
    ReplayPlan {
        servers: faults.iter().map(server).collect(),
        source: trace.parse().expect(trace),
        copies,
        seed: 1,
        patience: Duration::from_millis(500),
    }
}

fn run(plan: &ReplayPlan) -> ReplayOutcome {
    replay(plan, &AtomicBool::new(false), &mut |_| {}).expect("it begins")
}

#[test]
fn a_server_that_keeps_all_misses_each_key_once() {
    // Two keys come again within every burst; 150 do not.
    for (trace, copies, keys) in
        [("zipf:keys=2,requests=1000", 1, 2), ("loop:keys=50,requests=400", 3, 150)]
    {
        let plan = plan(trace, copies, &[Fault::None, Fault::None]);
        let outcome = run(&plan);
        let requests = outcome.requests;
        assert_eq!((outcome.keys, outcome.sides.len()), (keys, 2));
        for side in &outcome.sides {
            assert_eq!((side.counts.misses, side.counts.hits), (keys, requests - keys), "{trace}");
            assert_eq!((side.counts.wrong, side.counts.refused), (0, 0), "{:?}", side.samples);
            assert!(side.resident_bytes.is_some_and(|(_, after)| after > 1 << 20));
        }
        assert!(outcome.record_bytes > keys * 17);
        let report: serde_json::Value =
            serde_json::from_str(&replay_json(&plan, &outcome)).expect("JSON");
        assert_eq!(report["servers"][1]["misses"], keys);
        assert_eq!(report["record_bytes"], outcome.record_bytes);
        let table = replay_table(&plan, &outcome);
        assert!(table.contains(&format!("{requests} requests of {keys} keys")), "{table}");
    }
}

#[test]
fn what_a_server_does_wrong_is_found() {
    for (fault, wrong, refused) in
        [(Fault::Swap, true, false), (Fault::Flip, true, false), (Fault::Full, false, true)]
    {
        let plan = plan("loop:keys=60,requests=300", 1, &[fault]);
        let outcome = run(&plan);
        let counts = outcome.sides[0].counts;
        assert_eq!((counts.wrong > 0, counts.refused > 0), (wrong, refused), "{fault:?}");
        assert_eq!(replay_table(&plan, &outcome).contains("FAILED"), wrong, "{fault:?}");
        // What is refused stays away.
        assert_eq!(counts.misses, if refused { 300 } else { 60 }, "{fault:?}");
    }
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let end = |fault| {
        let plan = plan("loop:keys=60,requests=300", 1, &[fault]);
        replay(&plan, &AtomicBool::new(false), &mut |_| {}).expect_err("it ends")
    };
    assert!(matches!(end(Fault::Close), Error::Broken { .. }));
    assert!(matches!(end(Fault::Silence), Error::Broken { .. }));
    assert!(matches!(end(Fault::Babble), Error::Garbled { .. }));
    let mut lost = plan("keys:/nonexistent/trace", 1, &[Fault::None]);
    let begin = |plan: &ReplayPlan| replay(plan, &AtomicBool::new(false), &mut |_| {});
    assert!(matches!(begin(&lost), Err(Error::Trace(_))));
    lost.copies = 0;
    assert!(matches!(begin(&lost), Err(Error::Settings(_))));
}

#[test]
fn asked_to_stop_it_stops() {
    let plan = plan("loop:keys=10,requests=1000000", 1, &[Fault::None, Fault::None]);
    let stop = AtomicBool::new(false);
    let outcome = replay(&plan, &stop, &mut |text| {
        stop.store(text.contains("65536 of 1000000 requests"), Ordering::Relaxed);
    });
    let outcome = outcome.expect("it begins");
    assert!(outcome.is_interrupted);
    let counts = outcome.sides[0].counts;
    // It looks around each time before it says something.
    assert_eq!((outcome.sides.len(), counts.hits + counts.misses), (1, 131_072));
    assert!(replay_table(&plan, &outcome).contains("Interrupted"));
}
