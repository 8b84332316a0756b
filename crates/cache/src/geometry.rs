//! Sizes: of blocks, runs, slots and pieces, and the classes they fall into.
//!
//! Under a model checker, and under miri, everything is small, so that a handful of operations
//! fills memory and every path runs. `docs/formats/record.md` describes the real sizes.

/// Bytes of a word, the unit of locations.
pub(crate) const WORD_BYTES: usize = 8;

#[cfg(not(any(loom, shuttle, miri)))]
mod sizes {
    pub(crate) const BLOCK_BYTES: usize = 64 << 10;
    pub(crate) const KEY_LEN_MAX: usize = 250;
    pub(crate) const INLINE_VALUE_MAX_BYTES: usize = 4096;
    /// Slots up to these bytes live in runs of these bytes.
    pub(crate) const RUNS: [(usize, usize); 3] =
        [(256, 4 << 10), (1024, 16 << 10), (BLOCK_BYTES, BLOCK_BYTES)];
    /// Slot sizes: from the end of the row before to `to`, in steps of `step`.
    pub(crate) const SLOT_STEPS: [(usize, usize); 6] =
        [(128, 8), (256, 16), (1024, 32), (2048, 64), (4096, 256), (4368, 272)];
    /// Pieces of a tail: how many of them share a block evenly. The last three are what a tail is
    /// cut into, the others, and the first of the three, what remains of it.
    pub(crate) const PIECES: [usize; 32] = [
        512, 256, 170, 128, 102, 85, 73, 64, 56, 51, 46, 42, 39, 36, 34, 32, 28, 25, 22, 20, 18,
        16, 15, 14, 13, 12, 11, 10, 9, 8, 4, 2,
    ];
    /// Up to the longest value.
    pub(crate) const HEAD_RANGES: usize = 31 - INLINE_VALUE_MAX_BYTES.ilog2() as usize;
    pub(crate) const ARENA_MIN_BLOCKS: usize = 16;
}

#[cfg(any(loom, shuttle, miri))]
mod sizes {
    /// loom sees to every word again in each of its executions.
    pub(crate) const BLOCK_BYTES: usize = if cfg!(loom) { 1 << 9 } else { 1 << 10 };
    pub(crate) const KEY_LEN_MAX: usize = 24;
    pub(crate) const INLINE_VALUE_MAX_BYTES: usize = 48;
    pub(crate) const RUNS: [(usize, usize); 3] =
        [(64, 256), (BLOCK_BYTES, BLOCK_BYTES / 2), (BLOCK_BYTES, BLOCK_BYTES)];
    pub(crate) const SLOT_STEPS: [(usize, usize); 2] = [(32, 32), (96, 32)];
    pub(crate) const PIECES: [usize; 4] = [16, 8, 4, 2];
    /// Of loom's models up to 2 KiB, twice the longest value that they allow.
    pub(crate) const HEAD_RANGES: usize =
        if cfg!(loom) { 11 } else { 31 } - INLINE_VALUE_MAX_BYTES.ilog2() as usize;
    pub(crate) const ARENA_MIN_BLOCKS: usize = 4;
}

pub(crate) use sizes::{ARENA_MIN_BLOCKS, BLOCK_BYTES, INLINE_VALUE_MAX_BYTES, KEY_LEN_MAX};
use sizes::{HEAD_RANGES, PIECES, RUNS, SLOT_STEPS};

/// Words of a block.
pub(crate) const BLOCK_WORDS: usize = BLOCK_BYTES / WORD_BYTES;
/// Words of a line: what the processor loads at once.
pub(crate) const LINE_WORDS: usize = 8;
/// Lines of a block.
pub(crate) const BLOCK_LINES: usize = BLOCK_WORDS / LINE_WORDS;

/// Number of slot classes for records.
pub(crate) const SLOT_CLASSES: usize = count(&SLOT_STEPS);
/// Number of classes of pieces.
pub(crate) const PIECE_CLASSES: usize = PIECES.len();
/// Pieces of a tail that are a fixed fraction of a block: a half, a quarter, an eighth.
const CUTS: usize = 3;
/// The class of an eighth.
const EIGHTH: usize = PIECE_CLASSES - CUTS;
/// Most pieces of a block.
pub(crate) const BLOCK_PIECES_MAX: usize = PIECES[0];
/// Most pieces of a tail.
pub(crate) const TAIL_PIECES_MAX: usize = CUTS + 1;

/// Bytes of a slot by class.
pub(crate) const SLOT_BYTES: [usize; SLOT_CLASSES] = fill(&SLOT_STEPS);
/// Bytes of a piece by class.
const PIECE_BYTES: [usize; PIECE_CLASSES] = {
    let mut sizes = [0; PIECE_CLASSES];
    let mut class = 0;
    while class < PIECE_CLASSES {
        sizes[class] = BLOCK_WORDS / PIECES[class] * WORD_BYTES;
        class += 1;
    }
    sizes
};

const fn count<const N: usize>(steps: &[(usize, usize); N]) -> usize {
    let (mut total, mut row, mut from) = (0, 0, 0);
    while row < N {
        let (to, step) = steps[row];
        total += (to - from) / step;
        from = to;
        row += 1;
    }
    total
}

const fn fill<const N: usize, const M: usize>(steps: &[(usize, usize); N]) -> [usize; M] {
    let mut sizes = [0; M];
    let (mut at, mut row, mut size) = (0, 0, 0);
    while row < N {
        let (to, step) = steps[row];
        while size + step <= to {
            size += step;
            sizes[at] = size;
            at += 1;
        }
        row += 1;
    }
    sizes
}

/// The class for records of so many words.
const CLASS_BY_WORDS: [u8; SLOT_BYTES[SLOT_CLASSES - 1] / WORD_BYTES + 1] = {
    let mut classes = [0; SLOT_BYTES[SLOT_CLASSES - 1] / WORD_BYTES + 1];
    let (mut words, mut class) = (0, 0);
    while words < classes.len() {
        while SLOT_BYTES[class] < words * WORD_BYTES {
            class += 1;
        }
        classes[words] = class as u8;
        words += 1;
    }
    classes
};

/// The smallest class whose slots hold `bytes`, if any does.
#[inline]
pub(crate) fn slot_class(bytes: usize) -> Option<usize> {
    CLASS_BY_WORDS.get(bytes.div_ceil(WORD_BYTES)).map(|class| usize::from(*class))
}

/// Bytes of the smallest run.
pub(crate) const RUN_MIN_BYTES: usize = RUNS[0].1;

/// Bytes of the runs that slots of `slot_bytes` live in.
pub(crate) const fn run_bytes(slot_bytes: usize) -> usize {
    let mut row = 0;
    while slot_bytes > RUNS[row].0 {
        row += 1;
    }
    RUNS[row].1
}

/// Bytes of a piece by class.
pub(crate) const fn piece_bytes(class: usize) -> usize {
    PIECE_BYTES[class]
}

/// Pieces of a block by class.
pub(crate) const fn pieces_per_block(class: usize) -> usize {
    PIECES[class]
}

/// Bytes of a head behind its key and before it, with all fields.
const HEAD_BYTES: usize = 8 + 8 + 6 + 4 + 8 + TAIL_PIECES_MAX * 5;
/// Slots for heads of short keys and of long ones.
const HEAD_SLOT_BYTES: [usize; 2] = [
    (HEAD_BYTES + if KEY_LEN_MAX < 50 { KEY_LEN_MAX } else { 50 }).next_multiple_of(WORD_BYTES),
    (HEAD_BYTES + KEY_LEN_MAX).next_multiple_of(WORD_BYTES),
];
/// Values in parts are told apart by the power of two below their length, so that one that goes
/// makes room for one that comes: in `HEAD_RANGES` ranges from this power on.
const HEAD_RANGE_FIRST: usize = INLINE_VALUE_MAX_BYTES.ilog2() as usize;

/// Number of classes of sub-tables: inline records by slot, then heads by length of the value and
/// by slot.
pub(crate) const CLASSES: usize = SLOT_CLASSES + HEAD_RANGES * HEAD_SLOT_BYTES.len();

/// Bytes of a slot by class of sub-table.
pub(crate) const fn class_slot_bytes(class: usize) -> usize {
    if class < SLOT_CLASSES {
        SLOT_BYTES[class]
    } else {
        HEAD_SLOT_BYTES[(class - SLOT_CLASSES) % HEAD_SLOT_BYTES.len()]
    }
}

/// Bytes of a typical record by class of sub-table, its value in parts included.
pub(crate) const fn class_record_bytes(class: usize) -> usize {
    if class < SLOT_CLASSES {
        SLOT_BYTES[class]
    } else {
        // The middle of a range that ends at twice its beginning.
        3 << (HEAD_RANGE_FIRST - 1 + (class - SLOT_CLASSES) / HEAD_SLOT_BYTES.len())
    }
}

/// The class for the head of a value of `value_len` bytes, in a record of `head_bytes`.
pub(crate) fn head_class(value_len: usize, head_bytes: usize) -> usize {
    let range = (value_len.max(1).ilog2() as usize).saturating_sub(HEAD_RANGE_FIRST);
    let slot = usize::from(head_bytes > HEAD_SLOT_BYTES[0]);
    SLOT_CLASSES + range.min(HEAD_RANGES - 1) * HEAD_SLOT_BYTES.len() + slot
}

/// Whether records of a class have their values in parts.
pub(crate) const fn is_head_class(class: usize) -> bool {
    class >= SLOT_CLASSES
}

/// How a value is laid into whole blocks and a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Whole blocks.
    pub(crate) blocks: usize,
    /// Of each piece of the tail, in order: its class and how many bytes of the value it holds.
    pub(crate) pieces: [Option<(usize, usize)>; TAIL_PIECES_MAX],
}

impl Cut {
    /// Cuts a value of `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let mut rest = len % BLOCK_BYTES;
        let mut pieces = [None; TAIL_PIECES_MAX];
        for (place, class) in (EIGHTH..PIECE_CLASSES).rev().enumerate() {
            if rest >= piece_bytes(class) {
                pieces[place] = Some((class, piece_bytes(class)));
                rest -= piece_bytes(class);
            }
        }
        if rest > 0 {
            let class = PIECE_BYTES.partition_point(|&bytes| bytes < rest);
            pieces[CUTS] = Some((class, rest));
        }
        Self { blocks: len / BLOCK_BYTES, pieces }
    }

    /// Bytes of the arena that the value takes, its head aside.
    pub(crate) fn arena_bytes(&self) -> usize {
        let tail: usize = self.pieces.iter().flatten().map(|&(class, _)| piece_bytes(class)).sum();
        self.blocks * BLOCK_BYTES + tail
    }
}

const _: () = {
    assert!(BLOCK_BYTES.is_power_of_two());
    assert!(SLOT_BYTES[SLOT_CLASSES - 1] >= 12 + KEY_LEN_MAX + 10 + INLINE_VALUE_MAX_BYTES);
    assert!(PIECE_BYTES[EIGHTH] == BLOCK_BYTES / 8);
    assert!(PIECE_BYTES[PIECE_CLASSES - 1] == BLOCK_BYTES / 2);
};

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    #[test]
    fn every_size_falls_into_the_smallest_class_that_holds_it() {
        for bytes in 1..=SLOT_BYTES[SLOT_CLASSES - 1] {
            let class = slot_class(bytes).expect("in range");
            assert!(SLOT_BYTES[class] >= bytes, "{bytes}");
            assert!(class == 0 || SLOT_BYTES[class - 1] < bytes, "{bytes}");
        }
        assert_eq!(slot_class(SLOT_BYTES[SLOT_CLASSES - 1] + 1), None);
    }

    #[test]
    fn steps_waste_at_most_an_eighth_and_runs_a_sixteenth() {
        for pair in SLOT_BYTES.windows(2) {
            assert!(pair[1] - pair[0] <= (pair[0] / 8).max(8), "{pair:?}");
        }
        for slot in SLOT_BYTES {
            let run = run_bytes(slot);
            assert!(run % slot <= run / 16, "{slot} in {run}");
            assert_eq!(BLOCK_BYTES % run, 0);
        }
    }

    #[test]
    fn pieces_fill_their_block_and_are_at_most_a_seventh_larger_than_the_next_smaller() {
        for class in 0..PIECE_CLASSES {
            let lost = BLOCK_BYTES - pieces_per_block(class) * piece_bytes(class);
            assert!(lost < pieces_per_block(class) * WORD_BYTES, "{lost} of {class}");
        }
        for pair in PIECE_BYTES[..=EIGHTH].windows(2) {
            assert!(pair[1] - pair[0] <= (pair[0] / 7).max(136), "{pair:?}");
        }
    }

    #[test]
    fn a_cut_holds_the_value_and_little_more() {
        for len in (4097..200_000).step_by(37).chain([65_536, 65_537, 131_072, 1 << 30]) {
            let cut = Cut::new(len);
            let tail: usize = cut.pieces.iter().flatten().map(|&(_, bytes)| bytes).sum();
            assert_eq!(cut.blocks * BLOCK_BYTES + tail, len);
            for (class, bytes) in cut.pieces.iter().flatten() {
                assert!(piece_bytes(*class) >= *bytes);
            }
            let smaller = cut.pieces[CUTS]
                .is_none_or(|(class, bytes)| class == 0 || piece_bytes(class - 1) < bytes);
            assert!(smaller, "{len}: a smaller piece would do");
            assert!(cut.arena_bytes() <= len + 911, "{len}: {}", cut.arena_bytes());
        }
    }
}
