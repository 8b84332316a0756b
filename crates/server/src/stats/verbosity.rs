//! How much is logged, which clients may change by the command `verbosity`.
//!
//! The program owns the log, not this library: it says what a change calls.

use std::sync::OnceLock;

use base::sync::atomic::{AtomicU64, Ordering};

use super::ServerStats;

/// The level now, and who is told of another.
#[derive(Debug, Default)]
pub(super) struct Verbosity {
    level: AtomicU64,
    heard: OnceLock<fn(u64)>,
}

impl ServerStats {
    /// The level at the start, and what is called with each other level that a client sets. To be
    /// called once.
    pub fn begin_verbosity(&self, level: u64, heard: fn(u64)) {
        self.verbosity.level.store(level, Ordering::Relaxed);
        // A second one would be a mistake and changes nothing.
        let _ = self.verbosity.heard.set(heard);
    }

    /// The level: 0 is problems, 1 changes of state, 2 what developers look for.
    #[must_use]
    pub fn verbosity(&self) -> u64 {
        self.verbosity.level.load(Ordering::Relaxed)
    }

    /// Takes over the level of a `verbosity` command.
    pub fn set_verbosity(&self, level: u64) {
        let before = self.verbosity.level.swap(level, Ordering::Relaxed);
        if before != level
            && let Some(tell) = self.verbosity.heard.get()
        {
            tell(level);
        }
    }
}
