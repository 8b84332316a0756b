//! Which buckets are full: a bit each, so that a search for room loads only buckets that something
//! is moved from or to.
//!
//! Thread safety: any thread may ask. Invariant: a bucket's bit changes only under its lock, and
//! where it is set the bucket is full. Where it is not, the bucket may be full as well: of what was
//! saved nothing is known before it is looked at.

use base::sync::{
    OnceLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Words that are made at once: 4 KiB, for as many buckets as there are at least.
#[cfg(not(any(loom, shuttle, miri)))]
const CHUNK_WORDS: usize = 512;
/// A checker pays for every word.
#[cfg(any(loom, shuttle, miri))]
const CHUNK_WORDS: usize = 1;

const WORD_BITS: u64 = u64::BITS as u64;

type Chunk = Box<[AtomicU64]>;

/// The buckets that are known to be full.
#[derive(Debug)]
pub(super) struct FullBuckets {
    /// Made when the first bucket of one is full.
    chunks: Box<[OnceLock<Chunk>]>,
    made: AtomicUsize,
}

impl FullBuckets {
    /// None of so many buckets.
    pub(super) fn none_of(buckets: u64) -> Self {
        let chunks = buckets.div_ceil(WORD_BITS * CHUNK_WORDS as u64);
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect(), made: AtomicUsize::new(0) }
    }

    /// Whether the bucket is known to be full. Without its lock it may no longer be.
    #[inline]
    pub(super) fn has(&self, bucket: u64) -> bool {
        let (chunk, word, bit) = place(bucket);
        // Relaxed, as everywhere here: whoever acts on it looks again under the bucket's lock.
        self.chunks[chunk].get().is_some_and(|words| words[word].load(Ordering::Relaxed) & bit != 0)
    }

    /// Notes that the bucket is full. The caller has its lock.
    pub(super) fn add(&self, bucket: u64) {
        let (chunk, word, bit) = place(bucket);
        let words = self.chunks[chunk].get_or_init(|| {
            self.made.fetch_add(1, Ordering::Relaxed);
            (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect()
        });
        words[word].fetch_or(bit, Ordering::Relaxed);
    }

    /// Notes that the bucket is not full. The caller has its lock.
    pub(super) fn remove(&self, bucket: u64) {
        let (chunk, word, bit) = place(bucket);
        if self.has(bucket)
            && let Some(words) = self.chunks[chunk].get()
        {
            words[word].fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let made = self.made.load(Ordering::Relaxed) * CHUNK_WORDS * size_of::<AtomicU64>();
        (std::mem::size_of_val(&*self.chunks) + made) as u64
    }
}

/// Chunk, word in it and bit of a bucket.
#[inline(always)]
fn place(bucket: u64) -> (usize, usize, u64) {
    let (word, bit) = ((bucket / WORD_BITS) as usize, 1 << (bucket % WORD_BITS));
    (word / CHUNK_WORDS, word % CHUNK_WORDS, bit)
}
