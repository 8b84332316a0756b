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

/// The fingerprints of one table.
#[derive(Debug)]
pub(crate) struct Ghosts {
    /// Blocks of lines, in order. What is behind the last one may be out of date, so that who reads
    /// it late finds a block that was one.
    directory: Box<[AtomicU32]>,
    blocks: AtomicU64,
    /// Held by the thread that adds a block, or takes one away.
    resizing: Mutex<()>,
}

impl Ghosts {
    /// No fingerprints yet, in an arena of `arena_blocks`.
    pub(crate) fn new(arena_blocks: usize) -> Self {
        let directory = zeroed(arena_blocks / 4 + 1);
        Self { directory, blocks: AtomicU64::new(0), resizing: Mutex::new(()) }
    }

    /// Bytes of the directory.
    pub(crate) fn table_bytes(arena_blocks: usize) -> usize {
        (arena_blocks / 4 + 1) * size_of::<AtomicU32>()
    }

    /// Bytes of fingerprints.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed) * (BLOCK_WORDS * 8) as u64
    }

    /// Whether there should be more, for this many live records.
    pub(crate) fn wants_block(&self, records: u64) -> bool {
        let blocks = self.blocks.load(Ordering::Relaxed);
        let prints = blocks * BLOCK_LINES as u64 * LINE_PRINTS;
        // The first block serves any table; a further one only when it would be used.
        (blocks == 0 || prints + BLOCK_LINES as u64 * LINE_PRINTS / 2 < records)
            && blocks < self.directory.len() as u64
    }

    /// Adds a zeroed block. Gives it back when there is no place for it, or somebody else is at it.
    pub(crate) fn supply(&self, block: u32) -> Result<(), u32> {
        let Ok(_resizing) = self.resizing.try_lock() else { return Err(block) };
        let blocks = self.blocks.load(Ordering::Relaxed);
        let place = usize::try_from(blocks).ok().and_then(|at| self.directory.get(at));
        let Some(place) = place else { return Err(block) };
        place.store(block, Ordering::Relaxed);
        self.blocks.store(blocks + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the last block away if half of what remains is more than this many live records can
    /// use. It is to be retired: others may be writing into it.
    pub(crate) fn give_back(&self, records: u64) -> Option<u32> {
        let Ok(_resizing) = self.resizing.try_lock() else { return None };
        let left = self.blocks.load(Ordering::Relaxed).checked_sub(1)?;
        if left == 0 || left * BLOCK_LINES as u64 * LINE_PRINTS < 2 * records {
            return None;
        }
        self.blocks.store(left, Ordering::Release);
        Some(self.directory[left as usize].load(Ordering::Relaxed))
    }

    /// Number of the line for `hash`, if there are lines at all.
    #[inline]
    fn line_at(&self, hash: u64) -> Option<usize> {
        let blocks = self.blocks.load(Ordering::Acquire);
        if blocks == 0 {
            return None;
        }
        // Linear hashing over blocks: adding one moves the keys of one block only.
        let level = 63 - blocks.leading_zeros();
        let line = (hash & 0xffff_ffff) as usize % BLOCK_LINES;
        let coordinate = (hash & 0xffff_ffff) / BLOCK_LINES as u64;
        let low = (1 << level) - 1;
        let wide = coordinate & (low << 1 | 1);
        let place = if wide < blocks { wide } else { wide & low };
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
