//! The one region of memory that records, values, index and ghosts live in.
//!
//! Owns the mapping. All shared access is through [`AtomicU64`] words, so a reader that looks at a
//! slot while a writer changes it reads stale or mixed words, which the version of its bucket
//! reveals, and never races in the sense of the language (a seqlock over plain data is undefined
//! behaviour).
//!
//! Parts of large values are the exception: they are written as bytes while nobody else can reach
//! them, and read as bytes while pinned. [`Arena::bytes`] and [`Arena::fill`] state the contract.

#![expect(unsafe_code, reason = "owns a mapping that is seen as words and, by contract, as bytes")]

use std::io;

use base::sync::atomic::AtomicU64;

#[cfg(any(loom, shuttle, miri))]
use crate::zeroed::zeroed;
use crate::{
    blocks::Surplus,
    geometry::{BLOCK_BYTES, BLOCK_WORDS, LINE_WORDS, WORD_BYTES},
    line::Line,
};

/// Bytes of a huge page; the arena starts on one.
#[cfg(not(any(loom, shuttle, miri)))]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A region of words, zero at first.
#[derive(Debug)]
pub(crate) struct Arena {
    /// Unmaps when dropped.
    #[cfg(not(any(loom, shuttle, miri)))]
    map: memmap2::MmapMut,
    #[cfg(not(any(loom, shuttle, miri)))]
    start: *const AtomicU64,
    /// Each block for itself: what miri does for a reference grows with what is referred to.
    #[cfg(any(loom, shuttle, miri))]
    heap: Box<[Box<[AtomicU64]>]>,
    /// The same region for values in parts: a checker's atomics do not look like bytes.
    #[cfg(any(loom, shuttle, miri))]
    plain: Box<[Box<[std::cell::UnsafeCell<u8>]>]>,
    blocks: usize,
    #[cfg(not(any(loom, shuttle, miri)))]
    lines: usize,
}

// SAFETY: `start` points into `map`, which the arena owns and nobody else writes through; the
// words behind it are atomics, which any thread may use. `plain` is reached only through `bytes`
// and `fill`, whose contracts exclude races.
unsafe impl Send for Arena {}
// SAFETY: as for Send.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves `blocks` blocks. Memory is taken from the system when it is first touched, in huge
    /// pages where the system gives them.
    pub(crate) fn new(blocks: usize) -> io::Result<Self> {
        #[cfg(not(any(loom, shuttle, miri)))]
        {
            let bytes = blocks * BLOCK_WORDS * WORD_BYTES;
            let mut map = memmap2::MmapOptions::new()
                .len(bytes + HUGE_PAGE_BYTES)
                .no_reserve_swap()
                .map_anon()?;
            let skip = map.as_ptr().align_offset(HUGE_PAGE_BYTES);
            let start = map[skip..].as_mut_ptr().cast_const().cast();
            let this = Self { map, start, blocks, lines: blocks * (BLOCK_WORDS / LINE_WORDS) };
            this.use_huge_pages(true);
            Ok(this)
        }
        #[cfg(any(loom, shuttle, miri))]
        {
            let heap = (0..blocks).map(|_| zeroed(BLOCK_WORDS)).collect();
            let plain = |_| {
                let bytes = Box::into_raw(vec![0u8; BLOCK_BYTES].into_boxed_slice());
                // SAFETY: the box was just given up, and a cell of a byte has a byte's layout.
                unsafe { Box::from_raw(bytes as *mut [std::cell::UnsafeCell<u8>]) }
            };
            Ok(Self { heap, plain: (0..blocks).map(plain).collect(), blocks })
        }
    }

    /// A block.
    #[inline(always)]
    fn block(&self, number: usize) -> &[AtomicU64; BLOCK_WORDS] {
        #[cfg(not(any(loom, shuttle, miri)))]
        {
            // SAFETY: `start` is aligned to a huge page inside `map`, which holds
            // `blocks * BLOCK_WORDS` words from there and lives as long as `self`. AtomicU64 has
            // the layout of u64, every bit pattern is valid, and shared writes go through atomics.
            let blocks: &[[AtomicU64; BLOCK_WORDS]] =
                unsafe { std::slice::from_raw_parts(self.start.cast(), self.blocks) };
            &blocks[number]
        }
        #[cfg(any(loom, shuttle, miri))]
        {
            (&*self.heap[number]).try_into().expect("invariant: a block of words")
        }
    }

    /// A line by its number.
    ///
    /// # Panics
    /// Panics outside the arena.
    #[inline(always)]
    pub(crate) fn line(&self, number: usize) -> &Line {
        #[cfg(not(any(loom, shuttle, miri)))]
        {
            // SAFETY: as in `block`; a block is a whole number of lines, and the start is aligned
            // to a huge page.
            let lines: &[Line] =
                unsafe { std::slice::from_raw_parts(self.start.cast(), self.lines) };
            &lines[number]
        }
        #[cfg(any(loom, shuttle, miri))]
        {
            let words = self.slice(number * LINE_WORDS, LINE_WORDS);
            // SAFETY: here a line is nothing but its words, of which these are enough for one.
            unsafe { &*words.as_ptr().cast() }
        }
    }

    /// The words from word `at` to the end of its block.
    ///
    /// # Panics
    /// Panics outside the arena.
    #[inline(always)]
    pub(crate) fn from(&self, at: usize) -> &[AtomicU64] {
        &self.block(at / BLOCK_WORDS)[at % BLOCK_WORDS..]
    }

    /// A word.
    ///
    /// # Panics
    /// Panics outside the arena.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.block(at / BLOCK_WORDS)[at % BLOCK_WORDS]
    }

    /// The words of a slot or of a block: `len` words from word `at`, all in one block.
    ///
    /// # Panics
    /// Panics outside a block.
    #[inline]
    pub(crate) fn slice(&self, at: usize, len: usize) -> &[AtomicU64] {
        &self.from(at)[..len]
    }

    /// `len` bytes from word `at`, as plain bytes.
    ///
    /// # Safety
    /// Nobody may write these bytes while the slice lives: the caller holds a pin on the value
    /// they belong to.
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let start = self.plain_bytes(at, 0, len);
        // SAFETY: the bytes are inside the arena and, by contract, nobody writes them; u8 has no
        // alignment and no invalid values.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Copies `bytes` to `skip` bytes behind the start of word `at`.
    ///
    /// # Safety
    /// Nobody else may read or write these bytes meanwhile: the caller alone owns the piece, and
    /// every reader that could have known its block before has passed a quiescent point.
    pub(crate) unsafe fn fill(&self, at: usize, skip: usize, bytes: &[u8]) {
        let start = self.plain_bytes(at, skip, bytes.len());
        // SAFETY: the target lies inside the arena, whose bytes are interior mutable; by contract
        // there is no other access.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
    }

    /// Where `len` bytes start, `skip` bytes behind word `at`; inside the arena for sure.
    fn plain_bytes(&self, at: usize, skip: usize, len: usize) -> *mut u8 {
        let from = at * WORD_BYTES + skip;
        assert!(from + len <= self.blocks * BLOCK_BYTES, "outside the arena");
        #[cfg(not(any(loom, shuttle, miri)))]
        return self.start.cast::<u8>().cast_mut().wrapping_add(from);
        #[cfg(any(loom, shuttle, miri))]
        {
            let bytes = &self.plain[from / BLOCK_BYTES];
            assert!(from % BLOCK_BYTES + len <= BLOCK_BYTES, "in two blocks");
            std::cell::UnsafeCell::raw_get(bytes.as_ptr().wrapping_add(from % BLOCK_BYTES))
        }
    }

    /// Gives the memory of a block back to the system; its words are zero then. If the system does
    /// not take it, nothing happens.
    pub(crate) fn discard(&self, block: &Surplus) {
        let block = block.number();
        assert!(block < self.blocks, "outside the arena");
        #[cfg(not(any(loom, shuttle, miri)))]
        {
            use memmap2::UncheckedAdvice::DontNeed;
            let offset = self.skip() + block * BLOCK_BYTES;
            // SAFETY: the range is one block of the arena. It is nobody's, so nobody has it as
            // plain bytes; as words it changes like any other, and zeros are valid.
            let _ = unsafe { self.map.unchecked_advise_range(DontNeed, offset, BLOCK_BYTES) };
        }
        #[cfg(any(loom, shuttle, miri))]
        for word in self.slice(block * BLOCK_WORDS, BLOCK_WORDS) {
            word.store(0, base::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Whether the system may put huge pages where blocks are missing: not while they are being
    /// given back, or it would fill up the gaps that they leave.
    pub(crate) fn use_huge_pages(&self, yes: bool) {
        #[cfg(not(any(loom, shuttle, miri)))]
        {
            use memmap2::Advice::{HugePage, NoHugePage};
            let advice = if yes { HugePage } else { NoHugePage };
            // A kernel without huge pages refuses the advice; small pages do as well, only slower.
            let _ = self.map.advise_range(advice, self.skip(), self.blocks * BLOCK_BYTES);
        }
        #[cfg(any(loom, shuttle, miri))]
        let _ = yes;
    }

    /// Where the arena starts in the mapping.
    #[cfg(not(any(loom, shuttle, miri)))]
    fn skip(&self) -> usize {
        self.start.addr() - self.map.as_ptr().addr()
    }

    /// Asks the processor to load the lines of `len` words, at least one, from word `at`; outside
    /// the arena nothing happens.
    #[inline]
    pub(crate) fn prefetch_all(&self, at: usize, len: usize) {
        for line in (0..len).step_by(LINE_WORDS) {
            self.prefetch(at + line);
        }
        // They may start in the middle of a line.
        self.prefetch(at + len - 1);
    }

    /// Asks the processor to load the line of word `at`; outside the arena nothing happens.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
        if at < self.blocks * BLOCK_WORDS {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the address lies inside the mapping, and a prefetch never faults anyway.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.start.add(at).cast()) }
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
        let _ = at;
    }
}
