//! Batches: what takes effect together, through crashes too.

use log::{
    engine::{Batch, Change, Mark, Upload, Wrote},
    error::Error,
    keys::Keys as _,
    position::Entry,
};

use super::{Run, TURNS_MAX, Waiting, client};
use crate::promise::{Number, Version, value};

/// The most changes of a batch; keys may come more than once.
const CHANGES_MAX: u32 = 5;

/// The longest value in a batch that is no large one.
const VALUE_BYTES_MAX: u32 = 60;

/// What a record of a batch has beside its value at most: that of a large one names its parts.
const RECORD_BYTES_MAX: usize = 256;

/// A change that is to be made.
struct Planned {
    key: u64,
    name: Vec<u8>,
    version: Version,
    value: Vec<u8>,
    /// Of a large value: its parts.
    upload: Option<Upload>,
}

impl Planned {
    fn change(&self) -> Change<'_> {
        match (&self.upload, self.version.value_len) {
            (Some(upload), _) => {
                Change::Head(upload, client::put_of(&self.name, &[], self.version))
            }
            (None, Some(_)) => Change::Put(client::put_of(&self.name, &self.value, self.version)),
            (None, None) => Change::Remove(&self.name),
        }
    }
}

/// A key before a batch: its newest version, and where its newest record is.
type Before = (Number, Option<Entry>);

/// What came of a batch.
struct Done {
    marks: Option<(Mark, Mark)>,
    /// The key of each change as it was.
    before: Vec<Before>,
}

impl Run {
    /// A few puts and removes, all of them or none.
    pub(super) fn batch(&mut self) -> Result<(), String> {
        let count = 2 + self.random.below(CHANGES_MAX - 1);
        let mut planned = Vec::new();
        for _ in 0..count {
            let key = self.key();
            if !self.grow_for(key)? {
                return Ok(());
            }
            let Some(change) = self.plan_change(key)? else { return Ok(()) };
            planned.push(change);
        }
        let Some(done) = self.write_batch(&planned)? else { return Ok(()) };
        self.tell(|_| {
            let made: Vec<_> = planned.iter().map(|it| (it.key, it.version)).collect();
            format!("batch {made:?}, {:?}", done.marks)
        });
        let asked_ms = self.now_ms;
        let mut changes = Vec::new();
        for (change, (newest, entry)) in planned.iter().zip(&done.before) {
            if self.entry_of(change.key) != *entry {
                self.publish(change.key, change.version);
                changes.push((change.key, change.version.number));
                continue;
            }
            // The batch has no record of the key, which it was to remove: it has seen that there
            // is nothing to be removed, and that this is durable.
            if change.version.value_len.is_some() {
                return Err(format!("a batch has not put key {}", change.key));
            }
            self.seen(change.key, (*newest, asked_ms), None, None)?;
            self.count("removes of what is not there in batches");
        }
        match done.marks {
            Some(marks) if !changes.is_empty() => {
                self.batches.add(changes.clone());
                self.waiting.push(Waiting::Batch { changes, marks });
                self.count("batches");
            }
            None if changes.is_empty() => {}
            marks => return Err(format!("a batch of {} waits for {marks:?}", changes.len())),
        }
        Ok(())
    }

    /// What a batch is to make of a key. Nothing, when it was refused or the machine has stopped.
    fn plan_change(&mut self, key: u64) -> Result<Option<Planned>, String> {
        let is_large = self.scenario.has_large && self.random.below(12) == 0;
        let len = match self.random.below(4) {
            _ if is_large => Some(self.large_len()),
            0 => None,
            _ => Some(self.random.below(VALUE_BYTES_MAX) as usize),
        };
        let version = self.version(len);
        let value = value(version.number, len.unwrap_or(0));
        let upload = if is_large {
            let Some(upload) = self.upload(key, &value)? else { return Ok(None) };
            self.count("large values in batches");
            Some(upload)
        } else {
            None
        };
        Ok(Some(Planned { key, name: client::name(key), version, value, upload }))
    }

    /// Puts all parts of a large value. Nothing, when that was refused or the machine has stopped.
    fn upload(&mut self, key: u64, value: &[u8]) -> Result<Option<Upload>, String> {
        let begun = self.log_mut().begin_large(&client::name(key), value.len() as u64);
        let mut upload = match begun {
            Ok(upload) => upload,
            Err(error) => return self.refused(&error).map(|()| None),
        };
        let mut parts = value.chunks(self.scenario.part_bytes as usize).peekable();
        for _ in 0..TURNS_MAX {
            let Some(part) = parts.peek() else { return Ok(Some(upload)) };
            let now_ms = self.now_ms;
            match self.log_mut().put_part(&mut upload, part, now_ms) {
                Ok(Wrote::Done { .. }) => {
                    parts.next();
                    continue;
                }
                Ok(Wrote::Wait) => {}
                Err(error) => return self.refused(&error).map(|()| None),
            }
            self.turn()?;
            if self.machine.has_stopped() {
                return Ok(None);
            }
        }
        Err("a part waits for ever".to_owned())
    }

    /// Asks until there is room. Nothing, when it was refused or the machine has stopped.
    fn write_batch(&mut self, planned: &[Planned]) -> Result<Option<Done>, String> {
        let changes: Vec<Change<'_>> = planned.iter().map(Planned::change).collect();
        for _ in 0..TURNS_MAX {
            let before = planned.iter().map(|it| self.before(it.key)).collect();
            let now_ms = self.now_ms;
            match self.log_mut().write_batch(&changes, now_ms) {
                Ok(Batch::Done { marks, .. }) => return Ok(Some(Done { marks, before })),
                Ok(Batch::Wait) => {}
                // A flush of parts has failed.
                Err(Error::Unflushed) if self.may_fail() => return Ok(None),
                // Large values that together are more than may be lost.
                Err(Error::BatchBytes { max, .. }) if self.is_too_much(planned, max) => {
                    self.count("batches of more than may be lost");
                    return Ok(None);
                }
                Err(error) => return self.refused(&error).map(|()| None),
            }
            self.turn()?;
            if self.machine.has_stopped() {
                return Ok(None);
            }
        }
        Err("a batch waits for ever".to_owned())
    }

    /// Whether a batch has large values, and with everything that its records may have beside
    /// their values comes to more than `max` bytes, which is what may be lost.
    fn is_too_much(&self, planned: &[Planned], max: usize) -> bool {
        let settings = &self.scenario.settings;
        let bytes = planned.iter().map(|it| it.version.value_len.unwrap_or(0) + RECORD_BYTES_MAX);
        max as u64 == settings.at_risk_bytes_max
            && planned.iter().any(|it| it.upload.is_some())
            && bytes.sum::<usize>() > max
    }

    fn before(&self, key: u64) -> Before {
        (self.promises.newest(key).number, self.entry_of(key))
    }

    fn entry_of(&self, key: u64) -> Option<Entry> {
        let index = self.log.as_ref()?.index();
        index.get(index.hash(&client::name(key)).ok()?)
    }

    /// After a crash each batch is there or not.
    pub(super) fn check_batches(&mut self) -> Result<(), String> {
        if self.unread.is_any() {
            // Once more when all of it can be read.
            self.batches.look_again();
            return Ok(());
        }
        if self.has_lied() {
            self.batches.clear();
            return Ok(());
        }
        let lost = self.batches.check()?;
        self.count_many("batches lost whole", lost);
        Ok(())
    }
}
