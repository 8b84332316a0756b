//! How entries of four to eight bytes lie in a line.

use super::{Changing, Line};
use crate::position::{Entry, position_bits};

/// The lock of an entry of eight bytes.
pub(super) const LOCK_BIT: u64 = 1 << 63;

const VERSION_BYTES: u32 = 4;
const LINE_BYTES: u32 = 64;

/// Bytes of an entry, as a number that the compiler knows wherever it divides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Four,
    Five,
    Six,
    Seven,
    Eight,
}

impl Packing {
    pub(super) fn of_bytes(entry_bytes: u32) -> Option<Self> {
        let all = [Self::Four, Self::Five, Self::Six, Self::Seven, Self::Eight];
        all.into_iter().find(|packing| packing.entry_bytes() == entry_bytes)
    }

    #[inline(always)]
    pub(super) const fn entry_bytes(self) -> u32 {
        match self {
            Self::Four => 4,
            Self::Five => 5,
            Self::Six => 6,
            Self::Seven => 7,
            Self::Eight => 8,
        }
    }

    /// Whether an entry is a word, which needs no version.
    #[inline(always)]
    pub(super) const fn is_lone(self) -> bool {
        matches!(self, Self::Eight)
    }

    /// Entries of a line.
    #[inline(always)]
    pub(super) const fn entries(self) -> u64 {
        let version_bytes = if self.is_lone() { 0 } else { VERSION_BYTES };
        ((LINE_BYTES - version_bytes) / self.entry_bytes()) as u64
    }

    /// Bits of a position: one less of entries that have their lock in them.
    pub(super) const fn position_bits(self) -> u32 {
        let bits = position_bits(self.entry_bytes());
        if self.is_lone() && bits == 58 { 57 } else { bits }
    }

    /// Line and place of an entry.
    #[inline(always)]
    pub(super) fn split(self, slot: u64) -> (u64, usize) {
        #[inline(always)]
        fn by(slot: u64, entries: u64) -> (u64, usize) {
            (slot / entries, (slot % entries) as usize)
        }
        match self {
            Self::Four => by(slot, Self::Four.entries()),
            Self::Five => by(slot, Self::Five.entries()),
            Self::Six => by(slot, Self::Six.entries()),
            Self::Seven => by(slot, Self::Seven.entries()),
            Self::Eight => by(slot, Self::Eight.entries()),
        }
    }

    /// An entry as bits, of which no more than its bytes have are set.
    #[inline]
    pub(super) fn pack(self, entry: Entry) -> u64 {
        match self {
            Self::Four => u64::from(entry.to_narrow_bits()),
            _ => entry.to_bits(),
        }
    }

    /// The entry that bits say; none for 0.
    #[inline]
    pub(super) fn unpack(self, bits: u64) -> Option<Entry> {
        match self {
            Self::Four => Entry::from_narrow_bits(bits as u32),
            _ => Entry::from_bits(bits),
        }
    }

    /// The word that an entry begins in, its bit there, and the bits that it has.
    #[inline(always)]
    const fn bits_of(self, place: usize) -> (usize, u32, u64) {
        let bits = self.entry_bytes() * 8;
        let first = VERSION_BYTES * 8 + place as u32 * bits;
        ((first / 64) as usize, first % 64, (1 << bits) - 1)
    }

    /// The bits of an entry of a line with a version.
    #[inline(always)]
    pub(super) fn read(self, line: &Line, place: usize) -> u64 {
        let (word, bit, mask) = self.bits_of(place);
        let low = line.word(word) >> bit;
        if mask << bit >> bit == mask {
            return low & mask;
        }
        (low | line.word(word + 1) << (64 - bit)) & mask
    }

    /// Sets them.
    #[inline(always)]
    pub(super) fn write(self, changing: Changing<'_>, place: usize, bits: u64) {
        let line = changing.line();
        let (word, bit, mask) = self.bits_of(place);
        changing.set(word, line.word(word) & !(mask << bit) | bits << bit);
        if mask << bit >> bit != mask {
            let shift = 64 - bit;
            changing.set(word + 1, line.word(word + 1) & !(mask >> shift) | bits >> shift);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_a_line_has_bits_of_its_own() {
        for packing in [Packing::Four, Packing::Five, Packing::Six, Packing::Seven] {
            let bytes = packing.entry_bytes() as usize;
            for place in 0..packing.entries() as usize {
                let line = Line::new();
                let all = (1 << (bytes * 8)) - 1;
                line.lock().change(|changing| packing.write(changing, place, all));
                let image: Vec<u8> = (0..8).flat_map(|at| line.word(at).to_le_bytes()).collect();
                let first = 4 + place * bytes;
                for (at, &byte) in image.iter().enumerate().skip(4) {
                    let expected = if (first..first + bytes).contains(&at) { 0xff } else { 0 };
                    assert_eq!(byte, expected, "byte {at} of entry {place} of {bytes} bytes");
                }
                assert_eq!(packing.read(&line, place), all);
                line.lock().change(|changing| packing.write(changing, place, 1 << 7));
                assert_eq!(packing.read(&line, place), 1 << 7);
            }
        }
    }
}
