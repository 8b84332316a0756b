//! A store on a simulated machine: clients with connections, workers, a cache from which records go
//! all the time, crashes.
//!
//! Everything is decided by the seed. What the clients are answered must have an order that
//! explains it ([`model`]), over crashes as well, and each is answered once, in the order in which
//! it asked.

mod client;
pub mod deed;
mod ends;
mod flush;
mod large;
pub mod model;
mod modes;
pub mod spilling;
mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{clock::Clock, random::Random};
use cache::{Cache, CacheConfig, Change};
use log::{
    engine::{Drain, Mode},
    index::Keyed,
    plan::Token,
};
use store::{SlotId, Slots, Store, Worker, limits::PENDING_MAX};

use self::{
    deed::Deed,
    large::{Sending, Taking},
    model::{Id, Model, Reply},
    spilling::Spilling,
    turns::Turns,
};
use crate::{
    disk::Disk,
    fault::{Kind, Rates},
    machine::Machine,
    run,
    scenario::{Class, Scenario},
};

/// Operations of a run.
pub const OPERATIONS: u32 = 150;

/// Commands of a client that are not answered.
const DEPTH_MAX: usize = 3;

/// Turns in which everything that is asked is answered, if it ever is.
const TURNS_MAX: u32 = 20_000;

/// Operations for each change of the mode.
const MODE_EVERY: u32 = 100;

/// When runs begin.
const START_MS: u64 = 1_700_000_000_000;

/// The stream of random numbers that decides what clients do.
const STREAM: u64 = 9;

/// That which decides how many of them may wait.
const PENDING_STREAM: u64 = 13;

/// Memory of the cache: the least that one can have. Records go because they are taken out.
const CACHE_BYTES: u64 = 4 << 20;

/// A connection.
#[derive(Debug, Default)]
struct Client {
    slots: Slots<Heard>,
    /// What was asked, in order, and is not answered.
    asked: VecDeque<(Id, Deed, usize)>,
    sending: Option<Sending>,
    /// Tokens that it has seen, by key.
    tokens: BTreeMap<usize, u64>,
}

/// What came for a command.
#[derive(Debug)]
enum Heard {
    Reply(Reply),
    /// Nothing has happened, and why.
    Refused(String),
    /// Nothing has happened, because too much waits.
    Busy,
    /// It has happened, but a crash may undo it.
    Lost,
    /// It has happened, but what it shows could not be read to its end.
    Broken,
}

/// What happened in runs.
#[derive(Clone, Debug, Default)]
pub struct Summary(pub BTreeMap<&'static str, u64>);

impl Summary {
    fn add(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    /// Adds what happened in other runs.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, count)| self.add(what, *count));
    }
}

/// A run under way.
#[derive(Debug)]
pub struct Run {
    scenario: Scenario,
    /// Set where memory is the truth, and not the log.
    spilling: Option<Spilling>,
    random: Random,
    machine: Machine,
    clock: Clock,
    store: Option<Store<Keyed, Deed>>,
    /// Takes records out of memory.
    evictor: Option<cache::Worker>,
    workers: Vec<Worker<Keyed, Deed>>,
    /// When writes are answered.
    mode: Mode,
    /// A switch to safe that is not confirmed.
    switching: Option<Drain>,
    /// Which of them sleep, and until when.
    turns: Turns,
    /// Who has handed out what is under way.
    owners: BTreeMap<Token, usize>,
    clients: Vec<Client>,
    /// Large values that clients take.
    taking: Vec<Taking>,
    models: Vec<Model>,
    next_id: Id,
    /// What was asked first of a log that is read-only.
    read_only_from: Option<Id>,
    /// Flushes of all that are not answered.
    flushing: BTreeSet<Id>,
    /// Commands of a worker that may wait.
    pending_max: usize,
    /// Whose command this is, and how many flushes had failed when it was asked.
    waiting: BTreeMap<Id, (usize, SlotId, u32)>,
    summary: Summary,
    trace: bool,
}

/// The shape of a run: that of one of a log, on a disk that does not lie.
fn scenario(seed: u64) -> Scenario {
    let mut scenario = Scenario::new(seed);
    let rates = Rates::none().with(Kind::ShortWrite, 20_000).with(Kind::ShortRead, 20_000);
    if scenario.class == Class::Lying {
        scenario.class = Class::Honest;
    }
    scenario.rates = match scenario.class {
        Class::Failing => rates
            .with(Kind::ReadError, 30_000)
            .with(Kind::WriteError, 1000)
            .with(Kind::FlushError, 20_000),
        _ => rates,
    };
    scenario.entry_bytes = 0;
    scenario.keys = scenario.keys.clamp(3, 6);
    scenario
}

impl Run {
    /// A run that has not begun.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let scenario = scenario(seed);
        let mut disk = Disk::new(seed, scenario.directories.into(), scenario.capacity_bytes);
        disk.set_block_bytes(scenario.block_bytes as usize);
        let forgets = scenario.settings.mode == Mode::Async;
        let may_fail = scenario.class != Class::Honest;
        let clients = scenario.clients.min(4) as usize;
        Self {
            spilling: None,
            random: Random::new(seed, STREAM),
            machine: Machine::new(seed, disk),
            clock: Clock::manual(START_MS),
            store: None,
            evictor: None,
            workers: Vec::new(),
            mode: scenario.settings.mode,
            switching: None,
            turns: Turns::default(),
            owners: BTreeMap::new(),
            clients: (0..clients).map(|_| Client::default()).collect(),
            taking: Vec::new(),
            models: (0..scenario.keys).map(|_| Model::new(forgets, may_fail)).collect(),
            next_id: 1,
            read_only_from: None,
            flushing: BTreeSet::new(),
            pending_max: pending_max(seed),
            waiting: BTreeMap::new(),
            summary: Summary::default(),
            trace: false,
            scenario,
        }
    }

    /// It tells what happens.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.trace = true;
        self
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{}", what());
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// What went wrong, and how to see it again.
    pub fn run(mut self, operations: u32) -> Result<Summary, String> {
        let seed = self.scenario.seed;
        let kind = if self.spilling.is_some() { "spill" } else { "store" };
        let told = self.run_all(operations);
        told.map_err(|what| {
            let what = short(&what);
            format!("{what}\nrepeat it: cargo run -p disk-sim -- {kind} --seed {seed} --trace")
        })?;
        Ok(self.summary)
    }

    fn run_all(&mut self, operations: u32) -> Result<(), String> {
        self.open()?;
        for _ in 0..operations {
            for _ in 0..=self.random.below(2) {
                self.ask()?;
            }
            for _ in 0..self.random.below(5) {
                self.turn()?;
            }
            match self.spilling {
                Some(spilling) => self.evict_to_ring(spilling)?,
                None if self.random.below(3) == 0 => self.evict(),
                None => {}
            }
            if self.random.below(MODE_EVERY) == 0 {
                self.change_mode();
            }
            self.confirm_mode();
            self.flush_all()?;
            let is_read_only = self.with_store(|store| store.with_log(|log| log.is_read_only()));
            let crash_every = if is_read_only { 20 } else { self.scenario.crash_every };
            match self.random.below(crash_every * 2) {
                0 => self.crash_and_open()?,
                1 => self.drain_and_open()?,
                2 => self.stop_and_open()?,
                _ => {}
            }
        }
        self.settle()?;
        self.crash_and_open()?;
        self.check_reads()
    }

    fn with_store<R>(&self, with: impl FnOnce(&Store<Keyed, Deed>) -> R) -> R {
        with(self.store.as_ref().expect("invariant: the store is open between steps"))
    }

    fn open(&mut self) -> Result<(), String> {
        self.empty_disk();
        self.begin_losing();
        self.machine.disk().set_rates(Rates::none());
        let opened = run::open(&self.scenario, &mut self.machine, self.clock.now_ms());
        let (engine, report) = opened.map_err(|error| format!("not opened: {error}"))?;
        if !report.damages.is_empty() {
            return Err(format!("damage is named where there is none: {:?}", report.damages));
        }
        if !report.foreign.is_empty() {
            return Err(format!("files of the log are taken for others: {:?}", report.foreign));
        }
        self.machine.disk().set_rates(self.scenario.rates.clone());
        let seed = u128::from(self.scenario.seed);
        let config = CacheConfig { writers: 1, hash_seed: seed, ..CacheConfig::new(CACHE_BYTES) };
        let victim_bytes = self.spilling.map_or(0, |spilling| spilling.waiting_bytes);
        let config = CacheConfig { value_size_max: 1 << 19, victim_bytes, ..config };
        let cache = Cache::new(config, self.clock.clone()).map_err(|error| error.to_string())?;
        let workers = 1 + self.random.below(3) as usize;
        self.evictor = Some(cache.worker().map_err(|error| error.to_string())?);
        let store = match self.spilling {
            None => Store::new(engine, cache, workers),
            Some(spilling) => Store::spilling(engine, cache, workers, spilling.admission)
                .map_err(|error| format!("no table: {error}"))?,
        };
        store.set_large_bytes(self.scenario.part_bytes as usize * 2);
        store.limit_pending(self.pending_max);
        for number in 0..workers {
            self.workers.push(store.worker(number).map_err(|error| error.to_string())?);
        }
        self.store = Some(store);
        self.turns = Turns::new(workers);
        self.mode = self.scenario.settings.mode;
        let forgets = self.mode == Mode::Async;
        self.models.iter_mut().for_each(|model| model.set_forgets(forgets));
        self.check_all()
    }

    /// What a crash has left is what it is from now on.
    fn check_all(&mut self) -> Result<(), String> {
        for key in 0..self.models.len() {
            self.ask_of(0, key, Deed::Get)?;
            self.settle()?;
            self.models[key].found();
        }
        Ok(())
    }

    /// A worker that does not sleep hands out and answers, something ends. Time passes; where
    /// nothing else can happen, to when a worker wants to be woken.
    fn turn(&mut self) -> Result<(), String> {
        self.quiesce();
        let awake = self.turns.awake(self.clock.now_ms());
        if !awake.is_empty() {
            let at = awake[self.random.below(awake.len() as u32) as usize];
            self.work(at)?;
        }
        self.transfer()?;
        if let Some((token, outcome)) = self.machine.step() {
            let owner = self.owners.remove(&token).ok_or("nobody has handed that out")?;
            self.workers[owner].complete(token, outcome);
            self.turns.call(owner);
        }
        if self.random.below(2) == 0 {
            self.clock.advance_ms(1);
        }
        if let Some(wake_at_ms) = self.turns.next_ms().filter(|_| self.all_sleep()) {
            self.clock.advance_ms(wake_at_ms.saturating_sub(self.clock.now_ms()));
        }
        Ok(())
    }

    /// Nothing is under way, and no worker has a reason to look at anything.
    fn all_sleep(&self) -> bool {
        let is_still = self.machine.in_flight() == 0 && !self.has_transfers();
        is_still && self.turns.awake(self.clock.now_ms()).is_empty()
    }

    /// What a worker does until it sleeps.
    fn work(&mut self, at: usize) -> Result<(), String> {
        let worker = &mut self.workers[at];
        while let Some(plan) = worker.poll() {
            self.owners.insert(plan.token, at);
            self.machine.submit(plan);
        }
        let (mut answers, notices) = (Vec::new(), worker.take_notices());
        worker.take_answers(&mut answers);
        self.turns.sleep(at, worker.wake_at_ms());
        if worker.goes_on() {
            self.turns.call(at);
        }
        worker.take_wakes().for_each(|other| self.turns.call(other));
        for answered in answers {
            match self.flushing.contains(&answered.caller) {
                true => self.hear_of_flush(answered.caller, &answered.answer)?,
                false => self.hear(at, answered.caller, answered.answer)?,
            }
        }
        notices.into_iter().try_for_each(|notice| self.note(notice))
    }

    /// Until nobody waits for anything.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.waiting.is_empty() && self.flushing.is_empty() {
                return Ok(());
            }
            if self.all_sleep() && self.turns.next_ms().is_none() {
                break;
            }
            self.turn()?;
        }
        let held = self.with_store(Store::waiting);
        Err(format!("something is never answered: {:?}, {held:?}", self.waiting))
    }

    /// No thread is in the middle of anything: nobody waits for the others.
    fn quiesce(&mut self) {
        self.evictor.iter_mut().for_each(cache::Worker::quiesce);
        self.workers.iter_mut().for_each(Worker::quiesce);
    }

    /// A record goes out of memory.
    fn evict(&mut self) {
        let key = self.random.below(self.models.len() as u32) as usize;
        let Some(evictor) = &mut self.evictor else { return };
        let name = name(key);
        let removed = evictor.update(evictor.key(&name), |_| Change::Remove.into());
        removed.expect("invariant: removing needs no memory");
    }
}

/// How many commands of a worker may wait in a run: in every third so few that some are refused.
fn pending_max(seed: u64) -> usize {
    let mut random = Random::new(seed, PENDING_STREAM);
    match random.below(3) {
        0 => 1 + random.below(4) as usize,
        _ => PENDING_MAX,
    }
}

/// What is to be told, without most of a value.
fn short(what: &impl std::fmt::Debug) -> String {
    let text = format!("{what:?}").replace(", 46", "");
    text.chars().take(200).collect()
}

fn name(key: usize) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

#[cfg(test)]
mod tests;
