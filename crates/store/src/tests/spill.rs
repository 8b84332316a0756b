//! Tables that spill.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;

/// A table over a ring of so many segments of 1 MiB.
fn table(segments: u64, recovers: bool, admission: Admission) -> Table {
    let ring = Ring { bytes_max: segments << 20, recovers };
    Table::made(MemoryDisk::default(), Mode::Async, Some((ring, admission)))
}

/// A value by its length.
fn value(bytes: usize) -> &'static [u8] {
    &[b'v'; 4000][..bytes]
}

impl Table {
    /// Stores, as fast as the disk does.
    fn fill(&mut self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let key = number.to_be_bytes();
            let stored = self.ask(0, 0, &key, Ask::Set(value(2000 + number % 1000), 0));
            assert!(matches!(stored, Asked::Now(Answer::Done { verdict: true, .. })), "{stored:?}");
            if number % 50 == 0 {
                self.run();
            }
        }
        self.run();
    }

    fn lengths(&mut self, numbers: std::ops::Range<usize>) -> Vec<Option<usize>> {
        numbers.map(|it| self.value(&it.to_be_bytes()).map(|value| value.len())).collect()
    }

    /// A record has to go.
    fn spill(&mut self, key: &[u8]) {
        self.cache.quiesce();
        assert!(self.cache.evict(self.cache.key(key)), "it is not in memory");
        self.run();
    }
}

#[test]
fn a_set_larger_than_memory_is_kept() {
    for recovers in [false, true] {
        let mut table = table(40, recovers, Admission::All);
        table.fill(0..8000);
        let wanted: Vec<_> = (0..8000).map(|it| Some(2000 + it % 1000)).collect();
        assert_eq!(table.lengths(0..8000), wanted);
        let figures = table.workers[0].figures();
        assert!(figures.spills > 4000 && figures.reads > 4000, "{figures:?}");
        assert_eq!((figures.spills_refused, figures.reads_failed), (0, 0));
        assert_eq!(table.cache.cache().victim_counts().lost, 0);
    }
}

#[test]
fn a_ring_that_is_too_small_loses_what_is_oldest() {
    let mut table = table(10, true, Admission::All);
    table.fill(0..12_000);
    let figures = table.workers[0].figures();
    assert_eq!((figures.spills_refused, figures.reads_failed), (0, 0));
    let dropped = table.store.with_log(|log| log.counts().values_dropped);
    assert!(dropped > 4000, "{dropped} were dropped");
    let there = table.lengths(0..12_000);
    assert!(there[..4000].iter().all(Option::is_none), "the oldest are there");
    assert!(there[10_500..].iter().all(Option::is_some), "some of the newest are lost");
}

#[test]
fn what_was_written_or_removed_leaves_nothing_older_anywhere() {
    for recovers in [false, true] {
        let mut table = table(10, recovers, Admission::All);
        for (ask, then) in [
            (Ask::Set(b"new", 0), Some(b"new".to_vec())),
            (Ask::Append(b"+"), Some(b"old+".to_vec())),
            (Ask::Touch(0), Some(b"old".to_vec())),
            (Ask::Add(b"new"), Some(b"old".to_vec())),
            (Ask::Delete, None),
        ] {
            table.ask(0, 1, b"key", Ask::Set(b"old", 0));
            table.spill(b"key");
            table.ask(0, 2, b"key", ask);
            table.run();
            drop(table.answers(0));
            assert_eq!(table.value(b"key"), then, "{ask:?}");
            // It went before it could be written.
            table.evict(b"key");
            let left = if matches!(ask, Ask::Add(_)) { then } else { None };
            assert_eq!(table.value(b"key"), left, "something older came back after {ask:?}");
            table.ask(0, 3, b"key", Ask::Delete);
            table.run();
            drop(table.answers(0));
        }
    }
}

#[test]
fn what_nobody_has_read_is_not_admitted_where_it_has_to_be_seen() {
    let mut table = table(10, false, Admission::Seen);
    for key in [b"seen", b"none"] {
        table.ask(0, 1, key, Ask::Set(b"value", 0));
    }
    assert_eq!(table.value(b"seen"), Some(b"value".to_vec()));
    table.spill(b"seen");
    table.spill(b"none");
    assert_eq!(table.value(b"seen"), Some(b"value".to_vec()));
    assert_eq!(table.value(b"none"), None);
    let figures = table.workers[0].figures();
    let other = table.workers[1].figures();
    assert_eq!(figures.spills + other.spills, 1);
    assert_eq!(figures.spills_unseen + other.spills_unseen, 1);
}

#[test]
fn a_flush_leaves_nothing_and_a_ring_that_recovers_has_none() {
    let mut table = table(10, false, Admission::All);
    for key in [&b"ring"[..], b"queue", b"memory"] {
        table.ask(0, 1, key, Ask::Set(b"value", 0));
    }
    table.spill(b"ring");
    table.cache.quiesce();
    assert!(table.cache.evict(table.cache.key(b"queue")));
    assert_eq!(table.workers[0].flush(0), Asked::Now(Answer::Flushed));
    for key in [&b"ring"[..], b"queue", b"memory"] {
        assert_eq!(table.value(key), None);
    }
    table.ask(0, 1, b"ring", Ask::Set(b"new", 0));
    table.spill(b"ring");
    assert_eq!(table.value(b"ring"), Some(b"new".to_vec()));
    let mut table = self::table(10, true, Admission::All);
    let refused = Asked::Now(Answer::Failed(Error::NoFlush));
    assert_eq!(table.workers[0].flush(0), refused);
}

/// Threads that set keys, each its own, and hear of all.
struct Setter<'t> {
    worker: Worker<MapKeys, Ask>,
    files: &'t Mutex<MemoryDisk>,
    own: usize,
    /// The longest value of each key that was answered.
    heard: &'t [AtomicUsize; KEYS],
    /// Gets that are not answered: what was there for certain when they were asked.
    asked: BTreeMap<u64, usize>,
}

impl Setter<'_> {
    /// Sets longer and longer values. Records go out of memory all the time.
    fn set_often(mut self, mut evictor: cache::Worker) {
        for length in 1..LENGTHS {
            evictor.evict(evictor.key(&name(length % KEYS)));
            // A thread that is two must not wait for itself.
            evictor.offline(|| self.set_and_get(length));
        }
    }

    fn set_and_get(&mut self, length: usize) {
        let worker = &mut self.worker;
        worker.quiesce();
        for at in (0..KEYS).filter(|at| at % 2 == self.own) {
            let ask = Ask::Set(value(length), 0);
            let set = worker.execute(&name(at), 0, &ask, || ask);
            assert!(matches!(set, Asked::Now(Answer::Done { verdict: true, .. })), "{set:?}");
            self.heard[at].store(length, Ordering::Release);
        }
        for (at, heard) in self.heard.iter().enumerate() {
            let (caller, least) = ((length * KEYS + at) as u64, heard.load(Ordering::Acquire));
            let mut out = Vec::new();
            match worker.get(&name(at), caller, &mut out) {
                Got::Hit(_) => assert!(out.len() >= least, "{} after {least}", out.len()),
                Got::Later => drop(self.asked.insert(caller, least)),
                _ => {}
            }
        }
        while let Some(plan) = worker.poll() {
            let outcome = base::sync::lock(self.files).perform(plan.action);
            worker.complete(plan.token, outcome);
        }
        for Answered { caller, answer } in taken(worker) {
            let least = self.asked.remove(&caller).expect("it was asked");
            if let Answer::Value(found) = answer {
                assert!(found.value.len() >= least, "{} after {least}", found.value.len());
            }
        }
    }
}

const KEYS: usize = 6;
const LENGTHS: usize = 3000;

#[test]
fn threads_hear_of_nothing_older_while_records_go_to_the_ring() {
    let mut table = table(10, false, Admission::All);
    let files = Mutex::new(std::mem::take(&mut table.files));
    let workers: Vec<_> = table.workers.drain(..).collect();
    let heard = std::array::from_fn(|_| AtomicUsize::new(0));
    let (files, heard) = (&files, &heard);
    let evictors = [(); 2].map(|()| table.cache.cache().worker().expect("a place"));
    table.cache.offline(|| {
        std::thread::scope(|scope| {
            for (own, (worker, evictor)) in workers.into_iter().zip(evictors).enumerate() {
                let setter = Setter { worker, files, own, heard, asked: BTreeMap::new() };
                scope.spawn(move || setter.set_often(evictor));
            }
        });
    });
    let counts = table.cache.cache().victim_counts();
    assert!(counts.noted > 1000 && counts.overtaken > 100, "hardly anything went: {counts:?}");
}

#[test]
fn a_large_value_that_others_send_is_copied_and_nobody_waits() {
    let mut table = table(10, false, Admission::All);
    let long: &'static [u8] = &[b'l'; 45_000];
    let mut pins = Vec::new();
    for number in 0..40_usize {
        let key = number.to_be_bytes();
        table.ask(0, 0, &key, Ask::Set(long, 0));
        if let (Got::Large(pinned), _) = table.get(0, 1, &key) {
            pins.push(pinned);
        }
    }
    assert!((10..40).contains(&pins.len()), "{} are pinned", pins.len());
    drop(table.answers(0));
    let (got, _) = table.get(0, 7, &39_usize.to_be_bytes());
    assert!(matches!(got, Got::Later), "{got:?}");
    assert_eq!(table.store.waiting(), (0, 0), "who sends a value is waited for");
    assert_eq!(table.answers(0), [(7, Some(long.to_vec()))]);
}

#[test]
fn a_key_that_somebody_has_does_not_hold_up_what_waits_behind_it() {
    let mut table = table(10, false, Admission::All);
    for key in [b"one", b"two"] {
        table.ask(0, 0, key, Ask::Set(b"value", 0));
        table.cache.quiesce();
        assert!(table.cache.evict(table.cache.key(key)));
    }
    let at = table.store.shared.lock_of(table.cache.key(b"one").hash());
    assert_ne!(at, table.store.shared.lock_of(table.cache.key(b"two").hash()));
    let shared = std::sync::Arc::clone(&table.store.shared);
    let place = shared.key_lock(at).try_lock().expect("nobody has it");
    table.run();
    assert_eq!(table.workers[0].figures().spills + table.workers[1].figures().spills, 1);
    drop(place);
    table.run();
    assert_eq!(table.workers[0].figures().spills + table.workers[1].figures().spills, 2);
}

#[test]
fn a_ring_of_another_run_is_no_empty_one() {
    let ring = Ring { bytes_max: 10 << 20, recovers: false };
    let Table { mut files, mut cache, mut workers, store, .. } = {
        let mut table = table(10, false, Admission::All);
        table.ask(0, 0, b"key", Ask::Set(b"value", 0));
        table.spill(b"key");
        table
    };
    cache.quiesce();
    workers.clear();
    assert_eq!(store.close(&mut files), Ok(()));
    let (engine, cache) =
        Table::made_of(&mut files, Mode::Async, Some(ring), Clock::manual(START_MS));
    let made = Store::<_, Ask>::spilling(engine, cache, 2, Admission::All);
    assert_eq!(made.err(), Some(Error::NotEmpty));
}

#[test]
fn what_was_read_and_then_touched_was_seen() {
    let mut table = table(10, false, Admission::Seen);
    for is_in_ring in [false, true] {
        table.ask(0, 0, b"key", Ask::Set(b"value", 0));
        assert_eq!(table.value(b"key"), Some(b"value".to_vec()));
        if is_in_ring {
            table.spill(b"key");
        }
        table.ask(0, 1, b"key", Ask::Touch(0));
        table.run();
        drop(table.answers(0));
        table.spill(b"key");
        table.evict(b"key");
        assert_eq!(table.value(b"key"), Some(b"value".to_vec()), "it was thrown away as unseen");
    }
}

#[test]
fn what_is_too_long_for_the_ring_is_counted() {
    let mut table = table(10, false, Admission::All);
    table.cache.cache().limit_victims(3000);
    table.ask(0, 0, b"key", Ask::Set(value(3500), 0));
    table.spill(b"key");
    assert_eq!(table.value(b"key"), None);
    assert_eq!(table.cache.cache().victim_counts().long, 1);
}

/// What is lost of a ring may have been a tombstone.
#[test]
fn a_ring_that_recovers_and_is_damaged_is_no_table() {
    let ring = Ring { bytes_max: 10 << 20, recovers: true };
    let Table { mut files, mut cache, mut workers, store, .. } = {
        let mut table = table(10, true, Admission::All);
        table.fill(0..4000);
        table
    };
    cache.quiesce();
    workers.clear();
    assert_eq!(store.close(&mut files), Ok(()));
    for expected in [None, Some(Error::Damaged)] {
        let (engine, cache) =
            Table::made_of(&mut files, Mode::Async, Some(ring), Clock::manual(START_MS));
        let made = Store::<_, Ask>::spilling(engine, cache, 2, Admission::All);
        assert_eq!(made.err(), expected);
        files.lose_segment();
    }
}

/// What the ring had is older than the set that failed: it is gone, and that is counted.
#[test]
fn a_set_that_memory_has_no_room_for_leaves_nothing_of_what_the_ring_had() {
    let (mut files, clock) = (MemoryDisk::default(), Clock::manual(START_MS));
    let ring = Ring { bytes_max: 10 << 20, recovers: false };
    let (engine, _) = Table::made_of(&mut files, Mode::Async, Some(ring), clock.clone());
    // Nothing is evicted but what the test has evicted.
    let config = CacheConfig { writers: 1, evicts: false, ..CacheConfig::new(4 << 20) };
    let config = CacheConfig { value_size_max: 50_000, victim_bytes: 1 << 20, ..config };
    let cache = Cache::new(config, clock.clone()).expect("a cache");
    let evictor = cache.worker().expect("a place");
    let store = Store::spilling(engine, cache, 2, Admission::All).expect("an empty ring");
    let workers = (0..2).map(|number| store.worker(number).expect("a place")).collect();
    let mut table = Table { files, clock, cache: evictor, workers, store };
    table.run();
    table.ask(0, 0, b"key", Ask::Set(b"old", 0));
    table.spill(b"key");
    let failed = Asked::Now(Answer::Failed(Error::NoMemory));
    let long: &'static [u8] = &[b'l'; 45_000];
    let full = (0..1000_usize)
        .find(|number| table.ask(0, 0, &number.to_be_bytes(), Ask::Set(long, 0)) == failed);
    assert!(full.is_some(), "there is no end to memory");
    assert_eq!(table.workers[0].figures().spills_failed, 0, "the ring had nothing of these keys");
    assert_eq!(table.ask(0, 0, b"key", Ask::Set(long, 0)), failed);
    assert_eq!(table.workers[0].figures().spills_failed, 1);
    assert_eq!(table.value(b"key"), None, "an older value came back");
}

#[test]
fn when_a_ring_that_recovers_takes_no_writes_only_what_it_has_is_an_error() {
    let mut table = table(10, true, Admission::All);
    for key in [&b"kept"[..], b"set", b"gone"] {
        table.ask(0, 1, key, Ask::Set(b"old", 0));
        table.spill(key);
    }
    // Their tombstones are flushed in time.
    table.ask(0, 2, b"set", Ask::Set(b"new", 0));
    table.ask(0, 3, b"gone", Ask::Delete);
    for _ in 0..4 {
        table.clock.advance_ms(2000);
        table.run();
    }
    drop(table.answers(0));
    for failures in 1..=2 {
        let key = [failures as u8; 3];
        table.ask(0, 4, &key, Ask::Set(b"lost", 0));
        table.spill_to_a_failing_disk(&key, failures);
    }
    assert!(table.store.with_log(|log| log.is_read_only()));
    let done = |asked: &Asked<_>| matches!(asked, Asked::Now(Answer::Done { .. }));
    for key in [&b"set"[..], b"gone", b"never"] {
        for ask in [Ask::Set(b"newer", 0), Ask::Delete, Ask::Delete] {
            let asked = table.ask(0, 5, key, ask);
            assert!(done(&asked), "{ask:?} of {key:?}: {asked:?}");
        }
    }
    for ask in [Ask::Set(b"newer", 0), Ask::Delete] {
        let asked = table.ask(0, 6, b"kept", ask);
        let error = Error::Log(log::error::Error::ReadOnly);
        assert_eq!(asked, Asked::Now(Answer::Failed(error)), "a crash brings it back");
    }
    assert_eq!(table.value(b"kept"), Some(b"old".to_vec()));
}

#[test]
fn what_a_ring_could_not_flush_is_a_miss() {
    for mode in [Mode::Async, Mode::Safe] {
        let ring = Ring { bytes_max: 10 << 20, recovers: true };
        let mut table = Table::made(MemoryDisk::default(), mode, Some((ring, Admission::All)));
        for failures in 1..=2 {
            let key = [failures as u8; 3];
            table.ask(0, 4, &key, Ask::Set(b"lost", 0));
            table.spill_to_a_failing_disk(&key, failures);
        }
        assert!(table.store.with_log(|log| log.is_read_only()));
        // Nothing older was anywhere.
        for _ in 0..2 {
            let (got, _) = table.get(0, 5, &[2; 3]);
            assert!(
                matches!(got, Got::Miss),
                "in {mode:?} a record of a cache is an error: {got:?}"
            );
        }
    }
}

#[test]
fn what_replaces_a_record_of_a_ring_that_takes_no_writes_is_told_when_its_tombstone_is_flushed() {
    let ring = Ring { bytes_max: 10 << 20, recovers: true };
    let made = Some((ring, Admission::All));
    let mut table = Table::made(MemoryDisk::default(), Mode::Safe, made);
    let name = |turn: u64| [b"key".as_slice(), &turn.to_le_bytes()].concat();
    for turn in 0..40 {
        table.ask(0, 1, &name(turn), Ask::Set(b"old", 0));
        table.spill(&name(turn));
    }
    table.ask(0, 1, b"first", Ask::Set(b"lost", 0));
    table.spill_to_a_failing_disk(b"first", 1);
    let mut last = 0;
    let failing = table.write_two_segments(|table, turn| {
        for number in 0..40_u64 {
            let key = (turn * 40 + number).to_be_bytes();
            table.ask(0, 2, &key, Ask::Set(value(3000), 0));
            table.cache.quiesce();
            assert!(table.cache.evict(table.cache.key(&key)), "it is not in memory");
        }
        // All of it is in the log, and some of it in a chunk that the tombstone comes to as well.
        let plans = table.workers[0].poll().into_iter().collect();
        last = turn;
        assert_eq!(table.ask(0, 3, &name(turn), Ask::Set(b"new", 0)), Asked::Later);
        plans
    });
    assert!(matches!(table.get(1, 6, &name(last)).0, Got::Later));
    let other = table.fail_flush_of(failing);
    assert!(table.store.with_log(|log| log.is_read_only()));
    drop(table.answers(0));
    assert!(matches!(table.get(1, 7, &name(last)).0, Got::Later));
    assert_eq!(table.answers(1), [], "a crash brings the old one back");
    table.perform(0, other);
    table.run();
    let new = |caller| (caller, Some(b"new".to_vec()));
    assert_eq!(table.answers(1), [new(6), new(7)], "what is durable is an error");
}

impl Table {
    /// A record goes to the ring, and its flush fails: so many have then.
    fn spill_to_a_failing_disk(&mut self, key: &[u8], failures: u32) {
        self.cache.quiesce();
        assert!(self.cache.evict(self.cache.key(key)), "it is not in memory");
        while self.store.with_log(|log| log.setbacks().1 < failures) {
            self.workers.iter_mut().for_each(Worker::quiesce);
            match self.workers[0].poll() {
                Some(Plan { token, action: Action::Flush { .. } }) => {
                    self.workers[0].complete(token, Outcome::Failed(Failure::NotFound, None));
                }
                Some(plan) => self.perform(0, plan),
                None => self.clock.advance_ms(500),
            }
        }
        self.run();
    }
}
