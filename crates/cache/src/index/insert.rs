//! Adding and removing entries under the locks of a key's two buckets.

use base::sync::atomic::Ordering;

use super::{Bucket, Entry, Found, Index, Locked};
use crate::arena::Arena;

/// Entries in the first bucket before a new one goes to the emptier of the two. Below it a lookup
/// needs one line; from it on the second keeps both from filling up.
const FIRST_FILL: usize = 6;

/// The two candidate buckets of a key, locked.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    first: Locked<'a>,
    /// `None` when both candidates are the same bucket.
    second: Option<Locked<'a>>,
    pub(super) numbers: (u64, u64),
    pub(super) buckets: u64,
}

/// No line can take another entry and there is no memory for an overflow line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

impl<'a> Pair<'a> {
    pub(crate) fn first(&self) -> Bucket<'a> {
        self.first.bucket()
    }

    pub(crate) fn second(&self) -> Bucket<'a> {
        self.second.as_ref().unwrap_or(&self.first).bucket()
    }
}

impl Index {
    /// Locks the candidates of `hash`, in address order.
    pub(crate) fn lock<'a>(&self, arena: &'a Arena, hash: u64) -> Pair<'a> {
        loop {
            let candidates = self.candidates(hash);
            let numbers = (candidates.first(), candidates.second());
            let (low, high) = (numbers.0.min(numbers.1), numbers.0.max(numbers.1));
            let low_lock = self.bucket(arena, low).lock();
            let high_lock = (low != high).then(|| self.bucket(arena, high).lock());
            // A bucket may have been split while this thread waited for it.
            let now = if self.is_current(candidates) { candidates } else { self.candidates(hash) };
            if now == candidates || (now.first(), now.second()) == numbers {
                let (first, second) = match high_lock {
                    Some(high_lock) if low != numbers.0 => (high_lock, Some(low_lock)),
                    second => (low_lock, second),
                };
                return Pair { first, second, numbers, buckets: now.extent.buckets };
            }
        }
    }

    /// Adds an entry that none of the key's lines holds yet.
    #[inline]
    pub(crate) fn insert<'a>(
        &self,
        arena: &'a Arena,
        pair: &Pair<'a>,
        entry: Entry,
    ) -> Result<(), Full> {
        let (first, second) = (pair.first(), pair.second());
        let (in_first, in_second) = (first.len(), second.len());
        let target = if in_first < FIRST_FILL || in_first <= in_second { first } else { second };
        if let Some(place) = target.position(Entry::is_empty) {
            target.word(place).store(entry.0, Ordering::Relaxed);
        } else if let Some((bucket, place)) = self.displace(arena, pair) {
            bucket.word(place).store(entry.0, Ordering::Relaxed);
        } else {
            let (line, place) = self.overflow_room(arena, &pair.first)?;
            line.word(place).store(entry.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes an entry out, if it still leads to the record that was found. The caller holds the
    /// lock of `found.bucket`. Only who gets `true` may free the record.
    pub(crate) fn remove<'a>(&self, arena: &'a Arena, found: &Found<'a>) -> bool {
        // Under the lock only counters change, so a store is as good as a compare-and-swap: a
        // reader that counts a hit meanwhile either did so before, or fails.
        let still = self.confirm(arena, found);
        if let Some(found) = still {
            found.line.word(found.place).store(0, Ordering::Relaxed);
        }
        still.is_some()
    }
}
