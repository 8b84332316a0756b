//! What clients are answered, and what that promises.

use log::{
    engine::{Fetched, Mark, Mode, Settled, Wrote},
    error::Error,
    plan::{Buffer, Outcome, Plan, Token},
};

use super::{Fetch, Run, Waiting, client};
use crate::{promise::Number, scenario::Class};

/// Reads of one range that stop short before what there is must do.
const SHORT_READS_MAX: u32 = 8;

impl Run {
    /// Gives the answers that are due.
    pub(super) fn answer(&mut self) -> Result<(), String> {
        if self.machine.has_stopped() {
            return Ok(());
        }
        let mut at = 0;
        while at < self.waiting.len() {
            let waiting = self.waiting.swap_remove(at);
            if let Some(waits) = self.try_answer(waiting)? {
                self.waiting.push(waits);
                let last = self.waiting.len() - 1;
                self.waiting.swap(at, last);
                at += 1;
            }
        }
        Ok(())
    }

    /// Nothing, when it was answered; else what goes on waiting.
    fn try_answer(&mut self, waiting: Waiting) -> Result<Option<Waiting>, String> {
        match waiting {
            Waiting::Write { key, number, mark } | Waiting::Seen { key, number, mark } => {
                match self.log_mut().may_answer(mark) {
                    Settled::Pending => return Ok(Some(waiting)),
                    Settled::Failed => self.count("failed answers"),
                    Settled::Done if self.mode == Mode::Safe => {
                        self.tell(|_| format!("key {key}: version {number} is safe"));
                        self.promises.promise(key, number);
                        self.count("safe answers");
                    }
                    Settled::Done => {
                        if matches!(waiting, Waiting::Write { .. }) {
                            self.promises.acknowledge(key, number, self.now_ms);
                        }
                        self.count("early answers");
                    }
                }
                Ok(None)
            }
            Waiting::Batch { changes, marks } => {
                match self.log_mut().may_answer_all(marks.0, marks.1) {
                    Settled::Pending => return Ok(Some(Waiting::Batch { changes, marks })),
                    Settled::Failed => self.count("failed answers"),
                    Settled::Done => self.answer_batch(&changes),
                }
                Ok(None)
            }
            Waiting::Drain { mut drain, newest } => {
                match self.log_mut().drained(&mut drain) {
                    Settled::Pending => return Ok(Some(Waiting::Drain { drain, newest })),
                    Settled::Failed => self.count("failed drains"),
                    Settled::Done => {
                        self.tell(|_| "drained".to_owned());
                        self.count("drained");
                        for (key, number) in newest {
                            self.promises.promise(key, number);
                        }
                    }
                }
                Ok(None)
            }
            Waiting::Large { .. } => self.go_on_with_large(waiting),
        }
    }

    fn answer_batch(&mut self, changes: &[(u64, Number)]) {
        for (key, number) in changes {
            if self.mode == Mode::Safe {
                self.promises.promise(*key, *number);
            } else {
                self.promises.acknowledge(*key, *number, self.now_ms);
            }
        }
        self.count(if self.mode == Mode::Safe { "safe batches" } else { "early batches" });
    }

    /// The next part, or the head.
    fn go_on_with_large(&mut self, waiting: Waiting) -> Result<Option<Waiting>, String> {
        let Waiting::Large { key, version, mut upload, value } = waiting else {
            return Ok(Some(waiting));
        };
        let now_ms = self.now_ms;
        let left = usize::try_from(upload.left()).unwrap_or(usize::MAX);
        let result = if left > 0 {
            let from = value.len() - left;
            let to = value.len().min(from + self.scenario.part_bytes as usize);
            self.log_mut().put_part(&mut upload, &value[from..to], now_ms)
        } else {
            let name = client::name(key);
            self.log_mut().put_head(&upload, &client::put_of(&name, &[], version), now_ms)
        };
        match result {
            Ok(Wrote::Done { mark, .. }) if left == 0 => {
                self.publish(key, version);
                self.tell(|_| format!("key {key} is large {version:?}, {mark:?}"));
                self.count("large puts");
                Ok(Some(Waiting::Write { key, number: version.number, mark }))
            }
            Ok(_) => Ok(Some(Waiting::Large { key, version, upload, value })),
            Err(Error::Unflushed) if self.may_fail() => Ok(None),
            Err(error) => self.refused(&error).map(|()| None),
        }
    }

    /// A get is answered, or will be: it was asked when that was newest, and at that time. What it
    /// shows must be right, and is promised with the answer.
    pub(super) fn seen(
        &mut self,
        key: u64,
        (newest, asked_ms): (Number, u64),
        seen: Option<&[u8]>,
        wait: Option<Mark>,
    ) -> Result<(), String> {
        let times = (asked_ms, self.now_ms);
        if self.unread.explains(key, newest, seen, times) {
            return Ok(());
        }
        let found = self.promises.read(key, newest, seen, times);
        let version = found.map_err(|wrong| format!("a read shows what it may not: {wrong:?}"))?;
        match wait {
            Some(mark) => {
                self.waiting.push(Waiting::Seen { key, number: version.number, mark });
            }
            // What needs no wait is durable.
            None => self.promises.promise(key, version.number),
        }
        Ok(())
    }

    /// Hands the next read of a get to the machine.
    pub(super) fn fetch(&mut self, fetch: Fetch) {
        let token = Token(self.next_read);
        self.next_read += 1;
        let reading = &fetch.readings[0];
        let action = reading.action(Buffer::new(reading.bytes()));
        self.machine.submit(Plan { token, action });
        self.fetches.insert(token, fetch);
    }

    /// A read of a get has ended.
    pub(super) fn fetched(&mut self, mut fetch: Fetch, outcome: Outcome) -> Result<(), String> {
        if self.machine.has_stopped() {
            return Ok(());
        }
        let key = fetch.key;
        let (buffer, count) = match outcome {
            Outcome::Read(buffer, count) => (buffer, count),
            Outcome::Failed(failure, _) => {
                let error = fetch.readings[0].failed(failure);
                return self.refused_get((key, fetch.newest), &error, fetch.is_check);
            }
            other => return Err(format!("a read has the outcome {other:?}")),
        };
        let reading = fetch.readings[0].clone();
        if count < reading.bytes() && fetch.tries < SHORT_READS_MAX {
            fetch.tries += 1;
            self.fetch(fetch);
            return Ok(());
        }
        fetch.tries = 0;
        match reading.finish(&buffer.as_slice()[..count]) {
            Err(error) => self.refused_get((key, fetch.newest), &error, fetch.is_check),
            Ok(Fetched::Value(record)) => {
                if record.flags != client::flags(version_of(record.value, record.flags)) {
                    return Err(format!("key {key} has flags {}", record.flags));
                }
                let is_there = record.expiry_ms == 0 || record.expiry_ms > self.now_ms;
                let value = is_there.then_some(record.value);
                self.read(&fetch, value)
            }
            Ok(Fetched::Head(record, parts)) => {
                if record.expiry_ms != 0 && record.expiry_ms <= self.now_ms {
                    return self.read(&fetch, None);
                }
                match self.log_mut().parts(&reading, &parts) {
                    Err(error) => self.refused_get((key, fetch.newest), &error, fetch.is_check),
                    Ok(spread) => {
                        let readings = self.log_mut().all_parts(&spread);
                        self.fetch(Fetch { readings, parts: Some(Vec::new()), ..fetch });
                        Ok(())
                    }
                }
            }
            Ok(Fetched::Part(bytes)) => {
                let mut whole = fetch.parts.take().unwrap_or_default();
                whole.extend_from_slice(bytes);
                fetch.readings.remove(0);
                if fetch.readings.is_empty() {
                    return self.read(&fetch, Some(&whole));
                }
                self.fetch(Fetch { parts: Some(whole), ..fetch });
                Ok(())
            }
        }
    }

    /// A get from the disk is answered: what is there is durable.
    fn read(&mut self, fetch: &Fetch, seen: Option<&[u8]>) -> Result<(), String> {
        let key = fetch.key;
        self.count("gets from disk");
        if fetch.is_check {
            return self.recovered(key, fetch.asked_ms, seen);
        }
        self.seen(key, (fetch.newest, fetch.asked_ms), seen, fetch.wait)
    }

    /// A write was refused: is there a reason?
    pub(super) fn refused(&mut self, error: &Error) -> Result<(), String> {
        self.tell(|_| format!("refused: {error}"));
        self.count("refusals");
        let is_explained = match error {
            Error::NoRoom => self.scenario.class != Class::Honest,
            Error::ReadOnly | Error::Unflushed | Error::WipeUnsure(_) | Error::Disk { .. } => {
                self.may_fail()
            }
            _ => false,
        };
        if is_explained { Ok(()) } else { Err(format!("refused without a reason: {error}")) }
    }

    /// A get has ended with an error, which has begun when that was the newest version: is there a
    /// reason?
    pub(super) fn refused_get(
        &mut self,
        (key, newest): (u64, Number),
        error: &Error,
        is_check: bool,
    ) -> Result<(), String> {
        self.tell(|_| format!("get of {key}: {error}"));
        self.count("failed gets");
        let is_explained = match error {
            Error::Disk { .. } => self.scenario.class != Class::Full,
            Error::Unflushed => self.may_fail(),
            // What was written since the log was opened it can show.
            _ if self.unread.is_new(key, newest) => self.has_lied(),
            // A part of a large value may lie in a segment whose header could not be read.
            Error::Unreachable { .. } if self.unread.is_any() => true,
            // The error names the place.
            Error::Damaged { .. } | Error::OtherKey { .. } | Error::Unreachable { .. } => {
                self.has_lied() || self.may_show_older(key)
            }
            _ => false,
        };
        if !is_explained {
            return Err(format!("a get of key {key} failed without a reason: {error}"));
        }
        if is_check && self.may_show_older(key) {
            self.hide_unreadable(key);
        } else if is_check {
            self.promises.is_unreadable(key);
        }
        Ok(())
    }

    /// Whether requests fail, so that the log may.
    pub(super) fn may_fail(&self) -> bool {
        matches!(self.scenario.class, Class::Failing | Class::Full | Class::Lying)
    }
}

/// The number in a value that shows it whole, or one that has these flags.
fn version_of(value: &[u8], flags: u32) -> u64 {
    match value.first_chunk::<8>() {
        Some(number) => u64::from_le_bytes(*number),
        None => u64::from(flags),
    }
}
