//! Reading a slot.

use base::sync::atomic::{AtomicU64, Ordering};

use super::{
    EXPIRY_BYTES, FIRST_KEY_BYTES, HEADER_BYTES, Header, SHORT_BYTES, SHORT_WORDS, TOKEN_BYTES,
    unaligned,
};
use crate::{
    Key, Meta, Output,
    geometry::{INLINE_VALUE_MAX_BYTES, WORD_BYTES},
    meta::Plain,
};

/// The words from the start of a slot to the end of its block.
///
/// A torn length must not lead a reader out of its block: the words behind may belong to parts of
/// a large value, which are written as plain bytes. Inside the block everything is words, and what
/// lies behind the slot's own end is only ever read by a reader that fails validation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a>(pub(crate) &'a [AtomicU64]);

/// Longest key that lies, with what is in front of it, in [`NEAR_WORDS`] words.
const NEAR_KEY_BYTES: usize = 16;
const NEAR_WORDS: usize = (HEADER_BYTES + NEAR_KEY_BYTES).div_ceil(WORD_BYTES);
/// Words that hold a short value behind such a key, or behind a word that another key ends in.
const FRONT_WORDS: usize =
    (HEADER_BYTES + NEAR_KEY_BYTES + TOKEN_BYTES + SHORT_BYTES).next_multiple_of(64) / WORD_BYTES;

/// Token and value of a short record. See [`Slot::short_plain`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortPlain {
    token: u64,
    value_len: usize,
    value: [u8; SHORT_BYTES],
}

impl ShortPlain {
    /// Copies the value to an output.
    #[inline(always)]
    pub(crate) fn copy(self, fetched: bool, out: &mut impl Output) -> Meta {
        let Self { token, value_len, value } = self;
        let meta = Meta { value_len: value_len as u32, token, fetched, ..Meta::default() };
        let room = out.begin(&meta);
        match room.first_chunk_mut() {
            Some(room) => *room = value,
            None => fill(room, &value[..value_len]),
        }
        meta
    }
}

/// Copies a value to where there is no room for more than it. A function of its own: otherwise both
/// ways to copy would be one whose length is known too late.
#[cold]
#[inline(never)]
fn fill(room: &mut [u8], value: &[u8]) {
    room[..value.len()].copy_from_slice(value);
}

impl<'a> Slot<'a> {
    #[inline]
    fn word(self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// The header; its `key_len` is 0 in a free slot.
    #[inline]
    pub(crate) fn header(self) -> Header {
        Header(self.word(0) as u32)
    }

    /// Whether the lengths in `header` stay inside the block. Must hold before anything below is
    /// called with it.
    #[inline]
    pub(crate) fn holds(self, header: Header) -> bool {
        if base::mutant!("length_unchecked") {
            return true;
        }
        let end = header.value_at() + header.value_len();
        header.value_len() <= INLINE_VALUE_MAX_BYTES && end <= self.0.len() * WORD_BYTES
    }

    /// Up to 8 bytes from byte `at`, as a little-endian number with the rest zero.
    #[inline(always)]
    pub(crate) fn number(self, at: usize, len: usize) -> u64 {
        let (word, shift) = (at / WORD_BYTES, at % WORD_BYTES * 8);
        let low = self.word(word) >> shift;
        let both =
            if shift + len * 8 > 64 { low | self.word(word + 1) << (64 - shift) } else { low };
        if len == WORD_BYTES { both } else { both & ((1 << (len * 8)) - 1) }
    }

    /// The header, if the slot holds this key.
    #[inline(always)]
    pub(crate) fn with_key(self, key: &Key<'_>) -> Option<Header> {
        let word = self.word(0);
        let header = Header(word as u32);
        if (word ^ key.first) & key.first_mask == 0 {
            return self.has_rest(key.bytes).then_some(header);
        }
        (header.in_parts() && header.key_len() == key.bytes.len() && self.same(1, key.bytes))
            .then_some(header)
    }

    /// Whether an inline record that has its key's length and first bytes has the others.
    #[inline(always)]
    fn has_rest(self, key: &[u8]) -> bool {
        if key.len() <= FIRST_KEY_BYTES {
            return true;
        }
        if key.len() > NEAR_KEY_BYTES {
            return self.has_far(key);
        }
        self.0.first_chunk().is_some_and(|near| has_near(near, key))
    }

    /// The same of a key that is longer than [`NEAR_KEY_BYTES`].
    #[inline]
    fn has_far(self, key: &[u8]) -> bool {
        let Some(last) = key.last_chunk() else { return false };
        // The last eight bytes at once, wherever they start, and whole words in front of them.
        let at = HEADER_BYTES + key.len() - WORD_BYTES;
        let Some(end) = self.0.get(at / WORD_BYTES..).and_then(|end| end.first_chunk::<2>()) else {
            return false;
        };
        let (middle, _) = key[FIRST_KEY_BYTES..].as_chunks();
        let words = &self.0[1..at.div_ceil(WORD_BYTES)];
        unaligned::eight(end, at % WORD_BYTES) == u64::from_le_bytes(*last)
            && words
                .iter()
                .zip(middle)
                .all(|(word, bytes)| word.load(Ordering::Relaxed) == u64::from_le_bytes(*bytes))
    }

    /// Whether the words from `at` start with these bytes.
    #[inline]
    fn same(self, at: usize, bytes: &[u8]) -> bool {
        let (words, tail) = bytes.as_chunks::<WORD_BYTES>();
        let Some(slot) = self.0.get(at..at + bytes.len().div_ceil(WORD_BYTES)) else {
            return false;
        };
        for (slot, word) in slot.iter().zip(words) {
            if slot.load(Ordering::Relaxed) != u64::from_le_bytes(*word) {
                return false;
            }
        }
        tail.is_empty() || {
            let differs = slot[words.len()].load(Ordering::Relaxed) ^ little_endian(tail);
            differs << (64 - tail.len() * 8) == 0
        }
    }

    /// Token and value of a record that is short and plain and has this key, the case to be fast
    /// in: one comparison tells, and no branch depends on a length.
    #[inline(always)]
    pub(crate) fn short_plain(self, key: &Key<'_>, plain: Plain) -> Option<ShortPlain> {
        let word = self.word(0);
        let value_len = Header(word as u32).value_len();
        if (word ^ plain.first) & plain.mask != 0 || value_len > SHORT_BYTES {
            return None;
        }
        if !self.has_rest(key.bytes) {
            return None;
        }
        let at = HEADER_BYTES + key.bytes.len();
        let (words, at) = match key.bytes.len() {
            ..=NEAR_KEY_BYTES => (self.0, at),
            _ => (self.0.get(at / WORD_BYTES..)?, at % WORD_BYTES),
        };
        let words: &[_; FRONT_WORDS] = words.first_chunk()?;
        let token = unaligned::eight(words, at);
        let value = unaligned::short(words, at + TOKEN_BYTES);
        Some(ShortPlain { token, value_len, value })
    }

    /// The bytes of a short key or value that starts at byte `at`, and whatever is behind it.
    /// `None` at the end of a block.
    #[inline(always)]
    pub(crate) fn short(self, at: usize) -> Option<[u8; SHORT_BYTES]> {
        let words: &[_; SHORT_WORDS + 1] = self.0.get(at / WORD_BYTES..)?.first_chunk()?;
        Some(unaligned::short(words, at % WORD_BYTES))
    }

    /// Copies `len` bytes from byte `at` to the start of `room`, which has as many. Bytes behind
    /// them may be overwritten.
    #[inline(always)]
    pub(crate) fn copy(self, at: usize, len: usize, room: &mut [u8]) {
        if len <= SHORT_BYTES
            && let Some(room) = room.first_chunk_mut()
            && let Some(bytes) = self.short(at)
        {
            *room = bytes;
        } else {
            self.copy_exactly(at, &mut room[..len]);
        }
    }

    /// Fills `out` from byte `at`.
    pub(crate) fn copy_exactly(self, at: usize, out: &mut [u8]) {
        let len = out.len();
        if len < WORD_BYTES {
            if len > 0 {
                put_short(out, self.number(at, len).to_le_bytes());
            }
            return;
        }
        unaligned::copy(&self.0[at / WORD_BYTES..], at % WORD_BYTES, out);
    }

    /// The CAS token.
    #[inline]
    pub(crate) fn token(self, header: Header) -> u64 {
        self.number(header.token_at(), WORD_BYTES)
    }

    /// Absolute expiry in milliseconds, 0 for never.
    #[inline]
    pub(crate) fn expiry_ms(self, header: Header) -> u64 {
        if header.has_expiry() { self.number(header.expiry_at(), EXPIRY_BYTES) } else { 0 }
    }

    /// All fields but key and value. `fetched` is the index's to know.
    #[inline(always)]
    pub(crate) fn meta(self, header: Header, fetched: bool) -> Meta {
        if header.is_plain() {
            return Meta {
                value_len: header.value_len() as u32,
                token: self.token(header),
                fetched,
                ..Meta::default()
            };
        }
        let value_len = if header.in_parts() {
            self.number(header.value_at(), 4)
        } else {
            header.value_len() as u64
        };
        let flags = if header.has_flags() { self.number(header.flags_at(), 4) } else { 0 };
        Meta {
            client_flags: flags as u32,
            value_len: value_len as u32,
            token: self.token(header),
            expiry_ms: self.expiry_ms(header),
            stale: header.stale(),
            win_sent: header.win_sent(),
            fetched,
        }
    }
}

/// Whether a record that starts with these words, whose key has the first bytes of `key` and its
/// length, at most [`NEAR_KEY_BYTES`], has the others. Two looks that overlap tell: no branch
/// depends on what is between them.
#[inline(always)]
fn has_near(words: &[AtomicU64; NEAR_WORDS], key: &[u8]) -> bool {
    match (key.first_chunk(), key.last_chunk(), key.last_chunk()) {
        (Some(first), Some(last), _) => {
            let last_at = HEADER_BYTES + key.len() - WORD_BYTES;
            let differs = unaligned::eight(words, HEADER_BYTES) ^ u64::from_le_bytes(*first);
            differs | (unaligned::eight(words, last_at) ^ u64::from_le_bytes(*last)) == 0
        }
        (_, _, Some(last)) => {
            let last_at = HEADER_BYTES + key.len() - FIRST_KEY_BYTES;
            unaligned::eight(words, last_at) as u32 == u32::from_le_bytes(*last)
        }
        _ => true,
    }
}

/// Fewer than eight bytes as a number.
#[inline]
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    match bytes.len() {
        4.. => {
            let low = u32::from_le_bytes(bytes[..4].try_into().expect("invariant: four"));
            let start = bytes.len() - 4;
            let high = u32::from_le_bytes(bytes[start..].try_into().expect("invariant: four"));
            u64::from(low) | u64::from(high) << (start * 8)
        }
        2.. => {
            let low = u16::from_le_bytes([bytes[0], bytes[1]]);
            u64::from(low) | u64::from(bytes[bytes.len() - 1]) << ((bytes.len() - 1) * 8)
        }
        _ => bytes.first().map_or(0, |byte| u64::from(*byte)),
    }
}

/// Writes the first of `bytes` to fewer than eight bytes.
#[inline]
fn put_short(out: &mut [u8], bytes: [u8; WORD_BYTES]) {
    let len = out.len();
    if len >= 4 {
        let start = len - 4;
        out[..4].copy_from_slice(&bytes[..4]);
        out[start..].copy_from_slice(&bytes[start..start + 4]);
    } else {
        for (out, byte) in out.iter_mut().zip(bytes) {
            *out = byte;
        }
    }
}
