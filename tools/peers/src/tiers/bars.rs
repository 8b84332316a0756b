//! What Kelvin is held to, and whether it holds, by the medians of ratios round by round.

use super::{
    DEEP, MANY,
    asked::Gets,
    guest::Kind,
    options::Size,
    report::{FioReads, GetsReport, SetsReport, SetsRow, ratio},
};
use crate::report::median;

/// Least shares of fio's rate: at the depth that was observed, and at 16.
const OF_FIO_OBSERVED: f64 = 0.85;
const OF_FIO_DEEP: f64 = 0.65;
const OF_FIO_APPEND: f64 = 0.85;

/// Least multiples of the peers' rates.
const OF_EXTSTORE: f64 = 1.0;
const OF_FATCACHE: f64 = 2.0;
const OF_GOODPUT: f64 = 1.5;

/// Of one deep connection beside many.
const OF_MANY: f64 = 0.8;

/// Most CPU time of a get of 4 KiB, in microseconds.
const CPU_US_MAX: f64 = 12.0;
const CPU_SIZE: &str = "4k";

/// Something to be held.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Bar {
    pub(super) cell: String,
    pub(super) what: String,
    pub(super) bar: String,
    pub(super) found: f64,
    pub(super) holds: bool,
    /// What the bare loop has in the same run: the machine's limit.
    pub(super) bare: Option<f64>,
}

/// All that can be judged.
pub(super) fn bars(gets: &[GetsReport], sets: &[SetsReport]) -> Vec<Bar> {
    gets.iter().flat_map(of_gets).chain(sets.iter().flat_map(of_sets)).collect()
}

/// Bars of a cell.
struct Cell {
    name: String,
    bars: Vec<Bar>,
}

/// A figure of Kelvin's, and the bare loop's.
struct Found {
    kelvin: Option<f64>,
    bare: Option<f64>,
}

impl Found {
    /// Round by round over `under`.
    fn over(under: &[f64], kelvin: &[f64], bare: &[f64]) -> Self {
        Self { kelvin: ratio(kelvin, under), bare: ratio(bare, under) }
    }
}

impl Cell {
    fn least(&mut self, what: &str, least: f64, found: Found) {
        self.add(what, format!("at least {least}"), found, |found| found >= least);
    }

    fn most(&mut self, what: &str, most: f64, found: Found) {
        self.add(what, format!("at most {most}"), found, |found| found <= most);
    }

    fn add(&mut self, what: &str, bar: String, found: Found, holds: impl FnOnce(f64) -> bool) {
        let Found { kelvin: Some(found), bare } = found else { return };
        let (cell, what, holds) = (self.name.clone(), what.to_owned(), holds(found));
        self.bars.push(Bar { cell, what, bar, found, holds, bare });
    }
}

fn of_gets(report: &GetsReport) -> Vec<Bar> {
    let name = format!("gets, {}, {}", report.size.name, report.keys.name());
    let mut cell = Cell { name, bars: Vec::new() };
    if report.row(Kind::Kelvin, MANY).is_none() {
        return Vec::new();
    }
    let each = |kind, shape, figure: fn(&Gets) -> Option<f64>| {
        report.row(kind, shape).map(|row| row.each(figure)).unwrap_or_default()
    };
    let rate: fn(&Gets) -> Option<f64> = |gets| Some(gets.found_per_s);
    let both = |figure| [Kind::Kelvin, Kind::Bare].map(|kind| each(kind, MANY, figure));
    let ([gets, bare_gets], [reads, bare_reads]) = (both(rate), both(|gets| gets.reads_per_s));
    let fio = |figure: fn(&FioReads) -> Option<f64>| -> Vec<f64> {
        report.fio.iter().filter_map(figure).collect()
    };
    for (name, least, under) in [
        ("fio, as deep", OF_FIO_OBSERVED, fio(|fio| fio.observed)),
        ("fio at 16", OF_FIO_DEEP, fio(|fio| fio.deep)),
    ] {
        let found = Found::over(&under, &gets, &bare_gets);
        cell.least(&format!("gets of {name}"), least, found);
        let found = Found::over(&under, &reads, &bare_reads);
        cell.least(&format!("reads of {name}"), least, found);
    }
    if report.size.name == CPU_SIZE {
        let [kelvin, bare] = both(|gets| gets.server_cpu_us).map(median);
        cell.most("CPU us a get", CPU_US_MAX, Found { kelvin, bare });
    }
    let [p95, bare_p95] = both(|gets| Some(gets.p95_us));
    for (kind, least) in [(Kind::Extstore, OF_EXTSTORE), (Kind::Fatcache, OF_FATCACHE)] {
        let found = Found::over(&each(kind, MANY, rate), &gets, &bare_gets);
        cell.least(&format!("gets of {}", kind.name()), least, found);
        let under = each(kind, MANY, |gets| Some(gets.p95_us));
        cell.most(&format!("p95 of {}", kind.name()), 1.0, Found::over(&under, &p95, &bare_p95));
    }
    let found = Found {
        kelvin: ratio(&each(Kind::Kelvin, DEEP, rate), &gets),
        bare: ratio(&each(Kind::Bare, DEEP, rate), &bare_gets),
    };
    cell.least("one connection of 16", OF_MANY, found);
    cell.bars
}

fn of_sets(report: &SetsReport) -> Vec<Bar> {
    let Size { name, bytes } = report.size;
    let mut cell = Cell { name: format!("sets, {name}"), bars: Vec::new() };
    let of = |kind| report.rows.iter().find(|row| row.kind == kind);
    let Some(kelvin) = of(Kind::Kelvin) else { return Vec::new() };
    let kept = kelvin.each(|sets| Some(sets.kept_share()?.min(sets.kept_later_share()?)));
    let least = kept.into_iter().reduce(f64::min);
    cell.least("kept, in the worst round", 1.0, Found { kelvin: least, bare: None });
    let good = |row: &SetsRow| row.each(|sets| Some(sets.good_per_s() * bytes as f64));
    let (mine, bare) = (good(kelvin), of(Kind::Bare).map(good).unwrap_or_default());
    let append = Found::over(&report.append_bytes_per_s, &mine, &bare);
    let peers: Vec<(Kind, Found)> = [Kind::Extstore, Kind::Fatcache]
        .into_iter()
        .filter_map(|kind| Some((kind, Found::over(&good(of(kind)?), &mine, &bare))))
        .filter(|(_, found)| found.kelvin.is_some())
        .collect();
    let beats = |found: &Found| found.kelvin.is_some_and(|found| found >= OF_GOODPUT);
    let beats_peers = !peers.is_empty() && peers.iter().all(|(_, found)| beats(found));
    let keeps_up = append.kelvin.is_some_and(|found| found >= OF_FIO_APPEND);
    let bar = format!("at least {OF_FIO_APPEND}, or the next");
    cell.add("goodput of fio's append", bar, append, |_| keeps_up || beats_peers);
    for (kind, found) in peers {
        let bar = format!("at least {OF_GOODPUT}, or of fio's append");
        let holds = |found| keeps_up || found >= OF_GOODPUT;
        cell.add(&format!("goodput of {}", kind.name()), bar, found, holds);
    }
    cell.bars
}
