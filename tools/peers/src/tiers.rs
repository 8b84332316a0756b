//! Servers that keep more than memory holds: Kelvin's durable table beside memcached's extstore and
//! fatcache, on one file system, interleaved; beside them a loop that does nothing else, and what
//! the disk gives without a server.
//!
//! ```text
//!   run() --> for each size: gets --> Guest (a server, filled; its files; its page cache held)
//!               |                       Asked: what `kelvin bench` saw in a window
//!               |                       fio: as deep as Kelvin was seen to be, in its sizes
//!               +-> sets --> a new Guest in each round: every key once, read back, and again later
//!               +-> Report --> Markdown, JSON, SVG
//! ```

mod asked;
mod bars;
mod chart;
mod guest;
mod held;
mod options;
mod report;

use std::{
    fs,
    io::{self, Error},
    thread,
};

pub(crate) use self::options::{TiersOptions, parse};
use self::{
    asked::{Asker, Gets, Shape},
    guest::{Guest, Kind, Program},
    options::{Keys, Part, Size},
    report::{FioReads, GetsReport, GetsRow, ReadBack, Report, SetsReport, SetsRow},
};
use crate::{
    disk::{
        device::{self, Place},
        fio::{self, Readers},
    },
    machine::Machine,
    server::build_kelvin,
};

/// Connections with a request each, as the bars have it; and one connection with as many.
const MANY: Shape = Shape { connections: 16, depth: 1 };
const DEEP: Shape = Shape { connections: 1, depth: 16 };

/// What is filled for gets is filled by one connection, since some drop what comes too fast; and
/// what is not there in the end is added, so many times at most.
const FILLING: Shape = Shape { connections: 1, depth: 1 };
const MENDS_MAX: u32 = 3;

/// fio's depth beside the one that was observed.
const FIO_DEPTH: u32 = 16;

/// Runs the comparison and writes what it gave.
///
/// # Errors
/// When Kelvin cannot be built, there is no room, fio fails or a file cannot be written. A server
/// that does not start, or does not take or give values of a size, is left out of a cell, with the
/// reason.
pub(crate) fn run(options: &TiersOptions) -> io::Result<()> {
    fs::create_dir_all(&options.out)?;
    let place = Place::make(&options.directory, "tiers")?;
    let kelvin = match &options.kelvin {
        // A server is started elsewhere.
        Some(path) => fs::canonicalize(path)?,
        None => build_kelvin()?,
    };
    let (programs, absent) = guest::programs(&kelvin, options)?;
    absent.iter().for_each(|line| eprintln!("{line}"));
    let free = device::free_bytes(place.path())?;
    if options.room_bytes() > free {
        let (needed, free) = (options.room_bytes() >> 20, free >> 20);
        return Err(Error::other(format!("{needed} MiB are needed, {free} are free")));
    }
    let asker = Asker { kelvin, place: place.path().to_owned(), options };
    let report = Report::new(Machine::read(), options, absent);
    let mut bench = Bench { options, place, programs, asker, report };
    for size in options.sizes.clone() {
        if options.parts.contains(&Part::Gets) {
            bench.gets(size)?;
        }
        if options.parts.contains(&Part::Sets) {
            bench.sets(size)?;
        }
    }
    print!("{}", bench.report.markdown());
    eprintln!("written: {}", options.out.join("tiers.md").display());
    Ok(())
}

/// What all cells share.
struct Bench<'a> {
    options: &'a TiersOptions,
    place: Place,
    programs: Vec<Program>,
    asker: Asker<'a>,
    report: Report,
}

impl Bench<'_> {
    /// All servers are filled with a size of values, and take turns.
    fn gets(&mut self, size: Size) -> io::Result<()> {
        let mut guests = Vec::new();
        for program in &self.programs {
            eprintln!("{} gets: filling {}", size.name, program.kind.name());
            guests.push(self.filled(program, size).map_err(|error| error.to_string()));
        }
        for keys in self.options.keys.clone() {
            let mut report = GetsReport::new(size, keys);
            for program in &self.programs {
                report.rows.push(GetsRow::new(program.kind, MANY));
                if [Kind::Kelvin, Kind::Bare].contains(&program.kind) {
                    report.rows.push(GetsRow::new(program.kind, DEEP));
                }
            }
            for round in 0..self.options.rounds {
                for turn in 0..guests.len() {
                    let at = (turn + round as usize) % guests.len();
                    self.turn(&mut guests[at], self.programs[at].kind, (size, keys), &mut report);
                    if self.programs[at].kind == Kind::Kelvin {
                        self.fio_reads(size, &mut report)?;
                    }
                }
            }
            self.report.add_gets(report);
            self.report.write(&self.options.out)?;
        }
        Ok(())
    }

    /// A server with all that it could be made to keep.
    fn filled(&self, program: &Program, size: Size) -> io::Result<Guest> {
        let mut guest = self.start(program, size)?;
        if program.kind == Kind::Bare {
            // Its file is as long before it listens.
            return Ok(guest);
        }
        let filling = (size, FILLING, false);
        self.asker.sweep(&guest, filling, ["set"])?;
        for _ in 0..MENDS_MAX {
            thread::sleep(self.options.settle);
            let [mended] = self.asker.sweep(&guest, (size, MANY, true), ["mend"])?;
            if mended.stored == 0 {
                break;
            }
        }
        thread::sleep(self.options.settle);
        guest.hold()?;
        Ok(guest)
    }

    /// A server that takes values of a size, as far as the first one tells.
    fn start(&self, program: &Program, size: Size) -> io::Result<Guest> {
        let guest = Guest::start(program, self.place.path(), self.options, size)?;
        self.asker.probe(&guest, size)?;
        Ok(guest)
    }

    /// A window of each shape on a server, unless it has failed already.
    fn turn(
        &self,
        guest: &mut Result<Guest, String>,
        kind: Kind,
        (size, keys): (Size, Keys),
        report: &mut GetsReport,
    ) {
        for row in report.rows.iter_mut().filter(|row| row.kind == kind) {
            let asked = match guest {
                Ok(guest) => self.asker.gets(guest, (size, keys), row.shape),
                Err(reason) => Err(Error::other(reason.clone())),
            };
            match asked {
                Ok(gets) => {
                    let (name, shape, per_s) = (kind.name(), row.shape, gets.found_per_s);
                    eprintln!("{} {} gets: {name}, {shape}: {per_s:.0}/s", size.name, keys.name());
                    row.resident_bytes = guest.as_ref().ok().and_then(Guest::resident_bytes);
                    row.held = guest.as_ref().ok().map(Guest::held);
                    row.samples.push(gets);
                }
                // Once is enough: what fails takes a long time.
                Err(error) => {
                    let reason = error.to_string();
                    eprintln!("{} {} gets: {}: {reason}", size.name, keys.name(), kind.name());
                    row.reason = Some(reason.clone());
                    *guest = Err(reason);
                }
            }
        }
    }

    /// What the disk gives to reads as large and as deep as Kelvin's last ones.
    fn fio_reads(&self, size: Size, report: &mut GetsReport) -> io::Result<()> {
        let row = report.rows.iter().find(|row| row.kind == Kind::Kelvin && row.shape == MANY);
        let last = row.and_then(|row| row.samples.last());
        let Some(Gets { read_depth, read_bytes, .. }) = last else { return Ok(()) };
        let bytes_mean = read_bytes.unwrap_or(size.bytes as f64);
        let bytes = size.set_bytes(self.options);
        let time = self.options.window / 2;
        let reads = |depth: u32| {
            let readers = Readers::Ring(depth);
            let rate = fio::reads(self.place.path(), bytes, bytes_mean, readers, time)?;
            io::Result::Ok(rate.map(|rate| rate.ops_per_s))
        };
        let deep = reads(FIO_DEPTH)?;
        let observed = match read_depth {
            Some(depth) => between(depth.max(1.0), reads)?,
            None => None,
        };
        report.fio.push(FioReads { bytes_mean, depth: *read_depth, observed, deep });
        Ok(())
    }

    /// Each server anew in each round.
    fn sets(&mut self, size: Size) -> io::Result<()> {
        let row = |program: &Program| SetsRow::new(program.kind);
        let mut report =
            SetsReport::new(size, size.keys(self.options), self.programs.iter().map(row).collect());
        for round in 0..self.options.rounds {
            for turn in 0..self.programs.len() {
                let at = (turn + round as usize) % self.programs.len();
                let row = &mut report.rows[at];
                if row.reason.is_some() {
                    continue;
                }
                let name = row.kind.name();
                match self.set_and_read_back(&self.programs[at], size) {
                    Ok(sample) => {
                        let (size, rate) = (size.name, sample.set.per_s);
                        match sample.kept_share() {
                            Some(kept) => {
                                let kept = 100.0 * kept;
                                eprintln!("{size} sets: {name}: {rate:.0}/s, {kept:.2} % kept");
                            }
                            None => eprintln!("{size} sets: {name}: {rate:.0}/s"),
                        }
                        row.samples.push(sample);
                    }
                    Err(error) => {
                        eprintln!("{} sets: {name}: {error}", size.name);
                        row.reason = Some(error.to_string());
                    }
                }
            }
            let append = fio::append(self.place.path(), size.set_bytes(self.options))?;
            report.append_bytes_per_s.extend(append.map(|rate| rate.bytes_per_s));
        }
        self.report.add_sets(report);
        self.report.write(&self.options.out)
    }

    fn set_and_read_back(&self, program: &Program, size: Size) -> io::Result<report::Sets> {
        let guest = self.start(program, size)?;
        let keys = size.keys(self.options);
        if program.kind == Kind::Bare {
            // It says yes to every key.
            let [set] = self.asker.sweep(&guest, (size, MANY, false), ["set"])?;
            return Ok(report::Sets { keys, set, read_back: None });
        }
        let [set, right_after] = self.asker.sweep(&guest, (size, MANY, false), ["set", "get"])?;
        thread::sleep(self.options.settle);
        let [later] = self.asker.sweep(&guest, (size, MANY, true), ["get"])?;
        let read_back = Some(ReadBack { right_after, later });
        Ok(report::Sets { keys, set, read_back })
    }
}

/// What a function of whole numbers is at `at`, if it is straight between them.
fn between(at: f64, of: impl Fn(u32) -> io::Result<Option<f64>>) -> io::Result<Option<f64>> {
    let (below, part) = (at.floor() as u32, at.fract());
    let Some(low) = of(below)? else { return Ok(None) };
    let Some(high) = of(below + 1)? else { return Ok(None) };
    Ok(Some(low + part * (high - low)))
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn what_lies_between_whole_depths_is_on_a_straight_line() {
        let of = |depth: u32| Ok(Some(f64::from(depth) * 100.0));
        for at in [1.0, 1.25, 7.5] {
            assert_eq!(between(at, of).expect("it is known"), Some(100.0 * at));
        }
        assert_eq!(between(2.5, |_| Ok(None)).expect("there is no fio"), None);
    }
}
