//! Waiting until the space of what is dead has come back.

use std::time::Duration;

use super::Log;
use crate::{
    engine::{Counts, Space},
    error::Error,
    keys::Keys,
};

/// Between two looks.
const LOOK_TIME: Duration = Duration::from_millis(20);

/// A log in which nothing has happened for so many looks, five seconds, has won what can be won
/// now: what is left waits for an iteration, a copy, or room on the disk.
const STILL_LOOKS_MAX: u32 = 250;

/// How far compaction is.
#[derive(Clone, Copy, Debug)]
pub struct Compacting {
    /// What the log takes now.
    pub space: Space,
    /// What was counted since it was opened.
    pub counts: Counts,
}

impl<K: Keys + Send + 'static> Log<K> {
    /// Waits until nothing more is to be compacted: the log takes as little as its settings ask
    /// for, or nothing more can be won. It goes on whether or not somebody waits, and writes of
    /// others may keep it going. `progress` is called now and then, and stops the wait when it says
    /// `false`.
    ///
    /// # Errors
    /// When the log has become read-only, or is being stopped.
    pub fn compact(
        &self,
        progress: &mut dyn FnMut(Compacting) -> bool,
    ) -> Result<Compacting, Error> {
        let (mut last, mut still_looks) = (None, 0);
        loop {
            let mut state = self.shared.lock();
            if state.is_stopping {
                return Err(Error::Stopping);
            }
            if state.engine.is_read_only() {
                return Err(Error::ReadOnly);
            }
            let (counts, space) = (state.engine.counts(), state.engine.space());
            let is_done = !state.engine.is_compacting();
            self.shared.wake(&mut state);
            drop(state);
            still_looks = if last == Some(counts) { still_looks + 1 } else { 0 };
            last = Some(counts);
            let compacting = Compacting { space, counts };
            let goes_on = progress(compacting);
            if is_done || !goes_on || still_looks >= STILL_LOOKS_MAX {
                return Ok(compacting);
            }
            std::thread::sleep(LOOK_TIME);
        }
    }
}
