//! Those who have to wait, and answers that do.

use std::sync::Arc;

use base::sync::atomic::Ordering;
use cache::Key;
use log::{
    engine::{Mark, Reading},
    keys::Keys,
};

use super::Own;
use crate::{
    Answer, Answered, Command,
    held::{Envelope, Wait},
    pending::{Pending, Place, Task, Waiter},
    reads::Whom,
    store::Shared,
};

impl<V: Send> Own<V> {
    pub(super) fn is_full<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        bytes: usize,
    ) -> bool {
        let is_full = shared.inboxes[self.number].is_full(bytes);
        self.figures.busy += u64::from(is_full);
        is_full
    }

    /// Somebody of this worker who will wait, and hold so many bytes.
    pub(super) fn waiter<C>(&self, caller: u64, bytes: usize, task: Task<C>) -> Waiter<C> {
        Waiter {
            worker: self.number,
            caller,
            bytes,
            lock: None,
            asked_ms: self.cache.now_ms(),
            task,
            upload: None,
        }
    }

    /// It waits from now on. `lock`: its key's, if it waits in order.
    fn begin_to_wait<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        waiter: &mut Waiter<C>,
        lock: Option<usize>,
    ) {
        shared.inboxes[self.number].begin(waiter.bytes);
        waiter.lock = lock;
        lock.into_iter().for_each(|lock| self.queued.add(lock));
    }

    /// Whether somebody may go behind those who wait for a key, and goes. `value_bytes`: what the
    /// answer may have of its own.
    pub(super) fn queue<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        (at, pending): (usize, &mut Pending<C>),
        mut waiter: Waiter<C>,
        value_bytes: usize,
    ) -> bool {
        waiter.bytes += value_bytes;
        if self.is_full(shared, waiter.bytes) {
            return false;
        }
        self.begin_to_wait(shared, &mut waiter, Some(at));
        pending.push(waiter);
        true
    }

    /// Waits for the read of what the key is now, and begins it if nobody has. Says whether it may.
    pub(super) fn wait_for_read<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        place: &mut Place<C>,
        name: Key<'_>,
        reading: Arc<Reading>,
        mut waiter: Waiter<C>,
    ) -> bool {
        let core = shared.core();
        let shares = !base::mutant!("store_racing_updates");
        let same = place.same_read(name.bytes(), |reading| core.engine.leads_to(reading));
        let same = same.filter(|_| shares);
        drop(core);
        let has_own_value = match &waiter.task {
            // They share the value, too.
            Task::Get => same.is_none(),
            Task::Command(command) => command.shows(),
        };
        waiter.bytes += if has_own_value { reading.bytes() } else { 0 };
        if self.is_full(shared, waiter.bytes) {
            return false;
        }
        // Gets that wait alone have seen what the key was when they came: a hit may overtake them.
        let at = shared.lock_of(name.hash());
        let is_ordered = matches!(waiter.task, Task::Command(_));
        self.begin_to_wait(shared, &mut waiter, is_ordered.then_some(at));
        if let Some(pending) = same {
            pending.push(waiter);
            self.figures.reads_shared += 1;
            return true;
        }
        let key = reading.shared_key().expect("invariant: it reads what a key is");
        let id = place.begin(key, Some(Arc::clone(&reading)), waiter);
        self.begin_read(at, id, reading);
        true
    }

    pub(super) fn begin_read(&mut self, at: usize, id: u64, reading: Arc<Reading>) {
        self.figures.reads += 1;
        self.reads.begin(Whom::Key { at, id }, reading);
    }

    /// Waits for room in the log, or for a rewrite.
    pub(super) fn stall<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        place: &mut Place<C>,
        name: Key<'_>,
        mut waiter: Waiter<C>,
    ) {
        let at = shared.lock_of(name.hash());
        self.begin_to_wait(shared, &mut waiter, Some(at));
        let id = place.begin(name.bytes().into(), None, waiter);
        self.note_stalled(shared);
        shared.core().stall(at, id);
    }

    /// Waits for the flush of the parts of a value, which is under way.
    pub(super) fn wait_for_parts<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        place: &mut Place<C>,
        name: Key<'_>,
        last: Mark,
        mut waiter: Waiter<C>,
    ) {
        let at = shared.lock_of(name.hash());
        self.begin_to_wait(shared, &mut waiter, Some(at));
        let id = place.begin(name.bytes().into(), None, waiter);
        shared.core().wait_for_parts(at, id, last);
    }

    /// The commands of a key wait for room in the log, or for a rewrite.
    pub(super) fn note_stalled<K: Keys, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) {
        self.figures.stalled += 1;
        shared.stalled.fetch_add(1, Ordering::Release);
    }

    /// Says the answer if it may be given to the caller, who asks now, and keeps it otherwise.
    pub(super) fn hold<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        key: &[u8],
        caller: u64,
        answer: Answer<V>,
        wait: Wait,
    ) -> Option<Answer<V>> {
        if wait == Wait::Nothing {
            return Some(answer);
        }
        let bytes = answer.value_bytes();
        let answered = Answered { caller, answer };
        let envelope = Envelope { worker: self.number, bytes, lock: None, answered };
        let given = shared.core().hold(wait, key, envelope);
        if given.is_none() {
            shared.inboxes[self.number].begin(bytes);
            self.figures.waits += u64::from(wait.is_of_seen());
        }
        given.map(|envelope| envelope.answered.answer)
    }

    /// Gives an answer to whoever waits for it.
    pub(super) fn send<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
        envelope: Envelope<V>,
    ) {
        if envelope.worker == self.number {
            self.ready.push(envelope);
        } else {
            if !base::mutant!("store_wakes_nobody") {
                self.wakes.insert(envelope.worker);
            }
            shared.inboxes[envelope.worker].put(envelope);
        }
    }
}
