//! What is printed and written: the paper's tables with its figures and ours, how much slower the
//! last tenth is than the first, and the curves.

use std::{fmt::Write, io};

use super::{
    Part, Size, TablesOptions,
    paper::{PEERS, SUBJECT},
};
use crate::{
    disk::{
        chart::{self, Line, Panel},
        engine::Kind,
    },
    machine::{self, Machine},
};

/// What the last tenth has to have of the first one's rate.
const LAST_OF_FIRST_MIN: f64 = 0.9;

/// A whole run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    machine: Machine,
    records: u32,
    rounds: u32,
    pub(super) curves: Vec<Curve>,
    #[serde(skip)]
    engines: Vec<Kind>,
}

/// A store in a part, with values of a size.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Curve {
    pub(super) part: Part,
    pub(super) size: Size,
    pub(super) engine: &'static str,
    is_subject: bool,
    settings: String,
    runs: Vec<Run>,
}

/// From nothing to all records.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Run {
    pub(super) points: Vec<Point>,
    /// Of puts all of them, with the flush in the end; of gets those when all was stored.
    pub(super) per_s: f64,
    /// It took too long.
    pub(super) is_cut: bool,
    /// Of the device, of everybody, a get when all was stored.
    pub(super) device_reads: Option<f64>,
}

/// A rate when so many were stored; of puts in the tenth before.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Point {
    pub(super) records: u32,
    pub(super) per_s: f64,
}

impl Curve {
    pub(super) fn add(&mut self, settings: String, run: Run) {
        self.settings = settings;
        self.runs.push(run);
    }

    /// The run with the highest rate.
    pub(super) fn best(&self) -> Option<&Run> {
        self.runs.iter().max_by(|a, b| a.per_s.total_cmp(&b.per_s))
    }

    /// The rate in the last tenth over that in the first one; the median of all runs.
    fn last_of_first(&self) -> Option<f64> {
        let ratio = |run: &Run| Some(run.points.last()?.per_s / run.points.first()?.per_s);
        let mut ratios: Vec<f64> = self.runs.iter().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// The last run in a line.
    pub(super) fn last(&self) -> String {
        let Some(run) = self.runs.last() else { return "nothing".to_owned() };
        let rates: Vec<String> = run.points.iter().map(|it| format!("{:.0}", it.per_s)).collect();
        format!("{:.0}/s ({})", run.per_s, rates.join(" "))
    }
}

impl Report {
    pub(super) fn new(machine: Machine, options: &TablesOptions) -> Self {
        let (records, rounds) = (options.records, options.rounds);
        Self { machine, records, rounds, curves: Vec::new(), engines: options.engines.clone() }
    }

    /// That of the engine at a place among all.
    pub(super) fn curve(&mut self, part: Part, size: Size, engine: usize) -> &mut Curve {
        let kind = self.engines[engine];
        let is_it = |it: &Curve| (it.part, it.size, it.engine) == (part, size, kind.name);
        let at = self.curves.iter().position(is_it).unwrap_or_else(|| {
            let (engine, is_subject) = (kind.name, kind.is_subject);
            let (settings, runs) = (String::new(), Vec::new());
            self.curves.push(Curve { part, size, engine, is_subject, settings, runs });
            self.curves.len() - 1
        });
        &mut self.curves[at]
    }

    pub(super) fn find(&self, part: Part, size: Size, engine: &str) -> Option<&Curve> {
        let is_it = |it: &&Curve| (it.part, it.size, it.engine) == (part, size, engine);
        self.curves.iter().find(is_it).filter(|it| !it.runs.is_empty())
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = &'static str> {
        self.engines.iter().map(|kind| kind.name)
    }

    /// Writes what there is so far: a long run may be ended early.
    pub(super) fn write(&mut self, options: &TablesOptions) -> io::Result<()> {
        self.machine.load_average_after = machine::load_average();
        options.files.write(self, || self.svg())
    }

    /// A row for each part, a column for each size of values.
    fn svg(&self) -> String {
        let is_there = |part: &Part| self.curves.iter().any(|curve| curve.part == *part);
        let parts = Part::ALL.into_iter().filter(is_there);
        let cells = parts.flat_map(|part| Size::ALL.map(|size| (part, size)));
        let panels: Vec<Panel> = cells.map(|(part, size)| self.panel(part, size)).collect();
        let engines: Vec<&str> = self.engines().collect();
        chart::svg("Rates over the number of records", &engines, Size::ALL.len(), &panels)
    }

    fn panel(&self, part: Part, size: Size) -> Panel {
        let line = |(name, engine)| {
            let run = self.find(part, size, engine)?.best()?;
            let points = run.points.iter().map(|it| (f64::from(it.records), it.per_s)).collect();
            Some(Line { name, is_dashed: false, points })
        };
        let lines = self.engines().enumerate().filter_map(line).collect();
        let what = part.title().split(": ").last().unwrap_or("");
        Panel { name: format!("{what}, {}", size.name()), below: "records stored", lines }
    }

    /// As Markdown.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("a string takes everything");
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        for part in Part::ALL {
            if self.curves.iter().any(|curve| curve.part == part) {
                self.write_part(part, out)?;
            }
        }
        writeln!(out, "{}\n", self.machine.line())?;
        writeln!(out, "{} records of 4 B and 1 KiB, rounds: {}.", self.records, self.rounds)?;
        for engine in self.engines() {
            if let Some(curve) = self.curves.iter().find(|curve| curve.engine == engine) {
                writeln!(out, "- {engine}: {}", curve.settings)?;
            }
        }
        writeln!(out)?;
        self.curves.iter().filter(|it| it.is_subject).try_for_each(|it| write_verdict(it, out))
    }

    fn write_part(&self, part: Part, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "### {}\n\n| store | 4 B | 1 KiB | 100 KiB |\n|---|---|---|---|",
            part.title()
        )?;
        for store in [SUBJECT].iter().chain(&PEERS) {
            let per_s = |size| Some(format!("{:.0}", store.per_s(part, size)));
            write_row(&format!("{} in the paper", store.name), per_s, out)?;
        }
        for engine in self.engines() {
            let per_s = |size| {
                let run = self.find(part, size, engine)?.best()?;
                Some(format!("{:.0}{}", run.per_s, if run.is_cut { "\\*" } else { "" }))
            };
            write_row(engine, per_s, out)?;
        }
        for peer in PEERS {
            let paper = |size| SUBJECT.per_s(part, size) / peer.per_s(part, size);
            let name = format!("{} / {} in the paper", SUBJECT.name, peer.name);
            write_row(&name, |size| Some(format!("{:.2}", paper(size))), out)?;
            let rate = |size, engine| Some(self.find(part, size, engine)?.best()?.per_s);
            let here = |size| Some(rate(size, SUBJECT.here)? / rate(size, peer.here)?);
            let name = format!("{} / {}", SUBJECT.here, peer.here);
            write_row(&name, |size| Some(format!("{:.2}", here(size)?)), out)?;
        }
        for engine in self.engines() {
            let ratio = |size| self.find(part, size, engine)?.last_of_first();
            let name = format!("{engine}: last tenth / first");
            write_row(&name, |size| Some(format!("{:.2}", ratio(size)?)), out)?;
        }
        for engine in self.engines().filter(|_| part == Part::Reads) {
            let reads = |size| self.find(part, size, engine)?.best()?.device_reads;
            let name = format!("{engine}: reads of the device a get");
            write_row(&name, |size| Some(format!("{:.2}", reads(size)?)), out)?;
        }
        writeln!(out)
    }
}

fn write_row(
    name: &str,
    cell: impl Fn(Size) -> Option<String>,
    out: &mut String,
) -> std::fmt::Result {
    let cells = Size::ALL.map(|size| cell(size).unwrap_or_default());
    writeln!(out, "| {name} | {} |", cells.join(" | "))
}

fn write_verdict(curve: &Curve, out: &mut String) -> std::fmt::Result {
    let Some(ratio) = curve.last_of_first() else { return Ok(()) };
    let verdict = if ratio >= LAST_OF_FIRST_MIN { "held" } else { "NOT held" };
    let (part, size, engine) = (curve.part.name(), curve.size.name(), curve.engine);
    writeln!(out, "{part} {size} {engine}: the last tenth has {ratio:.2} of the first: {verdict}")
}

#[cfg(test)]
mod tests {
    use super::{Part, Point, Report, Run, Size, TablesOptions};
    use crate::machine::Machine;

    fn run(rates: &[f64]) -> Run {
        let points = (1..).zip(rates).map(|(records, per_s)| Point { records, per_s: *per_s });
        let (points, per_s) = (points.collect(), rates.iter().sum());
        Run { points, per_s, is_cut: rates.len() < 2, device_reads: Some(1.0) }
    }

    #[test]
    fn the_best_run_counts_and_what_became_slow_is_named() {
        let options = TablesOptions::default();
        let mut report = Report::new(Machine::read(), &options);
        let curve = report.curve(Part::OneWriter, Size::Kib, 0);
        for rates in [[100.0, 80.0], [200.0, 120.0]] {
            curve.add("set so".to_owned(), run(&rates));
        }
        report.curve(Part::Reads, Size::Tiny, 0).add(String::new(), run(&[7.0]));
        assert_eq!(report.curves.len(), 2);
        let text = report.text();
        for expected in [
            "| ZDB in the paper | 294796 | 108790 | 4132 |",
            "| kelvin |  | 320 |  |",
            "| ZDB / LevelDB in the paper | 0.85 | 20.30 | 67.74 |",
            "| kelvin: last tenth / first |  | 0.80 |  |",
            "| kelvin | 7\\* |  |  |",
            "| kelvin: reads of the device a get | 1.00 |  |  |",
            "- kelvin: set so",
            "put-1 1k kelvin: the last tenth has 0.80 of the first: NOT held",
            "reads 4b kelvin: the last tenth has 1.00 of the first: held",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("Table 3"), "{text}");
    }
}
