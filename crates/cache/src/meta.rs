//! What a reader learns of a record besides its value.

/// A key with its hash, so that a burst can be hashed, prefetched and executed in three passes.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
}

impl<'k> Key<'k> {
    /// The key's bytes.
    #[must_use]
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }
}

/// The fields of a record, without key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Starts a reply for a record with these fields and returns the room for its value, exactly
    /// `meta.value_len` bytes (at most [`crate::INLINE_VALUE_MAX_BYTES`]).
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

/// What a read found.
#[derive(Debug)]
pub enum Get {
    /// No live record has this key.
    Miss,
    /// The value has been copied to the output.
    Hit(Meta),
    /// The value is too large to copy: it is pinned where it lies, and the output was not used.
    Large(crate::Pinned),
    /// The value is too large to copy, and too much memory is held already by replies that are
    /// being sent: try again when some of them have been.
    Busy,
}
