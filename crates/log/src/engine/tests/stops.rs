//! Stops in order, and opens that find what they have left.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{
    engine::space::{Role, Segment},
    keys::{KeyFlaw, KeyHash},
    plan::Disk,
    position::Entry,
};

type Entries = BTreeMap<KeyHash, Entry>;

/// What was saved, and of which run.
#[derive(Clone, Debug, Default)]
struct Store(Arc<Mutex<Option<(u64, Entries)>>>);

/// An index that can be saved.
#[derive(Debug)]
struct KeptKeys {
    entries: Mutex<Entries>,
    store: Store,
}

impl Keys for KeptKeys {
    fn hash(&self, key: &[u8]) -> Result<KeyHash, KeyFlaw> {
        MapKeys::new(0).hash(key)
    }

    fn get(&self, hash: KeyHash) -> Option<Entry> {
        self.entries.lock().unwrap().get(&hash).copied()
    }

    fn prepare(&self, _: KeyHash) -> Result<(), IndexFull> {
        Ok(())
    }

    fn publish(&self, hash: KeyHash, entry: Entry) -> Option<Entry> {
        self.entries.lock().unwrap().insert(hash, entry)
    }

    fn forget(&self, hash: KeyHash) {
        self.entries.lock().unwrap().remove(&hash);
    }

    fn emptied(&self) -> Self {
        Self { entries: Mutex::default(), store: self.store.clone() }
    }

    fn units_max(&self) -> u64 {
        UNITS_MAX
    }

    fn save(&self, manifest: &Manifest, _: &mut dyn Disk) -> Result<bool, Error> {
        *self.store.0.lock().unwrap() = Some((manifest.run, self.entries.lock().unwrap().clone()));
        Ok(true)
    }
}

impl MakeKeys<KeptKeys> for Store {
    fn empty(&mut self, _: &Manifest) -> Result<KeptKeys, IndexFull> {
        Ok(KeptKeys { entries: Mutex::default(), store: self.clone() })
    }

    fn saved(&mut self, manifest: &Manifest, _: &mut dyn Disk) -> Result<Option<KeptKeys>, Error> {
        let saved = self.0.lock().unwrap().clone().filter(|(run, _)| *run == manifest.run);
        let store = self.clone();
        Ok(saved.map(|(_, entries)| KeptKeys { entries: Mutex::new(entries), store }))
    }
}

fn open(disk: &mut MemoryDisk, store: &Store) -> (Engine<KeptKeys>, Report) {
    open_in(disk, 1, shape(), Mode::Safe, store.clone()).unwrap()
}

fn settle(disk: &mut MemoryDisk, engine: &mut Engine<KeptKeys>) {
    while let Some(plan) = engine.poll(0) {
        let outcome = disk.perform(plan.action);
        engine.complete(plan.token, outcome);
    }
}

fn put(disk: &mut MemoryDisk, engine: &mut Engine<KeptKeys>, key: u8) {
    let put = Put { key: &[key], value: &[key; 700], ..Put::default() };
    while engine.put(&put, 0).unwrap() == Wrote::Wait {
        settle(disk, engine);
    }
    settle(disk, engine);
}

/// Reads of segments since the last call.
fn segment_reads(disk: &mut MemoryDisk) -> usize {
    let done = std::mem::take(&mut disk.done);
    done.iter().filter(|it| it.starts_with("read") && it.ends_with(".segment")).count()
}

#[test]
fn after_a_stop_in_order_only_headers_of_used_segments_are_read_and_nothing_differs() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    for key in 0..60 {
        put(&mut disk, &mut engine, key % 40);
    }
    let live = |engine: &Engine<KeptKeys>| {
        // Of one that was freed a crash leaves one without a record.
        let segments = engine.segments.iter().flatten().filter(|it| it.live_bytes > 0);
        let bytes = |it: &Segment| (it.live_bytes, it.all_bytes, it.packed_bytes);
        let order =
            |it: &Segment| (it.smallest_value, it.begun, it.tombstone_bytes, it.greatest_tombstone);
        segments.map(|it| (it.role, bytes(it), order(it))).collect::<Vec<_>>()
    };
    engine.close(&mut disk, 0).unwrap();
    let closed = live(&engine);
    segment_reads(&mut disk);
    let (engine, report) = open(&mut disk, &store);
    assert!(report.is_clean);
    let reads = segment_reads(&mut disk);
    let segments = engine.segments.iter().flatten().count();
    let expected = segments + engine.free.len();
    assert_eq!(reads, expected, "the header of each is read, and the end of what is free");
    assert_eq!(live(&engine), closed);
    let entries = engine.index.entries.lock().unwrap().clone();
    // The same without the clean stop, from footers: the run has changed.
    drop(engine);
    let (engine, report) = open(&mut disk, &store);
    assert!(!report.is_clean, "an index of an earlier run was believed");
    assert_eq!(live(&engine), closed);
    assert_eq!(*engine.index.entries.lock().unwrap(), entries);
    assert!((40..60).contains(&report.records), "{} records", report.records);
}

#[test]
fn parts_of_values_that_are_dead_count_the_same_after_a_crash_as_after_a_stop() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    put(&mut disk, &mut engine, 1);
    let mut upload = engine.begin_large(&[2], 5000).unwrap();
    for part in [7; 5000].chunks(1024) {
        while engine.put_part(&mut upload, part, 0).unwrap() == Wrote::Wait {
            settle(&mut disk, &mut engine);
        }
    }
    let head = Put { key: &[2], ..Put::default() };
    while engine.put_head(&upload, &head, 0).unwrap() == Wrote::Wait {
        settle(&mut disk, &mut engine);
    }
    drop(upload);
    settle(&mut disk, &mut engine);
    // A log that has large values saves no index.
    put(&mut disk, &mut engine, 2);
    let sums = |engine: &Engine<KeptKeys>| {
        let segments = engine.segments.iter().flatten().filter(|it| it.live_bytes > 0);
        segments.map(|it| (it.live_bytes, it.all_bytes, it.packed_bytes)).collect::<Vec<_>>()
    };
    engine.close(&mut disk, 0).unwrap();
    let closed = sums(&engine);
    let (engine, report) = open(&mut disk, &store);
    assert!(report.is_clean);
    assert_eq!(sums(&engine), closed);
    drop(engine);
    let (engine, report) = open(&mut disk, &store);
    assert!(!report.is_clean);
    assert_eq!(sums(&engine), closed, "what lives differs");
}

#[test]
fn a_clean_stop_whose_segments_are_not_all_there_is_none() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    for key in 0..30 {
        put(&mut disk, &mut engine, key);
    }
    engine.close(&mut disk, 0).unwrap();
    let held = disk.files.remove(&segment(3)).unwrap();
    let (mut engine, report) = open(&mut disk, &store);
    assert!(!report.is_clean);
    assert_eq!(report.damages[0].what, Wrong::Missing);
    assert!(matches!(engine.get(&[0], 0).unwrap(), Get::Absent { .. }));
    engine.close(&mut disk, 0).unwrap();
    // It is there again, and so are its records: the stop in between was not taken for clean.
    disk.files.insert(segment(3), held);
    let (mut engine, report) = open(&mut disk, &store);
    assert!(!report.is_clean);
    assert!(matches!(engine.get(&[0], 0).unwrap(), Get::Read(_)));
}

#[test]
fn what_an_open_without_end_has_sealed_is_not_empty() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    put(&mut disk, &mut engine, 1);
    engine.close(&mut disk, 0).unwrap();
    let free = engine.free.clone();
    drop(engine);
    // What was there in an earlier generation.
    for id in &free {
        disk.files.get_mut(&segment(id.0)).unwrap()[3000] = 1;
    }
    // It cannot read one segment, so it reads all of them and seals what is open, and ends before
    // its manifest.
    let unread = segment(free.last().unwrap().0);
    disk.fail(move |action| match action {
        Action::Read { file, .. } => *file == unread,
        Action::Rename { .. } => true,
        _ => false,
    });
    assert!(open_in(&mut disk, 1, shape(), Mode::Safe, store.clone()).is_err());
    disk.fault = None;
    let (mut engine, _) = open(&mut disk, &store);
    put(&mut disk, &mut engine, 2);
    drop(engine);
    let (mut engine, _) = open(&mut disk, &store);
    let got = engine.get(&[2], 0).unwrap();
    assert!(matches!(got, Get::Read(_)), "what came after a clean stop is lost: {got:?}");
}

#[test]
fn a_stop_does_not_hide_what_could_not_be_read() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    for key in 0..3 {
        put(&mut disk, &mut engine, key);
    }
    drop(engine);
    disk.fail(|action| match action {
        Action::Read { file, offset, bytes, .. } => {
            *file == segment(0) && (*offset..*offset + *bytes as u64).contains(&(2 * 512))
        }
        _ => false,
    });
    let (mut engine, report) = open(&mut disk, &store);
    assert!(!report.damages.is_empty());
    engine.close(&mut disk, 0).unwrap();
    disk.fault = None;
    let (mut engine, report) = open(&mut disk, &store);
    assert!(!report.is_clean);
    assert!(matches!(engine.get(&[0], 0).unwrap(), Get::Read(_)));
}

#[test]
fn what_an_open_has_read_is_flushed_before_it_serves() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", b"value").unwrap();
    log.settle();
    log.disk.done.clear();
    let log = log.reopen();
    let first = |what: &str| log.disk.done.iter().position(|done| done == what);
    let flushed = first("flush 00000000.segment");
    // The footer is written when the records are flushed, and the manifest is the last.
    let sealed = first("write 00000000.segment");
    assert!(flushed.is_some() && flushed < sealed, "served before the flush");
    assert!(sealed < first("rename manifest.new"));
}

#[test]
fn a_clean_manifest_that_was_put_back_hides_nothing_that_came_after_it() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    put(&mut disk, &mut engine, 1);
    engine.close(&mut disk, 0).unwrap();
    let manifest = disk.manifest().clone();
    let (mut engine, report) = open(&mut disk, &store);
    assert!(report.is_clean);
    put(&mut disk, &mut engine, 2);
    drop(engine);
    // The index is still that of the stop, and no segment is new: all are as the manifest has them.
    *disk.manifest() = manifest;
    let (mut engine, report) = open(&mut disk, &store);
    assert!(!report.is_clean, "what was written behind a stop was not looked for");
    assert!(matches!(engine.get(&[2], 0).unwrap(), Get::Read(_)));
    put(&mut disk, &mut engine, 3);
    drop(engine);
    let (mut engine, _) = open(&mut disk, &store);
    for key in 1..4 {
        assert!(matches!(engine.get(&[key], 0).unwrap(), Get::Read(_)));
    }
}

#[test]
fn a_free_segment_of_another_generation_ends_a_clean_open() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    put(&mut disk, &mut engine, 1);
    let free = engine.free[0];
    engine.close(&mut disk, 0).unwrap();
    let header = crate::format::segment::Header {
        log: LogId(5),
        segment: free.0,
        block_bytes: 512,
        generation: 2,
        segment_bytes: 16 << 10,
        dead_below: 0,
    };
    let held = disk.files.get_mut(&segment(free.0)).unwrap();
    held[..1024].chunks_mut(512).for_each(|copy| header.encode(copy));
    let (engine, report) = open(&mut disk, &store);
    assert!(!report.is_clean);
    assert_eq!(engine.segment(free).unwrap().generation, 2);
}

#[test]
fn a_sealed_segment_of_another_generation_ends_a_clean_open() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    for key in 0..30 {
        put(&mut disk, &mut engine, key);
    }
    let entry = engine.index.get(engine.index.hash(&[0]).unwrap()).unwrap();
    let (id, _) = engine.place(entry.position);
    engine.close(&mut disk, 0).unwrap();
    assert_eq!(engine.segment(id).unwrap().role, Role::Sealed);
    drop(engine);
    let header = crate::format::segment::Header {
        log: LogId(5),
        segment: id.0,
        block_bytes: 512,
        generation: 2,
        segment_bytes: 16 << 10,
        dead_below: 0,
    };
    let (files, saved) = (disk.files.clone(), store.0.lock().unwrap().clone());
    // Freed since the manifest was copied: both copies say so, or one while the other is torn.
    for copies in [0..1024, 0..512, 512..1024] {
        disk.files = files.clone();
        let held = disk.files.get_mut(&segment(id.0)).unwrap();
        held[copies].chunks_mut(512).for_each(|copy| header.encode(copy));
        *store.0.lock().unwrap() = saved.clone();
        let (mut engine, report) = open(&mut disk, &store);
        assert!(!report.is_clean, "an index was believed whose segments were used again");
        assert_eq!(engine.segment(id).unwrap().generation, 2);
        assert!(matches!(engine.get(&[0], 0).unwrap(), Get::Absent { .. }));
    }
    // One damaged copy changes nothing.
    disk.files = files;
    disk.files.get_mut(&segment(id.0)).unwrap()[100] ^= 1;
    *store.0.lock().unwrap() = saved;
    let (mut engine, report) = open(&mut disk, &store);
    assert!(report.is_clean);
    assert!(matches!(engine.get(&[0], 0).unwrap(), Get::Read(_)));
}

#[test]
fn a_stop_makes_no_more_segments_than_the_one_that_is_on_its_way() {
    let (mut disk, store) = (MemoryDisk::default(), Store::default());
    let (mut engine, _) = open(&mut disk, &store);
    put(&mut disk, &mut engine, 1);
    engine.free.truncate(2);
    while !matches!(engine.preparing, Some(crate::engine::preparing::Preparing::Making(..))) {
        let plan = engine.poll(0).expect("a segment is wanted");
        let outcome = disk.perform(plan.action);
        engine.complete(plan.token, outcome);
    }
    engine.close(&mut disk, 0).unwrap();
    assert_eq!(engine.free.len(), 3, "segments were made for nobody");
}
