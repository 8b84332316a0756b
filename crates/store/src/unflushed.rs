//! What a hit in memory has to wait for, found without a lock.
//!
//! A put leaves its mark in a word that the key's hash names, before memory gets the record. Marks
//! only grow, and what is below [`Unflushed::durable_to`] is durable: so nothing is ever taken
//! away.
//!
//! Thread safety: marks are written under the engine's lock only, and read by all. Invariants:
//! 1. Whoever reads a record from memory afterwards finds a mark that is not below the record's, or
//!    the record is durable. The cache publishes with a release that comes after what is written
//!    here, and a read of it ends with an acquire.
//! 2. As long as a command of this thread waits for room, this thread's hits go behind it.

use base::sync::atomic::{AtomicU64, Ordering};
use log::engine::Mark;

use crate::limits::UNFLUSHED_SLOTS;

/// Something is not flushed that replies wait for.
const WAITS: u64 = 1;

/// One key whose commands wait for room in the log, or for a rewrite.
const STALLED: u64 = 2;

/// Marks of what is not flushed, by the hash of keys.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Unflushed {
    /// Why a hit may not be told at once: [`WAITS`], and [`STALLED`] for each such key.
    reasons: AtomicU64,
    durable_to: AtomicU64,
    /// Of each word: the number of the greatest mark, and 1.
    marks: Box<[AtomicU64]>,
}

impl Unflushed {
    pub(crate) fn new() -> Self {
        Self {
            reasons: AtomicU64::new(0),
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
        let is_set = self.reasons.load(Ordering::Relaxed) & WAITS != 0;
        match (is_set, waits) {
            (false, true) => self.reasons.fetch_or(WAITS, Ordering::Release),
            (true, false) if base::mutant!("store_stall_lost") => {
                self.reasons.swap(0, Ordering::Release)
            }
            (true, false) => self.reasons.fetch_and(!WAITS, Ordering::Release),
            _ => return,
        };
    }

    /// Commands of a key begin to wait for room.
    pub(crate) fn stall(&self) {
        self.reasons.fetch_add(STALLED, Ordering::Release);
    }

    /// They have been tried.
    pub(crate) fn tried(&self) {
        self.reasons.fetch_sub(STALLED, Ordering::Release);
    }

    /// Keys whose commands wait for room, those that are tried just now included.
    pub(crate) fn stalled(&self) -> usize {
        (self.reasons.load(Ordering::Acquire) / STALLED) as usize
    }

    /// Whether a hit would overtake commands of its own thread that wait for room. Before the look:
    /// if they are done by then, the look finds what they have made.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled() > 0 && !base::mutant!("store_overtakes_stalled")
    }

    /// Whether what memory has of a key may be told without the key's lock. After the look.
    #[inline]
    pub(crate) fn may_tell(&self, hash: u64) -> bool {
        self.reasons.load(Ordering::Acquire) == 0 || self.may_tell_anyhow(hash)
    }

    #[cold]
    fn may_tell_anyhow(&self, hash: u64) -> bool {
        !self.is_stalled() && self.wait_for(hash).is_none()
    }

    /// What a reply waits for that saw what memory has of a key. After the look.
    pub(crate) fn wait_for(&self, hash: u64) -> Option<Mark> {
        if self.reasons.load(Ordering::Acquire) & WAITS == 0 || base::mutant!("store_hit_unflushed")
        {
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

    #[test]
    fn while_anything_is_stalled_hits_take_the_keys_lock() {
        let unflushed = Unflushed::new();
        unflushed.stall();
        unflushed.stall();
        unflushed.tried();
        assert!(!unflushed.may_tell(7));
        assert_eq!(unflushed.wait_for(7), None);
        unflushed.tell(Mark::of(4), false);
        assert!(!unflushed.may_tell(7));
        unflushed.tried();
        assert!(unflushed.may_tell(7));
    }
}
