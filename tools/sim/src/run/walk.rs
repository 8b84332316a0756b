//! Iterations and copies of a log that serves, while its clients go on.

use std::collections::BTreeSet;

use log::{
    engine::{Cut, Fetched, Found, Iteration, Reading, Settled, Stored},
    error::Error,
    plan::{Action, Buffer, Disk as _, Outcome},
};

use super::{Run, TURNS_MAX, reopen, value_of};
use crate::{
    disk::{DirectoryId, Disk},
    machine::Machine,
    promise::{Promises, Version},
    scenario::Scenario,
    together::Batches,
};

/// Reads of one range that stop short before what there is must do.
const SHORT_READS_MAX: u32 = 8;

/// What clients do between two reads of an iteration, at most.
const OPERATIONS_BETWEEN: u32 = 3;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// What an iteration has shown, and what it was to show.
struct Walk {
    begun_ms: u64,
    /// The newest version of each key when it began, and whether a crash could not take that.
    before: Vec<(u64, Version, bool)>,
    shown: BTreeSet<u64>,
    /// Something could not be read.
    has_failed: bool,
}

impl Run {
    /// Goes through the log in the order of insertion, while clients write.
    pub(super) fn iterate(&mut self) -> Result<(), String> {
        let begun = self.log_mut().iterate(None);
        let mut iteration = begun.map_err(|error| format!("no iteration: {error}"))?;
        let before = self.newest().into_iter().map(|(key, _)| {
            let version = self.promises.newest(key);
            (key, version, self.promises.oldest(key) == Some(version))
        });
        let mut walk = Walk {
            begun_ms: self.now_ms,
            before: before.collect(),
            shown: BTreeSet::new(),
            has_failed: false,
        };
        self.is_walking = true;
        while let Some(window) = iteration.window() {
            let action = |buffer| window.action(buffer);
            match self.read_now(window.bytes(), action) {
                Ok(bytes) => self.show(&mut walk, &mut iteration, &bytes)?,
                Err(_) if self.machine.has_stopped() => break,
                Err(failure) => {
                    // It begins anew where that can be read; here it is over.
                    self.refused_walk(&window.failed(failure))?;
                    walk.has_failed = true;
                    break;
                }
            }
            for _ in 0..self.random.below(OPERATIONS_BETWEEN + 1) {
                self.operate()?;
                self.turn()?;
            }
            if self.machine.has_stopped() {
                break;
            }
        }
        self.is_walking = false;
        self.log_mut().end_iteration(iteration);
        if self.machine.has_stopped() {
            return Ok(());
        }
        self.count("iterations");
        self.check_walk(&walk)
    }

    /// What a read has brought.
    fn show(
        &mut self,
        walk: &mut Walk,
        iteration: &mut Iteration,
        bytes: &[u8],
    ) -> Result<(), String> {
        let mut found = iteration.take(bytes);
        let now_ms = self.now_ms;
        self.log_mut().keep_newest(iteration, &mut found, now_ms);
        for item in found {
            let shown = match item {
                Ok(item) => self.find_shown(iteration, item),
                Err(error) => Err(error),
            };
            match shown {
                _ if self.machine.has_stopped() => return Ok(()),
                Ok(Some((name, value))) => {
                    let key = name.as_slice().try_into().map(u64::from_le_bytes);
                    let key = key.map_err(|_| format!("the key {name:?} is shown"))?;
                    self.shown(walk, key, &value)?;
                }
                Ok(None) => {}
                Err(error) => {
                    self.refused_walk(&error)?;
                    walk.has_failed = true;
                }
            }
        }
        Ok(())
    }

    fn find_shown(
        &mut self,
        iteration: &mut Iteration,
        found: Found,
    ) -> Result<Option<Pair>, Error> {
        let shown = self.log_mut().find_shown(iteration, found)?;
        let Some((key, Stored { mut value, parts, .. })) = shown else { return Ok(None) };
        for reading in parts.map_or(Vec::new(), |(_, readings)| readings) {
            let bytes = self.read_part(&reading)?;
            if let Fetched::Part(part) = reading.finish(&bytes)? {
                value.extend_from_slice(part);
            }
        }
        Ok(Some((key, value)))
    }

    fn read_part(&mut self, reading: &Reading) -> Result<Vec<u8>, Error> {
        let read = self.read_now(reading.bytes(), |buffer| reading.action(buffer));
        read.map_err(|failure| reading.failed(failure))
    }

    /// Reads at once, and again what stops short.
    fn read_now(
        &mut self,
        bytes: usize,
        action: impl Fn(Buffer) -> Action,
    ) -> Result<Vec<u8>, log::plan::Failure> {
        let mut longest = Vec::new();
        for _ in 0..SHORT_READS_MAX {
            match self.machine.perform(action(Buffer::new(bytes))) {
                Outcome::Read(buffer, count) => {
                    if count >= longest.len() {
                        longest = buffer.as_slice()[..count].to_vec();
                    }
                }
                Outcome::Failed(failure, _) => return Err(failure),
                _ => return Err(log::plan::Failure::NotFound),
            }
            if longest.len() == bytes {
                break;
            }
        }
        Ok(longest)
    }

    /// A record is shown: once a key, as it was since the iteration began, and durable.
    fn shown(&mut self, walk: &mut Walk, key: u64, value: &[u8]) -> Result<(), String> {
        self.count("records shown");
        if !walk.shown.insert(key) {
            return Err(format!("key {key} is shown twice"));
        }
        let before = walk.before.iter().find(|(other, ..)| *other == key);
        let since = before.map_or(0, |(_, version, _)| version.number);
        self.seen(key, (since, walk.begun_ms), Some(value), None)
    }

    /// What nobody has written since was shown.
    fn check_walk(&mut self, walk: &Walk) -> Result<(), String> {
        if walk.has_failed || self.has_lied() {
            return Ok(());
        }
        for (key, version, is_durable) in &walk.before {
            let is_same = self.promises.newest(*key).number == version.number;
            let is_there = *is_durable && is_same && !version.is_absent(self.now_ms);
            if is_there && !walk.shown.contains(key) {
                return Err(format!("key {key} was {version:?} all the time, and is not shown"));
            }
        }
        Ok(())
    }

    fn refused_walk(&mut self, error: &Error) -> Result<(), String> {
        self.tell(|_| format!("iteration: {error}"));
        let is_explained = match error {
            Error::Disk { .. } | Error::Unreadable { .. } | Error::Unflushed => self.may_fail(),
            // What could not be read when the log was opened was named then.
            Error::Damaged { .. } | Error::Unreachable { .. } | Error::OtherKey { .. } => {
                self.has_lied() || self.unread.is_any()
            }
            _ => false,
        };
        if is_explained { Ok(()) } else { Err(format!("an iteration failed: {error}")) }
    }

    /// Copies the log while it serves, and opens the copy: it has what was durable, and of what
    /// was written together all or nothing.
    pub(super) fn back_up(&mut self) -> Result<(), String> {
        let newest = self.newest();
        let mut drain = self.log_mut().drain();
        for _ in 0..TURNS_MAX {
            match self.log_mut().drained(&mut drain) {
                Settled::Done => break,
                Settled::Failed => return Ok(()),
                Settled::Pending => self.turn()?,
            }
            if self.machine.has_stopped() {
                return Ok(());
            }
        }
        for (key, number) in newest {
            self.promises.promise(key, number);
        }
        let Some(cut) = self.cut()? else { return Ok(()) };
        let (promises, batches) = (self.promises.clone(), self.batches.clone());
        let capacity_bytes = self.machine.disk().capacity_bytes(DirectoryId(0));
        let directories = usize::from(self.scenario.directories);
        let disk = Disk::new(self.scenario.seed, 1, capacity_bytes * directories);
        let mut copy = Machine::new(self.scenario.seed, disk);
        let mut damages = 0;
        let mut damaged = |_| damages += 1;
        let copied = cut.copy(&mut self.machine, &mut copy, &mut |_| {}, &mut damaged);
        self.log_mut().end_backup(&cut);
        match copied {
            _ if self.machine.has_stopped() => Ok(()),
            // What could not be read is not in it.
            Ok(_) if damages > 0 && self.may_fail() => Ok(()),
            Ok(_) if damages > 0 => Err(format!("{damages} places of a copy are damaged")),
            Ok(_) => self.check_copy(copy, promises, batches),
            Err(error) => {
                self.tell(|_| format!("no copy: {error}"));
                self.count("copies that failed");
                if self.may_fail() { Ok(()) } else { Err(format!("no copy: {error}")) }
            }
        }
    }

    fn cut(&mut self) -> Result<Option<Cut>, String> {
        for _ in 0..TURNS_MAX {
            if let Some(cut) = self.log_mut().begin_backup() {
                return Ok(Some(cut));
            }
            self.turn()?;
            let is_over = self.log.as_ref().is_none_or(super::Log::is_read_only);
            if self.machine.has_stopped() || is_over {
                return Ok(None);
            }
        }
        Err("a copy waits for ever".to_owned())
    }

    fn check_copy(
        &mut self,
        mut copy: Machine,
        mut promises: Promises,
        mut batches: Batches,
    ) -> Result<(), String> {
        if self.has_lied() || self.unread.is_any() {
            return Ok(());
        }
        let one = Scenario { directories: 1, ..self.scenario.clone() };
        let opened = reopen::open(&one, &mut copy, self.now_ms);
        let (mut log, report) =
            opened.map_err(|error| format!("a copy cannot be opened: {error}"))?;
        if !report.damages.is_empty() {
            return Err(format!("a copy is damaged: {:?}", report.damages));
        }
        let times = (self.now_ms, self.now_ms);
        for key in 0..u64::from(self.scenario.keys) {
            let seen = value_of(&mut log, key, self.now_ms, &mut |action| copy.perform(action));
            let seen = seen.map_err(|error| format!("key {key} of a copy: {error}"))?;
            batches.note(&promises, key, seen.as_deref(), times);
            let recovered = promises.recover(key, seen.as_deref(), times);
            recovered.map_err(|wrong| format!("in a copy: {wrong:?}"))?;
        }
        batches.check().map_err(|what| format!("in a copy: {what}"))?;
        self.count("copies");
        Ok(())
    }
}
