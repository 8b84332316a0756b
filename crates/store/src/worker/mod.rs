//! A thread's access to a table.

mod ahead;
mod apply;
mod attempt;
mod queue;
mod readers;
mod spill;
mod uploads;
mod wait;

use std::collections::BTreeSet;

use base::sync::{Arc, Mutex, MutexGuard, lock};
use cache::{ConfigError, Dead, Get, KEY_LEN_MAX, Key, Output};
use log::{
    engine::Upload,
    keys::Keys,
    plan::{Buffer, Outcome, Plan, Token},
};

use self::{
    attempt::{Attempt, Look},
    readers::Readers,
    uploads::Uploads,
};
use crate::{
    Answer, Answered, Asked, Command, Error, Found, Got, Large, Needs, Notice, held::Core,
    limits::TRIES_MAX, pending::Task, reads::Reads, store::Shared,
};

/// What a worker has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Gets that memory has answered without waiting: with a value, or that it has expired.
    pub hits: u64,
    /// Looks at a record that the log had in memory, and memory not, or not any more.
    pub hits_log: u64,
    /// Gets and other commands that a record which was read has answered, each of them.
    pub hits_disk: u64,
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
    /// Of a table that spills: records that were written because memory has had no room for them.
    pub spills: u64,
    /// Those that the ring had already.
    pub spills_clean: u64,
    /// Those that were not admitted, as nobody has read them.
    pub spills_unseen: u64,
    /// Those that the ring could not take. They are lost.
    pub spills_refused: u64,
    /// Sets that found no memory when the ring's record of their key was gone already.
    pub spills_failed: u64,
    /// Looks that have found a record while it waited to be written.
    pub hits_of_waiting: u64,
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
    /// Where its parts are, if it lies in parts.
    large: Option<Large>,
    uploads: Uploads,
    readers: Readers,
    /// What came of uploads and readers.
    notices: Vec<Notice>,
    /// A value that is put together.
    joined: Vec<u8>,
    /// It has asked the log something, or told it.
    is_stirred: bool,
    /// Key and value of a record that is written because memory has no room.
    spilled: (Vec<u8>, Vec<u8>),
    /// Of a table that spills: flushes that had begun before the last look at a key.
    flushes: u64,
    /// What is stored is made of what that has found; whether it counts as read.
    builds_on: Option<bool>,
}

impl<K: Keys, C: Command> Worker<K, C> {
    pub(crate) fn new(shared: Arc<Shared<K, C>>, number: usize) -> Result<Self, ConfigError> {
        let own = Own {
            number,
            cache: match shared.spill {
                None => shared.cache.worker()?.hasty(),
                Some(_) => shared.cache.worker()?,
            },
            reads: Reads::new(number),
            ready: Vec::new(),
            wakes: BTreeSet::new(),
            figures: Figures::default(),
            value: Vec::new(),
            large: None,
            uploads: Uploads::default(),
            readers: Readers::default(),
            notices: Vec::new(),
            joined: Vec::new(),
            is_stirred: false,
            spilled: Default::default(),
            flushes: 0,
            builds_on: None,
        };
        Ok(Self { shared, own })
    }

    /// Gives it a buffer of [`READ_BYTES_KEPT`](crate::limits::READ_BYTES_KEPT) bytes to read into.
    /// Those that it lacks it makes: this is for who has some that can be read into at less cost.
    pub fn lend(&mut self, buffer: Buffer) {
        self.own.reads.give_back(buffer);
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
        if let Some(got) = self.get_at_once(key, out) {
            return got;
        }
        let Self { shared, own } = self;
        let name = own.cache.key(key);
        own.get_slowly(shared, name, caller)
    }

    /// The same, if memory can answer it without a lock. For a caller who does something else with
    /// the key then.
    #[inline]
    pub fn get_at_once(&mut self, key: &[u8], out: &mut impl Output) -> Option<Got> {
        let Self { shared, own } = self;
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Some(Got::Failed(Error::KeyBytes { got: key.len() }));
        }
        let name = own.cache.key(key);
        own.is_stirred |= base::mutant!("hits_ask_the_log");
        // Before the look as well: what has stalled may be done right after it, and who has to look
        // again would count as two.
        if !shared.unflushed.may_tell(name.hash()) {
            return None;
        }
        let got = match own.cache.get(name, out) {
            Get::Hit(meta) => Got::Hit(meta),
            Get::Large(pinned) => Got::Large(pinned),
            // Others have pinned as much as may be. The log has it as well.
            Get::Busy => return None,
            // What is dead in memory is as dead in the log.
            Get::Miss => {
                own.cache.take_dead().filter(|it| *it == Dead::Expired).map(|_| Got::Miss)?
            }
        };
        if !shared.unflushed.may_tell(name.hash()) {
            return None;
        }
        own.figures.hits += 1;
        Some(got)
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
        self.own.execute(&self.shared, name, caller, command, None, own)
    }

    /// Makes everything dead that the table has. Of what is asked at the same time some may be
    /// there afterwards, and some not.
    ///
    /// # Errors
    /// [`Error::NoFlush`]: of a durable table, and of one that recovers what it has spilled.
    pub fn flush(&mut self) -> Result<(), Error> {
        let Self { shared, own } = self;
        if shared.spill.is_none_or(|spill| spill.recovers) {
            return Err(Error::NoFlush);
        }
        // First the ring, to which nothing comes until the rest is done: whoever looks for a key
        // and does not see this, has asked how many flushes there were before the next one began.
        let begin = |core: &mut Core<K, C::Verdict>| {
            if !base::mutant!("store_spill_unflushed") {
                core.dead_below = core.engine.next_sequence();
            }
        };
        let is_late = base::mutant!("store_flush_marked_late");
        let mut core = shared.core();
        core.flushing += 1;
        if !is_late {
            begin(&mut core);
        }
        drop(core);
        if base::mutant!("store_spilled_while_flushing") {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        // Then memory, and with it what waits to be written.
        own.cache.flush();
        let mut core = shared.core();
        core.flushing -= 1;
        if is_late {
            drop(core);
            std::thread::sleep(std::time::Duration::from_micros(200));
            begin(&mut shared.core());
        }
        Ok(())
    }

    /// The next action to be performed, of a read or of the log; `None` until something is asked,
    /// reported or due.
    pub fn poll(&mut self) -> Option<Plan> {
        let Self { shared, own } = self;
        own.tend_uploads(shared);
        own.tend_readers(shared);
        own.spill(shared);
        if let Some(plan) = own.reads.next_plan() {
            return Some(plan);
        }
        for _ in 0..TRIES_MAX {
            let (plan, tries) = own.poll_log(shared);
            if plan.is_some() || !tries {
                return plan.or_else(|| own.reads.next_plan());
            }
            let now_ms = own.cache.now_ms();
            shared.core().note_tried(now_ms);
            own.try_stalled(shared);
            if let Some(plan) = own.reads.next_plan() {
                return Some(plan);
            }
        }
        let (plan, _) = own.poll_log(shared);
        plan.or_else(|| own.reads.next_plan())
    }

    /// The next read for those who wait for records, and nothing else.
    pub fn poll_reads(&mut self) -> Option<Plan> {
        self.own.reads.next_plan()
    }

    /// Whether there are reads to be handed out, now or when others have ended.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        self.own.reads.has_waiting()
    }

    /// Whether it has asked the log something, or told it, since the last call, or something waits
    /// to be written because memory has had no room for it. If not, and nothing
    /// is due and nobody has called, [`Worker::poll`] has nothing to do, and need not take the
    /// log's lock to say so.
    #[must_use]
    pub fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.own.is_stirred) | self.own.cache.has_victims()
    }

    /// When [`Worker::poll`] has something to do at the latest, if nothing else happens. What has
    /// stalled, or waits to be written because memory has no room, is tried each millisecond.
    #[must_use]
    pub fn wake_at_ms(&self) -> Option<u64> {
        let (shared, now_ms) = (&self.shared, self.own.cache.now_ms());
        let has_victim = self.own.cache.has_victims();
        let tries_ms = (shared.unflushed.stalled() > 0 || has_victim).then_some(now_ms + 1);
        let due_ms = shared.core().engine.wake_at_ms();
        let large_ms = self.own.uploads.wake_at_ms(shared, now_ms);
        let large_ms = large_ms.into_iter().chain(self.own.readers.wake_at_ms(now_ms));
        due_ms.into_iter().chain(tries_ms).chain(large_ms).min()
    }

    /// Takes what came of an action that this worker has handed out.
    ///
    /// # Panics
    /// When no such action is out under `token`.
    pub fn complete(&mut self, token: Token, outcome: Outcome) {
        let Self { shared, own } = self;
        own.is_stirred = true;
        if Reads::is_read(token) {
            if let Some(ended) = own.reads.complete(token, outcome) {
                own.fetched(shared, ended);
            }
            return;
        }
        let mut core = shared.core();
        let given = core.complete(&shared.unflushed, token, outcome);
        let due = core.take_parted();
        drop(core);
        own.uploads.is_stirred = true;
        given.into_iter().for_each(|envelope| own.send(shared, envelope));
        own.work_off_parted(shared, due);
        if shared.unflushed.stalled() > 0 {
            own.try_stalled(shared);
        }
    }

    /// Answers to what this worker was asked.
    pub fn take_answers(&mut self) -> Vec<Answered<C::Verdict>> {
        let own = &mut self.own;
        let inbox = &self.shared.inboxes[own.number];
        own.ready.append(&mut inbox.take());
        inbox.end(own.ready.len(), own.ready.iter().map(|(bytes, _)| bytes).sum());
        own.ready.drain(..).map(|(_, answered)| answered).collect()
    }

    /// Which other workers have got answers from this one, and are to be woken.
    pub fn take_wakes(&mut self) -> impl Iterator<Item = usize> + use<K, C> {
        std::mem::take(&mut self.own.wakes).into_iter()
    }
}

impl<K, C: Command> Drop for Worker<K, C> {
    fn drop(&mut self) {
        self.own.end_uploads(&self.shared);
        self.own.end_readers(&self.shared);
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
            self.work_off_parted(shared, polled.due);
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
        self.is_stirred = true;
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
                let (value, large) = (self.value.as_slice().into(), self.large.clone());
                (Answer::Value(Found { meta, value, large }), wait)
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
        upload: Option<Box<Upload>>,
        own: impl FnOnce() -> C,
    ) -> Asked<V> {
        let key = name.bytes();
        let bytes = command.bytes() + key.len();
        self.is_stirred = true;
        if self.is_full(shared, bytes) {
            return Asked::Busy;
        }
        let at = shared.lock_of(name.hash());
        let mut place = self.lock(shared.key_lock(at));
        let overtakes = base::mutant!("store_overtakes_queue") && command.needs() == Needs::Nothing;
        if let Some(pending) = place.ordered(key).filter(|_| !overtakes) {
            let value_bytes = if command.shows() { pending.value_bytes() } else { 0 };
            let waiter = self.waiter(caller, bytes, Task::Command(own())).with(upload);
            let may_wait = self.queue(shared, pending, waiter, value_bytes);
            return if may_wait { Asked::Later } else { Asked::Busy };
        }
        match self.attempt(shared, name, command, None, upload.as_deref()) {
            Attempt::Done { answer, wait, .. } => {
                drop(place);
                self.hold(shared, caller, answer, wait).map_or(Asked::Later, Asked::Now)
            }
            Attempt::Read(reading) => {
                let waiter = self.waiter(caller, bytes, Task::Command(own())).with(upload);
                let may_wait = self.wait_for_read(shared, &mut place, name, *reading, waiter);
                if may_wait { Asked::Later } else { Asked::Busy }
            }
            Attempt::Parts(last) => {
                let waiter = self.waiter(caller, bytes, Task::Command(own())).with(upload);
                self.wait_for_parts(shared, &mut place, name, last, waiter);
                Asked::Later
            }
            Attempt::Stalled => {
                let waiter = self.waiter(caller, bytes, Task::Command(own())).with(upload);
                self.stall(shared, &mut place, name, waiter);
                Asked::Later
            }
        }
    }
}
