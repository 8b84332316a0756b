//! What is printed and written: the paper's tables with its figures and ours, how much slower the
//! last tenth is than the first, and the curves.

use std::{fmt::Write, io};

use super::{
    Part, Size, TablesOptions,
    paper::{PEERS, SUBJECT},
    records_of,
};
use crate::{
    disk::{
        chart::{self, Head, Line, Panel},
        engine::{AtRisk, Kind},
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
    put_seconds_max: u64,
    settle_seconds_max: u64,
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
    at_risk: AtRisk,
    settings: String,
    runs: Vec<Run>,
}

/// From nothing to all records.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Run {
    pub(super) points: Vec<Point>,
    /// Of puts all of them, with the flush in the end; of gets those when all was stored.
    pub(super) per_s: f64,
    /// It took too long, and not everything was stored.
    pub(super) is_cut: bool,
    /// The store was quiet whenever gets began.
    pub(super) is_settled: bool,
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

    /// The run with the highest rate, of those that were not cut if there is one.
    pub(super) fn best(&self) -> Option<&Run> {
        let order =
            |a: &&Run, b: &&Run| b.is_cut.cmp(&a.is_cut).then_with(|| a.per_s.total_cmp(&b.per_s));
        self.runs.iter().max_by(order)
    }

    /// The rate in the last tenth over that in the first one; the median of all runs that were not
    /// cut, or if all were, of these.
    fn last_of_first(&self) -> Option<Figure> {
        let is_cut = self.best()?.is_cut;
        let ratio = |run: &Run| Some(run.points.last()?.per_s / run.points.first()?.per_s);
        let runs = self.runs.iter().filter(|run| run.is_cut == is_cut);
        let mut ratios: Vec<f64> = runs.filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let value = ratios.get(ratios.len() / 2).copied()?;
        Some(Figure { value, is_cut, is_settled: true })
    }

    /// The last run in a line.
    pub(super) fn last(&self) -> String {
        let Some(run) = self.runs.last() else { return "nothing".to_owned() };
        let rates: Vec<String> = run.points.iter().map(|it| format!("{:.0}", it.per_s)).collect();
        let marks = Figure::rate(run).marks();
        format!("{:.0}/s{} ({})", run.per_s, marks.replace('\\', ""), rates.join(" "))
    }
}

/// A number of a table, and what has to be said of it.
#[derive(Clone, Copy, Debug)]
struct Figure {
    value: f64,
    is_cut: bool,
    is_settled: bool,
}

impl Figure {
    fn rate(run: &Run) -> Self {
        Self { value: run.per_s, is_cut: run.is_cut, is_settled: run.is_settled }
    }

    fn over(self, other: Self) -> Self {
        Self {
            value: self.value / other.value,
            is_cut: self.is_cut || other.is_cut,
            is_settled: self.is_settled && other.is_settled,
        }
    }

    fn marks(self) -> &'static str {
        match (self.is_cut, self.is_settled) {
            (false, true) => "",
            (true, true) => "\\*",
            (false, false) => "+",
            (true, false) => "\\*+",
        }
    }

    /// A dash for what there is no number of: a store of which not even a tenth was stored has
    /// no rate of gets.
    fn rounded(self, digits: usize) -> String {
        let marks = self.marks();
        if self.value.is_finite() && self.value > 0.0 {
            format!("{:.digits$}{marks}", self.value)
        } else {
            format!("-{marks}")
        }
    }
}

impl Report {
    pub(super) fn new(machine: Machine, options: &TablesOptions) -> Self {
        Self {
            machine,
            records: options.records,
            rounds: options.rounds,
            put_seconds_max: options.put_time_max.as_secs(),
            settle_seconds_max: options.settle_time_max.as_secs(),
            curves: Vec::new(),
            engines: options.engines.clone(),
        }
    }

    /// That of the engine at a place among all.
    pub(super) fn curve(&mut self, part: Part, size: Size, engine: usize) -> &mut Curve {
        let kind = self.engines[engine];
        let is_it = |it: &Curve| (it.part, it.size, it.engine) == (part, size, kind.name);
        let at = self.curves.iter().position(is_it).unwrap_or_else(|| {
            let Kind { name: engine, is_subject, at_risk, .. } = kind;
            let (settings, runs) = (String::new(), Vec::new());
            self.curves.push(Curve { part, size, engine, is_subject, at_risk, settings, runs });
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
        let has_part = |part: &Part| self.curves.iter().any(|curve| curve.part == *part);
        let has_size = |size: &Size| self.curves.iter().any(|curve| curve.size == *size);
        let sizes: Vec<Size> = Size::ALL.into_iter().filter(has_size).collect();
        let parts = Part::ALL.into_iter().filter(has_part);
        let cells = parts.flat_map(|part| sizes.iter().map(move |size| (part, *size)));
        let panels: Vec<Panel> = cells.map(|(part, size)| self.panel(part, size)).collect();
        let (puts, settle) = (self.put_seconds_max, self.settle_seconds_max);
        let below = format!(
            "A curve that ends early is of a store that was not full after {puts} s of puts. Gets \
             of what was just put, when the store is quiet or after {settle} s"
        );
        let head = Head {
            title: "Rates over the number of records",
            below: &below,
            names: self.engines().collect(),
            dashed: None,
        };
        chart::svg(&head, sizes.len(), &panels)
    }

    fn panel(&self, part: Part, size: Size) -> Panel {
        let line = |(name, engine)| {
            let run = self.find(part, size, engine)?.best()?;
            let points = run.points.iter().map(|it| (f64::from(it.records), it.per_s)).collect();
            Some(Line { name, is_dashed: false, points })
        };
        let lines = self.engines().enumerate().filter_map(line).collect();
        let name = format!("{}, {}", part.short_title(), size.label());
        let end = f64::from(records_of(size, self.records));
        Panel { name, below: "records stored", end, lines }
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
        self.write_marks(out)?;
        writeln!(out, "{}\n", self.machine.line())?;
        writeln!(out, "{} records of 4 B and 1 KiB, rounds: {}.", self.records, self.rounds)?;
        for engine in self.engines() {
            if let Some(curve) = self.curves.iter().find(|curve| curve.engine == engine) {
                writeln!(out, "- {engine}: {}; {}", curve.settings, curve.at_risk)?;
            }
        }
        writeln!(out)?;
        self.curves.iter().filter(|it| it.is_subject).try_for_each(|it| write_verdict(it, out))
    }

    /// What a mark means, where there is one.
    fn write_marks(&self, out: &mut String) -> std::fmt::Result {
        let runs = || self.curves.iter().flat_map(|curve| &curve.runs);
        if runs().any(|run| run.is_cut) {
            let seconds = self.put_seconds_max;
            writeln!(
                out,
                "\\* It was not full after {seconds} s of puts: the rate until then, and no \
                 verdict.\n"
            )?;
        }
        if runs().any(|run| !run.is_settled) {
            let seconds = self.settle_seconds_max;
            writeln!(
                out,
                "+ The store still sorted what it has when gets began, {seconds} s after a tenth \
                 of the puts.\n"
            )?;
        }
        Ok(())
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
        let rate = |size, engine: &str| self.find(part, size, engine)?.best().map(Figure::rate);
        for engine in self.engines() {
            write_row(engine, |size| Some(rate(size, engine)?.rounded(0)), out)?;
        }
        for peer in PEERS {
            let paper = |size| SUBJECT.per_s(part, size) / peer.per_s(part, size);
            let name = format!("{} / {} in the paper", SUBJECT.name, peer.name);
            write_row(&name, |size| Some(format!("{:.2}", paper(size))), out)?;
            let here = |size| Some(rate(size, SUBJECT.here)?.over(rate(size, peer.here)?));
            let name = format!("{} / {}", SUBJECT.here, peer.here);
            write_row(&name, |size| Some(here(size)?.rounded(2)), out)?;
        }
        for engine in self.engines() {
            let ratio = |size| self.find(part, size, engine)?.last_of_first();
            let name = format!("{engine}: last tenth / first");
            write_row(&name, |size| Some(ratio(size)?.rounded(2)), out)?;
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
    let Some(Figure { value: ratio, is_cut, .. }) = curve.last_of_first() else { return Ok(()) };
    let verdict = match (is_cut, ratio >= LAST_OF_FIRST_MIN) {
        (true, _) => "no verdict, cut",
        (false, true) => "held",
        (false, false) => "NOT held",
    };
    let (part, size, engine) = (curve.part.name(), curve.size.name(), curve.engine);
    writeln!(out, "{part} {size} {engine}: the last tenth has {ratio:.2} of the first: {verdict}")
}

#[cfg(test)]
mod tests {
    use super::{Part, Point, Report, Run, Size, TablesOptions};
    use crate::{
        disk::{engine::Kind, options::engine},
        machine::Machine,
    };

    fn run(rates: &[f64]) -> Run {
        let points = (1..).zip(rates).map(|(records, per_s)| Point { records, per_s: *per_s });
        let (points, per_s) = (points.collect(), rates.iter().sum());
        Run { points, per_s, is_cut: false, is_settled: true, device_reads: Some(1.0) }
    }

    fn cut(rates: &[f64]) -> Run {
        Run { is_cut: true, ..run(rates) }
    }

    /// The log, and another store that has the name of one of the paper.
    fn with_a_peer() -> TablesOptions {
        let kelvin = engine("kelvin").expect("it is there");
        let peer = Kind { name: "leveldb", is_subject: false, ..kelvin };
        TablesOptions { engines: vec![kelvin, peer], ..TablesOptions::default() }
    }

    fn assert_said(report: &Report, expected: &[&str]) {
        let text = report.text();
        for line in expected {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn the_best_run_counts_and_what_became_slow_is_named() {
        let mut report = Report::new(Machine::read(), &with_a_peer());
        let curve = report.curve(Part::OneWriter, Size::Kib, 0);
        for rates in [[100.0, 80.0], [200.0, 120.0]] {
            curve.add("set so".to_owned(), run(&rates));
        }
        report.curve(Part::Reads, Size::Tiny, 0).add(String::new(), run(&[7.0, 6.5]));
        assert_eq!(report.curves.len(), 2);
        assert_said(
            &report,
            &[
                "| ZDB in the paper | 294796 | 108790 | 4132 |",
                "| kelvin |  | 320 |  |",
                "| ZDB / LevelDB in the paper | 0.85 | 20.30 | 67.74 |",
                "| kelvin: last tenth / first |  | 0.80 |  |",
                "| kelvin: reads of the device a get | 1.00 |  |  |",
                "- kelvin: set so; lost with the power: at most 16 MiB, with the process: at",
                "put-1 1k kelvin: the last tenth has 0.80 of the first: NOT held",
                "reads 4b kelvin: the last tenth has 0.93 of the first: held",
            ],
        );
        let text = report.text();
        assert!(!text.contains("Table 3") && !text.contains("\\*"), "{text}");
    }

    #[test]
    fn a_cut_run_counts_only_where_there_is_no_whole_one_and_says_nothing_of_tenths() {
        let mut report = Report::new(Machine::read(), &with_a_peer());
        let curve = report.curve(Part::Reads, Size::Tiny, 0);
        curve.add(String::new(), cut(&[90.0]));
        curve.add(String::new(), run(&[10.0, 5.0]));
        report.curve(Part::Reads, Size::Kib, 0).add(String::new(), cut(&[7.0]));
        let still = Run { is_settled: false, ..run(&[30.0]) };
        report.curve(Part::Reads, Size::Tiny, 1).add(String::new(), still);
        report.curve(Part::Reads, Size::Kib, 1).add(String::new(), cut(&[14.0]));
        report.curve(Part::Reads, Size::Large, 0).add(String::new(), run(&[5.0]));
        report.curve(Part::Reads, Size::Large, 1).add(String::new(), cut(&[]));
        assert_said(
            &report,
            &[
                "| kelvin | 15 | 7\\* | 5 |",
                "| leveldb | 30+ | 14\\* | -\\* |",
                "| kelvin / leveldb | 0.50+ | 0.50\\* | -\\* |",
                "| kelvin: last tenth / first | 0.50 | 1.00\\* | 1.00 |",
                "| leveldb: last tenth / first | 1.00 | 1.00\\* |  |",
                "\\* It was not full after 600 s of puts",
                "+ The store still sorted what it has when gets began, 60 s after",
                "reads 4b kelvin: the last tenth has 0.50 of the first: NOT held",
                "reads 1k kelvin: the last tenth has 1.00 of the first: no verdict, cut",
            ],
        );
    }
}
