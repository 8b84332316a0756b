//! What memcached's crawler is here: the rounds in which the housekeeping thread takes back what
//! has expired.

use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ServerStats;

/// Its state.
#[derive(Debug)]
pub(super) struct Crawler {
    enabled: AtomicBool,
    runs: AtomicBool,
    starts: AtomicU64,
}

impl Default for Crawler {
    fn default() -> Self {
        let (enabled, runs) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { enabled, runs, starts: AtomicU64::new(0) }
    }
}

impl ServerStats {
    /// Whether `lru_crawler` may be used.
    #[must_use]
    pub fn crawler_enabled(&self) -> bool {
        self.crawler.enabled.load(Ordering::Relaxed)
    }

    /// Lets `lru_crawler` be used or not. Returns whether that is a change.
    pub fn enable_crawler(&self, on: bool) -> bool {
        self.crawler.enabled.swap(on, Ordering::Relaxed) != on
    }

    /// Notes a part of a round over the memory, and whether there is more of the round to come. For
    /// the thread that makes the rounds.
    pub fn note_crawl(&self, more: bool) {
        let went_on = self.crawler.runs.swap(more, Ordering::Relaxed);
        self.crawler.starts.fetch_add(u64::from(!went_on), Ordering::Relaxed);
    }

    /// Whether a round is under way, and how many have begun.
    #[must_use]
    pub fn crawls(&self) -> (bool, u64) {
        let Crawler { runs, starts, .. } = &self.crawler;
        (runs.load(Ordering::Relaxed), starts.load(Ordering::Relaxed))
    }
}
