//! What a worker wants to be done, and what came of it.

use log::{
    keys::Keys,
    plan::{Outcome, Plan, Token},
};

use super::{Own, Worker};
use crate::{
    Command,
    limits::{TRIES_MAX, TURNS_MAX},
    reads::Reads,
    store::Shared,
};

impl<K: Keys, C: Command> Worker<K, C> {
    /// The next action to be performed, of a read or of the log; `None` until something is asked,
    /// reported or due, or [`Worker::goes_on`] says that there is more.
    pub fn poll(&mut self) -> Option<Plan> {
        let Self { shared, own } = self;
        let plan = own.poll(shared);
        own.let_go();
        own.goes_on = plan.is_none() && own.turns_left == 0;
        if plan.is_none() {
            own.turns_left = TURNS_MAX;
        }
        plan
    }

    /// Whether the last [`Worker::poll`] gave nothing though there are turns to be taken in the
    /// log: so many were that it is the turn of what else its thread has to do. Then it is to be
    /// called again, at once.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.own.goes_on
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
        let tries_ms = (shared.stalled() > 0 || has_victim).then_some(now_ms + 1);
        let due_ms = shared.core().engine.wake_at_ms();
        let large_ms = self.own.uploads.wake_at_ms(shared, now_ms);
        let large_ms = large_ms.into_iter().chain(self.own.readers.wake_at_ms(shared, now_ms));
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
                own.let_go();
            }
            return;
        }
        let mut core = shared.core();
        let mut given = core.complete(&shared.unflushed, token, outcome);
        let due = core.take_parted();
        given.append(&mut core.take_unwiped());
        let wiped = core.begin_telling();
        let dead = if base::mutant!("store_wiped_kept") { None } else { core.engine.take_wiped() };
        drop(core);
        if let Some(wiped) = wiped {
            own.tell_memory(shared, wiped);
        }
        // As large as the index was: not under the lock, and after those who wait for memory.
        drop(dead);
        own.uploads.is_stirred = true;
        given.into_iter().for_each(|envelope| own.send(shared, envelope));
        own.work_off_parted(shared, due);
        if shared.stalled() > 0 {
            own.try_stalled(shared);
        }
        own.let_go();
    }
}

impl<V: Send> Own<V> {
    fn poll<K: Keys, C: Command<Verdict = V>>(&mut self, shared: &Shared<K, C>) -> Option<Plan> {
        self.tend_uploads(shared);
        self.tend_readers(shared);
        self.spill(shared);
        if let Some(plan) = self.reads.next_plan() {
            return Some(plan);
        }
        for _ in 0..TRIES_MAX {
            let (plan, tries) = self.poll_log(shared);
            if plan.is_some() || !tries {
                return plan.or_else(|| self.reads.next_plan());
            }
            let now_ms = self.cache.now_ms();
            shared.core().note_tried(now_ms);
            self.try_stalled(shared);
            if let Some(plan) = self.reads.next_plan() {
                return Some(plan);
            }
        }
        let (plan, _) = self.poll_log(shared);
        plan.or_else(|| self.reads.next_plan())
    }

    /// The next action of the log, and whether keys that are stalled should be tried.
    fn poll_log<K: Keys, C: Command<Verdict = V>>(
        &mut self,
        shared: &Shared<K, C>,
    ) -> (Option<Plan>, bool) {
        loop {
            // Of moves each takes a turn of some records, and gives the lock back.
            let may_move = self.turns_left > 0 || base::mutant!("store_moves_unbounded");
            let polled = shared.core().poll(&shared.unflushed, self.cache.now_ms(), may_move);
            polled.given.into_iter().for_each(|envelope| self.send(shared, envelope));
            self.work_off_parted(shared, polled.due);
            self.turns_left = self.turns_left.saturating_sub(u32::from(polled.has_moved));
            if !polled.goes_on {
                return (polled.plan, polled.tries);
            }
        }
    }
}
