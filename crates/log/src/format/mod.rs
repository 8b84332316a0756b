//! Bytes on disk, as `docs/formats/log.md` describes them. Nothing here does I/O or keeps state.
//!
//! Every parser takes any bytes and answers with what they are or that they are nothing.

pub mod cursor;
pub mod manifest;
pub mod parts;
pub mod record;
pub mod segment;

/// The most bytes of a key.
pub const KEY_BYTES_MAX: usize = 65_535;

/// The most tags of a record.
pub const TAGS_MAX: usize = 4096;

/// The most bytes of a value that is one record, and of a part of a larger one.
pub const PART_BYTES_MAX: usize = 1 << 18;

/// The most bytes of a value.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;

/// The most parts of a value: 1 GiB in parts of 256 KiB.
pub const PARTS_MAX: usize = 4096;

/// The smallest and greatest block.
pub const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=4096;

/// Which log a file belongs to: random, and never shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId(pub u128);

/// The 128 bits that stand for a key in footers and in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u128);

/// What checksums within one generation of a segment begin with: the CRC32C of log, segment and
/// generation, to be continued with the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed of a generation of a segment.
    #[must_use]
    pub fn new(log: LogId, segment: u32, generation: u64) -> Self {
        let crc = crc32c::crc32c(&log.0.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &u64::from(segment).to_le_bytes());
        let generation = if base::mutant!("log_stale_generation") { 0 } else { generation };
        Self(crc32c::crc32c_append(crc, &generation.to_le_bytes()))
    }

    /// What records begin with: nobody who stores bytes knows it, and it is another one in every
    /// generation. So what looks like a record hardly ever is none, and a scan need not take the
    /// checksum of what anybody has written.
    #[must_use]
    pub fn mark(self) -> [u8; 2] {
        let [low, high, ..] = self.0.to_le_bytes();
        [low, high]
    }

    /// Writes the checksum of `bytes`, which lie at `offset` of the segment, to byte `at` of them.
    ///
    /// # Panics
    /// When there are no four bytes, or too many are before them.
    pub fn stamp(self, offset: u64, bytes: &mut [u8], at: usize) {
        let crc = self.checksum(offset, bytes, at);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Whether byte `at` of `bytes`, which lie at `offset` of the segment, has their checksum.
    fn has_stamped(self, offset: u64, bytes: &[u8], at: usize) -> bool {
        u32_at(bytes, at).is_some_and(|crc| crc == self.checksum(offset, bytes, at))
    }

    fn checksum(self, offset: u64, bytes: &[u8], at: usize) -> u32 {
        // Each call costs as much as a hundred bytes: one for what is short, one for the rest.
        let mut front = Front([0; FRONT_BYTES_MAX]);
        let bytes_of_front = 8 + at + 4;
        front.0[..8].copy_from_slice(&offset.to_le_bytes());
        front.0[8..8 + at].copy_from_slice(&bytes[..at]);
        let crc = crc32c::crc32c_append(self.0, &front.0[..bytes_of_front]);
        crc32c::crc32c_append(crc, &bytes[at + 4..])
    }
}

/// An offset, what is before a checksum, and zeros in its place: up to a whole word, and aligned as
/// the instruction likes it.
#[repr(align(8))]
struct Front([u8; FRONT_BYTES_MAX]);

/// Footers and trailers have eight bytes before their checksum, records four.
const FRONT_BYTES_MAX: usize = 24;

/// Writes the checksum of `bytes`, which continues `seed`, to byte `at` of them.
///
/// # Panics
/// When there are no four bytes.
pub fn stamp(seed: u32, bytes: &mut [u8], at: usize) {
    let crc = checksum(seed, &bytes[..at], &bytes[at + 4..]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Whether byte `at` of `bytes` has their checksum, which continues `seed`.
fn is_stamped(seed: u32, bytes: &[u8], at: usize) -> bool {
    let crc = u32_at(bytes, at);
    crc.is_some_and(|crc| crc == checksum(seed, &bytes[..at], &bytes[at + 4..]))
}

/// The checksum of `head`, of four zeros in the place of the checksum itself, and of `tail`.
fn checksum(seed: u32, head: &[u8], tail: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(seed, head);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), tail)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.get(at..at + 16)?.try_into().ok()?))
}

fn is_zero(bytes: &[u8]) -> bool {
    // Where little is optimised nobody else makes words of bytes.
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| u64::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}
