//! A record as bytes with checksums.

use super::{Entry, KEY_BYTES_MAX, Key, TAGS_BYTES_MAX, VALUE_BYTES_MAX};

/// What a file begins with.
pub(super) const MAGIC: [u8; 8] = *b"KELVINDU";

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// Bytes in front of the first record.
pub(super) const HEADER_BYTES: usize = 16;

/// Bytes of a record in front of its tags.
pub(super) const FRONT_BYTES: usize = 40;

/// Where the checksum of front, tags and key is.
const CRC_AT: usize = 36;

const RECORD: u8 = 1;
const END: u8 = 2;

const STALE: u8 = 1;
const RECACHED: u8 = 1 << 1;
const INTEGER: u8 = 1 << 2;

/// What a file begins with.
pub(super) fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// What stands in front of tags, key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Front {
    marks: u8,
    pub(super) key_bytes: usize,
    pub(super) tags_bytes: usize,
    flags: u32,
    /// Of the end: how many records there are.
    pub(super) value_bytes: u64,
    token: u64,
    expiry_ms: u64,
    crc: u32,
    is_end: bool,
}

impl Front {
    /// Front, tags and key of a record.
    pub(super) fn encode(entry: &Entry, value_bytes: u64) -> Vec<u8> {
        let (key, is_integer) = match &entry.key {
            Key::Integer(key) => (&key.to_le_bytes()[..], true),
            Key::Bytes(key) => (&key[..], false),
        };
        let when = |is: bool, mark| if is { mark } else { 0 };
        let marks = when(entry.is_stale, STALE)
            | when(entry.is_recached, RECACHED)
            | when(is_integer, INTEGER);
        let mut bytes = front(RECORD, marks, value_bytes);
        bytes[2..4].copy_from_slice(&short(key.len()));
        bytes[4..8].copy_from_slice(&entry.flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&entry.token.to_le_bytes());
        bytes[24..32].copy_from_slice(&entry.expiry_ms.to_le_bytes());
        bytes[32..34].copy_from_slice(&short(entry.tags.len() / 8));
        bytes.extend_from_slice(&entry.tags);
        bytes.extend_from_slice(key);
        stamp(&mut bytes);
        bytes
    }

    /// What stands behind the last record.
    pub(super) fn end(records: u64) -> Vec<u8> {
        let mut bytes = front(END, 0, records);
        stamp(&mut bytes);
        bytes
    }

    /// Reads the front; its checksum is looked at when tags and key are there.
    pub(super) fn parse(bytes: &[u8; FRONT_BYTES]) -> Result<Self, &'static str> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let front = Self {
            marks: bytes[1],
            key_bytes: short(2),
            tags_bytes: short(32) * 8,
            flags: half(4),
            value_bytes: word(8),
            token: word(16),
            expiry_ms: word(24),
            crc: half(CRC_AT),
            is_end: bytes[0] == END,
        };
        let is_form = match bytes[0] {
            RECORD => {
                let is_integer = front.marks & INTEGER != 0;
                front.marks & !(STALE | RECACHED | INTEGER) == 0
                    && front.tags_bytes <= TAGS_BYTES_MAX
                    && (1..=KEY_BYTES_MAX).contains(&front.key_bytes)
                    && (!is_integer || front.key_bytes == 8)
                    && front.value_bytes <= VALUE_BYTES_MAX
                    && bytes[34..36] == [0, 0]
            }
            END => bytes[1..8] == [0; 7] && bytes[16..36] == [0; 20],
            _ => false,
        };
        if is_form { Ok(front) } else { Err("no record begins there") }
    }

    /// How many records there are, at the end.
    pub(super) fn records(&self) -> Option<u64> {
        self.is_end.then_some(self.value_bytes)
    }

    /// The entry, from all bytes in front of the value.
    pub(super) fn entry(&self, bytes: &[u8]) -> Result<Entry, &'static str> {
        if checksum(bytes) != self.crc {
            return Err("the checksum is wrong");
        }
        let (tags, key) = bytes[FRONT_BYTES..].split_at(self.tags_bytes);
        let key = match key.try_into() {
            Ok(key) if self.marks & INTEGER != 0 => Key::Integer(u64::from_le_bytes(key)),
            _ => Key::Bytes(key.to_vec()),
        };
        Ok(Entry {
            key,
            flags: self.flags,
            expiry_ms: self.expiry_ms,
            token: self.token,
            tags: tags.to_vec(),
            is_stale: self.marks & STALE != 0,
            is_recached: self.marks & RECACHED != 0,
        })
    }

    /// Whether `bytes` are the end.
    pub(super) fn is_stamped(&self, bytes: &[u8]) -> bool {
        checksum(bytes) == self.crc
    }
}

fn front(kind: u8, marks: u8, value_bytes: u64) -> Vec<u8> {
    let mut bytes = vec![0; FRONT_BYTES];
    bytes[0] = kind;
    bytes[1] = marks;
    bytes[8..16].copy_from_slice(&value_bytes.to_le_bytes());
    bytes
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("invariant: the log has limited it").to_le_bytes()
}

fn stamp(bytes: &mut [u8]) {
    let crc = checksum(bytes);
    bytes[CRC_AT..FRONT_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Of all but itself.
fn checksum(bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    crc32c::crc32c_append(crc, &bytes[FRONT_BYTES..])
}
