use std::time::Duration;

use super::{
    Bound, ChurnOptions, Look, Pace, Pair, Popularity, RIVAL, Report, Sample, Shrunk, Size,
};
use crate::{
    disk::{
        churn::{bare::Alone, pace::Offered},
        engine::Kind,
        options::engine,
    },
    machine::Machine,
};

fn looks(bytes: u64) -> Vec<Look> {
    let look = |bytes| Look { at_s: 0.5, overwrites: 9, bytes, own: None };
    vec![look(150), look(bytes)]
}

fn sample(per_s: f64, bytes: u64) -> Sample {
    let bound = Bound { user_bytes: 100, data_bytes: 100, space_bytes: 130, kept_bytes: 20 };
    let pace = |p99_us| Pace { per_s, p99_us, worst_ms: 7.0, ..Pace::default() };
    let offered = |p99_us| Offered { pace: pace(p99_us), woken_p99_us: 2.5, ..Offered::default() };
    let alone = |p99_us| Alone { offered: offered(p99_us), asked_share: 0.9 };
    Sample {
        settings: "set so".to_owned(),
        bound,
        churned: pace(9.0),
        still_ms: Some(3.0),
        is_cut: false,
        is_settled: true,
        write_amplification: Some(2.6),
        looks: looks(bytes),
        pairs: [(30.0, 20.0), (90.0, 18.0), (28.0, 28.0)]
            .map(|(busy, quiet)| Pair {
                busy: offered(busy),
                quiet: offered(quiet),
                bare_busy: alone(24.0),
                bare_quiet: alone(quiet),
                still_ms: Some(5.0),
                is_settled: true,
            })
            .to_vec(),
        shrunk: Shrunk { bound, removes_per_s: 1.0, held_after_s: None, looks: looks(bytes) },
    }
}

/// The log, and another store that has the name of the one it is compared with.
fn with_a_rival() -> ChurnOptions {
    let kelvin = engine("kelvin").expect("it is there");
    let rival = Kind { name: RIVAL, is_subject: false, ..kelvin };
    ChurnOptions { engines: vec![kelvin, rival], ..ChurnOptions::default() }
}

fn assert_said(report: &Report, expected: &[&str]) {
    let text = report.text();
    for line in expected {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_has_to_be_kept_is_judged() {
    let mut options = ChurnOptions::default();
    options.engines.truncate(1);
    let mut report = Report::new(Machine::read(), &options);
    let line = report.add((Size::Kib, Popularity::Zipf), 0, sample(400.0, 151));
    assert!(line.starts_with("1k zipf kelvin: 400 overwrites/s, 2.60 x written"), "{line}");
    report.add((Size::Large, Popularity::Uniform), 0, sample(100.0, 150));
    assert_said(
        &report,
        &[
            "| kelvin | 400 | - | 2.60 | 1.51 | 1.50 | 1 of 2 | 0 | 7.0 | 30.0 (2.5) | \
             20.0 (2.5) | 1.50 (1.00 to 5.00) | 24.0 | 20.0 | 1.20 (0.86 to 1.33) | 7.0 |",
            "1k zipf kelvin: 1 looks above the bound of space: NOT held",
            "1k zipf kelvin: 2.60 bytes written a byte: NOT held",
            "100k uniform kelvin: 0 looks above the bound of space: held",
            "100k uniform kelvin: 2.60 bytes written a byte: held",
            "100k uniform kelvin: a worst put of 7.0 ms (at half the rate 7.0, without a \
             store 7.0; the device stood still for 5): held",
            "100k uniform kelvin: a p99 of 1.50 of the quiet one, without a store 1.20: held",
            "100k uniform kelvin: 1 times space did not come back: NOT held",
            "- kelvin: set so; lost with the power: at most 16 MiB, with the process: at most 16",
        ],
    );
    assert!(!report.text().contains("\\*"), "nothing is marked");
}

#[test]
fn a_cut_run_is_marked_and_has_no_verdict_but_for_what_it_broke() {
    let options = ChurnOptions { put_time_max: Duration::from_secs(7), ..with_a_rival() };
    let mut report = Report::new(Machine::read(), &options);
    let pair = sample(1.0, 1).pairs[0];
    let late = Offered { is_cut: true, ..pair.busy };
    let cut = Sample { is_cut: true, ..sample(400.0, 150) };
    let bound = Bound { kept_bytes: 0, ..cut.bound };
    let rival = Sample {
        is_settled: false,
        pairs: vec![Pair {
            busy: late,
            bare_busy: Alone { asked_share: 0.89, ..pair.bare_busy },
            still_ms: None,
            ..pair
        }],
        bound,
        ..sample(100.0, 150)
    };
    let block = (Size::Kib, Popularity::Uniform);
    report.add(block, 0, cut.clone());
    report.add(block, 1, rival);
    let above = Sample { pairs: vec![Pair { quiet: late, ..pair }], looks: looks(151), ..cut };
    report.add((Size::Large, Popularity::Uniform), 0, above);
    assert_said(
        &report,
        &[
            "| kelvin | 400\\* | 4.00\\* | 2.60\\* | 1.50 | 1.50 | 0 of 2 | 0 | 7.0 | 30.0 (2.5)",
            "| leveldb | 100 | 1.00 | 2.60\\* | 1.50 | - | - | 0 | 7.0 | 30.0 (2.5)\\* | 20",
            " | 24.0\\* | 20.0 | 1.20 (1.20 to 1.20) | 7.0 |",
            "\\* Overwrites: not all were done after 7 s",
            "1k uniform kelvin: 0 looks above the bound of space: no verdict, cut",
            "1k uniform kelvin: 2.60 bytes written a byte: no verdict, cut",
            "1k uniform kelvin: 4.00 of leveldb's overwrites: no verdict, cut",
            "1k uniform kelvin: a worst put of 7.0 ms (at half the rate 7.0, without a \
             store 7.0; the device stood still for 5): no verdict, cut",
            "1k uniform kelvin: a p99 of 1.50 of the quiet one, without a store 1.20: held",
            "100k uniform kelvin: 1 looks above the bound of space: NOT held",
            "100k uniform kelvin: a p99 of 1.00 of the quiet one, without a store 1.20: \
             no verdict, cut",
        ],
    );
}

#[test]
fn a_comparison_with_a_rival_that_was_cut_is_none() {
    let mut report = Report::new(Machine::read(), &with_a_rival());
    let block = (Size::Kib, Popularity::Uniform);
    report.add(block, 0, sample(400.0, 150));
    report.add(block, 1, Sample { is_cut: true, ..sample(100.0, 150) });
    assert_said(
        &report,
        &[
            "| kelvin | 400 | 4.00\\* | 2.60 |",
            "| leveldb | 100\\* | 1.00\\* |",
            "1k uniform kelvin: 2.60 bytes written a byte: held",
            "1k uniform kelvin: 4.00 of leveldb's overwrites: no verdict, cut",
        ],
    );
}
