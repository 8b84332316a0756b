//! Which buckets are full: a bit each, so that a search for room need not load a bucket to learn
//! that it has none.
//!
//! Thread safety: any thread may ask. Invariants:
//! 1. A bucket's bit changes only under its lock, and where it is set the bucket is full.
//! 2. While nobody has its lock, a full bucket's bit is set, but for a moment after its block was
//!    loaded from a checkpoint.

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
    made_count: AtomicUsize,
}

impl FullBuckets {
    /// None of so many buckets.
    pub(super) fn none_of(buckets: u64) -> Self {
        let chunks = buckets.div_ceil(WORD_BITS * CHUNK_WORDS as u64);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        let this = Self { chunks, made_count: AtomicUsize::new(0) };
        if cfg!(loom) {
            // It does not know what a cell promises about who wrote it.
            this.chunks.iter().for_each(|chunk| _ = this.made(chunk));
        }
        this
    }

    /// Whether the bucket is known to be full. Without its lock it may no longer be.
    #[inline]
    pub(super) fn has(&self, bucket: u64) -> bool {
        let (chunk, word, bit) = place(bucket);
        // Relaxed, as everywhere here. Whoever finds no bit looks at the bucket, with its lock
        // before he writes; whoever finds one goes elsewhere, and the next search asks again.
        self.chunks[chunk].get().is_some_and(|words| words[word].load(Ordering::Relaxed) & bit != 0)
    }

    /// Notes that the bucket is full. The caller has its lock.
    pub(super) fn add(&self, bucket: u64) {
        let (chunk, word, bit) = place(bucket);
        self.made(&self.chunks[chunk])[word].fetch_or(bit, Ordering::Relaxed);
    }

    /// A chunk, made if need be.
    fn made<'a>(&self, chunk: &'a OnceLock<Chunk>) -> &'a Chunk {
        if let Some(words) = chunk.get() {
            return words;
        }
        // Nobody may wait in a cell while another thread makes what is to be in it.
        let is_new = chunk.set((0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect()).is_ok();
        self.made_count.fetch_add(usize::from(is_new), Ordering::Relaxed);
        chunk.get().expect("invariant: a chunk stays where it is")
    }

    /// Notes that the bucket is not full. The caller has its lock.
    pub(super) fn remove(&self, bucket: u64) {
        let (chunk, word, bit) = place(bucket);
        let word = self.chunks[chunk].get().map(|words| &words[word]);
        if let Some(word) = word.filter(|word| word.load(Ordering::Relaxed) & bit != 0) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let made = self.made_count.load(Ordering::Relaxed) * CHUNK_WORDS * size_of::<AtomicU64>();
        (std::mem::size_of_val(&*self.chunks) + made) as u64
    }
}

/// Chunk, word in it and bit of a bucket.
#[inline(always)]
fn place(bucket: u64) -> (usize, usize, u64) {
    let (word, bit) = ((bucket / WORD_BITS) as usize, 1 << (bucket % WORD_BITS));
    (word / CHUNK_WORDS, word % CHUNK_WORDS, bit)
}
