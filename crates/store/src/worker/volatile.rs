//! A table in memory alone: the same commands, and nothing that has to be waited for.
//!
//! Gets take no lock. Who changes a record has its key's lock from the look to the change, as in
//! tables with a log; what is evicted between the two was there when the command took effect.

use std::sync::Arc;

use base::sync::Mutex;
use cache::{Cache, Change, ConfigError, Get, KEY_LEN_MAX, Key, Meta, Output, StoreError, Value};

use super::{
    Own,
    apply::{assemble, cannot_be_joined},
    attempt::check_known,
};
use crate::{
    Answer, Command, Error, Figures, Found, FoundValue, Got, Needs, Present, limits::KEY_LOCKS,
    queued::Queued,
};

/// The lock of the keys whose hash names it, on a line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct KeyLock(Mutex<()>);

/// A table in memory alone. Shared by all threads; each has a [`VolatileWorker`].
#[derive(Clone, Debug)]
pub struct Volatile {
    cache: Cache,
    locks: Arc<[KeyLock]>,
}

impl Volatile {
    /// A table of what a cache has, which nobody else changes.
    #[must_use]
    pub fn new(cache: Cache) -> Self {
        Self { cache, locks: (0..KEY_LOCKS).map(|_| KeyLock::default()).collect() }
    }

    /// A thread's access.
    ///
    /// # Errors
    /// [`ConfigError::TooManyWorkers`].
    pub fn worker<V: Send>(&self) -> Result<VolatileWorker<V>, ConfigError> {
        let own = Own::new(0, self.cache.worker()?, Queued::default());
        Ok(VolatileWorker { locks: Arc::clone(&self.locks), own })
    }
}

/// A thread's access to a table in memory. It is online in the cache, as a [`crate::Worker`] is.
#[derive(Debug)]
pub struct VolatileWorker<V> {
    locks: Arc<[KeyLock]>,
    own: Own<V>,
}

impl<V: Send> VolatileWorker<V> {
    /// Announces that this thread is between two commands, and takes the time anew.
    pub fn quiesce(&mut self) {
        self.own.cache.quiesce();
    }

    /// Runs what blocks while no other thread waits for this one.
    pub fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        self.own.cache.offline(blocking)
    }

    /// As [`crate::Worker::rest`].
    pub fn rest(&mut self) {
        self.own.cache.rest();
    }

    /// As [`crate::Worker::resume_at`].
    pub fn resume_at(&mut self, now_ms: u64) {
        self.own.cache.resume_at(now_ms);
    }

    /// What it has counted: hits.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.own.figures
    }

    /// Gets a value. [`Got::Busy`] when others have pinned as much as may be.
    #[inline]
    pub fn get(&mut self, key: &[u8], out: &mut impl Output) -> Got {
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Got::Failed(Error::KeyBytes { got: key.len() });
        }
        let own = &mut self.own;
        let got = match own.cache.get(own.cache.key(key), out) {
            Get::Hit(meta) => Got::Hit(meta),
            Get::Large(pinned) => Got::Large(pinned),
            Get::Busy => return Got::Busy,
            Get::Miss => return Got::Miss,
        };
        own.figures.hits += 1;
        got
    }

    /// Carries out a command, whose value is whole.
    pub fn execute<D: Command<Verdict = V>>(&mut self, key: &[u8], command: &D) -> Answer<V> {
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Answer::Failed(Error::KeyBytes { got: key.len() });
        }
        let Self { locks, own } = self;
        let name = own.cache.key(key);
        let at = name.hash() as usize % locks.len();
        let _held = (!base::mutant!("store_volatile_unlocked")).then(|| own.lock(&locks[at].0));
        own.execute_in_memory(name, command)
    }

    /// Makes everything dead that the table has.
    pub fn flush(&mut self) {
        self.own.cache.flush();
    }
}

/// What became of a record.
struct Changed {
    token: Option<u64>,
    was_there: bool,
}

impl<V: Send> Own<V> {
    fn execute_in_memory<D: Command<Verdict = V>>(
        &mut self,
        name: Key<'_>,
        command: &D,
    ) -> Answer<V> {
        // Before the look: what is made of it is as old as that.
        self.flushes = self.cache.flushes();
        let meta = match command.needs() {
            Needs::Nothing => None,
            Needs::Fields => self.look_at_fields(name).flatten(),
            Needs::Value => self.look_at_whole_value(name).flatten(),
        };
        if base::mutant!("store_volatile_unlocked") {
            base::sync::thread::yield_now();
        }
        let value = std::mem::take(&mut self.value);
        let present = meta.map(|meta| Present { meta, value: &value, large: None });
        let (change, verdict) = command.decide(present.as_ref());
        check_known(change, present.as_ref());
        let changed = self.change_in_memory(name, present.as_ref(), change, command.shows());
        let shown = present.filter(|_| command.shows());
        let found = shown.map(|it| Found {
            meta: it.meta,
            value: FoundValue::Shared(it.value.into()),
            large: None,
        });
        self.value = value;
        self.let_go();
        match changed {
            Ok(Changed { token, was_there }) => Answer::Done { verdict, token, was_there, found },
            Err(StoreError::ValueTooLarge { len, max }) => {
                Answer::Failed(Error::ValueBytes { got: len, max })
            }
            Err(_) => Answer::Failed(Error::NoMemory),
        }
    }

    fn change_in_memory(
        &mut self,
        name: Key<'_>,
        present: Option<&Present<'_>>,
        change: Change<'_>,
        shows: bool,
    ) -> Result<Changed, StoreError> {
        let stored = |token| Changed { token, was_there: false };
        match change {
            Change::Keep => Ok(stored(None)),
            Change::Remove => {
                let was_there = self.look_at_fields(name).flatten().is_some();
                self.forget(name);
                Ok(Changed { token: None, was_there })
            }
            // Where it has been evicted meanwhile, there is nothing to be edited.
            Change::Edit(edit) => self
                .cache
                .update(name, |view| match view {
                    Some(_) => Change::Edit(edit).into(),
                    None => Change::Keep.into(),
                })
                .map(stored),
            Change::Put(put) if cannot_be_joined(&put.value, present) => {
                unreachable!("invariant: no value in memory lies in parts")
            }
            Change::Put(put) => {
                let is_read = |it: &Present<'_>| it.meta.fetched && shows;
                let fetched = present.is_some_and(is_read);
                let mut joined = std::mem::take(&mut self.joined);
                let value = assemble(&put.value, present, &mut joined);
                let whole = cache::Put { value: Value::Bytes(&value), ..put };
                let token = self.put_in_memory(name, present.map(Present::meta), fetched, &whole);
                drop(value);
                self.joined = joined;
                token.map(|token| stored(Some(token)))
            }
        }
    }

    /// Stores a record; what was made of one that was there dies with it in a flush.
    fn put_in_memory(
        &mut self,
        name: Key<'_>,
        present: Option<Meta>,
        fetched: bool,
        put: &cache::Put<'_>,
    ) -> Result<u64, StoreError> {
        match present {
            Some(_) => self.cache.set_as_of(self.flushes, fetched, name, put),
            None => self.cache.set(name, put),
        }
    }
}
