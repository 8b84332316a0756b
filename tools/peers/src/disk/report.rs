//! What is printed and written: a table a cell, and the subject's ratio to others of the same run.

use std::fmt::Write;

use super::{
    cell::{Cell, Work},
    device::{BLOCK_BYTES, Counts},
    engine::{AtRisk, Engine, Kind, OwnCounts},
    fio::Rate,
    options::DiskOptions,
    work::Taken,
};
use crate::{
    machine::{self, Machine},
    report::Spread,
};

/// A get that has half its value and so many bytes read beside it brings neighbours in, and soon
/// the whole set.
const READ_AHEAD_BYTES: f64 = 24.0 * 1024.0;

/// A get of which nothing is in memory has a page read, but where it shares one with another.
const COLD_BYTES_MIN: f64 = 0.9 * BLOCK_BYTES as f64;

/// Reads of the device a get, below which one get in five was answered from memory.
const COLD_READS_MIN: f64 = 0.8;

/// A whole run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    machine: Machine,
    records: u32,
    rounds: u32,
    window_ms: u64,
    cells: Vec<CellReport>,
}

/// A cell.
#[derive(Debug, serde::Serialize)]
pub(super) struct CellReport {
    cell: Cell,
    records: u32,
    /// When it began.
    load_average: String,
    pub(super) rows: Vec<Row>,
    pub(super) bare: Vec<Bare>,
    /// Filled when the run is over.
    ratios: Vec<Ratio>,
}

/// An engine in a cell.
#[derive(Debug, serde::Serialize)]
pub(super) struct Row {
    pub(super) engine: &'static str,
    is_subject: bool,
    settings: String,
    at_risk: AtRisk,
    samples: Vec<Sample>,
}

/// A program without a store.
#[derive(Debug, serde::Serialize)]
pub(super) struct Bare {
    pub(super) name: String,
    pub(super) rates: Vec<Rate>,
}

/// A run of a cell on an engine. Shares are an operation's.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Sample {
    pub(super) per_s: f64,
    #[serde(flatten)]
    taken: Taken,
    /// Of the device, for everybody who uses it.
    device_reads: Option<f64>,
    device_write_bytes: Option<f64>,
    ops_a_device_flush: Option<f64>,
    /// Of this process.
    read_bytes: Option<f64>,
    /// As the engine has counted.
    own_reads: Option<f64>,
    ops_an_own_flush: Option<f64>,
    /// The flush of a block in the same second.
    pub(super) probe_us: Option<f64>,
}

/// What was counted at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) device: Option<Counts>,
    pub(super) own: Option<OwnCounts>,
    pub(super) read_bytes: Option<u64>,
}

/// The subject against another.
#[derive(Debug, PartialEq, serde::Serialize)]
struct Ratio {
    subject: &'static str,
    against: String,
    /// Best sample over best sample.
    of_bests: f64,
    /// Round by round.
    rounds: Spread,
}

impl Sample {
    pub(super) fn new(taken: Taken, before: Look, after: Look) -> Self {
        let ops = f64::from(taken.ops.max(1));
        let share = |count: u64| count as f64 / ops;
        let a_flush = |flushes: u64| Some(ops / flushes as f64).filter(|it| it.is_finite());
        let device = after.device.zip(before.device).map(|(after, before)| after.since(before));
        let own = after.own.zip(before.own);
        let bytes = after.read_bytes.zip(before.read_bytes);
        Self {
            per_s: ops / taken.wall_s,
            taken,
            device_reads: device.map(|it| share(it.reads)),
            device_write_bytes: device.map(|it| share(it.write_bytes)),
            ops_a_device_flush: device.and_then(|it| a_flush(it.flushes)),
            read_bytes: bytes.map(|(after, before)| share(after - before)),
            own_reads: own.map(|(after, before)| share(after.reads - before.reads)),
            ops_an_own_flush: own
                .and_then(|(after, before)| a_flush(after.flushes - before.flushes)),
            probe_us: None,
        }
    }
}

impl Row {
    pub(super) fn add(&mut self, engine: &dyn Engine, sample: Sample) {
        if self.samples.is_empty() {
            self.settings = engine.settings();
        }
        self.samples.push(sample);
    }

    fn per_s(&self) -> Spread {
        Spread::of(self.samples.iter().map(|sample| sample.per_s).collect())
    }

    fn median(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn most(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(of).fold(0.0, f64::max)
    }

    /// Whether cold gets were no longer cold: far more was read than asked for, or far less.
    fn is_resident(&self, cell: Cell) -> bool {
        let value_bytes = cell.size.value_bytes() as f64;
        let bytes =
            self.median(|sample| sample.read_bytes).unwrap_or(value_bytes.max(COLD_BYTES_MIN));
        let least = value_bytes.max(COLD_BYTES_MIN);
        let is_cold = (least..1.5 * value_bytes + READ_AHEAD_BYTES).contains(&bytes);
        // What others read only adds.
        let is_fetched = self.median(|sample| sample.device_reads).unwrap_or(1.0) >= COLD_READS_MIN;
        cell.work == Work::Cold && !(is_cold && is_fetched)
    }
}

impl Bare {
    /// In operations of the cell a second: of an append bytes count, of reads the reads.
    fn per_s(&self, cell: Cell) -> Spread {
        let value_bytes = cell.size.value_bytes() as f64;
        let rate = |rate: &Rate| match cell.work {
            Work::Put => rate.bytes_per_s / value_bytes,
            _ => rate.ops_per_s,
        };
        Spread::of(self.rates.iter().map(rate).collect())
    }
}

impl CellReport {
    pub(super) fn new(cell: Cell, records: u32, engines: &[Kind]) -> Self {
        let row = |kind: &Kind| Row {
            engine: kind.name,
            is_subject: kind.is_subject,
            settings: String::new(),
            at_risk: kind.at_risk,
            samples: Vec::new(),
        };
        let rows = engines.iter().map(row).collect();
        let (load_average, bare, ratios) = (machine::load_average(), Vec::new(), Vec::new());
        Self { cell, records, load_average, rows, bare, ratios }
    }

    /// The mean size of the reads that the first subject has asked the device for.
    pub(super) fn subject_read_bytes(&self) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.is_subject)?;
        let last = row.samples.last()?;
        let mean = last.read_bytes? / last.own_reads?;
        Some(mean).filter(|mean| mean.is_finite())
    }

    fn finish(&mut self) {
        let subjects = self.rows.iter().filter(|row| row.is_subject && !row.samples.is_empty());
        self.ratios = subjects.flat_map(|subject| self.ratios_of(subject)).collect();
    }

    fn ratios_of(&self, subject: &Row) -> Vec<Ratio> {
        let mine = subject.per_s();
        let ratio = |against: String, other: &Spread| Ratio {
            subject: subject.engine,
            against,
            of_bests: mine.best / other.best,
            rounds: mine.over(other),
        };
        let peers = self.rows.iter().filter(|row| !row.is_subject && !row.samples.is_empty());
        let peers: Vec<(&Row, Spread)> = peers.map(|row| (row, row.per_s())).collect();
        let fair = peers.iter().filter(|(row, _)| !row.is_resident(self.cell));
        let best = fair.max_by(|(_, a), (_, b)| a.best.total_cmp(&b.best));
        let best = best.map(|(row, it)| ratio(format!("the best peer, {}", row.engine), it));
        let bare = self.bare.iter().map(|it| ratio(it.name.clone(), &it.per_s(self.cell)));
        let each = peers.iter().map(|(row, it)| ratio(row.engine.to_owned(), it));
        best.into_iter().chain(bare).chain(each).collect()
    }
}

impl Report {
    pub(super) fn new(machine: Machine, options: &DiskOptions) -> Self {
        let window_ms = options.window.as_millis() as u64;
        let (records, rounds) = (options.records, options.rounds);
        Self { machine, records, rounds, window_ms, cells: Vec::new() }
    }

    /// Takes a cell that is done, and returns its table, as Markdown.
    pub(super) fn add(&mut self, mut cell: CellReport) -> String {
        cell.finish();
        self.machine.load_average_after = machine::load_average();
        let mut text = String::new();
        write_cell(&cell, &mut text).expect("a string takes everything");
        self.cells.push(cell);
        text
    }

    /// On what, and with what, the cells were measured.
    pub(super) fn setting(&self) -> String {
        let mut text = String::new();
        self.write_setting(&mut text).expect("a string takes everything");
        text
    }

    fn write_setting(&self, out: &mut String) -> std::fmt::Result {
        let (rounds, window_ms) = (self.rounds, self.window_ms);
        writeln!(out, "{}\n", self.machine.line())?;
        writeln!(out, "{rounds} rounds, windows of {window_ms} ms; medians, where not said.\n")?;
        writeln!(out, "| engine | settings |\n|---|---|")?;
        let rows = self.cells.first().map_or(&[][..], |cell| &cell.rows);
        rows.iter().try_for_each(|row| writeln!(out, "| {} | {} |", row.engine, row.settings))
    }
}

fn write_cell(cell: &CellReport, out: &mut String) -> std::fmt::Result {
    let columns = columns(cell.cell.work);
    let (name, records, load) = (cell.cell.name, cell.records, &cell.load_average);
    writeln!(out, "### {name}, {records} records, load average {load}\n")?;
    write!(out, "| engine | best /s | median /s | spread | CPU us | p99.9 us | worst ms |")?;
    columns.iter().try_for_each(|(name, _)| write!(out, " {name} |"))?;
    let has_risk = cell.cell.work == Work::Put;
    if has_risk {
        write!(out, " MiB at risk: power cut, kill |")?;
    }
    let further = 6 + columns.len() + usize::from(has_risk);
    writeln!(out, "\n|---|{}", "---|".repeat(further))?;
    for row in cell.rows.iter().filter(|row| !row.samples.is_empty()) {
        write_row(row, &columns, cell.cell, out)?;
        if has_risk {
            let all = u64::from(records) * cell.cell.size.value_bytes() as u64;
            let [cut, kill] = [row.at_risk.by_power_cut, row.at_risk.by_kill]
                .map(|bytes| bytes.map_or(all, |bytes| bytes.min(all)) as f64 / 1_048_576.0);
            write!(out, " {cut:.0}, {kill:.0} |")?;
        }
        writeln!(out)?;
    }
    for bare in &cell.bare {
        let per_s = bare.per_s(cell.cell);
        write!(out, "| {} | {:.0} | {:.0} | ", bare.name, per_s.best, per_s.median)?;
        writeln!(out, "{:.0} % |{}", 100.0 * per_s.width(), " |".repeat(further - 3))?;
    }
    for subject in cell.rows.iter().filter(|row| row.is_subject) {
        write_ratios(cell, subject.engine, out)?;
    }
    Ok(())
}

fn write_ratios(cell: &CellReport, subject: &str, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n{subject}, best over best (median, least and most round by round):")?;
    for ratio in cell.ratios.iter().filter(|ratio| ratio.subject == subject) {
        let (median, worst, best) = (ratio.rounds.median, ratio.rounds.worst, ratio.rounds.best);
        let (against, of_bests) = (&ratio.against, ratio.of_bests);
        writeln!(out, "- {of_bests:.2} of {against} ({median:.2}, {worst:.2} to {best:.2})")?;
    }
    Ok(())
}

fn write_row(row: &Row, columns: &[Column], cell: Cell, out: &mut String) -> std::fmt::Result {
    let per_s = row.per_s();
    let mark = if row.is_resident(cell) { " (in memory in part)" } else { "" };
    write!(
        out,
        "| {}{mark} | {:.0} | {:.0} | {:.0} % | {:.2} | {:.1} | {:.1} |",
        row.engine,
        per_s.best,
        per_s.median,
        100.0 * per_s.width(),
        row.median(|sample| Some(sample.taken.cpu_us)).unwrap_or(0.0),
        row.median(|sample| Some(sample.taken.p999_us)).unwrap_or(0.0),
        row.most(|sample| sample.taken.worst_us) / 1e3,
    )?;
    for (_, column) in columns {
        match row.median(column) {
            Some(value) => write!(out, " {value:.2} |")?,
            None => write!(out, " |")?,
        }
    }
    Ok(())
}

/// A column that not every cell has.
type Column = (&'static str, fn(&Sample) -> Option<f64>);

fn columns(work: Work) -> Vec<Column> {
    match work {
        Work::Put => vec![
            ("last/first tenth", |it| {
                Some(it.taken.tenths_per_s.last()? / it.taken.tenths_per_s[0])
            }),
            ("final flush ms", |it| Some(it.taken.flush_s * 1e3)),
            ("KiB written a put", |it| it.device_write_bytes.map(|bytes| bytes / 1024.0)),
        ],
        Work::Safe => vec![
            ("puts a device flush", |it| it.ops_a_device_flush),
            ("puts an own flush", |it| it.ops_an_own_flush),
            ("probe us", |it| it.probe_us),
            ("puts in a probe's time", |it| Some(it.per_s * it.probe_us? / 1e6)),
        ],
        Work::Cold | Work::Warm | Work::Batch => vec![
            ("device reads a get", |it| it.device_reads),
            ("own reads a get", |it| it.own_reads),
            ("KiB read a get", |it| it.read_bytes.map(|bytes| bytes / 1024.0)),
        ],
    }
}

#[cfg(test)]
mod tests;
