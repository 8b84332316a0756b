//! What is printed and written: a table for each size of values and each choice of keys.

use std::{fmt::Write, io};

use super::{Bound, ChurnOptions, Look, Pace, Popularity, Shrunk, Size};
use crate::{
    disk::{
        chart::{self, Line, Panel},
        engine::Kind,
    },
    machine::{self, Machine},
};

/// The store that others are compared with.
const RIVAL: &str = "leveldb";

/// What the log has to keep: the rate, of the rival's; the worst put; and how many times the quiet
/// p99 that of puts at half the rate is.
const OF_RIVAL_MIN: f64 = 3.0;
const WORST_MS_MAX: f64 = 20.0;
const P99_OF_QUIET_MAX: f64 = 2.0;

/// A whole run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    machine: Machine,
    records: u32,
    times: u32,
    rounds: u32,
    writers: u32,
    space_percent: u32,
    rows: Vec<Row>,
    #[serde(skip)]
    engines: Vec<Kind>,
}

/// A store with values of a size and a choice of keys.
#[derive(Debug, serde::Serialize)]
struct Row {
    size: Size,
    keys: Popularity,
    engine: &'static str,
    samples: Vec<Sample>,
}

/// A store from the first record to the last remove.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Sample {
    pub(super) settings: String,
    pub(super) bound: Bound,
    /// Overwrites as fast as they went, with the flush in the end.
    pub(super) churned: Pace,
    /// Bytes that the process had written for each byte of a value.
    pub(super) write_amplification: Option<f64>,
    pub(super) looks: Vec<Look>,
    /// Overwrites at half that rate, and first puts into a new store.
    pub(super) busy: Pace,
    pub(super) quiet: Pace,
    pub(super) shrunk: Shrunk,
}

impl Sample {
    fn most_bytes(&self) -> u64 {
        self.looks.iter().map(|look| look.bytes).max().unwrap_or(0)
    }

    /// How many looks there were, and at how many more was taken than may be.
    fn looks_above(&self) -> (usize, usize) {
        let above = self.looks.iter().filter(|look| !self.bound.holds(look.bytes)).count();
        (self.looks.len(), above)
    }

    fn line(&self) -> String {
        let (looks, above) = self.looks_above();
        format!(
            "{:.0} overwrites/s, {:.2} x written, at most {:.2} of the data, {above} of {looks} \
             looks above, worst {:.1} ms; p99 {:.0} us at half the rate, {:.0} us quiet",
            self.churned.per_s,
            self.write_amplification.unwrap_or(f64::NAN),
            share(self.most_bytes(), self.bound.user_bytes),
            self.churned.worst_ms,
            self.busy.p99_us,
            self.quiet.p99_us,
        )
    }
}

fn share(bytes: u64, of: u64) -> f64 {
    bytes as f64 / of.max(1) as f64
}

impl Report {
    pub(super) fn new(machine: Machine, options: &ChurnOptions) -> Self {
        let ChurnOptions { records, times, rounds, writers, space_percent, .. } = *options;
        let (rows, engines) = (Vec::new(), options.engines.clone());
        Self { machine, records, times, rounds, writers, space_percent, rows, engines }
    }

    /// Takes a sample of the engine at a place among all, and says it in a line.
    pub(super) fn add(
        &mut self,
        (size, keys): (Size, Popularity),
        engine: usize,
        sample: Sample,
    ) -> String {
        let engine = self.engines[engine].name;
        let line = format!("{} {} {engine}: {}", size.name(), keys.name(), sample.line());
        let is_it = |it: &&mut Row| (it.size, it.keys, it.engine) == (size, keys, engine);
        match self.rows.iter_mut().find(is_it) {
            Some(row) => row.samples.push(sample),
            None => self.rows.push(Row { size, keys, engine, samples: vec![sample] }),
        }
        line
    }

    /// Writes what there is so far: a long run may be ended early.
    pub(super) fn write(&mut self, options: &ChurnOptions) -> io::Result<()> {
        self.machine.load_average_after = machine::load_average();
        options.files.write(self, || self.svg())
    }

    fn blocks(&self) -> Vec<(Size, Popularity)> {
        let mut blocks: Vec<_> = self.rows.iter().map(|row| (row.size, row.keys)).collect();
        let mut seen = Vec::new();
        blocks.retain(|block| {
            let is_new = !seen.contains(block);
            seen.push(*block);
            is_new
        });
        blocks
    }

    /// Space over the data that it is for, over the overwrites a record.
    fn svg(&self) -> String {
        let panel = |(size, keys): (Size, Popularity)| {
            let rows = self.rows.iter().filter(|row| (row.size, row.keys) == (size, keys));
            let lines = rows.flat_map(|row| self.lines(row)).collect();
            let name = format!("space / data, {}, {}", size.name(), keys.name());
            Panel { name, below: "overwrites", lines }
        };
        let panels: Vec<Panel> = self.blocks().into_iter().map(panel).collect();
        let names: Vec<&str> = self.engines.iter().map(|kind| kind.name).collect();
        chart::svg("Space while everything is overwritten", &names, 2, &panels)
    }

    /// What a store took, and if it promises one, the bound.
    fn lines(&self, row: &Row) -> Vec<Line> {
        let name = self.engines.iter().position(|kind| kind.name == row.engine).unwrap_or(0);
        let Some(sample) = row.samples.first() else { return Vec::new() };
        let user_bytes = sample.bound.user_bytes;
        let at = |look: &Look| look.overwrites as f64;
        let points = sample.looks.iter().map(|it| (at(it), share(it.bytes, user_bytes)));
        let mut lines = vec![Line { name, is_dashed: false, points: points.collect() }];
        if sample.bound.kept_bytes > 0 {
            let bytes = sample.bound.space_bytes + sample.bound.kept_bytes;
            let bound = sample.looks.iter().map(|it| (at(it), share(bytes, user_bytes)));
            lines.push(Line { name, is_dashed: true, points: bound.collect() });
        }
        lines
    }

    fn is_subject(&self, row: &Row) -> bool {
        self.engines.iter().any(|kind| kind.name == row.engine && kind.is_subject)
    }

    /// As Markdown.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("a string takes everything");
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        for (size, keys) in self.blocks() {
            let rows = || self.rows.iter().filter(|row| (row.size, row.keys) == (size, keys));
            let rival = rows().find(|row| row.engine == RIVAL);
            writeln!(
                out,
                "### {} values, {} keys\n\n\
                 | store | overwrites/s | of {RIVAL} | bytes written a byte | most space / data | \
                 looks above the bound | p99.9 us | worst ms | p99 us at half the rate | quiet | \
                 ratio |\n|---|---|---|---|---|---|---|---|---|---|---|",
                size.name(),
                keys.name()
            )?;
            rows().try_for_each(|row| write_churn(row, rival, out))?;
            writeln!(
                out,
                "\n| 90 % removed | removes/s | space MiB | bound MiB | open, free segments | \
                 held after s |\n|---|---|---|---|---|---|"
            )?;
            rows().try_for_each(|row| write_shrunk(row, out))?;
            writeln!(out)?;
        }
        self.rows.iter().filter(|row| self.is_subject(row)).try_for_each(|row| {
            let rival = self.rows.iter().find(|it| it.is_rival_of(row));
            write_verdicts(row, rival, out)
        })?;
        writeln!(out, "\n{}\n", self.machine.line())?;
        writeln!(
            out,
            "{} records of 1 KiB, each overwritten {} times by {} writers; rounds: {}; medians, \
             and of space and of the worst the most.",
            self.records, self.times, self.writers, self.rounds
        )?;
        for kind in &self.engines {
            let row = self.rows.iter().find(|row| row.engine == kind.name);
            if let Some(sample) = row.and_then(|row| row.samples.first()) {
                writeln!(out, "- {}: {}", kind.name, sample.settings)?;
            }
        }
        Ok(())
    }
}

impl Row {
    fn is_rival_of(&self, other: &Self) -> bool {
        self.engine == RIVAL && (self.size, self.keys) == (other.size, other.keys)
    }

    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        let mut values: Vec<f64> = self.samples.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn most(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(of).fold(0.0, f64::max)
    }
}

fn write_churn(row: &Row, rival: Option<&Row>, out: &mut String) -> std::fmt::Result {
    let per_s = row.median(|it| it.churned.per_s);
    let of_rival = per_s / rival.map_or(f64::NAN, |rival| rival.median(|it| it.churned.per_s));
    let most = row.most(|it| share(it.most_bytes(), it.bound.user_bytes));
    let looks = row.samples.iter().map(Sample::looks_above);
    let (looks, above) = looks.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    writeln!(
        out,
        "| {} | {per_s:.0} | {of_rival:.2} | {:.2} | {most:.2} | {above} of {looks} | {:.0} | \
         {:.1} | {:.1} | {:.1} | {:.2} |",
        row.engine,
        row.median(|it| it.write_amplification.unwrap_or(f64::NAN)),
        row.median(|it| it.churned.p999_us),
        row.most(|it| it.churned.worst_ms),
        row.median(|it| it.busy.p99_us),
        row.median(|it| it.quiet.p99_us),
        row.median(|it| it.busy.p99_us / it.quiet.p99_us),
    )
}

/// Whether what the log has to keep was kept, in a line each.
fn write_verdicts(row: &Row, rival: Option<&Row>, out: &mut String) -> std::fmt::Result {
    let per_s = |row: &Row| row.median(|it| it.churned.per_s);
    let written_max = match row.keys {
        Popularity::Uniform => 2.8,
        Popularity::Zipf => 2.5,
    };
    let above = row.samples.iter().map(|it| it.looks_above().1).sum::<usize>();
    let never = row.samples.iter().filter(|it| it.shrunk.held_after_s.is_none()).count();
    let written = row.median(|it| it.write_amplification.unwrap_or(f64::NAN));
    let worst_ms = row.most(|it| it.churned.worst_ms.max(it.busy.worst_ms));
    let of_quiet = row.median(|it| it.busy.p99_us / it.quiet.p99_us);
    let mut say = |what: &str, is_held: bool| {
        let verdict = if is_held { "held" } else { "NOT held" };
        let (size, keys, engine) = (row.size.name(), row.keys.name(), row.engine);
        writeln!(out, "{size} {keys} {engine}: {what}: {verdict}")
    };
    say(&format!("{above} looks above the bound of space"), above == 0)?;
    say(&format!("{written:.2} bytes written a byte"), written <= written_max)?;
    if let Some(rival) = rival {
        let of_rival = per_s(row) / per_s(rival);
        say(&format!("{of_rival:.2} of {RIVAL}'s overwrites"), of_rival >= OF_RIVAL_MIN)?;
    }
    say(&format!("a worst put of {worst_ms:.1} ms"), worst_ms <= WORST_MS_MAX)?;
    say(&format!("a p99 of {of_quiet:.2} of the quiet one"), of_quiet <= P99_OF_QUIET_MAX)?;
    say(&format!("{never} times space did not come back"), never == 0)
}

fn write_shrunk(row: &Row, out: &mut String) -> std::fmt::Result {
    for Shrunk { bound, removes_per_s, held_after_s, looks } in
        row.samples.iter().map(|sample| &sample.shrunk)
    {
        let last = looks.last();
        let mib = last.map_or(0, |look| look.bytes >> 20);
        let bound_mib = (bound.space_bytes + bound.kept_bytes) >> 20;
        let own = last.and_then(|look| look.own);
        let own = own.map_or_else(String::new, |own| format!("{}, {}", own.open, own.free));
        let held = held_after_s.map_or_else(|| "never".to_owned(), |time| format!("{time:.1}"));
        let engine = row.engine;
        writeln!(out, "| {engine} | {removes_per_s:.0} | {mib} | {bound_mib} | {own} | {held} |")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Bound, ChurnOptions, Look, Pace, Popularity, Report, Sample, Shrunk, Size};
    use crate::machine::Machine;

    fn sample(per_s: f64, bytes: u64) -> Sample {
        let bound = Bound { user_bytes: 100, data_bytes: 100, space_bytes: 130, kept_bytes: 20 };
        let look = |bytes| Look { at_s: 0.5, overwrites: 9, bytes, own: None };
        let pace = |p99_us| Pace { per_s, p99_us, worst_ms: 7.0, ..Pace::default() };
        let looks = vec![look(bytes)];
        Sample {
            settings: "set so".to_owned(),
            bound,
            churned: pace(9.0),
            write_amplification: Some(2.6),
            looks: vec![look(150), look(bytes)],
            busy: pace(30.0),
            quiet: pace(20.0),
            shrunk: Shrunk { bound, removes_per_s: 1.0, held_after_s: None, looks },
        }
    }

    #[test]
    fn what_has_to_be_kept_is_judged() {
        let mut options = ChurnOptions::default();
        options.engines.truncate(1);
        let mut report = Report::new(Machine::read(), &options);
        let line = report.add((Size::Kib, Popularity::Zipf), 0, sample(400.0, 151));
        assert!(line.starts_with("1k zipf kelvin: 400 overwrites/s, 2.60 x written"), "{line}");
        report.add((Size::Large, Popularity::Uniform), 0, sample(100.0, 150));
        let text = report.text();
        for expected in [
            "| kelvin | 400 | NaN | 2.60 | 1.51 | 1 of 2 | 0 | 7.0 | 30.0 | 20.0 | 1.50 |",
            "1k zipf kelvin: 1 looks above the bound of space: NOT held",
            "1k zipf kelvin: 2.60 bytes written a byte: NOT held",
            "100k uniform kelvin: 0 looks above the bound of space: held",
            "100k uniform kelvin: 2.60 bytes written a byte: held",
            "100k uniform kelvin: a worst put of 7.0 ms: held",
            "100k uniform kelvin: a p99 of 1.50 of the quiet one: held",
            "100k uniform kelvin: 1 times space did not come back: NOT held",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
