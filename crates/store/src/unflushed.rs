//! What a hit in memory has to wait for, found without a lock.
//!
//! A put leaves its mark in a word that the key's hash names, before memory gets the record. Marks
//! only grow, and what is below [`Unflushed::durable_to`] is durable: so nothing is ever taken
//! away.
//!
//! Thread safety: all of it is written under the engine's lock only, and read by all. Invariant:
//! whoever reads a record from memory afterwards finds a mark that is not below the record's, or
//! the record is durable. The cache publishes with a release that comes after what is written here,
//! and a read of it ends with an acquire.

use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use log::engine::Mark;

use crate::limits::UNFLUSHED_SLOTS;

/// Marks of what is not flushed, by the hash of keys.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Unflushed {
    /// Something is not flushed that replies wait for.
    waits: AtomicBool,
    durable_to: AtomicU64,
    /// Of each word: the number of the greatest mark, and 1.
    marks: Box<[AtomicU64]>,
}

impl Unflushed {
    pub(crate) fn new() -> Self {
        Self {
            waits: AtomicBool::new(false),
            durable_to: AtomicU64::new(0),
            marks: (0..UNFLUSHED_SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn word(&self, hash: u64) -> &AtomicU64 {
        // Low bits name the key's lock.
        &self.marks[(hash >> 40) as usize % UNFLUSHED_SLOTS]
    }

    /// A record of a key was taken. Under the engine's lock, before memory has it.
    pub(crate) fn note(&self, hash: u64, mark: Mark, waits: bool) {
        if !base::mutant!("store_mark_unnoted") {
            self.word(hash).store(mark.number() + 1, Ordering::Relaxed);
        }
        if waits {
            self.set_waits(true);
        }
    }

    /// What is durable by now, and whether anything is not that replies wait for. Under the
    /// engine's lock.
    pub(crate) fn tell(&self, durable_to: Mark, waits: bool) {
        self.durable_to.store(durable_to.number(), Ordering::Release);
        self.set_waits(waits);
    }

    /// Written only when it changes: all hits read it.
    fn set_waits(&self, waits: bool) {
        if self.waits.load(Ordering::Relaxed) != waits {
            self.waits.store(waits, Ordering::Release);
        }
    }

    /// Whether what memory has of a key may be told without the key's lock. After the look.
    #[inline]
    pub(crate) fn may_tell(&self, hash: u64) -> bool {
        !self.waits.load(Ordering::Acquire) || self.wait_for(hash).is_none()
    }

    /// What a reply waits for that saw what memory has of a key. After the look.
    pub(crate) fn wait_for(&self, hash: u64) -> Option<Mark> {
        if !self.waits.load(Ordering::Acquire) || base::mutant!("store_hit_unflushed") {
            return None;
        }
        let word = self.word(hash).load(Ordering::Relaxed);
        (word > self.durable_to.load(Ordering::Acquire)).then(|| Mark::of(word - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_waits_for_the_greatest_mark_of_its_word_until_that_is_durable() {
        let unflushed = Unflushed::new();
        let (hash, other) = (7 << 40, 8 << 40);
        assert_eq!((unflushed.wait_for(hash), unflushed.may_tell(hash)), (None, true));
        unflushed.note(hash, Mark::of(0), true);
        unflushed.note(hash, Mark::of(3), true);
        assert_eq!(unflushed.wait_for(hash), Some(Mark::of(3)));
        assert_eq!((unflushed.may_tell(hash), unflushed.may_tell(other)), (false, true));
        assert_eq!(unflushed.wait_for(other), None);
        unflushed.tell(Mark::of(3), true);
        assert_eq!(unflushed.wait_for(hash), Some(Mark::of(3)), "it is not below");
        unflushed.tell(Mark::of(4), true);
        assert_eq!(unflushed.wait_for(hash), None);
        unflushed.note(other, Mark::of(4), false);
        unflushed.tell(Mark::of(4), false);
        assert_eq!(unflushed.wait_for(other), None, "nobody waits in async");
        unflushed.tell(Mark::of(4), true);
        assert_eq!(unflushed.wait_for(other), Some(Mark::of(4)));
    }
}
