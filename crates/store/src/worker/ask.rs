//! What a worker is asked, and what it answers at once.

use cache::{Dead, Get, KEY_LEN_MAX, Key, Output};
use log::{engine::Upload, keys::Keys};

use super::{
    Own, Worker,
    attempt::{Attempt, Look},
};
use crate::{
    Answer, Answered, Asked, Command, Error, Found, FoundValue, Got, Needs,
    held::{Envelope, Wait},
    limits::READ_BYTES_KEPT,
    pending::Task,
    store::Shared,
};

impl<K: Keys, C: Command> Worker<K, C> {
    /// Gets a value. A hit on a record that is durable takes no lock. `caller` is under which
    /// number an answer comes that has to wait.
    pub fn get(&mut self, key: &[u8], caller: u64, out: &mut impl Output) -> Got {
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Got::Failed(Error::KeyBytes { got: key.len() });
        }
        let Self { shared, own } = self;
        let name = own.cache.key(key);
        if let Some(got) = own.get_at_once(shared, name, out) {
            return got;
        }
        let got = own.get_slowly(shared, name, caller);
        own.let_go();
        got
    }

    /// The same, if memory can answer it without a lock. For a caller who does something else with
    /// the key then.
    #[inline]
    pub fn get_at_once(&mut self, key: &[u8], out: &mut impl Output) -> Option<Got> {
        if !(1..=KEY_LEN_MAX).contains(&key.len()) {
            return Some(Got::Failed(Error::KeyBytes { got: key.len() }));
        }
        let Self { shared, own } = self;
        let name = own.cache.key(key);
        own.get_at_once(shared, name, out)
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
        let asked = self.own.execute(&self.shared, name, caller, command, None, own);
        self.own.let_go();
        asked
    }
}

impl<V: Send> Own<V> {
    #[inline]
    fn get_at_once<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
        out: &mut impl Output,
    ) -> Option<Got> {
        self.is_stirred |= base::mutant!("hits_ask_the_log");
        // What of this worker waits in order may be done right now by another one, in steps.
        if self.queued.has(shared.lock_of(name.hash())) {
            return None;
        }
        // Before the look as well: who has to look again would count as two.
        if !shared.unflushed.may_tell(name.hash()) {
            return None;
        }
        let got = match self.cache.get(name, out) {
            Get::Hit(meta) => Got::Hit(meta),
            Get::Large(pinned) => Got::Large(pinned),
            // Others have pinned as much as may be. The log has it as well.
            Get::Busy => return None,
            // What is dead in memory is as dead in the log.
            Get::Miss => {
                self.cache.take_dead().filter(|it| *it == Dead::Expired).map(|_| Got::Miss)?
            }
        };
        if !shared.unflushed.may_tell(name.hash()) {
            return None;
        }
        self.figures.hits += 1;
        Some(got)
    }

    /// Whether a value of so many bytes may be shown, which may be a little less.
    pub(super) fn may_show<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        bytes: usize,
    ) -> bool {
        if bytes <= READ_BYTES_KEPT || self.shown_room == usize::MAX {
            return true;
        }
        let all_bytes = shared.inboxes[self.number].pending_bytes() + bytes;
        let may = all_bytes <= self.shown_room || base::mutant!("store_shows_any");
        self.figures.busy += u64::from(!may);
        may
    }

    /// The same of the value that memory has of a key, if it has one: before it is copied.
    fn may_show_copy<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        name: Key<'_>,
    ) -> bool {
        if self.shown_room == usize::MAX {
            return true;
        }
        let bytes = match self.look_at_fields(name) {
            Some(Some(meta)) => meta.value_len as usize,
            Some(None) | None => 0,
        };
        self.may_show(shared, bytes)
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
            let may_wait = self.may_show(shared, value_bytes)
                && self.queue(shared, (at, pending), waiter, value_bytes);
            return if may_wait { Got::Later } else { Got::Busy };
        }
        if !self.may_show_copy(shared, name) {
            return Got::Busy;
        }
        let (answer, wait) = match self.look(shared, name, Needs::Value) {
            Look::Present(..) if !self.may_show(shared, self.value.len()) => return Got::Busy,
            Look::Present(meta, wait) => {
                let value = FoundValue::Shared(self.value.as_slice().into());
                let large = self.large.clone();
                (Answer::Value(Found { meta, value, large }), wait)
            }
            Look::Absent(wait) => (Answer::Miss, wait),
            Look::Read(reading) => {
                let may_wait = self.may_show(shared, reading.bytes())
                    && self.wait_for_read(shared, &mut place, name, reading, waiter);
                return if may_wait { Got::Later } else { Got::Busy };
            }
            Look::Stalled => {
                self.stall(shared, &mut place, name, waiter);
                return Got::Later;
            }
            Look::Failed(error) => return Got::Failed(error),
        };
        drop(place);
        match self.hold(shared, key, caller, answer, wait) {
            Some(Answer::Miss) => Got::Miss,
            Some(answer) => {
                let bytes = answer.value_bytes();
                shared.inboxes[self.number].begin(bytes);
                let answered = Answered { caller, answer };
                self.ready.push(Envelope { worker: self.number, bytes, lock: None, answered });
                Got::Later
            }
            None => Got::Later,
        }
    }

    pub(super) fn execute<K: Keys, C: Command<Verdict = V>, D: Command<Verdict = V>>(
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
        let is_full = self.is_full(shared, bytes);
        if is_full && !base::mutant!("store_busy_has_done_it") {
            return Asked::Busy;
        }
        let at = shared.lock_of(name.hash());
        let mut place = self.lock(shared.key_lock(at));
        let overtakes = base::mutant!("store_overtakes_queue") && command.needs() == Needs::Nothing;
        if let Some(pending) = place.ordered(key).filter(|_| !overtakes) {
            let value_bytes = if command.shows() { pending.value_bytes() } else { 0 };
            let waiter = self.waiter(caller, bytes, Task::Command(own())).with(upload);
            let may_wait = self.may_show(shared, value_bytes)
                && self.queue(shared, (at, pending), waiter, value_bytes);
            return if may_wait { Asked::Later } else { Asked::Busy };
        }
        if command.shows() && !self.may_show_copy(shared, name) {
            return Asked::Busy;
        }
        match self.attempt(shared, name, command, None, upload.as_deref()) {
            Attempt::TooLong => Asked::Busy,
            Attempt::Done { wait, .. } if is_full && wait != Wait::Nothing => Asked::Busy,
            Attempt::Done { answer, wait, .. } => {
                drop(place);
                self.hold(shared, key, caller, answer, wait).map_or(Asked::Later, Asked::Now)
            }
            Attempt::Read(reading) => {
                let waiter = self.waiter(caller, bytes, Task::Command(own())).with(upload);
                let may_wait = (!command.shows() || self.may_show(shared, reading.bytes()))
                    && self.wait_for_read(shared, &mut place, name, reading, waiter);
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
