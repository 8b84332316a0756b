//! A line: eight words, what the processor loads at once, with a version that is also a lock.
//!
//! A seqlock over relaxed atomics (Boehm 2012) whose lock and whose version are bits of their own,
//! so that a lock that is held for long, while a record is put together, does not hold up readers.
//! The layout is that of `docs/formats/index.md`.
//!
//! Thread safety: words change only under the line's lock, and only inside [`Locked::change`].

use base::sync::{
    Backoff,
    atomic::{AtomicU64, Ordering, fence},
};

/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;

/// What is saved of a line.
pub(crate) type Image = [[u8; 8]; LINE_WORDS];

/// Bits of word 0 that are the version; the others are the owner's.
pub(crate) const VERSION_BITS: u32 = 32;
const VERSION: u64 = (1 << VERSION_BITS) - 1;

const LOCKED: u64 = 1;
const CHANGING: u64 = 1 << 1;
const ONE_CHANGE: u64 = 1 << 2;

/// Eight words.
#[cfg_attr(any(loom, shuttle, miri), repr(transparent))]
#[cfg_attr(not(any(loom, shuttle, miri)), repr(C, align(64)))]
#[derive(Debug)]
pub(crate) struct Line([AtomicU64; LINE_WORDS]);

/// A line's version as a reader saw it before it read, without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

/// A locked line; unlocks when dropped.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    line: &'a Line,
}

impl Line {
    /// An empty line.
    pub(crate) fn new() -> Self {
        Self::of([0; LINE_WORDS])
    }

    /// A line that was saved.
    pub(crate) fn saved(&[a, b, c, d, e, f, g, h]: &Image) -> Self {
        let word = u64::from_le_bytes;
        Self::of([word(a), word(b), word(c), word(d), word(e), word(f), word(g), word(h)])
    }

    /// Words are named one by one: `map` and `from_fn` are slow where little is optimised, as in
    /// tests, which load and make blocks all the time.
    fn of([a, b, c, d, e, f, g, h]: [u64; LINE_WORDS]) -> Self {
        let word = AtomicU64::new;
        Self([word(a), word(b), word(c), word(d), word(e), word(f), word(g), word(h)])
    }

    /// A word. What belongs together is for [`Line::unchanged`] to say.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// A word of a line that has no version because each word stands for itself.
    #[inline(always)]
    pub(crate) fn lone_word(&self, at: usize) -> &AtomicU64 {
        &self.0[at]
    }

    /// The version to read under.
    #[inline(always)]
    pub(crate) fn version(&self) -> Version {
        Version(self.0[0].load(Ordering::Acquire) & VERSION & !LOCKED)
    }

    /// Whether everything read since `version` was taken belongs together.
    #[inline(always)]
    pub(crate) fn unchanged(&self, version: Version) -> bool {
        if base::mutant!("index_no_version_check") {
            return true;
        }
        if !base::mutant!("index_no_fence") {
            fence(Ordering::Acquire);
        }
        let now = self.0[0].load(Ordering::Relaxed) & VERSION & !LOCKED;
        now == version.0 && now & CHANGING == 0
    }

    /// Locks, waiting for the holder. Readers are not waited for and do not wait.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        let mut backoff = Backoff::new();
        loop {
            let head = self.0[0].load(Ordering::Relaxed);
            let locked = head | LOCKED;
            if head != locked
                && self.0[0]
                    .compare_exchange_weak(head, locked, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Locked { line: self };
            }
            backoff.wait();
        }
    }
}

impl<'a> Locked<'a> {
    #[inline]
    pub(crate) fn line(&self) -> &'a Line {
        self.line
    }

    /// Changes words: what `change` stores, readers see all of or nothing of. It is to be short.
    #[inline]
    pub(crate) fn change(&self, change: impl FnOnce(Changing<'a>)) {
        let head = &self.line.0[0];
        head.store(head.load(Ordering::Relaxed) | CHANGING, Ordering::Relaxed);
        // That must be seen no later than any of the changes.
        if !base::mutant!("index_no_fence") {
            fence(Ordering::Release);
        }
        change(Changing(self.line));
        let now = head.load(Ordering::Relaxed);
        let version = (now & VERSION & !CHANGING).wrapping_add(ONE_CHANGE) & VERSION;
        let order =
            if base::mutant!("index_no_fence") { Ordering::Relaxed } else { Ordering::Release };
        head.store(now & !VERSION | version, order);
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let head = &self.line.0[0];
        head.store(head.load(Ordering::Relaxed) & !LOCKED, Ordering::Release);
    }
}

/// A line whose readers are told to read again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changing<'a>(&'a Line);

impl<'a> Changing<'a> {
    /// The line as it is so far.
    #[inline]
    pub(crate) fn line(self) -> &'a Line {
        self.0
    }

    /// Another line that has no version of its own: it changes under this one's.
    #[inline]
    pub(crate) fn on(self, line: &'a Line) -> Self {
        Self(line)
    }

    /// Replaces a word; of word 0 only what is not the version.
    #[inline]
    pub(crate) fn set(self, at: usize, word: u64) {
        let slot = &self.0.0[at];
        let kept = if at == 0 { slot.load(Ordering::Relaxed) & VERSION } else { 0 };
        let word = if at == 0 { word & !VERSION } else { word };
        slot.store(word | kept, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_alone_does_not_disturb_a_reader() {
        let line = Line::new();
        let version = line.version();
        let locked = line.lock();
        assert!(line.unchanged(version), "locked");
        assert_eq!(line.version(), version);
        locked.change(|line| line.set(3, 7));
        assert!(!line.unchanged(version), "changed");
        let later = line.version();
        assert!(line.unchanged(later), "still locked, not changing");
        drop(locked);
        assert!(line.unchanged(later));
        assert_eq!(line.word(3), 7);
    }

    #[test]
    fn a_line_that_is_changing_is_not_believed() {
        let line = Line::new();
        line.lock().change(|changing| {
            let version = line.version();
            changing.set(1, 1);
            assert!(!line.unchanged(version));
        });
    }

    #[test]
    fn the_version_leaves_the_rest_of_its_word_alone_even_when_it_wraps() {
        let line =
            Line::of([0xabcd_ef01 << 32 | VERSION & !LOCKED & !CHANGING, 0, 0, 0, 0, 0, 0, 0]);
        line.lock().change(|changing| changing.set(1, 1));
        assert_eq!(line.word(0), 0xabcd_ef01 << 32, "wrapped to zero, unlocked");
        line.lock().change(|changing| changing.set(0, u64::MAX));
        assert_eq!(line.word(0), 0xffff_ffff_0000_0004);
    }
}
