//! The login of the text protocol: a `set` of any key whose value is `<user> <password>`.
//!
//! Until a client has logged in, everything that it sends is read here and nowhere else. A line
//! that is no such `set` is refused alone: what would have been its value is read as a line.
//!
//! The rules are those that memcached 1.6.45 with `-Y` was seen to follow.

use memchr::memchr;

use super::{
    body::{self, Body, TERMINATOR_LEN},
    lines,
};

/// Longest value, in bytes: name and password of 254 bytes each would take 509. It is waited for in
/// full, of a client that nobody knows.
pub const LOGIN_VALUE_BYTES_MAX: u32 = 1000;

/// Longest line, in bytes without its LF. A longer one closes the connection.
pub const LOGIN_LINE_BYTES_MAX: usize = 1000;

// A stranger holds no more than the smallest buffer.
const _: () =
    assert!(LOGIN_LINE_BYTES_MAX + 1 + LOGIN_VALUE_BYTES_MAX as usize + TERMINATOR_LEN <= 2048);

/// Shortest line, in bytes without its LF. A shorter one closes the connection.
const LINE_BYTES_MIN: usize = 6;

/// The word of the line that is the value's length.
const LENGTH_WORD: usize = 4;

/// What the input of a client that has not logged in starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginStep<'a> {
    /// A part of a login. Nothing is consumed; call again with more bytes behind these.
    Incomplete {
        /// Bytes from the start that are needed to go on, if known.
        needed: Option<usize>,
    },
    /// A login.
    Login {
        /// The user's name.
        user: &'a [u8],
        /// The user's password.
        password: &'a [u8],
        /// Bytes of line and value.
        consumed: usize,
    },
    /// Something else, or a login without sense.
    Refused {
        /// The reply.
        reply: &'static [u8],
        /// Bytes to drop.
        consumed: usize,
    },
    /// Nothing that a client sends: the connection is to be closed without a word.
    Foreign,
}

/// Reads one login off the start of `input`.
pub fn parse_login(input: &[u8]) -> LoginStep<'_> {
    let Some(end) = memchr(b'\n', input) else {
        let is_foreign = input.len() > LOGIN_LINE_BYTES_MAX;
        return if is_foreign {
            LoginStep::Foreign
        } else {
            LoginStep::Incomplete { needed: None }
        };
    };
    if !(LINE_BYTES_MIN..=LOGIN_LINE_BYTES_MAX).contains(&end) {
        return LoginStep::Foreign;
    }
    let line_bytes = end + 1;
    let refuse = |reply, consumed| LoginStep::Refused { reply, consumed };
    let Some(value_len) = value_len(input[..end].trim_ascii_end()) else {
        return refuse(lines::UNAUTHENTICATED, line_bytes);
    };
    if value_len > LOGIN_VALUE_BYTES_MAX {
        return refuse(lines::LOGIN_TOO_LONG, line_bytes);
    }
    match body::split(&input[line_bytes..], value_len) {
        Body::Partial => {
            let needed = Some(line_bytes + value_len as usize + TERMINATOR_LEN);
            LoginStep::Incomplete { needed }
        }
        Body::Malformed { consumed } => refuse(lines::BAD_TERMINATION, line_bytes + consumed),
        Body::Whole { value, consumed } => {
            let consumed = line_bytes + consumed;
            let Some(space) = memchr(b' ', value) else {
                return refuse(lines::BAD_LOGIN, consumed);
            };
            LoginStep::Login { user: &value[..space], password: &value[space + 1..], consumed }
        }
    }
}

/// The length of the value that the line announces, if it is a `set`.
fn value_len(line: &[u8]) -> Option<u32> {
    if !line.starts_with(b"set") {
        return None;
    }
    let word = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).nth(LENGTH_WORD)?;
    let digits = word.iter().all(u8::is_ascii_digit);
    str::from_utf8(word).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests;
