//! The log beside other stores, interleaved: in every round every store runs a cell once, and what
//! the disk gives to a program without a store is measured in the same round.

mod cell;
mod chart;
mod churn;
pub(crate) mod device;
mod engine;
pub(crate) mod fio;
mod latency;
mod load;
mod options;
mod report;
mod tables;
mod work;

use std::{io, path::Path, time::Duration};

use self::{
    cell::{Cell, Size, Work},
    device::{Device, Place, Probe},
    engine::{Engine, Kind, Setup},
    fio::{Rate, Readers},
    load::Load,
    report::{Bare, CellReport, Look, Report, Row, Sample},
    work::{Extent, Operation},
};
pub(crate) use self::{
    churn::{ChurnOptions, parse as parse_churn, run as run_churn},
    options::{DiskOptions, parse},
    tables::{TablesOptions, parse as parse_tables, run as run_tables},
};
use crate::machine::Machine;

/// Records that the puts of `safe` range over: more than there are.
const SAFE_RECORDS: u32 = 1 << 20;

/// Threads that read everything for a store that keeps in memory what was read.
const FILLERS: u32 = 16;

/// How long the device's flush is looked at before a window of `safe`, and again behind it.
const PROBE_TIME: Duration = Duration::from_millis(50);

/// Bytes that a record of one takes beside its value at most, in any of the stores.
const RECORD_BYTES_MAX: u64 = 128;

/// Puts of `safe` that no store surpasses in a millisecond.
const SAFE_PUTS_PER_MS_MAX: u64 = 100;

/// Runs the comparison and prints it.
///
/// # Errors
/// When a store fails or says something wrong, there is no room, or the JSON cannot be written.
pub(crate) fn run(options: &DiskOptions) -> io::Result<()> {
    let place = Place::make(&options.directory, "disk")?;
    let device = Device::of(place.path())?;
    let bench = Bench { options, place: &place, device };
    bench.check_room()?;
    let mut report = Report::new(Machine::read(), options);
    let of = |work: Work| options.cells.iter().filter(move |cell| cell.work == work);
    for cell in of(Work::Put) {
        add(&mut report, bench.puts(*cell)?, options)?;
    }
    for cell in of(Work::Safe) {
        add(&mut report, bench.safe(*cell)?, options)?;
    }
    for size in Size::ALL {
        let gets = |cell: &&Cell| {
            cell.size == size && matches!(cell.work, Work::Cold | Work::Warm | Work::Batch)
        };
        let cells: Vec<Cell> = options.cells.iter().filter(gets).copied().collect();
        if cells.is_empty() {
            continue;
        }
        for cell in bench.gets(size, &cells)? {
            add(&mut report, cell, options)?;
        }
    }
    println!("{}", report.setting());
    Ok(())
}

/// Prints a cell that is done, and writes what there is so far: a long run may be ended early.
fn add(report: &mut Report, cell: CellReport, options: &DiskOptions) -> io::Result<()> {
    println!("{}", report.add(cell));
    options.files.write(report, String::new)
}

/// What all cells share.
struct Bench<'a> {
    options: &'a DiskOptions,
    place: &'a Place,
    device: Option<Device>,
}

impl Bench<'_> {
    /// Puts need room for one store at a time, the others for all of them.
    fn check_room(&self) -> io::Result<()> {
        let windows_ms = u64::from(self.options.rounds) * self.options.window.as_millis() as u64;
        let all = self.options.engines.len() as u64;
        let needed = |cell: &Cell| {
            let (stores, records) = match cell.work {
                Work::Put => (1, cell.size.records(self.options.records).into()),
                Work::Safe => (all, windows_ms * SAFE_PUTS_PER_MS_MAX),
                Work::Cold | Work::Warm | Work::Batch => {
                    (all + 1, cell.size.records(self.options.records).into())
                }
            };
            stores * room_bytes(cell.size, records, &self.options.engines)
        };
        let needed = self.options.cells.iter().map(needed).max().unwrap_or(0);
        check_room(self.place.path(), needed)
    }

    /// Each store anew in each round.
    fn puts(&self, cell: Cell) -> io::Result<CellReport> {
        let load = self.load(cell.size);
        let mut report = CellReport::new(cell, load.records(), &self.options.engines);
        for round in 0..self.options.rounds {
            for (at, kind) in turns(&self.options.engines, round) {
                let place = Place::make(self.place.path(), kind.name)?;
                let engine = open(kind, &load, place.path(), false)?;
                let sample =
                    self.measured(&*engine, &load, Operation::Put, (cell, Extent::all(&load)))?;
                self.say(&report.rows[at], round, cell, &sample);
                report.rows[at].add(&*engine, sample);
                engine.close()?;
            }
            // What a tiny value takes on the disk is not its own bytes.
            if cell.size != Size::Tiny {
                let bytes = cell.size.bytes(self.options.records);
                let append = fio::append(self.place.path(), bytes)?;
                report.add_bare("fio append 1 MiB QD4", round, append);
            }
        }
        Ok(report)
    }

    /// All stores are open, and take turns in short windows: a device's flush drifts tenfold.
    fn safe(&self, cell: Cell) -> io::Result<CellReport> {
        let load = Load::new(SAFE_RECORDS, cell.size.value_bytes());
        let mut report = CellReport::new(cell, load.records(), &self.options.engines);
        let mut probe = Probe::new(self.place.path())?;
        let (mut places, mut engines) = (Vec::new(), Vec::new());
        for kind in &self.options.engines {
            let place = Place::make(self.place.path(), kind.name)?;
            engines.push(open(*kind, &load, place.path(), true)?);
            places.push(place);
        }
        for round in 0..self.options.rounds {
            for (at, _) in turns(&self.options.engines, round) {
                let engine = &*engines[at];
                let before_us = probe.flush_us(PROBE_TIME)?;
                let extent = self.window(&load, round);
                let mut sample = self.measured(engine, &load, Operation::Put, (cell, extent))?;
                sample.probe_us = Some(f64::midpoint(before_us, probe.flush_us(PROBE_TIME)?));
                self.say(&report.rows[at], round, cell, &sample);
                report.rows[at].add(engine, sample);
            }
        }
        engines.into_iter().try_for_each(|engine| engine.close())?;
        Ok(report)
    }

    /// Every store is loaded once, and opened anew for every sample.
    fn gets(&self, size: Size, cells: &[Cell]) -> io::Result<Vec<CellReport>> {
        let load = self.load(size);
        let mut places = Vec::new();
        for kind in &self.options.engines {
            self.progress(&format!("{size:?}: loading {}", kind.name));
            let place = Place::make(self.place.path(), kind.name)?;
            let engine = open(*kind, &load, place.path(), false)?;
            work::run(&*engine, &load, Operation::Put, 1, Extent::all(&load))?;
            work::settle(work::SETTLE_MAX);
            engine.close()?;
            // What a store does with its log when it is opened is not to be done in each round.
            let engine = open(*kind, &load, place.path(), false)?;
            work::settle(work::SETTLE_MAX);
            engine.close()?;
            places.push(place);
        }
        let engines = &self.options.engines;
        let new = |cell: &Cell| CellReport::new(*cell, load.records(), engines);
        let mut reports: Vec<CellReport> = cells.iter().map(new).collect();
        for round in 0..self.options.rounds {
            for (cell, report) in cells.iter().zip(&mut reports) {
                for (at, kind) in turns(&self.options.engines, round) {
                    let row = &mut report.rows[at];
                    self.get(*cell, kind, &load, places[at].path(), (round, row))?;
                }
                if cell.work == Work::Cold {
                    self.bare_reads(*cell, round, report)?;
                }
            }
        }
        Ok(reports)
    }

    fn get(
        &self,
        cell: Cell,
        kind: Kind,
        load: &Load,
        place: &Path,
        (round, row): (u32, &mut Row),
    ) -> io::Result<()> {
        if cell.work == Work::Cold {
            device::forget(place)?;
        } else {
            device::warm(place)?;
        }
        let engine = open(kind, load, place, false)?;
        let window = self.window(load, round);
        let operation = match cell.work {
            Work::Batch => Operation::GetBatch,
            _ => Operation::Get,
        };
        if cell.work != Work::Cold && kind.keeps_reads {
            let all = Extent { flushes: false, ..Extent::all(load) };
            work::run(&*engine, load, Operation::Get, FILLERS, all)?;
        }
        if cell.work != Work::Cold {
            work::run(&*engine, load, operation, cell.threads, window)?;
        }
        let sample = self.measured(&*engine, load, operation, (cell, window))?;
        self.say(row, round, cell, &sample);
        row.add(&*engine, sample);
        engine.close()
    }

    /// Reads as large as those that the subject has just asked for, as deep.
    fn bare_reads(&self, cell: Cell, round: u32, report: &mut CellReport) -> io::Result<()> {
        let bytes = cell.size.bytes(self.options.records);
        let mean = report.subject_read_bytes().unwrap_or(cell.size.value_bytes() as f64);
        let mut add = |name: &str, readers| -> io::Result<()> {
            let time = self.options.window;
            let rate: Option<Rate> = fio::reads(self.place.path(), bytes, mean, readers, time)?;
            report.add_bare(name, round, rate);
            Ok(())
        };
        if cell.threads > 1 {
            add("fio random reads, threads", Readers::Threads(cell.threads))?;
        }
        add("fio random reads", Readers::Ring(cell.threads))
    }

    fn measured(
        &self,
        engine: &dyn Engine,
        load: &Load,
        operation: Operation,
        (cell, extent): (Cell, Extent),
    ) -> io::Result<Sample> {
        let look = || -> io::Result<Look> {
            let device = self.device.as_ref().map(Device::counts).transpose()?;
            Ok(Look { device, own: engine.counts(), read_bytes: device::read_bytes() })
        };
        let before = look()?;
        let taken = work::run(engine, load, operation, cell.threads, extent)?;
        Ok(Sample::new(taken, before, look()?))
    }

    fn load(&self, size: Size) -> Load {
        Load::new(size.records(self.options.records), size.value_bytes())
    }

    /// Each round begins elsewhere.
    fn window(&self, load: &Load, round: u32) -> Extent {
        let from = load.records() / self.options.rounds * round;
        Extent::window(load, from, self.options.window)
    }

    fn say(&self, row: &Row, round: u32, cell: Cell, sample: &Sample) {
        let per_s = sample.per_s;
        let (rounds, round) = (self.options.rounds, round + 1);
        self.progress(&format!("{} {round}/{rounds} {} {per_s:.0}/s", cell.name, row.engine));
    }

    fn progress(&self, line: &str) {
        if !self.options.is_quiet {
            eprintln!("{line}");
        }
    }
}

/// What so many records may take in any of these stores.
fn room_bytes(size: Size, records: u64, engines: &[Kind]) -> u64 {
    let percent = engines.iter().map(|kind| kind.room_percent).max().unwrap_or(0);
    records * (size.value_bytes() as u64 + RECORD_BYTES_MAX) * percent / 100
}

fn check_room(place: &Path, needed: u64) -> io::Result<()> {
    let free = device::free_bytes(place)?;
    if needed > free {
        let (needed, free) = (needed >> 20, free >> 20);
        return Err(io::Error::other(format!("{needed} MiB are needed, {free} are free")));
    }
    Ok(())
}

/// The engines in an order that rotates, so that none always follows the same one.
fn turns(engines: &[Kind], round: u32) -> impl Iterator<Item = (usize, Kind)> + use<'_> {
    (0..engines.len()).map(move |turn| {
        let at = (turn + round as usize) % engines.len();
        (at, engines[at])
    })
}

fn open(kind: Kind, load: &Load, path: &Path, is_safe: bool) -> io::Result<Box<dyn Engine>> {
    let setup = Setup { is_safe, ..Setup::new(path, load.records(), load.value_bytes()) };
    (kind.open)(&setup)
}

impl CellReport {
    fn add_bare(&mut self, name: &str, round: u32, rate: Option<Rate>) {
        let Some(rate) = rate else { return };
        if round == 0 {
            self.bare.push(Bare { name: name.to_owned(), rates: Vec::new() });
        }
        let bare = self.bare.iter_mut().find(|bare| bare.name == name);
        bare.expect("invariant: made in the first round").rates.push(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, options::engine, room_bytes};

    #[test]
    fn room_is_that_of_the_store_which_takes_most() {
        let kelvin = engine("kelvin").expect("it is there");
        let other = super::Kind { room_percent: 200, ..kelvin };
        assert_eq!(room_bytes(Size::Kib, 1000, &[kelvin]), 1000 * (1024 + 128) * 115 / 100);
        assert_eq!(room_bytes(Size::Tiny, 10, &[kelvin, other, kelvin]), 10 * (4 + 128) * 2);
    }
}
