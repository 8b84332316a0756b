//! Keeping records over a restart: written to a file when a server ends, read back when it starts.
//!
//! What is written leaves memory block by block, and what is read leaves the file, so that a file
//! in memory (tmpfs) and the cache together never need much more than the cache alone. The file is
//! complete or it is none: its header is written last, and every part has a checksum.
//! `docs/formats/restart.md` describes it.
//!
//! Thread safety: for the one thread that starts and ends a server, while no other runs.
//!
//! Idea: memcached's restartable cache (`-e`), which keeps the mapped memory itself; here it is a
//! format of its own, so another memory size, policy or version can read it.

mod claim;
mod format;
mod load;
mod reader;
mod save;

pub(crate) use claim::Claim;
pub use format::{Flaw, HEADER_BYTES};
pub(crate) use load::{Loading, load};
pub use reader::{Reader, Record};
pub(crate) use save::save;

use base::clock::Stopwatch;

/// Nanoseconds between two words about how far it is: a second.
const PROGRESS_INTERVAL_NS: u64 = 1_000_000_000;

/// Says how far it is, when it takes long.
#[derive(Debug)]
struct Progress {
    what: &'static str,
    said: Stopwatch,
}

impl Progress {
    fn new(what: &'static str) -> Self {
        Self { what, said: Stopwatch::start() }
    }

    fn show(&mut self, records: u64) {
        if self.said.elapsed_ns() >= PROGRESS_INTERVAL_NS {
            self.said = Stopwatch::start();
            tracing::info!(records, "{}", self.what);
        }
    }
}

#[cfg(test)]
mod tests;
