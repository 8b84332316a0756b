//! The keys of a retrieval line.

use memchr::{memchr, memrchr};

use super::limits::KEY_LEN_MAX;

/// The keys of one `get`, `gets`, `gat` or `gats`, read off the line as they are asked for.
///
/// There is at least one, none is empty and none is longer than [`KEY_LEN_MAX`].
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    /// What is left of the line. Empty, or starts with a key.
    rest: &'a [u8],
}

impl<'a> Keys<'a> {
    /// Takes the keys of `rest`, which starts with one. `None` if a key is too long.
    pub(super) fn checked(rest: &'a [u8]) -> Option<Self> {
        debug_assert!(rest.first().is_some_and(|&byte| byte != b' '));
        (!has_long_word(rest)).then_some(Self { rest })
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(end) = memchr(b' ', self.rest) else {
            return Some(core::mem::take(&mut self.rest));
        };
        let (key, tail) = self.rest.split_at(end);
        self.rest = skip_spaces(tail);
        Some(key)
    }
}

/// Drops leading spaces.
#[inline]
pub(super) fn skip_spaces(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', tail @ ..] = bytes {
        bytes = tail;
    }
    bytes
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
