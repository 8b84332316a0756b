//! What Kelvin is held to, and whether it holds, by the medians of ratios round by round.

use super::{
    DEEP, MANY,
    asked::Gets,
    guest::Kind,
    options::Size,
    report::{Bare, GetsReport, SetsReport, ratio},
};

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

impl Cell {
    fn least(&mut self, what: &str, least: f64, found: Option<f64>) {
        let bar = format!("at least {least}");
        self.add(what, bar, found.map(|found| (found, found >= least)));
    }

    fn most(&mut self, what: &str, most: f64, found: Option<f64>) {
        let bar = format!("at most {most}");
        self.add(what, bar, found.map(|found| (found, found <= most)));
    }

    fn add(&mut self, what: &str, bar: String, found: Option<(f64, bool)>) {
        let (cell, what) = (self.name.clone(), what.to_owned());
        self.bars.extend(found.map(|(found, holds)| Bar { cell, what, bar, found, holds }));
    }
}

fn of_gets(report: &GetsReport) -> Vec<Bar> {
    let name = format!("gets, {}, {}", report.size.name, report.keys.name());
    let mut cell = Cell { name, bars: Vec::new() };
    let Some(kelvin) = report.row(Kind::Kelvin, MANY) else { return Vec::new() };
    let rate = |gets: &Gets| Some(gets.found_per_s);
    let mine = kelvin.each(rate);
    let fio = |figure: fn(&Bare) -> Option<f64>| -> Vec<f64> {
        report.bare.iter().filter_map(figure).collect()
    };
    let (observed, deep) = (fio(|bare| bare.observed), fio(|bare| bare.deep));
    let reads = kelvin.each(|gets| gets.reads_per_s);
    cell.least("gets of fio, as deep", OF_FIO_OBSERVED, ratio(&mine, &observed));
    cell.least("reads of fio, as deep", OF_FIO_OBSERVED, ratio(&reads, &observed));
    cell.least("gets of fio at 16", OF_FIO_DEEP, ratio(&mine, &deep));
    cell.least("reads of fio at 16", OF_FIO_DEEP, ratio(&reads, &deep));
    if report.size.name == CPU_SIZE {
        let us = super::report::median(kelvin.each(|gets| gets.server_cpu_us));
        cell.most("CPU us a get", CPU_US_MAX, us);
    }
    for (kind, least) in [(Kind::Extstore, OF_EXTSTORE), (Kind::Fatcache, OF_FATCACHE)] {
        let Some(peer) = report.row(kind, MANY) else { continue };
        let p95 = |gets: &Gets| Some(gets.p95_us);
        cell.least(&format!("gets of {}", kind.name()), least, ratio(&mine, &peer.each(rate)));
        let p95 = ratio(&kelvin.each(p95), &peer.each(p95));
        cell.most(&format!("p95 of {}", kind.name()), 1.0, p95);
    }
    if let Some(row) = report.row(Kind::Kelvin, DEEP) {
        cell.least("one connection of 16", OF_MANY, ratio(&row.each(rate), &mine));
    }
    cell.bars
}

fn of_sets(report: &SetsReport) -> Vec<Bar> {
    let Size { name, bytes } = report.size;
    let mut cell = Cell { name: format!("sets, {name}"), bars: Vec::new() };
    let of = |kind| report.rows.iter().find(|row| row.kind == kind);
    let Some(kelvin) = of(Kind::Kelvin) else { return Vec::new() };
    let kept = kelvin.each(|sets| Some(sets.kept_share().min(sets.kept_later_share())));
    let least = kept.iter().copied().fold(f64::MAX, f64::min);
    cell.least("kept, in the worst round", 1.0, (!kept.is_empty()).then_some(least));
    let good = |kind| {
        let row = of(kind)?;
        Some(row.each(|sets| Some(sets.good_per_s() * bytes as f64)))
    };
    let mine = good(Kind::Kelvin).unwrap_or_default();
    let append = ratio(&mine, &report.append_bytes_per_s);
    let peers = [Kind::Extstore, Kind::Fatcache]
        .into_iter()
        .filter_map(|kind| Some((kind, ratio(&mine, &good(kind)?)?)));
    let peers: Vec<(Kind, f64)> = peers.collect();
    let beats_peers = !peers.is_empty() && peers.iter().all(|(_, ratio)| *ratio >= OF_GOODPUT);
    let bar = format!("at least {OF_FIO_APPEND}, or the next");
    let holds = |found: f64| (found, found >= OF_FIO_APPEND || beats_peers);
    cell.add("goodput of fio's append", bar, append.map(holds));
    let keeps_up = append.is_some_and(|found| found >= OF_FIO_APPEND);
    for (kind, found) in peers {
        let bar = format!("at least {OF_GOODPUT}, or of fio's append");
        let holds = keeps_up || found >= OF_GOODPUT;
        cell.add(&format!("goodput of {}", kind.name()), bar, Some((found, holds)));
    }
    cell.bars
}
