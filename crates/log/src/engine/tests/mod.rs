//! The engine over a disk in memory. Crashes are the simulation's matter; here is what follows from
//! single calls.

mod ahead;
mod backups;
mod batch;
mod collisions;
mod commits;
mod copies;
mod damage;
mod directories;
mod failures;
mod filling;
mod freeing;
mod full;
mod growth;
mod iterate;
mod keeping;
mod large;
mod memory_disk;
mod moved;
mod moving;
mod overwrites;
mod owing;
mod pacing;
mod records;
mod refused;
mod removing;
mod ring;
mod risk;
mod sealing;
mod steps;
mod stops;
mod stranded_copies;
mod throttle;
mod victims;
mod wiping;

use std::collections::BTreeMap;

use self::memory_disk::{MemoryDisk, io};
use super::{
    Batch, Change, Drain, Engine, Fetched, Get, Mark, Mode, New, Opening, Put, Removed, Report,
    Settings, Settled, Spread, Stored, Upload, Wrong, Wrote,
};
use crate::{
    error::Error,
    format::{
        LogId, Seed,
        manifest::{IndexKind, Manifest, Shape},
        record,
    },
    keys::{IndexFull, Keys, MakeKeys, MapKeys},
    plan::{Action, Buffer, DirectoryId, Disk as _, Failure, File, FileName, Outcome, SegmentId},
};

const UNITS_MAX: u64 = 1 << 34;

fn shape() -> Shape {
    Shape {
        segment_bytes: 16 << 10,
        block_bytes: 512,
        part_bytes: 1024,
        entry_bytes: 0,
        index: IndexKind::Hash { seeds: [7; 128] },
    }
}

fn settings(mode: Mode) -> Settings {
    Settings {
        mode,
        chunk_bytes: 2048,
        chunks: 6,
        at_risk_bytes_max: 6000,
        at_risk_ms_max: 1000,
        space_target_percent: 0,
        ring: None,
    }
}

/// An engine with its disk.
struct Log<K = MapKeys> {
    disk: MemoryDisk,
    engine: Engine<K>,
    report: Report,
    now_ms: u64,
}

fn map_keys(_: &Manifest) -> Result<MapKeys, IndexFull> {
    Ok(MapKeys::new(UNITS_MAX))
}

fn open_disk(disk: MemoryDisk, mode: Mode) -> Result<Log, Error> {
    open_with(disk, shape(), mode, map_keys)
}

fn open_with<K: Keys>(
    mut disk: MemoryDisk,
    shape: Shape,
    mode: Mode,
    make: impl MakeKeys<K>,
) -> Result<Log<K>, Error> {
    let (engine, report) = open_in(&mut disk, 1, shape, mode, make)?;
    Ok(Log { disk, engine, report, now_ms: 0 })
}

/// Opens a log that lies in so many directories.
fn open_in<K: Keys>(
    disk: &mut MemoryDisk,
    directories: u16,
    shape: Shape,
    mode: Mode,
    make: impl MakeKeys<K>,
) -> Result<(Engine<K>, Report), Error> {
    let new = New { log: LogId(5), shape };
    let settings = settings(mode);
    let opening = Opening { directories, new, settings, now_ms: 0, progress: &mut |_| {} };
    Engine::open(disk, opening, make)
}

impl Log {
    fn new(mode: Mode) -> Self {
        Self::of(MemoryDisk::default(), mode)
    }

    /// With a space target, and segments that are ready.
    fn compacting(mode: Mode) -> Self {
        let mut log = Self::new(mode);
        log.engine.settings.space_target_percent = 130;
        log.settle();
        log
    }

    fn of(disk: MemoryDisk, mode: Mode) -> Self {
        open_disk(disk, mode).unwrap()
    }

    /// Ends without a stop, and opens anew.
    fn reopen(self) -> Self {
        Self::of(self.disk, self.engine.mode())
    }
}

impl<K: Keys> Log<K> {
    /// Performs one action, if there is one.
    fn step(&mut self) -> bool {
        let Some(plan) = self.engine.poll(self.now_ms) else { return false };
        let outcome = self.disk.perform(plan.action);
        self.engine.complete(plan.token, outcome);
        true
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Mark, Error> {
        let put = Put { key, value, ..Put::default() };
        for _ in 0..100 {
            if let Wrote::Done { mark, .. } = self.engine.put(&put, self.now_ms)? {
                return Ok(mark);
            }
            if !self.step() {
                self.now_ms = self.engine.retry_at_ms().unwrap_or(self.now_ms + 200);
            }
        }
        panic!("the put waits for ever");
    }

    fn remove(&mut self, key: &[u8]) -> Removed {
        for _ in 0..100 {
            match self.engine.remove(key, self.now_ms).unwrap() {
                Removed::Wait => {
                    let before = self.engine.unreported();
                    // That nothing can be moved is found out without an action.
                    let goes_on = self.step() || self.engine.unreported() != before;
                    assert!(goes_on, "the remove waits for ever");
                }
                removed => return removed,
            }
        }
        panic!("the remove waits for ever");
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Stored>, Error> {
        for _ in 0..100 {
            match self.engine.get(key, self.now_ms)? {
                Get::Absent { .. } => return Ok(None),
                Get::Memory { stored, .. } => return self.with_parts(stored).map(Some),
                Get::Read(reading) => {
                    let bytes = self.read(&reading)?;
                    return match self.engine.fetched(&reading, &bytes)? {
                        Fetched::Value(record) => Ok(Some(Stored::new(&record))),
                        Fetched::Head(record, parts) => {
                            let mut stored = Stored::new(&record);
                            stored.parts = Some(self.engine.parts(&reading, &parts)?);
                            self.with_parts(stored).map(Some)
                        }
                        Fetched::Part(_) => panic!("a part was not asked for"),
                    };
                }
                Get::Wait => assert!(self.step(), "the get waits for ever"),
            }
        }
        panic!("the get waits for ever");
    }

    fn with_parts(&mut self, mut stored: Stored) -> Result<Stored, Error> {
        if let Some(spread) = stored.parts.take() {
            for reading in self.engine.all_parts(&spread) {
                let bytes = self.read(&reading)?;
                let Fetched::Part(part) = reading.finish(&bytes)? else { panic!("no part") };
                stored.value.extend(part);
            }
            assert_eq!(stored.value.len() as u64, spread.value_bytes());
        }
        Ok(stored)
    }

    fn read(&mut self, reading: &super::Reading) -> Result<Vec<u8>, Error> {
        match self.disk.perform(reading.action(Buffer::new(reading.bytes()))) {
            Outcome::Read(buffer, bytes) => Ok(buffer.as_slice()[..bytes].to_vec()),
            Outcome::Failed(failure, _) => Err(reading.failed(failure)),
            _ => panic!("a read answers with bytes"),
        }
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.stored(key).unwrap().map(|stored| stored.value)
    }

    /// Puts the parts of a large value.
    fn upload(&mut self, key: &[u8], value: &[u8]) -> Upload {
        let mut upload = self.engine.begin_large(key, value.len() as u64).unwrap();
        for part in value.chunks(1024) {
            while self.engine.put_part(&mut upload, part, self.now_ms).unwrap() == Wrote::Wait {
                assert!(self.step(), "the part waits for ever");
            }
        }
        upload
    }

    fn put_head(&mut self, upload: &Upload, key: &[u8]) -> Mark {
        let put = Put { key, ..Put::default() };
        loop {
            match self.engine.put_head(upload, &put, self.now_ms).unwrap() {
                Wrote::Done { mark, .. } => return mark,
                Wrote::Wait => assert!(self.step(), "the head waits for ever"),
            }
        }
    }

    fn put_large(&mut self, key: &[u8], value: &[u8]) -> Mark {
        let upload = self.upload(key, value);
        self.put_head(&upload, key)
    }

    /// Has everything that was put so far be flushed, whatever comes of that.
    fn flush(&mut self) {
        self.engine.drain();
        self.settle();
    }

    /// Writes everything, and seals the open segment.
    fn seal(&mut self) {
        self.flush();
        self.engine.close_tail();
        self.settle();
    }
}

/// What records of a segment begin with that is used for the first time.
fn mark(id: u32) -> [u8; 2] {
    Seed::new(LogId(5), id, 1).mark()
}

fn segment(id: u32) -> File {
    File { directory: DirectoryId(0), name: FileName::Segment(SegmentId(id)) }
}

/// Where the footer of a sealed segment begins, as its trailer says.
fn footer_offset(disk: &MemoryDisk, file: File) -> usize {
    let held = &disk.files[&file];
    let trailer = &held[held.len() - shape().block_bytes as usize..];
    u64::from_le_bytes(trailer[16..24].try_into().unwrap()) as usize
}
