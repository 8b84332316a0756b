//! The lines of an index, in blocks that are made when something is first written to them.
//!
//! The directory is made for the largest size at once, so growing moves nothing and takes no memory
//! but the next block's. While a saved index is being loaded, a block that is still in the file is
//! told from one that was never written.
//!
//! Thread safety: any thread may look, make and load. Invariant: a block that is in the directory
//! stays there, and was complete before it was.

use base::sync::{
    OnceLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use super::line::{Image, LINE_WORDS, Line};

/// Lines of a block.
#[cfg(not(any(loom, shuttle, miri)))]
pub(crate) const BLOCK_LINES: usize = 1024;
/// A checker pays for every word.
#[cfg(any(loom, shuttle, miri))]
pub(crate) const BLOCK_LINES: usize = 4;

/// Words of a block.
pub(crate) const BLOCK_WORDS: usize = BLOCK_LINES * LINE_WORDS;
/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = BLOCK_WORDS * 8;

/// Two lines, which the processor likes to load together.
#[cfg_attr(not(any(loom, shuttle, miri)), repr(align(128)))]
#[derive(Debug)]
struct Pair([Line; 2]);

type Block = Box<[Pair]>;

/// A block that has to be read from the checkpoint before the key can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loading {
    /// The block's number, for `Loader`.
    pub block: u32,
}

/// The blocks of an index.
#[derive(Debug)]
pub(crate) struct Blocks {
    directory: Box<[OnceLock<Block>]>,
    made: AtomicUsize,
    /// A bit for each block that is in the checkpoint and not yet here.
    awaited: Box<[AtomicU64]>,
    awaited_blocks: AtomicUsize,
}

impl Blocks {
    /// Room for `lines` lines, none of them made, but those blocks of a checkpoint awaited.
    pub(crate) fn new(lines: u64, awaited: &[u32]) -> Self {
        let blocks = usize::try_from(lines.div_ceil(BLOCK_LINES as u64));
        let blocks = blocks.expect("invariant: limits were checked by the index");
        let bits: Box<[AtomicU64]> = if awaited.is_empty() {
            Box::default()
        } else {
            (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
        };
        for &block in awaited {
            bits[block as usize / 64].fetch_or(1 << (block % 64), Ordering::Relaxed);
        }
        let this = Self {
            directory: (0..blocks).map(|_| OnceLock::new()).collect(),
            made: AtomicUsize::new(0),
            awaited: bits,
            awaited_blocks: AtomicUsize::new(awaited.len()),
        };
        if cfg!(loom) {
            // It does not know what a cell promises about who wrote it.
            (0..blocks).for_each(|block| this.make(block).map(drop).expect("nothing is awaited"));
        }
        this
    }

    /// Lines that there may be at most.
    pub(crate) fn lines_max(&self) -> u64 {
        (self.directory.len() * BLOCK_LINES) as u64
    }

    /// Bytes of the blocks that there are and of the directory.
    pub(crate) fn bytes(&self) -> u64 {
        let directory = std::mem::size_of_val(&*self.directory);
        let made = self.made.load(Ordering::Relaxed) * BLOCK_BYTES;
        (directory + made + std::mem::size_of_val(&*self.awaited)) as u64
    }

    /// A line, unless nothing was ever written to its block.
    ///
    /// # Errors
    /// When its block has to be loaded first.
    #[inline]
    pub(crate) fn line(&self, number: u64) -> Result<Option<&Line>, Loading> {
        Ok(self.pair(number / 2)?.map(|pair| &pair[(number % 2) as usize]))
    }

    /// Lines `2 * number` and `2 * number + 1`, unless nothing was ever written to their block.
    ///
    /// # Errors
    /// When it has to be loaded first.
    #[inline]
    pub(crate) fn pair(&self, number: u64) -> Result<Option<&[Line; 2]>, Loading> {
        let (block, pair) = split(number);
        match self.directory[block].get() {
            Some(pairs) => Ok(Some(&pairs[pair].0)),
            None => Ok(self.late(block)?.map(|pairs| &pairs[pair].0)),
        }
    }

    /// A line, if its block is here.
    #[inline]
    pub(crate) fn line_here(&self, number: u64) -> Option<&Line> {
        self.pair_here(number / 2).map(|pair| &pair[(number % 2) as usize])
    }

    /// Lines `2 * number` and `2 * number + 1`, if their block is here.
    #[inline]
    pub(crate) fn pair_here(&self, number: u64) -> Option<&[Line; 2]> {
        let (block, pair) = split(number);
        self.directory[block].get().map(|pairs| &pairs[pair].0)
    }

    /// A line, its block made if need be.
    ///
    /// # Errors
    /// When its block has to be loaded first.
    #[inline]
    pub(crate) fn line_made(&self, number: u64) -> Result<&Line, Loading> {
        Ok(&self.pair_made(number / 2)?[(number % 2) as usize])
    }

    /// Lines `2 * number` and `2 * number + 1`, their block made if need be.
    ///
    /// # Errors
    /// When it has to be loaded first.
    #[inline]
    pub(crate) fn pair_made(&self, number: u64) -> Result<&[Line; 2], Loading> {
        let (block, pair) = split(number);
        let pairs = match self.directory[block].get() {
            Some(pairs) => pairs,
            None => self.make(block)?,
        };
        Ok(&pairs[pair].0)
    }

    /// A block that was not there a moment ago.
    #[cold]
    fn late(&self, block: usize) -> Result<Option<&Block>, Loading> {
        // In this order: a loaded block is in the directory before it is not awaited any more.
        let awaited = self.is_awaited(block);
        match self.directory[block].get() {
            Some(lines) => Ok(Some(lines)),
            None if awaited => Err(Loading { block: block as u32 }),
            None => Ok(None),
        }
    }

    #[cold]
    fn make(&self, block: usize) -> Result<&Block, Loading> {
        if let Some(lines) = self.late(block)? {
            return Ok(lines);
        }
        let empty = |_| Pair([Line::new(), Line::new()]);
        self.put(block, (0..BLOCK_LINES / 2).map(empty).collect());
        Ok(self.directory[block].get().expect("invariant: a block stays in the directory"))
    }

    /// Puts a block into the directory, unless one is there. Whether it was put.
    fn put(&self, block: usize, lines: Block) -> bool {
        let is_new = self.directory[block].set(lines).is_ok();
        self.made.fetch_add(usize::from(is_new), Ordering::Relaxed);
        is_new
    }

    fn is_awaited(&self, block: usize) -> bool {
        let bits = self.awaited.get(block / 64);
        bits.is_some_and(|bits| bits.load(Ordering::Acquire) >> (block % 64) & 1 != 0)
    }

    /// Puts a block of a checkpoint in its place. One that is there already stays as it is: it was
    /// loaded before, and may have changed. Whether it was put.
    pub(crate) fn load(&self, block: u32, image: &[Image]) -> bool {
        assert_eq!(image.len(), BLOCK_LINES, "invariant: an image was checked");
        let number = block as usize;
        if !self.is_awaited(number) || self.directory[number].get().is_some() {
            return false;
        }
        let (pairs, _) = image.as_chunks::<2>();
        let lines = pairs.iter().map(|[a, b]| Pair([Line::saved(a), Line::saved(b)])).collect();
        let is_new = self.put(number, lines);
        if is_new {
            let bit = 1 << (block % 64);
            self.awaited[number / 64].fetch_and(!bit, Ordering::Release);
            self.awaited_blocks.fetch_sub(1, Ordering::Release);
        }
        is_new
    }

    /// Blocks of a checkpoint that are not yet here.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited_blocks.load(Ordering::Acquire)
    }

    /// The first of them from block `from` on.
    pub(crate) fn first_awaited(&self, from: u32) -> Option<u32> {
        let blocks = self.directory.len() as u32;
        (from..blocks).find(|&block| self.is_awaited(block as usize))
    }

    /// Every block that there is, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = &Line>)> {
        let numbered = (0..).zip(&self.directory);
        numbered.filter_map(|(number, cell)| {
            Some((number, cell.get()?.iter().flat_map(|pair| &pair.0)))
        })
    }
}

/// Block and place in it of a pair.
#[inline(always)]
fn split(number: u64) -> (usize, usize) {
    let number = number as usize;
    (number / (BLOCK_LINES / 2), number % (BLOCK_LINES / 2))
}
