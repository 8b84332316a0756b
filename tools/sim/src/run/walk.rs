//! Iterations of a log that serves, while its clients go on. In the order of insertion they pause
//! and go on from a cursor, over crashes too.

use std::collections::{BTreeMap, BTreeSet};

use log::{
    Cursor,
    engine::{Fetched, Found, Iteration, Reading, Settled, Stored},
    error::Error,
    format::cursor::{CURSOR_BYTES, Place},
    plan::{Action, Buffer, Disk as _, Outcome},
};

use super::{Run, TURNS_MAX};
use crate::promise::Version;

/// Reads of one range that stop short before what there is must do.
const SHORT_READS_MAX: u32 = 8;

/// What clients do between two reads of an iteration, at most.
const OPERATIONS_BETWEEN: u32 = 3;

/// An iteration pauses after one in so many records.
const PAUSES_ONE_IN: u32 = 12;

/// How often one that was paused goes on from its end, at most, before it has shown everything:
/// what is moved and not flushed when it comes to its end is shown by going on from there.
const ROUNDS_MAX: u32 = 6;

/// Turns between two of these: enough for a flush of everything.
const TURNS_BETWEEN: u32 = 100;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// What an iteration has shown, and what it was to show.
#[derive(Debug)]
pub(super) struct Walk {
    begun_ms: u64,
    /// The newest version of each key when it began, if that was durable, and how often
    /// it had moved.
    before: BTreeMap<u64, (Version, u64)>,
    /// Keys that were shown since it began, or went on from its end.
    shown: BTreeSet<u64>,
    /// All of them.
    ever_shown: BTreeSet<u64>,
    /// Something could not be read.
    has_failed: bool,
    has_paused: bool,
    /// How often it has gone on from its end.
    rounds: u32,
    /// What comes behind what was shown last.
    cursor: Option<[u8; CURSOR_BYTES]>,
}

/// How far an iteration has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Come {
    /// There is more.
    Further,
    /// It goes on another time.
    Paused,
    ToTheEnd,
}

impl Run {
    /// Goes through the log in the order of insertion, while clients write; or goes on with that.
    pub(super) fn iterate(&mut self) -> Result<(), String> {
        let paused = self.paused.take();
        let mut walk = match paused {
            Some(walk) => walk,
            None => self.begin_walk()?,
        };
        loop {
            walk.has_failed |= self.unread.is_any() || self.has_lied();
            self.is_walking = true;
            let come = self.walk_on(&mut walk);
            self.is_walking = false;
            if come? == Come::Paused {
                walk.has_paused = true;
                self.paused = walk.cursor.is_some().then_some(walk);
                return Ok(());
            }
            self.count("iterations");
            // What was moved, and could not be flushed, cannot be read before the next open.
            walk.has_failed |= self.log.as_ref().is_some_and(super::Log::is_read_only);
            let missing = self.missing(&walk);
            let is_enough = walk.has_failed || missing.is_none() && self.random.below(2) == 0;
            if is_enough || walk.rounds > 0 && missing.is_none() {
                return Ok(());
            }
            if let Some((key, version, has_moved)) = missing
                && (!walk.has_paused || !has_moved || walk.rounds == ROUNDS_MAX)
            {
                return Err(format!("key {key} was {version:?} all the time, and is not shown"));
            }
            walk.rounds += 1;
            self.count("iterations from an end");
            for _ in 0..TURNS_BETWEEN {
                self.turn()?;
            }
            if self.machine.has_stopped() {
                return Ok(());
            }
        }
    }

    /// Every other time all is flushed first: then it is to show everything.
    fn begin_walk(&mut self) -> Result<Walk, String> {
        let newest = self.newest();
        let is_whole = self.random.below(2) == 0 && self.drain_now()?;
        let mut before = BTreeMap::new();
        for (key, number) in newest.into_iter().filter(|_| is_whole) {
            self.promises.promise(key, number);
            let version = self.promises.newest(key);
            // A large value may have got its head meanwhile.
            if version.number == number {
                before.insert(key, (version, self.moves(&version)));
            }
        }
        Ok(Walk {
            begun_ms: self.now_ms,
            before,
            shown: BTreeSet::new(),
            ever_shown: BTreeSet::new(),
            has_failed: false,
            has_paused: false,
            rounds: 0,
            cursor: None,
        })
    }

    /// From where it stands to its end or a pause.
    fn walk_on(&mut self, walk: &mut Walk) -> Result<Come, String> {
        let after =
            walk.cursor.map(|bytes| Cursor::decode(&bytes).ok_or("no cursor")).transpose()?;
        if !self.settle_moves()? {
            return Ok(Come::Paused);
        }
        let begun = self.log_mut().iterate(after.as_ref());
        let mut iteration = begun.map_err(|error| format!("no iteration: {error}"))?;
        if after.is_some() {
            self.count("iterations that went on");
        }
        if let Some(Cursor { place: Place::Record { upto: 0, .. }, .. }) = after {
            // From an end: what is shown from here on was written since, or moved.
            walk.shown.clear();
        }
        self.tell(|_| format!("iteration from {after:?}"));
        let come = self.walk_with(walk, &mut iteration);
        if self.machine.has_stopped() {
            self.log_mut().end_iteration(iteration);
            return Ok(Come::Paused);
        }
        if come == Ok(Come::ToTheEnd) {
            walk.cursor = Some(iteration.cursor().encode());
        }
        self.log_mut().end_iteration(iteration);
        come
    }

    /// Until what was moved is durable. `false`, when the machine has stopped, or it cannot be.
    fn settle_moves(&mut self) -> Result<bool, String> {
        for _ in 0..TURNS_MAX {
            match self.log_mut().settle_moves() {
                Settled::Done => return Ok(true),
                // There is no room for what a failed flush has left.
                Settled::Failed => return Ok(false),
                Settled::Pending => {}
            }
            self.turn()?;
            if self.machine.has_stopped() {
                return Ok(false);
            }
        }
        Err("what is moved never settles".to_owned())
    }

    fn walk_with(&mut self, walk: &mut Walk, iteration: &mut Iteration) -> Result<Come, String> {
        while let Some(window) = iteration.window() {
            let action = |buffer| window.action(buffer);
            match self.read_now(window.bytes(), action) {
                Ok(bytes) => {
                    if self.show(walk, iteration, &bytes)? == Come::Paused {
                        return Ok(Come::Paused);
                    }
                }
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
        Ok(Come::ToTheEnd)
    }

    /// What a read has brought.
    fn show(
        &mut self,
        walk: &mut Walk,
        iteration: &mut Iteration,
        bytes: &[u8],
    ) -> Result<Come, String> {
        let mut found = iteration.take(bytes);
        let now_ms = self.now_ms;
        self.log_mut().keep_newest(iteration, &mut found, now_ms);
        for item in found {
            let behind = item.as_ref().ok().map(|item| item.cursor.encode());
            let shown = match item {
                Ok(item) => self.find_shown(iteration, item),
                Err(error) => Err(error),
            };
            match shown {
                _ if self.machine.has_stopped() => return Ok(Come::Further),
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
            walk.cursor = behind.or(walk.cursor);
            if behind.is_some() && self.random.below(PAUSES_ONE_IN) == 0 {
                return Ok(Come::Paused);
            }
        }
        walk.cursor = Some(iteration.cursor().encode());
        Ok(Come::Further)
    }

    fn find_shown(
        &mut self,
        iteration: &mut Iteration,
        found: Found,
    ) -> Result<Option<Pair>, Error> {
        let shown = self.log_mut().find_shown(iteration, found)?;
        let Some((key, Stored { mut value, parts, .. })) = shown else { return Ok(None) };
        let readings = parts.map_or(Vec::new(), |spread| self.log_mut().all_parts(&spread));
        for reading in readings {
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
        self.tell(|_| format!("shown: key {key}"));
        // What was shown before a crash may be shown as something older, behind an open that could
        // not read all.
        let may_repeat = walk.has_failed && walk.has_paused || self.has_lied();
        if !walk.shown.insert(key) && !may_repeat {
            return Err(format!("key {key} is shown twice"));
        }
        walk.ever_shown.insert(key);
        let before = walk.before.get(&key).map_or(0, |(version, _)| version.number);
        let newest = self.promises.newest(key).number;
        let since = if self.unread.hides(key) { newest } else { before };
        self.seen(key, (since, walk.begun_ms), Some(value), None)
    }

    /// A key that nobody has written since the iteration began, and that was not shown; and whether
    /// it was moved since. One that was not at first.
    fn missing(&self, walk: &Walk) -> Option<(u64, Version, bool)> {
        let now_ms = self.now_ms;
        let is_unwritten = |key: &u64, version: &Version| {
            let last = self.ever.get(key).and_then(|versions| versions.last());
            last.is_some_and(|last| last.number == version.number)
        };
        let missing = walk.before.iter().filter(|(key, (version, _))| {
            let is_there = !version.is_absent(now_ms) && is_unwritten(key, version);
            is_there && !walk.ever_shown.contains(key)
        });
        let missing =
            missing.map(|(key, (version, moves))| (*key, *version, self.moves(version) != *moves));
        missing.min_by_key(|(.., has_moved)| *has_moved)
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

    /// Lists the keys of a log of integers, from one on: those that are there, in their order.
    pub(super) fn list_keys(&mut self) -> Result<(), String> {
        let from = self.random.below(self.scenario.keys).into();
        let (mut listed, mut next) = (Vec::new(), Some(from));
        while let Some(first) = next {
            let more = self.log_mut().keys_from(first, &mut listed);
            next = more.map_err(|error| format!("keys are not listed: {error}"))?;
        }
        if self.has_lied() || self.unread.is_any() {
            return Ok(());
        }
        let keys = from..u64::from(self.scenario.keys);
        listed.retain(|key| keys.contains(key));
        let there: Vec<u64> = keys
            .filter(|key| {
                let newest = self.promises.newest(*key);
                let is_listed = listed.contains(key);
                // What has expired is there or not.
                let has_expired = newest.value_len.is_some() && newest.is_absent(self.now_ms);
                if has_expired || !self.promises.is_sure(*key) || self.promises.is_either(*key) {
                    is_listed
                } else {
                    newest.value_len.is_some()
                }
            })
            .collect();
        self.count("keys listed");
        if there == listed {
            return Ok(());
        }
        Err(format!("keys {listed:?} are listed, and not {there:?}"))
    }
}
