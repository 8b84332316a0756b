//! Opening the log: after a stop in order, after a crash, and after a crash of that.

use std::collections::BTreeSet;

use base::random::Random;
use log::{
    engine::{Engine, New, Opening, Report},
    error::Error,
    format::{
        LogId,
        manifest::{IndexKind, Shape},
    },
    index::IndexLimits,
    plan::Disk,
};

use super::{
    Log, Run, TURNS_MAX,
    full::FILLING_KEYS,
    loss::{Unread, named_by},
    wipe::Wipes,
};
use crate::{
    disk::DirectoryId,
    fault::{Kind, Rates},
    scenario::Scenario,
};

/// Keys that an index of a run has room for.
const INDEX_ENTRIES_MAX: u64 = 1000;

/// Crashes during one recovery.
const RECOVERY_CRASHES_MAX: u32 = 3;

/// Attempts to open a log on a disk that fails, before it stops failing.
const ATTEMPTS_MAX: u32 = 4;

/// Opens the log of a scenario on its disk.
///
/// # Errors
/// When it cannot be opened.
pub fn open(scenario: &Scenario, disk: &mut dyn Disk, now_ms: u64) -> Result<(Log, Report), Error> {
    let shape = Shape {
        segment_bytes: scenario.segment_bytes,
        block_bytes: scenario.block_bytes,
        part_bytes: scenario.part_bytes,
        entry_bytes: scenario.entry_bytes,
        index: match scenario.entry_bytes {
            0 => IndexKind::Hash { seeds: seeds_of_hash(scenario.seed) },
            _ => IndexKind::Flat { kmin: 0, kmax: scenario.kmax },
        },
    };
    let opening = Opening {
        directories: scenario.directories,
        new: New { log: LogId(scenario.seed.into()), shape },
        settings: scenario.settings,
        now_ms,
        progress: &mut |_| {},
    };
    let kmax_limit = u64::from(scenario.keys) + FILLING_KEYS;
    let limits = IndexLimits { kmax_limit, entries_max: INDEX_ENTRIES_MAX };
    Engine::open(disk, opening, limits)
}

/// Bytes to make the hash of an index from. They have to be random: of equal ones collisions come.
pub(crate) fn seeds_of_hash(seed: u64) -> [u8; 128] {
    let mut random = Random::new(seed, HASH_STREAM);
    std::array::from_fn(|_| random.bits().to_le_bytes()[0])
}

/// The stream of random numbers that makes hashes.
const HASH_STREAM: u64 = 6;

impl Run {
    /// Opens the log; until that has worked.
    pub(super) fn open(&mut self) -> Result<(), String> {
        for attempt in 0.. {
            let fails = attempt < ATTEMPTS_MAX;
            let rates = if fails { self.rates_of_opening() } else { Rates::none() };
            self.machine.disk().set_rates(rates);
            let unread_before = self.machine.disk().counts().of(Kind::ReadError);
            match open(&self.scenario, &mut self.machine, self.now_ms) {
                _ if self.machine.has_stopped() => return Ok(()),
                Ok((log, report)) => {
                    let unread = self.machine.disk().counts().of(Kind::ReadError);
                    self.take_report(&report, unread > unread_before)?;
                    self.log = Some(log);
                    self.leave_moves_to_writers();
                    let mode = self.mode;
                    self.log_mut().set_mode(mode);
                    self.machine.disk().set_rates(self.scenario.rates.clone());
                    self.count("opened");
                    return Ok(());
                }
                Err(error) => {
                    self.tell(|_| format!("not opened: {error}"));
                    self.has_unheard = true;
                    // The next attempt reads past the cache.
                    self.machine.disk().evict();
                    self.count("failed openings");
                    if self.is_lying() && attempt >= ATTEMPTS_MAX {
                        return self.begin_anew();
                    }
                    if attempt >= ATTEMPTS_MAX || !self.may_fail() {
                        return Err(format!("the log cannot be opened: {error}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// A disk that fails does so while the log is opened, too. Half of the times it can be read: a
    /// log that goes on without what it could not read has lost it for as long as it is open.
    fn rates_of_opening(&mut self) -> Rates {
        let rates = self.scenario.rates.clone();
        if self.random.below(2) == 0 { rates.with(Kind::ReadError, 0) } else { rates }
    }

    /// What opening has told. `has_failed` says whether any read of it has failed.
    fn take_report(&mut self, report: &Report, has_failed: bool) -> Result<(), String> {
        self.tell(|_| format!("opened: {report:?}"));
        self.unread = Unread::default();
        if !report.damages.is_empty() && !self.is_lying() {
            if !has_failed {
                return Err(format!("damage is named where there is none: {:?}", report.damages));
            }
            self.count("openings that could not read all");
            self.unread = Unread::new(report);
            self.promises.forget_acknowledgements();
        }
        // What cannot be read may be anybody's.
        if !report.foreign.is_empty() && !self.is_lying() && !has_failed {
            return Err(format!("files of the log are taken for others: {:?}", report.foreign));
        }
        if !report.unremoved.is_empty() {
            self.count("openings that could not remove a file");
        }
        if report.is_clean {
            self.count("clean openings");
        }
        self.named.extend(named_by(report));
        Ok(())
    }

    /// The manifest is lost, and the error said so: there is no such log any more.
    fn begin_anew(&mut self) -> Result<(), String> {
        self.count("logs lost by name");
        self.machine.stop_after(u64::MAX);
        self.machine.disk().set_rates(Rates::none());
        for directory in 0..usize::from(self.scenario.directories) {
            let directory = DirectoryId(directory);
            for (name, _) in self.machine.disk().list(directory) {
                let removed = self.machine.disk().remove(directory, &name);
                removed.map_err(|refusal| format!("{refusal:?}"))?;
            }
            let flushed = self.machine.disk().flush_directory(directory);
            flushed.map_err(|refusal| format!("{refusal:?}"))?;
        }
        self.promises = crate::promise::Promises::default();
        self.unread = Unread::default();
        self.paused = None;
        self.batches.clear();
        self.wipes = Wipes::default();
        self.ever.clear();
        self.named.clear();
        self.places.clear();
        self.moves.clear();
        self.used_anew.clear();
        self.generations.clear();
        let opened = open(&self.scenario, &mut self.machine, self.now_ms);
        let (log, _) = opened.map_err(|error| format!("an empty disk: {error}"))?;
        self.log = Some(log);
        self.leave_moves_to_writers();
        let mode = self.mode;
        self.log_mut().set_mode(mode);
        self.machine.disk().set_rates(self.scenario.rates.clone());
        Ok(())
    }

    /// After a crash: opens the log, which may crash as well, and looks at every key.
    pub(super) fn recover(&mut self) -> Result<(), String> {
        self.spoil();
        let crashes = self.random.below(RECOVERY_CRASHES_MAX + 1);
        for crash in 0..crashes {
            if self.random.below(2) == 0 {
                let actions = self.random.below(60);
                self.machine.stop_after(actions.into());
            }
            self.open()?;
            if self.machine.has_stopped() {
                self.machine.disk().count(Kind::RecoveryCrash);
                if crash > 0 {
                    self.machine.disk().count(Kind::RecoveryCrashAgain);
                }
                self.has_unheard = true;
            }
            if self.log.is_some() {
                break;
            }
            self.crash();
        }
        if self.log.is_none() {
            self.open()?;
        }
        self.machine.stop_after(u64::MAX);
        self.check_all()?;
        self.has_unheard = false;
        self.generations.clear();
        Ok(())
    }

    /// Stops in order: everything is flushed, and nothing is lost.
    pub(super) fn stop_and_open(&mut self) -> Result<(), String> {
        self.settle()?;
        if self.machine.has_stopped() {
            return Ok(());
        }
        let now_ms = self.now_ms;
        let Some(log) = &mut self.log else { return Ok(()) };
        let closed = log.close(&mut self.machine, now_ms);
        let newest = self.newest();
        self.end();
        match closed {
            Ok(()) => {
                for (key, number) in newest {
                    self.promises.promise(key, number);
                }
                self.count("stops in order");
            }
            Err(error) => self.refused(&error)?,
        }
        self.machine.disk().evict();
        self.open()?;
        self.check_all()
    }

    /// Changes what was flushed, on a disk that does that.
    fn spoil(&mut self) {
        if !self.is_lying() || self.random.below(3) != 0 {
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            let directory = self.random.below(self.scenario.directories.into()) as usize;
            let files = self.machine.disk().list(DirectoryId(directory));
            if files.is_empty() {
                continue;
            }
            let which = self.random.below(u32::try_from(files.len()).unwrap_or(1)) as usize;
            let (name, file) = &files[which];
            let len = u32::try_from(self.machine.disk().len(*file)).unwrap_or(0);
            if len == 0 || !name.ends_with(".segment") && self.random.below(8) != 0 {
                continue;
            }
            let at = self.random.below(len) as usize;
            if self.random.below(3) == 0 {
                self.machine.disk().spoil(*file, at);
            } else {
                let bit = self.random.below(8);
                self.machine.disk().flip(*file, at, bit);
            }
            self.tell(|_| format!("spoiled {name} at {at}"));
        }
    }

    /// Every key, as it is after the log was opened.
    pub(super) fn check_all(&mut self) -> Result<(), String> {
        self.lost.clear();
        self.is_checking = true;
        // What has filled a disk up is found out as well: what was not durable may have been lost.
        let mut keys: BTreeSet<u64> = (0..u64::from(self.scenario.keys)).collect();
        keys.extend(self.promises.keys());
        let rates = self.scenario.rates.clone();
        self.machine.disk().set_rates(rates.with(Kind::ReadError, 0));
        for key in keys {
            self.look_up(key, true)?;
        }
        self.settle_fetches()?;
        self.is_checking = false;
        self.forget_places();
        self.machine.disk().set_rates(self.scenario.rates.clone());
        self.check_batches()?;
        self.check_wiped()?;
        self.check_losses()
    }

    fn settle_fetches(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.fetches.is_empty() {
                return Ok(());
            }
            self.turn()?;
        }
        Err("a read never ends".to_owned())
    }
}
