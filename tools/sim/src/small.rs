//! A small log, to be hurt in every way that there is.
//!
//! [`every_crash`] plays a short script and stops the machine after each of its actions; a
//! [`Specimen`] is what such a script leaves, whose files are cut off at each length, are missing,
//! and have each bit flipped. After each of these the log is opened and every key looked at.

mod specimen;

use std::{collections::BTreeMap, ops::Range};

pub use specimen::{Left, Specimen, Verdict};

use log::{
    engine::{Engine, Mark, Mode, Put, Removed, Report, Settings, Settled, Wrote},
    error::Error,
    index::Keyed,
    keys::Keys as _,
    plan::{Action, Disk as _, FileName, SegmentId},
};

use crate::{
    disk::Disk,
    machine::{Crash, Machine},
    promise::{Promises, Version, Wrong, value},
    run,
    scenario::{Class, Scenario},
};

/// The log that is hurt.
type Log = Engine<Keyed>;

/// Keys of the script.
const KEYS: u64 = 5;

/// The time at which all of it happens.
const NOW_MS: u64 = 1_000_000;

/// Requests that are enough for any step of the script.
const REQUESTS_MAX: u32 = 1000;

/// The shape of the small log: segments of 16 blocks of 512 bytes.
fn scenario(seed: u64) -> Scenario {
    let settings =
        Settings { mode: Mode::Safe, chunk_bytes: 1024, chunks: 4, ..Settings::default() };
    Scenario {
        class: Class::Honest,
        keys: KEYS as u32,
        directories: 1,
        block_bytes: 512,
        segment_bytes: 16 * 512,
        part_bytes: 512,
        has_large: true,
        entry_bytes: 5,
        kmax: 3,
        settings,
        capacity_bytes: 8 << 20,
        ..Scenario::new(seed)
    }
}

/// The script under way.
struct Player {
    scenario: Scenario,
    machine: Machine,
    log: Option<Log>,
    promises: Promises,
    /// Every version of each key.
    ever: BTreeMap<u64, Vec<Version>>,
    next_number: u64,
    /// Where the newest record of each key is: segment and offset.
    places: BTreeMap<u64, (u32, u64)>,
    /// What gets have read: which bytes of which segment.
    reads: Vec<(SegmentId, Range<u64>)>,
}

/// What went wrong.
pub type Problem = String;

impl Player {
    fn new(seed: u64) -> Self {
        let scenario = scenario(seed);
        let mut disk = Disk::new(seed, 1, scenario.capacity_bytes);
        disk.set_block_bytes(512);
        Self {
            machine: Machine::new(seed, disk),
            scenario,
            log: None,
            promises: Promises::default(),
            ever: BTreeMap::new(),
            next_number: 1,
            places: BTreeMap::new(),
            reads: Vec::new(),
        }
    }

    /// Opens the log; nothing is open when the machine has stopped meanwhile.
    fn open(&mut self) -> Result<Option<Report>, Problem> {
        let opened = run::open(&self.scenario, &mut self.machine, NOW_MS);
        if self.machine.has_stopped() {
            return Ok(None);
        }
        let (log, report) = opened.map_err(|error| format!("not opened: {error}"))?;
        self.log = Some(log);
        Ok(Some(report))
    }

    /// Puts a value of `len` bytes under `key`, or removes it; until that is answered.
    fn write(&mut self, key: u64, len: Option<usize>) -> Result<(), Problem> {
        if self.machine.has_stopped() {
            return Ok(());
        }
        let version = Version { number: self.next_number, value_len: len, expires_ms: 0 };
        self.next_number += 1;
        let bytes = len.map(|len| value(version.number, len));
        let name = key.to_le_bytes();
        let part_bytes = self.scenario.part_bytes as usize;
        let mut upload = None;
        let mut from = 0;
        for _ in 0..REQUESTS_MAX {
            let Some(log) = &mut self.log else { return Ok(()) };
            // Only a flat index has a range.
            let has_key = self.scenario.entry_bytes == 0 || log.grow(key + 1) == Ok(Settled::Done);
            if !has_key {
                self.turn();
                if self.machine.has_stopped() {
                    return Ok(());
                }
                continue;
            }
            let wrote = match &bytes {
                None => match log.remove(&name, NOW_MS) {
                    Ok(Removed::Done { sequence, mark }) => Ok(Wrote::Done { sequence, mark }),
                    Ok(Removed::Wait) => Ok(Wrote::Wait),
                    Ok(Removed::Absent { .. }) => return Err("a key is not there".to_owned()),
                    Err(error) => Err(error),
                },
                Some(bytes) if bytes.len() <= part_bytes => {
                    log.put(&Put { key: &name, value: bytes, ..Put::default() }, NOW_MS)
                }
                Some(bytes) => {
                    if upload.is_none() {
                        match log.begin_large(&name, bytes.len() as u64) {
                            Ok(begun) => upload = Some(begun),
                            Err(_) if self.machine.has_stopped() => return Ok(()),
                            Err(error) => return Err(error.to_string()),
                        }
                    }
                    let Some(upload) = &mut upload else { continue };
                    if upload.left() == 0 {
                        log.put_head(upload, &Put { key: &name, ..Put::default() }, NOW_MS)
                    } else {
                        let to = bytes.len().min(from + part_bytes);
                        match log.put_part(upload, &bytes[from..to], NOW_MS) {
                            Ok(Wrote::Done { .. }) => {
                                from = to;
                                Ok(Wrote::Wait)
                            }
                            other => other,
                        }
                    }
                }
            };
            match wrote {
                Ok(Wrote::Wait) => self.turn(),
                Ok(Wrote::Done { mark, .. }) => {
                    self.promises.publish(key, version);
                    self.ever.entry(key).or_default().push(version);
                    return self.wait(key, version, mark);
                }
                Err(_) if self.machine.has_stopped() => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
            if self.machine.has_stopped() {
                return Ok(());
            }
        }
        Err("a write waits for ever".to_owned())
    }

    fn wait(&mut self, key: u64, version: Version, mark: Mark) -> Result<(), Problem> {
        for _ in 0..REQUESTS_MAX {
            self.turn();
            let Some(log) = &self.log else { return Ok(()) };
            if self.machine.has_stopped() {
                return Ok(());
            }
            match log.may_answer(mark) {
                Settled::Pending => {}
                Settled::Done => {
                    self.promises.promise(key, version.number);
                    return Ok(());
                }
                Settled::Failed => return Err("a flush failed".to_owned()),
            }
        }
        Err("an answer never comes".to_owned())
    }

    fn turn(&mut self) {
        let Some(log) = &mut self.log else { return };
        while let Some(plan) = log.poll(NOW_MS) {
            self.machine.submit(plan);
        }
        if let Some((token, outcome)) = self.machine.step() {
            log.complete(token, outcome);
        }
    }

    /// Stops in order.
    fn close(&mut self) -> Result<(), Problem> {
        for _ in 0..REQUESTS_MAX {
            self.turn();
            if self.machine.has_stopped() || self.machine.in_flight() == 0 {
                break;
            }
        }
        let Some(mut log) = self.log.take() else { return Ok(()) };
        if self.machine.has_stopped() {
            return Ok(());
        }
        let closed = log.close(&mut self.machine, NOW_MS);
        if self.machine.has_stopped() { Ok(()) } else { closed.map_err(|error| error.to_string()) }
    }

    /// The script: values of several sizes, one removed, some written again, over a stop in order.
    fn play(&mut self) -> Result<(), Problem> {
        self.open()?;
        // A log that has a large value saves no index.
        let large = if self.scenario.has_large { 1300 } else { 400 };
        for (key, len) in [(0, 20), (1, 300), (2, large), (3, 500), (0, 40), (4, 0)] {
            self.write(key, Some(len))?;
        }
        self.write(1, None)?;
        for (key, len) in [(3, 480), (0, 511), (3, 490), (2, large), (3, 470)] {
            self.write(key, Some(len))?;
        }
        self.close()?;
        self.open()?;
        for (key, len) in [(1, 100), (2, large), (0, 60)] {
            self.write(key, Some(len))?;
        }
        self.write(3, None)
    }

    /// Notes where the newest record of each key is.
    fn note_places(&mut self) {
        let Some(log) = &self.log else { return };
        for key in 0..KEYS {
            let hash = log.index().hash(&key.to_le_bytes());
            if let Some(entry) = hash.ok().and_then(|hash| log.index().get(hash)) {
                let place = run::place_of(entry, self.scenario.segment_bytes);
                self.places.insert(key, place);
            }
        }
    }

    /// What the log shows of a key.
    fn get(&mut self, key: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(log) = &mut self.log else { return Ok(None) };
        let (machine, reads) = (&mut self.machine, &mut self.reads);
        let mut perform = |action: Action| {
            if let Action::Read { file, offset, bytes, .. } = &action
                && let FileName::Segment(segment) = file.name
            {
                reads.push((segment, *offset..offset + *bytes as u64));
            }
            machine.perform(action)
        };
        run::value_of(log, key, NOW_MS, &mut perform)
    }

    /// Every key shows what a crash may bring back.
    fn check(&mut self) -> Result<(), Problem> {
        for key in 0..KEYS {
            let seen = self.get(key).map_err(|error| format!("key {key}: {error}"))?;
            let recovered = self.promises.recover(key, seen.as_deref(), (NOW_MS, NOW_MS));
            recovered.map_err(|Wrong { seen, allowed, .. }| {
                format!("key {key} shows {seen:?}, not one of {allowed:?}")
            })?;
        }
        Ok(())
    }
}

/// How many actions the script takes on this seed's machine.
///
/// # Errors
/// When the script fails on a machine that does nothing wrong.
pub fn actions_of_script(seed: u64) -> Result<u64, Problem> {
    let mut player = Player::new(seed);
    player.play()?;
    Ok(player.machine.performed())
}

/// Plays the script, stops the machine after so many actions, then stops recovery after each
/// number of its actions until it is through, and looks at every key each time.
///
/// # Errors
/// When something that was promised is not there.
pub fn every_crash(seed: u64, actions: u64) -> Result<(), Problem> {
    let mut player = Player::new(seed);
    player.machine.stop_after(actions);
    player.play()?;
    player.log = None;
    player.machine.crash(if seed.is_multiple_of(3) { Crash::Process } else { Crash::Machine });
    for recovery in 0_u64.. {
        player.machine.stop_after(recovery);
        let opened = player.open()?;
        if opened.is_some_and(|report| report.damages.is_empty()) {
            player.machine.stop_after(u64::MAX);
            return player.check();
        }
        if !player.machine.has_stopped() {
            return Err("damage is named where there is none".to_owned());
        }
        player.log = None;
        player.machine.crash(Crash::Machine);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
