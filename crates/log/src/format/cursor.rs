//! Where an iteration stands, as bytes that may be kept.
//!
//! They name the log and carry a checksum: what comes back is what was given out, or nothing.

use super::{LogId, is_stamped, is_zero, stamp, u32_at, u64_at, u128_at};
use crate::plan::SegmentId;

/// Bytes of a cursor.
pub const CURSOR_BYTES: usize = 80;

const MAGIC: [u8; 8] = *b"KELVINCU";
const CRC_AT: usize = 8;

/// Where an iteration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The log that it is of.
    pub log: LogId,
    /// Where in it.
    pub place: Place,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the order of keys.
    Key {
        /// The first key that was not shown.
        next: u64,
    },
    /// In the order of insertion.
    Record {
        /// Records before this sequence are none of the iteration's.
        from: u64,
        /// Nor are those from this one on; 0 when the iteration has come to its end, and goes on
        /// with what was written since.
        upto: u64,
        /// The smallest sequence of the segment.
        begun: u64,
        /// The segment.
        segment: SegmentId,
        /// Its generation; 0 before the first segment.
        generation: u64,
        /// Where in it the next record may begin.
        offset: u64,
    },
}

impl Cursor {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; CURSOR_BYTES] {
        let mut bytes = [0; CURSOR_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[16..32].copy_from_slice(&self.log.0.to_le_bytes());
        let (kind, words) = match self.place {
            Place::Key { next } => (1_u32, [next, 0, 0, 0, 0, 0]),
            Place::Record { from, upto, begun, segment, generation, offset } => {
                (2, [from, upto, begun, segment.0.into(), generation, offset])
            }
        };
        bytes[12..16].copy_from_slice(&kind.to_le_bytes());
        for (word, place) in words.iter().zip(bytes[32..].chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        stamp(0, &mut bytes, CRC_AT);
        bytes
    }

    /// Reads it; `None` when it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len() == CURSOR_BYTES
            && bytes.starts_with(&MAGIC)
            && is_stamped(0, bytes, CRC_AT);
        if !is_whole {
            return None;
        }
        let word = |number: usize| u64_at(bytes, 32 + number * 8);
        let place = match u32_at(bytes, 12)? {
            1 if is_zero(&bytes[40..]) => Place::Key { next: word(0)? },
            2 => Place::Record {
                from: word(0)?,
                upto: word(1)?,
                begun: word(2)?,
                segment: SegmentId(u32::try_from(word(3)?).ok()?),
                generation: word(4)?,
                offset: word(5)?,
            },
            _ => return None,
        };
        Some(Self { log: LogId(u128_at(bytes, 16)?), place })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_a_damaged_one_does_not() {
        let record = Place::Record {
            from: 1,
            upto: 2,
            begun: 3,
            segment: SegmentId(u32::MAX),
            generation: 5,
            offset: 6,
        };
        for place in [record, Place::Key { next: u64::MAX }] {
            let cursor = Cursor { log: LogId(u128::MAX - 3), place };
            let bytes = cursor.encode();
            assert_eq!(Cursor::decode(&bytes), Some(cursor));
            for bit in 0..CURSOR_BYTES * 8 {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Cursor::decode(&bytes), None, "bit {bit}");
            }
            assert_eq!(Cursor::decode(&bytes[1..]), None);
        }
    }
}
