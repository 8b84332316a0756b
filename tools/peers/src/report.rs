//! What is printed and written: samples reduced to best, median and spread, the subject's ratio to
//! the best peer, and that of longer keys to the shortest.

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
    /// The subject over the best engine of each other class.
    ratios: Vec<Ratio>,
    /// Each engine's longer keys over its shortest.
    key_ratios: Vec<Ratio>,
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

/// The middle of some figures; of an even number the upper one of both.
pub(crate) fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
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

/// An engine in one cell against another engine, or itself in another cell.
#[derive(Debug, serde::Serialize)]
struct Ratio {
    key_bytes: usize,
    threads: usize,
    workload: Workload,
    engine: &'static str,
    other: &'static str,
    other_class: Class,
    other_key_bytes: usize,
    /// The engine's best sample over the other's.
    of_bests: f64,
    /// Speed ratios round by round.
    rounds: Spread,
    /// Time an operation, the engine's best over the other's best.
    time: f64,
}

impl Ratio {
    fn of(cell: &CellReport, other: &CellReport) -> Self {
        let of_bests = cell.cpu_mops.best / other.cpu_mops.best;
        Self {
            key_bytes: cell.key_bytes,
            threads: cell.threads,
            workload: cell.workload,
            engine: cell.engine,
            other: other.engine,
            other_class: other.class,
            other_key_bytes: other.key_bytes,
            of_bests,
            rounds: cell.cpu_mops.over(&other.cpu_mops),
            time: 1.0 / of_bests,
        }
    }

    /// What it is against, where the name alone would be taken for a peer's.
    fn note(&self) -> &'static str {
        match self.other_class {
            Class::ShortValuesOnly => " (values of <= 31 bytes only)",
            Class::TableEach => " (a table for each thread)",
            Class::Subject | Class::Peer | Class::Baseline => "",
        }
    }
}

impl Report {
    pub(crate) fn new(machine: Machine, options: &SpeedOptions, shape: LoadShape) -> Self {
        Self {
            machine,
            shape,
            ops: options.ops,
            prepared: Vec::new(),
            cells: Vec::new(),
            ratios: Vec::new(),
            key_ratios: Vec::new(),
        }
    }

    pub(crate) fn add_prepared(&mut self, engines: &[Box<dyn Contestant>]) {
        self.prepared.extend(engines.iter().map(|engine| PreparedReport {
            key_bytes: engine.key_bytes(),
            engine: engine.name(),
            class: engine.class(),
            prepared: engine.prepared(),
        }));
    }

    /// Computes the ratios when all cells are there.
    pub(crate) fn finish(&mut self) {
        self.machine.load_average_after = machine::load_average();
        self.cells.sort_by_key(|cell| cell.key_bytes);
        let subjects = self.cells.iter().filter(|cell| cell.class == Class::Subject);
        self.ratios = subjects
            .flat_map(|subject| {
                let classes = [Class::Peer, Class::ShortValuesOnly, Class::TableEach].into_iter();
                classes.filter_map(|class| to_best(&self.cells, subject, class))
            })
            .collect();
        let cells = self.cells.iter();
        self.key_ratios = cells.filter_map(|cell| to_short_keys(&self.cells, cell)).collect();
    }
}

/// The engine over the best one of a class in the same cell.
fn to_best(cells: &[CellReport], subject: &CellReport, against: Class) -> Option<Ratio> {
    let place = |cell: &CellReport| (cell.key_bytes, cell.threads, cell.workload);
    let rivals = cells.iter().filter(|c| c.class == against && place(c) == place(subject));
    let best = rivals.max_by(|a, b| a.cpu_mops.best.total_cmp(&b.cpu_mops.best))?;
    Some(Ratio::of(subject, best))
}

/// The engine over itself with the shortest keys, if its own are longer.
fn to_short_keys(cells: &[CellReport], long: &CellReport) -> Option<Ratio> {
    let place = |cell: &CellReport| (cell.engine, cell.threads, cell.workload);
    let alike = cells.iter().filter(|cell| place(cell) == place(long));
    let short = alike.min_by_key(|cell| cell.key_bytes)?;
    (short.key_bytes < long.key_bytes).then(|| Ratio::of(long, short))
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
    write_ratios(
        "kelvin against the best peer of each kind in the same run",
        &report.ratios,
        out,
        |ratio| format!("{}{}", ratio.other, ratio.note()),
    )?;
    write_ratios("longer keys against the shortest", &report.key_ratios, out, |ratio| {
        format!("{} with {} bytes", ratio.other, ratio.other_key_bytes)
    })
}

/// A table of `ratios`, if there are any; `against` says what each is to.
fn write_ratios(
    title: &str,
    ratios: &[Ratio],
    out: &mut String,
    against: impl Fn(&Ratio) -> String,
) -> std::fmt::Result {
    if ratios.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{title}\n{:>3} {:>3} {:<9}{:>7}{:>8}{:>16}{:>7}  against",
        "key", "thr", "workload", "bests", "median", "rounds", "time"
    )?;
    for ratio in ratios {
        writeln!(
            out,
            "{:>3} {:>3} {:<9}{:>6.2}x{:>7.2}x{:>8.2}x..{:.2}x{:>6.2}x  {}",
            ratio.key_bytes,
            ratio.threads,
            ratio.workload.name(),
            ratio.of_bests,
            ratio.rounds.median,
            ratio.rounds.worst,
            ratio.rounds.best,
            ratio.time,
            against(ratio)
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
    use super::{CellReport, Spread, to_best, to_short_keys};
    use crate::{contestant::Class, workload::Workload};

    #[test]
    fn spread_orders_by_best() {
        let spread = Spread::of(vec![2.0, 8.0, 4.0]);
        assert_eq!((spread.best, spread.median, spread.worst), (8.0, 4.0, 2.0));
        assert_eq!(spread.width(), 1.5);
        assert_eq!(spread.over(&Spread::of(vec![1.0, 2.0, 8.0])).samples, [2.0, 4.0, 0.5]);
    }

    fn cell(engine: &'static str, class: Class, threads: usize, mops: f64) -> CellReport {
        CellReport {
            key_bytes: 4,
            threads,
            workload: Workload::Get90,
            engine,
            class,
            cpu_mops: Spread::of(vec![mops, mops / 2.0]),
            wall_mops: Spread::of(vec![mops]),
            hit_ratio: 1.0,
            evictions_per_put: None,
        }
    }

    #[test]
    fn the_ratio_is_to_the_best_peer_of_the_same_cell() {
        let cells = [
            cell("kelvin", Class::Subject, 1, 9.0),
            cell("slow", Class::Peer, 1, 3.0),
            cell("good", Class::Peer, 1, 6.0),
            cell("other cell", Class::Peer, 2, 100.0),
            cell("short", Class::ShortValuesOnly, 1, 12.0),
        ];
        let found = to_best(&cells, &cells[0], Class::Peer).expect("there are peers");
        assert_eq!((found.other, found.of_bests, found.time), ("good", 1.5, 1.0 / 1.5));
        assert_eq!(found.rounds.samples, [1.5, 1.5]);
        let short = to_best(&cells, &cells[0], Class::ShortValuesOnly).expect("there is one");
        assert_eq!((short.other, short.of_bests), ("short", 0.75));
        assert!(to_best(&cells, &cells[0], Class::TableEach).is_none());
    }

    #[test]
    fn longer_keys_are_compared_with_the_same_engines_shortest() {
        let long = |cell: CellReport| CellReport { key_bytes: 16, ..cell };
        let cells = [
            long(cell("kelvin", Class::Subject, 1, 8.0)),
            cell("kelvin", Class::Subject, 1, 10.0),
            cell("kelvin", Class::Subject, 2, 100.0),
            long(cell("good", Class::Peer, 1, 3.0)),
        ];
        let found = to_short_keys(&cells, &cells[0]).expect("it has shorter keys, too");
        assert_eq!((found.other, found.other_key_bytes, found.of_bests), ("kelvin", 4, 0.8));
        assert!(to_short_keys(&cells, &cells[1]).is_none());
        assert!(to_short_keys(&cells, &cells[3]).is_none());
    }
}
