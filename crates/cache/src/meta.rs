//! What a reader learns of a record besides its value.

use crate::{index::Candidates, record::Header};

/// A key with its hash and where it may be, so that a burst can be hashed, prefetched and executed
/// in three passes. Bound to the cache whose worker made it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
    /// As of when the key was made.
    pub(crate) candidates: Candidates,
    /// What the first word of an inline record with this key looks like, and which of its bits
    /// say so: the length, and the first four bytes of the key.
    pub(crate) first: u64,
    pub(crate) first_mask: u64,
}

impl<'k> Key<'k> {
    #[inline]
    pub(crate) fn new(bytes: &'k [u8], hash: u64, candidates: Candidates) -> Self {
        let (start, mask) = match bytes.first_chunk() {
            Some(start) => (u32::from_le_bytes(*start), u32::MAX),
            None => (start_of_short(bytes), (1 << (bytes.len() * 8)) - 1),
        };
        // A key too long for the header's byte has a length that no record has.
        let len = if bytes.len() > crate::KEY_LEN_MAX { 0xff } else { bytes.len() as u64 };
        let first = u64::from(start) << 32 | len;
        let first_mask = u64::from(mask) << 32 | u64::from(Header::KEY_MASK);
        Self { bytes, hash, candidates, first, first_mask }
    }

    /// What the first word of a live, plain record with this key looks like in a flush generation:
    /// a record without flags, expiry or state.
    #[inline]
    pub(crate) fn plain(&self, epoch: u64) -> Plain {
        Plain {
            first: self.first | epoch << Header::EPOCH_SHIFT,
            mask: self.first_mask | u64::from(Header::PLAIN_MASK),
        }
    }

    /// Its hash, which nobody outside can foresee: for what is spread over keys beside the cache.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The key's bytes.
    #[must_use]
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }
}

/// Fewer than four bytes, and zeros.
#[inline(never)]
fn start_of_short(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |start, byte| start << 8 | u32::from(*byte))
}

/// See [`Key::plain`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub(crate) first: u64,
    pub(crate) mask: u64,
}

/// The fields of a record, without key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Opaque to the store.
    pub client_flags: u32,
    /// Bytes of the value.
    pub value_len: u32,
    /// The CAS token.
    pub token: u64,
    /// Absolute expiry in milliseconds on the cache's clock; 0 is never.
    pub expiry_ms: u64,
    /// Marked stale: still served, but somebody should recache it.
    pub stale: bool,
    /// A client has been told that it is the one that recaches.
    pub win_sent: bool,
    /// The record was read since its value was stored.
    pub fetched: bool,
}

/// Where a read puts a value.
///
/// A read is optimistic: it may copy a value, find that a writer was faster, and start over. So
/// `begin` may be called more than once for one read, each time to start from scratch.
pub trait Output {
    /// Starts a reply for a record with these fields and returns room for its value: at least
    /// `meta.value_len` bytes (at most [`crate::INLINE_VALUE_MAX_BYTES`]). Of a longer room the
    /// bytes behind the value may be overwritten with anything; with 32 bytes of it a short value
    /// is copied without a branch on its length.
    ///
    /// The fields may be torn and the value may never come: nothing may be concluded from them
    /// before the read returns [`Get::Hit`].
    fn begin(&mut self, meta: &Meta) -> &mut [u8];
}

/// A vector holds just the value.
impl Output for Vec<u8> {
    fn begin(&mut self, meta: &Meta) -> &mut [u8] {
        self.clear();
        self.resize(meta.value_len as usize, 0);
        self
    }
}

/// Why a record is not served any more, though it has not been removed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// Its time is over.
    Expired,
    /// It was stored before the last flush.
    Flushed,
}

/// What a read found.
#[derive(Debug)]
pub enum Get {
    /// No live record has this key.
    Miss,
    /// The value has been copied to the output.
    Hit(Meta),
    /// The value is too large to copy: it is pinned where it lies. What is in the output means
    /// nothing.
    Large(crate::Pinned),
    /// The value is too large to copy, and too much memory is held already by replies that are
    /// being sent: try again when some of them have been.
    Busy,
}
