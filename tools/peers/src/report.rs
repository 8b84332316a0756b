//! What is printed and written: samples reduced to best, median and spread, and the subject's
//! ratio to the best peer.

use std::fmt::Write;

use crate::{
    contestant::{Class, Contestant, Prepared},
    load::LoadShape,
    machine::{self, Machine},
    options::SpeedOptions,
    workload::Workload,
};

/// A whole run.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    machine: Machine,
    shape: LoadShape,
    ops: usize,
    prepared: Vec<PreparedReport>,
    pub(crate) cells: Vec<CellReport>,
    ratios: Vec<Ratio>,
}

#[derive(Debug, serde::Serialize)]
struct PreparedReport {
    key_bytes: usize,
    engine: &'static str,
    class: Class,
    #[serde(flatten)]
    prepared: Prepared,
}

/// One engine in one cell.
#[derive(Debug, serde::Serialize)]
pub(crate) struct CellReport {
    pub(crate) key_bytes: usize,
    pub(crate) threads: usize,
    pub(crate) workload: Workload,
    pub(crate) engine: &'static str,
    pub(crate) class: Class,
    /// Million operations a second of thread CPU time, all threads together.
    pub(crate) cpu_mops: Spread,
    /// Million operations a second of wall time.
    pub(crate) wall_mops: Spread,
    pub(crate) hit_ratio: f64,
    pub(crate) evictions_per_put: Option<f64>,
}

/// Samples of one quantity, in the order of the rounds.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) best: f64,
    pub(crate) median: f64,
    pub(crate) worst: f64,
    pub(crate) samples: Vec<f64>,
}

impl Spread {
    /// Of samples where more is better.
    pub(crate) fn of(samples: Vec<f64>) -> Self {
        let mut sorted = samples.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let (best, worst) = (sorted[0], sorted[sorted.len() - 1]);
        Self { best, median: sorted[sorted.len() / 2], worst, samples }
    }

    /// Best to worst as a share of the median.
    pub(crate) fn width(&self) -> f64 {
        (self.best - self.worst) / self.median
    }

    /// Round by round, this over `other`.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self::of(self.samples.iter().zip(&other.samples).map(|(a, b)| a / b).collect())
    }
}

/// The subject against the best of a class of peers in one cell.
#[derive(Debug, serde::Serialize)]
struct Ratio {
    key_bytes: usize,
    threads: usize,
    workload: Workload,
    against: Class,
    /// The peer with the best best sample.
    peer: &'static str,
    /// The subject's best sample over the peer's.
    of_bests: f64,
    /// Speed ratios round by round.
    rounds: Spread,
    /// Time an operation, the subject's best over the peer's best.
    time: f64,
}

impl Report {
    pub(crate) fn new(machine: Machine, options: &SpeedOptions, shape: LoadShape) -> Self {
        let (prepared, cells, ratios) = (Vec::new(), Vec::new(), Vec::new());
        Self { machine, shape, ops: options.ops, prepared, cells, ratios }
    }

    pub(crate) fn add_prepared(&mut self, key_bytes: usize, engines: &[Box<dyn Contestant>]) {
        self.prepared.extend(engines.iter().map(|engine| PreparedReport {
            key_bytes,
            engine: engine.name(),
            class: engine.class(),
            prepared: engine.prepared(),
        }));
    }

    /// Computes the ratios when all cells are there.
    pub(crate) fn finish(&mut self) {
        self.machine.load_average_after = machine::load_average();
        let subjects = self.cells.iter().filter(|cell| cell.class == Class::Subject);
        self.ratios = subjects
            .flat_map(|subject| {
                let classes = [Class::Peer, Class::ShortValuesOnly].into_iter();
                classes.filter_map(|class| ratio(&self.cells, subject, class))
            })
            .collect();
    }
}

fn ratio(cells: &[CellReport], subject: &CellReport, against: Class) -> Option<Ratio> {
    let place = |cell: &CellReport| (cell.key_bytes, cell.threads, cell.workload);
    let rivals = cells.iter().filter(|c| c.class == against && place(c) == place(subject));
    let peer = rivals.max_by(|a, b| a.cpu_mops.best.total_cmp(&b.cpu_mops.best))?;
    let of_bests = subject.cpu_mops.best / peer.cpu_mops.best;
    Some(Ratio {
        key_bytes: subject.key_bytes,
        threads: subject.threads,
        workload: subject.workload,
        against,
        peer: peer.engine,
        of_bests,
        rounds: subject.cpu_mops.over(&peer.cpu_mops),
        time: 1.0 / of_bests,
    })
}

/// The report for people.
pub(crate) fn table(report: &Report) -> String {
    let mut text = String::new();
    write_table(report, &mut text).expect("a string takes everything");
    text
}

fn write_table(report: &Report, out: &mut String) -> std::fmt::Result {
    let shape = &report.shape;
    writeln!(out, "{}", report.machine.line())?;
    writeln!(
        out,
        "{} keys, Zipf {}, capacity {} records, names of 14 bytes in the mean, {} % of \
         overwrites change the value, {} operations a thread and sample\n",
        shape.keys, shape.exponent, shape.capacity, shape.changed_percent, report.ops
    )?;
    writeln!(
        out,
        "{:>3} {:<13}{:>10}{:>14}{:>14}",
        "key", "engine", "records", "absent puts", "bytes/record"
    )?;
    for row in &report.prepared {
        let per_record = row.prepared.memory_bytes.map_or_else(String::new, |bytes| {
            format!("{:.2}", bytes as f64 / row.prepared.records as f64)
        });
        writeln!(
            out,
            "{:>3} {:<13}{:>10}{:>13.2}%{:>14}",
            row.key_bytes,
            row.engine,
            row.prepared.records,
            100.0 * row.prepared.absent_puts,
            per_record
        )?;
    }
    writeln!(
        out,
        "\nMillion operations a second, all threads together (of thread CPU time; of wall time)\n\
         {:>3} {:>3} {:<9}{:<13}{:>8}{:>8}{:>8}{:>10}{:>10}{:>8}{:>8}",
        "key",
        "thr",
        "workload",
        "engine",
        "best",
        "median",
        "spread",
        "wall best",
        "ns/op",
        "hit",
        "evict"
    )?;
    for cell in &report.cells {
        write_cell(cell, out)?;
    }
    write_ratios(&report.ratios, out)
}

fn write_ratios(ratios: &[Ratio], out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\nkelvin against the best peer of the same run\n\
         {:>3} {:>3} {:<9}{:>7}{:>8}{:>16}{:>7}  peer",
        "key", "thr", "workload", "bests", "median", "rounds", "time"
    )?;
    for ratio in ratios {
        writeln!(
            out,
            "{:>3} {:>3} {:<9}{:>6.2}x{:>7.2}x{:>8.2}x..{:.2}x{:>6.2}x  {}{}",
            ratio.key_bytes,
            ratio.threads,
            ratio.workload.name(),
            ratio.of_bests,
            ratio.rounds.median,
            ratio.rounds.worst,
            ratio.rounds.best,
            ratio.time,
            ratio.peer,
            if ratio.against == Class::ShortValuesOnly {
                " (values of <= 31 bytes only)"
            } else {
                ""
            }
        )?;
    }
    Ok(())
}

fn write_cell(cell: &CellReport, out: &mut String) -> std::fmt::Result {
    let percent = |share: Option<f64>| match share {
        Some(share) if share.is_finite() => format!("{:.2}%", 100.0 * share),
        _ => String::new(),
    };
    writeln!(
        out,
        "{:>3} {:>3} {:<9}{:<13}{:>8.2}{:>8.2}{:>7.0}%{:>10.2}{:>10.1}{:>8}{:>8}",
        cell.key_bytes,
        cell.threads,
        cell.workload.name(),
        cell.engine,
        cell.cpu_mops.best,
        cell.cpu_mops.median,
        100.0 * cell.cpu_mops.width(),
        cell.wall_mops.best,
        1e3 * cell.threads as f64 / cell.cpu_mops.best,
        percent(Some(cell.hit_ratio)),
        percent(cell.evictions_per_put)
    )
}

#[cfg(test)]
mod tests {
    use super::{CellReport, Spread, ratio};
    use crate::{contestant::Class, workload::Workload};

    #[test]
    fn spread_orders_by_best() {
        let spread = Spread::of(vec![2.0, 8.0, 4.0]);
        assert_eq!((spread.best, spread.median, spread.worst), (8.0, 4.0, 2.0));
        assert_eq!(spread.width(), 1.5);
        assert_eq!(spread.over(&Spread::of(vec![1.0, 2.0, 8.0])).samples, [2.0, 4.0, 0.5]);
    }

    #[test]
    fn the_ratio_is_to_the_best_peer_of_the_same_cell() {
        let cell = |engine, class, threads, mops: f64| CellReport {
            key_bytes: 4,
            threads,
            workload: Workload::Get90,
            engine,
            class,
            cpu_mops: Spread::of(vec![mops, mops / 2.0]),
            wall_mops: Spread::of(vec![mops]),
            hit_ratio: 1.0,
            evictions_per_put: None,
        };
        let cells = [
            cell("kelvin", Class::Subject, 1, 9.0),
            cell("slow", Class::Peer, 1, 3.0),
            cell("good", Class::Peer, 1, 6.0),
            cell("other cell", Class::Peer, 2, 100.0),
            cell("short", Class::ShortValuesOnly, 1, 12.0),
        ];
        let found = ratio(&cells, &cells[0], Class::Peer).expect("there are peers");
        assert_eq!((found.peer, found.of_bests, found.time), ("good", 1.5, 1.0 / 1.5));
        assert_eq!(found.rounds.samples, [1.5, 1.5]);
        let short = ratio(&cells, &cells[0], Class::ShortValuesOnly).expect("there is one");
        assert_eq!((short.peer, short.of_bests), ("short", 0.75));
    }
}
