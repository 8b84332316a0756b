//! The requests that clients mostly send, in the form in which they mostly send them.
//!
//! They are read from their start, without looking for the end of the line first. What is read
//! here, [`super::parse`] reads in the same way; `None` says nothing but that it is to be asked.

use super::expiry::Expiry;
use super::limits::KEY_LEN_MAX;
use super::line::find_word_end;
use super::lines::LINE_END;
use super::meta::Meta;
use super::number;
use super::request::{Store, StoreVerb};

/// A `get` of one key: the key, and the bytes of the line.
#[inline]
pub fn plain_get(input: &[u8]) -> Option<(&[u8], usize)> {
    let (key, rest) = key(input.strip_prefix(b"get ")?)?;
    let rest = rest.strip_prefix(LINE_END)?;
    Some((key, input.len() - rest.len()))
}

/// A `set`, whether it wants a reply or not: the command, and the bytes of the line.
#[inline]
pub fn plain_set(input: &[u8]) -> Option<(Store<'_>, usize)> {
    let (key, rest) = key(input.strip_prefix(b"set ")?)?;
    let (client_flags, rest) = number::leading(rest.strip_prefix(b" ")?)?;
    let (exptime, rest) = number::leading(rest.strip_prefix(b" ")?)?;
    let (value_len, rest) = number::leading(rest.strip_prefix(b" ")?)?;
    let (rest, noreply) = match rest.strip_prefix(LINE_END) {
        Some(rest) => (rest, false),
        None => (rest.strip_prefix(b" noreply\r\n")?, true),
    };
    let expiry = Expiry::from_seconds(exptime.cast_signed());
    let verb = StoreVerb::Set;
    let store = Store { key, verb, client_flags, expiry, value_len, noreply };
    Some((store, input.len() - rest.len()))
}

/// An `mg` whose flags have no arguments: the command, and the bytes of the line.
#[inline]
pub fn plain_meta_get(input: &[u8]) -> Option<(Meta<'_>, usize)> {
    let (key, flags) = key(input.strip_prefix(b"mg ")?)?;
    let (meta, rest) = Meta::plain(key, flags)?;
    Some((meta, input.len() - rest.len()))
}

/// The key that `args` start with, and what comes behind it.
#[inline]
fn key(args: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = find_word_end(args, KEY_LEN_MAX).filter(|&end| end > 0)?;
    Some(args.split_at(end))
}

#[cfg(test)]
mod tests;
