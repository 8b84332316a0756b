//! The hash index: entries in buckets of one line, two candidate buckets a key, growth bucket by
//! bucket.
//!
//! A key's hash gives a tag of 24 bits, kept in the entry, and a base. The first candidate bucket
//! belongs to the base, the second to the base XOR a number that follows from the tag (partial-key
//! cuckoo hashing, MemC3 section 3.1). The table grows by linear hashing (Litwin 1980), one bucket
//! at a time, and the bits that growth asks for come from the tag, too. So an entry's bucket number
//! and tag tell everything: displacing it or splitting its bucket looks at no record.
//!
//! In a round of growth the buckets already split are half as full as the others. Splits go by the
//! base, in which a key's two candidates differ, so most keys of a full bucket have a candidate
//! among the emptier ones, and two choices even that out.
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
#[cfg(test)]
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

/// Bits of growth that an index of the expected size has. Each takes one from the tags' power to
/// tell keys of a bucket apart: 14 bits are left, one wrong record looked at in 1,200 lookups.
const GROWTH_BITS: u32 = 10;

/// Bytes of the arena for each bucket when it is full of small records: six records of 32 bytes
/// with their ghosts and the bucket itself.
const ARENA_BYTES_PER_BUCKET: usize = 6 * 36 + 64;

/// The index of one table.
#[derive(Debug)]
pub(crate) struct Index {
    /// How many buckets there are; with it, where every key belongs.
    buckets: AtomicU64,
    /// Bits of a base; the index began with that many buckets.
    base_bits: u32,
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
    extent: Extent,
    base: u64,
    tag: Tag,
}

impl Candidates {
    /// The number of the first bucket.
    #[inline]
    fn first(self) -> u64 {
        self.extent.bucket(self.base, growth_of(self.tag))
    }

    /// The number of the second bucket.
    #[inline]
    fn second(self) -> u64 {
        let base = other_base(self.base, self.tag, self.extent.base_bits);
        self.extent.bucket(base, growth_of(self.tag))
    }
}

/// Which buckets there are, for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    base_bits: u32,
    buckets: u64,
}

/// What the tag adds to a base to give the other one: odd, so that the two always differ.
#[inline]
fn other_base(base: u64, tag: Tag, base_bits: u32) -> u64 {
    let offset = tag.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - base_bits);
    base ^ (offset | 1)
}

/// The bits that growth takes from a tag, the first one lowest.
#[inline]
fn growth_of(tag: Tag) -> u64 {
    // Shards are told apart by the tag's highest bits, which growth never comes to.
    tag.number()
}

impl Extent {
    /// Bits of growth that every bucket has, and how many of them have one more.
    #[inline]
    fn round(self) -> (u32, u64) {
        let level = 63 - self.buckets.leading_zeros();
        (level - self.base_bits, self.buckets - (1 << level))
    }

    /// The bucket of a base and a tag's growth bits.
    #[inline]
    fn bucket(self, base: u64, growth: u64) -> u64 {
        let (bits, split) = self.round();
        let low = growth & ((1 << bits) - 1);
        let is_split = (base << bits | low) < split;
        self.number(base, if is_split { growth & ((2 << bits) - 1) } else { low })
    }

    /// The number of the bucket that was made for a base and these growth bits.
    #[inline]
    fn number(self, base: u64, growth: u64) -> u64 {
        if growth == 0 {
            return base;
        }
        let high = 63 - growth.leading_zeros();
        (1 << (self.base_bits + high)) + (base << high) + (growth & ((1 << high) - 1))
    }

    /// The base of a bucket.
    #[inline]
    fn base_of(self, number: u64) -> u64 {
        if number >> self.base_bits == 0 {
            return number;
        }
        let level = 63 - number.leading_zeros();
        (number - (1 << level)) >> (level - self.base_bits)
    }

    /// The bucket that the next split takes from, and the bit of growth that moves an entry.
    fn next_split(self) -> (u64, u64) {
        let (bits, split) = self.round();
        (self.number(split >> bits, split & ((1 << bits) - 1)), 1 << bits)
    }
}

impl Index {
    /// Blocks that an index begins with in an arena of `arena_blocks`.
    pub(crate) fn first_blocks(arena_blocks: usize) -> usize {
        let expected = arena_blocks * BLOCK_WORDS * 8 / ARENA_BYTES_PER_BUCKET;
        (expected >> GROWTH_BITS).next_power_of_two().div_ceil(BLOCK_LINES).max(1)
    }

    /// An empty index for an arena of `arena_blocks`, its first buckets in these blocks, a power of
    /// two of them, which must be all zero.
    pub(crate) fn new(arena_blocks: usize, first_blocks: &[u32]) -> Self {
        let directory: Box<[AtomicU32]> = (0..arena_blocks).map(|_| AtomicU32::new(0)).collect();
        for (place, block) in directory.iter().zip(first_blocks) {
            place.store(*block, Ordering::Relaxed);
        }
        let buckets = first_blocks.len() * BLOCK_LINES;
        assert!(buckets.is_power_of_two(), "growth begins with a whole round");
        Self {
            buckets: AtomicU64::new(buckets as u64),
            base_bits: buckets.ilog2(),
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
        let extent = self.extent(Ordering::Acquire);
        Candidates { extent, base: hash & ((1 << self.base_bits) - 1), tag: Tag::of(hash) }
    }

    /// Whether the number of buckets is still what `candidates` was computed for.
    #[inline]
    pub(crate) fn is_current(&self, candidates: Candidates) -> bool {
        self.buckets.load(Ordering::Relaxed) == candidates.extent.buckets
    }

    #[inline]
    fn extent(&self, order: Ordering) -> Extent {
        Extent { base_bits: self.base_bits, buckets: self.buckets.load(order) }
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
        for number in [candidates.first(), candidates.second()] {
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
        arena.prefetch(self.bucket_at(candidates.first()));
        arena.prefetch(self.bucket_at(candidates.second()));
    }
}

#[cfg(test)]
mod tests;
