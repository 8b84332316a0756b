//! Asking memory for what a burst will touch, before the first of it is touched.
//!
//! A look at a record is three misses, each of which has to wait for the one before: its buckets,
//! its first lines, and the others, which nobody knows the number of before the first has come. So
//! there are three passes over a burst, and the misses of each overlap.

use arrayvec::ArrayVec;

use super::Worker;
use crate::{
    Key,
    geometry::{LINE_WORDS, WORD_BYTES},
};

/// Keys of a burst whose records are looked at ahead. More are given no third pass.
const PREFETCHED_RECORDS_MAX: usize = 32;

/// Words that the third pass asks for in all: 32 records of 1 KiB, which drive each other out of
/// the smallest first-level caches (32 KiB) at worst, but not out of the second.
const REST_WORDS_MAX: usize = (32 << 10) / WORD_BYTES;

/// Lines of a record that the second pass asks for.
const FIRST_LINES: usize = 2;

/// Their bytes. A record with a shorter value may end in a third line; to find out costs more.
const FIRST_BYTES: usize = FIRST_LINES * LINE_WORDS * WORD_BYTES;

impl Worker {
    /// Second and third pass over a burst, whose keys have been through [`Self::prefetch_index`]:
    /// asks memory for the records.
    #[inline]
    pub fn prefetch_records<'k>(&self, keys: impl Iterator<Item = &'k Key<'k>>) {
        let mut locations = ArrayVec::<usize, PREFETCHED_RECORDS_MAX>::new();
        for key in keys {
            if let Some(location) = self.locate(key) {
                // Those behind the last place go without a third pass.
                let _ = locations.try_push(location);
            }
        }
        let mut words_left = REST_WORDS_MAX;
        for location in locations {
            self.prefetch_rest(location, &mut words_left);
        }
    }

    /// First pass over a burst: asks memory for the key's buckets.
    #[inline]
    pub fn prefetch_index(&self, key: &Key<'_>) {
        let memory = &self.table().memory;
        memory.index.prefetch(&memory.arena, key.candidates);
    }

    /// For a key that is to be stored, with the first pass: asks memory for what is remembered of
    /// keys that were evicted.
    #[inline]
    pub fn prefetch_ghosts(&self, key: &Key<'_>) {
        let memory = &self.table().memory;
        memory.ghosts.prefetch(&memory.arena, key.hash);
    }

    /// Second pass over a burst: asks memory for the start of the record that the buckets lead to.
    #[inline]
    pub fn prefetch_record(&self, key: &Key<'_>) {
        self.locate(key);
    }

    /// Where a key's record probably is; asks memory for its first lines.
    #[inline]
    fn locate(&self, key: &Key<'_>) -> Option<usize> {
        let memory = &self.table().memory;
        let location = memory.index.probable(&memory.arena, key.candidates, key.hash)?;
        for line in 0..FIRST_LINES {
            memory.arena.prefetch(location + line * LINE_WORDS);
        }
        Some(location)
    }

    /// Third pass: asks memory for the other lines of a record, of which its first one tells.
    #[inline]
    fn prefetch_rest(&self, location: usize, words_left: &mut usize) {
        let memory = &self.table().memory;
        let header = memory.slot(location).header();
        if header.value_len() <= FIRST_BYTES {
            return;
        }
        let words = (header.value_at() + header.value_len()).div_ceil(WORD_BYTES);
        let rest = (words - FIRST_LINES * LINE_WORDS).min(*words_left);
        if rest > 0 {
            memory.arena.prefetch_all(location + FIRST_LINES * LINE_WORDS, rest);
            *words_left -= rest;
        }
    }
}
