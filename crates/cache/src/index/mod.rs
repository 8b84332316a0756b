//! The hash index: entries in buckets of one line, two candidate buckets a key, growth bucket by
//! bucket.
//!
//! A key's hash gives a tag of 24 bits and a coordinate of 40. The first candidate bucket belongs
//! to the coordinate, the second to the coordinate XOR a number that follows from the tag alone
//! (partial-key cuckoo hashing, MemC3 section 3.1), so that an entry can be displaced without
//! looking at its record. A coordinate becomes a bucket by linear hashing (Litwin 1980): the
//! number of buckets grows by one at a time, and only one bucket is split for it.
//!
//! Buckets lie in blocks of the arena; a directory leads to them. Overflow lines do too.
//!
//! Thread safety: readers take nothing; writers lock buckets, two in address order; anyone who
//! holds one and wants more uses `try_lock`. Invariants:
//! 1. A key's entry is in one of its candidates, or in the overflow lines of the first one.
//! 2. An entry moves, appears or disappears only while the bucket it is in is locked; its counter
//!    may change any time.
//! 3. The number of buckets changes only while the bucket that is split, and the new one, are
//!    locked.

mod bucket;
#[cfg(all(test, not(loom)))]
mod checks;
mod displace;
mod entry;
mod find;
mod grow;
mod insert;
mod overflow;

use base::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

pub(crate) use bucket::{Bucket, LINE_ENTRIES, LINE_WORDS, Locked, Version};
pub(crate) use entry::{Entry, Tag};
pub(crate) use find::Found;
pub(crate) use grow::Need;
pub(crate) use insert::{Full, Pair};

use self::overflow::OverflowLines;
use crate::{arena::Arena, geometry::BLOCK_WORDS};

/// Lines in a block.
pub(crate) const BLOCK_LINES: usize = BLOCK_WORDS / LINE_WORDS;

/// Buckets of an empty index: one block of them.
const FIRST_BUCKETS: u64 = BLOCK_LINES as u64;

const COORDINATE_MASK: u64 = (1 << 40) - 1;

/// The index of one table.
#[derive(Debug)]
pub(crate) struct Index {
    /// How many buckets there are; with it, where every coordinate belongs.
    buckets: AtomicU64,
    /// Arena blocks that hold buckets, in order.
    directory: Box<[AtomicU32]>,
    /// Arena blocks that hold overflow lines, in order. Line number `n` is the `n - 1`st line.
    overflow: Box<[AtomicU32]>,
    overflow_lines: Mutex<OverflowLines>,
    /// Held by the one thread that splits a bucket or adds a block of them.
    growth: Mutex<()>,
}

/// Where a hash may be found, for a given number of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidates {
    pub(crate) buckets: u64,
    pub(crate) first: u64,
    pub(crate) second: u64,
}

/// What the tag adds to a coordinate to give the other one.
#[inline]
fn offset(tag: Tag) -> u64 {
    // Odd, so that the two buckets differ from the smallest index on.
    (tag.number() * 2 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & COORDINATE_MASK
}

/// Where a coordinate belongs among `buckets`.
#[inline]
fn bucket_of(coordinate: u64, buckets: u64) -> u64 {
    let level = 63 - buckets.leading_zeros();
    let wide = coordinate & ((2 << level) - 1);
    if wide < buckets { wide } else { wide - (1 << level) }
}

impl Candidates {
    #[inline]
    fn new(hash: u64, buckets: u64) -> Self {
        let first = hash & COORDINATE_MASK;
        let second = first ^ offset(Tag::of(hash));
        Self { buckets, first: bucket_of(first, buckets), second: bucket_of(second, buckets) }
    }
}

impl Index {
    /// An empty index for an arena of `arena_blocks`, its first buckets in `first_block`, which
    /// must be all zero.
    pub(crate) fn new(arena_blocks: usize, first_block: u32) -> Self {
        let directory: Box<[AtomicU32]> = (0..arena_blocks).map(|_| AtomicU32::new(0)).collect();
        directory[0].store(first_block, Ordering::Relaxed);
        Self {
            buckets: AtomicU64::new(FIRST_BUCKETS),
            directory,
            overflow: (0..arena_blocks / 8 + 1).map(|_| AtomicU32::new(0)).collect(),
            overflow_lines: Mutex::new(OverflowLines::default()),
            growth: Mutex::new(()),
        }
    }

    /// Bytes of the directories.
    pub(crate) fn table_bytes(arena_blocks: usize) -> usize {
        (arena_blocks + arena_blocks / 8 + 1) * size_of::<AtomicU32>()
    }

    /// Where `hash` may be now.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> Candidates {
        Candidates::new(hash, self.buckets.load(Ordering::Acquire))
    }

    /// Whether the number of buckets is still what `candidates` was computed for.
    #[inline]
    pub(crate) fn is_current(&self, candidates: Candidates) -> bool {
        self.buckets.load(Ordering::Relaxed) == candidates.buckets
    }

    #[inline]
    fn bucket_at(&self, number: u64) -> usize {
        let number = number as usize;
        let block = self.directory[number / BLOCK_LINES].load(Ordering::Relaxed) as usize;
        block * BLOCK_WORDS + number % BLOCK_LINES * LINE_WORDS
    }

    /// A bucket by number.
    #[inline]
    pub(crate) fn bucket<'a>(&self, arena: &'a Arena, number: u64) -> Bucket<'a> {
        Bucket::new(arena.slice(self.bucket_at(number), LINE_WORDS))
    }

    /// An overflow line by number; `None` for a number that a reader found torn.
    fn overflow_line<'a>(&self, arena: &'a Arena, number: u64) -> Option<Bucket<'a>> {
        let line = usize::try_from(number.checked_sub(1)?).ok()?;
        let block = self.overflow.get(line / BLOCK_LINES)?.load(Ordering::Acquire) as usize;
        let at = block * BLOCK_WORDS + line % BLOCK_LINES * LINE_WORDS;
        (block != 0).then(|| Bucket::new(arena.slice(at, LINE_WORDS)))
    }

    /// Asks for the records that entries with the tag of `hash` lead to.
    #[inline]
    pub(crate) fn prefetch_records(&self, arena: &Arena, hash: u64) {
        let tag = Tag::of(hash);
        let candidates = self.candidates(hash);
        for number in [candidates.first, candidates.second] {
            let bucket = self.bucket(arena, number);
            for place in 0..LINE_ENTRIES {
                let entry = bucket.entry(place);
                if entry.matches(tag) {
                    arena.prefetch(entry.location());
                    arena.prefetch(entry.location() + LINE_WORDS);
                    return;
                }
            }
        }
    }

    /// Asks for the lines of both candidates.
    #[inline]
    pub(crate) fn prefetch(&self, arena: &Arena, hash: u64) {
        let candidates = self.candidates(hash);
        arena.prefetch(self.bucket_at(candidates.first));
        arena.prefetch(self.bucket_at(candidates.second));
    }
}

#[cfg(test)]
mod tests;
