//! A line of the index: a version that is also the writers' lock, and seven entries.
//!
//! Readers take the version, read, and take it again ([`Bucket::unchanged`]); a writer makes it
//! odd, changes entries or the records they lead to, and makes it even. MemC3 (Fan, Andersen,
//! Kaminsky 2013), section 3.2, with one counter per bucket. The fences are those of a seqlock
//! over relaxed atomics (Boehm 2012).

use base::sync::{
    Backoff,
    atomic::{AtomicU64, Ordering, fence},
};

use super::entry::{Entry, Tag};
use crate::{geometry::LINE_WORDS, line::Line};

/// Entries of a bucket or an overflow line.
pub(crate) const LINE_ENTRIES: usize = LINE_WORDS - 1;

const VERSION_BITS: u32 = 40;
const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;

/// In a set of places of two lines, those of the second start with this bit.
pub(crate) const OTHER_SHIFT: u32 = LINE_WORDS as u32;

/// A bucket's head as a reader saw it before it read: odd while a writer was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// No writer was at work.
    #[inline]
    pub(crate) fn is_even(self) -> bool {
        self.0 & 1 == 0
    }
}

/// Eight words of the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket<'a> {
    words: &'a Line,
}

/// A locked bucket; unlocks when dropped.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    bucket: Bucket<'a>,
}

impl<'a> Bucket<'a> {
    #[inline]
    pub(crate) fn new(words: &'a Line) -> Self {
        Self { words }
    }

    /// Whether both are the same line.
    #[inline]
    pub(crate) fn is(self, other: Self) -> bool {
        std::ptr::eq(self.words, other.words)
    }

    fn head(self) -> &'a AtomicU64 {
        &self.words[0]
    }

    /// The version to read under.
    #[inline]
    pub(crate) fn version(self) -> Version {
        Version(self.head().load(Ordering::Acquire))
    }

    /// Whether everything read since `version` was taken belongs together. The first overflow line
    /// may not have changed either; it does so only under the lock.
    #[inline]
    pub(crate) fn unchanged(self, version: Version) -> bool {
        if base::mutant!("no_version_check") {
            return true;
        }
        if !base::mutant!("no_fence") {
            fence(Ordering::Acquire);
        }
        self.head().load(Ordering::Relaxed) == version.0 && version.is_even()
    }

    /// Whether nothing has changed since `version` was taken. Who locked a bucket before asking
    /// sees, or is seen by, everybody who locks this one before asking for that.
    #[inline]
    pub(crate) fn is_still(self, version: Version) -> bool {
        // What was read under the version was read before this.
        fence(Ordering::Acquire);
        self.head().load(Ordering::SeqCst) == version.0 && version.is_even()
    }

    /// Line number of the first overflow line, 0 for none.
    #[inline]
    pub(crate) fn overflow(self) -> u64 {
        self.head().load(Ordering::Relaxed) >> VERSION_BITS
    }

    /// Makes an overflow line lead to another.
    pub(crate) fn chain_to(self, line: u64) {
        self.head().store(line << VERSION_BITS, Ordering::Relaxed);
    }

    /// The word of an entry, 0 to [`LINE_ENTRIES`] - 1.
    #[inline]
    pub(crate) fn word(self, place: usize) -> &'a AtomicU64 {
        debug_assert!(place < LINE_ENTRIES, "an entry's place");
        &self.words[(1 + place) % LINE_WORDS]
    }

    /// An entry.
    #[inline]
    pub(crate) fn entry(self, place: usize) -> Entry {
        Entry(self.word(place).load(Ordering::Relaxed))
    }

    /// The places whose entries have this tag, a bit each. Without branches, so that where an entry
    /// is costs no misprediction.
    #[inline(always)]
    pub(crate) fn tagged(self, tag: Tag) -> u32 {
        self.words.topped(tag.number() as u32)
    }

    /// The same for two lines, those of the other starting with bit [`OTHER_SHIFT`].
    #[inline(always)]
    pub(crate) fn both_tagged(self, other: Self, tag: Tag) -> u32 {
        self.words.both_topped(other.words, tag.number() as u32)
    }

    /// The places without an entry.
    #[inline(always)]
    pub(crate) fn empty(self) -> u32 {
        self.tagged(Tag::NONE)
    }

    /// A place without an entry.
    #[inline]
    pub(crate) fn room(self) -> Option<usize> {
        let empty = self.empty();
        (empty != 0).then(|| empty.trailing_zeros() as usize)
    }

    /// Locks if nobody holds the lock.
    #[inline]
    pub(crate) fn try_lock(self) -> Option<Locked<'a>> {
        self.lock_at(Version(self.head().load(Ordering::Relaxed)))
    }

    /// Locks if nothing has changed since `version` was taken.
    #[inline]
    pub(crate) fn lock_at(self, version: Version) -> Option<Locked<'a>> {
        if !version.is_even() {
            return None;
        }
        let Version(head) = version;
        // Sequentially consistent for the sake of `is_still`; on x86-64 it costs nothing.
        self.head().compare_exchange(head, head + 1, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        // The odd version must be seen no later than any change made under it.
        if !base::mutant!("no_fence") {
            fence(Ordering::Release);
        }
        Some(Locked { bucket: self })
    }

    /// Locks, waiting for the holder.
    #[inline]
    pub(crate) fn lock(self) -> Locked<'a> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(locked) = self.try_lock() {
                return locked;
            }
            backoff.wait();
        }
    }
}

impl<'a> Locked<'a> {
    #[inline]
    pub(crate) fn bucket(&self) -> Bucket<'a> {
        self.bucket
    }

    /// Leads to another first overflow line.
    pub(crate) fn set_overflow(&self, line: u64) {
        let head = self.bucket.head();
        let version = head.load(Ordering::Relaxed) & VERSION_MASK;
        head.store(version | line << VERSION_BITS, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let head = self.bucket.head();
        let now = head.load(Ordering::Relaxed);
        let version = (now & VERSION_MASK).wrapping_add(1) & VERSION_MASK;
        let order = if base::mutant!("no_fence") { Ordering::Relaxed } else { Ordering::Release };
        head.store(now & !VERSION_MASK | version, order);
    }
}
