//! One command on one key, under the key's lock: what is there, what becomes of it.

use std::sync::Arc;

use cache::{Change, Dead, Get, Key, Meta, Token, Value};
use log::{
    engine::{self, Mark, Reading, Seen, Upload},
    format::record::Record,
    keys::Keys,
};

use super::{Own, apply::Applied};
use crate::{
    Answer, Command, Error, Found, FoundValue, Large, Needs, Present, held::Wait, store::Shared,
};

/// What a look at a key has found. The value is the worker's, or where its parts are.
pub(super) enum Look {
    /// A live record, and what a reply that saw it waits for.
    Present(Meta, Wait),
    /// None.
    Absent(Wait),
    /// Only the disk knows.
    Read(Arc<Reading>),
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
    Read(Arc<Reading>),
    /// Room, or a rewrite, comes first.
    Stalled,
    /// It shows a value that is longer than may be shown now. Nothing has happened.
    TooLong,
    /// The flush of the parts of the value comes first, which this is the last of.
    Parts(Mark),
}

impl<V: Send> Own<V> {
    /// Looks at a key in memory, and then in the log. Under the key's lock.
    pub(super) fn look<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        needs: Needs,
    ) -> Look {
        if let Some(spill) = shared.spill {
            return self.look_spilled(shared, spill, name, needs);
        }
        // Before the look: what is made of it is as old as that.
        self.flushes = self.cache.flushes();
        let in_memory = match needs {
            Needs::Nothing => return Look::Absent(Wait::Nothing),
            Needs::Fields => self.look_at_fields(name),
            Needs::Value => self.look_at_value(name),
        };
        self.large = None;
        if let Some(found) = in_memory {
            let wait = match shared.unflushed.wait_for(name.hash()) {
                None => Ok(Wait::Nothing),
                Some(mark) => wait_of_copy(shared, name, mark),
            };
            return match wait {
                Ok(wait) => found.map_or(Look::Absent(wait), |meta| Look::Present(meta, wait)),
                Err(error) => Look::Failed(error),
            };
        }
        let mut core = shared.core();
        if core.is_ahead_of_memory() {
            return Look::Stalled;
        }
        let got = core.engine.get(name.bytes(), self.cache.now_ms());
        drop(core);
        match got {
            Ok(engine::Get::Absent { wait }) => Look::Absent(Wait::seen(wait)),
            Ok(engine::Get::Memory { stored, wait }) => {
                self.large = stored.parts.map(Large);
                let value_bytes = self.large.as_ref().map_or(stored.value.len() as u64, Large::len);
                let meta = Meta {
                    client_flags: stored.flags,
                    value_len: u32::try_from(value_bytes).unwrap_or(u32::MAX),
                    token: stored.token,
                    expiry_ms: stored.expiry_ms,
                    stale: stored.is_stale,
                    win_sent: stored.is_recached,
                    fetched: false,
                };
                self.figures.hits_log += 1;
                if self.large.is_none() {
                    self.fill(name, &meta, &stored.value);
                }
                self.value = stored.value;
                Look::Present(meta, Wait::seen(wait))
            }
            Ok(engine::Get::Read(reading)) => Look::Read(Arc::new(reading)),
            Ok(engine::Get::Wait) => Look::Stalled,
            Err(error) => Look::Failed(error.into()),
        }
    }

    /// `None` when memory does not know; `Some(None)` when what it knows has expired.
    pub(super) fn look_at_fields(&mut self, name: Key<'_>) -> Option<Option<Meta>> {
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

    pub(super) fn look_at_value(&mut self, name: Key<'_>) -> Option<Option<Meta>> {
        match self.cache.get(name, &mut self.value) {
            Get::Hit(meta) => Some(Some(meta)),
            Get::Large(pinned) => {
                self.value.clear();
                pinned.slices().for_each(|slice| self.value.extend_from_slice(slice));
                Some(Some(*pinned.meta()))
            }
            // Then the log has it.
            Get::Busy => None,
            Get::Miss => self.cache.take_dead().filter(|it| *it == Dead::Expired).map(|_| None),
        }
    }

    /// Tries a command. `known` is what is there, its value in `self.value`, if that is known, and
    /// what a reply that sees it waits for. `upload`: the parts of the value that it may store.
    pub(super) fn attempt<K: Keys, C: Command<Verdict = V>, D: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        command: &D,
        known: Option<(Option<Meta>, Wait)>,
        upload: Option<&Upload>,
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
        if command.shows() && meta.is_some() && !self.may_show(shared, self.value.len()) {
            return Attempt::TooLong;
        }
        let value = std::mem::take(&mut self.value);
        let large = self.large.take();
        let present = meta.map(|meta| Present { meta, value: &value, large: large.as_ref() });
        let (change, verdict) = command.decide(present.as_ref());
        check_known(change, present.as_ref());
        // An edit leaves the value what it is: one that was read stays so.
        let (is_edit, is_kept) = match change {
            Change::Edit(_) => (true, false),
            Change::Keep => (false, true),
            Change::Put(_) | Change::Remove => (false, false),
        };
        // Also one that fails, or finds nothing, may have taken something out.
        let has_changed = !is_kept && !base::mutant!("store_known_though_failed");
        let is_read = |it: &Present<'_>| is_edit && (it.meta.fetched || command.shows());
        self.builds_on = present.as_ref().map(is_read);
        let applied = match change {
            Change::Put(put) if matches!(put.value, Value::Uploaded) => {
                let upload = upload.expect("a value that was uploaded comes with its upload");
                self.store_head(shared, name, upload, &put)
            }
            change => self.apply(shared, name, present.as_ref(), change),
        };
        let shown = present.filter(|_| command.shows());
        let found = shown.map(|it| Found {
            meta: it.meta,
            value: FoundValue::Shared(it.value.into()),
            large: it.large.cloned(),
        });
        (self.value, self.large) = (value, large);
        let (token, was_there, wait) = match applied {
            Applied::Kept => (None, false, seen),
            // Whoever waits for its flush waits for all before it.
            Applied::Stored { token, wait: Wait::Nothing } => (Some(token), false, seen),
            Applied::Stored { token, wait } => (Some(token), false, wait),
            Applied::Removed { was_there, wait } => (None, was_there, wait),
            Applied::Stalled => return Attempt::Stalled,
            Applied::Parts(last) => return Attempt::Parts(last),
            // That it does not fit, or cannot be stored, tells of what is there as well.
            Applied::Failed(error) => {
                let answer = Answer::Failed(error);
                return Attempt::Done { answer, wait: seen, has_changed };
            }
        };
        let answer = Answer::Done { verdict, token, was_there, found };
        let has_changed = has_changed || token.is_some() || was_there;
        Attempt::Done { answer, wait, has_changed }
    }

    /// Takes what memory has of a key out of it: nothing is lost.
    pub(super) fn forget(&mut self, name: Key<'_>) {
        let removed = self.cache.update(name, |_| Change::Remove.into());
        removed.expect("invariant: removing needs no memory");
    }

    /// Puts a record into memory that the log has. Under the key's lock.
    pub(super) fn fill(&mut self, name: Key<'_>, meta: &Meta, value: &[u8]) {
        let copy = cache::Put {
            value: Value::Bytes(value),
            client_flags: meta.client_flags,
            expiry_ms: meta.expiry_ms,
            token: Token::Given(meta.token),
            stale: meta.stale,
            win_sent: meta.win_sent,
        };
        let filled = match base::mutant!("store_filled_as_of_now") {
            true => {
                std::thread::sleep(std::time::Duration::from_micros(200));
                self.cache.set(name, &copy)
            }
            false => self.cache.set_as_of(self.flushes, false, name, &copy),
        };
        let filled = filled.is_ok();
        self.figures.fills += u64::from(filled);
        self.figures.fills_refused += u64::from(!filled);
    }
}

/// What a reply waits for that saw what memory has of a key, in whose word is this mark. It may be
/// another key's, which is never flushed. The log knows better, and reads nothing for that: the
/// disk may have failed.
pub(super) fn wait_of_copy<K: Keys, C: Command>(
    shared: &Shared<K, C>,
    name: Key<'_>,
    mark: Mark,
) -> Result<Wait, Error> {
    if base::mutant!("store_copy_by_its_word") {
        return Ok(Wait::SeenBefore(mark));
    }
    let core = shared.core();
    match core.engine.seen(core.engine.hash(name.bytes())?)? {
        Seen::Until(wait) => Ok(Wait::seen(wait)),
        Seen::Stranded => Ok(Wait::SeenBefore(mark)),
    }
}

/// What keeps the value has asked for it.
pub(super) fn check_known(change: Change<'_>, present: Option<&Present<'_>>) {
    let keeps = match change {
        Change::Edit(_) => true,
        Change::Put(put) => matches!(put.value, Value::Append(_) | Value::Prepend(_)),
        Change::Keep | Change::Remove => false,
    };
    let has =
        present.is_some_and(|it| it.is_in_parts() || it.value.len() == it.meta.value_len as usize);
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
