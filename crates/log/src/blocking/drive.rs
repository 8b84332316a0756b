//! Who performs which action, and who waits for what.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize},
    },
    time::Duration,
};

use base::clock::{Clock, Stopwatch};

use super::{
    Files, Mode, Put, Removed, Wrote,
    fetch::ReadBuffers,
    waiting::{Awaited, Told, Waiters},
};
use crate::{
    engine::{Batch, Change, Engine, Mark, Settled, Upload},
    error::Error,
    keys::Keys,
    plan::Plan,
};

/// The longest sleep of a thread behind: it looks again, in case nobody wakes it.
#[cfg(not(test))]
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(1);
/// In tests a call that does not come is to be noticed.
#[cfg(test)]
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(30);

/// What the lock guards.
#[derive(Debug)]
pub(super) struct State<K> {
    pub(super) engine: Engine<K>,
    pub(super) is_stopping: bool,
    /// Threads behind that sleep.
    pub(super) idle: usize,
    /// How many of them were woken and have not come yet.
    pub(super) called: usize,
    /// Those that are about to take the next turn of a move.
    pub(super) in_turns: usize,
    pub(super) waiters: Waiters,
    /// Since something was last written while something was moved.
    pub(super) since_written: Stopwatch,
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared<K> {
    pub(super) state: Mutex<State<K>>,
    /// How many of those who have called the log look for the lock, or wait for it.
    pub(super) looking: AtomicUsize,
    /// How many wait for it, those behind with something to report among them.
    pub(super) waiting: AtomicUsize,
    /// There is something to do for a thread behind.
    pub(super) work: Condvar,
    pub(super) files: Files,
    pub(super) clock: Clock,
    pub(super) reads: AtomicU64,
    pub(super) read_buffers: ReadBuffers,
}

pub(super) type Guard<'a, K> = MutexGuard<'a, State<K>>;

impl<K: Keys> State<K> {
    /// Whether a thread behind that goes away for a while is to wake another one. Somebody who is
    /// about to take a turn of a move comes anyway.
    pub(super) fn claims_next(&mut self) -> bool {
        if self.in_turns > 0 {
            self.engine.stay_in_turns();
            return false;
        }
        self.engine.has_work() && self.claim_idle()
    }
}

impl<K> State<K> {
    /// Whether a thread behind sleeps and nobody has woken it.
    pub(super) fn may_wake(&self) -> bool {
        self.called < self.idle
    }

    /// Whether the caller is to wake a thread behind: one sleeps, and nobody else has woken it.
    pub(super) fn claim_idle(&mut self) -> bool {
        let may_wake = self.may_wake();
        self.called += usize::from(may_wake);
        may_wake
    }
}

impl<K: Keys> Shared<K> {
    fn part_bytes(&self, state: &State<K>) -> usize {
        state.engine.manifest().shape.part_bytes as usize
    }

    /// Wakes a thread behind, if one sleeps.
    pub(super) fn wake(&self, state: &mut State<K>) {
        if state.claim_idle() {
            self.work.notify_one();
        }
    }

    /// Wakes a thread behind when a record has left it something to do, unless one is about to
    /// come: it wakes the next if there is more than it does itself. In `async` the first one that
    /// is not flushed sets the time at which a thread must look again, which is told at once.
    pub(super) fn wake_for_work(&self, state: &mut State<K>, is_first: bool) {
        let has_time = is_first && state.engine.mode() == Mode::Async;
        let has_work = || state.called == 0 && state.engine.has_work();
        if state.may_wake() && (has_time || has_work()) {
            self.wake(state);
        }
    }

    /// Performs a plan, without the lock, and takes it to report what came of that.
    pub(super) fn perform<'a>(
        &'a self,
        plan: Plan,
        lock: impl FnOnce(&'a Self) -> Guard<'a, K>,
    ) -> Guard<'a, K> {
        let outcome = self.files.perform(plan.action);
        let mut state = lock(self);
        state.engine.complete(plan.token, outcome);
        state
    }

    /// Tells those who wait what there is to tell. `needs_leader`: the caller does not go on to
    /// perform what the others wait for.
    pub(super) fn call<'a>(&'a self, mut state: Guard<'a, K>, needs_leader: bool) -> Guard<'a, K> {
        let State { engine, waiters, .. } = &mut *state;
        let called = waiters.tell(needs_leader, |first, last| engine.may_answer_all(first, last));
        if called.is_empty() {
            return state;
        }
        drop(state);
        called.wake();
        self.lock()
    }

    /// Something must be reported before the caller can go on: does the next thing itself, or
    /// waits for whoever does it. `Err` is the answer to what was awaited, the lock given back.
    fn advance<'a>(
        &'a self,
        mut state: Guard<'a, K>,
        awaited: Awaited,
    ) -> Result<Guard<'a, K>, bool> {
        let (now_ms, setbacks) = (self.clock.now_ms(), state.engine.setbacks());
        if let Some(plan) = state.engine.poll_records(now_ms) {
            drop(state);
            let state = self.perform(plan, Self::lock);
            let goes = match awaited {
                Awaited::Report => true,
                Awaited::Marks(first, last) => {
                    state.engine.may_answer_all(first, last) != Settled::Pending
                }
            };
            return Ok(self.call(state, goes));
        }
        // What failed is written again, which is in memory: nobody reports that.
        if state.engine.setbacks() != setbacks {
            return Ok(self.call(state, true));
        }
        if matches!(awaited, Awaited::Report) {
            state.engine.tell_waiting(true);
        }
        if state.engine.mode() == Mode::Async || state.engine.has_work() {
            self.wake(&mut state);
        }
        self.sit(state, awaited, SLEEP_MAX)
    }

    /// Waits to be told what is awaited, and no longer than that. `Err` as of `advance`.
    fn sit<'a>(
        &'a self,
        mut state: Guard<'a, K>,
        awaited: Awaited,
        longest: Duration,
    ) -> Result<Guard<'a, K>, bool> {
        let seat = state.waiters.sit(awaited);
        drop(state);
        match seat.wait(longest) {
            Some(Told::Settled(is_done)) => Err(is_done),
            Some(Told::Look) => Ok(self.lock()),
            None => {
                let mut state = self.lock();
                state.waiters.leave(&seat);
                Ok(state)
            }
        }
    }

    /// Waits for any report, which may make room, or performs what leads to one.
    pub(super) fn wait_for_report<'a>(&'a self, state: Guard<'a, K>) -> Guard<'a, K> {
        self.advance(state, Awaited::Report).unwrap_or_else(|_| self.lock())
    }

    /// Waits for what a put was told to wait for.
    fn wait_for_room<'a>(&'a self, mut state: Guard<'a, K>) -> Guard<'a, K> {
        let is_blind = base::mutant!("log_slowed_puts_wait_for_reports");
        let Some(at_ms) = state.engine.retry_at_ms().filter(|_| !is_blind) else {
            return self.wait_for_report(state);
        };
        // Who performed something would wait for all of that.
        state.engine.tell_waiting(true);
        self.wake(&mut state);
        let left = Duration::from_millis(at_ms.saturating_sub(self.clock.now_ms()));
        let sat = self.sit(state, Awaited::Report, left);
        let mut state = sat.unwrap_or_else(|_| self.lock());
        let is_awaited = state.waiters.wait_for_reports();
        state.engine.tell_waiting(is_awaited);
        state
    }

    /// Waits until a reply to everything from the first to the last of `marks` may go out.
    pub(super) fn wait_for_all<'a>(
        &'a self,
        state: Guard<'a, K>,
        marks: Option<(Mark, Mark)>,
    ) -> Result<(), Error> {
        let Some((first, last)) = marks else { return Ok(()) };
        if self.settle(state, first, last) { Ok(()) } else { Err(Error::Unflushed) }
    }

    /// Waits until it is known whether everything from `first` to `last` may be answered, and
    /// gives the lock back.
    pub(super) fn settle<'a>(&'a self, mut state: Guard<'a, K>, first: Mark, last: Mark) -> bool {
        loop {
            match state.engine.may_answer_all(first, last) {
                Settled::Done => return true,
                Settled::Failed => return false,
                Settled::Pending => {}
            }
            match self.advance(state, Awaited::Marks(first, last)) {
                Ok(next) => state = next,
                Err(is_done) => return is_done,
            }
        }
    }

    pub(super) fn drain<'a>(&'a self, mut state: Guard<'a, K>) -> Result<(), Error> {
        let mut drain = state.engine.drain();
        loop {
            match state.engine.drained(&mut drain) {
                Settled::Done => return Ok(()),
                Settled::Failed => return Err(Error::Unflushed),
                Settled::Pending => state = self.wait_for_report(state),
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
            let (arrival, now_ms) = (state.arrival(), self.clock.now_ms());
            match ask(&mut state.engine, now_ms)? {
                Wrote::Done { mark, .. } => {
                    self.leave_work(&mut state, now_ms, arrival);
                    return Ok((state, Some(mark)));
                }
                Wrote::Wait => state = self.wait_for_room(state),
            }
        }
    }

    pub(super) fn put<'a>(
        &'a self,
        state: Guard<'a, K>,
        put: &Put<'_>,
    ) -> Result<(Guard<'a, K>, Option<Mark>), Error> {
        if put.value.len() > self.part_bytes(&state) {
            return self.put_large(state, put);
        }
        let hash = state.engine.check_put(put)?;
        self.write(state, |engine, now_ms| engine.put_checked(hash, put, now_ms))
    }

    fn put_large<'a>(
        &'a self,
        state: Guard<'a, K>,
        put: &Put<'_>,
    ) -> Result<(Guard<'a, K>, Option<Mark>), Error> {
        let (state, upload) = self.put_parts(state, put)?;
        let head = Put { value: &[], ..*put };
        self.write(state, |engine, now_ms| engine.put_head(&upload, &head, now_ms))
    }

    fn put_parts<'a>(
        &'a self,
        mut state: Guard<'a, K>,
        put: &Put<'_>,
    ) -> Result<(Guard<'a, K>, Upload), Error> {
        let part_bytes = self.part_bytes(&state);
        let mut upload = state.engine.begin_large(put.key, put.value.len() as u64)?;
        for part in put.value.chunks(part_bytes) {
            state =
                self.write(state, |engine, now_ms| engine.put_part(&mut upload, part, now_ms))?.0;
        }
        Ok((state, upload))
    }

    /// Makes all changes or none; the parts of large values are put before.
    pub(super) fn write_batch(&self, changes: &[Change<'_>]) -> Result<usize, Error> {
        let mut state = self.lock();
        let part_bytes = self.part_bytes(&state);
        let mut uploads = Vec::new();
        for change in changes {
            let Change::Put(put) = change else { continue };
            if put.value.len() > part_bytes {
                let (next, upload) = self.put_parts(state, put)?;
                state = next;
                uploads.push(upload);
            }
        }
        let mut heads = uploads.iter();
        let changes: Vec<Change<'_>> = changes
            .iter()
            .map(|change| match change {
                Change::Put(put) if put.value.len() > part_bytes => {
                    let upload = heads.next().expect("invariant: each large value was put");
                    Change::Head(upload, Put { value: &[], ..*put })
                }
                other => *other,
            })
            .collect();
        loop {
            if state.is_stopping {
                return Err(Error::Stopping);
            }
            let (arrival, now_ms) = (state.arrival(), self.clock.now_ms());
            match state.engine.write_batch(&changes, now_ms)? {
                Batch::Done { removed, marks } => {
                    self.leave_work(&mut state, now_ms, arrival);
                    return self.wait_for_all(state, marks).map(|()| removed);
                }
                Batch::Wait => state = self.wait_for_room(state),
            }
        }
    }

    /// Has the index take keys below `kmax`.
    pub(super) fn grow(&self, kmax: u64) -> Result<(), Error> {
        let mut state = self.lock();
        while state.engine.grow(kmax)? != Settled::Done {
            if state.is_stopping {
                return Err(Error::Stopping);
            }
            state = self.wait_for_report(state);
        }
        Ok(())
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
            let (arrival, now_ms) = (state.arrival(), self.clock.now_ms());
            match state.engine.remove(key, now_ms)? {
                Removed::Done { mark, .. } => {
                    self.leave_work(&mut state, now_ms, arrival);
                    return Ok((state, true, Some(mark)));
                }
                Removed::Absent { wait } => return Ok((state, false, wait)),
                Removed::Wait => state = self.wait_for_report(state),
            }
        }
    }
}
