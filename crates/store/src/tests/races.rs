//! Tables, and threads that set, get and flush while records go out of memory.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use super::*;
use crate::Found;

/// A value: its stamp in front, and then filling.
#[derive(Clone, Debug)]
enum Stamped {
    Set(Box<[u8]>),
    /// Puts what is there once more, with another expiry.
    Touch,
    Delete,
}

fn stamped(stamp: u32, bytes: usize) -> Box<[u8]> {
    let mut value = vec![stamp as u8; bytes];
    value[..4].copy_from_slice(&stamp.to_le_bytes());
    value.into()
}

fn stamp_of(value: &[u8]) -> u32 {
    assert!(value[4..].iter().all(|byte| *byte == value[0]), "a mix of two values");
    u32::from_le_bytes(value[..4].try_into().expect("four bytes"))
}

impl Command for Stamped {
    type Verdict = bool;

    fn needs(&self) -> Needs {
        match self {
            Self::Set(_) | Self::Delete => Needs::Nothing,
            Self::Touch => Needs::Value,
        }
    }

    fn bytes(&self) -> usize {
        0
    }

    fn decide<'s>(&'s self, present: Option<&Present<'s>>) -> (Change<'s>, bool) {
        match (self, present) {
            (Self::Set(value), _) => (Change::Put(Put::new(Value::Bytes(value))), true),
            (Self::Touch, Some(_)) => {
                let expiry_ms = Some(START_MS + 1_000_000_000);
                (Change::Edit(Edit { expiry_ms, ..Edit::default() }), true)
            }
            (Self::Touch, None) => (Change::Keep, false),
            (Self::Delete, _) => (Change::Remove, true),
        }
    }
}

/// What all threads know of a key: stamps that were begun, that were answered, and up to which all
/// are gone.
#[derive(Default)]
struct Known {
    answered: AtomicU32,
    /// What was answered when a flush or a delete began that has ended since.
    dead: AtomicU32,
}

/// What is not answered, of a key.
enum Awaited {
    /// The least stamp, and up to which all are gone, when it was asked.
    Get(usize, u32, u32),
    Set(usize, u32),
    /// What was answered when it was asked.
    Delete(usize, u32),
    Touch,
    /// What was answered of each key when it was asked.
    Flush(Vec<u32>),
}

/// A thread.
struct Racer<'t> {
    worker: Worker<MapKeys, Stamped>,
    files: &'t Mutex<MemoryDisk>,
    known: &'t [Known],
    names: &'t [Vec<u8>],
    number: usize,
    asked: BTreeMap<u64, Awaited>,
    callers: u64,
    random: u64,
}

/// What the threads do.
struct Load {
    keys: usize,
    value_bytes: usize,
    rounds: u32,
    flushes: bool,
    /// Records go though there is room.
    evicts: bool,
    /// To a ring, and else from a durable table.
    spills: bool,
    /// The ring would be opened again after a crash.
    recovers: bool,
}

impl Racer<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % bound
    }

    fn hear(&self, value: &[u8], at: usize, least: u32, dead: u32) {
        let stamp = stamp_of(value);
        assert!(stamp >= least, "key {at}: stamp {stamp} after {least} was answered");
        assert!(stamp > dead, "key {at}: stamp {stamp}, and all up to {dead} were removed");
    }

    fn get(&mut self, at: usize) {
        let known = &self.known[at];
        let dead = known.dead.load(Ordering::SeqCst);
        let least = known.answered.load(Ordering::SeqCst);
        self.callers += 1;
        let mut out = Vec::new();
        match self.worker.get(&self.names[at], self.callers, &mut out) {
            Got::Hit(_) => self.hear(&out, at, least, dead),
            Got::Large(pinned) => {
                let value = pinned.slices().collect::<Vec<_>>().concat();
                self.hear(&value, at, least, dead);
            }
            Got::Later => drop(self.asked.insert(self.callers, Awaited::Get(at, least, dead))),
            Got::Miss | Got::Busy => {}
            Got::Failed(error) => panic!("{error}"),
        }
    }

    fn poll(&mut self) {
        while let Some(Plan { token, action }) = self.worker.poll() {
            let outcome = base::sync::lock(self.files).perform(action);
            self.worker.complete(token, outcome);
        }
        for Answered { caller, answer } in taken(&mut self.worker) {
            let awaited = self.asked.remove(&caller).expect("it was asked");
            self.answered(awaited, answer);
        }
    }

    fn set(&mut self, at: usize, stamp: u32, load: &Load) {
        let bytes = 64 + self.below(load.value_bytes - 64);
        self.execute(at, &Stamped::Set(stamped(stamp, bytes)), Awaited::Set(at, stamp));
    }

    fn execute(&mut self, at: usize, command: &Stamped, awaited: Awaited) {
        self.callers += 1;
        match self.worker.execute(&self.names[at], self.callers, command, || command.clone()) {
            Asked::Now(answer) => self.answered(awaited, answer),
            Asked::Later => drop(self.asked.insert(self.callers, awaited)),
            Asked::Busy => {}
        }
    }

    fn answered(&self, awaited: Awaited, answer: Answer<bool>) {
        match (awaited, answer) {
            (Awaited::Get(at, least, dead), Answer::Value(Found { value, .. })) => {
                self.hear(&value, at, least, dead);
            }
            (Awaited::Set(at, stamp), Answer::Done { .. }) => {
                self.known[at].answered.store(stamp, Ordering::SeqCst);
            }
            (Awaited::Delete(at, stamp), Answer::Done { .. }) => {
                self.known[at].dead.fetch_max(stamp, Ordering::SeqCst);
            }
            // A set for which others have all the memory, and a touch of what was read.
            (Awaited::Get(..), Answer::Miss) | (Awaited::Touch, _) => {}
            (Awaited::Set(..), Answer::Failed(Error::NoMemory)) => {}
            (Awaited::Flush(before), Answer::Flushed) => {
                for (known, before) in self.known.iter().zip(before) {
                    known.dead.fetch_max(before, Ordering::SeqCst);
                }
            }
            (_, other) => panic!("{other:?}"),
        }
    }

    fn race(mut self, load: &Load, mut evictor: cache::Worker) {
        for stamp in 1..=load.rounds {
            if load.evicts {
                let at = self.below(load.keys);
                evictor.evict(evictor.key(&self.names[at]));
            }
            evictor.offline(|| {
                self.worker.quiesce();
                let own = self.below(load.keys / 2) * 2 + self.number;
                // Stamps of a key only grow: its thread is one.
                self.set(own, stamp, load);
                for _ in 0..3 {
                    let at = self.below(load.keys);
                    self.get(at);
                }
                if stamp % 7 == 0 {
                    let at = self.below(load.keys);
                    self.execute(at, &Stamped::Touch, Awaited::Touch);
                }
                if stamp % 11 == 0 {
                    let at = self.below(load.keys / 2) * 2 + self.number;
                    self.delete(at);
                }
                if stamp % 4 == 0 {
                    self.poll();
                }
                // Two at once now and then.
                let is_due = stamp.is_multiple_of(if self.number == 0 { 16 } else { 1024 });
                if load.flushes && is_due {
                    self.flush();
                }
            });
        }
        evictor.offline(|| {
            self.worker.quiesce();
            self.poll();
        });
    }

    fn delete(&mut self, at: usize) {
        let stamp = self.known[at].answered.load(Ordering::SeqCst);
        self.execute(at, &Stamped::Delete, Awaited::Delete(at, stamp));
    }

    fn flush(&mut self) {
        let before: Vec<u32> =
            self.known.iter().map(|known| known.answered.load(Ordering::SeqCst)).collect();
        self.callers += 1;
        match self.worker.flush(self.callers) {
            Asked::Now(answer) => self.answered(Awaited::Flush(before), answer),
            Asked::Later => drop(self.asked.insert(self.callers, Awaited::Flush(before))),
            Asked::Busy => {}
        }
    }
}

fn race(load: &Load) -> cache::VictimCounts {
    let ring = Ring { bytes_max: 12 << 20, recovers: load.recovers };
    let mut files = MemoryDisk::default();
    let (store, cache) = match load.spills {
        true => spilling(&mut files, ring),
        false => durable(&mut files),
    };
    let known: Vec<Known> = (0..load.keys).map(|_| Known::default()).collect();
    let names: Vec<_> = (0..load.keys).map(name).collect();
    let (files, start) = (Mutex::new(files), Barrier::new(2));
    let workers = [0, 1].map(|number| store.worker(number).expect("a place"));
    let evictors = [(); 2].map(|()| cache.worker().expect("a place"));
    std::thread::scope(|scope| {
        for (number, (worker, evictor)) in workers.into_iter().zip(evictors).enumerate() {
            let (files, known, names, start) = (&files, &known[..], &names[..], &start);
            let asked = BTreeMap::new();
            let random = 0x9e37_79b9_7f4a_7c15 + number as u64;
            let racer = Racer { worker, files, known, names, number, asked, callers: 0, random };
            scope.spawn(move || {
                start.wait();
                racer.race(load, evictor);
            });
        }
    });
    cache.victim_counts()
}

fn spilling(files: &mut MemoryDisk, ring: Ring) -> (Store<MapKeys, Stamped>, Cache) {
    let (engine, cache) = Table::made_of(files, Mode::Async, Some(ring), Clock::manual(START_MS));
    let store = Store::spilling(engine, cache.clone(), 2, Admission::All).expect("an empty ring");
    (store, cache)
}

fn durable(files: &mut MemoryDisk) -> (Store<MapKeys, Stamped>, Cache) {
    let (engine, cache) = Table::made_of(files, Mode::Async, None, Clock::manual(START_MS));
    (Store::new(engine, cache.clone(), 2), cache)
}

const EVICTING: Load = Load {
    keys: 8,
    value_bytes: 1000,
    rounds: 60_000,
    flushes: false,
    evicts: true,
    spills: true,
    recovers: false,
};

#[test]
fn what_was_flushed_is_never_heard_of_again_by_any_thread() {
    let counts = race(&Load { flushes: true, ..EVICTING });
    assert!(counts.noted > 1000, "hardly anything went: {counts:?}");
}

#[test]
fn what_was_flushed_of_a_durable_table_is_never_heard_of_again_by_any_thread() {
    // Where the machine has other work the threads do not meet in each.
    for evicts in [true, false, true, false, true, false] {
        race(&Load { flushes: true, spills: false, evicts, ..EVICTING });
    }
}

#[test]
fn threads_whose_sets_evict_hear_of_nothing_older() {
    let load = Load { keys: 250, value_bytes: 50_000, rounds: 100_000, ..EVICTING };
    for recovers in [false, true] {
        let counts = race(&Load { evicts: false, recovers, ..load });
        assert!(counts.noted > 100, "hardly anything went: {counts:?}");
    }
}

#[test]
fn threads_that_evict_hear_of_nothing_older() {
    for recovers in [false, true] {
        let counts = race(&Load { recovers, ..EVICTING });
        assert!(counts.noted > 1000, "hardly anything went: {counts:?}");
    }
}

/// A touch during which another worker flushes.
struct Overtaken<'f>(RefCell<&'f mut (dyn FnMut() + Send)>);

impl Command for Overtaken<'_> {
    type Verdict = bool;

    fn needs(&self) -> Needs {
        Needs::Value
    }

    fn bytes(&self) -> usize {
        0
    }

    fn decide<'s>(&'s self, present: Option<&Present<'s>>) -> (Change<'s>, bool) {
        self.0.borrow_mut()();
        (Change::Edit(Edit { expiry_ms: Some(0), ..Edit::default() }), present.is_some())
    }
}

#[test]
fn what_is_made_of_a_record_that_is_flushed_meanwhile_is_gone() {
    let mut files = MemoryDisk::default();
    let ring = Ring { bytes_max: 12 << 20, recovers: false };
    let (store, cache) = spilling(&mut files, ring);
    let [mut first, mut other] = [0, 1].map(|number| store.worker(number).expect("a place"));
    let mut evictor = cache.worker().expect("a place");
    for is_cold in [false, true] {
        let set = Stamped::Set(stamped(1, 100));
        first.execute(b"key", 0, &set, || set.clone());
        if is_cold {
            assert!(evictor.evict(evictor.key(b"key")));
        }
        let mut flush = || assert_eq!(other.flush(0), Asked::Now(Answer::Flushed));
        let touch = Overtaken(RefCell::new(&mut flush));
        let touched = first.execute(b"key", 0, &touch, || Stamped::Touch);
        assert!(matches!(touched, Asked::Now(Answer::Done { verdict: true, .. })), "{touched:?}");
        let got = first.get(b"key", 0, &mut Vec::new());
        assert!(matches!(got, Got::Miss), "it was flushed: {got:?}");
    }
}

#[test]
fn what_is_made_of_a_record_of_a_durable_table_that_is_flushed_meanwhile_is_gone() {
    let mut files = MemoryDisk::default();
    let (store, _) = durable(&mut files);
    let [mut first, mut other] = [0, 1].map(|number| store.worker(number).expect("a place"));
    let mut perform = |worker: &mut Worker<MapKeys, Stamped>| {
        while let Some(Plan { token, action }) = worker.poll() {
            worker.complete(token, files.perform(action));
        }
    };
    perform(&mut first);
    let set = Stamped::Set(stamped(1, 100));
    first.execute(b"key", 0, &set, || set.clone());
    let mut flush = || {
        assert_eq!(other.flush(1), Asked::Later);
        perform(&mut other);
        assert_eq!(taken(&mut other).pop().map(|it| it.answer), Some(Answer::Flushed));
    };
    let touch = Overtaken(RefCell::new(&mut flush));
    let touched = first.execute(b"key", 2, &touch, || Stamped::Touch);
    assert_eq!(touched, Asked::Later, "it is made of what was flushed");
    perform(&mut first);
    let answer = taken(&mut first).pop().map(|it| it.answer);
    assert!(matches!(answer, Some(Answer::Done { verdict: false, .. })), "{answer:?}");
    let got = first.get(b"key", 3, &mut Vec::new());
    assert!(matches!(got, Got::Miss), "it was flushed: {got:?}");
}
