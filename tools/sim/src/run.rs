//! One run: clients of a log on a simulated machine, crashes, and what is then expected.
//!
//! Owns the log while it is open, its machine, and what was promised. Everything is decided by the
//! seed. Invariant: what a client was answered is in [`Promises`] before anything else happens.

mod answer;
mod batch;
mod client;
mod copy;
mod deeds;
mod full;
mod look;
mod loss;
mod reopen;
mod steps;
mod walk;
mod wipe;

pub use deeds::{Summary, Violation};
pub(crate) use full::REFUSED_MS;
pub(crate) use look::value_of;
pub(crate) use loss::{named_by, place_of};
pub use reopen::open;
pub(crate) use reopen::seeds_of_hash;

use std::collections::BTreeMap;

use base::random::Random;
use log::{
    engine::{Drain, Encoding, Engine, Mark, Mode, Reading, Upload},
    index::Keyed,
    plan::{SegmentId, Token},
};

use self::{
    loss::{Named, Unread},
    walk::Walk,
    wipe::Wipes,
};
use crate::{
    disk::Disk,
    fault::Kind,
    machine::{Crash, Machine},
    promise::{Loss, Number, Promises, Version},
    scenario::{Class, Scenario},
    together::Batches,
};

/// Something a client waits for.
#[derive(Debug)]
enum Waiting {
    /// A put or a remove for its flush.
    Write { key: u64, number: Number, mark: Mark },
    /// A large value for its parts.
    Large { key: u64, version: Version, upload: Upload, value: Vec<u8> },
    /// A batch for the flush of all its changes.
    Batch { changes: Vec<(u64, Number)>, marks: (Mark, Mark) },
    /// A read for the flush of what it saw.
    Seen { key: u64, number: Number, mark: Mark },
    /// Everybody for a flush of all; whether that ends `async`.
    Drain { drain: Drain, newest: Vec<(u64, Number)> },
}

/// A get whose reads are under way.
#[derive(Debug)]
struct Fetch {
    key: u64,
    /// The newest version when it was asked.
    newest: Number,
    asked_ms: u64,
    /// The reads that are left, the one that is under way first.
    readings: Vec<Reading>,
    /// What the parts read so far hold; none of a value that is no large one.
    parts: Option<Vec<u8>>,
    /// What the answer waits for, as far as memory has answered.
    wait: Option<Mark>,
    /// Reads of the present part that have stopped short.
    tries: u32,
    /// Whether the answer is about what a recovery brought back.
    is_check: bool,
}

/// The log of one run.
type Log = Engine<Keyed>;

/// A run under way.
#[derive(Debug)]
pub struct Run {
    scenario: Scenario,
    random: Random,
    machine: Machine,
    log: Option<Log>,
    /// A footer of which something is being encoded while others have the log.
    encoding: Option<Encoding>,
    promises: Promises,
    /// Every version that each key ever had.
    ever: BTreeMap<u64, Vec<Version>>,
    waiting: Vec<Waiting>,
    /// Batches that were made since the last crash.
    batches: Batches,
    wipes: Wipes,
    fetches: BTreeMap<Token, Fetch>,
    now_ms: u64,
    next_number: Number,
    next_read: u64,
    /// An iteration or a copy is under way: no other begins.
    is_walking: bool,
    /// An iteration that is to go on.
    paused: Option<Walk>,
    /// How many operations of clients there were.
    operation: u32,
    mode: Mode,
    /// When the last crash was.
    crashed_ms: u64,
    /// Whether the log took no writes any more then.
    was_read_only: bool,
    /// A remove has found nothing: what its answer waits for.
    saw_absent: Option<Option<Mark>>,
    /// Acknowledged writes that the last crash has taken.
    lost: Vec<Loss>,
    /// The last opening before this one has ended before it could name anything.
    has_unheard: bool,
    /// What the log has named as damaged or torn.
    named: Vec<Named>,
    /// What the log could not read when it was opened, although nothing of it is lost.
    unread: Unread,
    /// Where the records of each version were seen: segment and offset.
    places: BTreeMap<Number, Vec<(u32, u64)>>,
    /// How often each version was seen elsewhere than before.
    moves: BTreeMap<Number, u64>,
    /// Segments that are used anew since: no version is there any more.
    used_anew: Vec<SegmentId>,
    /// The generation that the log has begun in each since it was opened.
    generations: BTreeMap<u32, u64>,
    /// Every key is being looked at: what was promised may have been where it is named.
    is_checking: bool,
    deeds: BTreeMap<&'static str, u64>,
    trace: bool,
}

/// The stream of random numbers that decides what clients do.
const CLIENT_STREAM: u64 = 4;

/// Tokens of gets begin here; the log's own do not get so far.
const FIRST_READ: u64 = 1 << 63;

/// What operations of clients are counted as.
const OPERATIONS_DONE: &str = "operations";

/// After one in so many recoveries the next crash comes at once.
const CRASHES_AGAIN_ONE_IN: u32 = 3;

/// From one in so many crashes to the next no file of a failing disk can be removed.
const REMOVALS_REFUSED_ONE_IN: u32 = 3;

/// I/O and waiting that are enough for anything that can end at all.
const TURNS_MAX: u32 = 20_000;

impl Run {
    /// A run that has not begun.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let seed = scenario.seed;
        let directories = usize::from(scenario.directories);
        let mut disk = Disk::new(seed, directories, scenario.capacity_bytes);
        disk.set_block_bytes(scenario.block_bytes as usize);
        Self {
            random: Random::new(seed, CLIENT_STREAM),
            machine: Machine::new(seed, disk),
            log: None,
            encoding: None,
            promises: Promises::default(),
            ever: BTreeMap::new(),
            waiting: Vec::new(),
            batches: Batches::default(),
            wipes: Wipes::default(),
            fetches: BTreeMap::new(),
            now_ms: 1_000_000,
            next_number: 1,
            next_read: FIRST_READ,
            is_walking: false,
            paused: None,
            operation: 0,
            mode: scenario.settings.mode,
            crashed_ms: 0,
            was_read_only: false,
            saw_absent: None,
            lost: Vec::new(),
            has_unheard: false,
            named: Vec::new(),
            unread: Unread::default(),
            places: BTreeMap::new(),
            moves: BTreeMap::new(),
            used_anew: Vec::new(),
            generations: BTreeMap::new(),
            is_checking: false,
            deeds: BTreeMap::new(),
            trace: false,
            scenario,
        }
    }

    /// Tells on standard error what happens.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.trace = true;
        self
    }

    /// All of it.
    ///
    /// # Errors
    /// With the first thing that should not have happened.
    pub fn run(mut self) -> Result<Summary, Violation> {
        self.tell(|run| format!("{:?}", run.scenario));
        let outcome = self.go();
        outcome.map_err(|what| Violation {
            seed: self.scenario.seed,
            operation: self.operation,
            what,
        })?;
        let faults = self.machine.disk().counts().clone();
        self.deeds.insert(OPERATIONS_DONE, self.operation.into());
        Ok(Summary { faults, deeds: self.deeds })
    }

    fn go(&mut self) -> Result<(), String> {
        self.open()?;
        while self.operation < self.scenario.operations {
            if self.random.below(self.scenario.crash_every) == 0 {
                self.crash_and_recover()?;
            }
            let is_read_only = self.log.as_ref().is_some_and(Log::is_read_only);
            match self.random.below(if is_read_only { 6 } else { 300 }) {
                0 => self.stop_and_open()?,
                1 if self.scenario.class == Class::Full => self.change_capacity(),
                _ => self.operate()?,
            }
            for _ in 0..self.random.below(4) {
                self.turn()?;
            }
        }
        self.settle()?;
        if self.scenario.class == Class::Full {
            self.fill_up()?;
        }
        self.crash_and_recover()
    }

    /// Hands out what is to be done, lets one request end, and gives the answers that are due.
    fn turn(&mut self) -> Result<(), String> {
        self.encode_beside();
        self.poll();
        if let Some((token, outcome)) = self.machine.step() {
            self.now_ms += 1;
            if let Some(fetch) = self.fetches.remove(&token) {
                self.fetched(fetch, outcome)?;
            } else if let Some(log) = &mut self.log {
                let before = log.counts();
                log.complete(token, outcome);
                self.note_wipe();
                self.note_moves(before);
            }
        } else {
            // Nothing is under way: time passes.
            self.now_ms += 1 + u64::from(self.random.below(5));
        }
        self.answer()
    }

    fn poll(&mut self) {
        let Some(log) = &mut self.log else { return };
        let before = log.counts();
        log.tell_wall_ms(self.now_ms);
        while let Some(plan) = log.poll(self.now_ms) {
            let used_anew = loss::used_anew(&plan.action, self.scenario.block_bytes);
            if let Some((segment, generation)) = used_anew {
                self.used_anew.push(segment);
                let begun = self.generations.entry(segment.0).or_default();
                *begun = generation.max(*begun);
            }
            self.machine.submit(plan);
        }
        let rewritten = log.counts().rewritten - before.rewritten;
        if !self.is_checking {
            self.forget_places();
        }
        if rewritten > 0 {
            let is_full = self.scenario.class == Class::Full;
            let deed = if is_full { "rewritten on a full disk" } else { "rewritten" };
            self.count_many(deed, rewritten);
            self.note_places();
        }
        self.note_moves(before);
    }

    /// Until nobody waits for anything.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.machine.has_stopped() {
                return Ok(());
            }
            let is_out = self.machine.in_flight() > 0 || self.encoding.is_some();
            if self.waiting.is_empty() && self.fetches.is_empty() && !is_out {
                return Ok(());
            }
            self.turn()?;
        }
        Err(format!("something is never answered: {:?} {:?}", self.waiting, self.fetches))
    }

    /// Stops the machine or the process at some moment, and has the log recover; sometimes again
    /// before much has happened, when there may be what is found and not yet flushed.
    fn crash_and_recover(&mut self) -> Result<(), String> {
        self.crash_and_recover_once()?;
        while self.random.below(CRASHES_AGAIN_ONE_IN) == 0 {
            self.crash_and_recover_once()?;
        }
        Ok(())
    }

    fn crash_and_recover_once(&mut self) -> Result<(), String> {
        let later = self.random.below(12);
        self.machine.stop_after(later.into());
        for _ in 0..later * 3 {
            if self.machine.has_stopped() {
                break;
            }
            self.operate()?;
            self.turn()?;
        }
        self.crash();
        self.recover()
    }

    /// Ends the process, or the whole machine. Nobody hears any answer.
    fn crash(&mut self) {
        let how = if self.random.below(3) == 0 { Crash::Process } else { Crash::Machine };
        self.tell(|run| format!("crash of the {how:?} at {} ms", run.now_ms));
        self.end();
        self.waiting.clear();
        self.fetches.clear();
        self.machine.crash(how);
        if self.scenario.class == Class::Failing {
            let refuses = self.random.below(REMOVALS_REFUSED_ONE_IN) == 0;
            self.machine.disk().refuse_removals(refuses);
        }
        self.count("crashes");
    }

    /// The log is there no more, whatever the reason.
    fn end(&mut self) {
        self.encoding = None;
        if let Some(log) = self.log.take() {
            self.count_done(&log);
            self.crashed_ms = self.now_ms;
            self.was_read_only = log.is_read_only();
            self.note_end_of_wipes();
        }
    }

    fn tell(&self, what: impl FnOnce(&Self) -> String) {
        if self.trace {
            eprintln!("{:6} {}", self.operation, what(self));
        }
    }

    fn is_lying(&self) -> bool {
        self.scenario.class == Class::Lying
    }

    /// Whether something happened that no log can make up for.
    fn has_lied(&mut self) -> bool {
        let counts = self.machine.disk().counts();
        Kind::ALL.into_iter().any(|kind| kind.takes_what_was_flushed() && counts.of(kind) > 0)
    }
}

#[cfg(test)]
mod tests;
