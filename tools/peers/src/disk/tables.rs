//! The rate of puts and of gets over the number of records stored, as the paper on ZDB has it in
//! its Tables 2 to 4 and draws it: stores one after the other, one on the disk at a time.

mod options;
mod paper;
mod report;

use std::io;

pub(crate) use self::options::{TablesOptions, parse};
use self::report::{Curve, Point, Report, Run};
use super::{
    cell::Size,
    device::{Device, Place},
    engine::{Engine, Kind, Setup},
    load::Load,
    work::{self, Extent, Operation},
};
use crate::machine::Machine;

/// Numbers of records at which something is taken down.
const POINTS: u32 = 10;

/// A table of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
enum Part {
    OneWriter,
    FourWriters,
    Reads,
}

impl Part {
    const ALL: [Self; 3] = [Self::OneWriter, Self::FourWriters, Self::Reads];

    fn name(self) -> &'static str {
        match self {
            Self::OneWriter => "put-1",
            Self::FourWriters => "put-4",
            Self::Reads => "reads",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::OneWriter => "Table 2: puts a second, one writer",
            Self::FourWriters => "Table 3: puts a second, four writers",
            Self::Reads => "Table 4: random gets a second, one reader",
        }
    }

    /// As there is room for above a chart.
    fn short_title(self) -> &'static str {
        match self {
            Self::OneWriter => "Puts a second, 1 writer",
            Self::FourWriters => "Puts a second, 4 writers",
            Self::Reads => "Random gets a second",
        }
    }
}

/// Runs all of it and prints it.
///
/// # Errors
/// When a store fails or says something wrong, there is no room, or a file cannot be written.
pub(crate) fn run(options: &TablesOptions) -> io::Result<()> {
    let place = Place::make(&options.directory, "tables")?;
    let bench = Bench { options, place: &place, device: Device::of(place.path())? };
    let room_bytes =
        |size: &Size| super::room_bytes(*size, bench.records(*size).into(), &options.engines);
    let largest = options.sizes.iter().map(room_bytes);
    super::check_room(place.path(), largest.max().unwrap_or(0))?;
    let mut report = Report::new(Machine::read(), options);
    for round in 0..options.rounds {
        for &part in &options.parts {
            for &size in &options.sizes {
                for (at, kind) in super::turns(&options.engines, round) {
                    let curve = report.curve(part, size, at);
                    bench.sample(part, size, kind, curve)?;
                    eprintln!("{} {} {}: {}", part.name(), size.name(), kind.name, curve.last());
                    report.write(options)?;
                }
            }
        }
    }
    println!("{}", report.text());
    Ok(())
}

/// Records with values of a size where so many have a KiB.
fn records_of(size: Size, records: u32) -> u32 {
    match size {
        Size::Tiny | Size::Kib => records,
        Size::Large => records / 100,
    }
}

struct Bench<'a> {
    options: &'a TablesOptions,
    place: &'a Place,
    device: Option<Device>,
}

impl Bench<'_> {
    fn records(&self, size: Size) -> u32 {
        records_of(size, self.options.records)
    }

    /// A store, from nothing to all records.
    fn sample(&self, part: Part, size: Size, kind: Kind, curve: &mut Curve) -> io::Result<()> {
        let load = Load::new(self.records(size), size.value_bytes());
        let place = Place::make(self.place.path(), kind.name)?;
        let engine = (kind.open)(&Setup::new(place.path(), load.records(), load.value_bytes()))?;
        let run = match part {
            Part::OneWriter => self.puts(&*engine, &load, 1)?,
            Part::FourWriters => self.puts(&*engine, &load, 4)?,
            Part::Reads => self.reads(&*engine, &load)?,
        };
        curve.add(engine.settings(), run);
        engine.close()
    }

    fn puts(&self, engine: &dyn Engine, load: &Load, threads: u32) -> io::Result<Run> {
        let extent = Extent { time: Some(self.options.put_time_max), ..Extent::all(load) };
        let taken = work::run(engine, load, Operation::Put, threads, extent)?;
        let count = taken.tenths_per_s.len() as u64;
        let records = |nth: u64| (u64::from(taken.ops) * (nth + 1) / count) as u32;
        let tenths = (0..count).zip(&taken.tenths_per_s);
        let points = tenths.map(|(nth, per_s)| Point { records: records(nth), per_s: *per_s });
        Ok(Run {
            points: points.collect(),
            per_s: f64::from(taken.ops) / taken.wall_s,
            is_cut: taken.ops < load.records(),
            is_settled: true,
            device_reads: None,
        })
    }

    /// A tenth more is stored, unmeasured, and when the store is quiet some of all are read.
    fn reads(&self, engine: &dyn Engine, load: &Load) -> io::Result<Run> {
        let (mut stored, mut left) = (0, self.options.put_time_max);
        let (mut points, mut device_reads, mut is_settled) = (Vec::new(), None, true);
        for nth in 1..=POINTS {
            let upto = (u64::from(load.records()) * u64::from(nth) / u64::from(POINTS)) as u32;
            let (from, count) = (stored, upto - stored);
            let extent = Extent { from, count, time: Some(left), ..Extent::all(load) };
            let put = work::run(engine, load, Operation::Put, 1, extent)?;
            left = left.saturating_sub(std::time::Duration::from_secs_f64(put.wall_s));
            if put.ops < count {
                break;
            }
            stored = upto;
            is_settled &= work::settle(self.options.settle_time_max);
            let window = Extent::window(load, nth, self.options.window);
            let extent = Extent { count: stored, stored, ..window };
            let before = self.device_reads()?;
            let got = work::run(engine, load, Operation::Get, 1, extent)?;
            let reads = self.device_reads()?.zip(before).map(|(after, before)| after - before);
            device_reads = reads.map(|reads| reads as f64 / f64::from(got.ops.max(1)));
            points.push(Point { records: stored, per_s: f64::from(got.ops) / got.wall_s });
        }
        let per_s = points.last().map_or(0.0, |point| point.per_s);
        Ok(Run { is_cut: stored < load.records(), is_settled, points, per_s, device_reads })
    }

    fn device_reads(&self) -> io::Result<Option<u64>> {
        self.device.as_ref().map(|device| Ok(device.counts()?.reads)).transpose()
    }
}

#[cfg(test)]
mod tests;
