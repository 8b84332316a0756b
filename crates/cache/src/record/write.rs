//! Writing a slot.

use base::sync::atomic::{AtomicU64, Ordering};

use super::{
    EXPIRY, EXPIRY_BYTES, EXPIRY_MAX_MS, FIRST_KEY_BYTES, FLAGS, FLAGS_BYTES, HEAD_KEY_AT,
    HEADER_BYTES, Header, LOCATION_BYTES, MARKS_SHIFT, PARTS, STALE, TOKEN_BYTES, VALUE_LEN_SHIFT,
    WIN_SENT,
    read::{Slot, little_endian},
};
use crate::{
    Key,
    geometry::{INLINE_VALUE_MAX_BYTES, KEY_LEN_MAX, TAIL_PIECES_MAX, WORD_BYTES},
};

/// The fields that decide what a record looks like, value and token aside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) key_len: usize,
    /// Bytes of the value; of a head, nothing is inline.
    pub(crate) value_len: usize,
    pub(crate) client_flags: u32,
    pub(crate) expiry_ms: u64,
    pub(crate) stale: bool,
    pub(crate) win_sent: bool,
    pub(crate) in_parts: bool,
}

impl Layout {
    fn has_expiry(&self) -> bool {
        self.in_parts || self.expiry_ms != 0
    }

    fn has_flags(&self) -> bool {
        self.in_parts || self.client_flags != 0
    }

    /// Bytes from the start of the slot to the value or what stands for it.
    #[inline]
    fn value_at(&self) -> usize {
        if self.is_plain() {
            return HEADER_BYTES + self.key_len + TOKEN_BYTES;
        }
        let key_at = if self.in_parts { HEAD_KEY_AT } else { HEADER_BYTES };
        let expiry = if self.has_expiry() { EXPIRY_BYTES } else { 0 };
        let flags = if self.has_flags() { FLAGS_BYTES } else { 0 };
        key_at + self.key_len + TOKEN_BYTES + expiry + flags
    }

    /// This record will soon be written over one of its key and its size, which lies in a slot:
    /// asks for the lines behind the first one, too, which would be waited for while the key is
    /// locked. The token is what always changes; a line with nothing but key and value may stay
    /// with other cores.
    #[inline(always)]
    pub(crate) fn expect_overwrite(&self, slot: Slot<'_>) {
        base::prefetch::to_write_at(slot.0, (HEADER_BYTES + self.key_len) / WORD_BYTES);
        base::prefetch::to_read_at(slot.0, self.bytes() / WORD_BYTES);
    }

    /// Bytes of the slot that the record takes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let value =
            if self.in_parts { 8 + TAIL_PIECES_MAX * LOCATION_BYTES } else { self.value_len };
        self.value_at() + value
    }

    /// Whether there is nothing but key, token and an inline value.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        let Self { client_flags, expiry_ms, stale, win_sent, in_parts, .. } = *self;
        client_flags == 0 && expiry_ms == 0 && !(stale | win_sent | in_parts)
    }

    #[inline]
    pub(crate) fn header(&self, marks: u64) -> Header {
        debug_assert!(self.key_len <= KEY_LEN_MAX);
        debug_assert!(self.in_parts || self.value_len <= INLINE_VALUE_MAX_BYTES);
        let value_len = if self.in_parts { 0 } else { self.value_len as u32 };
        let plain =
            self.key_len as u32 | value_len << VALUE_LEN_SHIFT | (marks as u32) << MARKS_SHIFT;
        if self.is_plain() {
            return Header(plain);
        }
        let bit = |present: bool, bit: u32| u32::from(present) * bit;
        Header(
            plain
                | bit(self.has_expiry(), EXPIRY)
                | bit(self.has_flags(), FLAGS)
                | bit(self.stale, STALE)
                | bit(self.win_sent, WIN_SENT)
                | bit(self.in_parts, PARTS),
        )
    }

    /// Writes everything in front of the value, with the marks of [`crate::memory::Memory::marks`].
    /// The pins of a head are 0: it is not published.
    #[inline(always)]
    pub(crate) fn write_front(
        &self,
        sink: &mut WordSink<'_>,
        key: &Key<'_>,
        token: u64,
        marks: u64,
    ) {
        let header = u64::from(self.header(marks).0);
        if self.in_parts {
            sink.push_word(header);
            sink.push_bytes(key.bytes);
        } else {
            sink.start(header | key.first, key.bytes);
        }
        sink.push_word(token);
        if self.has_expiry() {
            sink.push(self.expiry_ms.min(EXPIRY_MAX_MS), EXPIRY_BYTES);
        }
        if self.has_flags() {
            sink.push(u64::from(self.client_flags), FLAGS_BYTES);
        }
    }
}

/// Bytes from which on a value is not shifted word by word.
const LONG_BYTES: usize = 64;

/// Packs bytes into words and stores each word that differs from what is there.
///
/// Comparing first is what makes a put of an equal value cheap: its words stay clean in every
/// other core's cache, which is worth 1.1 to 1.9 times the puts when most of them repeat the value.
/// Another record's slot has other bytes: there a long value is stored as it is, which takes half
/// the instructions.
#[derive(Debug)]
pub(crate) struct WordSink<'a> {
    words: &'a [AtomicU64],
    at: usize,
    pending: u64,
    pending_bits: u32,
    /// What is there is another record's, or none.
    is_new: bool,
}

impl<'a> WordSink<'a> {
    /// Starts at the first of `words`, where another record of the same key is, inline as well.
    #[inline]
    pub(crate) fn over(words: &'a [AtomicU64]) -> Self {
        Self { words, at: 0, pending: 0, pending_bits: 0, is_new: false }
    }

    /// Starts at the first of `words`, where there is no record of the key.
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self { is_new: true, ..Self::over(words) }
    }

    /// Begins an inline record: the first word, with the header and the key's first bytes, and the
    /// key's other bytes, which are there already in a record of the same key.
    #[inline(always)]
    fn start(&mut self, first: u64, key: &[u8]) {
        debug_assert!(self.at == 0 && self.pending_bits == 0);
        let end = HEADER_BYTES + key.len();
        self.pending_bits = (end % WORD_BYTES * 8) as u32;
        let Some(rest) = key.get(FIRST_KEY_BYTES..) else {
            self.pending = first;
            return;
        };
        self.emit(first);
        let (words, tail) = rest.as_chunks::<WORD_BYTES>();
        if self.is_new {
            let places = &self.words[self.at..][..words.len()];
            places.iter().zip(words).for_each(|(place, word)| store(place, word));
        }
        self.at = end / WORD_BYTES;
        self.pending = match key.last_chunk() {
            Some(last) => self.end_of(*last),
            None => little_endian(tail),
        };
    }

    /// The last of eight bytes, as many as are pending; a shift by 64 bits in two steps when there
    /// are none.
    #[inline(always)]
    fn end_of(&self, last: [u8; WORD_BYTES]) -> u64 {
        u64::from_le_bytes(last) >> 1 >> (u64::BITS - 1 - self.pending_bits)
    }

    #[inline(always)]
    fn emit(&mut self, value: u64) {
        store_number(&self.words[self.at], value);
        self.at += 1;
    }

    /// Appends the low `len` bytes of `value`, 1 to 7; its other bytes must be zero.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: u64, len: usize) {
        debug_assert!((1..WORD_BYTES).contains(&len) && value >> (len * 8) == 0);
        let taken = self.pending_bits;
        self.pending |= value << taken;
        self.pending_bits += len as u32 * 8;
        if self.pending_bits >= u64::BITS {
            self.emit(self.pending);
            self.pending_bits -= u64::BITS;
            // What did not fit; a shift by 64 bits in two steps when all of it did.
            self.pending = value >> 1 >> (u64::BITS - 1 - taken);
        }
    }

    /// Appends a word.
    #[inline(always)]
    pub(crate) fn push_word(&mut self, value: u64) {
        self.emit(self.pending | value << self.pending_bits);
        self.pending = value >> 1 >> (u64::BITS - 1 - self.pending_bits);
    }

    /// Appends bytes: the word that is begun is filled up, and the others are taken from the bytes
    /// as they are, instead of two shifted together for each.
    #[inline(always)]
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
            if !bytes.is_empty() {
                self.push(little_endian(bytes), bytes.len());
            }
            return;
        };
        self.emit(self.pending | u64::from_le_bytes(*first) << self.pending_bits);
        let rest = &bytes[WORD_BYTES - self.pending_bits as usize / 8..];
        let (words, tail) = rest.as_chunks::<WORD_BYTES>();
        let places = &self.words[self.at..][..words.len()];
        self.at += words.len();
        if bytes.len() >= LONG_BYTES {
            store_long(places, words, self.is_new);
        } else {
            places.iter().zip(words).for_each(|(place, word)| store(place, word));
        }
        self.pending_bits = tail.len() as u32 * 8;
        self.pending = self.end_of(*last);
    }

    /// Writes the word that is not full yet, its rest zero.
    #[inline]
    pub(crate) fn finish(mut self) {
        if self.pending_bits > 0 {
            self.emit(self.pending);
        }
    }
}

/// Words that are compared together, and stored all when one of them differs: half a line of a
/// processor's cache, and half the instructions.
const GROUP_WORDS: usize = 4;

/// Stores many words, where a record of another key was or where the same key's is.
#[inline(never)]
fn store_long(places: &[AtomicU64], words: &[[u8; WORD_BYTES]], is_new: bool) {
    let (groups, last_words) = words.as_chunks::<GROUP_WORDS>();
    let (group_places, last_places) = places.as_chunks::<GROUP_WORDS>();
    let groups = group_places.iter().zip(groups);
    if is_new {
        groups.for_each(|(places, words)| store_all(places, &words.map(u64::from_le_bytes)));
    } else {
        groups.for_each(|(places, words)| store_changed(places, &words.map(u64::from_le_bytes)));
    }
    last_places.iter().zip(last_words).for_each(|(place, word)| store(place, word));
}

/// Stores words whatever is there.
#[inline(always)]
fn store_all(places: &[AtomicU64; GROUP_WORDS], words: &[u64; GROUP_WORDS]) {
    for (place, word) in places.iter().zip(words) {
        place.store(*word, Ordering::Relaxed);
    }
}

/// Stores words of which one at least differs from what is there.
#[inline(always)]
fn store_changed(places: &[AtomicU64; GROUP_WORDS], words: &[u64; GROUP_WORDS]) {
    let differs = |at: usize| places[at].load(Ordering::Relaxed) ^ words[at];
    if differs(0) | differs(1) | differs(2) | differs(3) != 0 {
        store_all(places, words);
    }
}

/// Stores a word of bytes that differs from what is there.
#[inline(always)]
fn store(place: &AtomicU64, word: &[u8; WORD_BYTES]) {
    store_number(place, u64::from_le_bytes(*word));
}

/// Stores a number that differs from what is there.
#[inline(always)]
fn store_number(place: &AtomicU64, value: u64) {
    if place.load(Ordering::Relaxed) != value {
        place.store(value, Ordering::Relaxed);
    }
}

/// Overwrites `len` bytes at byte `at` of a slot with the low bytes of `value`.
pub(crate) fn patch(words: &[AtomicU64], at: usize, len: usize, value: u64) {
    let (first, shift) = (at / WORD_BYTES, at % WORD_BYTES * 8);
    let mask = if len == WORD_BYTES { u64::MAX } else { (1 << (len * 8)) - 1 };
    let low = words[first].load(Ordering::Relaxed);
    words[first].store(low & !(mask << shift) | value << shift, Ordering::Relaxed);
    if shift + len * 8 > 64 {
        let back = 64 - shift;
        let high = words[first + 1].load(Ordering::Relaxed);
        words[first + 1].store(high & !(mask >> back) | value >> back, Ordering::Relaxed);
    }
}
