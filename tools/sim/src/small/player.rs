//! A log under way on a machine that may stop, one write at a time.

use std::{collections::BTreeMap, ops::Range};

use log::{
    engine::{Counts, Mark, Put, Removed, Report, Settled, Upload, Wrote},
    error::Error,
    keys::Keys as _,
    plan::{Action, Disk as _, FileName, SegmentId},
};

use super::{KEYS, Log, Moved, NOW_MS, Problem, REQUESTS_MAX, scenario};
use crate::{
    disk::Disk,
    machine::Machine,
    promise::{Promises, Version, Wrong, value},
    run,
    scenario::Scenario,
};

/// The script under way.
pub(super) struct Player {
    pub(super) scenario: Scenario,
    pub(super) machine: Machine,
    pub(super) log: Option<Log>,
    pub(super) now_ms: u64,
    /// What compaction has done.
    pub(super) moved: Moved,
    pub(super) promises: Promises,
    /// Every version of each key.
    pub(super) ever: BTreeMap<u64, Vec<Version>>,
    next_number: u64,
    /// Where the newest record of each key is: segment and offset.
    pub(super) places: BTreeMap<u64, (u32, u64)>,
    /// What gets have read: which bytes of which segment.
    pub(super) reads: Vec<(SegmentId, Range<u64>)>,
}

impl Player {
    pub(super) fn new(seed: u64) -> Self {
        Self::with(scenario(seed))
    }

    pub(super) fn with(scenario: Scenario) -> Self {
        let directories = usize::from(scenario.directories);
        let mut disk = Disk::new(scenario.seed, directories, scenario.capacity_bytes);
        disk.set_block_bytes(scenario.block_bytes as usize);
        Self {
            machine: Machine::new(scenario.seed, disk),
            scenario,
            log: None,
            now_ms: NOW_MS,
            moved: Moved::default(),
            promises: Promises::default(),
            ever: BTreeMap::new(),
            next_number: 1,
            places: BTreeMap::new(),
            reads: Vec::new(),
        }
    }

    /// Opens the log; nothing is open when the machine has stopped meanwhile.
    pub(super) fn open(&mut self) -> Result<Option<Report>, Problem> {
        let opened = run::open(&self.scenario, &mut self.machine, self.now_ms);
        if self.machine.has_stopped() {
            return Ok(None);
        }
        let (log, report) = opened.map_err(|error| format!("not opened: {error}"))?;
        self.log = Some(log);
        Ok(Some(report))
    }

    /// Puts a value of `len` bytes under `key`, or removes it; until that is answered.
    pub(super) fn write(&mut self, key: u64, len: Option<usize>) -> Result<(), Problem> {
        self.write_until(key, len, 0)
    }

    /// The same of a value that expires at that time, or with 0 never.
    pub(super) fn write_until(
        &mut self,
        key: u64,
        len: Option<usize>,
        expires_ms: u64,
    ) -> Result<(), Problem> {
        let version = self.version(len, expires_ms);
        let mut upload = None;
        for _ in 0..REQUESTS_MAX {
            if self.machine.has_stopped() || self.log.is_none() {
                return Ok(());
            }
            match self.ask(key, version, &mut upload) {
                Ok(Some(Wrote::Wait)) => self.turn(),
                Ok(Some(Wrote::Done { mark, .. })) => {
                    self.publish(key, version);
                    return self.wait(key, version, mark);
                }
                _ if self.machine.has_stopped() => return Ok(()),
                Ok(None) => return Err("a key is not there".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("a write waits for ever".to_owned())
    }

    pub(super) fn version(&mut self, value_len: Option<usize>, expires_ms: u64) -> Version {
        let number = self.next_number;
        self.next_number += 1;
        Version { number, value_len, expires_ms }
    }

    pub(super) fn publish(&mut self, key: u64, version: Version) {
        self.promises.publish(key, version);
        self.ever.entry(key).or_default().push(version);
    }

    /// Asks for the next step of a write. Nothing comes of it when a key is to be removed that is
    /// not there.
    pub(super) fn ask(
        &mut self,
        key: u64,
        version: Version,
        upload: &mut Option<Upload>,
    ) -> Result<Option<Wrote>, Error> {
        let Some(log) = &mut self.log else { return Ok(Some(Wrote::Wait)) };
        let (name, now_ms) = (key.to_le_bytes(), self.now_ms);
        let part_bytes = self.scenario.part_bytes as usize;
        let Some(len) = version.value_len else {
            return match log.remove(&name, now_ms) {
                Ok(Removed::Done { sequence, mark }) => Ok(Some(Wrote::Done { sequence, mark })),
                Ok(Removed::Wait) => Ok(Some(Wrote::Wait)),
                // Such a key was never written.
                Ok(Removed::Absent { .. }) | Err(Error::Key(_)) => Ok(None),
                Err(error) => Err(error),
            };
        };
        // Only a flat index has a range.
        if self.scenario.entry_bytes != 0 && log.grow(key + 1)? != Settled::Done {
            return Ok(Some(Wrote::Wait));
        }
        let bytes = value(version.number, len);
        let expiry_ms = version.expires_ms;
        if len <= part_bytes {
            let put = Put { key: &name, value: &bytes, expiry_ms, ..Put::default() };
            return log.put(&put, now_ms).map(Some);
        }
        if upload.is_none() {
            *upload = Some(log.begin_large(&name, len as u64)?);
        }
        let Some(upload) = upload else { return Ok(Some(Wrote::Wait)) };
        let left = usize::try_from(upload.left()).unwrap_or(usize::MAX);
        if left == 0 {
            let head = Put { key: &name, expiry_ms, ..Put::default() };
            return log.put_head(upload, &head, now_ms).map(Some);
        }
        let from = len - left;
        let part = &bytes[from..len.min(from + part_bytes)];
        log.put_part(upload, part, now_ms)?;
        Ok(Some(Wrote::Wait))
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

    pub(super) fn turn(&mut self) {
        self.submit_all();
        if let Some((token, outcome)) = self.machine.step()
            && let Some(log) = &mut self.log
        {
            log.complete(token, outcome);
        }
    }

    fn submit_all(&mut self) {
        let Some(log) = &mut self.log else { return };
        log.tell_wall_ms(self.now_ms);
        while let Some(plan) = log.poll(self.now_ms) {
            self.machine.submit(plan);
        }
    }

    /// Until there is nothing to be done.
    pub(super) fn idle(&mut self) -> Result<(), Problem> {
        for _ in 0..REQUESTS_MAX {
            self.turn();
            if self.machine.has_stopped() || self.is_idle() {
                return Ok(());
            }
        }
        Err("there is always something to be done".to_owned())
    }

    /// Whether nothing is under way, and the log has nothing to be done.
    pub(super) fn is_idle(&mut self) -> bool {
        self.submit_all();
        self.machine.in_flight() == 0 && !self.log.as_ref().is_some_and(Log::has_work)
    }

    pub(super) fn log_mut(&mut self) -> Result<&mut Log, Problem> {
        self.log.as_mut().ok_or_else(|| "nothing is open".to_owned())
    }

    /// Stops in order.
    pub(super) fn close(&mut self) -> Result<(), Problem> {
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
        let closed = log.close(&mut self.machine, self.now_ms);
        if self.machine.has_stopped() { Ok(()) } else { closed.map_err(|error| error.to_string()) }
    }

    /// The log is there no more, whatever the reason.
    pub(super) fn end(&mut self) {
        let counts = self.log.take().map_or_else(Counts::default, |log| log.counts());
        self.moved.segments += counts.segments_moved;
        self.moved.heads += counts.heads_moved;
        self.moved.tombstones += counts.tombstones_moved;
        self.moved.tombstones_dropped += counts.tombstones_dropped;
        self.moved.expired_dropped += counts.expired_dropped;
    }

    /// Notes where the newest record of each key is.
    pub(super) fn note_places(&mut self) {
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
    pub(super) fn get(&mut self, key: u64) -> Result<Option<Vec<u8>>, Error> {
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
        run::value_of(log, key, self.now_ms, &mut perform)
    }

    /// Every key shows what a crash may bring back.
    pub(super) fn check(&mut self) -> Result<(), Problem> {
        let times = (self.now_ms, self.now_ms);
        for key in 0..self.scenario.keys.into() {
            let seen = self.get(key).map_err(|error| format!("key {key}: {error}"))?;
            let recovered = self.promises.recover(key, seen.as_deref(), times);
            recovered.map_err(|Wrong { seen, allowed, .. }| {
                format!("key {key} shows {seen:?}, not one of {allowed:?}")
            })?;
        }
        Ok(())
    }
}
