//! What was found, of all stores, and what is written of it.

mod text;

use std::io;

use super::{Bound, ChurnOptions, Look, Pace, Pair, Popularity, Shrunk, Size, bare::Alone};
use crate::{
    disk::{
        chart::{self, Head, Line, Panel},
        engine::{AtRisk, Kind},
    },
    machine::{self, Machine},
};

/// The store that others are compared with.
const RIVAL: &str = "leveldb";

/// A whole run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    machine: Machine,
    records: u32,
    times: u32,
    rounds: u32,
    pairs: u32,
    writers: u32,
    put_seconds_max: u64,
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
    at_risk: AtRisk,
    samples: Vec<Sample>,
}

/// A store from the first record to the last remove.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Sample {
    pub(super) settings: String,
    pub(super) bound: Bound,
    /// Overwrites as fast as they went, with the flush in the end.
    pub(super) churned: Pace,
    /// For how long the device did nothing of what it was asked for meanwhile.
    pub(super) still_ms: Option<f64>,
    /// The time was up before all of them were done.
    pub(super) is_cut: bool,
    /// The store was quiet before the first of them, and again before bytes written were counted.
    pub(super) is_settled: bool,
    /// Bytes that the process had written for each byte of a value.
    pub(super) write_amplification: Option<f64>,
    pub(super) looks: Vec<Look>,
    /// At half that rate.
    pub(super) pairs: Vec<Pair>,
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
        let above = if self.bound.is_promised() {
            format!(" ({above} of {looks} looks above the bound)")
        } else {
            String::new()
        };
        format!(
            "{:.0}{} overwrites/s, {:.2} x written, at most {:.2} of the data{above}, \
             worst {:.1} ms; p99 {:.0} us at half the rate, {:.0} us quiet",
            self.churned.per_s,
            if self.is_cut { "*" } else { "" },
            self.write_amplification.unwrap_or(f64::NAN),
            share(self.most_bytes(), self.bound.user_bytes),
            self.churned.worst_ms,
            median(self.pairs.iter().map(|it| it.busy.pace.p99_us).collect()),
            median(self.pairs.iter().map(|it| it.quiet.pace.p99_us).collect()),
        )
    }
}

/// The middle one; not a number when there is none.
fn median(values: Vec<f64>) -> f64 {
    crate::report::median(values).unwrap_or(f64::NAN)
}

fn share(bytes: u64, of: u64) -> f64 {
    bytes as f64 / of.max(1) as f64
}

impl Report {
    pub(super) fn new(machine: Machine, options: &ChurnOptions) -> Self {
        let ChurnOptions { records, times, rounds, pairs, writers, space_percent, .. } = *options;
        Self {
            machine,
            records,
            times,
            rounds,
            pairs,
            writers,
            put_seconds_max: options.put_time_max.as_secs(),
            space_percent,
            rows: Vec::new(),
            engines: options.engines.clone(),
        }
    }

    /// Takes a sample of the engine at a place among all, and says it in a line.
    pub(super) fn add(
        &mut self,
        (size, keys): (Size, Popularity),
        engine: usize,
        sample: Sample,
    ) -> String {
        let Kind { name: engine, at_risk, .. } = self.engines[engine];
        let line = format!("{} {} {engine}: {}", size.name(), keys.name(), sample.line());
        let is_it = |it: &&mut Row| (it.size, it.keys, it.engine) == (size, keys, engine);
        match self.rows.iter_mut().find(is_it) {
            Some(row) => row.samples.push(sample),
            None => self.rows.push(Row { size, keys, engine, at_risk, samples: vec![sample] }),
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
            let name = format!("Space / data: values of {}, {} keys", size.label(), keys.name());
            Panel { name, below: "overwrites", end: 0.0, lines }
        };
        let panels: Vec<Panel> = self.blocks().into_iter().map(panel).collect();
        let below = format!(
            "Blocks of the directory over keys and values; {} records of 1 KiB, {} of 100 KiB; \
             {} overwrites of each on average, {} writers",
            self.records,
            self.records / 100,
            self.times,
            self.writers
        );
        let head = Head {
            title: "Space while everything is overwritten",
            below: &below,
            names: self.engines.iter().map(|kind| kind.name).collect(),
            dashed: Some("what the log may take"),
        };
        chart::svg(&head, 2, &panels)
    }

    /// What a store took, and if it promises one, the bound.
    fn lines(&self, row: &Row) -> Vec<Line> {
        let name = self.engines.iter().position(|kind| kind.name == row.engine).unwrap_or(0);
        let Some(sample) = row.samples.first() else { return Vec::new() };
        let user_bytes = sample.bound.user_bytes;
        let at = |look: &Look| look.overwrites as f64;
        let points = sample.looks.iter().map(|it| (at(it), share(it.bytes, user_bytes)));
        let mut lines = vec![Line { name, is_dashed: false, points: points.collect() }];
        if sample.bound.is_promised() {
            let most = share(sample.bound.most_bytes(), user_bytes);
            let bound = sample.looks.iter().map(|it| (at(it), most));
            lines.push(Line { name, is_dashed: true, points: bound.collect() });
        }
        lines
    }

    fn is_subject(&self, row: &Row) -> bool {
        self.engines.iter().any(|kind| kind.name == row.engine && kind.is_subject)
    }
}

impl Row {
    fn is_rival_of(&self, other: &Self) -> bool {
        self.engine == RIVAL && (self.size, self.keys) == (other.size, other.keys)
    }

    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }

    fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.samples.iter().flat_map(|sample| &sample.pairs)
    }

    /// Of all pairs.
    fn median_of_pairs(&self, of: impl Fn(&Pair) -> f64) -> f64 {
        median(self.pairs().map(of).collect())
    }

    /// Of all pairs the least, the median and the most.
    fn spread_of_pairs(&self, of: impl Fn(&Pair) -> f64) -> [f64; 3] {
        let values = || self.pairs().map(&of);
        let least = values().fold(f64::INFINITY, f64::min);
        [least, median(values().collect()), values().fold(0.0, f64::max)]
    }

    /// The longest of all windows of overwrites.
    fn worst_busy_ms(&self) -> f64 {
        self.pairs().map(|it| it.busy.pace.worst_ms).fold(0.0, f64::max)
    }

    /// The longest of all windows without a store.
    fn bare_worst_ms(&self) -> f64 {
        let windows = self.pairs().flat_map(|it| [it.bare_busy, it.bare_quiet]);
        windows.map(|it| it.offered.pace.worst_ms).fold(0.0, f64::max)
    }

    /// For how long at most the device stood still while something was overwritten, if it says so.
    fn still_ms(&self) -> Option<f64> {
        let of_samples = self.samples.iter().map(|it| it.still_ms);
        of_samples.chain(self.pairs().map(|it| it.still_ms)).flatten().reduce(f64::max)
    }

    fn looks_above(&self) -> (usize, usize) {
        let looks = self.samples.iter().map(Sample::looks_above);
        looks.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn any(&self, of: impl Fn(&Sample) -> bool) -> bool {
        self.samples.iter().any(of)
    }

    fn most(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(of).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests;
