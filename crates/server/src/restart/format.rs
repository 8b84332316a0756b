//! The layout of the file, version 1. All integers are little-endian.

use base::hash::KeyHasher;

/// What the file begins with.
const MAGIC: [u8; 8] = *b"KELVINRS";

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Bytes of the header of a file.
pub const HEADER_BYTES: usize = 64;

/// Where the header's checksum is.
const HEADER_CHECKSUM_AT: usize = HEADER_BYTES - 8;

/// Bytes of a chunk before what it carries, and behind it.
pub(super) const CHUNK_HEAD_BYTES: usize = 16;
pub(super) const CHECKSUM_BYTES: usize = 8;

/// Most bytes that a chunk carries.
pub(super) const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Bytes of a record before its key.
pub(super) const RECORD_HEAD_BYTES: usize = 28;

/// Times are below this, as they are in a record: see `docs/formats/record.md`.
const EXPIRY_END_MS: u64 = 1 << 48;

/// A server gives out a token for each write, so none has come near this.
const TOKEN_MAX: u64 = u64::MAX / 2;

/// The marks of a record.
const STALE: u8 = 1;
const WIN_SENT: u8 = 2;
const FETCHED: u8 = 4;

/// The key of the checksum: part of the format. It guards against accidents, not against those who
/// mean to deceive.
const CHECKSUM_KEY: u128 = 0x6b65_6c76_696e_2072_6573_7461_7274_2031;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It does not begin as such a file does.
    #[error("it is no restart file")]
    Foreign,
    /// Whoever wrote or read it did not come to its end.
    #[error("it is unfinished: a server was killed while it wrote or read it")]
    Unfinished,
    /// Another version wrote it.
    #[error("it has version {0}, and only version 1 can be read")]
    Version(u32),
    /// It is shorter than it says.
    #[error("it is cut off")]
    Truncated,
    /// Bytes are not what they were.
    #[error("it is damaged: a checksum is wrong at byte {0}")]
    Damaged(u64),
    /// The checksums are right, and the content is impossible.
    #[error("it is malformed at byte {0}")]
    Malformed(u64),
    /// The system cannot read it.
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
}

/// What a file says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Records in it.
    pub(super) records: u64,
    /// Bytes that its chunks carry together.
    pub(super) payload_bytes: u64,
    /// When it was finished, in milliseconds since the Unix epoch.
    pub(super) saved_ms: u64,
    /// The greatest token that was given out.
    pub(super) last_token: u64,
}

impl Header {
    pub(super) fn write(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let numbers = [self.records, self.payload_bytes, self.saved_ms, self.last_token];
        for (to, number) in bytes[16..48].chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&bytes[..HEADER_CHECKSUM_AT]);
        bytes[HEADER_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Flaw> {
        if *bytes == [0; HEADER_BYTES] {
            return Err(Flaw::Unfinished);
        }
        if bytes[..8] != MAGIC {
            return Err(Flaw::Foreign);
        }
        if checksum(&bytes[..HEADER_CHECKSUM_AT]) != u64_at(bytes, HEADER_CHECKSUM_AT) {
            return Err(Flaw::Damaged(0));
        }
        match u32_at(bytes, 8) {
            VERSION => {}
            other => return Err(Flaw::Version(other)),
        }
        if u64_at(bytes, 40) > TOKEN_MAX {
            return Err(Flaw::Malformed(40));
        }
        Ok(Self {
            records: u64_at(bytes, 16),
            payload_bytes: u64_at(bytes, 24),
            saved_ms: u64_at(bytes, 32),
            last_token: u64_at(bytes, 40),
        })
    }
}

/// The fields of a record, without key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) key_len: u8,
    pub(super) stale: bool,
    pub(super) win_sent: bool,
    pub(super) fetched: bool,
    pub(super) client_flags: u32,
    pub(super) value_len: u32,
    /// Milliseconds since the Unix epoch on the wall clock; 0 is never.
    pub(super) expiry_ms: u64,
    pub(super) token: u64,
}

impl RecordHead {
    pub(super) fn write(&self) -> [u8; RECORD_HEAD_BYTES] {
        let marks = [(self.stale, STALE), (self.win_sent, WIN_SENT), (self.fetched, FETCHED)];
        let mut bytes = [0; RECORD_HEAD_BYTES];
        bytes[0] = self.key_len;
        bytes[1] = marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| mark).sum();
        bytes[4..8].copy_from_slice(&self.client_flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.value_len.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.expiry_ms.to_le_bytes());
        bytes[20..].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }

    /// `None` if no record can have these fields.
    pub(super) fn read(bytes: &[u8; RECORD_HEAD_BYTES]) -> Option<Self> {
        let (key_len, marks) = (bytes[0], bytes[1]);
        let head = Self {
            key_len,
            stale: marks & STALE != 0,
            win_sent: marks & WIN_SENT != 0,
            fetched: marks & FETCHED != 0,
            client_flags: u32_at(bytes, 4),
            value_len: u32_at(bytes, 8),
            expiry_ms: u64_at(bytes, 12),
            token: u64_at(bytes, 20),
        };
        let is_possible = (1..=cache::KEY_LEN_MAX).contains(&key_len.into())
            && marks <= STALE | WIN_SENT | FETCHED
            && bytes[2..4] == [0, 0]
            && head.expiry_ms < EXPIRY_END_MS
            && u64::from(head.value_len) <= cache::VALUE_SIZE_MAX_LIMIT_BYTES;
        is_possible.then_some(head)
    }
}

/// The checksum of some bytes.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    KeyHasher::new(CHECKSUM_KEY).hash(bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("invariant: four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("invariant: eight bytes"))
}
