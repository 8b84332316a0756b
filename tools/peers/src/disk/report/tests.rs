use super::{Bare, CellReport, Look, Report, Row, Sample};
use crate::{
    disk::{
        cell::{CELLS, Work},
        device::Counts,
        engine::{AtRisk, OwnCounts},
        fio::Rate,
        work::Taken,
    },
    machine::Machine,
};

fn sample(per_s: u32, read_bytes: u64) -> Sample {
    let taken = Taken {
        ops: per_s,
        wall_s: 1.0,
        flush_s: 0.0,
        cpu_us: 2.0,
        p999_us: 3.0,
        worst_us: 4000.0,
        tenths_per_s: vec![10.0, 20.0, 9.0],
    };
    let ops = u64::from(per_s);
    let look = |ops: u64| Look {
        device: Some(Counts { reads: 2 * ops, flushes: ops / 4, ..Counts::default() }),
        own: Some(OwnCounts { reads: ops, flushes: ops / 10 }),
        read_bytes: Some(ops * read_bytes),
    };
    Sample::new(taken, look(1000), look(1000 + ops))
}

fn row(engine: &'static str, is_subject: bool, samples: Vec<Sample>) -> Row {
    let at_risk = AtRisk { by_power_cut: None, by_kill: Some(0) };
    Row { engine, is_subject, settings: "as it comes".to_owned(), at_risk, samples }
}

fn report(work: Work) -> CellReport {
    let cell = *CELLS.iter().find(|cell| cell.work == work).expect("there is one");
    let rates = [800.0, 1000.0].map(|ops| Rate { ops_per_s: ops, bytes_per_s: 4.0 * ops });
    CellReport {
        cell,
        records: 1 << 20,
        load_average: "0.5".to_owned(),
        rows: vec![
            row("kelvin", true, vec![sample(900, 5000), sample(600, 5000)]),
            row("reader", false, vec![sample(300, 9000), sample(400, 9000)]),
            row("ahead", false, vec![sample(1200, 60_000), sample(1200, 60_000)]),
        ],
        bare: vec![Bare { name: "fio".to_owned(), rates: rates.to_vec() }],
        ratios: Vec::new(),
    }
}

fn finished(work: Work) -> CellReport {
    let mut report = report(work);
    report.finish();
    report
}

#[test]
fn the_best_peer_of_cold_gets_is_one_that_reads_what_it_is_asked_for() {
    let report = finished(Work::Cold);
    let found: Vec<_> = report.ratios.iter().map(|it| (it.against.as_str(), it.of_bests)).collect();
    let best = "the best peer, reader";
    assert_eq!(found, [(best, 2.25), ("fio", 0.9), ("reader", 2.25), ("ahead", 0.75)]);
    assert_eq!(report.ratios[0].rounds.samples, [3.0, 1.5]);
    assert_eq!(report.subject_read_bytes(), Some(5000.0));
}

#[test]
fn of_puts_bytes_are_compared_with_an_append() {
    let report = finished(Work::Put);
    let against = |name: &str| report.ratios.iter().find(|it| it.against == name);
    assert_eq!(against("fio").expect("it is there").of_bests, 0.9);
    assert_eq!(against("the best peer, ahead").expect("it is there").of_bests, 0.75);
}

#[test]
fn what_was_counted_is_shared_by_operations() {
    let sample = sample(100, 4096);
    assert_eq!((sample.ops_a_device_flush, sample.ops_an_own_flush), (Some(4.0), Some(10.0)));
    assert_eq!((sample.device_reads, sample.own_reads), (Some(2.0), Some(1.0)));
    assert_eq!((sample.read_bytes, sample.device_write_bytes), (Some(4096.0), Some(0.0)));
    let none = Sample::new(sample.taken, Look::default(), Look::default());
    assert_eq!((none.ops_a_device_flush, none.read_bytes), (None, None));
}

#[test]
fn a_set_that_is_in_memory_is_told() {
    let report = report(Work::Cold);
    for (read_bytes, is_resident) in
        [(100, true), (2000, true), (4000, false), (20_000, false), (30_000, true)]
    {
        let row = row("peer", false, vec![sample(10, read_bytes)]);
        assert_eq!(row.is_resident(report.cell), is_resident, "{read_bytes}");
    }
    let few = Sample { device_reads: Some(0.5), ..sample(10, 4096) };
    assert!(row("peer", false, vec![few]).is_resident(report.cell));
}

#[test]
fn every_line_of_a_table_has_the_columns_of_its_head() {
    let cells = Vec::new();
    let mut whole = Report { machine: Machine::read(), records: 1, rounds: 2, window_ms: 5, cells };
    let tables = [Work::Put, Work::Safe, Work::Cold].map(|work| whole.add(report(work)));
    let text = tables.concat() + &whole.setting();
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("| engine")).collect();
    let columns = |line: &str| line.matches('|').count();
    for table in rows.split(|line| !line.starts_with('|')).filter(|table| !table.is_empty()) {
        assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{table:#?}");
    }
    assert!(text.contains("| ahead | 1200 | 1200 | 0 % | 2.00 | 3.0 | 4.0 | 0.90 |"), "{text}");
    assert!(text.contains("| ahead (in memory in part) |"), "{text}");
    assert!(text.contains(" 4, 0 |"), "{text}");
}
