//! Threads behind a log: they do what nobody waits for, and in `async` everything.

use std::time::Duration;

use super::{
    Mode,
    drive::{Guard, SLEEP_MAX, Shared},
    ignore_poison,
};
use crate::{engine::Encoding, keys::Keys};

/// Milliseconds until a thread looks again at what is late: a flush that should have begun, while
/// the one before is out. Whoever reports that goes on, so this is for nobody but a thread that
/// has gone away instead.
const LATE_MS: u64 = 10;

impl<K: Keys> Shared<K> {
    /// A thread behind, until the log is stopped. With `moves_first`, moves come before records
    /// when they fall behind.
    pub(super) fn run(&self, moves_first: bool) {
        let mut state = self.lock_to_report();
        let mut unreported = state.engine.unreported();
        while !state.is_stopping {
            let now_ms = self.clock.now_ms();
            state.engine.tell_wall_ms(self.clock.wall_ms());
            let is_awaited = state.waiters.wait_for_reports();
            state.engine.tell_waiting(is_awaited);
            let is_due = state.engine.due_ms().is_some_and(|at| at <= now_ms);
            if let Some(encoding) = state.engine.take_footer() {
                state = self.encode(state, encoding);
                continue;
            }
            let drives = state.engine.mode() == Mode::Async || is_due;
            // One at a time moves records.
            let is_beside = state.in_turns > 0 && !base::mutant!("log_all_in_turns");
            let is_urgent = moves_first && !is_beside && state.engine.is_move_urgent();
            let before = state.engine.unreported();
            let urgent = is_urgent.then(|| state.engine.poll_upkeep(now_ms)).flatten();
            // There is more to be done in turns: it comes first.
            let goes_on = state.engine.unreported() != before;
            let records = match urgent {
                None if drives && !goes_on => state.engine.poll_records(now_ms),
                _ => None,
            };
            let is_upkeep = records.is_none();
            let plan = match urgent.or(records) {
                None if is_beside => state.engine.poll_beside(now_ms),
                None if !goes_on => state.engine.poll_upkeep(now_ms),
                plan => plan,
            };
            state = match plan {
                Some(plan) => {
                    let wakes = state.claims_next();
                    drop(state);
                    // With the lock, whoever puts would wait for that, too.
                    if wakes {
                        self.work.notify_one();
                    }
                    let state = self.perform(plan, Self::lock_to_report);
                    let state = self.call(state, !is_upkeep);
                    // What was reported took a while, and so may what is to be done next.
                    if is_upkeep { self.let_in(state) } else { state }
                }
                None if is_beside => {
                    // What others have changed they tell; but a flush may be due by this look.
                    unreported = state.engine.unreported();
                    if unreported == before { self.sleep(state, now_ms) } else { state }
                }
                // There is more of what takes no action: others come in between.
                None if state.engine.unreported() != unreported => {
                    // It may begin a move, which is told with the rest.
                    let before = std::mem::replace(&mut unreported, state.engine.unreported());
                    // Nobody reports that there is nothing more to be moved.
                    let tells = before.ends != unreported.ends && !base::mutant!("log_ends_untold");
                    state.in_turns += 1;
                    drop(if tells { self.call(state, true) } else { state });
                    state = self.give_way();
                    state.in_turns -= 1;
                    state
                }
                None => self.sleep(state, now_ms),
            };
        }
    }

    /// Encodes something of a footer, without the lock, and writes it.
    fn encode<'a>(&'a self, mut state: Guard<'a, K>, mut encoding: Encoding) -> Guard<'a, K> {
        let wakes = state.claims_next();
        drop(state);
        if wakes {
            self.work.notify_one();
        }
        encoding.encode();
        let mut state = self.lock_to_report();
        let Some(plan) = state.engine.give_back(encoding) else { return state };
        drop(state);
        let state = self.perform(plan, Self::lock_to_report);
        let state = self.call(state, false);
        self.let_in(state)
    }

    fn sleep<'a>(&'a self, mut state: Guard<'a, K>, now_ms: u64) -> Guard<'a, K> {
        let until = state.engine.wake_at_ms().map(|at| match at.saturating_sub(now_ms) {
            0 => LATE_MS,
            left_ms => left_ms,
        });
        let wait = until.map_or(SLEEP_MAX, Duration::from_millis).min(SLEEP_MAX);
        state.idle += 1;
        let (mut state, _) = ignore_poison(self.work.wait_timeout(state, wait));
        state.idle -= 1;
        // Who was called may not be who comes; one call too many finds nothing to do.
        state.called = state.called.saturating_sub(1);
        state
    }
}
