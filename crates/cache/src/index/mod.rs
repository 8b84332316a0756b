//! The hash index: entries in buckets of one line, two candidate buckets a key, growth bucket by
//! bucket.
//!
//! A key's hash gives a tag of 24 bits, kept in the entry, and a base. The first candidate bucket
//! belongs to the base, the second to the base XOR a number that follows from the tag (partial-key
//! cuckoo hashing, MemC3 section 3.1). The table grows by linear hashing (Litwin 1980), one bucket
//! at a time, and the bits that growth asks for follow from the tag, too, for each of the two in
//! another way; an entry knows which of the two it is in. So an entry's bucket number and tag tell
//! everything: displacing it or splitting its bucket looks at no record.
//!
//! In a round of growth the buckets already split are half as full as the others. Whether a
//! bucket is split says nothing of its key's other one, so most keys of a full bucket have a
//! candidate among the emptier ones, and two choices even that out.
//!
//! Buckets lie in blocks of the arena; a directory leads to them. Overflow lines do too. When
//! memory is scarce and most buckets are nearly empty, growth is undone, the last bucket first, and
//! blocks that held buckets are given back ([`Index::merge`]).
//!
//! Thread safety: readers take nothing; writers lock buckets, two in address order; anyone who
//! holds one and wants more uses `try_lock`. Invariants:
//! 1. A key's entry is in one of its candidates, or in the overflow lines of the first one.
//! 2. An entry moves, appears or disappears only while the bucket it is in is locked; its counter
//!    may change any time.
//! 3. The number of buckets changes only while the bucket that is split, or merged again, and the
//!    one that appears or disappears are locked.
//! 4. Where a key may be is known by [`Candidates`]. Their lines are lines of this index, or were
//!    when the calling thread was last quiescent: whoever keeps them for longer asks
//!    [`Index::is_current`] before he looks at them.

mod bucket;
#[cfg(test)]
mod checks;
mod displace;
mod entry;
mod find;
mod grow;
mod insert;
mod overflow;
mod shrink;
mod walk;

use base::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

pub(crate) use bucket::{Bucket, LINE_ENTRIES, Locked, Version};
use entry::TAG_MAX;
pub(crate) use entry::{Entry, LOCATION_BITS, Role, Tag};
pub(crate) use find::{Contended, Found, Lines, Probe};
pub(crate) use grow::Need;
pub(crate) use insert::{Full, Pair};
pub(crate) use shrink::Merge;
#[cfg(all(test, not(any(loom, shuttle, miri))))]
pub(crate) use walk::STALLED_MS;
pub use walk::Step;

use self::{overflow::OverflowLines, walk::Walk};
use crate::{
    arena::Arena,
    geometry::{BLOCK_LINES, BLOCK_WORDS, LINE_WORDS},
    zeroed::zeroed,
};

/// Bits of growth that an index of the expected size has. Each takes one from the tags' power to
/// tell keys of a bucket apart: 14 bits are left, one wrong record looked at in 1,200 lookups.
const GROWTH_BITS: u32 = 10;

/// More bits, if need be, for memory that is made larger later. With them 10 bits are left, one
/// wrong record in 75 lookups; fewer bits where the next limit keeps the first buckets few.
const GROWTH_BITS_LATER: u32 = 4;

/// The first buckets take no more than this part of the arena.
const FIRST_DIVISOR: usize = 64;

/// Bytes of the arena for each bucket when it is full of small records: six records of 32 bytes
/// with their ghosts and the bucket itself.
const ARENA_BYTES_PER_BUCKET: usize = 6 * 36 + 64;

/// The index of one table.
#[derive(Debug)]
pub(crate) struct Index {
    /// How many buckets there are; with it, where every key belongs. See [`Size`].
    size: AtomicU64,
    /// Bits of a base; the index began with that many buckets.
    base_bits: u32,
    /// That many bits, kept because every key asks for them.
    base_mask: u64,
    /// Arena blocks that hold buckets, in order. An entry that is behind the last one may be out of
    /// date, so that who reads it late finds a block that was one.
    directory: Box<[AtomicU32]>,
    /// Blocks that hold buckets. Changes under the lock of `growth` only.
    bucket_blocks: AtomicUsize,
    /// Arena blocks that hold overflow lines, in order. Line number `n` is the `n - 1`st line.
    overflow: Box<[AtomicU32]>,
    overflow_lines: Mutex<OverflowLines>,
    /// Held by the one thread that splits a bucket or adds a block of them.
    growth: Mutex<()>,
    walk: Walk,
}

/// How many buckets there are, and in the upper bits how often a block of them was given back: if
/// both are what they were, every line is. Between them is the level, which follows from the number
/// of buckets, because every key asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size(u64);

impl Size {
    /// Enough for all lines of an arena of 2^36 words.
    const BUCKET_BITS: u32 = 34;
    const LEVEL_BITS: u32 = 6;

    fn new(buckets: u64, returned: u64) -> Self {
        let level = u64::from(buckets.ilog2()) << Self::BUCKET_BITS;
        Self(buckets | level | returned << (Self::BUCKET_BITS + Self::LEVEL_BITS))
    }

    #[inline(always)]
    fn buckets(self) -> u64 {
        self.0 & ((1 << Self::BUCKET_BITS) - 1)
    }

    /// Bits that every bucket's number was made of when this round of growth began.
    #[inline(always)]
    fn level(self) -> u32 {
        (self.0 >> Self::BUCKET_BITS) as u32 % (1 << Self::LEVEL_BITS)
    }

    fn returned(self) -> u64 {
        self.0 >> (Self::BUCKET_BITS + Self::LEVEL_BITS)
    }

    /// One bucket more.
    fn grown(self) -> Self {
        Self::new(self.buckets() + 1, self.returned())
    }

    /// One bucket less; with it, perhaps, a block that was given back.
    fn shrunk(self, block_returned: bool) -> Self {
        Self::new(self.buckets() - 1, self.returned() + u64::from(block_returned))
    }
}

/// Where a key may be found, for a given number of buckets: two different lines of the arena. Worth
/// keeping for the length of an operation, because working them out takes some 80 instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// Which index it is for; see [`Index::name`].
    index: usize,
    size: Size,
    first: usize,
    second: usize,
}

impl Candidates {
    fn lines(self) -> (usize, usize) {
        (self.first, self.second)
    }
}

/// Which buckets there are, for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    base_bits: u32,
    /// That many bits.
    base_mask: u64,
    size: Size,
}

impl Extent {
    /// The two buckets of a hash; they differ because their bases do.
    #[inline]
    fn numbers(self, hash: u64) -> [u64; 2] {
        let (tag, spread) = (Tag::of(hash), Spread::of(Tag::of(hash)));
        let base = self.base_of(hash);
        let other = base ^ spread.offset(self.base_bits);
        [
            self.number(base, Role::First.growth(tag, spread)),
            self.number(other, Role::Second.growth(tag, spread)),
        ]
    }

    /// The bucket of a base and the bits that growth asks for, the first one lowest.
    #[inline]
    fn number(self, base: u64, growth: u64) -> u64 {
        let all = growth << self.base_bits | base;
        let half = 1 << self.size.level();
        let number = all & (2 * half - 1);
        if number < self.size.buckets() { number } else { number - half }
    }

    /// The base of a bucket.
    #[inline]
    fn base_of(self, number: u64) -> u64 {
        number & self.base_mask
    }

    /// The bucket that the next split takes from, and the bit of growth that moves an entry.
    fn next_split(self) -> (u64, u64) {
        let level = self.size.level();
        (self.size.buckets() - (1 << level), 1 << (level - self.base_bits))
    }

    /// The other bucket of an entry in bucket `number`.
    fn other_bucket(self, number: u64, entry: Entry) -> u64 {
        let spread = Spread::of(entry.tag());
        let base = self.base_of(number) ^ spread.offset(self.base_bits);
        self.number(base, entry.role().other().growth(entry.tag(), spread))
    }
}

/// A tag's bits, spread over a word.
#[derive(Clone, Copy)]
struct Spread(u64);

impl Spread {
    #[inline]
    fn of(tag: Tag) -> Self {
        Self(tag.number().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// What it adds to one base to give the other: odd, so that the two always differ.
    #[inline]
    fn offset(self, base_bits: u32) -> u64 {
        self.0 >> (64 - base_bits) | 1
    }
}

impl Role {
    /// The bits that growth takes for an entry in this role, the first one lowest.
    #[inline]
    fn growth(self, tag: Tag, spread: Spread) -> u64 {
        match self {
            Self::First => tag.number(),
            Self::Second => spread.0 >> 16 & TAG_MAX,
        }
    }
}

impl Index {
    /// Blocks that an index begins with in an arena of `arena_blocks`, which may become one of
    /// `arena_blocks_max`.
    pub(crate) fn first_blocks(arena_blocks: usize, arena_blocks_max: usize) -> usize {
        let blocks = |arena_blocks: usize| {
            let expected = arena_blocks * BLOCK_WORDS * 8 / ARENA_BYTES_PER_BUCKET;
            (expected >> GROWTH_BITS).next_power_of_two().div_ceil(BLOCK_LINES).max(1)
        };
        let later = blocks(arena_blocks_max >> GROWTH_BITS_LATER);
        blocks(arena_blocks)
            .max(later.min((arena_blocks / FIRST_DIVISOR).max(1)).next_power_of_two())
    }

    /// An empty index for an arena of at most `arena_blocks_max`, its first buckets in these
    /// blocks, a power of two of them, which must be all zero.
    pub(crate) fn new(arena_blocks_max: usize, first_blocks: &[u32]) -> Self {
        let directory: Box<[AtomicU32]> = zeroed(arena_blocks_max);
        for (place, block) in directory.iter().zip(first_blocks) {
            place.store(*block, Ordering::Relaxed);
        }
        let buckets = first_blocks.len() * BLOCK_LINES;
        assert!(buckets.is_power_of_two(), "growth begins with a whole round");
        Self {
            size: AtomicU64::new(Size::new(buckets as u64, 0).0),
            base_bits: buckets.ilog2(),
            base_mask: buckets as u64 - 1,
            directory,
            bucket_blocks: AtomicUsize::new(first_blocks.len()),
            overflow: zeroed(arena_blocks_max / 8 + 1),
            overflow_lines: Mutex::new(OverflowLines::default()),
            growth: Mutex::new(()),
            walk: Walk::default(),
        }
    }

    /// Blocks that it cannot do without.
    pub(crate) fn least_blocks(&self) -> usize {
        (1 << self.base_bits) / BLOCK_LINES + self.overflow_blocks()
    }

    /// Bytes of the directories.
    pub(crate) fn table_bytes(arena_blocks: usize) -> usize {
        (arena_blocks + arena_blocks / 8 + 1) * size_of::<AtomicU32>()
    }

    /// Where `hash` may be now.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> Candidates {
        // Where it is does not change: known before, it is not looked up again for each line.
        let (directory, index) = (&*self.directory, self.name());
        let size = self.size(Ordering::Acquire);
        let numbers = self.extent(size).numbers(hash);
        let [first, second] = numbers.map(|number| line_in(directory, number));
        Candidates { index, size, first, second }
    }

    /// Whether `candidates` are lines of this index.
    #[inline]
    pub(crate) fn owns(&self, candidates: Candidates) -> bool {
        candidates.index == self.name()
    }

    /// What tells the indexes of a process apart: where the directory is.
    #[inline]
    fn name(&self) -> usize {
        self.directory.as_ptr().addr()
    }

    /// Whether the buckets are still those that `candidates` was computed for.
    #[inline]
    pub(crate) fn is_current(&self, candidates: Candidates) -> bool {
        self.size(Ordering::Relaxed) == candidates.size
    }

    #[inline]
    fn size(&self, order: Ordering) -> Size {
        Size(self.size.load(order))
    }

    #[inline]
    fn extent(&self, size: Size) -> Extent {
        Extent { base_bits: self.base_bits, base_mask: self.base_mask, size }
    }

    /// The line of the arena that a bucket is.
    #[inline]
    fn line_of(&self, number: u64) -> usize {
        line_in(&self.directory, number)
    }

    /// A bucket by number.
    #[inline]
    pub(crate) fn bucket<'a>(&self, arena: &'a Arena, number: u64) -> Bucket<'a> {
        Bucket::new(arena.line(self.line_of(number)))
    }

    /// An overflow line by number; `None` for a number that a reader found torn.
    fn overflow_line<'a>(&self, arena: &'a Arena, number: u64) -> Option<Bucket<'a>> {
        let line = usize::try_from(number.checked_sub(1)?).ok()?;
        let block = self.overflow.get(line / BLOCK_LINES)?.load(Ordering::Acquire) as usize;
        let at = block * BLOCK_LINES + line % BLOCK_LINES;
        (block != 0).then(|| Bucket::new(arena.line(at)))
    }

    /// Asks for the lines of both candidates.
    #[inline]
    pub(crate) fn prefetch(&self, arena: &Arena, candidates: Candidates) {
        arena.prefetch(candidates.first * LINE_WORDS);
        arena.prefetch(candidates.second * LINE_WORDS);
    }

    /// Where the first entry with the tag of `hash` leads to.
    #[inline]
    pub(crate) fn probable(
        &self,
        arena: &Arena,
        candidates: Candidates,
        hash: u64,
    ) -> Option<usize> {
        if !self.is_current(candidates) {
            return None;
        }
        let lines = Lines::of(arena, candidates);
        let places = lines.tagged(Tag::of(hash));
        (places != 0).then(|| {
            let (line, place) = lines.place(places.trailing_zeros());
            line.entry(place).location()
        })
    }
}

/// The line of the arena that a bucket is, by the directory.
#[inline(always)]
fn line_in(directory: &[AtomicU32], number: u64) -> usize {
    let number = number as usize;
    let block = directory[number / BLOCK_LINES].load(Ordering::Acquire) as usize;
    block * BLOCK_LINES + number % BLOCK_LINES
}

#[cfg(test)]
mod tests;
