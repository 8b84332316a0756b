//! Fingerprints of evicted keys, so that one that comes back soon is known.
//!
//! A line of 64 bytes holds the last eight keys that left the temporary partition and the last
//! eight that left the hot one, newest first; a key's line follows from its hash. So each of the
//! two is a first-in-first-out list cut into sets, and both together cost four bytes a record.
//! Lines lie in blocks of the arena, taken one by one once records are evicted at all.
//!
//! Thread safety: relaxed atomics without a lock. Two threads in one line may lose a fingerprint;
//! all of it is a hint.

#[cfg(all(test, not(loom)))]
mod checks;
pub(crate) mod line;

use base::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use self::line::LINE_PRINTS;
use crate::{
    arena::Arena,
    geometry::{BLOCK_LINES, BLOCK_WORDS, LINE_WORDS},
    policy::Partition,
    zeroed::zeroed,
};

/// How many blocks there are, and in the upper half which bits of a hash choose one of them: as
/// many as it takes to number them all. Kept because every key asks for both.
#[derive(Clone, Copy)]
struct Size(u64);

impl Size {
    fn new(blocks: u64) -> Self {
        let mask = blocks.checked_ilog2().map_or(0, |level| (2 << level) - 1);
        Self(blocks | mask << 32)
    }

    #[inline(always)]
    fn blocks(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    #[inline(always)]
    fn mask(self) -> u64 {
        self.0 >> 32
    }
}

/// The fingerprints of one table.
#[derive(Debug)]
pub(crate) struct Ghosts {
    /// Blocks of lines, in order. What is behind the last one may be out of date, so that who reads
    /// it late finds a block that was one.
    directory: Box<[AtomicU32]>,
    size: AtomicU64,
    /// Held by the thread that adds a block, or takes one away.
    resizing: Mutex<()>,
}

impl Ghosts {
    /// No fingerprints yet, in an arena of `arena_blocks`.
    pub(crate) fn new(arena_blocks: usize) -> Self {
        let directory = zeroed(arena_blocks / 4 + 1);
        Self { directory, size: AtomicU64::new(Size::new(0).0), resizing: Mutex::new(()) }
    }

    /// Bytes of the directory.
    pub(crate) fn table_bytes(arena_blocks: usize) -> usize {
        (arena_blocks / 4 + 1) * size_of::<AtomicU32>()
    }

    #[inline(always)]
    fn size(&self) -> Size {
        Size(self.size.load(Ordering::Acquire))
    }

    /// Bytes of fingerprints.
    pub(crate) fn bytes(&self) -> u64 {
        self.size().blocks() * (BLOCK_WORDS * 8) as u64
    }

    /// Whether there should be more, for this many live records.
    pub(crate) fn wants_block(&self, records: u64) -> bool {
        let blocks = self.size().blocks();
        let prints = blocks * BLOCK_LINES as u64 * LINE_PRINTS;
        // The first block serves any table; a further one only when it would be used.
        (blocks == 0 || prints + BLOCK_LINES as u64 * LINE_PRINTS / 2 < records)
            && blocks < self.directory.len() as u64
    }

    /// Adds a zeroed block. Gives it back when there is no place for it, or somebody else is at it.
    pub(crate) fn supply(&self, block: u32) -> Result<(), u32> {
        let Ok(_resizing) = self.resizing.try_lock() else { return Err(block) };
        let blocks = self.size().blocks();
        let place = usize::try_from(blocks).ok().and_then(|at| self.directory.get(at));
        let Some(place) = place else { return Err(block) };
        place.store(block, Ordering::Relaxed);
        self.size.store(Size::new(blocks + 1).0, Ordering::Release);
        Ok(())
    }

    /// Takes the last block away if half of what remains is more than this many live records can
    /// use. It is to be retired: others may be writing into it.
    pub(crate) fn give_back(&self, records: u64) -> Option<u32> {
        let Ok(_resizing) = self.resizing.try_lock() else { return None };
        let left = self.size().blocks().checked_sub(1)?;
        if left == 0 || left * BLOCK_LINES as u64 * LINE_PRINTS < 2 * records {
            return None;
        }
        self.size.store(Size::new(left).0, Ordering::Release);
        Some(self.directory[left as usize].load(Ordering::Relaxed))
    }

    /// Number of the line for `hash`, if there are lines at all.
    #[inline]
    fn line_at(&self, hash: u64) -> Option<usize> {
        let size = self.size();
        if size.blocks() == 0 {
            return None;
        }
        // Linear hashing over blocks: adding one moves the keys of one block only.
        let line = (hash & 0xffff_ffff) as usize % BLOCK_LINES;
        let wide = ((hash & 0xffff_ffff) / BLOCK_LINES as u64) & size.mask();
        let place = if wide < size.blocks() { wide } else { wide & size.mask() >> 1 };
        let block = self.directory[place as usize].load(Ordering::Relaxed) as usize;
        Some(block * BLOCK_LINES + line)
    }

    /// Asks for the line of `hash`.
    #[inline]
    pub(crate) fn prefetch(&self, arena: &Arena, hash: u64) {
        if let Some(number) = self.line_at(hash) {
            arena.prefetch(number * LINE_WORDS);
        }
    }

    /// Remembers that a key left `partition`.
    #[inline]
    pub(crate) fn remember(&self, arena: &Arena, hash: u64, partition: Partition) {
        if let Some(number) = self.line_at(hash) {
            line::remember(arena.line(number), hash, partition);
        }
    }

    /// Whether a key is remembered, and which partition it left; forgets it.
    #[inline]
    pub(crate) fn take(&self, arena: &Arena, hash: u64) -> Option<Partition> {
        line::take(arena.line(self.line_at(hash)?), hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_eight_of_each_partition_are_known_once() {
        let arena = Arena::new(2).expect("memory");
        let ghosts = Ghosts::new(2);
        assert_eq!(ghosts.take(&arena, 1 << 40), None, "no lines yet");
        assert!(ghosts.wants_block(0));
        ghosts.supply(1).expect("a place");
        let hash = |number: u64| (number + 1) << 32 | 5;
        for number in 0..9 {
            ghosts.remember(&arena, hash(number), Partition::Temporary);
        }
        ghosts.remember(&arena, hash(50), Partition::Hot);
        assert_eq!(ghosts.take(&arena, hash(0)), None, "the ninth has pushed it out");
        for number in 1..9 {
            assert_eq!(ghosts.take(&arena, hash(number)), Some(Partition::Temporary));
            assert_eq!(ghosts.take(&arena, hash(number)), None, "known once");
        }
        assert_eq!(ghosts.take(&arena, hash(50)), Some(Partition::Hot));
    }
}
