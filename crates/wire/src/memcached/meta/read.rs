//! Reading the meta commands.

use super::{FlagSet, KNOWN, Meta, MetaKey, StoreMode};
use crate::memcached::expiry::Expiry;
use crate::memcached::limits::{
    KEY_LEN_MAX, META_TOKENS_MAX, OPAQUE_LEN_MAX, TOKENS_MAX, VALUE_LEN_MAX,
};
use crate::memcached::line::{Tokens, present};
use crate::memcached::request::{Direction, MetaStore, Request};
use crate::memcached::{Parsed, Refusal, Then, lines, number};

/// Words before the flags: command and key.
const BEFORE_FLAGS: usize = 2;

/// Words before the flags of `ms`: command, key and length.
const BEFORE_STORE_FLAGS: usize = 3;

/// Flags that say all by being there.
const PLAIN: FlagSet = FlagSet::of(b"cfhklqstuvx");

/// What is wrong with a meta line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The line cannot even be taken apart. No body is expected to follow.
    Line,
    /// Key or flags are wrong: the reply.
    Flags(&'static [u8]),
    /// The opaque token is too long, which is found out last.
    Opaque {
        /// The mode, which is found out before.
        mode: Option<u8>,
    },
}

/// Reads the arguments of `mg` and `md`.
#[inline]
pub(in crate::memcached) fn keyed(args: &[u8]) -> Result<Meta<'_>, Refusal> {
    let mut tokens = Tokens::new(args);
    let key = tokens.next().ok_or_else(bad_format)?;
    read(key, tokens.rest(), BEFORE_FLAGS).map_err(|fault| match fault {
        Fault::Line => bad_format(),
        Fault::Flags(reply) => Refusal::new(reply, false),
        Fault::Opaque { .. } => Refusal::new(lines::OPAQUE_TOO_LONG, false),
    })
}

/// Reads the arguments of `ma`.
pub(in crate::memcached) fn arithmetic(args: &[u8]) -> Parsed<'_> {
    let mut tokens = Tokens::new(args);
    let key = tokens.next().ok_or_else(bad_format)?;
    match read(key, tokens.rest(), BEFORE_FLAGS) {
        Ok(meta) => Ok(Request::MetaArithmetic { meta, direction: direction(meta.mode)? }),
        Err(Fault::Line) => Err(bad_format()),
        Err(Fault::Flags(_)) => Err(Refusal::new(lines::INVALID_OR_DUPLICATE_FLAG, false)),
        Err(Fault::Opaque { mode }) => {
            direction(mode).and(Err(Refusal::new(lines::OPAQUE_TOO_LONG, false)))
        }
    }
}

/// The direction that `mode` of `ma` stands for.
fn direction(mode: Option<u8>) -> Result<Direction, Refusal> {
    match mode {
        None | Some(b'I' | b'+') => Ok(Direction::Up),
        Some(b'D' | b'-') => Ok(Direction::Down),
        Some(_) => Err(Refusal::new(lines::INVALID_ARITHMETIC_MODE, false)),
    }
}

/// Reads the arguments of `ms`.
#[inline]
pub(in crate::memcached) fn store(args: &[u8]) -> Result<MetaStore<'_>, Refusal> {
    let mut tokens = Tokens::new(args);
    let (Some(key), Some(value_len)) = (tokens.next(), tokens.next()) else {
        return Err(bad_format());
    };
    let value_len = number::i32_of(value_len)
        .and_then(|len| u32::try_from(len).ok())
        .filter(|&len| len <= VALUE_LEN_MAX)
        .ok_or_else(bad_format)?;
    let refuse = |reply| Refusal {
        then: Then::Swallow { bytes: value_len + 2 },
        ..Refusal::new(reply, false)
    };
    let known = |mode| store_mode(mode).ok_or_else(|| refuse(lines::INVALID_STORE_MODE));
    match read(key, tokens.rest(), BEFORE_STORE_FLAGS) {
        Ok(meta) => Ok(MetaStore { mode: known(meta.mode)?, meta, value_len }),
        Err(Fault::Line) => Err(bad_format()),
        Err(Fault::Flags(reply)) => Err(refuse(reply)),
        Err(Fault::Opaque { mode }) => known(mode).and(Err(refuse(lines::OPAQUE_TOO_LONG))),
    }
}

/// The mode of `ms` that a letter stands for.
fn store_mode(letter: Option<u8>) -> Option<StoreMode> {
    match letter {
        None | Some(b'S') => Some(StoreMode::Set),
        Some(b'E') => Some(StoreMode::Add),
        Some(b'A') => Some(StoreMode::Append),
        Some(b'P') => Some(StoreMode::Prepend),
        Some(b'R') => Some(StoreMode::Replace),
        Some(_) => None,
    }
}

/// Reads the arguments of `me`. Flag `b` counts only if it comes first and is not the last word,
/// as memcached 1.6.45 has it.
pub(in crate::memcached) fn debug(args: &[u8]) -> Parsed<'_> {
    let mut tokens = Tokens::new(args);
    let token = tokens.next().ok_or_else(bad_format)?;
    let well_formed = tokens.clone().take(TOKENS_MAX - BEFORE_FLAGS).all(opens_flag);
    if !well_formed || token.len() > KEY_LEN_MAX {
        return Err(bad_format());
    }
    let key = match (tokens.next(), tokens.next()) {
        (Some(b"b"), Some(_)) => MetaKey::encoded(token).ok_or_else(bad_format)?,
        _ => MetaKey::plain(token),
    };
    Ok(Request::MetaDebug { key })
}

fn bad_format() -> Refusal {
    Refusal::new(lines::BAD_FORMAT, false)
}

/// Reads the flags in `tokens`, the remainder of a line on which `before` words come first.
///
/// Goes through them once. Only when something is wrong, [`fault`] goes through them again to
/// find out what memcached would complain about first.
#[inline]
fn read<'a>(key: &'a [u8], tokens: &'a [u8], before: usize) -> Result<Meta<'a>, Fault> {
    let wrong = || fault(key, tokens, before);
    if key.len() > KEY_LEN_MAX {
        return Err(wrong());
    }
    let mut meta = Meta::bare(key, tokens);
    for (index, token) in Tokens::new(tokens).enumerate() {
        let flag = token[0];
        if before + index >= META_TOKENS_MAX || !KNOWN.has(flag) || meta.flags.has(flag) {
            return Err(wrong());
        }
        meta.flags.insert(flag);
        if flag.is_ascii_uppercase() && meta.set(flag, &token[1..]).is_err() {
            return Err(wrong());
        }
    }
    if meta.flags.has(b'b') {
        meta.key = MetaKey::encoded(key).ok_or_else(wrong)?;
    }
    Ok(meta)
}

impl<'a> Meta<'a> {
    /// A command whose line goes on with `flags` behind the key, and what follows the line; `None`
    /// unless all of them are small letters, one space before each.
    #[inline]
    pub(in crate::memcached) fn plain(key: &'a [u8], flags: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut seen = FlagSet::default();
        let mut rest = flags;
        while let [b' ', flag @ b'a'..=b'z', tail @ ..] = rest {
            if !PLAIN.has(*flag) || seen.has(*flag) {
                return None;
            }
            seen.insert(*flag);
            rest = tail;
        }
        let behind = rest.strip_prefix(lines::LINE_END)?;
        let tokens = &flags[..flags.len() - rest.len()];
        let tokens = tokens.strip_prefix(b" ").unwrap_or(tokens);
        Some((Self { flags: seen, ..Self::bare(key, tokens) }, behind))
    }

    /// A command before its flags are read.
    #[inline]
    fn bare(key: &'a [u8], tokens: &'a [u8]) -> Self {
        Self {
            key: MetaKey::plain(key),
            flags: FlagSet::default(),
            expiry: None,
            vivify: None,
            renew: None,
            compare: None,
            token: None,
            client_flags: 0,
            delta: 1,
            initial: 0,
            mode: None,
            tokens,
        }
    }

    /// Sets what `flag` stands for from its argument; the reply if the argument is wrong.
    fn set(&mut self, flag: u8, argument: &[u8]) -> Result<(), Complaint> {
        match flag {
            b'T' => self.expiry = Some(expiry(argument)?),
            b'N' => self.vivify = Some(expiry(argument)?),
            b'R' => self.renew = Some(expiry(argument)?),
            b'C' => self.compare = Some(token(argument, lines::BAD_TOKEN)?),
            b'E' => self.token = Some(token(argument, lines::BAD_TOKEN)?),
            b'D' => self.delta = token(argument, lines::INVALID_META_DELTA)?,
            b'J' => self.initial = token(argument, lines::INVALID_INITIAL)?,
            b'F' => {
                let number = present(argument).and_then(number::u32_of);
                self.client_flags = number.ok_or(Complaint::Wordless)?;
            }
            // A zero byte is the absence of a mode; no byte leaves a blank, which is none.
            b'M' => self.mode = Some(*argument.first().unwrap_or(&b' ')).filter(|&mode| mode != 0),
            b'O' if argument.len() >= OPAQUE_LEN_MAX => return Err(Complaint::Opaque),
            _ => {}
        }
        Ok(())
    }
}

/// A wrong argument of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Complaint {
    /// With this reply.
    Reply(&'static [u8]),
    /// With whatever reply another complaint brings.
    Wordless,
    /// The opaque token is too long.
    Opaque,
}

fn expiry(argument: &[u8]) -> Result<Expiry, Complaint> {
    let seconds = present(argument).and_then(number::i32_of);
    Ok(Expiry::from_seconds(seconds.ok_or(Complaint::Reply(lines::BAD_TOKEN))?))
}

fn token(argument: &[u8], reply: &'static [u8]) -> Result<u64, Complaint> {
    present(argument).and_then(number::u64_of).ok_or(Complaint::Reply(reply))
}

/// Whether memcached's tokenizer lets `token` stand where a flag is due.
fn opens_flag(token: &[u8]) -> bool {
    matches!(token[0], b'A'..=b'z' | b'0'..=b'9')
}

/// Finds out what memcached says about a key and flags of which something is wrong.
///
/// Its order: words that can be no flags, a long key, too many words; then, word by word, a flag
/// that is unknown or double ends the search, and of wrong arguments the last has its say.
#[cold]
fn fault(key: &[u8], tokens: &[u8], before: usize) -> Fault {
    let words = Tokens::new(tokens).take(TOKENS_MAX - before);
    if !words.clone().all(opens_flag) {
        return Fault::Line;
    }
    if key.len() > KEY_LEN_MAX {
        return Fault::Flags(lines::BAD_FORMAT);
    }
    if before + words.clone().count() > META_TOKENS_MAX {
        return Fault::Flags(lines::TOO_MANY_FLAGS);
    }
    let mut seen = FlagSet::default();
    let (mut wordless, mut reply, mut opaque) = (false, None, false);
    let mut scratch = Meta::bare(key, tokens);
    for token in words {
        let flag = token[0];
        if seen.has(flag) {
            return Fault::Flags(lines::DUPLICATE_FLAG);
        }
        if !KNOWN.has(flag) {
            return Fault::Flags(lines::INVALID_FLAG);
        }
        seen.insert(flag);
        if flag == b'b' && MetaKey::encoded(key).is_none() {
            reply = Some(lines::BAD_KEY_ENCODING);
        }
        match scratch.set(flag, &token[1..]) {
            Ok(()) => {}
            Err(Complaint::Reply(line)) => reply = Some(line),
            Err(Complaint::Wordless) => wordless = true,
            Err(Complaint::Opaque) => opaque = true,
        }
    }
    debug_assert!(wordless || opaque || reply.is_some());
    match reply {
        Some(reply) => Fault::Flags(reply),
        None if wordless => Fault::Flags(lines::BAD_FORMAT),
        None => Fault::Opaque { mode: scratch.mode },
    }
}
