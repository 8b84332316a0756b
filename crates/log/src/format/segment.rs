//! What is in a segment beside records: header copies, footer, trailer.

use super::{KeyHash, LogId, Seed, is_stamped, is_zero, stamp, u16_at, u32_at, u64_at, u128_at};
use crate::{
    format::record::Kind,
    position::{SizeClass, UNIT_BYTES},
};

/// The version of the format.
pub const VERSION: u32 = 1;

const HEADER_MAGIC: [u8; 8] = *b"KELVINSG";
const FOOTER_MAGIC: [u8; 8] = *b"KELVINFB";
const TRAILER_MAGIC: [u8; 8] = *b"KELVINTR";

/// Bytes of a footer block in front of its entries.
const FOOTER_HEADER_BYTES: usize = 32;

/// Bytes of a footer's entry.
pub const ENTRY_BYTES: usize = 32;

/// Header copies of a segment.
pub const HEADER_COPIES: u64 = 2;

/// What a header copy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The log that the segment belongs to.
    pub log: LogId,
    /// Its number.
    pub segment: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// How often the segment was begun.
    pub generation: u64,
    /// Bytes of the segment.
    pub segment_bytes: u64,
    /// Records with a sequence below this one were dead when it was written.
    pub dead_below: u64,
}

/// Where a copy has its checksum, and what is dead: other than the rest of a header, these cannot
/// be told from its generation once a log was wiped.
const OF_ITS_DAY: [std::ops::Range<usize>; 2] = [12..16, 56..64];

/// Why a header copy is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFlaw {
    /// It is damaged, or was never written.
    Damaged,
    /// It is whole and of a later version, this one.
    Version(u32),
}

impl Header {
    /// Writes the copy into a block.
    pub fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(&HEADER_MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.log.0.to_le_bytes());
        block[32..36].copy_from_slice(&self.segment.to_le_bytes());
        block[36..40].copy_from_slice(&self.block_bytes.to_le_bytes());
        block[40..48].copy_from_slice(&self.generation.to_le_bytes());
        block[48..56].copy_from_slice(&self.segment_bytes.to_le_bytes());
        block[56..64].copy_from_slice(&self.dead_below.to_le_bytes());
        stamp(0, block, 12);
    }

    /// Whether the byte at a place is the same in every header of the log that differs from this
    /// one in nothing but what was dead when it was written.
    #[must_use]
    pub fn fixes(&self, at: usize) -> bool {
        self.dead_below == 0 || OF_ITS_DAY.iter().all(|range| !range.contains(&at))
    }

    /// Whether `block` may be what crashes have left of copy `copy` while the segment was freed,
    /// and the other copy is `self`: a mixture of this generation with the one before, where the
    /// second copy of that freeing was torn, and with the next, for which it was written again.
    /// `dead_below` is that of the log.
    #[must_use]
    pub fn is_torn(&self, copy: u64, block: &[u8], dead_below: u64) -> bool {
        if copy != (self.generation + 1) % HEADER_COPIES || block.len() < 64 {
            return false;
        }
        let mut encoded = vec![0; block.len()];
        let mut of = |generation| {
            Self { generation, ..*self }.encode(&mut encoded);
            encoded.clone()
        };
        let earlier = self.generation.saturating_sub(1).max(1);
        let (before, this, next) = (of(earlier), of(self.generation), of(self.generation + 1));
        let now = Self { dead_below: self.dead_below.max(dead_below), ..*self };
        let of_any = |(at, byte): (usize, &u8)| {
            !now.fixes(at) || [&before, &this, &next].iter().any(|it| it[at] == *byte)
        };
        block.iter().enumerate().all(of_any)
    }

    /// Reads a copy from a block.
    ///
    /// # Errors
    /// When it is damaged, or of a version that this program does not know.
    pub fn decode(block: &[u8]) -> Result<Self, HeaderFlaw> {
        let is_whole =
            block.starts_with(&HEADER_MAGIC) && block.len() >= 64 && is_stamped(0, block, 12);
        if !is_whole {
            return Err(HeaderFlaw::Damaged);
        }
        let version = u32_at(block, 8).ok_or(HeaderFlaw::Damaged)?;
        if version != VERSION {
            return Err(HeaderFlaw::Version(version));
        }
        let read = || {
            let header = Self {
                log: LogId(u128_at(block, 16)?),
                segment: u32_at(block, 32)?,
                block_bytes: u32_at(block, 36)?,
                generation: u64_at(block, 40)?,
                segment_bytes: u64_at(block, 48)?,
                dead_below: u64_at(block, 56)?,
            };
            (header.generation != 0 && is_zero(&block[64..])).then_some(header)
        };
        read().ok_or(HeaderFlaw::Damaged)
    }
}

/// A record as the footer lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The hash of its key.
    pub hash: KeyHash,
    /// Its sequence; of a part its upload.
    pub sequence: u64,
    /// Where it begins in the segment, in units.
    pub unit: u32,
    /// What it is; neither padding nor a batch.
    pub kind: Kind,
    /// The number of its size class.
    pub class: u8,
    /// Of a part its number.
    pub part: u16,
}

impl Listed {
    /// What footers, and recovery, are sorted by. A tombstone comes behind what is as old.
    #[must_use]
    pub fn order(&self) -> (u64, bool, u32) {
        (self.sequence, self.kind == Kind::Tombstone, self.unit)
    }

    /// Where it begins in the segment.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.unit) * u64::from(UNIT_BYTES)
    }

    /// Whether a footer that has this means the record `found`, whose class is by its bytes. A
    /// footer written before classes had their margin may have the class above.
    #[must_use]
    pub fn means(&self, found: &Self) -> bool {
        let is_class = self.class == found.class || self.class == found.class + 1;
        is_class && Self { class: found.class, ..*self } == *found
    }

    fn encode(&self, bytes: &mut [u8]) {
        bytes[..16].copy_from_slice(&self.hash.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.unit.to_le_bytes());
        bytes[28] = self.kind as u8;
        bytes[29] = self.class;
        bytes[30..32].copy_from_slice(&self.part.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let is_listed = |kind: &Kind| kind.decides() || *kind == Kind::Part;
        let kind = Kind::from_bits(*bytes.get(28)?).filter(is_listed)?;
        let part = u16_at(bytes, 30).filter(|part| kind == Kind::Part || *part == 0)?;
        Some(Self {
            hash: KeyHash(u128_at(bytes, 0)?),
            sequence: u64_at(bytes, 16)?,
            unit: u32_at(bytes, 24)?,
            kind,
            class: *bytes.get(29).filter(|class| **class <= SizeClass::LARGEST.bits())?,
            part,
        })
    }
}

/// Entries of a full block of a footer.
#[must_use]
pub fn entries_of_block(block_bytes: u32) -> usize {
    (block_bytes as usize - FOOTER_HEADER_BYTES) / ENTRY_BYTES
}

/// Blocks of a footer of so many entries.
#[must_use]
pub fn footer_blocks(entries: usize, block_bytes: u32) -> u64 {
    entries.div_ceil(entries_of_block(block_bytes)) as u64
}

/// Writes block `number` of a footer, which lies at `offset` of the segment.
pub fn encode_footer_block(
    entries: &[Listed],
    number: u64,
    seed: Seed,
    offset: u64,
    block: &mut [u8],
) {
    block.fill(0);
    block[..8].copy_from_slice(&FOOTER_MAGIC);
    let count = u32::try_from(entries.len()).expect("invariant: a block has few entries");
    block[12..16].copy_from_slice(&count.to_le_bytes());
    block[16..24].copy_from_slice(&number.to_le_bytes());
    for (entry, bytes) in
        entries.iter().zip(block[FOOTER_HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES))
    {
        entry.encode(bytes);
    }
    seed.stamp(offset, block, 8);
}

/// The entries of block `number` of a footer, which lies at `offset` of the segment; `None` when it
/// is not valid.
#[must_use]
pub fn decode_footer_block(
    block: &[u8],
    number: u64,
    seed: Seed,
    offset: u64,
) -> Option<Vec<Listed>> {
    let is_whole = block.len() > FOOTER_HEADER_BYTES
        && block.starts_with(&FOOTER_MAGIC)
        && seed.has_stamped(offset, block, 8)
        && u64_at(block, 16)? == number
        && u64_at(block, 24)? == 0;
    let count = u32_at(block, 12)? as usize;
    let entries = block.get(FOOTER_HEADER_BYTES..)?.chunks_exact(ENTRY_BYTES);
    if !is_whole || count > entries.len() {
        return None;
    }
    if !is_zero(&block[FOOTER_HEADER_BYTES + count * ENTRY_BYTES..]) {
        return None;
    }
    entries.take(count).map(Listed::decode).collect()
}

/// The last block of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Where the records end and the footer begins.
    pub records_end: u64,
    /// Entries of the footer.
    pub entries: u64,
    /// The smallest sequence of what decides; 0 when nothing does.
    pub smallest_sequence: u64,
    /// The greatest sequence; 0 when there is none.
    pub greatest_sequence: u64,
    /// How many keys the index had, about, when this was written; 0 when nobody has counted.
    pub keys: u64,
}

impl Trailer {
    /// Writes it into a block at `offset` of the segment.
    pub fn encode(&self, seed: Seed, offset: u64, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(&TRAILER_MAGIC);
        block[16..24].copy_from_slice(&self.records_end.to_le_bytes());
        block[24..32].copy_from_slice(&self.entries.to_le_bytes());
        block[32..40].copy_from_slice(&self.smallest_sequence.to_le_bytes());
        block[40..48].copy_from_slice(&self.greatest_sequence.to_le_bytes());
        block[48..56].copy_from_slice(&self.keys.to_le_bytes());
        seed.stamp(offset, block, 8);
    }

    /// Reads it from a block at `offset` of the segment; `None` when it is not valid.
    #[must_use]
    pub fn decode(block: &[u8], seed: Seed, offset: u64) -> Option<Self> {
        let is_whole = block.len() >= 56
            && block.starts_with(&TRAILER_MAGIC)
            && seed.has_stamped(offset, block, 8)
            && u32_at(block, 12)? == 0
            && is_zero(&block[56..]);
        if !is_whole {
            return None;
        }
        Some(Self {
            records_end: u64_at(block, 16)?,
            entries: u64_at(block, 24)?,
            smallest_sequence: u64_at(block, 32)?,
            greatest_sequence: u64_at(block, 40)?,
            keys: u64_at(block, 48)?,
        })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
