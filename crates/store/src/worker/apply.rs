//! What becomes of a record: log first, then memory.

use std::borrow::Cow;

use base::sync::MutexGuard;
use cache::{Change, Key, Token, Value};
use log::{
    engine::{self, Mark, Removed, Settled, Upload, Wrote},
    keys::Keys,
};

use super::Own;
use crate::{
    Command, Error, Large, Present,
    held::{Core, Wait},
    store::Shared,
};

/// What became of the record.
pub(super) enum Applied {
    Kept,
    /// `wait`: nothing where it waits for no more than what was seen.
    Stored {
        token: u64,
        wait: Wait,
    },
    Removed {
        was_there: bool,
        wait: Wait,
    },
    Stalled,
    Parts(Mark),
    Failed(Error),
}

impl<V: Send> Own<V> {
    pub(super) fn apply<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        present: Option<&Present<'_>>,
        change: Change<'_>,
    ) -> Applied {
        match change {
            Change::Keep => Applied::Kept,
            Change::Remove => self.remove(shared, name),
            Change::Edit(edit) if base::mutant!("store_edits_memory_alone") => {
                let _ = self.cache.update(name, |_| Change::Edit(edit).into());
                Applied::Kept
            }
            Change::Edit(edit) => {
                let present = present.expect("invariant: an edit is of a record that is there");
                let put = edit.put(&present.meta);
                match present.large {
                    Some(large) => self.store_head_anew(shared, name, large, &put),
                    None => self.store(shared, name, present.value, &put),
                }
            }
            Change::Put(put) if cannot_be_joined(&put.value, present) => {
                Applied::Failed(Error::InParts)
            }
            Change::Put(put) => {
                let mut joined = std::mem::take(&mut self.joined);
                let value = assemble(&put.value, present, &mut joined);
                let is_joined = matches!(put.value, Value::Append(_) | Value::Prepend(_));
                let (got, max) = (value.len(), shared.cache.value_size_max());
                let is_too_long = is_joined && got > max && !base::mutant!("store_joins_any");
                let applied = match is_too_long {
                    // What clients may not store at once they may not put together either.
                    true => Applied::Failed(Error::ValueBytes { got, max }),
                    false => self.store(shared, name, &value, &put),
                };
                drop(value);
                self.joined = joined;
                applied
            }
        }
    }

    /// Puts a record into the log and then into memory. The value of `put` does not count.
    fn store<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        value: &[u8],
        put: &cache::Put<'_>,
    ) -> Applied {
        if let Some(spill) = shared.spill {
            return self.store_spilled(shared, spill, name, value, put);
        }
        let (got, max) = (value.len(), shared.value_bytes_max);
        if got > max {
            return Applied::Failed(Error::ValueBytes { got, max });
        }
        let record = record_of(name, value, put);
        // What memory has of the key comes while the log takes the record.
        self.ask_to_store(&name);
        let mut core = shared.core();
        if self.is_overtaken(&core) {
            return Applied::Stalled;
        }
        let wrote = core.engine.put(&record, self.cache.now_ms());
        self.end_store(shared, core, name, wrote, record.token, |own, token| {
            let token = Token::Given(token);
            let copy = cache::Put { value: Value::Bytes(value), token, ..*put };
            // It may be dead by now.
            let stored = own.cache.set_as_of(own.flushes, false, name, &copy);
            if stored.is_err() && !base::mutant!("store_keeps_old_copy") {
                own.forget(name);
            }
        })
    }

    /// Puts the head of a value into the log whose parts are there. Memory gets no copy.
    pub(super) fn store_head<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        upload: &Upload,
        put: &cache::Put<'_>,
    ) -> Applied {
        let record = record_of(name, &[], put);
        let mut core = shared.core();
        if self.is_overtaken(&core) {
            return Applied::Stalled;
        }
        let wrote = core.engine.put_head(upload, &record, self.cache.now_ms());
        let last = upload.mark();
        let pending = last.filter(|last| core.engine.durable(*last) == Settled::Pending);
        match (wrote, pending) {
            (Ok(Wrote::Wait), Some(last)) => Applied::Parts(last),
            // None of it shows.
            (Err(log::error::Error::Unflushed), _) => Applied::Failed(Error::PartsLost),
            (wrote, _) => {
                let given = record.token;
                self.end_store(shared, core, name, wrote, given, |own, _| own.forget_copy(name))
            }
        }
    }

    /// Gives a value in parts other fields.
    fn store_head_anew<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        large: &Large,
        put: &cache::Put<'_>,
    ) -> Applied {
        let record = record_of(name, &[], put);
        let now_ms = self.cache.now_ms();
        let mut core = shared.core();
        if self.is_overtaken(&core) {
            return Applied::Stalled;
        }
        let wrote = core.engine.put_head_anew(&record, &large.0, now_ms);
        let given = record.token;
        self.end_store(shared, core, name, wrote, given, |own, _| own.forget_copy(name))
    }

    /// Goes on with a record if the log has taken it. `keep` sees to the copy in memory, without
    /// the log's lock; it is told the record's token.
    fn end_store<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        mut core: MutexGuard<'_, Core<K, V>>,
        name: Key<'_>,
        wrote: Result<Wrote, log::error::Error>,
        given: Option<u64>,
        keep: impl FnOnce(&mut Self, u64),
    ) -> Applied {
        let (sequence, mark) = match wrote {
            Ok(Wrote::Done { sequence, mark }) => (sequence, mark),
            Ok(Wrote::Wait) => return Applied::Stalled,
            Err(error) => return Applied::Failed(error.into()),
        };
        let is_late = base::mutant!("store_noted_late");
        if !is_late {
            core.note(&shared.unflushed, name.hash(), mark);
        }
        let is_awaited = mark < core.engine.answers_wait_below();
        drop(core);
        let token = given.unwrap_or(sequence);
        keep(self, token);
        if is_late {
            std::thread::sleep(std::time::Duration::from_micros(500));
            shared.core().note(&shared.unflushed, name.hash(), mark);
        }
        let wait = if is_awaited { Wait::Write(mark) } else { Wait::Nothing };
        Applied::Stored { token, wait }
    }

    /// Memory gets no copy of a value in parts, and keeps none of what was before.
    fn forget_copy(&mut self, name: Key<'_>) {
        if !base::mutant!("store_large_keeps_old_copy") {
            self.forget(name);
        }
    }

    fn remove<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
    ) -> Applied {
        if let Some(spill) = shared.spill {
            return self.remove_spilled(shared, spill, name);
        }
        let mut core = shared.core();
        if self.is_overtaken(&core) {
            return Applied::Stalled;
        }
        let (was_there, wait) = match core.engine.remove(name.bytes(), self.cache.now_ms()) {
            Ok(Removed::Done { mark, .. }) => {
                core.note(&shared.unflushed, name.hash(), mark);
                (true, Wait::Write(mark))
            }
            Ok(Removed::Absent { wait }) => (false, Wait::seen(wait)),
            Ok(Removed::Wait) => return Applied::Stalled,
            Err(error) => return Applied::Failed(error.into()),
        };
        drop(core);
        let has_expired = matches!(self.look_at_value(name), Some(None));
        self.forget(name);
        Applied::Removed { was_there: was_there && !has_expired, wait }
    }
}

/// A record as the log takes it.
fn record_of<'r>(name: Key<'r>, value: &'r [u8], put: &cache::Put<'_>) -> engine::Put<'r> {
    let given = match put.token {
        Token::Given(token) if token != 0 => Some(token),
        _ => None,
    };
    engine::Put {
        key: name.bytes(),
        value,
        expiry_ms: put.expiry_ms,
        flags: put.client_flags,
        token: given,
        tags: &[],
        is_stale: put.stale,
        is_recached: put.win_sent,
    }
}

/// Whether a new value has the present one in it, and one of them lies in parts.
pub(super) fn cannot_be_joined(value: &Value<'_>, present: Option<&Present<'_>>) -> bool {
    match value {
        Value::Append(_) | Value::Prepend(_) => present.is_some_and(Present::is_in_parts),
        Value::AppendUploaded | Value::PrependUploaded => true,
        Value::Bytes(_) | Value::Digits(_) | Value::Uploaded => false,
    }
}

/// The bytes of a new value, put together in `joined` where the present one is part of it.
pub(super) fn assemble<'v>(
    value: &'v Value<'v>,
    present: Option<&Present<'_>>,
    joined: &'v mut Vec<u8>,
) -> Cow<'v, [u8]> {
    let before = present.map_or(&[][..], |present| present.value);
    let (front, back) = match value {
        Value::Bytes(bytes) => return Cow::Borrowed(bytes),
        Value::Digits(digits) => return Cow::Borrowed(digits.bytes()),
        Value::Append(bytes) => (before, *bytes),
        Value::Prepend(bytes) => (*bytes, before),
        Value::Uploaded | Value::AppendUploaded | Value::PrependUploaded => {
            panic!("what was uploaded is no value in memory")
        }
    };
    joined.clear();
    joined.extend_from_slice(front);
    joined.extend_from_slice(back);
    Cow::Borrowed(joined)
}
