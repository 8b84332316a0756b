//! Stopping in order: everything flushed, every segment sealed.

use super::{Engine, FAILURES_MAX, Mode};
use crate::{error::Error, keys::Keys, plan::Disk};

impl<K: Keys> Engine<K> {
    /// Flushes everything and seals the open segment. Nothing may be out.
    ///
    /// # Errors
    /// When not everything that was taken is durable.
    ///
    /// # Panics
    /// When actions are out.
    pub fn close(&mut self, disk: &mut dyn Disk, now_ms: u64) -> Result<(), Error> {
        assert!(self.jobs.is_empty(), "a log is stopped when nothing is out");
        self.settings.mode = Mode::Safe;
        // No segment is made any more.
        self.retry_at_ms = u64::MAX;
        loop {
            while let Some(plan) = self.poll(now_ms) {
                let outcome = disk.perform(plan.action);
                self.complete(plan.token, outcome);
            }
            let is_used = self.open.as_ref().is_some_and(|tail| !tail.listed.is_empty());
            if !is_used || !self.close_tail() {
                break;
            }
        }
        let is_lost = !self.stranded.is_empty() || self.failures > FAILURES_MAX;
        if is_lost { Err(Error::Unflushed) } else { Ok(()) }
    }
}
