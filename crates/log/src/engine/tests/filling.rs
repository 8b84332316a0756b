//! The index after a crash: filled by several threads as by one.

use std::{collections::BTreeSet, sync::Mutex};

use super::*;
use crate::{
    index::{IndexLimits, Keyed},
    keys::{IndexFull, KeyFlaw, KeyHash},
    plan::{Disk, SharedDisk},
    position::{Entry, Position, SizeClass},
};

type Bytes = BTreeMap<File, Vec<u8>>;

/// Files in memory, for several threads or for one.
struct Shared {
    files: Mutex<Bytes>,
    is_shared: bool,
}

impl SharedDisk for Shared {
    fn perform(&self, action: Action) -> Outcome {
        let mut files = self.files.lock().unwrap();
        let mut disk = MemoryDisk { files: std::mem::take(&mut *files), ..MemoryDisk::default() };
        let outcome = disk.perform(action);
        *files = disk.files;
        outcome
    }
}

impl Disk for Shared {
    fn perform(&mut self, action: Action) -> Outcome {
        SharedDisk::perform(self, action)
    }

    fn shared(&self) -> Option<&dyn SharedDisk> {
        self.is_shared.then_some(self as &dyn SharedDisk)
    }
}

/// What a recovery knows: of each key, live bytes of each segment, parts of large values, what it
/// says.
type Known = (Vec<Option<Entry>>, Vec<u64>, BTreeMap<Position, Vec<(Position, SizeClass)>>, Report);

fn recovered(files: &Bytes, shape: Shape, is_shared: bool, keys: &BTreeSet<Vec<u8>>) -> Known {
    let mut disk = Shared { files: Mutex::new(files.clone()), is_shared };
    let opening = Opening {
        directories: 1,
        new: New { log: LogId(5), shape },
        settings: settings(Mode::Safe),
        now_ms: 0,
        progress: &mut |_| {},
    };
    let limits = IndexLimits { kmax_limit: 1 << 15, entries_max: 1000 };
    let (engine, report) = Engine::<Keyed>::open(&mut disk, opening, limits).unwrap();
    let entry = |key: &Vec<u8>| engine.index.get(engine.index.hash(key).unwrap());
    let live = engine.segments.iter().flatten().map(|segment| segment.live_bytes).collect();
    (keys.iter().map(entry).collect(), live, engine.larges, report)
}

/// A log of some hundred changes that was not stopped.
fn crashed(shape: Shape) -> (Bytes, BTreeSet<Vec<u8>>) {
    let limits = IndexLimits { kmax_limit: 1 << 15, entries_max: 1000 };
    let mut log: Log<Keyed> = open_with(MemoryDisk::default(), shape, Mode::Safe, limits).unwrap();
    let mut keys = BTreeSet::new();
    for turn in 0..3000_u64 {
        // 300 keys, over more than one thread's share of integers.
        let key = ((turn * 7 + turn / 300 * 11) % 300 * 97).to_le_bytes();
        match turn % 11 {
            3 => drop(log.remove(&key)),
            7 if turn % 2 == 0 => drop(log.put_large(&key, &[turn as u8; 2500])),
            _ => drop(log.put(&key, &[turn as u8; 40][..turn as usize % 40]).unwrap()),
        }
        keys.insert(key.to_vec());
    }
    log.settle();
    (log.disk.files, keys)
}

#[test]
fn several_threads_find_what_one_finds() {
    let flat = IndexKind::Flat { kmin: 0, kmax: 1 << 15 };
    for shape in [shape(), Shape { index: flat, entry_bytes: 5, ..shape() }] {
        let (files, keys) = crashed(shape);
        let one = recovered(&files, shape, false, &keys);
        assert!(one.0.iter().filter(|entry| entry.is_some()).count() > 250, "hardly a key");
        assert!(one.2.len() > 5 && one.3.records > 300, "{:?}", one.3);
        assert!(one.3.damages.is_empty() && !one.3.is_clean);
        for _ in 0..5 {
            let several = recovered(&files, shape, true, &keys);
            assert_eq!(several, one, "several threads found something else");
        }
    }
}

#[test]
fn an_index_that_is_too_small_ends_the_open_in_every_thread() {
    let (files, _) = crashed(shape());
    for is_shared in [false, true] {
        let mut disk = Shared { files: Mutex::new(files.clone()), is_shared };
        let opening = Opening {
            directories: 1,
            new: New { log: LogId(5), shape: shape() },
            settings: settings(Mode::Safe),
            now_ms: 0,
            progress: &mut |_| {},
        };
        let none = |_: &Manifest| Ok(Counted::of(Some(7)));
        let opened = Engine::<Counted>::open(&mut disk, opening, none);
        assert!(matches!(opened, Err(Error::IndexFull(_))), "{:?}", opened.map(|_| ()));
    }
}

/// An index that says how many keys it has.
#[derive(Debug)]
struct Counted {
    keys: MapKeys,
    seen: Mutex<BTreeSet<KeyHash>>,
    most: Option<usize>,
    reserved: Vec<u64>,
}

impl Counted {
    fn of(most: Option<usize>) -> Self {
        Self { keys: MapKeys::new(UNITS_MAX), seen: Mutex::default(), most, reserved: Vec::new() }
    }
}

impl Keys for Counted {
    fn hash(&self, key: &[u8]) -> Result<KeyHash, KeyFlaw> {
        self.keys.hash(key)
    }

    fn get(&self, hash: KeyHash) -> Option<Entry> {
        self.keys.get(hash)
    }

    fn prepare(&self, hash: KeyHash) -> Result<(), IndexFull> {
        let mut seen = self.seen.lock().unwrap();
        seen.insert(hash);
        if self.most.is_some_and(|most| seen.len() > most) { Err(IndexFull) } else { Ok(()) }
    }

    fn publish(&self, hash: KeyHash, entry: Entry) -> Option<Entry> {
        self.keys.publish(hash, entry)
    }

    fn forget(&self, hash: KeyHash) {
        self.keys.forget(hash);
    }

    fn emptied(&self) -> Self {
        Self::of(self.most)
    }

    fn units_max(&self) -> u64 {
        UNITS_MAX
    }

    fn entries(&self) -> u64 {
        self.seen.lock().unwrap().len() as u64
    }

    fn reserve(&mut self, entries: u64) {
        self.reserved.push(entries);
    }
}

#[test]
fn a_footer_says_how_many_keys_there_were() {
    let open =
        |disk| open_with(disk, shape(), Mode::Safe, |_: &Manifest| Ok(Counted::of(None))).unwrap();
    let mut log = open(MemoryDisk::default());
    // 80 records of 48 keys, 13 a segment: when the last one was sealed, all were there.
    for key in 0..10u8 {
        for part in 0..8 {
            log.put(&[key % 6, part], &[key; 1000]).unwrap();
        }
        log.settle();
    }
    let mut log = open(log.disk);
    assert_eq!(log.engine.index.reserved, [48]);
    assert_eq!(log.value(&[5, 7]), Some(vec![5; 1000]));
}
