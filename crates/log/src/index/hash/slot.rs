//! How slots of 15 bytes lie in a line: four beside the version.
//!
//! Eight bytes of each, its tag, are a word, so that looking for a key compares four words; the
//! other seven are three words' low bytes and, of the last slot, what those leave over.

use super::{Changing, Line};
use crate::position::{CLASS_BITS, Entry};

/// Slots of a line.
pub(super) const LINE_SLOTS: usize = 4;

/// Bits of a position: 4 TiB in units of 16 bytes.
pub(super) const POSITION_BITS: u32 = 38;

const ENTRY_BITS: u32 = POSITION_BITS + CLASS_BITS;
const REST_BITS: u32 = 56;
const REST: u64 = (1 << REST_BITS) - 1;

/// Bits of a fingerprint that are not in the tag.
const LATE_BITS: u32 = REST_BITS - ENTRY_BITS;

const FIRST_TAG_WORD: usize = 1;
const FIRST_REST_WORD: usize = 5;

/// What tells keys of the same two lines apart: 76 bits of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint {
    pub(super) tag: u64,
    late: u16,
}

impl Fingerprint {
    pub(super) fn new(tag: u64, late: u64) -> Self {
        Self { tag, late: (late & ((1 << LATE_BITS) - 1)) as u16 }
    }
}

/// A slot that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) fingerprint: Fingerprint,
    /// Entries as they are in a slot: [`Entry::to_bits`].
    pub(super) bits: u64,
}

fn rest_of(line: &Line, place: usize) -> u64 {
    const LAST: usize = LINE_SLOTS - 1;
    if place < LAST {
        return line.word(FIRST_REST_WORD + place) & REST;
    }
    let over = |at: usize| line.word(FIRST_REST_WORD + at) >> REST_BITS;
    over(0) | over(1) << 8 | over(2) << 16 | line.word(0) >> 32 << 24
}

fn set_rest(changing: Changing<'_>, place: usize, rest: u64) {
    const LAST: usize = LINE_SLOTS - 1;
    let word = |at: usize| changing.line().word(FIRST_REST_WORD + at);
    if place < LAST {
        changing.set(FIRST_REST_WORD + place, word(place) & !REST | rest);
        return;
    }
    for at in 0..LAST {
        let over = rest >> (8 * at) << REST_BITS;
        changing.set(FIRST_REST_WORD + at, word(at) & REST | over);
    }
    changing.set(0, rest >> 24 << 32);
}

/// The slot at a place, if it is taken.
#[inline]
pub(super) fn slot(line: &Line, place: usize) -> Option<Slot> {
    let rest = rest_of(line, place);
    let bits = rest & ((1 << ENTRY_BITS) - 1);
    let tag = line.word(FIRST_TAG_WORD + place);
    let fingerprint = Fingerprint::new(tag, rest >> ENTRY_BITS);
    (bits != 0).then_some(Slot { fingerprint, bits })
}

/// The place of a key's slot, and the bits of its entry.
#[inline]
pub(super) fn find(line: &Line, fingerprint: Fingerprint) -> Option<(usize, u64)> {
    (0..LINE_SLOTS).find_map(|place| {
        if line.word(FIRST_TAG_WORD + place) != fingerprint.tag {
            return None;
        }
        let found = slot(line, place)?;
        (found.fingerprint == fingerprint).then_some((place, found.bits))
    })
}

/// A place that is free.
#[inline]
pub(super) fn free(line: &Line) -> Option<usize> {
    (0..LINE_SLOTS).find(|&place| slot(line, place).is_none())
}

/// How many places are free.
#[inline]
pub(super) fn free_count(line: &Line) -> usize {
    (0..LINE_SLOTS).filter(|&place| slot(line, place).is_none()).count()
}

/// Writes a slot.
pub(super) fn set(changing: Changing<'_>, place: usize, slot: Slot) {
    let Slot { fingerprint, bits } = slot;
    changing.set(FIRST_TAG_WORD + place, fingerprint.tag);
    set_rest(changing, place, bits | u64::from(fingerprint.late) << ENTRY_BITS);
}

/// Frees a place.
pub(super) fn clear(changing: Changing<'_>, place: usize) {
    changing.set(FIRST_TAG_WORD + place, 0);
    set_rest(changing, place, 0);
}

/// The entry that bits of a slot say.
#[inline]
pub(super) fn entry(bits: u64) -> Option<Entry> {
    Entry::from_bits(bits)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn full(bits: u64) -> Slot {
        Slot { fingerprint: Fingerprint::new(u64::MAX, u64::MAX), bits }
    }

    #[test]
    fn every_slot_has_bytes_of_its_own_where_the_format_says() {
        let bytes_of = |place: usize| -> Vec<usize> {
            let tag = 8 + 8 * place..16 + 8 * place;
            match place {
                3 => tag.chain(4..8).chain([47, 55, 63]).collect(),
                _ => tag.chain(40 + 8 * place..47 + 8 * place).collect(),
            }
        };
        for place in 0..LINE_SLOTS {
            let line = Line::new();
            let all = (1 << ENTRY_BITS) - 1;
            line.lock().change(|changing| set(changing, place, full(all)));
            let image: Vec<u8> = (0..8).flat_map(|at| line.word(at).to_le_bytes()).collect();
            for (at, &byte) in image.iter().enumerate().skip(4) {
                let expected = if bytes_of(place).contains(&at) { 0xff } else { 0 };
                assert_eq!(byte, expected, "byte {at} of slot {place}");
            }
            assert_eq!(slot(&line, place), Some(full(all)));
            line.lock().change(|changing| clear(changing, place));
            assert!((1..8).all(|at| line.word(at) == 0) && line.word(0) >> 32 == 0);
        }
    }

    #[test]
    fn slots_come_back_beside_others_and_only_for_their_fingerprint() {
        let line = Line::new();
        let of = |place: u64| Slot {
            fingerprint: Fingerprint::new(0x1234_5678_9abc_def0, 0xf00 + place),
            bits: 0xfed_cba9_8765 - (place << 9),
        };
        for place in [2, 0, 3, 1] {
            assert!(free(&line).is_some());
            line.lock().change(|changing| set(changing, place as usize, of(place)));
        }
        assert_eq!((free(&line), free_count(&line)), (None, 0));
        for place in 0..4 {
            assert_eq!(find(&line, of(place).fingerprint), Some((place as usize, of(place).bits)));
        }
        assert_eq!(find(&line, of(4).fingerprint), None);
        line.lock().change(|changing| clear(changing, 3));
        assert_eq!((free(&line), find(&line, of(3).fingerprint)), (Some(3), None));
        assert_eq!(find(&line, of(1).fingerprint), Some((1, of(1).bits)));
    }
}
