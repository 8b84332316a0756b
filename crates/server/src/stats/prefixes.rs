//! Counts by key prefix, for `stats detail`.
//!
//! Off until asked for; then every text command on a key with a delimiter takes one lock. What
//! memcached calls a prefix is what stands before the first delimiter.

use std::{collections::BTreeMap, ops::Bound};

use base::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};
use memchr::memchr;

/// Most prefixes that are told apart; later ones are not counted. With prefixes of at most 250
/// bytes the table stays under 8192 * (250 + 100) bytes = 3 MiB, which no budget has to know.
pub const PREFIXES_MAX: usize = 8192;

/// Ends a prefix, unless the configuration says otherwise.
const DELIMITER: u8 = b':';

/// What was done to the keys of one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCounts {
    /// Retrievals.
    pub gets: u64,
    /// Retrievals that found a record.
    pub hits: u64,
    /// Stores.
    pub sets: u64,
    /// Deletions.
    pub deletes: u64,
}

/// The prefixes and their counts.
#[derive(Debug)]
pub struct PrefixTable {
    delimiter: u8,
    enabled: AtomicBool,
    counts: Mutex<BTreeMap<Box<[u8]>, PrefixCounts>>,
}

impl PrefixTable {
    /// Nothing counted yet. With a delimiter of its own it counts from the start.
    #[must_use]
    pub fn new(delimiter: Option<u8>) -> Self {
        Self {
            delimiter: delimiter.unwrap_or(DELIMITER),
            enabled: AtomicBool::new(delimiter.is_some()),
            counts: Mutex::default(),
        }
    }

    /// What ends a prefix.
    #[must_use]
    pub fn delimiter(&self) -> char {
        self.delimiter.into()
    }

    /// Starts or stops counting. What was counted stays.
    pub fn enable(&self, on: bool) {
        self.enabled.store(on, Ordering::Relaxed);
    }

    /// Whether it counts.
    #[must_use]
    #[inline]
    pub fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Counts something done to `key`, if counting is on and the key has a prefix.
    #[inline]
    pub fn count(&self, key: &[u8], count: impl FnOnce(&mut PrefixCounts)) {
        if self.enabled() {
            self.count_slowly(key, count);
        }
    }

    /// Forgets all counts.
    pub fn clear(&self) {
        lock(&self.counts).clear();
    }

    /// The counts of the first `count_max` prefixes, in the order of their bytes, that come behind
    /// `after`; none stands for the start.
    #[must_use]
    pub fn counts_after(
        &self,
        after: Option<&[u8]>,
        count_max: usize,
    ) -> Vec<(Box<[u8]>, PrefixCounts)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let table = lock(&self.counts);
        let counts = table.range::<[u8], _>((start, Bound::Unbounded)).take(count_max);
        counts.map(|(prefix, counts)| (prefix.clone(), *counts)).collect()
    }

    #[cold]
    fn count_slowly(&self, key: &[u8], count: impl FnOnce(&mut PrefixCounts)) {
        let Some(end) = memchr(self.delimiter, key) else { return };
        let prefix = &key[..end];
        let mut table = lock(&self.counts);
        if let Some(counts) = table.get_mut(prefix) {
            count(counts);
        } else if table.len() < PREFIXES_MAX {
            count(table.entry(prefix.into()).or_default());
        }
    }
}
