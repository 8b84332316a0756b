//! Who performs which action, and who waits for what.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base::clock::Clock;

use super::{Files, Mode, Put, Removed, Stored, Wrote, ignore_poison};
use crate::{
    engine::{Engine, Fetched, Get, Mark, Reading, Settled},
    error::Error,
    keys::Keys,
    plan::{Buffer, Outcome, Plan},
};

/// The longest sleep of the thread behind: it looks again, in case nobody wakes it.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// How long a read that stays short is repeated: each time it must have got further.
const SHORT_READS_MAX: usize = 64;

/// What the lock guards.
#[derive(Debug)]
pub(super) struct State<K> {
    pub(super) engine: Engine<K>,
    pub(super) is_stopping: bool,
    /// Whether the thread behind sleeps.
    pub(super) is_idle: bool,
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared<K> {
    pub(super) state: Mutex<State<K>>,
    /// Something was reported.
    pub(super) progress: Condvar,
    /// There is something to do for the thread behind.
    pub(super) work: Condvar,
    pub(super) files: Files,
    pub(super) clock: Clock,
    pub(super) reads: AtomicU64,
}

type Guard<'a, K> = MutexGuard<'a, State<K>>;

impl<K: Keys> Shared<K> {
    pub(super) fn lock(&self) -> Guard<'_, K> {
        ignore_poison(self.state.lock())
    }

    pub(super) fn part_bytes(&self, state: &State<K>) -> usize {
        state.engine.manifest().shape.part_bytes as usize
    }

    /// The thread behind: until the log is stopped.
    pub(super) fn run(&self) {
        let mut state = self.lock();
        while !state.is_stopping {
            let now_ms = self.clock.now_ms();
            let is_due = state.engine.wake_at_ms().is_some_and(|at| at <= now_ms);
            let plan = if state.engine.mode() == Mode::Async || is_due {
                state.engine.poll(now_ms)
            } else {
                state.engine.poll_upkeep(now_ms)
            };
            state = match plan {
                Some(plan) => self.perform(state, plan),
                None => self.sleep(state, now_ms),
            };
        }
    }

    fn sleep<'a>(&'a self, mut state: Guard<'a, K>, now_ms: u64) -> Guard<'a, K> {
        let until = state.engine.wake_at_ms().map(|at| at.saturating_sub(now_ms).max(1));
        let wait = until.map_or(SLEEP_MAX, Duration::from_millis).min(SLEEP_MAX);
        state.is_idle = true;
        let (mut state, _) = ignore_poison(self.work.wait_timeout(state, wait));
        state.is_idle = false;
        state
    }

    /// Wakes the thread behind, if it sleeps.
    pub(super) fn wake(&self, state: &mut State<K>) {
        if state.is_idle {
            state.is_idle = false;
            self.work.notify_one();
        }
    }

    /// Wakes the thread behind when a record has left it something to do. In `async` the first one
    /// that is not flushed sets the time at which the thread must look again.
    fn wake_for_work(&self, state: &mut State<K>, is_first: bool) {
        let has_time = is_first && state.engine.mode() == Mode::Async;
        if has_time || state.engine.has_work() {
            self.wake(state);
        }
    }

    /// Performs a plan without the lock, and reports it.
    fn perform<'a>(&'a self, state: Guard<'a, K>, plan: Plan) -> Guard<'a, K> {
        drop(state);
        let outcome = self.files.perform(plan.action);
        let mut state = self.lock();
        state.engine.complete(plan.token, outcome);
        self.progress.notify_all();
        state
    }

    /// Something must be reported before the caller can go on: does the next thing itself in
    /// `safe`, or waits for whoever does it.
    fn advance<'a>(&'a self, mut state: Guard<'a, K>) -> Guard<'a, K> {
        let now_ms = self.clock.now_ms();
        if let Some(plan) = state.engine.poll_records(now_ms) {
            return self.perform(state, plan);
        }
        self.wake(&mut state);
        ignore_poison(self.progress.wait_timeout(state, SLEEP_MAX)).0
    }

    /// Waits until a reply to everything from the first to the last of `marks` may go out.
    pub(super) fn wait_for_all<'a>(
        &'a self,
        state: Guard<'a, K>,
        marks: Option<(Mark, Mark)>,
    ) -> Result<Guard<'a, K>, Error> {
        let Some((first, last)) = marks else { return Ok(state) };
        match self.settle(state, first, last) {
            (state, true) => Ok(state),
            (_, false) => Err(Error::Unflushed),
        }
    }

    /// Waits until it is known whether everything from `first` to `last` may be answered.
    fn settle<'a>(
        &'a self,
        mut state: Guard<'a, K>,
        first: Mark,
        last: Mark,
    ) -> (Guard<'a, K>, bool) {
        loop {
            match state.engine.may_answer_all(first, last) {
                Settled::Done => return (state, true),
                Settled::Failed => return (state, false),
                Settled::Pending => state = self.advance(state),
            }
        }
    }

    pub(super) fn drain<'a>(&'a self, mut state: Guard<'a, K>) -> Result<(), Error> {
        let mut drain = state.engine.drain();
        loop {
            match state.engine.drained(&mut drain) {
                Settled::Done => return Ok(()),
                Settled::Failed => return Err(Error::Unflushed),
                Settled::Pending => state = self.advance(state),
            }
        }
    }

    /// Asks until the answer is not to wait.
    fn write<'a>(
        &'a self,
        mut state: Guard<'a, K>,
        mut ask: impl FnMut(&mut Engine<K>, u64) -> Result<Wrote, Error>,
    ) -> Result<(Guard<'a, K>, Option<Mark>), Error> {
        loop {
            if state.is_stopping {
                return Err(Error::Stopping);
            }
            let is_first = state.engine.wake_at_ms().is_none();
            match ask(&mut state.engine, self.clock.now_ms())? {
                Wrote::Done { mark, .. } => {
                    self.wake_for_work(&mut state, is_first);
                    return Ok((state, Some(mark)));
                }
                Wrote::Wait => state = self.advance(state),
            }
        }
    }

    pub(super) fn put<'a>(
        &'a self,
        state: Guard<'a, K>,
        put: &Put<'_>,
    ) -> Result<(Guard<'a, K>, Option<Mark>), Error> {
        self.write(state, |engine, now_ms| engine.put(put, now_ms))
    }

    pub(super) fn put_large<'a>(
        &'a self,
        mut state: Guard<'a, K>,
        put: &Put<'_>,
    ) -> Result<(Guard<'a, K>, Option<Mark>), Error> {
        let part_bytes = self.part_bytes(&state);
        let mut upload = state.engine.begin_large(put.key, put.value.len() as u64)?;
        for part in put.value.chunks(part_bytes) {
            state =
                self.write(state, |engine, now_ms| engine.put_part(&mut upload, part, now_ms))?.0;
        }
        let head = Put { value: &[], ..*put };
        self.write(state, |engine, now_ms| engine.put_head(&upload, &head, now_ms))
    }

    pub(super) fn remove<'a>(
        &'a self,
        mut state: Guard<'a, K>,
        key: &[u8],
    ) -> Result<(Guard<'a, K>, bool, Option<Mark>), Error> {
        loop {
            if state.is_stopping {
                return Err(Error::Stopping);
            }
            let is_first = state.engine.wake_at_ms().is_none();
            match state.engine.remove(key, self.clock.now_ms())? {
                Removed::Done { mark, .. } => {
                    self.wake_for_work(&mut state, is_first);
                    return Ok((state, true, Some(mark)));
                }
                Removed::Absent { wait } => return Ok((state, false, wait)),
                Removed::Wait => state = self.advance(state),
            }
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Stored>, Error> {
        let mut state = self.lock();
        loop {
            // Expiries are on the wall's axis: they outlast the process.
            match state.engine.get(key, self.clock.wall_ms())? {
                Get::Absent { wait } => match self.wait_to_tell(state, wait) {
                    (_, true) => return Ok(None),
                    (next, false) => state = next,
                },
                Get::Memory { stored, wait } => match self.wait_to_tell(state, wait) {
                    (next, true) => {
                        drop(next);
                        return self.with_parts(stored).map(Some);
                    }
                    (next, false) => state = next,
                },
                Get::Read(reading) => {
                    drop(state);
                    return self.read_stored(&reading);
                }
                Get::Wait => state = self.advance(state),
            }
        }
    }

    /// Waits until what was seen may be told. `false`: its flush has failed, and it is to be looked
    /// up again, because it is written elsewhere.
    fn wait_to_tell<'a>(&'a self, state: Guard<'a, K>, wait: Option<Mark>) -> (Guard<'a, K>, bool) {
        match wait {
            Some(mark) => self.settle(state, mark, mark),
            None => (state, true),
        }
    }

    fn read_stored(&self, reading: &Reading) -> Result<Option<Stored>, Error> {
        let (buffer, bytes) = self.read(reading)?;
        let stored = match reading.finish(&buffer.as_slice()[..bytes])? {
            Fetched::Value(record) => Stored::new(&record),
            Fetched::Head(record, parts) => {
                let readings = self.lock().engine.parts(reading, &parts)?;
                Stored { parts: Some((parts.value_bytes, readings)), ..Stored::new(&record) }
            }
            // A reading of a key fetches no part.
            Fetched::Part(_) => return Ok(None),
        };
        let has_expired = stored.expiry_ms != 0 && stored.expiry_ms <= self.clock.wall_ms();
        if has_expired { Ok(None) } else { self.with_parts(stored).map(Some) }
    }

    /// Fetches the parts of a large value.
    fn with_parts(&self, mut stored: Stored) -> Result<Stored, Error> {
        let Some((value_bytes, readings)) = stored.parts.take() else { return Ok(stored) };
        stored.value.reserve_exact(usize::try_from(value_bytes).unwrap_or(0));
        for reading in readings {
            let (buffer, bytes) = self.read(&reading)?;
            if let Fetched::Part(part) = reading.finish(&buffer.as_slice()[..bytes])? {
                stored.value.extend_from_slice(part);
            }
        }
        Ok(stored)
    }

    fn read(&self, reading: &Reading) -> Result<(Buffer, usize), Error> {
        let mut buffer = Buffer::new(reading.bytes());
        let mut most = 0;
        for _ in 0..SHORT_READS_MAX {
            self.reads.fetch_add(1, Ordering::Relaxed);
            match self.files.perform(reading.action(buffer)) {
                Outcome::Read(read, bytes) if bytes == reading.bytes() || bytes <= most => {
                    return Ok((read, bytes));
                }
                Outcome::Read(read, bytes) => (buffer, most) = (read, bytes),
                Outcome::Failed(failure, _) => return Err(reading.failed(failure)),
                _ => break,
            }
        }
        Ok((Buffer::new(0), 0))
    }
}
