//! What was measured, written for people and for programs.

use crate::report::median;
use std::{
    fmt::{self, Write},
    fs, io,
    path::Path,
};

use super::{
    asked::{Gets, Shape, Swept},
    bars::{Bar, bars},
    chart,
    guest::Kind,
    options::{Keys, Size, TiersOptions},
};
use crate::machine::{self, Machine};

/// Below the gets, so that nobody takes figures for the same that are not.
const BARE_GETS: &str = "The bare loop reads for each get and keeps nothing in memory, where the \
    servers answer some gets: its CPU us are those of a get with its read (\"reads a get\" has how \
    many the others made).";

/// A whole run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    machine: Machine,
    memory_mib: u64,
    times: u64,
    rounds: u32,
    window_ms: u64,
    write_mode: String,
    absent: Vec<String>,
    pub(super) gets: Vec<GetsReport>,
    pub(super) sets: Vec<SetsReport>,
    bars: Vec<Bar>,
}

/// Gets of a size.
#[derive(Debug, serde::Serialize)]
pub(super) struct GetsReport {
    pub(super) size: Size,
    pub(super) keys: Keys,
    pub(super) rows: Vec<GetsRow>,
    pub(super) fio: Vec<FioReads>,
}

/// A server in a cell of gets.
#[derive(Debug, serde::Serialize)]
pub(super) struct GetsRow {
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    pub(super) samples: Vec<Gets>,
    /// Why it was not run, or not to the end.
    pub(super) reason: Option<String>,
    pub(super) resident_bytes: Option<u64>,
    /// How the page cache is kept from it.
    pub(super) held: Option<&'static str>,
}

/// What the disk gave without a server, in reads a second.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct FioReads {
    pub(super) bytes_mean: f64,
    /// What was seen under way.
    pub(super) depth: Option<f64>,
    /// At that depth.
    pub(super) observed: Option<f64>,
    /// At a depth of 16.
    pub(super) deep: Option<f64>,
}

/// Sets of a size.
#[derive(Debug, serde::Serialize)]
pub(super) struct SetsReport {
    pub(super) size: Size,
    keys: u32,
    pub(super) rows: Vec<SetsRow>,
    pub(super) append_bytes_per_s: Vec<f64>,
}

/// A server in a cell of sets.
#[derive(Debug, serde::Serialize)]
pub(super) struct SetsRow {
    pub(super) kind: Kind,
    pub(super) samples: Vec<Sets>,
    pub(super) reason: Option<String>,
}

/// Every key set once.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Sets {
    pub(super) keys: u32,
    pub(super) set: Swept,
    /// `None` of who answers to every key.
    pub(super) read_back: Option<ReadBack>,
}

/// Every key read.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct ReadBack {
    pub(super) right_after: Swept,
    pub(super) later: Swept,
}

impl Sets {
    /// Of what was acknowledged, what was there right after.
    pub(super) fn kept_share(&self) -> Option<f64> {
        let found = self.read_back.as_ref()?.right_after.found;
        Some(found as f64 / self.set.stored.max(1) as f64)
    }

    pub(super) fn kept_later_share(&self) -> Option<f64> {
        let found = self.read_back.as_ref()?.later.found;
        Some(found as f64 / self.set.stored.max(1) as f64)
    }

    /// Values a second that were acknowledged, and there right after if that was looked at.
    pub(super) fn good_per_s(&self) -> f64 {
        let found = self.read_back.as_ref().map(|back| back.right_after.found);
        let good = found.unwrap_or(self.set.stored);
        self.set.per_s * good as f64 / f64::from(self.keys.max(1))
    }
}

impl GetsReport {
    pub(super) fn new(size: Size, keys: Keys) -> Self {
        Self { size, keys, rows: Vec::new(), fio: Vec::new() }
    }

    pub(super) fn row(&self, kind: Kind, shape: Shape) -> Option<&GetsRow> {
        self.rows.iter().find(|row| (row.kind, row.shape) == (kind, shape))
    }
}

impl GetsRow {
    pub(super) fn new(kind: Kind, shape: Shape) -> Self {
        let (samples, reason, resident_bytes, held) = (Vec::new(), None, None, None);
        Self { kind, shape, samples, reason, resident_bytes, held }
    }

    /// A figure of each round.
    pub(super) fn each(&self, of: impl Fn(&Gets) -> Option<f64>) -> Vec<f64> {
        self.samples.iter().filter_map(of).collect()
    }
}

impl SetsReport {
    pub(super) fn new(size: Size, keys: u32, rows: Vec<SetsRow>) -> Self {
        Self { size, keys, rows, append_bytes_per_s: Vec::new() }
    }
}

impl SetsRow {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, samples: Vec::new(), reason: None }
    }

    pub(super) fn each(&self, of: impl Fn(&Sets) -> Option<f64>) -> Vec<f64> {
        self.samples.iter().filter_map(of).collect()
    }
}

/// The middle of the ratios round by round.
pub(super) fn ratio(over: &[f64], under: &[f64]) -> Option<f64> {
    median(over.iter().zip(under).map(|(over, under)| over / under).collect())
}

impl Report {
    pub(super) fn new(machine: Machine, options: &TiersOptions, absent: Vec<String>) -> Self {
        Self {
            machine,
            memory_mib: options.memory_mib,
            times: options.times,
            rounds: options.rounds,
            window_ms: options.window.as_millis() as u64,
            write_mode: options.write_mode.clone(),
            absent,
            gets: Vec::new(),
            sets: Vec::new(),
            bars: Vec::new(),
        }
    }

    pub(super) fn add_gets(&mut self, report: GetsReport) {
        self.gets.push(report);
        self.bars = bars(&self.gets, &self.sets);
    }

    pub(super) fn add_sets(&mut self, report: SetsReport) {
        self.sets.push(report);
        self.bars = bars(&self.gets, &self.sets);
    }

    /// Writes what there is so far: a long run may be ended early.
    pub(super) fn write(&mut self, out: &Path) -> io::Result<()> {
        self.machine.load_average_after = machine::load_average();
        fs::write(out.join("tiers.md"), self.markdown())?;
        fs::write(out.join("tiers.json"), serde_json::to_string_pretty(self)?)?;
        fs::write(out.join("tiers.svg"), chart::svg(&self.setting(), &self.gets, &self.sets))
    }

    /// What was done, in a sentence.
    fn setting(&self) -> String {
        let Self { memory_mib, times, rounds, window_ms, write_mode, .. } = self;
        let set_mib = memory_mib * times;
        format!(
            "{memory_mib} MiB of memory, {set_mib} MiB of values; medians of {rounds} rounds, \
             windows of {window_ms} ms; write mode {write_mode}"
        )
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::new();
        self.write_markdown(&mut out).expect("a string takes everything");
        out
    }

    fn write_markdown(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "{}\n\n{}.\n", self.machine.line(), self.setting())?;
        self.absent.iter().try_for_each(|line| writeln!(out, "{line}\n"))?;
        self.gets.iter().try_for_each(|report| write_gets(report, out))?;
        self.sets.iter().try_for_each(|report| write_sets(report, out))?;
        if self.bars.is_empty() {
            return Ok(());
        }
        writeln!(out, "### bars\n\n| cell | what | bar | found | holds | the bare loop |")?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        self.bars.iter().try_for_each(|bar| {
            let Bar { cell, what, bar, found, holds, bare } = bar;
            let holds = if *holds { "yes" } else { "NO" };
            let bare = bare.map_or_else(String::new, |found| format!("{found:.3}"));
            writeln!(out, "| {cell} | {what} | {bar} | {found:.3} | {holds} | {bare} |")
        })
    }
}

/// What is kept does not apply to who is not asked for it.
fn kept(share: String) -> String {
    if share.is_empty() { "n/a".to_owned() } else { share }
}

fn write_gets(report: &GetsReport, out: &mut String) -> fmt::Result {
    writeln!(out, "### gets, {}, {}\n", report.size.name, report.keys.name())?;
    writeln!(
        out,
        "| server | connections x depth | found /s (least to most) | found % | CPU us | p50 us | \
         p95 us | p99 us | server busy % | reads a get | KiB a read | reads under way | \
         resident MiB | page cache |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    for row in &report.rows {
        if let Some(reason) = &row.reason {
            let (name, shape) = (row.kind.name(), row.shape);
            writeln!(out, "| {name} | {shape} | not run: {reason} |{}", " |".repeat(11))?;
        }
        if !row.samples.is_empty() {
            write_gets_row(row, out)?;
        }
    }
    let of = |figure: fn(&FioReads) -> Option<f64>| {
        median(report.fio.iter().filter_map(figure).collect())
    };
    for (name, depth, rate) in [
        ("fio, as deep as Kelvin", of(|fio| fio.depth), of(|fio| fio.observed)),
        ("fio", Some(16.0), of(|fio| fio.deep)),
    ] {
        let (Some(rate), Some(depth)) = (rate, depth) else { continue };
        let kib = of(|fio| Some(fio.bytes_mean / 1024.0)).unwrap_or(0.0);
        write!(out, "| {name} | | {rate:.0} | | | | | | | ")?;
        writeln!(out, "| {kib:.1} | {depth:.2} | | |")?;
    }
    if report.rows.iter().any(|row| row.kind == Kind::Bare && !row.samples.is_empty()) {
        writeln!(out, "\n{BARE_GETS}")?;
    }
    writeln!(out)
}

fn write_gets_row(row: &GetsRow, out: &mut String) -> fmt::Result {
    let of = |figure: fn(&Gets) -> Option<f64>, digits: usize| {
        median(row.each(figure)).map_or_else(String::new, |it| format!("{it:.digits$}"))
    };
    let rates = row.each(|it| Some(it.found_per_s));
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    writeln!(
        out,
        "| {} | {} | {} ({least:.0} to {most:.0}) | {} | {} | {} | {} | {} | {} | {} | {} | {} | \
         {} | {} |",
        row.kind.name(),
        row.shape,
        of(|it| Some(it.found_per_s), 0),
        of(|it| Some(100.0 * it.found_share), 2),
        of(|it| it.server_cpu_us, 2),
        of(|it| Some(it.p50_us), 0),
        of(|it| Some(it.p95_us), 0),
        of(|it| Some(it.p99_us), 0),
        of(|it| Some(100.0 * it.server_busy_share?), 0),
        of(|it| it.reads_a_get, 2),
        of(|it| Some(it.read_bytes? / 1024.0), 1),
        of(|it| it.read_depth, 2),
        row.resident_bytes.map_or_else(String::new, |bytes| (bytes >> 20).to_string()),
        row.held.unwrap_or_default(),
    )
}

fn write_sets(report: &SetsReport, out: &mut String) -> fmt::Result {
    writeln!(out, "### sets, {}, {} keys once\n", report.size.name, report.keys)?;
    writeln!(
        out,
        "| server | acknowledged /s | MiB/s | kept right after % | kept later % | \
         goodput MiB/s (least to most) | refused | CPU us | p50 us | p95 us | p99 us |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|---|")?;
    let mib = report.size.bytes as f64 / 1_048_576.0;
    for row in &report.rows {
        if let Some(reason) = &row.reason {
            writeln!(out, "| {} | not run: {reason} |{}", row.kind.name(), " |".repeat(9))?;
        }
        if row.samples.is_empty() {
            continue;
        }
        let of = |figure: &dyn Fn(&Sets) -> Option<f64>, digits: usize| {
            median(row.each(figure)).map_or_else(String::new, |it| format!("{it:.digits$}"))
        };
        let good = row.each(|it| Some(it.good_per_s() * mib));
        let least = good.iter().copied().fold(f64::MAX, f64::min);
        let most = good.iter().copied().fold(0.0, f64::max);
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} ({least:.1} to {most:.1}) | {} | {} | {} | {} | {} |",
            row.kind.name(),
            of(&|it| Some(it.set.per_s), 0),
            of(&|it| Some(it.set.per_s * mib), 1),
            kept(of(&|it| Some(100.0 * it.kept_share()?), 2)),
            kept(of(&|it| Some(100.0 * it.kept_later_share()?), 2)),
            of(&|it| Some(it.good_per_s() * mib), 1),
            of(&|it| Some(it.set.refused as f64), 0),
            of(&|it| it.set.server_cpu_us, 2),
            of(&|it| Some(it.set.p50_us), 0),
            of(&|it| Some(it.set.p95_us), 0),
            of(&|it| Some(it.set.p99_us), 0),
        )?;
    }
    if let Some(rate) = median(report.append_bytes_per_s.clone()) {
        let rate = rate / 1_048_576.0;
        writeln!(out, "| fio append 1 MiB QD4 | | {rate:.1} |{}", " |".repeat(8))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests;
