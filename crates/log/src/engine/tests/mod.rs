//! The engine over a disk in memory. Crashes are the simulation's matter; here is what follows from
//! single calls.

mod memory_disk;

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use self::memory_disk::{MemoryDisk, io};
use super::{
    Drain, Engine, Fetched, Get, Mark, Mode, New, Opening, Put, Removed, Report, Settings, Settled,
    Stored, Wrong, Wrote,
};
use crate::{
    error::Error,
    format::{
        LogId,
        manifest::{IndexKind, Manifest, Shape},
        record,
    },
    keys::MapKeys,
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
    Settings { mode, chunk_bytes: 2048, chunks: 6, at_risk_bytes_max: 6000, at_risk_ms_max: 1000 }
}

/// An engine with its disk.
struct Log {
    disk: MemoryDisk,
    engine: Engine<MapKeys>,
    report: Report,
    now_ms: u64,
}

fn open_disk(mut disk: MemoryDisk, mode: Mode) -> Result<Log, Error> {
    let opening = Opening {
        directories: 1,
        new: New { log: LogId(5), shape: shape() },
        settings: settings(mode),
        now_ms: 0,
        progress: &mut |_| {},
    };
    match Engine::open(&mut disk, opening, |_: &Manifest| Ok(MapKeys::new(UNITS_MAX))) {
        Ok((engine, report)) => Ok(Log { disk, engine, report, now_ms: 0 }),
        Err(error) => Err(error),
    }
}

impl Log {
    fn new(mode: Mode) -> Self {
        Self::of(MemoryDisk::default(), mode)
    }

    fn of(disk: MemoryDisk, mode: Mode) -> Self {
        open_disk(disk, mode).unwrap()
    }

    /// Ends without a stop, and opens anew.
    fn reopen(self) -> Self {
        Self::of(self.disk, self.engine.mode())
    }

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
                self.now_ms += 200;
            }
        }
        panic!("the put waits for ever");
    }

    fn remove(&mut self, key: &[u8]) -> Removed {
        for _ in 0..100 {
            match self.engine.remove(key, self.now_ms).unwrap() {
                Removed::Wait => assert!(self.step(), "the remove waits for ever"),
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
                    return match reading.finish(&bytes)? {
                        Fetched::Value(record) => Ok(Some(Stored::new(&record))),
                        Fetched::Head(record, parts) => {
                            let readings = self.engine.parts(&reading, &parts)?;
                            let mut stored = Stored::new(&record);
                            stored.parts = Some((parts.value_bytes, readings));
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
        if let Some((value_bytes, readings)) = stored.parts.take() {
            for reading in readings {
                let bytes = self.read(&reading)?;
                let Fetched::Part(part) = reading.finish(&bytes)? else { panic!("no part") };
                stored.value.extend(part);
            }
            assert_eq!(stored.value.len() as u64, value_bytes);
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

    fn put_large(&mut self, key: &[u8], value: &[u8]) -> Mark {
        let mut upload = self.engine.begin_large(key, value.len() as u64).unwrap();
        for part in value.chunks(1024) {
            while self.engine.put_part(&mut upload, part, self.now_ms).unwrap() == Wrote::Wait {
                assert!(self.step(), "the part waits for ever");
            }
        }
        let put = Put { key, ..Put::default() };
        loop {
            match self.engine.put_head(&upload, &put, self.now_ms).unwrap() {
                Wrote::Done { mark, .. } => return mark,
                Wrote::Wait => assert!(self.step(), "the head waits for ever"),
            }
        }
    }
}

fn segment(id: u32) -> File {
    File { directory: DirectoryId(0), name: FileName::Segment(SegmentId(id)) }
}

#[test]
fn a_new_log_is_made_in_the_order_that_the_page_gives() {
    let mut log = Log::new(Mode::Safe);
    let manifest = [
        "remove manifest.new",
        "create manifest.new",
        "write manifest.new",
        "flush manifest.new",
        "rename manifest.new",
        "flush the directory of manifest",
    ];
    let mut expected = vec!["list the directory of manifest"];
    expected.extend(manifest);
    assert_eq!(log.disk.done, expected, "a step is missing");
    log.disk.done.clear();
    for _ in 0..11 {
        log.step();
    }
    let mut expected = vec![
        "create 00000000.segment",
        "allocate 00000000.segment",
        "write 00000000.segment",
        "flush 00000000.segment",
        "flush the directory of manifest",
    ];
    expected.extend(manifest);
    assert_eq!(log.disk.done, expected, "a step is missing");
    log.settle();
    assert_eq!(log.engine.manifest().rows.len(), 3);
}

#[test]
fn values_come_back_from_memory_and_from_the_disk() {
    let mut log = Log::new(Mode::Safe);
    let put = Put {
        key: b"key",
        value: b"value",
        expiry_ms: 5000,
        flags: 6,
        token: Some(7),
        tags: &[1; 8],
        is_stale: true,
        is_recached: true,
    };
    log.settle();
    let Wrote::Done { sequence, mark } = log.engine.put(&put, 0).unwrap() else { panic!("waits") };
    assert_eq!(log.engine.may_answer(mark), Settled::Pending, "answered before the flush");
    let Get::Memory { stored, wait } = log.engine.get(b"key", 0).unwrap() else { panic!("gone") };
    assert_eq!(wait, Some(mark));
    let expected = Stored {
        value: b"value".to_vec(),
        sequence,
        token: 7,
        expiry_ms: 5000,
        flags: 6,
        is_stale: true,
        is_recached: true,
        tags: vec![1; 8],
        parts: None,
    };
    assert_eq!(stored, expected);
    log.settle();
    assert_eq!(log.engine.may_answer(mark), Settled::Done);
    assert!(matches!(log.engine.get(b"key", 0).unwrap(), Get::Read(_)));
    assert_eq!(log.stored(b"key").unwrap(), Some(expected.clone()));
    let mut log = log.reopen();
    assert_eq!(log.stored(b"key").unwrap(), Some(expected));
    assert_eq!(log.value(b"other"), None);
    assert_eq!(log.report.damages, []);
}

#[test]
fn a_get_never_answers_another_keys_value() {
    let mut log = Log::new(Mode::Safe);
    // One hash: the map's index tells keys apart by 15 bytes and the length.
    let (key, other) = ([7; 20], [[7; 16].as_slice(), &[8; 4]].concat());
    log.put(&key, b"value").unwrap();
    assert!(matches!(log.stored(&other), Err(Error::OtherKey { .. })), "another key's value");
    log.settle();
    assert!(matches!(log.stored(&other), Err(Error::OtherKey { .. })), "another key's value");
    assert_eq!(log.value(&key), Some(b"value".to_vec()));
}

#[test]
fn a_put_reads_nothing_and_a_get_once() {
    let mut log = Log::new(Mode::Safe);
    for round in 0..40u8 {
        log.put(&[round % 10, 1], &[round; 700]).unwrap();
        log.settle();
    }
    assert!(!log.disk.done.iter().any(|done| done.starts_with("read")), "a put has read");
    log.disk.done.clear();
    assert_eq!(log.value(&[3, 1]), Some(vec![33; 700]));
    assert_eq!(log.disk.done.len(), 1);
    assert_eq!(log.engine.counts().reads, 1);
}

#[test]
fn an_expired_value_is_absent_in_memory() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let put = Put { key: b"key", value: b"v", expiry_ms: 100, ..Put::default() };
    let Wrote::Done { mark, .. } = log.engine.put(&put, 0).unwrap() else { panic!("waits") };
    assert!(matches!(log.engine.get(b"key", 99).unwrap(), Get::Memory { .. }));
    let Get::Absent { wait } = log.engine.get(b"key", 100).unwrap() else { panic!("there") };
    assert_eq!(wait, Some(mark), "the reply saw a record that is not flushed");
}

#[test]
fn a_removed_key_stays_away_and_its_absence_waits_for_the_tombstone() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", b"value").unwrap();
    log.settle();
    let Removed::Done { mark, .. } = log.remove(b"key") else { panic!("was not there") };
    let Get::Absent { wait } = log.engine.get(b"key", 0).unwrap() else { panic!("is there") };
    assert_eq!(wait, Some(mark), "the reply saw a tombstone that is not flushed");
    assert_eq!(log.remove(b"key"), Removed::Absent { wait: Some(mark) });
    log.settle();
    assert_eq!(log.remove(b"key"), Removed::Absent { wait: None });
    assert_eq!(log.remove(b"never"), Removed::Absent { wait: None });
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), None);
}

#[test]
fn records_that_come_during_a_flush_share_the_next_one() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"opens a segment", b"0").unwrap();
    log.settle();
    let before = log.engine.counts();
    log.put(b"first", b"1").unwrap();
    let write = log.engine.poll(0).unwrap();
    assert!(matches!(write.action, Action::Write { .. }));
    for key in 0..7u8 {
        log.put(&[key], b"2").unwrap();
    }
    assert!(log.engine.poll(0).is_none(), "a group waits for the one before");
    let outcome = log.disk.perform(write.action);
    log.engine.complete(write.token, outcome);
    log.settle();
    let after = log.engine.counts();
    assert_eq!(after.flushes - before.flushes, 2);
    assert_eq!(after.commits - before.commits, 2);
}

#[test]
fn async_answers_at_once_within_its_bounds() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    let mark = log.put(b"key", &[1; 900]).unwrap();
    assert_eq!(log.engine.may_answer(mark), Settled::Done);
    log.settle();
    assert_eq!(log.engine.durable(mark), Settled::Pending);
    assert!(log.engine.poll(0).is_none(), "nothing is urgent");
    // Bytes: the seventh kilobyte waits for a flush.
    for key in 0..5u8 {
        log.put(&[key], &[2; 900]).unwrap();
    }
    let put = Put { key: b"more", value: &[3; 900], ..Put::default() };
    assert_eq!(log.engine.put(&put, 0).unwrap(), Wrote::Wait, "more at risk than promised");
    log.settle();
    log.engine.drain();
    log.settle();
    // Age: half of it begins a flush, all of it stops the puts.
    assert!(matches!(log.engine.put(&put, 1000).unwrap(), Wrote::Done { .. }));
    assert_eq!(log.engine.wake_at_ms(), Some(1500));
    assert!(log.engine.poll(1499).is_none());
    let late = Put { key: b"late", value: b"4", ..Put::default() };
    assert_eq!(log.engine.put(&late, 2000).unwrap(), Wrote::Wait, "older than promised");
    assert!(matches!(log.engine.poll(1500).unwrap().action, Action::Write { .. }));
}

#[test]
fn safe_is_confirmed_when_what_was_answered_before_is_flushed() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    let mark = log.put(b"key", b"value").unwrap();
    log.engine.set_mode(Mode::Safe);
    let mut drain: Drain = log.engine.drain();
    assert_eq!(log.engine.drained(&mut drain), Settled::Pending, "confirmed before the drain");
    log.settle();
    assert_eq!(log.engine.durable(mark), Settled::Done);
    assert_eq!(log.engine.drained(&mut drain), Settled::Done);
}

#[test]
fn a_full_segment_is_sealed_when_its_records_are_flushed() {
    let mut log = Log::new(Mode::Safe);
    for key in 0..40u8 {
        log.put(&[key], &[key; 800]).unwrap();
        log.settle();
    }
    let of_first = log.disk.done.iter().filter(|done| done.ends_with("00000000.segment"));
    let of_first: Vec<&str> = of_first.map(|done| &done[..5]).collect();
    // The last record and its flush; the footer, the trailer, their flush.
    let last = &of_first[of_first.len() - 5..];
    let expected = ["write", "flush", "write", "write", "flush"];
    assert_eq!(last, expected, "the footer went with its records");
    log.engine.close(&mut log.disk, 0).unwrap();
    log.disk.done.clear();
    let mut log = log.reopen();
    assert_eq!((log.report.tails, &*log.report.torn), (3, &[][..]), "only empty ones are read");
    assert_eq!((log.report.records, &*log.report.damages), (40, &[][..]));
    for key in 0..40u8 {
        assert_eq!(log.value(&[key]), Some(vec![key; 800]));
    }
}

#[test]
fn sequences_of_a_run_are_above_those_of_the_one_before() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let mut last = 0;
    for run in 1..4 {
        let put = Put { key: b"key", value: b"v", ..Put::default() };
        let Wrote::Done { sequence, .. } = log.engine.put(&put, 0).unwrap() else { panic!("wait") };
        assert_eq!((sequence, log.report.run), (run << 40, run));
        assert!(sequence > last);
        last = sequence;
        log.settle();
        log = log.reopen();
        log.settle();
    }
}

#[test]
fn large_values_lie_in_parts_and_appear_when_all_are_durable() {
    let value: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put_large(b"large", &value);
    assert_eq!(log.value(b"large"), Some(value.clone()), "from memory");
    log.engine.set_mode(Mode::Safe);
    log.settle();
    log.disk.done.clear();
    assert_eq!(log.value(b"large"), Some(value.clone()));
    assert_eq!(log.disk.done.len(), 6, "one read for the head and one a part");
    let live =
        |log: &Log| log.engine.segments.iter().flatten().map(|it| it.live_bytes).sum::<u64>();
    let before = live(&log);
    assert!((5000..7000).contains(&before), "{before} live bytes");
    let mut log = log.reopen();
    assert_eq!(live(&log), before);
    assert_eq!(log.value(b"large"), Some(value));
    log.settle();
    log.put(b"large", b"small").unwrap();
    assert_eq!(live(&log), 64, "the parts die with their head");
}

#[test]
fn a_head_waits_for_its_parts() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let mut upload = log.engine.begin_large(b"large", 1025).unwrap();
    assert_eq!(log.engine.put_part(&mut upload, &[1; 10], 0), Err(Error::Upload));
    for part in [&[1; 1024][..], &[2]] {
        assert!(matches!(log.engine.put_part(&mut upload, part, 0), Ok(Wrote::Done { .. })));
    }
    let put = Put { key: b"large", ..Put::default() };
    assert_eq!(log.engine.put_head(&upload, &put, 0), Ok(Wrote::Wait), "head before its parts");
    log.settle();
    assert!(matches!(log.engine.put_head(&upload, &put, 0), Ok(Wrote::Done { .. })));
}

#[test]
fn a_failed_flush_fails_who_waited_and_saves_what_memory_has() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"kept", b"old").unwrap();
    log.settle();
    let mark = log.put(b"key", b"new").unwrap();
    let mut left = 1;
    log.disk.fail(move |action| {
        let fails = matches!(action, Action::Flush { .. }) && left > 0;
        left -= u32::from(fails);
        fails
    });
    log.settle();
    assert_eq!(log.engine.durable(mark), Settled::Failed, "a failed flush was tried again");
    assert_eq!(log.engine.counts().rewritten, 1);
    let flushes = log.disk.done.iter().filter(|done| *done == "flush 00000000.segment").count();
    assert_eq!(flushes, 3, "prepared, committed, and failed once: no flush is tried again");
    for (key, value) in [(b"key\0", &b"new"[..]), (b"kept", b"old")] {
        let key = key.strip_suffix(b"\0").unwrap_or(key);
        assert_eq!(log.value(key).as_deref(), Some(value));
    }
    let stored = log.stored(b"key").unwrap().unwrap();
    assert!(stored.sequence > stored.token, "a rewritten value keeps its token");
    assert!(log.put(b"more", b"1").is_ok());
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(b"new".to_vec()));
    assert_eq!(log.value(b"kept"), Some(b"old".to_vec()));
}

#[test]
fn a_drain_that_begins_before_the_rewriting_waits_for_the_copies() {
    let mut log = Log::new(Mode::Async);
    log.put(b"key", b"new").unwrap();
    log.settle();
    let mut left = 1;
    log.disk.fail(move |action| {
        let fails = matches!(action, Action::Flush { .. }) && left > 0;
        left -= u32::from(fails);
        fails
    });
    log.engine.drain();
    while log.engine.stranded.is_empty() {
        assert!(log.step());
    }
    let mut drain = log.engine.drain();
    assert!(log.step(), "the record is written again");
    assert!(log.engine.stranded.is_empty());
    assert_eq!(log.engine.drained(&mut drain), Settled::Pending, "confirmed before the copies");
    log.settle();
    assert_eq!(log.engine.drained(&mut drain), Settled::Done);
}

#[test]
fn a_second_failed_flush_makes_the_log_read_only() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"kept", b"old").unwrap();
    log.settle();
    log.disk.fail(|action| {
        matches!(action, Action::Flush { file } if matches!(file.name, FileName::Segment(_)))
    });
    log.put(b"key", b"new").unwrap();
    log.settle();
    assert!(log.engine.is_read_only());
    assert_eq!(log.put(b"more", b"1"), Err(Error::ReadOnly));
    assert_eq!(log.stored(b"key"), Err(Error::Unflushed));
    assert_eq!(log.value(b"kept"), Some(b"old".to_vec()));
}

#[test]
fn a_full_disk_refuses_puts_and_takes_removes_until_there_is_room() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    log.disk.fault =
        Some(Box::new(|action| matches!(action, Action::Allocate { .. }).then_some(Failure::Full)));
    let mut keys = 0u32;
    let refused = loop {
        match log.put(&keys.to_le_bytes(), &[1; 900]) {
            Ok(_) => keys += 1,
            Err(error) => break error,
        }
        log.settle();
    };
    assert_eq!(refused, Error::NoRoom);
    assert!(keys > 10, "the segment that was there is used");
    // What could not be had is removed again.
    assert!(!log.disk.files.contains_key(&segment(3)));
    for key in 0..keys {
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
        log.settle();
    }
    assert_eq!(log.put(b"key", &[1; 900]), Err(Error::NoRoom), "the reserve is for removes");
    log.disk.fault = None;
    log.now_ms += 1000;
    log.settle();
    log.put(b"key", b"value").unwrap();
    log.settle();
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(b"value".to_vec()));
    assert_eq!(log.value(&0u32.to_le_bytes()), None);
}

#[test]
fn positions_that_the_index_cannot_keep_are_a_named_limit() {
    let mut disk = MemoryDisk::default();
    let opening = Opening {
        directories: 1,
        new: New { log: LogId(5), shape: shape() },
        settings: settings(Mode::Safe),
        now_ms: 0,
        progress: &mut |_| {},
    };
    let units_max = 4 * 1024;
    let (engine, report) =
        Engine::open(&mut disk, opening, |_: &Manifest| Ok(MapKeys::new(units_max))).unwrap();
    let mut log = Log { disk, engine, report, now_ms: 0 };
    log.settle();
    let error = loop {
        if let Err(error) = log.put(b"key", &[1; 900]) {
            break error;
        }
        log.settle();
    };
    assert_eq!(error, Error::PositionsUsedUp { segments: 4 });
    assert!(matches!(log.remove(b"key"), Removed::Done { .. }));
}

#[test]
fn short_writes_go_on_where_they_stopped() {
    let mut log = Log::new(Mode::Safe);
    log.disk.write_bytes_max = Some(600);
    for key in 0..40u8 {
        log.put(&[key], &[key; 800]).unwrap();
        log.settle();
    }
    let mut log = log.reopen();
    assert_eq!(log.report.damages, []);
    for key in 0..40u8 {
        assert_eq!(log.value(&[key]), Some(vec![key; 800]));
    }
}

#[test]
fn what_cannot_be_stored_is_refused_and_changes_nothing() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let before = log.engine.counts();
    let key = &[1; 70_000][..];
    let put = Put { key: b"k", ..Put::default() };
    for (put, error) in [
        (Put { key: b"", ..put }, Error::KeyBytes { got: 0, max: 65_535 }),
        (Put { key, ..put }, Error::KeyBytes { got: 70_000, max: 65_535 }),
        (Put { value: &key[..1025], ..put }, Error::ValueBytes { got: 1025, max: 1024 }),
        (Put { tags: &key[..9], ..put }, Error::TagBytes { got: 9, max: 32_768 }),
        (Put { tags: &key[..32_776], ..put }, Error::TagBytes { got: 32_776, max: 32_768 }),
        (Put { expiry_ms: 1 << 48, ..put }, Error::Expiry),
        (Put { key: &key[..3000], ..put }, Error::ValueBytes { got: 3024, max: 2032 }),
    ] {
        assert_eq!(log.engine.put(&put, 0), Err(error));
    }
    assert_eq!(log.engine.counts(), before);
}

mod damage;
mod stops;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against a map, through ends without a stop.
    #[test]
    fn a_log_is_a_map_that_lasts(
        steps in vec((0u8..12, 0u8..20, 0usize..1000), 1..200),
        is_async: bool,
    ) {
        let mode = if is_async { Mode::Async } else { Mode::Safe };
        let mut log = Log::new(mode);
        let mut model: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (at, (what, key, length)) in steps.into_iter().enumerate() {
            let value = vec![at as u8; length];
            match what {
                0..6 => {
                    log.put(&[key], &value).unwrap();
                    model.insert(key, value);
                }
                6 => {
                    let value = vec![at as u8; 1025 + length * 3];
                    log.put_large(&[key], &value);
                    model.insert(key, value);
                }
                7..9 => {
                    let was_there = matches!(log.remove(&[key]), Removed::Done { .. });
                    prop_assert_eq!(was_there, model.remove(&key).is_some());
                }
                9 => { log.step(); }
                10 => log.settle(),
                _ => {
                    log.engine.set_mode(Mode::Safe);
                    log.settle();
                    log = log.reopen();
                    log.engine.set_mode(mode);
                    prop_assert_eq!(&*log.report.damages, &[]);
                }
            }
            prop_assert_eq!(log.value(&[key]), model.get(&key).cloned());
        }
        for key in 0..20 {
            prop_assert_eq!(log.value(&[key]), model.get(&key).cloned());
        }
    }
}
