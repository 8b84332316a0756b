//! Reading a slot.

use base::sync::atomic::{AtomicU64, Ordering};

use super::{EXPIRY_BYTES, HEAD_KEY_AT, HEADER_BYTES, Header};
use crate::{
    Meta,
    geometry::{INLINE_VALUE_MAX_BYTES, WORD_BYTES},
};

/// The words from the start of a slot to the end of its block.
///
/// A torn length must not lead a reader out of its block: the words behind may belong to parts of
/// a large value, which are written as plain bytes. Inside the block everything is words, and what
/// lies behind the slot's own end is only ever read by a reader that fails validation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a>(pub(crate) &'a [AtomicU64]);

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
        if cfg!(mutant = "length_unchecked") {
            return true;
        }
        let end = header.value_at() + header.value_len();
        header.value_len() <= INLINE_VALUE_MAX_BYTES && end <= self.0.len() * WORD_BYTES
    }

    /// Up to 8 bytes from byte `at`, as a little-endian number with the rest zero.
    #[inline]
    pub(crate) fn number(self, at: usize, len: usize) -> u64 {
        let (word, shift) = (at / WORD_BYTES, at % WORD_BYTES * 8);
        let low = self.word(word) >> shift;
        let both =
            if shift + len * 8 > 64 { low | self.word(word + 1) << (64 - shift) } else { low };
        if len == WORD_BYTES { both } else { both & ((1 << (len * 8)) - 1) }
    }

    /// Whether the slot holds this key. `header` must be the slot's own.
    #[inline]
    pub(crate) fn key_is(self, header: Header, key: &[u8]) -> bool {
        if header.key_len() != key.len() {
            return false;
        }
        let (first, rest) = key.split_at(key.len().min(HEAD_KEY_AT - HEADER_BYTES));
        let rest = if header.in_parts() {
            key
        } else {
            let mut word = [0; 4];
            word[..first.len()].copy_from_slice(first);
            let mask = u64::from(u32::MAX) >> (32 - first.len() * 8);
            if self.word(0) >> 32 & mask != u64::from(u32::from_le_bytes(word)) {
                return false;
            }
            rest
        };
        let (words, tail) = rest.as_chunks::<WORD_BYTES>();
        for (at, word) in words.iter().enumerate() {
            if self.word(1 + at) != u64::from_le_bytes(*word) {
                return false;
            }
        }
        tail.is_empty() || {
            let mut word = [0; WORD_BYTES];
            word[..tail.len()].copy_from_slice(tail);
            let mask = (1 << (tail.len() * 8)) - 1;
            self.word(1 + words.len()) & mask == u64::from_le_bytes(word)
        }
    }

    /// Fills `out` from byte `at`.
    #[inline]
    pub(crate) fn copy(self, at: usize, out: &mut [u8]) {
        let (first, shift) = (at / WORD_BYTES, at % WORD_BYTES * 8);
        let (words, tail) = out.as_chunks_mut::<WORD_BYTES>();
        let mut low = if words.is_empty() && tail.is_empty() { 0 } else { self.word(first) };
        let mut next = first + 1;
        for out in words {
            if shift == 0 {
                *out = low.to_le_bytes();
                low = self.0.get(next).map_or(0, |word| word.load(Ordering::Relaxed));
            } else {
                let high = self.word(next);
                *out = (low >> shift | high << (64 - shift)).to_le_bytes();
                low = high;
            }
            next += 1;
        }
        if !tail.is_empty() {
            let mut last = low >> shift;
            if shift + tail.len() * 8 > 64 {
                last |= self.word(next) << (64 - shift);
            }
            for (out, byte) in tail.iter_mut().zip(last.to_le_bytes()) {
                *out = byte;
            }
        }
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
    #[inline]
    pub(crate) fn meta(self, header: Header, fetched: bool) -> Meta {
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
