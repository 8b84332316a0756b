//! The memcached text, meta and binary protocols, as memcached 1.6.45 speaks them.
//!
//! [`parse`] takes what has been received and returns one request, or a reply to a request that
//! is wrong; [`plain_get`], [`plain_set`] and [`plain_meta_get`] read the most frequent ones at
//! less cost. A storage request is returned with its line alone: its body, `value_len + 2` bytes,
//! follows in the input and is handled by [`body`]. [`reply`] and [`lines`] write the answers.
//! [`binary`] has the same for the binary protocol, and [`parse_login`] reads what clients send who
//! have to log in.
//!
//! The rules follow the protocol's description (`doc/protocol.txt` of memcached) and, where that
//! is silent, what memcached 1.6.45 was seen to answer.

pub mod binary;
pub mod body;
pub mod datagram;
pub mod dump;
pub mod limits;
pub mod lines;
pub mod reply;

mod admin;
mod base64;
mod decimal;
mod expiry;
mod keys;
mod line;
mod login;
mod meta;
mod number;
mod plain;
mod request;
mod text;

pub use expiry::{Expiry, RELATIVE_S_MAX};
pub use keys::{Keys, KeysStep, parse_keys};
pub use limits::Limits;
pub use login::{LOGIN_LINE_BYTES_MAX, LOGIN_VALUE_BYTES_MAX, LoginStep, parse_login};
pub use meta::{FlagSet, KeyRoom, Meta, MetaKey, StoreMode};
pub use plain::{plain_get, plain_meta_get, plain_set};
pub use request::{
    Direction, DumpFormat, Get, MetaStore, Request, ShutdownMode, Stats, Store, StoreVerb, Subject,
    watch,
};

use limits::{LEADING_SPACES_MAX, LINE_BYTES_MAX, LINE_PROBE_BYTES};
use memchr::memchr;

/// What the input starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A part of a line. Nothing is consumed; call again with more bytes behind these.
    Incomplete,
    /// A request.
    Request {
        /// The request, borrowing from the input.
        request: Request<'a>,
        /// Bytes of the line. The body of a storage request comes behind them.
        consumed: usize,
    },
    /// A line that is no request.
    Invalid {
        /// The reply to send, with its line end; empty if the client asked for none.
        reply: &'static [u8],
        /// Bytes of the line.
        consumed: usize,
        /// What else to do.
        then: Then,
    },
}

/// What follows the reply to an invalid line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Go on with the next line.
    Continue,
    /// Drop this many bytes behind the line, now or as they arrive, then go on: the body of a
    /// storage request that was refused.
    Swallow {
        /// Length of the body with its line end.
        bytes: u32,
    },
    /// Write out what waits and close the connection.
    Close,
}

/// A line that is no request: the reply, and what follows.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    reply: &'static [u8],
    then: Then,
}

impl Refusal {
    /// Refuses with `reply` unless the client wants none.
    #[cold]
    fn new(reply: &'static [u8], noreply: bool) -> Self {
        Self { reply: if noreply { &[] } else { reply }, then: Then::Continue }
    }
}

type Parsed<'a> = Result<Request<'a>, Refusal>;

/// Shortest line with its line end, in bytes.
const LINE_BYTES_MIN: usize = 4;

/// Reads one line off the start of `input`.
///
/// Cost is linear in the length of the line; an incomplete line is searched again on each call.
///
/// How input is cut into calls makes no difference, but for lines that only memcached's own
/// clients could not send: without a line end in sight, more than [`limits::LINE_PROBE_BYTES`]
/// close the connection, where the whole line would have been read.
#[inline]
pub fn parse<'a>(input: &'a [u8], limits: &Limits) -> Step<'a> {
    let Some(end) = memchr(b'\n', input) else {
        return unfinished(input, limits);
    };
    let consumed = end + 1;
    let line = match &input[..end] {
        [line @ .., b'\r'] => line,
        line => line,
    };
    if consumed > LINE_BYTES_MAX && !is_retrieval(line) {
        return close(&[], consumed);
    }
    if consumed < LINE_BYTES_MIN {
        return Step::Invalid { reply: lines::BAD_FORMAT, consumed, then: Then::Continue };
    }
    text::step(line, consumed)
}

/// What to do with input that has no line end yet.
#[cold]
fn unfinished<'a>(input: &'a [u8], limits: &Limits) -> Step<'a> {
    if input.len() <= LINE_PROBE_BYTES {
        return Step::Incomplete;
    }
    if !is_retrieval(input) {
        return close(&[], input.len());
    }
    if input.len() < limits.retrieval_part_bytes {
        return Step::Incomplete;
    }
    match text::part(input) {
        Ok((request, consumed)) => Step::Request { request, consumed },
        Err(refusal) => close(refusal.reply, input.len()),
    }
}

/// Whether a line of more than [`LINE_BYTES_MAX`] may stand.
#[cold]
fn is_retrieval(line: &[u8]) -> bool {
    let command = line::skip_spaces(line);
    let verbs: [&[u8]; 4] = [b"get ", b"gets ", b"gat ", b"gats "];
    line.len() - command.len() <= LEADING_SPACES_MAX
        && verbs.iter().any(|verb| command.starts_with(verb))
}

fn close<'a>(reply: &'static [u8], consumed: usize) -> Step<'a> {
    Step::Invalid { reply, consumed, then: Then::Close }
}

#[cfg(test)]
mod tests;
