//! A record in its slot, as `docs/formats/record.md` lays it out.
//!
//! Everything here works on the words of one slot and knows nothing of index, lock or arena.
//! Reads may run while a writer changes the slot: they never leave the slice they are given, and
//! what they return means something only after the caller has validated it.

mod read;
mod unaligned;
mod write;

pub(crate) use read::Slot;
pub(crate) use write::{Layout, WordSink, patch};

/// Bytes in front of the key of an inline record.
pub(crate) const HEADER_BYTES: usize = 4;
/// Bytes of the key in the first word of an inline record.
pub(crate) const FIRST_KEY_BYTES: usize = crate::geometry::WORD_BYTES - HEADER_BYTES;
/// Bytes in front of the key of a head.
pub(crate) const HEAD_KEY_AT: usize = 8;
/// Bytes of the token.
pub(crate) const TOKEN_BYTES: usize = 8;
/// Bytes of the expiry, where present.
pub(crate) const EXPIRY_BYTES: usize = 6;
/// Bytes of the client flags, where present.
pub(crate) const FLAGS_BYTES: usize = 4;
/// Bytes of a tail location.
pub(crate) const LOCATION_BYTES: usize = 5;

/// Keys and values up to this length are read without a branch on it.
pub(crate) const SHORT_BYTES: usize = SHORT_WORDS * crate::geometry::WORD_BYTES;
const SHORT_WORDS: usize = 4;

/// Largest expiry that 48 bits hold.
pub(crate) const EXPIRY_MAX_MS: u64 = (1 << 48) - 1;

const VALUE_LEN_SHIFT: u32 = 8;
const VALUE_LEN_BITS: u32 = 13;
const EXPIRY: u32 = 1 << 21;
const FLAGS: u32 = 1 << 22;
const STALE: u32 = 1 << 23;
const WIN_SENT: u32 = 1 << 24;
const EPOCH_SHIFT: u32 = 26;
const PARTS: u32 = 1 << 30;
/// Generation and [`HEARD`] as the writer of a record is given them, from this bit on.
const MARKS_SHIFT: u32 = EPOCH_SHIFT;

/// Flush generations that a header tells apart.
pub(crate) const EPOCHS: u64 = 16;

/// Beside the flush generation of a record: its hits are reported to its sub-table. Such a record
/// is never plain, so that reading a plain one costs no question.
pub(crate) const HEARD: u64 = 1 << (31 - MARKS_SHIFT);

/// The first four bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Header(pub(crate) u32);

impl Header {
    /// The bits of an inline record's header that its key decides: no parts, and the length.
    pub(crate) const KEY_MASK: u32 = PARTS | 0xff;
    /// The bits that all plain records of a flush generation have in common: all behind the
    /// lengths.
    pub(crate) const PLAIN_MASK: u32 = u32::MAX << (VALUE_LEN_SHIFT + VALUE_LEN_BITS);
    pub(crate) const EPOCH_SHIFT: u32 = EPOCH_SHIFT;

    /// 1 if a bit is set: offsets are added up without branches.
    #[inline]
    fn bit(self, bit: u32) -> usize {
        usize::from(self.0 & bit != 0)
    }

    #[inline]
    pub(crate) fn key_len(self) -> usize {
        (self.0 & 0xff) as usize
    }

    #[inline]
    pub(crate) fn value_len(self) -> usize {
        (self.0 >> VALUE_LEN_SHIFT & ((1 << VALUE_LEN_BITS) - 1)) as usize
    }

    #[inline]
    pub(crate) fn has_expiry(self) -> bool {
        self.0 & EXPIRY != 0
    }

    #[inline]
    pub(crate) fn has_flags(self) -> bool {
        self.0 & FLAGS != 0
    }

    pub(crate) fn stale(self) -> bool {
        self.0 & STALE != 0
    }

    pub(crate) fn win_sent(self) -> bool {
        self.0 & WIN_SENT != 0
    }

    #[inline]
    pub(crate) fn epoch(self) -> u64 {
        u64::from(self.0 >> EPOCH_SHIFT) % EPOCHS
    }

    /// Nothing but key, token and an inline value, and no state.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & (EXPIRY | FLAGS | STALE | WIN_SENT | PARTS) == 0
    }

    /// The value lies in parts and this is its head.
    #[inline]
    pub(crate) fn in_parts(self) -> bool {
        self.0 & PARTS != 0
    }

    /// Where the key starts.
    #[inline]
    pub(crate) fn key_at(self) -> usize {
        HEADER_BYTES + self.bit(PARTS) * (HEAD_KEY_AT - HEADER_BYTES)
    }

    /// Where the token starts.
    #[inline]
    pub(crate) fn token_at(self) -> usize {
        self.key_at() + self.key_len()
    }

    /// Where the expiry would start.
    #[inline]
    pub(crate) fn expiry_at(self) -> usize {
        self.token_at() + TOKEN_BYTES
    }

    /// Where the client flags would start.
    #[inline]
    pub(crate) fn flags_at(self) -> usize {
        self.expiry_at() + self.bit(EXPIRY) * EXPIRY_BYTES
    }

    /// Where the value, or what stands for it, starts.
    #[inline]
    pub(crate) fn value_at(self) -> usize {
        self.flags_at() + self.bit(FLAGS) * FLAGS_BYTES
    }

    /// The same header with other states.
    pub(crate) fn with_states(self, stale: bool, win_sent: bool) -> Self {
        let cleared = self.0 & !(STALE | WIN_SENT);
        let stale = if stale { STALE } else { 0 };
        Self(cleared | stale | if win_sent { WIN_SENT } else { 0 })
    }
}

#[cfg(test)]
mod tests;
