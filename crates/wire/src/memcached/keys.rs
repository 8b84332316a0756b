//! The keys of a retrieval line.

use memchr::{memchr, memrchr};

use super::limits::{KEY_LEN_MAX, Limits};
use super::line::{find_space, skip_spaces};

/// The keys of one `get`, `gets`, `gat` or `gats`, read off the line as they are asked for.
///
/// None is empty and none is longer than [`KEY_LEN_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys<'a> {
    /// What is left of the line. Empty, or starts with a key.
    rest: &'a [u8],
}

impl<'a> Keys<'a> {
    /// Takes the words of `rest` for keys. `None` if one is too long.
    #[inline]
    pub(super) fn checked(rest: &'a [u8]) -> Option<Self> {
        (!has_long_word(rest)).then_some(Self { rest: skip_spaces(rest) })
    }

    /// Bytes of the line that are left. It falls with each key and is 0 after the last, so it
    /// says how far a retrieval has come: see [`Self::skip_to`].
    pub fn rest_len(&self) -> usize {
        self.rest.len()
    }

    /// Drops keys until `rest_len` bytes of the line are left, a number that
    /// [`Self::rest_len`] gave for the same line. Cost is constant.
    ///
    /// # Panics
    ///
    /// If fewer bytes are left.
    pub fn skip_to(&mut self, rest_len: usize) {
        self.rest = &self.rest[self.rest.len() - rest_len..];
    }
}

/// The next part of a retrieval line that is too long for the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysStep<'a> {
    /// Nothing is consumed; call again with more bytes behind these.
    Incomplete,
    /// More keys.
    Part {
        /// The keys; there may be none.
        keys: Keys<'a>,
        /// Bytes of the line.
        consumed: usize,
        /// Whether these are the last, so that the reply ends behind them.
        complete: bool,
    },
    /// A key is too long: [`super::lines::BAD_FORMAT`] is the reply, and as some records may have
    /// been sent before it, the connection is to be closed.
    TooLong,
}

/// Reads on in a retrieval of which [`super::parse`] or this function gave a part that was not
/// the last.
pub fn parse_keys<'a>(input: &'a [u8], limits: &Limits) -> KeysStep<'a> {
    if let Some(end) = memchr(b'\n', input) {
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        return match Keys::checked(line) {
            Some(keys) => KeysStep::Part { keys, consumed: end + 1, complete: true },
            None => KeysStep::TooLong,
        };
    }
    if input.len() < limits.retrieval_part_bytes {
        return KeysStep::Incomplete;
    }
    match split_part(input) {
        Some((keys, consumed)) => KeysStep::Part { keys, consumed, complete: false },
        None => KeysStep::TooLong,
    }
}

/// Takes all words of `bytes` but the last, which may go on behind them: the keys, and the bytes
/// they stand in. `None` if a key is too long.
///
/// Where there is much to take, there is progress: what stays is one word at most.
pub(super) fn split_part(bytes: &[u8]) -> Option<(Keys<'_>, usize)> {
    let consumed = memrchr(b' ', bytes).map_or(0, |space| space + 1);
    // The last byte may belong to the line end.
    let begun = bytes.len() - consumed;
    let keys = Keys::checked(&bytes[..consumed])?;
    (begun <= KEY_LEN_MAX + 1).then_some((keys, consumed))
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(end) = find_space(self.rest) else {
            return Some(core::mem::take(&mut self.rest));
        };
        let (key, tail) = self.rest.split_at(end);
        self.rest = skip_spaces(tail);
        Some(key)
    }
}

/// Tells whether a word of `bytes` is longer than a key may be.
///
/// Looks at one window of `KEY_LEN_MAX + 1` bytes after another, from its end: a window without
/// a space lies within a long word, and a window with one is over at its last space. So a line
/// of many keys costs about one short search in each 250 bytes.
fn has_long_word(mut bytes: &[u8]) -> bool {
    while bytes.len() > KEY_LEN_MAX {
        match memrchr(b' ', &bytes[..=KEY_LEN_MAX]) {
            Some(space) => bytes = &bytes[space + 1..],
            None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests;
