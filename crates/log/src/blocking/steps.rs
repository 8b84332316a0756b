//! What whoever has written something does for others: a step of a move, and a wake.

use base::clock::Stopwatch;

use super::drive::{Shared, State};
use crate::keys::Keys;

/// Whoever comes so soon behind the one before was held up, or does nothing else than write: he
/// does not move anything if that can be put off.
const CLOSE_NS: u64 = 1000;

/// What there was to be known when somebody came to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Something is moved, and the one before has just gone.
    is_close: bool,
    /// There was nothing that has to be flushed by a time.
    is_first: bool,
}

impl<K: Keys> State<K> {
    /// Somebody comes to write.
    pub(super) fn arrival(&self) -> Arrival {
        Arrival {
            is_close: self.engine.takes_steps() && self.since_written.elapsed_ns() < CLOSE_NS,
            is_first: self.may_wake() && self.engine.due_ms().is_none(),
        }
    }
}

impl<K: Keys> Shared<K> {
    /// Whoever has written something moves a little, and wakes a thread behind if there is
    /// something for it to do.
    pub(super) fn leave_work(&self, state: &mut State<K>, now_ms: u64, arrival: Arrival) {
        let before = state.engine.unreported();
        if !base::mutant!("log_nobody_steps") {
            state.engine.step_moves(now_ms, arrival.is_close);
        }
        self.wake_for_work(state, arrival.is_first);
        if state.engine.unreported() != before {
            // Whoever waits for it is told by a thread behind: by another one, if there was work,
            // as the first tells nobody before that is done.
            self.wake(state);
        }
        if state.engine.takes_steps() {
            state.since_written = Stopwatch::start();
        }
    }
}
