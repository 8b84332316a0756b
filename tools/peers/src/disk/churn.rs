//! What stores take of the disk, and how long puts take, when everything is overwritten again and
//! again, and when most of it is removed: one store after the other, one on the disk at a
//! time, but for new ones that puts alone are measured with.

mod bare;
mod ledger;
mod options;
mod pace;
mod pairs;
mod report;

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

pub(crate) use self::options::{ChurnOptions, parse};
use self::{
    ledger::{Draws, Ledger, ONE_KEPT_OF},
    pace::Pace,
    pairs::Pair,
    report::{Report, Sample},
};
use super::{
    cell::Size,
    device::{self, Device, Over, Place},
    engine::{Engine, Kind, OwnSpace, Setup},
    latency::Latencies,
    load::Load,
    work::{self, Extent, Operation},
};
use crate::machine::Machine;

/// Segments that a log may have beside what its space is measured by, as `docs/log.md` says: seven
/// when nothing moves (one that is written to, four in reserve, of which moves write to one, one
/// made ahead and one more), and two that moves have in their hands: what they are behind, and what
/// is emptied and waits for a flush.
const KEPT_SEGMENTS_MAX: u64 = (1 + 4 + 1 + 1) + 2;

/// How many times as much as what is put once a store may take while all of it is overwritten, a
/// new one beside, and the file of a loop without a store.
const OVERWRITTEN_FACTOR: u64 = 4;

/// Space has come back when it stays as it is for so long.
const STILL_TIME: Duration = Duration::from_secs(2);

/// Which keys are overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
enum Popularity {
    Uniform,
    Zipf,
}

impl Popularity {
    const ALL: [Self; 2] = [Self::Uniform, Self::Zipf];

    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

/// What a store took at a moment.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Look {
    at_s: f64,
    overwrites: u64,
    /// As the file system has it.
    bytes: u64,
    own: Option<OwnSpace>,
}

/// What a store may take.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Bound {
    /// Keys and values that are stored, which space is divided by.
    user_bytes: u64,
    /// What has to be kept, as the store says, or else keys and values.
    data_bytes: u64,
    /// That and the share above it.
    space_bytes: u64,
    /// Segments that are there whatever has to be kept.
    kept_bytes: u64,
}

impl Bound {
    fn new(user_bytes: u64, data_bytes: u64, percent: u32, own: Option<OwnSpace>) -> Self {
        let space_bytes = data_bytes * u64::from(percent) / 100;
        let kept_bytes = own.map_or(0, |own| KEPT_SEGMENTS_MAX * own.segment_bytes);
        Self { user_bytes, data_bytes, space_bytes, kept_bytes }
    }

    fn most_bytes(&self) -> u64 {
        self.space_bytes + self.kept_bytes
    }

    fn holds(&self, bytes: u64) -> bool {
        bytes <= self.most_bytes()
    }

    /// Whether the store knows of it. That of others only ends a wait.
    fn is_promised(&self) -> bool {
        self.kept_bytes > 0
    }
}

/// How space came back after most was removed.
#[derive(Clone, Debug, serde::Serialize)]
struct Shrunk {
    bound: Bound,
    removes_per_s: f64,
    /// From the last remove until the bound held, and went on holding.
    held_after_s: Option<f64>,
    looks: Vec<Look>,
}

/// Runs all of it and prints it.
///
/// # Errors
/// When a store fails or says something wrong, there is no room, or a file cannot be written.
pub(crate) fn run(options: &ChurnOptions) -> io::Result<()> {
    let place = Place::make(&options.directory, "churn")?;
    let bench = Bench { options, place: &place };
    let room_bytes = |size: &Size| super::room_bytes(*size, bench.records(*size), &options.engines);
    let largest = options.sizes.iter().map(room_bytes).max().unwrap_or(0);
    super::check_room(place.path(), largest * OVERWRITTEN_FACTOR)?;
    let mut report = Report::new(Machine::read(), options);
    for round in 0..options.rounds {
        for &size in &options.sizes {
            for &popularity in &options.popularities {
                for (at, kind) in super::turns(&options.engines, round) {
                    let sample = bench.sample(size, popularity, kind)?;
                    eprintln!("{}", report.add((size, popularity), at, sample));
                    report.write(options)?;
                }
            }
        }
    }
    println!("{}", report.text());
    Ok(())
}

struct Bench<'a> {
    options: &'a ChurnOptions,
    place: &'a Place,
}

impl Bench<'_> {
    fn records(&self, size: Size) -> u64 {
        match size {
            Size::Tiny | Size::Kib => self.options.records.into(),
            Size::Large => (self.options.records / 100).into(),
        }
    }

    fn sample(&self, size: Size, popularity: Popularity, kind: Kind) -> io::Result<Sample> {
        let options = self.options;
        let load = Load::new(self.records(size) as u32, size.value_bytes());
        let ledger = Ledger::new(&load);
        let place = Place::make(self.place.path(), kind.name)?;
        let open = || self.open(kind, &load, place.path());
        let engine = open()?;
        work::run(&*engine, &load, Operation::Put, 1, Extent::all(&load))?;
        let mut is_settled = work::settle(options.settle_time_max);
        let own = engine.space();
        let user_bytes = u64::from(load.records()) * (load.value_bytes() as u64 + 4);
        let data_bytes = own.map_or(user_bytes, |own| own.used_bytes);
        let bound = Bound::new(user_bytes, data_bytes, options.space_percent, own);

        let written = device::write_bytes();
        let churn = Churn { options, load: &load, ledger: &ledger, popularity };
        let device = Device::of(place.path())?;
        let (churned, still) =
            device::watched(device.as_ref(), || churn.run(&*engine, place.path()))?;
        is_settled &= work::settle(options.settle_time_max);
        let after = device::write_bytes();
        let written = after.zip(written).map(|(after, before)| after - before);
        let put_bytes = churned.count * load.value_bytes() as u64;
        ledger.check(&*engine, false)?;
        let pairs = self.pairs(&*engine, &churn, kind, churned.pace.per_s / 2.0)?;
        let shrunk = self.shrink(&*engine, &ledger, place.path(), bound)?;
        let settings = engine.settings();
        engine.close()?;
        let engine = open()?;
        ledger.check(&*engine, true)?;
        engine.close()?;
        drop(place);
        Ok(Sample {
            settings,
            bound,
            churned: churned.pace,
            still_ms: still.map(|time| time.as_secs_f64() * 1e3),
            is_cut: churned.is_cut,
            is_settled,
            write_amplification: written.map(|bytes| bytes as f64 / put_bytes as f64),
            looks: churned.looks,
            pairs,
            shrunk,
        })
    }

    fn open(&self, kind: Kind, load: &Load, path: &Path) -> io::Result<Box<dyn Engine>> {
        let segment_bytes = Some(self.options.segment_bytes);
        let space_percent = Some(self.options.space_percent);
        let setup = Setup::new(path, load.records(), load.value_bytes());
        (kind.open)(&Setup { segment_bytes, space_percent, ..setup })
    }

    /// Removes most records, and waits until what they took has come back, or does not.
    fn shrink(
        &self,
        engine: &dyn Engine,
        ledger: &Ledger<'_>,
        place: &Path,
        before: Bound,
    ) -> io::Result<Shrunk> {
        let options = self.options;
        let left = |bytes: u64| bytes / u64::from(ONE_KEPT_OF);
        let (user_bytes, data_bytes) = (left(before.user_bytes), left(before.data_bytes));
        let bound = Bound::new(user_bytes, data_bytes, options.space_percent, engine.space());
        let begun = Instant::now();
        let removed = ledger.remove_most(&mut *engine.session()?)?;
        engine.flush()?;
        let removes_per_s = f64::from(removed) / begun.elapsed().as_secs_f64();
        let (begun, mut looks, mut changed) = (Instant::now(), Vec::<Look>::new(), Instant::now());
        let mut held_after_s = None;
        while begun.elapsed() < options.wait_max {
            let look = look(engine, place, begun, 0)?;
            if looks.last().is_none_or(|last| last.bytes != look.bytes) {
                changed = Instant::now();
            }
            looks.push(look);
            if bound.holds(look.bytes) {
                held_after_s.get_or_insert(look.at_s);
                if changed.elapsed() >= STILL_TIME {
                    break;
                }
            } else {
                held_after_s = None;
            }
            std::thread::sleep(options.sample_time);
        }
        Ok(Shrunk { bound, removes_per_s, held_after_s, looks })
    }
}

fn look(engine: &dyn Engine, place: &Path, begun: Instant, overwrites: u64) -> io::Result<Look> {
    let (bytes, own) = (device::allocated_bytes(place)?, engine.space());
    Ok(Look { at_s: begun.elapsed().as_secs_f64(), overwrites, bytes, own })
}

/// Everything is overwritten as fast as it goes.
struct Churn<'a> {
    options: &'a ChurnOptions,
    load: &'a Load,
    ledger: &'a Ledger<'a>,
    popularity: Popularity,
}

struct Churned {
    pace: Pace,
    count: u64,
    /// Some overwrites were left out when the time was up.
    is_cut: bool,
    looks: Vec<Look>,
}

impl<'a> Churn<'a> {
    /// All writers, and somebody who looks how much space is taken meanwhile.
    fn run(&self, engine: &dyn Engine, place: &Path) -> io::Result<Churned> {
        let (done, is_over, begun) = (AtomicU64::new(0), AtomicBool::new(false), Instant::now());
        let (latencies, looks) = std::thread::scope(|scope| {
            let watch = || -> io::Result<Vec<Look>> {
                let mut looks = Vec::new();
                loop {
                    let is_last = is_over.load(Ordering::Acquire);
                    looks.push(look(engine, place, begun, done.load(Ordering::Relaxed))?);
                    if is_last {
                        return Ok(looks);
                    }
                    std::thread::park_timeout(self.options.sample_time);
                }
            };
            let watch = scope.spawn(watch);
            let over = Over(&is_over);
            let write = |writer| {
                let done = &done;
                scope.spawn(move || self.write(engine, writer, done))
            };
            let writers: Vec<_> = (0..self.options.writers).map(write).collect();
            let ends = writers.into_iter().map(|it| it.join().expect("a thread panicked"));
            let latencies: Vec<io::Result<Latencies>> = ends.collect();
            drop(over);
            watch.thread().unpark();
            (latencies, watch.join().expect("a thread panicked"))
        });
        engine.flush()?;
        let time = begun.elapsed();
        let mut all = Latencies::default();
        for one in latencies {
            all.merge(&one?);
        }
        let (count, writers) = (all.count(), u64::from(self.options.writers));
        let is_cut = count < self.each_writer_max() * writers;
        Ok(Churned { pace: Pace::of(&all, time), count, is_cut, looks: looks? })
    }

    /// Overwrites of each writer.
    fn each_writer_max(&self) -> u64 {
        let all = u64::from(self.load.records()) * u64::from(self.options.times);
        all / u64::from(self.options.writers)
    }

    /// What a writer stores next, in the phase of that number.
    fn puts(&self, writer: u32, phase: u32) -> impl FnMut() -> (u32, &'a [u8]) + Send + use<'a> {
        let writers = (writer, self.options.writers);
        let mut draws = Draws::new(self.load, self.popularity, writers, phase);
        let ledger = self.ledger;
        move || {
            let key = draws.key();
            (key, ledger.next(key))
        }
    }

    fn write(&self, engine: &dyn Engine, writer: u32, done: &AtomicU64) -> io::Result<Latencies> {
        let limit = (self.each_writer_max(), self.options.put_time_max);
        let note = || {
            done.fetch_add(1, Ordering::Relaxed);
        };
        pace::closed(&mut *engine.session()?, self.puts(writer, 0), limit, note)
    }
}

#[cfg(test)]
mod tests;
