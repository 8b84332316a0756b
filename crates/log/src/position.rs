//! Where a record lies, and about how long it is: what an index stores for a key.
//!
//! `docs/formats/log.md` has the layout. Thread safety: plain values.

use std::num::NonZeroU64;

/// Bytes of the unit that records are aligned to and positions are counted in.
pub const UNIT_BYTES: u32 = 16;

/// Bits of a size class beside a position of five bytes and more.
pub const CLASS_BITS: u32 = 6;

/// Bits of a size class beside a position of four bytes.
pub const NARROW_CLASS_BITS: u32 = 2;

/// Bits of a position in a flat index whose entries have `entry_bytes` bytes, 4 to 8: 30, 34, 42,
/// 50 or 57; of eight bytes one bit is the lock.
///
/// # Panics
/// When `entry_bytes` is not 4 to 8.
#[must_use]
pub const fn position_bits(entry_bytes: u32) -> u32 {
    assert!(entry_bytes >= 4 && entry_bytes <= 8, "an entry has 4 to 8 bytes");
    match entry_bytes {
        4 => 32 - NARROW_CLASS_BITS,
        8 => 64 - CLASS_BITS - 1,
        _ => entry_bytes * 8 - CLASS_BITS,
    }
}

/// A record's place: units of [`UNIT_BYTES`] from the start of the log, all segments laid end to
/// end in the order of their numbers. Never 0, which is the header of segment 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(NonZeroU64);

impl Position {
    /// The position of unit `units`; `None` for 0.
    #[must_use]
    pub const fn new(units: u64) -> Option<Self> {
        match NonZeroU64::new(units) {
            Some(units) => Some(Self(units)),
            None => None,
        }
    }

    /// Units from the start of the log.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.0.get()
    }
}

/// About how many bytes a record takes: the least class that holds it, so that one read of the
/// class fetches the whole record. Four classes an octave, and one that marks a tombstone.
///
/// Of `u` units, classes 0 to 3 are 4 to 7, and every four more double them: 8, 10, 12, 14, 16,
/// 20 and so on. From 64 units (1 KiB) on a class holds 8 units (128 bytes) more: a value
/// of a power of two, which is what most large values are, and its header and key would else lie
/// just above a class, and be read as a quarter more than they have. The last is of 24,584 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// A removed key: its record is a tombstone, which no get has to read.
    pub const TOMBSTONE: Self = Self((1 << CLASS_BITS) - 1);

    /// The largest class of a record.
    pub const LARGEST: Self = Self(50);

    /// The first class that holds [`Self::MARGIN_UNITS`] more than its share of an octave.
    const WITH_MARGIN: u8 = 16;

    /// Units that a class from 64 units on holds beyond them: 128 bytes, for what a record has
    /// beside its value.
    const MARGIN_UNITS: u32 = 8;

    /// What a tombstone counts as in live bytes. Its key's length is not kept, so this is a share,
    /// not a size; what one adds the other takes away.
    const TOMBSTONE_BYTES: u32 = 64;

    /// The narrow classes beside a position of four bytes, the tombstone aside: up to 4 KiB and
    /// the margin, up to 64 KiB and the margin, and the rest.
    const NARROW: [Self; 3] = [Self(24), Self(40), Self::LARGEST];

    /// The least class that holds `bytes` bytes; `None` above the largest.
    #[must_use]
    pub fn of_bytes(bytes: u32) -> Option<Self> {
        let units = bytes.div_ceil(UNIT_BYTES).max(4);
        // The last class without the margin is of 56 units.
        let units = if units > 56 { (units - Self::MARGIN_UNITS).max(57) } else { units };
        let octave = units.ilog2() - 2;
        let quarter_units = 1 << octave;
        let class = 4 * octave + units.div_ceil(quarter_units) - 4;
        (class <= u32::from(Self::LARGEST.0)).then_some(Self(u8::try_from(class).ok()?))
    }

    /// The class of this number; `None` when no class has it.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits <= Self::LARGEST.0 || bits == Self::TOMBSTONE.0 { Some(Self(bits)) } else { None }
    }

    /// Its number, of [`CLASS_BITS`] bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The most bytes of a record of this class; of a tombstone, what it counts as.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        if self.is_tombstone() {
            return Self::TOMBSTONE_BYTES;
        }
        let (octave, quarter) = (self.0 / 4, self.0 as u32 % 4);
        let margin = if self.0 < Self::WITH_MARGIN { 0 } else { Self::MARGIN_UNITS };
        (((4 + quarter) << octave) + margin) * UNIT_BYTES
    }

    /// Whether it marks a tombstone.
    #[must_use]
    pub const fn is_tombstone(self) -> bool {
        self.0 == Self::TOMBSTONE.0
    }

    /// This class as one of the four narrow ones, of [`NARROW_CLASS_BITS`] bits.
    #[must_use]
    pub fn narrow(self) -> u8 {
        let sizes = Self::NARROW.iter().position(|narrow| self <= *narrow);
        u8::try_from(sizes.unwrap_or(Self::NARROW.len())).unwrap_or(u8::MAX)
    }

    /// The class that a narrow one stands for; of the two low bits of `bits`.
    #[must_use]
    pub fn from_narrow(bits: u8) -> Self {
        Self::NARROW.get(usize::from(bits & 3)).copied().unwrap_or(Self::TOMBSTONE)
    }
}

/// What an index has for a key: where its newest record lies, and its size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Where the newest record of the key begins.
    pub position: Position,
    /// Its size, or that it is a tombstone.
    pub class: SizeClass,
}

impl Entry {
    /// The entry as a word that is never 0: position, then the class in the low [`CLASS_BITS`].
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.position.units() << CLASS_BITS | self.class.0 as u64
    }

    /// The entry that a word holds; `None` for 0 and for what no entry is written as.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        let class = SizeClass::from_bits((bits & ((1 << CLASS_BITS) - 1)) as u8);
        match (Position::new(bits >> CLASS_BITS), class) {
            (Some(position), Some(class)) => Some(Self { position, class }),
            _ => None,
        }
    }

    /// The entry as 32 bits: a position of 30 bits, then the narrow class.
    #[must_use]
    pub fn to_narrow_bits(self) -> u32 {
        let units = self.position.units() as u32;
        units << NARROW_CLASS_BITS | u32::from(self.class.narrow())
    }

    /// The entry that 32 bits hold, its class widened; `None` for position 0.
    #[must_use]
    pub fn from_narrow_bits(bits: u32) -> Option<Self> {
        let position = Position::new(u64::from(bits >> NARROW_CLASS_BITS))?;
        Some(Self { position, class: SizeClass::from_narrow(bits as u8) })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::{Entry, Position, SizeClass, position_bits};

    #[test]
    fn classes_hold_what_they_are_for_and_step_by_a_quarter_beside_the_margin() {
        let mut previous = 64;
        for bits in 0..=SizeClass::LARGEST.bits() {
            let class = SizeClass::from_bits(bits).unwrap();
            let bytes = class.bytes();
            assert_eq!(SizeClass::of_bytes(bytes), Some(class));
            assert_eq!(SizeClass::of_bytes(bytes - 15), Some(class));
            // The first with the margin is the only one that steps by more than a quarter.
            let margin = if bits == 16 { 128 } else { 0 };
            assert!(bytes <= previous + previous / 4 + margin, "class {bits} of {bytes} bytes");
            if bits > 0 {
                assert_eq!(SizeClass::of_bytes(previous + 1), Some(class));
            }
            previous = bytes;
        }
        assert_eq!(previous, 393_344);
        assert_eq!(SizeClass::of_bytes(393_345), None);
        assert_eq!(SizeClass::of_bytes(u32::MAX), None);
        assert_eq!(SizeClass::from_bits(51), None);
    }

    #[test]
    fn a_value_of_a_power_of_two_and_its_header_are_read_with_little_more() {
        for (bytes, class_bytes) in [
            (896, 896),
            (897, 1152),
            (1024 + 60, 1152),
            (4096 + 60, 4224),
            (65_536 + 60, 65_664),
            (262_144 + 128, 262_272),
            (262_144 + 129, 327_808),
        ] {
            assert_eq!(SizeClass::of_bytes(bytes).unwrap().bytes(), class_bytes, "{bytes} bytes");
        }
    }

    #[test]
    fn narrow_classes_hold_the_wide_ones() {
        for (bytes, narrow, read_bytes) in
            [(1, 0, 4224), (4224, 0, 4224), (4225, 1, 65_664), (65_665, 2, 393_344)]
        {
            let class = SizeClass::of_bytes(bytes).unwrap();
            assert_eq!(class.narrow(), narrow);
            assert_eq!(SizeClass::from_narrow(narrow).bytes(), read_bytes);
        }
        assert_eq!(SizeClass::TOMBSTONE.narrow(), 3);
        assert_eq!(SizeClass::from_narrow(3), SizeClass::TOMBSTONE);
    }

    #[test]
    fn entries_come_back_from_their_words() {
        for (entry_bytes, bits) in [(4, 30), (5, 34), (6, 42), (7, 50), (8, 57)] {
            assert_eq!(position_bits(entry_bytes), bits);
            let position = Position::new((1 << bits) - 1).unwrap();
            let entry = Entry { position, class: SizeClass::TOMBSTONE };
            assert_eq!(Entry::from_bits(entry.to_bits()), Some(entry));
        }
        let entry = Entry { position: Position::new((1 << 30) - 1).unwrap(), class: SizeClass(24) };
        assert_eq!(Entry::from_narrow_bits(entry.to_narrow_bits()), Some(entry));
        assert_eq!(Entry::from_bits(63), None);
        assert_eq!(Entry::from_bits(1 << 6 | 51), None);
        assert_eq!(Entry::from_narrow_bits(3), None);
    }
}
