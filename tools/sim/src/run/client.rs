//! What clients do.

use log::{
    engine::{Get, Mode, Put, Removed, Settled, Wrote},
    error::Error,
};

use super::{Fetch, Run, TURNS_MAX, Waiting};
use crate::promise::{Number, Version, value};

/// The longest value beside a part's length, in parts.
pub(super) const PARTS_MOST: u32 = 5;

impl Run {
    /// One operation of one client. While the most clients wait that may, they wait.
    pub(super) fn operate(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            let busy = self.waiting.len() + self.fetches.len();
            if busy < self.scenario.clients as usize || self.machine.has_stopped() {
                break;
            }
            self.turn()?;
        }
        if self.machine.has_stopped() {
            return Ok(());
        }
        self.operation += 1;
        let key = self.key();
        self.do_one(key)?;
        self.step_moves();
        Ok(())
    }

    fn do_one(&mut self, key: u64) -> Result<(), String> {
        match self.random.below(100) {
            0..42 => self.put(key),
            42..48 => self.batch(),
            48..52 if self.scenario.has_large => self.begin_large(key),
            48..52 => self.put(key),
            52..66 => self.remove(key),
            66 if !self.is_walking && self.random.below(3) == 0 => self.iterate(),
            67 if !self.is_walking && self.random.below(8) == 0 => self.back_up(),
            68 if self.scenario.entry_bytes != 0 => self.list_keys(),
            69 if self.random.below(3) == 0 => self.wipe(),
            66..97 => self.get(key),
            97..99 => self.drain(),
            _ => self.change_mode(),
        }
    }

    /// A key that something is to be done with.
    pub(super) fn key(&mut self) -> u64 {
        let keys = self.scenario.keys;
        let below = if self.scenario.is_skewed { 1 + self.random.below(keys) } else { keys };
        self.random.below(below).into()
    }

    /// Has the index take a key, if it is of that kind. `false`, when it was refused or the machine
    /// has stopped.
    pub(super) fn grow_for(&mut self, key: u64) -> Result<bool, String> {
        if self.scenario.entry_bytes == 0 {
            return Ok(true);
        }
        for attempt in 0..TURNS_MAX {
            match self.log_mut().grow(key + 1) {
                Ok(Settled::Done) => {
                    if attempt > 0 {
                        self.count("growths of the range of keys");
                    }
                    return Ok(true);
                }
                Ok(_) => {}
                Err(error) => return self.refused(&error).map(|()| false),
            }
            self.turn()?;
            if self.machine.has_stopped() {
                return Ok(false);
            }
        }
        Err("a growth waits for ever".to_owned())
    }

    fn put(&mut self, key: u64) -> Result<(), String> {
        if !self.grow_for(key)? {
            return Ok(());
        }
        let len = match self.random.below(8) {
            0 => 0,
            1 => self.random.below(8),
            // As long as others: it takes the place of one that is still in memory.
            2 | 3 => 100,
            7 => self.random.below(self.scenario.part_bytes + 1),
            _ => self.random.below(200),
        };
        let version = self.version(Some(len as usize));
        let bytes = value(version.number, len as usize);
        let put = |run: &mut Self, key: &[u8]| {
            let put = put_of(key, &bytes, version);
            let now_ms = run.now_ms;
            run.log_mut().put(&put, now_ms)
        };
        let before = self.overwritten();
        let Some(wrote) = self.insist(key, put)? else { return Ok(()) };
        self.wrote(key, version, wrote);
        self.count_many("values written over in memory", self.overwritten() - before);
        Ok(())
    }

    /// How many values were written over in memory since the log was opened.
    fn overwritten(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.counts().overwritten)
    }

    fn begin_large(&mut self, key: u64) -> Result<(), String> {
        if !self.grow_for(key)? {
            return Ok(());
        }
        let len = self.large_len();
        let version = self.version(Some(len));
        let begun = self.log_mut().begin_large(&name(key), len as u64);
        match begun {
            Ok(upload) => {
                let value = value(version.number, len);
                self.waiting.push(Waiting::Large { key, version, upload, value });
                self.count("large puts begun");
                Ok(())
            }
            Err(error) => self.refused(&error),
        }
    }

    /// How long a large value is.
    pub(super) fn large_len(&mut self) -> usize {
        let part_bytes = self.scenario.part_bytes;
        (part_bytes + 1 + self.random.below(part_bytes * (PARTS_MOST - 1))) as usize
    }

    fn remove(&mut self, key: u64) -> Result<(), String> {
        let version = self.version(None);
        let remove = |run: &mut Self, key: &[u8]| {
            let now_ms = run.now_ms;
            let removed = match run.log_mut().remove(key, now_ms) {
                // Such a key was never written.
                Err(Error::Key(_)) => Removed::Absent { wait: None },
                other => other?,
            };
            match removed {
                Removed::Wait => Ok(Wrote::Wait),
                Removed::Done { sequence, mark } => Ok(Wrote::Done { sequence, mark }),
                Removed::Absent { wait } => {
                    run.saw_absent = Some(wait);
                    Ok(Wrote::Wait)
                }
            }
        };
        let Some(wrote) = self.insist(key, remove)? else { return Ok(()) };
        self.wrote(key, version, wrote);
        Ok(())
    }

    /// Asks again until there is room. Nothing, when it was refused or the machine has stopped.
    fn insist(
        &mut self,
        key: u64,
        mut ask: impl FnMut(&mut Self, &[u8]) -> Result<Wrote, Error>,
    ) -> Result<Option<Wrote>, String> {
        let name = name(key);
        for _ in 0..TURNS_MAX {
            match ask(self, &name) {
                Ok(Wrote::Wait) => {}
                Ok(done) => return Ok(Some(done)),
                Err(error) => return self.refused(&error).map(|()| None),
            }
            if let Some(wait) = self.saw_absent.take() {
                let newest = self.promises.newest(key).number;
                self.seen(key, (newest, self.now_ms), None, wait)?;
                return Ok(None);
            }
            self.count("waits for room");
            self.turn()?;
            if self.machine.has_stopped() {
                return Ok(None);
            }
        }
        Err("a write waits for ever".to_owned())
    }

    pub(super) fn wrote(&mut self, key: u64, version: Version, wrote: Wrote) {
        if let Wrote::Done { sequence, mark } = wrote {
            self.tell(|_| format!("key {key} is {version:?}, sequence {sequence}, {mark:?}"));
            self.publish(key, version);
            self.waiting.push(Waiting::Write { key, number: version.number, mark });
            self.count(if version.value_len.is_some() { "puts" } else { "removes" });
        }
    }

    pub(super) fn publish(&mut self, key: u64, version: Version) {
        self.unread.overwritten(key, version.number);
        self.promises.publish(key, version);
        self.ever.entry(key).or_default().push(version);
        self.note_place(key, version.number);
    }

    /// Looks a key up and checks what memory answers; a read is under way then or nothing.
    fn get(&mut self, key: u64) -> Result<(), String> {
        self.look_up(key, false)
    }

    pub(super) fn look_up(&mut self, key: u64, is_check: bool) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            let now_ms = self.now_ms;
            let got = self.log_mut().get(&name(key), now_ms);
            let newest = self.promises.newest(key).number;
            self.count("gets");
            let (seen, parts, wait) = match got {
                Ok(Get::Wait) => {
                    self.turn()?;
                    if self.machine.has_stopped() {
                        return Ok(());
                    }
                    continue;
                }
                Ok(Get::Read(reading)) => {
                    let fetch = Fetch {
                        key,
                        newest,
                        asked_ms: now_ms,
                        readings: vec![reading],
                        parts: None,
                        wait: None,
                        tries: 0,
                        is_check,
                    };
                    self.fetch(fetch);
                    return Ok(());
                }
                Ok(Get::Absent { wait }) => (None, None, wait),
                // Such a key was never written.
                Err(Error::Key(_)) => (None, None, None),
                Ok(Get::Memory { stored, wait }) => (Some(stored.value), stored.parts, wait),
                Err(error) => return self.refused_get((key, newest), &error, is_check),
            };
            if let Some(spread) = parts {
                let readings = self.log_mut().all_parts(&spread);
                let (asked_ms, parts, tries) = (now_ms, Some(Vec::new()), 0);
                self.fetch(Fetch { key, newest, asked_ms, readings, parts, wait, tries, is_check });
                return Ok(());
            }
            if is_check {
                return self.recovered(key, now_ms, seen.as_deref());
            }
            return self.seen(key, (newest, now_ms), seen.as_deref(), wait);
        }
        Err(format!("a get of key {key} waits for ever"))
    }

    fn drain(&mut self) -> Result<(), String> {
        let newest = self.newest();
        let drain = self.log_mut().drain();
        self.waiting.push(Waiting::Drain { drain, newest });
        self.count("drains");
        Ok(())
    }

    /// From `async` to `safe`, which is confirmed when all is flushed, or back.
    fn change_mode(&mut self) -> Result<(), String> {
        self.mode = if self.mode == Mode::Safe { Mode::Async } else { Mode::Safe };
        let mode = self.mode;
        self.log_mut().set_mode(mode);
        self.tell(|_| format!("mode {mode:?}"));
        self.count("mode changes");
        if mode == Mode::Safe { self.drain() } else { Ok(()) }
    }

    /// The newest version of each key, as far as the log has it.
    pub(super) fn newest(&self) -> Vec<(u64, Number)> {
        let is_known = |key: &u64| !self.unread.hides(*key) && self.promises.knows_newest(*key);
        let keys = self.promises.keys().filter(is_known);
        keys.map(|key| (key, self.promises.newest(key).number)).collect()
    }

    pub(super) fn version(&mut self, value_len: Option<usize>) -> Version {
        let number = self.next_number;
        self.next_number += 1;
        let expires = value_len.is_some_and(|len| len > 0) && self.random.below(10) == 0;
        let expires_ms =
            if expires { self.now_ms + 1 + u64::from(self.random.below(300)) } else { 0 };
        Version { number, value_len, expires_ms }
    }

    pub(super) fn log_mut(&mut self) -> &mut super::Log {
        self.log.as_mut().expect("invariant: clients act while the log is open")
    }
}

/// What is stored as a key.
pub(super) fn name(key: u64) -> Vec<u8> {
    key.to_le_bytes().to_vec()
}

/// A put of a version, with every field that can be told apart later.
pub(super) fn put_of<'a>(key: &'a [u8], value: &'a [u8], version: Version) -> Put<'a> {
    Put {
        key,
        value,
        expiry_ms: version.expires_ms,
        flags: flags(version.number),
        ..Put::default()
    }
}

/// The client flags of a version; every other one has none.
pub(super) fn flags(number: Number) -> u32 {
    if number.is_multiple_of(2) { 0 } else { (number & 0xffff_ffff) as u32 }
}
