//! The interleaved comparison: in every round, every engine runs every cell once, so that what
//! else the machine does falls on all of them alike.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::{
    contestant::{self, Contestant},
    load::{Lengths, Load, LoadShape},
    machine::Machine,
    options::SpeedOptions,
    report::{self, CellReport, Report, Spread},
    workload::{Cell, Extent, Sample},
};

/// Samples of one cell: for each engine, one a round.
type CellSamples = Vec<Vec<Sample>>;

/// Runs the comparison and prints it.
///
/// # Errors
/// When the JSON file cannot be written.
pub(crate) fn run(options: &SpeedOptions) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let machine = Machine::read();
    let shape = LoadShape {
        keys: options.keys,
        capacity: options.capacity,
        exponent: options.exponent,
        changed_percent: options.changed_percent,
        seed: options.seed,
    };
    eprintln!("drawing keys and streams");
    // No run finds what an earlier one has just asked for.
    let runs = options.rounds * options.threads.len();
    let lengths =
        Lengths { stream: runs * Extent::stream_ops(options.ops), warming: options.warm_ops };
    let threads = options.threads.iter().copied().max().unwrap_or(1);
    let load = Load::new(shape, &put_percents(options), threads, lengths);
    let mut report = Report::new(machine, options, shape);
    compare(options, &load, deadline, &mut report);
    report.finish();
    print!("{}", report::table(&report));
    match &options.json {
        Some(path) => std::fs::write(path, serde_json::to_string_pretty(&report)?),
        None => Ok(()),
    }
}

/// The streams that are needed: those of the workloads.
fn put_percents(options: &SpeedOptions) -> Vec<u32> {
    let streamed = options.workloads.iter().filter(|workload| !workload.inserts());
    let mut percents: Vec<u32> = streamed.map(|workload| workload.put_percent()).collect();
    percents.sort_unstable();
    percents.dedup();
    percents
}

/// Compares all engines, each with keys of each length, until `deadline`.
fn compare(options: &SpeedOptions, load: &Load, deadline: Instant, report: &mut Report) {
    let mut engines = Vec::new();
    for &key_bytes in &options.key_bytes {
        for &name in &options.engines {
            eprintln!("{key_bytes}-byte keys: filling {name}");
            engines.push(match key_bytes {
                4 => contestant::prepare::<4>(name, load),
                _ => contestant::prepare::<16>(name, load),
            });
        }
    }
    report.add_prepared(&engines);
    // Inserts replace what the caches hold, so they come when the other cells are done.
    let cells = |inserts: bool| -> Vec<Cell> {
        let workloads = options.workloads.iter().filter(|w| w.inserts() == inserts);
        let cell = |(&workload, &threads)| Cell { workload, threads };
        workloads.flat_map(|w| options.threads.iter().map(move |t| (w, t))).map(cell).collect()
    };
    let (mixed, inserts) = (cells(false), cells(true));
    let now = Instant::now();
    let share = mixed.len() as f64 / (mixed.len() + inserts.len()) as f64;
    let half = now + deadline.saturating_duration_since(now).mul_f64(share);
    for (cells, deadline) in [(mixed, half), (inserts, deadline)] {
        let samples = rounds(options, load, &engines, &cells, deadline);
        for (cell, samples) in cells.iter().zip(samples) {
            report.cells.extend(summarise(*cell, &engines, &samples));
        }
    }
}

/// Runs rounds over `cells` until there are enough or the time is up; at least one.
fn rounds(
    options: &SpeedOptions,
    load: &Load,
    engines: &[Box<dyn Contestant>],
    cells: &[Cell],
    deadline: Instant,
) -> Vec<CellSamples> {
    let mut samples: Vec<CellSamples> = vec![vec![Vec::new(); engines.len()]; cells.len()];
    if cells.is_empty() {
        return samples;
    }
    let mut round_s: f64 = 0.0;
    for round in 0..options.rounds {
        let start = Instant::now();
        if round > 0 && start + Duration::from_secs_f64(round_s) > deadline {
            eprintln!("  stopped after {round} rounds: the time is up");
            break;
        }
        for (cell, cell_samples) in cells.iter().zip(&mut samples) {
            let at = options.threads.iter().position(|threads| *threads == cell.threads);
            let turn = round * options.threads.len() + at.expect("invariant: one of the options");
            let offset = turn * Extent::stream_ops(options.ops);
            // The order rotates so that no engine is always the first.
            for turn in 0..engines.len() {
                let at = (turn + round) % engines.len();
                let extent = Extent { ops: options.ops, offset };
                cell_samples[at].push(engines[at].run(load, *cell, extent));
            }
        }
        round_s = round_s.max(start.elapsed().as_secs_f64());
        eprintln!("  round {} of {}: {round_s:.1} s", round + 1, options.rounds);
    }
    samples
}

/// One report row for each engine.
fn summarise(
    cell: Cell,
    engines: &[Box<dyn Contestant>],
    samples: &CellSamples,
) -> Vec<CellReport> {
    let row = |engine: &dyn Contestant, samples: &[Sample]| {
        let cpu = samples.iter().map(|sample| sample.cpu_mops(cell.threads)).collect();
        let wall = samples.iter().map(Sample::wall_mops).collect();
        let sum = |of: fn(&Sample) -> u64| samples.iter().map(of).sum::<u64>() as f64;
        let puts = sum(|sample| sample.ops) - sum(|sample| sample.gets);
        let evictions: Option<u64> = samples.iter().map(|sample| sample.evictions).sum();
        CellReport {
            key_bytes: engine.key_bytes(),
            threads: cell.threads,
            workload: cell.workload,
            engine: engine.name(),
            class: engine.class(),
            cpu_mops: Spread::of(cpu),
            wall_mops: Spread::of(wall),
            hit_ratio: sum(|sample| sample.hits) / sum(|sample| sample.gets),
            evictions_per_put: evictions.map(|evictions| evictions as f64 / puts),
        }
    };
    let rows = engines.iter().zip(samples);
    rows.map(|(engine, samples)| row(&**engine, samples)).collect()
}
