//! A thread's access to a table.

mod attempt;
mod queue;
mod wait;

use std::collections::BTreeSet;

use base::sync::{Arc, Mutex, MutexGuard, lock};
use cache::{ConfigError, Dead, Get, KEY_LEN_MAX, Key, Output};
use log::{
    keys::Keys,
    plan::{Outcome, Plan, Token},
};

use self::attempt::{Attempt, Look};
use crate::{
    Answer, Answered, Asked, Command, Error, Found, Got, Needs, limits::TRIES_MAX, pending::Task,
    reads::Reads, store::Shared,
};

/// What a worker has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Gets that memory has answered without waiting: with a value, or that it has expired.
    pub hits: u64,
    /// Records that were put into memory after a read, or from what the log has in memory.
    pub fills: u64,
    /// Records that were not: the key was written or moved meanwhile, or memory had no room.
    pub fills_refused: u64,
    /// Reads that were begun.
    pub reads: u64,
    /// Commands that have waited for a read which another one had begun.
    pub reads_shared: u64,
    /// Reads that failed, or found damage.
    pub reads_failed: u64,
    /// Answers that waited for the flush of what they saw.
    pub waits: u64,
    /// Times that commands of a key had to wait for room in the log, or for a rewrite.
    pub stalled: u64,
    /// Commands that were refused because too much waits.
    pub busy: u64,
}

/// A thread's access to a table. Every thread makes its own.
///
/// It is online in the cache: [`Worker::quiesce`] between commands, [`Worker::offline`] around
/// whatever blocks.
#[derive(Debug)]
pub struct Worker<K, C: Command> {
    shared: Arc<Shared<K, C>>,
    own: Own<C::Verdict>,
}

/// What no other thread has.
#[derive(Debug)]
struct Own<V> {
    number: usize,
    cache: cache::Worker,
    reads: Reads,
    /// Answers that need no inbox.
    ready: Vec<(usize, Answered<V>)>,
    wakes: BTreeSet<usize>,
    figures: Figures,
    /// The value of the record at hand.
    value: Vec<u8>,
    /// A value that is put together.
    joined: Vec<u8>,
}

impl<K: Keys, C: Command> Worker<K, C> {
    pub(crate) fn new(shared: Arc<Shared<K, C>>, number: usize) -> Result<Self, ConfigError> {
        let own = Own {
            number,
            cache: shared.cache.worker()?.hasty(),
            reads: Reads::new(number),
            ready: Vec::new(),
            wakes: BTreeSet::new(),
            figures: Figures::default(),
            value: Vec::new(),
            joined: Vec::new(),
        };
        Ok(Self { shared, own })
    }

    /// What it has counted.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.own.figures
    }

    /// Announces that this thread is between two commands, and takes the time anew.
    pub fn quiesce(&mut self) {
        self.own.cache.quiesce();
    }

    /// Runs what blocks while no other thread waits for this one.
    pub fn offline<R>(&mut self, blocking: impl FnOnce() -> R) -> R {
        self.own.cache.offline(blocking)
    }

    /// Gets a value. A hit on a record that is durable takes no lock. `caller` is under which
    /// number an answer comes that has to wait.
    pub fn get(&mut self, key: &[u8], caller: u64, out: &mut impl Output) -> Got {
        let Self { shared, own } = self;
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Got::Failed(Error::KeyBytes { got: key.len() });
        }
        let name = own.cache.key(key);
        // Before the look: what has stalled may be done right after it.
        let is_stalled = shared.unflushed.is_stalled();
        let got = match own.cache.get(name, out) {
            Get::Hit(meta) => Some(Got::Hit(meta)),
            Get::Large(pinned) => Some(Got::Large(pinned)),
            Get::Busy => return Got::Busy,
            // What is dead in memory is as dead in the log.
            Get::Miss => own.cache.take_dead().filter(|it| *it == Dead::Expired).map(|_| Got::Miss),
        };
        if let Some(got) = got
            && !is_stalled
            && shared.unflushed.may_tell(name.hash())
        {
            own.figures.hits += 1;
            return got;
        }
        own.get_slowly(shared, name, caller)
    }

    /// Carries out a command. `own` makes one that can be kept, should it have to wait for a record
    /// or for room.
    pub fn execute<D: Command<Verdict = C::Verdict>>(
        &mut self,
        key: &[u8],
        caller: u64,
        command: &D,
        own: impl FnOnce() -> C,
    ) -> Asked<C::Verdict> {
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Asked::Now(Answer::Failed(Error::KeyBytes { got: key.len() }));
        }
        let name = self.own.cache.key(key);
        self.own.execute(&self.shared, name, caller, command, own)
    }

    /// The next action to be performed, of a read or of the log; `None` until something is asked,
    /// reported or due.
    pub fn poll(&mut self) -> Option<Plan> {
        let Self { shared, own } = self;
        if let Some(plan) = own.reads.next_plan() {
            return Some(plan);
        }
        for _ in 0..TRIES_MAX {
            let (plan, tries) = own.poll_log(shared);
            if plan.is_some() || !tries {
                return plan;
            }
            let now_ms = own.cache.now_ms();
            shared.core().note_tried(now_ms);
            own.try_stalled(shared);
            if let Some(plan) = own.reads.next_plan() {
                return Some(plan);
            }
        }
        own.poll_log(shared).0
    }

    /// When [`Worker::poll`] has something to do at the latest, if nothing else happens. What has
    /// stalled is tried each millisecond.
    #[must_use]
    pub fn wake_at_ms(&self) -> Option<u64> {
        let (shared, now_ms) = (&self.shared, self.own.cache.now_ms());
        let tries_ms = (shared.unflushed.stalled() > 0).then_some(now_ms + 1);
        let due_ms = shared.core().engine.wake_at_ms();
        due_ms.into_iter().chain(tries_ms).min()
    }

    /// Takes what came of an action that this worker has handed out.
    ///
    /// # Panics
    /// When no such action is out under `token`.
    pub fn complete(&mut self, token: Token, outcome: Outcome) {
        let Self { shared, own } = self;
        if Reads::is_read(token) {
            if let Some(ended) = own.reads.complete(token, outcome) {
                own.fetched(shared, ended);
            }
            return;
        }
        let mut core = shared.core();
        let given = core.complete(&shared.unflushed, token, outcome);
        drop(core);
        given.into_iter().for_each(|envelope| own.send(shared, envelope));
        if shared.unflushed.stalled() > 0 {
            own.try_stalled(shared);
        }
    }

    /// Answers to what this worker was asked.
    pub fn take_answers(&mut self) -> Vec<Answered<C::Verdict>> {
        let own = &mut self.own;
        let inbox = &self.shared.inboxes[own.number];
        let mut answers = std::mem::take(&mut own.ready);
        answers.extend(inbox.take());
        inbox.end(answers.len(), answers.iter().map(|(bytes, _)| bytes).sum());
        answers.into_iter().map(|(_, answered)| answered).collect()
    }

    /// Which other workers have got answers from this one, and are to be woken.
    pub fn take_wakes(&mut self) -> impl Iterator<Item = usize> + use<K, C> {
        std::mem::take(&mut self.own.wakes).into_iter()
    }
}

impl<K, C: Command> Drop for Worker<K, C> {
    fn drop(&mut self) {
        self.shared.inboxes[self.own.number].leave(std::mem::take(&mut self.own.ready));
    }
}

impl<V: Send> Own<V> {
    /// Takes a key's lock. Who has to wait for it is offline meanwhile: its holder may wait for
    /// memory that is free when all threads have been quiescent.
    fn lock<'s, T>(&mut self, mutex: &'s Mutex<T>) -> MutexGuard<'s, T> {
        match mutex.try_lock() {
            Ok(guard) => guard,
            Err(_) => self.cache.offline(|| lock(mutex)),
        }
    }

    fn poll_log<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
    ) -> (Option<Plan>, bool) {
        loop {
            // Of moves each takes a turn of some records, and gives the lock back.
            let polled = shared.core().poll(&shared.unflushed, self.cache.now_ms());
            polled.given.into_iter().for_each(|envelope| self.send(shared, envelope));
            if !polled.goes_on {
                return (polled.plan, polled.tries);
            }
        }
    }

    fn get_slowly<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        caller: u64,
    ) -> Got {
        let key = name.bytes();
        if self.is_full(shared, key.len()) {
            return Got::Busy;
        }
        let waiter = self.waiter(caller, key.len(), Task::Get);
        let at = shared.lock_of(name.hash());
        let mut place = self.lock(shared.key_lock(at));
        if let Some(pending) = place.ordered(key) {
            let value_bytes = pending.value_bytes();
            let may_wait = self.queue(shared, pending, waiter, value_bytes);
            return if may_wait { Got::Later } else { Got::Busy };
        }
        let (answer, wait) = match self.look(shared, name, Needs::Value) {
            Look::Present(meta, wait) => {
                let value = self.value.as_slice().into();
                (Answer::Value(Found { meta, value }), wait)
            }
            Look::Absent(wait) => (Answer::Miss, wait),
            Look::Read(reading) => {
                let may_wait = self.wait_for_read(shared, &mut place, name, *reading, waiter);
                return if may_wait { Got::Later } else { Got::Busy };
            }
            Look::Stalled => {
                self.stall(shared, &mut place, name, waiter);
                return Got::Later;
            }
            Look::Failed(error) => return Got::Failed(error),
        };
        drop(place);
        match self.hold(shared, caller, answer, wait) {
            Some(Answer::Miss) => Got::Miss,
            Some(answer) => {
                let bytes = answer.value_bytes();
                shared.inboxes[self.number].begin(bytes);
                self.ready.push((bytes, Answered { caller, answer }));
                Got::Later
            }
            None => Got::Later,
        }
    }

    fn execute<K: Keys, C: Command<Verdict = V>, D: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        caller: u64,
        command: &D,
        own: impl FnOnce() -> C,
    ) -> Asked<V> {
        let key = name.bytes();
        let bytes = command.bytes() + key.len();
        if self.is_full(shared, bytes) {
            return Asked::Busy;
        }
        let at = shared.lock_of(name.hash());
        let mut place = self.lock(shared.key_lock(at));
        let overtakes = base::mutant!("store_overtakes_queue") && command.needs() == Needs::Nothing;
        if let Some(pending) = place.ordered(key).filter(|_| !overtakes) {
            let value_bytes = if command.shows() { pending.value_bytes() } else { 0 };
            let waiter = self.waiter(caller, bytes, Task::Command(own()));
            let may_wait = self.queue(shared, pending, waiter, value_bytes);
            return if may_wait { Asked::Later } else { Asked::Busy };
        }
        match self.attempt(shared, name, command, None) {
            Attempt::Done { answer, wait, .. } => {
                drop(place);
                self.hold(shared, caller, answer, wait).map_or(Asked::Later, Asked::Now)
            }
            Attempt::Read(reading) => {
                let waiter = self.waiter(caller, bytes, Task::Command(own()));
                let may_wait = self.wait_for_read(shared, &mut place, name, *reading, waiter);
                if may_wait { Asked::Later } else { Asked::Busy }
            }
            Attempt::Stalled => {
                let waiter = self.waiter(caller, bytes, Task::Command(own()));
                self.stall(shared, &mut place, name, waiter);
                Asked::Later
            }
        }
    }
}
