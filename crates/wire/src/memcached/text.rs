//! The commands of the text protocol, and which command a line is.

use super::admin;
use super::expiry::Expiry;
use super::keys::{self, Keys};
use super::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use super::line::{Tokens, find_space, present, skip_spaces};
use super::request::{Direction, Get, Request, Store, StoreVerb};
use super::{Parsed, Refusal, Step, Then, lines, meta, number};

/// Reads a line without its line end, of `consumed` bytes with it.
///
/// The most frequent requests have been read by `plain` before anybody asks here. Of the others the
/// frequent ones (a `get` of many keys, a meta command with arguments) come first and build the
/// step where it is returned: as it is moved from result to result, each move of its 150 bytes
/// costs as much as finding a key.
#[inline]
pub(super) fn step(line: &[u8], consumed: usize) -> Step<'_> {
    match line {
        [b'g', b'e', b't', b' ', args @ ..] => match get(args, false) {
            Some(get) => Step::Request { request: Request::Get(get), consumed },
            None => finish(bad_format(), consumed),
        },
        [b'm', b'g', b' ', args @ ..] => match meta::keyed(args) {
            Ok(meta) => Step::Request { request: Request::MetaGet(meta), consumed },
            Err(refusal) => finish(Err(refusal), consumed),
        },
        [b'm', b's', b' ', args @ ..] => match meta::store(args) {
            Ok(store) => Step::Request { request: Request::MetaStore(store), consumed },
            Err(refusal) => finish(Err(refusal), consumed),
        },
        [b'm', b'd', b' ', args @ ..] => match meta::keyed(args) {
            Ok(meta) => Step::Request { request: Request::MetaDelete(meta), consumed },
            Err(refusal) => finish(Err(refusal), consumed),
        },
        _ => finish(request(line), consumed),
    }
}

/// The step that a line makes.
fn finish(parsed: Parsed<'_>, consumed: usize) -> Step<'_> {
    match parsed {
        Ok(request) => Step::Request { request, consumed },
        Err(Refusal { reply, then }) => Step::Invalid { reply, consumed, then },
    }
}

/// Reads a line that [`step`] does not.
fn request(line: &[u8]) -> Parsed<'_> {
    let name_len = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let (name, args) = line.split_at(name_len);
    let args = args.strip_prefix(b" ").unwrap_or_default();
    match name {
        // Without arguments, or they were read before.
        b"get" | b"mg" | b"ms" | b"md" => bad_format(),
        b"gets" => get(args, true).map_or_else(bad_format, |get| Ok(Request::Get(get))),
        b"ma" => meta::arithmetic(args),
        b"mn" => Ok(Request::MetaNoop),
        b"delete" => delete(args),
        b"set" => store(args, Some(StoreVerb::Set)),
        b"add" => store(args, Some(StoreVerb::Add)),
        b"cas" => store(args, None),
        b"incr" => arithmetic(args, Direction::Up),
        b"decr" => arithmetic(args, Direction::Down),
        b"touch" => touch(args),
        b"gat" => get_and_touch(args, false),
        b"gats" => get_and_touch(args, true),
        b"replace" => store(args, Some(StoreVerb::Replace)),
        b"append" => store(args, Some(StoreVerb::Append)),
        b"prepend" => store(args, Some(StoreVerb::Prepend)),
        b"me" => meta::debug(args),
        _ => admin::request(line, name),
    }
}

fn bad_format<'a>() -> Parsed<'a> {
    Err(Refusal::new(lines::BAD_FORMAT, false))
}

#[inline]
fn get(args: &[u8], with_token: bool) -> Option<Get<'_>> {
    let rest = skip_spaces(args);
    if rest.is_empty() {
        return None;
    }
    Some(Get { keys: Keys::checked(rest)?, complete: true, with_token, touch: None })
}

fn get_and_touch(args: &[u8], with_token: bool) -> Parsed<'_> {
    let mut tokens = Tokens::new(args);
    let (Some(exptime), rest) = (tokens.next(), tokens.rest()) else { return bad_format() };
    if rest.is_empty() {
        return bad_format();
    }
    let Some(seconds) = number::i32_of(exptime) else {
        return Err(Refusal::new(lines::INVALID_EXPTIME, false));
    };
    let touch = Some(Expiry::from_seconds(seconds));
    match Keys::checked(rest) {
        Some(keys) => Ok(Request::Get(Get { keys, complete: true, with_token, touch })),
        None => bad_format(),
    }
}

/// Reads the first part of a retrieval that is too long for the receive buffer: the request, and
/// the bytes it stands in.
#[cold]
pub(super) fn part(input: &[u8]) -> Result<(Request<'_>, usize), Refusal> {
    let refusal = Refusal::new(lines::BAD_FORMAT, false);
    let (_, consumed) = keys::split_part(input).ok_or(refusal)?;
    match step(&input[..consumed], consumed) {
        Step::Request { request: Request::Get(get), .. } => {
            Ok((Request::Get(Get { complete: false, ..get }), consumed))
        }
        Step::Invalid { reply, then, .. } => Err(Refusal { reply, then }),
        _ => Err(refusal),
    }
}

/// Reads a storage command; no verb stands for `cas`, whose token is still to be read.
fn store(args: &[u8], verb: Option<StoreVerb>) -> Parsed<'_> {
    match plain_store(args, verb) {
        Some(store) => Ok(Request::Store(store)),
        None => any_store(args, verb),
    }
}

/// Reads the arguments as all clients send them: one space between plain numbers, then nothing
/// or `noreply`. `None` says nothing about whether the line is right.
#[inline]
fn plain_store(args: &[u8], verb: Option<StoreVerb>) -> Option<Store<'_>> {
    let (key, rest) = args.split_at(find_space(args)?);
    let (client_flags, rest) = number::plain(&rest[1..])?;
    let (exptime, rest) = number::plain(rest)?;
    let (value_len, mut rest) = number::plain(rest)?;
    let verb = match verb {
        Some(verb) => verb,
        None => {
            let (token, tail) = rest.split_at(find_space(rest).unwrap_or(rest.len()));
            rest = tail.strip_prefix(b" ").unwrap_or(tail);
            StoreVerb::CompareAndSwap { token: present(token).and_then(number::u64_of)? }
        }
    };
    let noreply = match rest {
        [] => false,
        b"noreply" => true,
        _ => return None,
    };
    let expiry = Expiry::from_seconds(exptime.cast_signed());
    let store = Store { key, verb, client_flags, expiry, value_len, noreply };
    (1..=KEY_LEN_MAX).contains(&key.len()).then_some(store)
}

/// Reads the arguments with all the latitude that memcached gives.
#[cold]
fn any_store(args: &[u8], verb: Option<StoreVerb>) -> Parsed<'_> {
    let mut tokens = Tokens::new(args);
    let key = tokens.next().unwrap_or_default();
    let flags_on = tokens.rest();
    tokens.next();
    let exptime_on = tokens.rest();
    tokens.next();
    let value_len = tokens.next().unwrap_or(b"none");
    let Some(value_len) = number::i32_of(value_len)
        .and_then(|len| u32::try_from(len).ok())
        .filter(|&len| len <= VALUE_LEN_MAX)
    else {
        return bad_format();
    };
    let noreply = tokens.clone().noreply(&[], 5);
    let mut store = || {
        let mut token = || tokens.next().and_then(number::u64_of);
        Some(Store {
            key: (key.len() <= KEY_LEN_MAX).then_some(key)?,
            client_flags: number::loose_u32(flags_on)?,
            expiry: Expiry::from_seconds(number::loose_i32(exptime_on)?),
            verb: verb.or_else(|| Some(StoreVerb::CompareAndSwap { token: token()? }))?,
            value_len,
            noreply,
        })
    };
    match store() {
        Some(store) => Ok(Request::Store(store)),
        None => {
            let refusal = Refusal::new(lines::BAD_FORMAT, noreply);
            Err(Refusal { then: Then::Swallow { bytes: value_len + 2 }, ..refusal })
        }
    }
}

/// Most words behind the key of a `delete`: a time, which old clients send, and `noreply`. Checkers
/// of conformance look for the error that more of them are.
const DELETE_WORDS_MAX: usize = 2;

fn delete(args: &[u8]) -> Parsed<'_> {
    let mut tokens = Tokens::new(args);
    let Some(key) = tokens.next() else { return bad_format() };
    let has_many = tokens.clone().nth(DELETE_WORDS_MAX).is_some();
    let noreply = tokens.noreply(key, 2);
    if key.len() > KEY_LEN_MAX || has_many {
        return Err(Refusal::new(lines::BAD_FORMAT, noreply));
    }
    Ok(Request::Delete { key, noreply })
}

fn arithmetic(args: &[u8], direction: Direction) -> Parsed<'_> {
    let (key, delta, noreply) = key_and_number(args)?;
    match number::u64_of(delta) {
        Some(delta) => Ok(Request::Arithmetic { key, direction, delta, noreply }),
        None => Err(Refusal::new(lines::INVALID_DELTA, noreply)),
    }
}

fn touch(args: &[u8]) -> Parsed<'_> {
    let (key, exptime, noreply) = key_and_number(args)?;
    match number::i32_of(exptime) {
        Some(seconds) => Ok(Request::Touch { key, expiry: Expiry::from_seconds(seconds), noreply }),
        None => Err(Refusal::new(lines::INVALID_EXPTIME, noreply)),
    }
}

/// The key, the word after it, and whether the client wants no reply.
fn key_and_number(args: &[u8]) -> Result<(&[u8], &[u8], bool), Refusal> {
    let mut tokens = Tokens::new(args);
    let (Some(key), Some(number)) = (tokens.next(), tokens.next()) else {
        return Err(Refusal::new(lines::BAD_FORMAT, false));
    };
    let noreply = tokens.noreply(number, 3);
    if key.len() > KEY_LEN_MAX {
        return Err(Refusal::new(lines::BAD_FORMAT, noreply));
    }
    Ok((key, number, noreply))
}

#[cfg(test)]
mod tests;
