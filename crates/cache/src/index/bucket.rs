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

/// Words of a bucket or an overflow line.
pub(crate) const LINE_WORDS: usize = 8;
/// Entries of a bucket or an overflow line.
pub(crate) const LINE_ENTRIES: usize = LINE_WORDS - 1;

const VERSION_BITS: u32 = 40;
const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;

/// A bucket's version, even and thus not locked, as a reader saw it before it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

/// Eight words of the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket<'a> {
    words: &'a [AtomicU64; LINE_WORDS],
}

/// A locked bucket; unlocks when dropped.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    bucket: Bucket<'a>,
}

impl<'a> Bucket<'a> {
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self { words: words.try_into().expect("invariant: a line has eight words") }
    }

    /// Whether both are the same line.
    #[inline]
    pub(crate) fn is(self, other: Self) -> bool {
        std::ptr::eq(self.words, other.words)
    }

    fn head(self) -> &'a AtomicU64 {
        &self.words[0]
    }

    /// The version to read under; `None` while a writer is at work.
    #[inline]
    pub(crate) fn version(self) -> Option<Version> {
        let head = self.head().load(Ordering::Acquire);
        (head & 1 == 0).then_some(Version(head & VERSION_MASK))
    }

    /// Whether everything read since `version` was taken belongs together.
    #[inline]
    pub(crate) fn unchanged(self, version: Version) -> bool {
        if cfg!(mutant = "no_version_check") {
            return true;
        }
        if !cfg!(mutant = "no_fence") {
            fence(Ordering::Acquire);
        }
        self.head().load(Ordering::Relaxed) & VERSION_MASK == version.0
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
        &self.words[1 + place]
    }

    /// An entry.
    #[inline]
    pub(crate) fn entry(self, place: usize) -> Entry {
        Entry(self.word(place).load(Ordering::Relaxed))
    }

    /// The places whose entries satisfy `wanted`.
    #[inline]
    pub(crate) fn position(self, wanted: impl Fn(Entry) -> bool) -> Option<usize> {
        (0..LINE_ENTRIES).find(|&place| wanted(self.entry(place)))
    }

    /// The places whose entries have this tag, a bit each. Without branches, so that where the
    /// entry is costs no misprediction.
    #[inline]
    pub(crate) fn tagged(self, tag: Tag) -> u32 {
        let mut places = 0;
        for place in 0..LINE_ENTRIES {
            places |= u32::from(self.entry(place).matches(tag)) << place;
        }
        places
    }

    /// How many entries are taken.
    pub(crate) fn len(self) -> usize {
        (0..LINE_ENTRIES).filter(|&place| !self.entry(place).is_empty()).count()
    }

    /// Locks if nobody holds the lock.
    #[inline]
    pub(crate) fn try_lock(self) -> Option<Locked<'a>> {
        let head = self.head().load(Ordering::Relaxed);
        if head & 1 != 0 {
            return None;
        }
        self.head().compare_exchange(head, head + 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // The odd version must be seen no later than any change made under it.
        if !cfg!(mutant = "no_fence") {
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
        let order = if cfg!(mutant = "no_fence") { Ordering::Relaxed } else { Ordering::Release };
        head.store(now & !VERSION_MASK | version, order);
    }
}
