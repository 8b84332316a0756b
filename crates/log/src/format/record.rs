//! Records: what a key is, what a large value consists of, what takes effect together, and padding.
//!
//! There is exactly one way to write a record, and what is not written in it is no record.

use super::{
    KEY_BYTES_MAX, PART_BYTES_MAX, PARTS_MAX, Seed, TAGS_MAX, VALUE_BYTES_MAX, is_zero, u16_at,
    u32_at, u64_at,
};
use crate::position::{Position, SizeClass, UNIT_BYTES};

/// Bytes of a record in front of what only some have.
pub const HEADER_BYTES: usize = 24;

/// Where the checksum is.
const CRC_AT: usize = 4;

const TOKEN: u8 = 1;
const EXPIRY: u8 = 1 << 1;
const FLAGS: u8 = 1 << 2;
const STALE: u8 = 1 << 3;
const RECACHED: u8 = 1 << 4;
const MEMBER: u8 = 1 << 5;
const MARKS: u8 = TOKEN | EXPIRY | FLAGS | STALE | RECACHED | MEMBER;

/// Bytes of a part's key, which is the hash of the value's key.
pub const PART_KEY_BYTES: usize = 16;

/// The most records that take effect together: what 16 bits count.
pub const BATCH_RECORDS_MAX: usize = 65_535;

/// Bytes of the record in front of those that take effect together.
pub const BATCH_BYTES: usize = HEADER_BYTES.next_multiple_of(UNIT_BYTES as usize);

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A key with its value.
    Value = 1,
    /// A key that was removed.
    Tombstone = 2,
    /// A part of a large value.
    Part = 3,
    /// A key with where the parts of its value lie.
    Head = 4,
    /// Nothing, to the end of the block.
    Padding = 5,
    /// The beginning of records that take effect together: those behind it, side by side.
    Batch = 6,
}

impl Kind {
    /// The kind of this number.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        [Self::Value, Self::Tombstone, Self::Part, Self::Head, Self::Padding, Self::Batch]
            .into_iter()
            .find(|kind| *kind as u8 == bits)
    }

    /// Whether it says what its key is: the newest such record of a key counts.
    #[must_use]
    pub fn decides(self) -> bool {
        matches!(self, Self::Value | Self::Tombstone | Self::Head)
    }

    /// Whether its count is a number of its own, and not that of tags.
    fn is_numbered(self) -> bool {
        matches!(self, Self::Part | Self::Batch)
    }
}

/// A record, its bytes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its place in the order of writes; of a part the upload; of padding how much is flushed; of a
    /// batch the bytes of its records.
    pub sequence: u64,
    /// The CAS token; the sequence when no other was set.
    pub token: u64,
    /// When it expires, in milliseconds since the Unix epoch; 0 is never.
    pub expiry_ms: u64,
    /// Client flags.
    pub flags: u32,
    /// Whether it was marked stale.
    pub is_stale: bool,
    /// Whether a client was told that it recaches the value.
    pub is_recached: bool,
    /// Whether it takes effect together with others.
    pub is_member: bool,
    /// Of a part its number; of a batch how many records it has.
    pub part: u16,
    /// Tags, eight bytes each.
    pub tags: &'a [u8],
    /// The key; of a part the hash of it.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// They do not begin as one.
    #[error("no record begins there")]
    NoRecord,
    /// They are fewer than they say.
    #[error("the record is cut off")]
    Short,
    /// The checksum does not fit, or not in this place.
    #[error("the checksum is wrong")]
    Checksum,
    /// The checksum fits, but no record is written like this.
    #[error("the record is malformed")]
    Form,
}

impl<'a> Record<'a> {
    /// A record of `kind` of `key`, all else absent.
    #[must_use]
    pub fn new(kind: Kind, sequence: u64, key: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            kind,
            sequence,
            token: sequence,
            expiry_ms: 0,
            flags: 0,
            is_stale: false,
            is_recached: false,
            is_member: false,
            part: 0,
            tags: &[],
            key,
            value,
        }
    }

    /// What stands in front of `count` records of `bytes` bytes that take effect together.
    #[must_use]
    pub fn batch(count: u16, bytes: u64) -> Self {
        Self { part: count, ..Self::new(Kind::Batch, bytes, &[], &[]) }
    }

    fn marks(&self) -> u8 {
        let when = |is: bool, mark| if is { mark } else { 0 };
        when(self.token != self.sequence, TOKEN)
            | when(self.expiry_ms != 0, EXPIRY)
            | when(self.flags != 0, FLAGS)
            | when(self.is_stale, STALE)
            | when(self.is_recached, RECACHED)
            | when(self.is_member, MEMBER)
    }

    /// Bytes that it takes on disk.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let fields = optional_bytes(self.marks());
        let bytes = HEADER_BYTES + fields + self.tags.len() + self.key.len() + self.value.len();
        bytes.next_multiple_of(UNIT_BYTES as usize)
    }

    /// Writes the record into `bytes`, which are [`Record::bytes`] many and lie at `offset` of the
    /// segment.
    ///
    /// # Panics
    /// When they are not as many, or the record breaks a limit of the format.
    pub fn encode(&self, seed: Seed, offset: u64, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), self.bytes(), "a record has its place");
        let count = if self.kind.is_numbered() { self.part.into() } else { self.tags.len() / 8 };
        let of = |length: usize| u32::try_from(length).expect("invariant: lengths are limited");
        let half = |length: usize| u16::try_from(length).expect("invariant: lengths are limited");
        let marks = self.marks();
        bytes[..2].copy_from_slice(&seed.mark());
        bytes[2] = self.kind as u8;
        bytes[3] = marks;
        bytes[8..10].copy_from_slice(&half(self.key.len()).to_le_bytes());
        bytes[10..12].copy_from_slice(&half(count).to_le_bytes());
        bytes[12..16].copy_from_slice(&of(self.value.len()).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        let mut at = HEADER_BYTES;
        let mut push = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        if marks & TOKEN != 0 {
            push(&self.token.to_le_bytes());
        }
        if marks & EXPIRY != 0 {
            push(&self.expiry_ms.to_le_bytes()[..6]);
        }
        if marks & FLAGS != 0 {
            push(&self.flags.to_le_bytes());
        }
        push(self.tags);
        push(self.key);
        push(self.value);
        bytes[at..].fill(0);
        seed.stamp(offset, bytes, CRC_AT);
    }

    /// The record that begins `bytes`, which lie at `offset` of the segment, and how many of them
    /// it takes.
    ///
    /// # Errors
    /// Why there is none.
    pub fn decode(bytes: &'a [u8], seed: Seed, offset: u64) -> Result<(Self, usize), Flaw> {
        let shape = Shape::read(bytes, seed)?;
        let whole = bytes.get(..shape.bytes).ok_or(Flaw::Short)?;
        // What believes a header without its checksum believes a damaged one.
        let is_checked = !base::mutant!("log_checksum_without_header");
        if is_checked && !seed.has_stamped(offset, whole, CRC_AT) {
            return Err(Flaw::Checksum);
        }
        let record = shape.fields(whole).ok_or(Flaw::Form)?;
        if record.is_written_so(&shape) { Ok((record, shape.bytes)) } else { Err(Flaw::Form) }
    }

    /// The sequence of the value that `bytes`, which are memory that nobody else writes to, begin
    /// with, if this one can be written over it: it is of the same key, as many bytes long, and
    /// takes effect alone.
    #[must_use]
    pub fn fits_over(&self, bytes: &[u8], seed: Seed) -> Option<u64> {
        let shape = Shape::read(bytes, seed).ok()?;
        let is_alone = self.kind == Kind::Value
            && shape.kind == Kind::Value
            && (shape.marks | self.marks()) & MEMBER == 0;
        let key_at = HEADER_BYTES + optional_bytes(shape.marks) + shape.tags_bytes();
        let is_alone = is_alone || base::mutant!("log_overwritten_in_a_batch");
        let is_as_long = shape.bytes == self.bytes() || base::mutant!("log_overwritten_any_length");
        let is_its = bytes.get(key_at..key_at + shape.key_bytes) == Some(self.key);
        u64_at(bytes, 16).filter(|_| is_alone && is_as_long && is_its)
    }

    fn is_written_so(&self, shape: &Shape) -> bool {
        let is_plain = self.tags.is_empty() && shape.marks == 0;
        let has_key = (1..=KEY_BYTES_MAX).contains(&self.key.len());
        let is_kind = match self.kind {
            Kind::Value => has_key && self.value.len() <= PART_BYTES_MAX,
            Kind::Tombstone => has_key && self.value.is_empty() && self.tags.is_empty(),
            Kind::Part => {
                let is_numbered = usize::from(self.part) < PARTS_MAX;
                let has_value = (1..=PART_BYTES_MAX).contains(&self.value.len());
                self.key.len() == PART_KEY_BYTES && is_plain && is_numbered && has_value
            }
            Kind::Head => has_key && Parts::parse(self.value).is_some(),
            Kind::Padding => self.key.is_empty() && is_plain && is_zero(self.value),
            Kind::Batch => {
                let is_empty = self.key.is_empty() && self.value.is_empty();
                is_empty && is_plain && self.part != 0 && self.sequence != 0
            }
        };
        is_kind && self.tags.len() <= TAGS_MAX * 8 && self.marks() == shape.marks
    }
}

fn optional_bytes(marks: u8) -> usize {
    let when = |mark, bytes| if marks & mark != 0 { bytes } else { 0 };
    when(TOKEN, 8) + when(EXPIRY, 6) + when(FLAGS, 4)
}

/// What the header says of a record's lengths, before anything is checked.
struct Shape {
    kind: Kind,
    marks: u8,
    key_bytes: usize,
    count: u16,
    value_bytes: usize,
    /// All of it.
    bytes: usize,
}

impl Shape {
    fn read(bytes: &[u8], seed: Seed) -> Result<Self, Flaw> {
        // As one number, not by a call: it is asked at each unit of what is no record.
        if bytes.first_chunk() != Some(&seed.mark()) {
            return Err(Flaw::NoRecord);
        }
        let header = bytes.get(..HEADER_BYTES).ok_or(Flaw::Short)?;
        let kind = Kind::from_bits(header[2]).ok_or(Flaw::NoRecord)?;
        let marks = header[3];
        let key_bytes = usize::from(u16_at(header, 8).ok_or(Flaw::Short)?);
        let count = u16_at(header, 10).ok_or(Flaw::Short)?;
        let value_bytes = u32_at(header, 12).ok_or(Flaw::Short)? as usize;
        if marks & !MARKS != 0 || value_bytes > PART_BYTES_MAX {
            return Err(Flaw::NoRecord);
        }
        let mut shape = Self { kind, marks, key_bytes, count, value_bytes, bytes: 0 };
        let fields = optional_bytes(marks) + shape.tags_bytes() + key_bytes + value_bytes;
        shape.bytes = (HEADER_BYTES + fields).next_multiple_of(UNIT_BYTES as usize);
        if shape.bytes > SizeClass::LARGEST.bytes() as usize {
            return Err(Flaw::NoRecord);
        }
        Ok(shape)
    }

    fn tags_bytes(&self) -> usize {
        if self.kind.is_numbered() { 0 } else { usize::from(self.count) * 8 }
    }

    fn fields<'a>(&self, whole: &'a [u8]) -> Option<Record<'a>> {
        let sequence = u64_at(whole, 16)?;
        let mut rest = whole.get(HEADER_BYTES..)?;
        let mut take = |bytes: usize| {
            let (part, behind) = rest.split_at_checked(bytes)?;
            rest = behind;
            Some(part)
        };
        let mut number = |mark, bytes: usize| {
            let mut word = [0; 8];
            if self.marks & mark != 0 {
                word[..bytes].copy_from_slice(take(bytes)?);
            }
            Some(u64::from_le_bytes(word))
        };
        let (token, expiry_ms) = (number(TOKEN, 8)?, number(EXPIRY, 6)?);
        let flags = number(FLAGS, 4)?;
        let tags = take(self.tags_bytes())?;
        let key = take(self.key_bytes)?;
        let value = take(self.value_bytes)?;
        is_zero(rest).then_some(Record {
            kind: self.kind,
            sequence,
            token: if self.marks & TOKEN == 0 { sequence } else { token },
            expiry_ms,
            flags: u32::try_from(flags).ok()?,
            is_stale: self.marks & STALE != 0,
            is_recached: self.marks & RECACHED != 0,
            is_member: self.marks & MEMBER != 0,
            part: if self.kind.is_numbered() { self.count } else { 0 },
            tags,
            key,
            value,
        })
    }
}

/// The value of a head: how long the value is, and where its parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Bytes of the whole value.
    pub value_bytes: u64,
    /// The upload that wrote the parts.
    pub upload: u64,
    positions: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Reads the value of a head; `None` when it is none.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (value_bytes, upload) = (u64_at(value, 0)?, u64_at(value, 8)?);
        let parts = Self { value_bytes, upload, positions: value.get(16..)? };
        let is_aligned = parts.positions.len().is_multiple_of(8);
        let is_counted = (1..=PARTS_MAX).contains(&(parts.positions.len() / 8));
        let is_long = (1..=VALUE_BYTES_MAX).contains(&value_bytes);
        let has_places = parts.positions.chunks_exact(8).all(|position| !is_zero(position));
        (is_aligned && is_counted && is_long && has_places).then_some(parts)
    }

    /// The value of a head whose parts lie at `positions`.
    #[must_use]
    pub fn encode(value_bytes: u64, upload: u64, positions: &[Position]) -> Vec<u8> {
        let mut value = Vec::with_capacity(16 + positions.len() * 8);
        value.extend(value_bytes.to_le_bytes());
        value.extend(upload.to_le_bytes());
        value.extend(positions.iter().flat_map(|position| position.units().to_le_bytes()));
        value
    }

    /// Where the parts lie, in their order.
    pub fn positions(self) -> impl ExactSizeIterator<Item = Position> + use<'a> {
        self.positions.chunks_exact(8).map(|bytes| {
            let units = u64_at(bytes, 0).and_then(Position::new);
            units.expect("invariant: parse has looked at every position")
        })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
