//! What cells tell the one who waits for them while they are replayed, and what they are told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far the cells of a trace have come, and whether they are to go on. Shared by all threads.
pub(crate) struct Pulse<'a> {
    requests: AtomicU64,
    stop: &'a AtomicBool,
}

impl<'a> Pulse<'a> {
    /// Requests between two beats of a cell: well below a tenth of a second.
    pub(crate) const EVERY: usize = 1 << 16;

    /// Nothing was replayed so far; `stop` says when to end.
    pub(crate) fn new(stop: &'a AtomicBool) -> Self {
        Self { requests: AtomicU64::new(0), stop }
    }

    /// So many more requests were replayed. Returns whether to go on.
    pub(crate) fn beat(&self, requests: usize) -> bool {
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    /// Requests that all cells have replayed.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}
