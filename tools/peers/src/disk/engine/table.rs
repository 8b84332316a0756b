//! The durable table of this repository: records in memory over the log, each thread performing the
//! log's actions when it has waited for them. For gets of what is in memory: nothing here writes
//! behind anybody's back.

use std::{
    io,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base::clock::Clock;
use cache::{Cache, CacheConfig, Change, Meta, Output, Value};
use kelvin_log::{
    Files, Options,
    engine::{Mode, Settled},
    format::{LogId, manifest::IndexKind},
    index::{IndexLimits, Keyed},
};
use store::{Answer, Answered, Asked, Command, Got, Needs, Present, Store, Worker};

use super::{BATCH, Engine, Kind, Session, Setup, kelvin};
use crate::random::Random;

/// Threads of a run, at most.
const WORKERS: usize = 64;

/// Bytes that memory has for a record beside its value, and in all beside records.
const RECORD_BYTES: u64 = 128;
const BESIDE_BYTES: u64 = 64 << 20;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gets between two words to the cache that the thread holds nothing.
const GETS_A_TURN: u32 = 32;

/// As strings of four bytes, everything in memory that was read.
pub(super) const TABLE: Kind =
    Kind { name: "kelvin-table", keeps_reads: true, open, ..kelvin::HASH };

/// What becomes of a record.
#[derive(Debug)]
enum Deed<B> {
    Put(B),
    Remove,
}

impl<B: AsRef<[u8]> + Send> Command for Deed<B> {
    type Verdict = ();

    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Put(value) => value.as_ref().len(),
            Self::Remove => 0,
        }
    }

    fn decide<'s>(&'s self, _: Option<&Present<'s>>) -> (Change<'s>, ()) {
        let change = match self {
            Self::Put(value) => Change::Put(cache::Put::new(Value::Bytes(value.as_ref()))),
            Self::Remove => Change::Remove,
        };
        (change, ())
    }
}

type Kept = Deed<Vec<u8>>;

struct Table {
    store: Store<Keyed, Kept>,
    files: Files,
    /// Numbers of workers that nobody is.
    free: Mutex<Vec<usize>>,
    settings: String,
}

/// A thread's access.
struct TableSession<'a> {
    table: &'a Table,
    worker: Option<Worker<Keyed, Kept>>,
    number: usize,
    gets: u32,
}

/// Where a value goes.
struct Place<'a> {
    out: &'a mut [u8],
    spare: &'a mut Vec<u8>,
}

impl Output for Place<'_> {
    #[inline]
    fn begin(&mut self, meta: &Meta) -> &mut [u8] {
        let bytes = meta.value_len as usize;
        if bytes <= self.out.len() {
            return self.out;
        }
        // The fields may be torn.
        self.spare.resize(bytes, 0);
        self.spare
    }
}

fn open(setup: &Setup<'_>) -> io::Result<Box<dyn Engine>> {
    let mut random = Random::new(0);
    let seeds = std::array::from_fn(|_| random.next() as u8);
    let mut options = Options::new(setup.directory, IndexKind::Hash { seeds }, 0);
    options.settings.mode = if setup.is_safe { Mode::Safe } else { Mode::Async };
    let clock = Clock::system();
    options.clock = clock.clone();
    let limits = IndexLimits { kmax_limit: 0, entries_max: setup.records.into() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (engine, files, _) =
        kelvin_log::blocking::open(&options, LogId(now), limits, &mut |_| {}).map_err(failed)?;
    let memory_bytes =
        u64::from(setup.records) * (setup.value_bytes as u64 * 5 / 4 + RECORD_BYTES) + BESIDE_BYTES;
    let cache = Cache::new(CacheConfig::new(memory_bytes), clock).map_err(failed)?;
    let table = Table {
        store: Store::new(engine, cache, WORKERS),
        files,
        free: Mutex::new((0..WORKERS).collect()),
        settings: format!("{} MiB of memory over a log as kelvin-hash has it", memory_bytes >> 20),
    };
    Ok(Box::new(table))
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("kelvin-table: {error}"))
}

impl Table {
    fn enter(&self) -> io::Result<TableSession<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let number = free.pop().ok_or_else(|| failed("too many threads"))?;
        let worker = self.store.worker(number).map_err(failed)?;
        Ok(TableSession { table: self, worker: Some(worker), number, gets: 0 })
    }
}

impl Engine for Table {
    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.enter()?))
    }

    fn flush(&self) -> io::Result<()> {
        let mut session = self.enter()?;
        let mut drain = self.store.with_log(|log| log.drain());
        let begun = Instant::now();
        loop {
            session.drive();
            match self.store.with_log(|log| log.drained(&mut drain)) {
                Settled::Done => return Ok(()),
                Settled::Failed => return Err(failed("a flush failed")),
                Settled::Pending if begun.elapsed() > PATIENCE => {
                    return Err(failed("nothing is flushed"));
                }
                Settled::Pending => std::thread::yield_now(),
            }
        }
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.store.close(&mut &self.files).map_err(failed)
    }
}

impl TableSession<'_> {
    #[inline]
    fn worker(&mut self) -> &mut Worker<Keyed, Kept> {
        self.worker.as_mut().expect("invariant: it is there until it goes")
    }

    /// Performs what there is to do.
    fn drive(&mut self) {
        let files = &self.table.files;
        let worker = self.worker.as_mut().expect("invariant: it is there until it goes");
        while let Some(plan) = worker.poll() {
            let outcome = worker.offline(|| files.perform(plan.action));
            worker.complete(plan.token, outcome);
        }
        worker.quiesce();
    }

    /// The answer that comes later: there is one command at a time.
    fn wait(&mut self) -> io::Result<Answer<()>> {
        let begun = Instant::now();
        loop {
            self.drive();
            let mut answers = Vec::new();
            self.worker().take_answers(&mut answers);
            if let Some(Answered { answer, .. }) = answers.pop() {
                return Ok(answer);
            }
            if begun.elapsed() > PATIENCE {
                return Err(failed("no answer came"));
            }
            std::thread::yield_now();
        }
    }

    fn carry_out(&mut self, key: u32, deed: &Deed<&[u8]>) -> io::Result<()> {
        let own = || match deed {
            Deed::Put(value) => Deed::Put(value.to_vec()),
            Deed::Remove => Deed::Remove,
        };
        let answer = match self.worker().execute(&key.to_le_bytes(), 0, deed, own) {
            Asked::Now(answer) => answer,
            Asked::Later => self.wait()?,
            Asked::Busy => return Err(failed("busy")),
        };
        self.drive();
        match answer {
            Answer::Failed(error) => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

impl Session for TableSession<'_> {
    fn put(&mut self, key: u32, value: &[u8]) -> io::Result<()> {
        self.carry_out(key, &Deed::Put(value))
    }

    #[inline]
    fn get(&mut self, key: u32, out: &mut [u8]) -> io::Result<Option<usize>> {
        self.gets = self.gets.wrapping_add(1);
        if self.gets.is_multiple_of(GETS_A_TURN) {
            self.worker().quiesce();
        }
        let mut spare = Vec::new();
        let mut place = Place { out: &mut *out, spare: &mut spare };
        let value = match self.worker().get(&key.to_le_bytes(), 0, &mut place) {
            Got::Hit(meta) => return Ok(Some(meta.value_len as usize)),
            Got::Large(pinned) => pinned.slices().collect::<Vec<_>>().concat(),
            Got::Miss => return Ok(None),
            Got::Later => match self.wait()? {
                Answer::Value(found) => found.value.to_vec(),
                Answer::Failed(error) => return Err(failed(error)),
                Answer::Miss | Answer::Done { .. } | Answer::Flushed => return Ok(None),
            },
            Got::Busy => return Err(failed("busy")),
            Got::Failed(error) => return Err(failed(error)),
        };
        let kept = value.len().min(out.len());
        out[..kept].copy_from_slice(&value[..kept]);
        Ok(Some(value.len()))
    }

    #[inline]
    fn expect(&mut self, keys: &[u32; BATCH]) {
        let names = keys.map(u32::to_le_bytes);
        let worker = self.worker();
        worker.prefetch(std::array::from_fn::<&[u8], BATCH, _>(|at| &names[at]));
    }

    fn remove(&mut self, key: u32) -> io::Result<()> {
        self.carry_out(key, &Deed::Remove)
    }
}

impl Drop for TableSession<'_> {
    fn drop(&mut self) {
        // Nothing that it has begun may be left.
        self.drive();
        drop(self.worker.take());
        self.table.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}
