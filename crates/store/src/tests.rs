//! A table on a disk in memory that does what it is told.

mod bounds;
mod ends;
mod flush;
mod large;
mod meanwhile;
mod memory_disk;
mod mends;
mod mode;
mod races;
mod spill;
mod threads;
mod turns;
mod volatile;
mod waking;

use base::clock::Clock;
use cache::{Cache, CacheConfig, Change, Edit, Put, Value};
use log::{
    engine::{Engine, Mode, New, Opening, Ring, Settings},
    format::{
        LogId,
        manifest::{IndexKind, Shape},
    },
    keys::MapKeys,
    plan::{Action, Disk, Failure, Outcome, Plan},
};

use self::memory_disk::MemoryDisk;
use crate::{
    Admission, Answer, Answered, Asked, Command, Error, Got, Needs, Present, Store, Worker,
};

/// What tests ask for.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Set(&'static [u8], u64),
    Add(&'static [u8]),
    Append(&'static [u8]),
    Touch(u64),
    Delete,
    /// Only what is there.
    DeleteIt,
    Uploaded,
    AddUploaded,
    /// Something happens, and it keeps the record.
    Meanwhile,
}

/// What a worker has been answered.
fn taken<C: Command>(worker: &mut Worker<MapKeys, C>) -> Vec<Answered<C::Verdict>> {
    let mut answers = Vec::new();
    worker.take_answers(&mut answers);
    answers
}

impl Command for Ask {
    type Verdict = bool;

    fn needs(&self) -> Needs {
        match self {
            Self::Set(..) | Self::Delete | Self::Uploaded => Needs::Nothing,
            Self::Add(_) | Self::AddUploaded | Self::DeleteIt => Needs::Fields,
            Self::Append(_) | Self::Touch(_) | Self::Meanwhile => Needs::Value,
        }
    }

    fn bytes(&self) -> usize {
        0
    }

    fn decide<'s>(&'s self, present: Option<&Present<'s>>) -> (Change<'s>, bool) {
        match (self, present) {
            (Self::Meanwhile, _) => {
                meanwhile::happens();
                (Change::Keep, true)
            }
            (Self::Set(value, expiry_ms), _) => {
                let put = Put { expiry_ms: *expiry_ms, ..Put::new(Value::Bytes(value)) };
                (Change::Put(put), true)
            }
            (Self::Add(value), None) => (Change::Put(Put::new(Value::Bytes(value))), true),
            (Self::Append(value), Some(_)) => (Change::Put(Put::new(Value::Append(value))), true),
            (Self::Touch(expiry_ms), Some(_)) => {
                (Change::Edit(Edit { expiry_ms: Some(*expiry_ms), ..Edit::default() }), true)
            }
            (Self::Delete, _) | (Self::DeleteIt, Some(_)) => (Change::Remove, true),
            (Self::Uploaded, _) | (Self::AddUploaded, None) => {
                (Change::Put(Put::new(Value::Uploaded)), true)
            }
            (
                Self::AddUploaded
                | Self::Add(_)
                | Self::Append(_)
                | Self::Touch(_)
                | Self::DeleteIt,
                _,
            ) => (Change::Keep, false),
        }
    }
}

/// A table with two workers.
struct Table {
    files: MemoryDisk,
    clock: Clock,
    cache: cache::Worker,
    workers: Vec<Worker<MapKeys, Ask>>,
    store: Store<MapKeys, Ask>,
}

const START_MS: u64 = 1_700_000_000_000;

impl Table {
    fn new() -> Self {
        Self::with(MemoryDisk::default(), Mode::Safe)
    }

    fn with(files: MemoryDisk, mode: Mode) -> Self {
        Self::made(files, mode, None)
    }

    fn made(mut files: MemoryDisk, mode: Mode, spill: Option<(Ring, Admission)>) -> Self {
        let clock = Clock::manual(START_MS);
        let ring = spill.map(|(ring, _)| ring);
        let (engine, cache) = Self::made_of(&mut files, mode, ring, clock.clone());
        let evictor = cache.worker().expect("a place");
        let store = match spill {
            None => Store::new(engine, cache, 2),
            Some((_, admission)) => {
                Store::spilling(engine, cache, 2, admission).expect("an empty ring")
            }
        };
        let workers = (0..2).map(|number| store.worker(number).expect("a place")).collect();
        let mut table = Self { files, clock, cache: evictor, workers, store };
        // The first segment is made.
        table.run();
        table
    }

    /// What a table is made of.
    fn made_of(
        files: &mut MemoryDisk,
        mode: Mode,
        ring: Option<Ring>,
        clock: Clock,
    ) -> (Engine<MapKeys>, Cache) {
        let shape = Shape {
            segment_bytes: 1 << 20,
            block_bytes: 4096,
            part_bytes: 1 << 17,
            entry_bytes: 0,
            index: IndexKind::Hash { seeds: [7; 128] },
        };
        let settings = Settings { mode, chunk_bytes: 1 << 18, chunks: 4, ..Settings::default() };
        let settings = Settings { ring, ..settings };
        let opening = Opening {
            directories: 1,
            new: New { log: LogId(1), shape },
            settings,
            now_ms: START_MS,
            progress: &mut |_| {},
        };
        let make = |_: &_| Ok(MapKeys::new(1 << 38));
        let (engine, _) = Engine::open(files, opening, make).expect("a log");
        let config = CacheConfig { writers: 1, ..CacheConfig::new(4 << 20) };
        let victim_bytes = if ring.is_some() { 1 << 20 } else { 0 };
        let config = CacheConfig { value_size_max: 50_000, victim_bytes, ..config };
        (engine, Cache::new(config, clock).expect("a cache"))
    }

    fn ask(&mut self, worker: usize, caller: u64, key: &[u8], ask: Ask) -> Asked<bool> {
        self.workers[worker].quiesce();
        self.workers[worker].execute(key, caller, &ask, || ask)
    }

    fn get(&mut self, worker: usize, caller: u64, key: &[u8]) -> (Got, Vec<u8>) {
        let mut out = Vec::new();
        self.workers[worker].quiesce();
        let got = self.workers[worker].get(key, caller, &mut out);
        (got, out)
    }

    /// The next read, which is not performed yet.
    fn next_read(&mut self, worker: usize) -> Plan {
        let plan = self.workers[worker].poll().expect("a plan");
        assert!(matches!(plan.action, Action::Read { .. }), "{plan:?}");
        plan
    }

    fn perform(&mut self, worker: usize, plan: Plan) {
        let outcome = self.files.perform(plan.action);
        self.workers[worker].complete(plan.token, outcome);
    }

    /// The next action of a worker, when the moves before it are done.
    fn poll(&mut self, worker: usize) -> Option<Plan> {
        let worker = &mut self.workers[worker];
        loop {
            let plan = worker.poll();
            if plan.is_some() || !worker.goes_on() {
                return plan;
            }
        }
    }

    /// Performs all that is to be done.
    fn run(&mut self) {
        for worker in 0..self.workers.len() {
            self.workers[worker].quiesce();
            while let Some(plan) = self.poll(worker) {
                self.cache.quiesce();
                self.workers.iter_mut().for_each(Worker::quiesce);
                self.perform(worker, plan);
            }
        }
    }

    fn evict(&mut self, key: &[u8]) {
        self.cache.quiesce();
        let removed = self.cache.update(self.cache.key(key), |_| Change::Remove.into());
        removed.expect("removing needs no memory");
    }

    /// Stores and flushes a value, and takes it out of memory.
    fn make_cold(&mut self, key: &[u8], value: &'static [u8]) {
        assert_eq!(self.ask(0, 0, key, Ask::Set(value, 0)), Asked::Later);
        self.run();
        assert_eq!(taken(&mut self.workers[0]).len(), 1);
        self.evict(key);
    }

    /// A key whose word is that of another.
    fn same_word(&self, key: &[u8]) -> [u8; 8] {
        let hash = |key: &[u8]| self.cache.key(key).hash() >> 40;
        let word = |key: &[u8]| hash(key) as usize % crate::limits::UNFLUSHED_SLOTS;
        let wanted = word(key);
        let other = (0..).map(|it: u64| it.to_le_bytes()).find(|it| word(it) == wanted);
        other.expect("one of many")
    }

    /// The answers of a worker: under which numbers, and the values.
    fn answers(&mut self, worker: usize) -> Vec<(u64, Option<Vec<u8>>)> {
        let value = |Answered { caller, answer }| match answer {
            Answer::Value(found) => (caller, Some(found.value.to_vec())),
            Answer::Miss | Answer::Done { verdict: false, .. } => (caller, None),
            Answer::Done { .. } | Answer::Flushed => (caller, Some(b"done".to_vec())),
            Answer::Failed(error) => (caller, Some(format!("{error}").into_bytes())),
        };
        taken(&mut self.workers[worker]).into_iter().map(value).collect()
    }

    /// What a key is, read from wherever.
    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.run();
        drop(self.answers(0));
        match self.get(0, 99, key) {
            (Got::Hit(_), out) => Some(out),
            (Got::Large(pinned), _) => Some(pinned.slices().flatten().copied().collect()),
            (Got::Miss, _) => None,
            (Got::Later, _) => {
                self.run();
                let answers = self.answers(0);
                assert_eq!(answers.len(), 1);
                answers.into_iter().next().and_then(|(_, value)| value)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Lengths of names: those that memory compares each in its own way.
const NAME_BYTES: [usize; 5] = [3, 8, 12, 16, 24];

/// What a number is called as a key. `MapKeys` tells keys apart by fifteen bytes and their length.
fn name(number: usize) -> Vec<u8> {
    let mut name = vec![b'k'; NAME_BYTES[number % NAME_BYTES.len()]];
    let place = name.len().min(15) - 3;
    name[place..place + 3].copy_from_slice(&(number as u32).to_le_bytes()[..3]);
    name
}

fn done(caller: u64) -> (u64, Option<Vec<u8>>) {
    (caller, Some(b"done".to_vec()))
}

#[test]
fn a_write_is_answered_when_it_is_flushed_and_what_saw_it_no_sooner() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Later);
    let (got, _) = table.get(1, 2, b"k");
    assert!(matches!(got, Got::Later), "what is not flushed is told: {got:?}");
    assert_eq!(table.ask(1, 3, b"k", Ask::Add(b"other")), Asked::Later);
    assert_eq!((table.answers(0), table.answers(1)), (vec![], vec![]));
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    assert_eq!(table.answers(1), [(2, Some(b"v".to_vec())), (3, None)]);
    let (got, out) = table.get(1, 4, b"k");
    assert!(matches!(got, Got::Hit(_)) && out == b"v", "{got:?}");
    // A removal as well: who finds nothing must not tell so before.
    assert_eq!(table.ask(0, 5, b"k", Ask::Delete), Asked::Later);
    assert!(matches!(table.get(1, 6, b"k").0, Got::Later));
    table.run();
    assert_eq!((table.answers(0), table.answers(1)), (vec![done(5)], vec![(6, None)]));
    assert!(matches!(table.get(1, 7, b"k").0, Got::Miss));
}

#[test]
fn in_async_nothing_waits_and_a_switch_to_safe_makes_it() {
    let mut table = Table::with(MemoryDisk::default(), Mode::Async);
    assert!(matches!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Now(Answer::Done { .. })));
    assert!(matches!(table.get(1, 2, b"k").0, Got::Hit(_)));
    assert_eq!(table.store.set_mode(Mode::Safe), 0..2);
    assert!(matches!(table.get(1, 3, b"k").0, Got::Later), "it is not flushed");
    table.run();
    assert_eq!(table.answers(1), [(3, Some(b"v".to_vec()))]);
}

#[test]
fn those_who_want_one_cold_record_share_a_read() {
    let mut table = Table::new();
    table.make_cold(b"k", b"v");
    for caller in 1..4 {
        assert!(matches!(table.get(0, caller, b"k").0, Got::Later));
    }
    assert!(matches!(table.get(1, 4, b"k").0, Got::Later));
    let plan = table.next_read(0);
    assert!(table.workers[0].poll().is_none() && table.workers[1].poll().is_none());
    table.perform(0, plan);
    let value = |caller| (caller, Some(b"v".to_vec()));
    assert_eq!(table.answers(0), [value(1), value(2), value(3)]);
    assert_eq!(table.workers[0].take_wakes().collect::<Vec<_>>(), [1]);
    assert_eq!(table.answers(1), [value(4)]);
    assert!(matches!(table.get(1, 5, b"k").0, Got::Hit(_)), "the read has filled memory");
    assert_eq!(table.workers[0].figures().reads, 1);
}

#[test]
fn a_read_that_was_overtaken_is_told_and_does_not_fill() {
    let mut table = Table::new();
    table.make_cold(b"k", b"old");
    assert!(matches!(table.get(0, 1, b"k").0, Got::Later));
    let plan = table.next_read(0);
    assert_eq!(table.ask(1, 2, b"k", Ask::Set(b"new", 0)), Asked::Later);
    table.evict(b"k");
    // It does not wait for the read of what was.
    assert!(matches!(table.get(1, 3, b"k").0, Got::Later));
    table.perform(0, plan);
    assert_eq!(table.answers(0), [(1, Some(b"old".to_vec()))]);
    table.evict(b"other");
    table.run();
    assert_eq!(table.answers(1), [done(2), (3, Some(b"new".to_vec()))]);
    assert_eq!(table.value(b"k"), Some(b"new".to_vec()), "an old copy is in memory");
    assert_eq!(table.workers[0].figures().fills_refused, 1);
}

#[test]
fn changes_of_a_cold_record_are_made_one_on_the_other_in_their_order() {
    let mut table = Table::new();
    table.make_cold(b"k", b"a");
    assert_eq!(table.ask(0, 1, b"k", Ask::Append(b"b")), Asked::Later);
    assert_eq!(table.ask(1, 2, b"k", Ask::Append(b"c")), Asked::Later);
    assert!(matches!(table.get(0, 3, b"k").0, Got::Later));
    assert_eq!(table.ask(0, 4, b"k", Ask::Set(b"d", 0)), Asked::Later);
    assert_eq!(table.ask(0, 5, b"k", Ask::Append(b"e")), Asked::Later);
    let plan = table.next_read(0);
    assert!(table.workers[0].poll().is_none(), "one read is enough");
    table.perform(0, plan);
    table.run();
    assert_eq!(table.answers(0), [done(1), (3, Some(b"abc".to_vec())), done(4), done(5)]);
    assert_eq!(table.answers(1), [done(2)]);
    assert_eq!(table.value(b"k"), Some(b"de".to_vec()), "an update was lost");
}

#[test]
fn a_read_that_fails_is_told_and_a_set_behind_it_is_made() {
    let mut table = Table::new();
    table.make_cold(b"k", b"a");
    assert_eq!(table.ask(0, 1, b"k", Ask::Append(b"b")), Asked::Later);
    assert_eq!(table.ask(0, 2, b"k", Ask::Set(b"c", 0)), Asked::Later);
    assert_eq!(table.ask(0, 3, b"k", Ask::Append(b"d")), Asked::Later);
    let Plan { token, action: Action::Read { buffer, .. } } = table.next_read(0) else {
        panic!("no read")
    };
    table.workers[0].complete(token, Outcome::Failed(Failure::NotFound, Some(buffer)));
    table.run();
    let answers = table.answers(0);
    let (caller, text) = &answers[0];
    let text = String::from_utf8_lossy(text.as_deref().unwrap_or_default());
    assert!(*caller == 1 && text.starts_with("could not read"), "{text}");
    assert_eq!(answers[1..], [done(2), done(3)]);
    assert_eq!(table.value(b"k"), Some(b"cd".to_vec()));
}

#[test]
fn what_memory_cannot_take_it_does_not_keep_an_older_copy_of() {
    static LARGE: [u8; 60_000] = [b'x'; 60_000];
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"old", 0)), Asked::Later);
    assert_eq!(table.ask(0, 2, b"k", Ask::Set(&LARGE, 0)), Asked::Later);
    assert!(table.value(b"k") == Some(LARGE.to_vec()), "an old copy is in memory");
}

#[test]
fn what_has_expired_is_not_there_and_is_not_read() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", START_MS + 1000)), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(1)]);
    // A touch keeps the token, and goes through the log.
    let token = |got| if let Got::Hit(meta) = got { meta.token } else { panic!("{got:?}") };
    let before = token(table.get(0, 2, b"k").0);
    assert_eq!(table.ask(0, 3, b"k", Ask::Touch(START_MS + 2000)), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [done(3)]);
    assert_eq!(token(table.get(0, 4, b"k").0), before);
    table.evict(b"k");
    table.clock.advance_ms(1500);
    assert_eq!(table.value(b"k"), Some(b"v".to_vec()));
    table.clock.advance_ms(1000);
    assert!(matches!(table.get(0, 5, b"k").0, Got::Miss), "memory knows");
    table.evict(b"k");
    assert_eq!(table.ask(0, 6, b"k", Ask::Append(b"w")), Asked::Later);
    assert_eq!(table.ask(0, 7, b"k", Ask::Add(b"new")), Asked::Later);
    table.run();
    assert_eq!(table.answers(0), [(6, None), done(7)]);
    assert_eq!(table.value(b"k"), Some(b"new".to_vec()));
}

#[test]
fn what_was_stored_is_there_after_the_log_is_opened_again() {
    let mut table = Table::new();
    assert_eq!(table.ask(0, 1, b"k", Ask::Set(b"v", 0)), Asked::Later);
    table.run();
    let files = std::mem::take(&mut table.files);
    let mut again = Table::with(files, Mode::Safe);
    assert_eq!(again.value(b"k"), Some(b"v".to_vec()));
    assert_eq!(again.value(b"other"), None);
}

#[test]
fn impossible_keys_and_values_are_refused() {
    static LARGE: [u8; 200_000] = [0; 200_000];
    let mut table = Table::new();
    let key = [b'k'; 251];
    assert!(matches!(table.get(0, 1, &key).0, Got::Failed(Error::KeyBytes { got: 251 })));
    let refused = table.ask(0, 2, b"", Ask::Set(b"v", 0));
    assert_eq!(refused, Asked::Now(Answer::Failed(Error::KeyBytes { got: 0 })));
    let refused = table.ask(0, 3, b"k", Ask::Set(&LARGE, 0));
    let error = Error::ValueBytes { got: 200_000, max: 1 << 17 };
    assert_eq!(refused, Asked::Now(Answer::Failed(error)));
    assert!(matches!(table.get(0, 4, b"k").0, Got::Miss));
}

#[test]
fn so_many_wait_and_who_is_refused_has_done_nothing() {
    let mut table = Table::new();
    table.make_cold(b"k", b"a");
    let mut later = 0;
    while table.ask(0, later, b"k", Ask::Append(b"b")) == Asked::Later {
        later += 1;
    }
    assert_eq!(later, crate::limits::PENDING_MAX as u64);
    assert!(matches!(table.get(0, later, b"k").0, Got::Busy));
    assert_eq!(table.ask(1, 0, b"other", Ask::Add(b"c")), Asked::Later, "another worker may");
    table.run();
    let answers = table.answers(0);
    let failed = answers.iter().find(|(_, text)| text.as_deref() != Some(b"done"));
    assert_eq!((answers.len() as u64, failed), (later, None));
    assert_eq!(table.value(b"k").map(|value| value.len() as u64), Some(later + 1));
}
