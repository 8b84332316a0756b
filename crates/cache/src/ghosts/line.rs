//! One line of fingerprints: the last keys that left each of two partitions.

use base::sync::atomic::Ordering;

use crate::{geometry::LINE_WORDS, line::Line, policy::Partition};

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
    let print = print_of(hash);
    if line.has_half(print as u32) { forget(line, print) } else { None }
}

/// Takes a fingerprint out of its line.
#[inline(never)]
fn forget(line: &Line, print: u64) -> Option<Partition> {
    let both = print << 32 | print;
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
