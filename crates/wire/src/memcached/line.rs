//! Lines and their words.

use memchr::memchr;

use super::limits::TOKENS_MAX;

/// Bytes looked at by [`find_space`] before it calls for help: most keys are no longer.
const SHORT: usize = 32;

/// Bytes of a word that [`first_below`] looks at.
const WORD_BYTES: usize = 8;

/// Bytes below this one end a word: the space, and control characters.
const WORD_END: u8 = b' ' + 1;

/// The first of eight bytes that is below `limit`, at most 128: the classic test for a zero byte
/// in a word.
#[inline]
fn first_below(word: [u8; WORD_BYTES], limit: u8) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGHS: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    // Borrows go upwards, so that the lowest mark is right.
    let marks = word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS;
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

/// The index of the first space.
///
/// Words are short, so that the call of a vector search would cost more than the search: eight
/// bytes at a time are searched here.
#[inline]
pub(super) fn find_space(bytes: &[u8]) -> Option<usize> {
    let short = &bytes[..bytes.len().min(SHORT)];
    let (chunks, tail) = short.as_chunks();
    for (index, chunk) in chunks.iter().enumerate() {
        if let Some(at) = first_below(chunk.map(|byte| byte ^ b' '), 1) {
            return Some(index * WORD_BYTES + at);
        }
    }
    let seen = short.len() - tail.len();
    if bytes.len() > SHORT {
        return memchr(b' ', &bytes[seen..]).map(|index| seen + index);
    }
    tail.iter().position(|&byte| byte == b' ').map(|index| seen + index)
}

/// The index of the first byte that is a space or a control character, as a line end is, if one of
/// the first `len_max + 1` bytes is.
#[inline]
pub(super) fn find_word_end(bytes: &[u8], len_max: usize) -> Option<usize> {
    let near = &bytes[..bytes.len().min(len_max + 1)];
    let (chunks, tail) = near.as_chunks();
    for (index, chunk) in chunks.iter().enumerate() {
        if let Some(at) = first_below(*chunk, WORD_END) {
            return Some(index * WORD_BYTES + at);
        }
    }
    let seen = near.len() - tail.len();
    let at = match near.last_chunk::<WORD_BYTES>() {
        // Of the last eight bytes those that were seen are shifted out, and zeros come behind.
        Some(last) if !tail.is_empty() => {
            let word = u64::from_le_bytes(*last) >> ((WORD_BYTES - tail.len()) * 8);
            first_below(word.to_le_bytes(), WORD_END).filter(|&at| at < tail.len())
        }
        _ => tail.iter().position(|&byte| byte < WORD_END),
    };
    at.map(|at| seen + at)
}

/// Drops leading spaces.
#[inline]
pub(super) fn skip_spaces(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', tail @ ..] = bytes {
        bytes = tail;
    }
    bytes
}

/// `bytes` unless they are none.
pub(super) fn present(bytes: &[u8]) -> Option<&[u8]> {
    (!bytes.is_empty()).then_some(bytes)
}

/// The words of a line, one after another.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    #[inline]
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: skip_spaces(line) }
    }

    /// What is left of the line. Empty, or starts with a word.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether the last word of the line, `before` if there is none left, is `noreply`. Looks
    /// no further than [`TOKENS_MAX`] words, of which `seen` are gone.
    pub(super) fn noreply(self, before: &[u8], seen: usize) -> bool {
        self.take(TOKENS_MAX - seen).last().unwrap_or(before) == b"noreply"
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = find_space(self.rest).unwrap_or(self.rest.len());
        let (token, tail) = self.rest.split_at(end);
        self.rest = skip_spaces(tail);
        Some(token)
    }
}

/// All words of a line, for the commands that are rare: the command itself is number 0.
#[derive(Debug)]
pub(super) struct Words<'a> {
    words: [&'a [u8]; TOKENS_MAX],
    count: usize,
}

impl<'a> Words<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        let mut words = [&[][..]; TOKENS_MAX];
        let mut count = 0;
        for (slot, token) in words.iter_mut().zip(Tokens::new(line)) {
            *slot = token;
            count += 1;
        }
        Self { words, count }
    }

    pub(super) fn as_slice(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }

    pub(super) fn noreply(&self) -> bool {
        self.as_slice().last() == Some(&&b"noreply"[..])
    }
}

/// Whether `word` is `full` or an abbreviation of it, which memcached takes for it.
pub(super) fn abbreviates(word: &[u8], full: &str) -> bool {
    full.as_bytes().starts_with(word)
}
