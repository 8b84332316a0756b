//! One line of fingerprints: the last keys that left each of two partitions.

use base::sync::atomic::{AtomicU64, Ordering};

use crate::{geometry::LINE_WORDS, policy::Partition};

/// A line.
pub(crate) type Line = [AtomicU64; LINE_WORDS];

/// Words of a line for each partition.
const HALF_WORDS: usize = LINE_WORDS / 2;
/// Fingerprints in a line.
pub(crate) const LINE_PRINTS: u64 = 16;

/// Remembers that a key left `partition`, and forgets the oldest that did.
#[inline]
pub(crate) fn remember(line: &Line, hash: u64, partition: Partition) {
    let mut carry = print_of(hash);
    let half = if partition == Partition::Temporary { 0 } else { HALF_WORDS };
    for word in &line[half..half + HALF_WORDS] {
        let old = word.load(Ordering::Relaxed);
        word.store(old << 32 | carry, Ordering::Relaxed);
        carry = old >> 32;
    }
}

/// Whether a key is remembered, and which partition it left; forgets it.
#[inline]
pub(crate) fn take(line: &Line, hash: u64) -> Option<Partition> {
    let both = print_of(hash) << 32 | print_of(hash);
    let found =
        line.iter().fold(0, |found, word| found | zero_halves(word.load(Ordering::Relaxed) ^ both));
    if found == 0 { None } else { forget(line, both) }
}

/// Not 0 if one of the two halves of a word is 0 (Warren, Hacker's Delight, section 6-1).
#[inline]
fn zero_halves(word: u64) -> u64 {
    word.wrapping_sub(1 << 32 | 1) & !word & (1 << 63 | 1 << 31)
}

/// Takes a fingerprint, given twice in one word, out of its line.
#[inline(never)]
fn forget(line: &Line, both: u64) -> Option<Partition> {
    for (place, word) in line.iter().enumerate() {
        let prints = word.load(Ordering::Relaxed);
        for mask in [0xffff_ffff, 0xffff_ffff << 32] {
            if (prints ^ both) & mask == 0 {
                word.store(prints & !mask, Ordering::Relaxed);
                let temporary = place < HALF_WORDS;
                return Some(if temporary { Partition::Temporary } else { Partition::Hot });
            }
        }
    }
    None
}

/// The half of the hash that does not choose the line; never 0, which is an empty place.
#[inline]
fn print_of(hash: u64) -> u64 {
    (hash >> 32).max(1)
}
