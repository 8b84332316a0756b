//! Where the parts of large values lie, as a clean stop has saved it: a stream of words in pieces.
//!
//! `docs/formats/log.md`, "Parts", has the bytes.

use std::collections::BTreeMap;

use super::{LogId, is_stamped, is_zero, stamp, u32_at, u64_at, u128_at};
use crate::position::{Position, SizeClass};

/// The version of the format.
pub const VERSION: u32 = 1;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;

/// Bytes of a piece.
pub const PIECE_BYTES: usize = 65_536;

const MAGIC: [u8; 8] = *b"KELVINPT";
/// Bytes of a piece in front of its words.
const PIECE_HEADER_BYTES: usize = 16;
const WORD_BYTES: usize = 8;

/// Words of a piece.
pub const PIECE_WORDS: usize = (PIECE_BYTES - PIECE_HEADER_BYTES) / WORD_BYTES;

/// Bits of a word that have the size class.
const CLASS_BITS: u32 = 6;

/// Where the parts of values lie, by the positions of their heads.
pub type Places = BTreeMap<Position, Vec<(Position, SizeClass)>>;

/// What the file is of, and how much is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The log.
    pub log: LogId,
    /// The run whose clean stop has written it.
    pub run: u64,
    /// Values.
    pub values: u64,
    /// Words of all of them.
    pub words: u64,
}

impl Header {
    /// That of the file that says where these lie.
    #[must_use]
    pub fn of(log: LogId, run: u64, places: &Places) -> Self {
        let words = places.values().map(|parts| 2 + parts.len() as u64).sum();
        Self { log, run, values: places.len() as u64, words }
    }

    /// Pieces behind it.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.words.div_ceil(PIECE_WORDS as u64)
    }

    /// Bytes of the file; `None` when there is no such file.
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        self.pieces().checked_mul(PIECE_BYTES as u64)?.checked_add(HEADER_BYTES as u64)
    }

    /// Writes it.
    pub fn encode(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.run.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.values.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.words.to_le_bytes());
        stamp(0, bytes, 12);
    }

    /// Reads it; `None` when it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len() == HEADER_BYTES
            && bytes.starts_with(&MAGIC)
            && is_stamped(0, bytes, 12)
            && u32_at(bytes, 8)? == VERSION
            && is_zero(&bytes[56..]);
        if !is_whole {
            return None;
        }
        Some(Self {
            log: LogId(u128_at(bytes, 16)?),
            run: u64_at(bytes, 32)?,
            values: u64_at(bytes, 40)?,
            words: u64_at(bytes, 48)?,
        })
    }

    /// What the checksum of a piece begins with: no piece passes for another's, or for that of
    /// another stop.
    fn seed(&self, number: u64) -> u32 {
        let log = crc32c::crc32c(&self.log.0.to_le_bytes());
        let run = crc32c::crc32c_append(log, &self.run.to_le_bytes());
        crc32c::crc32c_append(run, &number.to_le_bytes())
    }

    /// Writes a piece.
    pub fn encode_piece(&self, number: u64, words: &[u64], piece: &mut [u8]) {
        piece.fill(0);
        let count = words.len() as u64;
        piece[8..16].copy_from_slice(&count.to_le_bytes());
        let places = piece[PIECE_HEADER_BYTES..].chunks_exact_mut(WORD_BYTES);
        words.iter().zip(places).for_each(|(word, at)| at.copy_from_slice(&word.to_le_bytes()));
        stamp(self.seed(number), piece, 0);
    }

    /// The words of a piece; `None` when it is damaged.
    #[must_use]
    pub fn decode_piece(&self, number: u64, piece: &[u8]) -> Option<Vec<u64>> {
        let left = self.words.checked_sub(number.checked_mul(PIECE_WORDS as u64)?)?;
        let count = left.min(PIECE_WORDS as u64);
        let is_whole = piece.len() == PIECE_BYTES
            && is_stamped(self.seed(number), piece, 0)
            && u64_at(piece, 8)? == count;
        let words = piece.get(PIECE_HEADER_BYTES..)?.chunks_exact(WORD_BYTES);
        let words = words.take(usize::try_from(count).ok()?);
        is_whole.then(|| words.filter_map(|word| u64_at(word, 0)).collect())
    }
}

/// The words of all values, in their order.
pub fn words(places: &Places) -> impl Iterator<Item = u64> {
    places.iter().flat_map(|(head, parts)| {
        let of_part = |(at, class): &(Position, SizeClass)| {
            at.units() << CLASS_BITS | u64::from(class.bits())
        };
        [head.units(), parts.len() as u64].into_iter().chain(parts.iter().map(of_part))
    })
}

/// The values of which these are the words; `None` when no words are like this.
#[must_use]
pub fn places(words: &[u64]) -> Option<Places> {
    let mut places = Places::new();
    let mut left = words.iter().copied();
    while let Some(head) = left.next() {
        let count = usize::try_from(left.next()?).ok().filter(|count| *count <= left.len())?;
        let mut parts = Vec::with_capacity(count);
        for word in left.by_ref().take(count) {
            let class = u8::try_from(word & ((1 << CLASS_BITS) - 1)).ok()?;
            parts.push((Position::new(word >> CLASS_BITS)?, SizeClass::from_bits(class)?));
        }
        let is_new = places.insert(Position::new(head)?, parts).is_none();
        if !is_new {
            return None;
        }
    }
    Some(places)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    fn some() -> Places {
        let at = |units| Position::new(units).expect("a position");
        let class = SizeClass::LARGEST;
        let parts = |from: u64, count| (0..count).map(|it| (at(from + it), class)).collect();
        let long = PIECE_WORDS as u64 + 5;
        [(at(7), parts(100, 3)), (at(9), parts(1 << 50, long)), (at(10), parts(1, 0))].into()
    }

    #[test]
    fn places_come_back_piece_by_piece() {
        let places = some();
        let header = Header::of(LogId(5), 3, &places);
        assert_eq!((header.values, header.pieces()), (3, 2));
        let mut block = [0; HEADER_BYTES];
        header.encode(&mut block);
        assert_eq!(&block[..8], b"KELVINPT");
        assert_eq!(block[48..56], header.words.to_le_bytes());
        assert_eq!(Header::decode(&block), Some(header));
        for bit in 0..HEADER_BYTES * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&block), None, "bit {bit} flipped was believed");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        let all: Vec<u64> = words(&places).collect();
        let mut back = Vec::new();
        let mut piece = vec![0xAA; PIECE_BYTES];
        for (number, some) in (0..).zip(all.chunks(PIECE_WORDS)) {
            header.encode_piece(number, some, &mut piece);
            back.extend(header.decode_piece(number, &piece).expect("it is whole"));
            for other in [Header { run: 4, ..header }, Header { log: LogId(6), ..header }] {
                assert_eq!(other.decode_piece(number, &piece), None);
            }
            assert_eq!(header.decode_piece(1 - number, &piece), None);
            for at in [0, 8, 16, PIECE_BYTES - 1] {
                piece[at] ^= 1;
                assert_eq!(header.decode_piece(number, &piece), None, "byte {at}");
                piece[at] ^= 1;
            }
        }
        assert_eq!(super::places(&back), Some(places));
        assert_eq!(super::places(&back[..back.len() - 1]), None, "a value has no end");
        assert_eq!(super::places(&[7, 1, 0]), None, "a part lies nowhere");
    }
}
