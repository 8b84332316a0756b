use super::{FioReads, GetsReport, GetsRow, ReadBack, Report, Sets, SetsReport, SetsRow, ratio};
use crate::{
    machine::Machine,
    report::median,
    tiers::{
        DEEP, MANY,
        asked::{Gets, Swept},
        bars::{Bar, bars},
        chart,
        guest::Kind,
        options::{Keys, parse},
    },
};

fn gets(found_per_s: f64) -> Gets {
    Gets {
        found_per_s,
        found_share: 1.0,
        server_cpu_us: Some(11.0),
        server_busy_share: Some(0.5),
        generator_busy_share: 0.25,
        p50_us: 1e6 / found_per_s,
        p95_us: 2e6 / found_per_s,
        p99_us: 3e6 / found_per_s,
        reads_a_get: Some(0.9),
        reads_per_s: Some(0.9 * found_per_s),
        read_bytes: Some(4096.0),
        read_depth: Some(12.5),
    }
}

fn swept(per_s: f64, found: u64, stored: u64) -> Swept {
    Swept {
        per_s,
        server_cpu_us: Some(7.0),
        p50_us: 1.0,
        p95_us: 2.0,
        p99_us: 3.0,
        found,
        stored,
        refused: 0,
        samples: Vec::new(),
    }
}

/// Keys are 100: what is found right after and later.
fn sets(per_s: f64, right_after: u64, later: u64) -> Sets {
    Sets {
        keys: 100,
        set: swept(per_s, 0, 100),
        read_back: Some(ReadBack {
            right_after: swept(per_s, right_after, 0),
            later: swept(per_s, later, 0),
        }),
    }
}

/// Of who is not asked what it kept.
fn only_sets(per_s: f64) -> Sets {
    Sets { keys: 100, set: swept(per_s, 0, 100), read_back: None }
}

fn cells() -> (GetsReport, SetsReport) {
    let options = parse(&[("--values", "4k")]).expect("right");
    let size = options.sizes[0];
    let row = |kind, shape, rates: &[f64]| {
        let samples = rates.iter().map(|rate| gets(*rate)).collect();
        GetsRow { samples, ..GetsRow::new(kind, shape) }
    };
    let mut of_gets = GetsReport::new(size, Keys::Zipf);
    of_gets.rows = vec![
        row(Kind::Kelvin, MANY, &[900.0, 1000.0]),
        row(Kind::Kelvin, DEEP, &[810.0, 700.0]),
        row(Kind::Extstore, MANY, &[1000.0, 500.0]),
        GetsRow { reason: Some("it is not there".to_owned()), ..row(Kind::Fatcache, MANY, &[]) },
        row(Kind::Bare, MANY, &[1200.0, 1250.0]),
        row(Kind::Bare, DEEP, &[1200.0, 1250.0]),
    ];
    let fio = |observed, deep| FioReads { bytes_mean: 4096.0, depth: Some(12.5), observed, deep };
    of_gets.fio = vec![fio(Some(1000.0), Some(2000.0)), fio(Some(1000.0), Some(1250.0))];
    let row = |kind, samples| SetsRow { samples, ..SetsRow::new(kind) };
    let rows = vec![
        row(Kind::Kelvin, vec![sets(1000.0, 100, 100), sets(1000.0, 100, 99)]),
        row(Kind::Extstore, vec![sets(2000.0, 40, 40), sets(1000.0, 50, 50)]),
        row(Kind::Bare, vec![only_sets(1500.0), only_sets(3000.0)]),
    ];
    let mut of_sets = SetsReport::new(size, 100, rows);
    of_sets.append_bytes_per_s = vec![4096e3, 8192e3];
    (of_gets, of_sets)
}

#[test]
fn medians_and_ratios_are_those_of_rounds() {
    assert_eq!((median(vec![3.0, 1.0, 2.0]), median(Vec::new())), (Some(2.0), None));
    assert_eq!(ratio(&[2.0, 9.0, 8.0], &[1.0, 3.0, 2.0]), Some(3.0));
    assert_eq!(ratio(&[2.0], &[]), None);
}

#[test]
fn what_was_dropped_is_no_goodput() {
    let dropped = sets(2000.0, 40, 30);
    assert_eq!((dropped.kept_share(), dropped.kept_later_share()), (Some(0.4), Some(0.3)));
    assert_eq!(dropped.good_per_s(), 800.0);
    // Nor is what was refused.
    let refused = Sets { set: swept(2000.0, 0, 50), ..sets(2000.0, 50, 50) };
    assert_eq!((refused.kept_share(), refused.good_per_s()), (Some(1.0), 1000.0));
    // Who was not asked what it kept has all that it acknowledged.
    assert_eq!((only_sets(2000.0).kept_share(), only_sets(2000.0).good_per_s()), (None, 2000.0));
    let refused = Sets { set: swept(2000.0, 0, 50), ..only_sets(2000.0) };
    assert_eq!(refused.good_per_s(), 1000.0);
}

#[test]
fn bars_are_judged_by_the_rounds() {
    let (of_gets, of_sets) = cells();
    let found = bars(&[of_gets], &[of_sets]);
    let brief = |bar: &Bar| {
        let bare = bar.bare.map(|found| (found * 1000.0).round());
        (bar.what.clone(), (bar.found * 1000.0).round(), bar.holds, bare)
    };
    let found: Vec<(String, f64, bool, Option<f64>)> = found.iter().map(brief).collect();
    let expected = [
        ("gets of fio, as deep", 1000.0, true, Some(1250.0)),
        ("reads of fio, as deep", 900.0, true, Some(1125.0)),
        ("gets of fio at 16", 800.0, true, Some(1000.0)),
        ("reads of fio at 16", 720.0, true, Some(900.0)),
        ("CPU us a get", 11_000.0, true, Some(11_000.0)),
        ("gets of extstore", 2000.0, true, Some(2500.0)),
        ("p95 of extstore", 1111.0, false, Some(833.0)),
        ("one connection of 16", 900.0, true, Some(1000.0)),
        ("kept, in the worst round", 990.0, false, None),
        ("goodput of fio's append", 1000.0, true, Some(1500.0)),
        ("goodput of extstore", 2000.0, true, Some(6000.0)),
    ];
    assert_eq!(
        found,
        expected.map(|(what, found, holds, bare)| (what.to_owned(), found, holds, bare))
    );
}

#[test]
fn a_goodput_below_the_disk_holds_beside_peers_that_are_slower_by_half() {
    let (_, mut of_sets) = cells();
    of_sets.append_bytes_per_s = vec![8192e3, 8192e3];
    let holds = |of_sets: &SetsReport| {
        let found = bars(&[], std::slice::from_ref(of_sets));
        found.iter().map(|bar| bar.holds).collect::<Vec<_>>()
    };
    assert_eq!(holds(&of_sets), [false, true, true]);
    of_sets.rows[1].samples[0] = sets(1000.0, 90, 90);
    of_sets.rows[1].samples[1] = sets(1000.0, 90, 90);
    assert_eq!(holds(&of_sets), [false, false, false]);
}

#[test]
fn a_table_names_what_was_not_run_and_a_chart_has_a_bar_for_what_was() {
    let options = parse(&[]).expect("right");
    let mut report = Report::new(Machine::read(), &options, vec!["x is left out".to_owned()]);
    let (of_gets, of_sets) = cells();
    report.add_gets(of_gets);
    report.add_sets(of_sets);
    let text = report.markdown();
    for line in [
        "x is left out",
        "| Kelvin | 16 x 1 | 1000 (900 to 1000) | 100.00 | 11.00 | 1111 | 2222 | 3333 | 50 | 0.90 \
         | 4.0 | 12.50 |  |  |",
        "| fatcache | 16 x 1 | not run: it is not there | | | | | | | | | | | |",
        "| fio, as deep as Kelvin | | 1000 | | | | | | | | 4.0 | 12.50 | | |",
        "| fio | | 2000 | | | | | | | | 4.0 | 16.00 | | |",
        "| extstore | 2000 | 7.8 | 50.00 | 50.00 | 3.1 (2.0 to 3.1) | 0 | 7.00 | 1 | 2 | 3 |",
        "| fio append 1 MiB QD4 | | 7.8 | | | | | | | | |",
        "| gets, 4k, zipf | p95 of extstore | at most 1 | 1.111 | NO | 0.833 |",
        "| sets, 4k | kept, in the worst round | at least 1 | 0.990 | NO |  |",
        "| the bare loop | 3000 | 11.7 | n/a | n/a | 11.7 (5.9 to 11.7) | 0 | 7.00 | 1 | 2 | 3 |",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    // Every row has as many columns as its head.
    for block in text.split("\n\n").filter(|block| block.starts_with('|')) {
        let columns: Vec<usize> = block.lines().map(|line| line.matches('|').count()).collect();
        assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{block}");
    }
    let drawn = chart::svg("setting", &report.gets, &report.sets);
    assert!(drawn.contains(">gets/s, 4k, zipf<") && drawn.contains(">sets kept, MiB/s, 4k<"));
    assert!(drawn.contains(">setting<") && drawn.matches("dasharray").count() == 3, "{drawn}");
    // Two in each panel, and the legend.
    assert_eq!(drawn.matches("fill=\"#0072b2\"").count(), 3, "{drawn}");
    assert_eq!(drawn.matches("fill=\"#009e73\"").count(), 1, "{drawn}");
}
