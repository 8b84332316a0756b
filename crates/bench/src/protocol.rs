//! Requests as bytes, and what a line of a reply says.
//!
//! Pure functions. A reply is judged by the request that it answers, since that is known: a get
//! expects one value or none, a set expects its confirmation, and either may be refused with one
//! of the protocol's three error lines.

use std::{fmt, str::FromStr};

use crate::{sizes::KeyNames, value::Values};

/// Longest line of a reply: a key, three numbers and flags, with room for error messages.
pub(crate) const LINE_BYTES_MAX: usize = 2048;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `get` and `set`.
    Text,
    /// `mg` and `ms`.
    Meta,
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "meta" => Ok(Self::Meta),
            _ => Err(format!("`{text}` is no protocol: write text or meta")),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Meta => "meta",
        })
    }
}

/// What a line means as the first of the reply to a get.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GetLine<'a> {
    /// A value of this many bytes follows, and then [`Protocol::tail`].
    Value { key: Option<&'a [u8]>, size: usize },
    /// There is no value.
    Miss,
    /// One of the error lines.
    Refused,
    /// Nothing that the protocol knows.
    Unknown,
}

/// What a line means as the reply to a set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SetLine {
    /// It is stored.
    Stored,
    /// It is not: of an add, for there is one already.
    NotStored,
    /// One of the error lines.
    Refused,
    /// Nothing that the protocol knows.
    Unknown,
}

impl Protocol {
    /// Appends a get of `key`.
    pub(crate) fn put_get(self, names: &KeyNames, key: u32, out: &mut Vec<u8>) {
        match self {
            Self::Text => {
                out.extend_from_slice(b"get ");
                names.append(key, out);
                out.extend_from_slice(b"\r\n");
            }
            Self::Meta => {
                out.extend_from_slice(b"mg ");
                names.append(key, out);
                out.extend_from_slice(b" v\r\n");
            }
        }
    }

    /// Appends a set of `key` to its `version`.
    pub(crate) fn put_set(
        self,
        names: &KeyNames,
        values: &Values,
        key: u32,
        version: u32,
        out: &mut Vec<u8>,
    ) {
        let (verb, gap): (&[u8], &[u8]) = match self {
            Self::Text => (b"set ", b" 0 0 "),
            Self::Meta => (b"ms ", b" "),
        };
        put_store([verb, gap, b""], names, values, (key, version), out);
    }

    /// Appends an add of `key` with its `version`: a set if there is none.
    pub(crate) fn put_add(
        self,
        names: &KeyNames,
        values: &Values,
        key: u32,
        version: u32,
        out: &mut Vec<u8>,
    ) {
        let words: [&[u8]; 3] = match self {
            Self::Text => [b"add ", b" 0 0 ", b""],
            Self::Meta => [b"ms ", b" ", b" ME"],
        };
        put_store(words, names, values, (key, version), out);
    }

    /// What follows a value.
    pub(crate) fn tail(self) -> &'static [u8] {
        match self {
            Self::Text => b"\r\nEND\r\n",
            Self::Meta => b"\r\n",
        }
    }

    /// Reads a line, without its end, that begins the reply to a get.
    pub(crate) fn read_get(self, line: &[u8]) -> GetLine<'_> {
        let value = match self {
            Self::Text => line.strip_prefix(b"VALUE ").and_then(text_value),
            Self::Meta => line.strip_prefix(b"VA ").and_then(|rest| {
                let number = rest.split(|byte| *byte == b' ').next()?;
                Some(GetLine::Value { key: None, size: read_number(number)? })
            }),
        };
        if let Some(value) = value {
            return value;
        }
        match (self, line) {
            (Self::Text, b"END") | (Self::Meta, b"EN" | b"EN ") => GetLine::Miss,
            _ if is_error(line) => GetLine::Refused,
            _ => GetLine::Unknown,
        }
    }

    /// Reads a line, without its end, that answers a set.
    pub(crate) fn read_set(self, line: &[u8]) -> SetLine {
        match (self, line) {
            (Self::Text, b"STORED") | (Self::Meta, b"HD" | b"HD ") => SetLine::Stored,
            (Self::Text, b"NOT_STORED") | (Self::Meta, b"NS" | b"NS ") => SetLine::NotStored,
            _ if is_error(line) => SetLine::Refused,
            _ => SetLine::Unknown,
        }
    }
}

/// Appends what stores a value: a verb, the key, what is between key and length, the length, what
/// follows it.
fn put_store(
    [verb, gap, end]: [&[u8]; 3],
    names: &KeyNames,
    values: &Values,
    (key, version): (u32, u32),
    out: &mut Vec<u8>,
) {
    let size = values.size(key, version);
    out.extend_from_slice(verb);
    names.append(key, out);
    out.extend_from_slice(gap);
    put_number(size, out);
    out.extend_from_slice(end);
    out.extend_from_slice(b"\r\n");
    values.append(key, version, size, out);
    out.extend_from_slice(b"\r\n");
}

/// `KEY FLAGS BYTES [CAS]`
fn text_value(rest: &[u8]) -> Option<GetLine<'_>> {
    let mut words = rest.split(|byte| *byte == b' ');
    let key = words.next()?;
    let _flags = words.next()?;
    let size = read_number(words.next()?)?;
    Some(GetLine::Value { key: Some(key), size })
}

fn is_error(line: &[u8]) -> bool {
    line.starts_with(b"ERROR")
        || line.starts_with(b"SERVER_ERROR")
        || line.starts_with(b"CLIENT_ERROR")
}

/// A decimal number of at most ten digits: no value is longer.
pub(crate) fn read_number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    digits.iter().try_fold(0_usize, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + usize::from(digit - b'0'))
    })
}

pub(crate) fn put_number(number: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = number;
    loop {
        out.push(b'0' + u8::try_from(rest % 10).expect("invariant: one digit"));
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests;
