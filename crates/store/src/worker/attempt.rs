//! One command on one key, under the key's lock: what is there, what becomes of it.

use std::borrow::Cow;

use cache::{Change, Dead, Get, Key, Meta, Token, Value};
use log::{
    engine::{self, Mark, Reading, Removed, Wrote},
    format::record::Record,
    keys::Keys,
};

use super::Own;
use crate::{Answer, Command, Error, Found, Needs, Present, held::Wait, store::Shared};

/// What a look at a key has found. The value is the worker's.
pub(super) enum Look {
    /// A live record, and what a reply that saw it waits for.
    Present(Meta, Wait),
    /// None.
    Absent(Wait),
    /// Only the disk knows.
    Read(Box<Reading>),
    /// It is to be written again first.
    Stalled,
    /// The log cannot tell.
    Failed(Error),
}

/// What a command has come to.
pub(super) enum Attempt<V> {
    /// It is done, or failed.
    Done {
        answer: Answer<V>,
        wait: Wait,
        /// Whether the record may be another now.
        has_changed: bool,
    },
    /// A read comes first.
    Read(Box<Reading>),
    /// Room, or a rewrite, comes first.
    Stalled,
}

/// What became of the record.
enum Applied {
    Kept,
    Stored { token: u64, mark: Mark, is_awaited: bool },
    Removed { was_there: bool, wait: Wait },
    Stalled,
    Failed(Error),
}

impl<V: Send> Own<V> {
    /// Looks at a key in memory, and then in the log. Under the key's lock.
    pub(super) fn look<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        needs: Needs,
    ) -> Look {
        let in_memory = match needs {
            Needs::Nothing => return Look::Absent(Wait::Nothing),
            Needs::Fields => self.look_at_fields(name),
            Needs::Value => self.look_at_value(name),
        };
        if let Some(found) = in_memory {
            let wait = match shared.unflushed.wait_for(name.hash()) {
                None => Some(Wait::Nothing),
                Some(mark) => (!shared.core().engine.is_read_only()).then_some(Wait::Seen(mark)),
            };
            if let Some(wait) = wait {
                return found.map_or(Look::Absent(wait), |meta| Look::Present(meta, wait));
            }
            // The mark may be another key's, which will never be flushed. The log knows better.
            self.forget(name);
        }
        let got = shared.core().engine.get(name.bytes(), self.cache.now_ms());
        match got {
            Ok(engine::Get::Absent { wait }) => Look::Absent(Wait::seen(wait)),
            Ok(engine::Get::Memory { stored, .. }) if stored.parts.is_some() => {
                Look::Failed(Error::InParts)
            }
            Ok(engine::Get::Memory { stored, wait }) => {
                let meta = Meta {
                    client_flags: stored.flags,
                    value_len: u32::try_from(stored.value.len()).unwrap_or(u32::MAX),
                    token: stored.token,
                    expiry_ms: stored.expiry_ms,
                    stale: stored.is_stale,
                    win_sent: stored.is_recached,
                    fetched: false,
                };
                self.value = stored.value;
                self.fill(name, &meta);
                Look::Present(meta, Wait::seen(wait))
            }
            Ok(engine::Get::Read(reading)) => Look::Read(Box::new(reading)),
            Ok(engine::Get::Wait) => Look::Stalled,
            Err(error) => Look::Failed(error.into()),
        }
    }

    /// `None` when memory does not know; `Some(None)` when what it knows has expired.
    fn look_at_fields(&mut self, name: Key<'_>) -> Option<Option<Meta>> {
        let mut meta = None;
        let looked = self.cache.update(name, |view| {
            meta = view.map(|view| view.meta());
            Change::Keep.into()
        });
        looked.expect("invariant: a look needs no memory");
        self.value.clear();
        // What is dead it does not show.
        if meta.is_some() { Some(meta) } else { self.look_at_value(name) }
    }

    fn look_at_value(&mut self, name: Key<'_>) -> Option<Option<Meta>> {
        match self.cache.get(name, &mut self.value) {
            Get::Hit(meta) => Some(Some(meta)),
            Get::Large(pinned) => {
                self.value.clear();
                pinned.slices().for_each(|slice| self.value.extend_from_slice(slice));
                Some(Some(*pinned.meta()))
            }
            // Then the log has it. Who waits for that in order takes this copy out first.
            Get::Busy => None,
            Get::Miss => self.cache.take_dead().filter(|it| *it == Dead::Expired).map(|_| None),
        }
    }

    /// Tries a command. `known` is what is there, its value in `self.value`, if that is known, and
    /// what a reply that sees it waits for.
    pub(super) fn attempt<K: Keys, C: Command<Verdict = V>, D: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        command: &D,
        known: Option<(Option<Meta>, Wait)>,
    ) -> Attempt<V> {
        let look = match known.filter(|_| command.needs() != Needs::Nothing) {
            Some((Some(meta), wait)) => Look::Present(meta, wait),
            Some((None, wait)) => Look::Absent(wait),
            None => self.look(shared, name, command.needs()),
        };
        let (meta, seen) = match look {
            Look::Present(meta, wait) => (Some(meta), wait),
            Look::Absent(wait) => (None, wait),
            Look::Read(reading) => return Attempt::Read(reading),
            Look::Stalled => return Attempt::Stalled,
            Look::Failed(error) => return failed(error),
        };
        let value = std::mem::take(&mut self.value);
        let present = meta.map(|meta| Present { meta, value: &value });
        let (change, verdict) = command.decide(present.as_ref());
        check_known(change, present.as_ref());
        let applied = self.apply(shared, name, present.as_ref(), change);
        let shown = present.filter(|_| command.shows());
        let found = shown.map(|it| Found { meta: it.meta, value: it.value.into() });
        self.value = value;
        let (token, was_there, wait) = match applied {
            Applied::Kept => (None, false, seen),
            // Whoever waits for its flush waits for all before it.
            Applied::Stored { token, mark, is_awaited: true } => {
                (Some(token), false, Wait::Write(mark))
            }
            Applied::Stored { token, .. } => (Some(token), false, seen),
            Applied::Removed { was_there, wait } => (None, was_there, wait),
            Applied::Stalled => return Attempt::Stalled,
            // That it does not fit, or cannot be stored, tells of what is there as well.
            Applied::Failed(error) => {
                let answer = Answer::Failed(error);
                return Attempt::Done { answer, wait: seen, has_changed: false };
            }
        };
        let answer = Answer::Done { verdict, token, was_there, found };
        Attempt::Done { answer, wait, has_changed: token.is_some() || was_there }
    }

    fn apply<K: Keys, C: Command<Verdict = V>>(
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
                self.store(shared, name, present.value, &edit.put(&present.meta))
            }
            Change::Put(put) => {
                let mut joined = std::mem::take(&mut self.joined);
                let value = assemble(&put.value, present, &mut joined);
                let applied = self.store(shared, name, &value, &put);
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
        let (got, max) = (value.len(), shared.value_bytes_max);
        if got > max {
            return Applied::Failed(Error::ValueBytes { got, max });
        }
        let given = match put.token {
            Token::Given(token) if token != 0 => Some(token),
            _ => None,
        };
        let record = engine::Put {
            key: name.bytes(),
            value,
            expiry_ms: put.expiry_ms,
            flags: put.client_flags,
            token: given,
            tags: &[],
            is_stale: put.stale,
            is_recached: put.win_sent,
        };
        let mut core = shared.core();
        let (sequence, mark) = match core.engine.put(&record, self.cache.now_ms()) {
            Ok(Wrote::Done { sequence, mark }) => (sequence, mark),
            Ok(Wrote::Wait) => return Applied::Stalled,
            Err(error) => return Applied::Failed(error.into()),
        };
        core.note(&shared.unflushed, name.hash(), mark);
        let is_awaited = mark < core.engine.answers_wait_below();
        drop(core);
        let token = given.unwrap_or(sequence);
        let copy = cache::Put { value: Value::Bytes(value), token: Token::Given(token), ..*put };
        if self.cache.set(name, &copy).is_err() && !base::mutant!("store_keeps_old_copy") {
            self.forget(name);
        }
        Applied::Stored { token, mark, is_awaited }
    }

    fn remove<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
    ) -> Applied {
        let mut core = shared.core();
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

    /// Takes what memory has of a key out of it: nothing is lost.
    pub(super) fn forget(&mut self, name: Key<'_>) {
        let removed = self.cache.update(name, |_| Change::Remove.into());
        removed.expect("invariant: removing needs no memory");
    }

    /// Puts a record into memory that the log has, its value in `self.value`. Under the key's lock.
    pub(super) fn fill(&mut self, name: Key<'_>, meta: &Meta) {
        let copy = cache::Put {
            value: Value::Bytes(&self.value),
            client_flags: meta.client_flags,
            expiry_ms: meta.expiry_ms,
            token: Token::Given(meta.token),
            stale: meta.stale,
            win_sent: meta.win_sent,
        };
        let filled = self.cache.set(name, &copy).is_ok();
        self.figures.fills += u64::from(filled);
        self.figures.fills_refused += u64::from(!filled);
    }
}

/// What keeps the value has asked for it.
fn check_known(change: Change<'_>, present: Option<&Present<'_>>) {
    let keeps = match change {
        Change::Edit(_) => true,
        Change::Put(put) => matches!(put.value, Value::Append(_) | Value::Prepend(_)),
        Change::Keep | Change::Remove => false,
    };
    let has = present.is_some_and(|it| it.value.len() == it.meta.value_len as usize);
    assert!(!keeps || has, "a command that keeps the value has to know it");
}

fn failed<V>(error: Error) -> Attempt<V> {
    Attempt::Done { answer: Answer::Failed(error), wait: Wait::Nothing, has_changed: false }
}

/// The fields of a record that was read.
pub(super) fn meta_of(record: &Record<'_>) -> Meta {
    Meta {
        client_flags: record.flags,
        value_len: u32::try_from(record.value.len()).unwrap_or(u32::MAX),
        token: record.token,
        expiry_ms: record.expiry_ms,
        stale: record.is_stale,
        win_sent: record.is_recached,
        fetched: false,
    }
}

/// The bytes of a new value, put together in `joined` where the present one is part of it.
fn assemble<'v>(
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
            panic!("a value comes whole")
        }
    };
    joined.clear();
    joined.extend_from_slice(front);
    joined.extend_from_slice(back);
    Cow::Borrowed(joined)
}
