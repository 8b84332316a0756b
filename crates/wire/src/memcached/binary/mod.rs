//! The memcached binary protocol: requests and replies with a header of fixed length.
//!
//! All numbers are in network order. A request and its reply have the same form:
//!
//! ```text
//!        0         1         2         3
//!    0 | magic   | opcode  | length of the key |   magic: 0x80 asks, 0x81 answers
//!    4 | extras  | 0       | 0, or the status  |   extras: their length
//!    8 | length of the body: extras, key, value|
//!   12 | opaque, given back as it is           |
//!   16 | token of the record (cas), 8 bytes    |
//!   24 | extras, key, value                    |
//! ```
//!
//! [`parse`] takes what has been received and returns one request, or what is to be said to one
//! that is wrong. A storage request is returned without its value, which is the `value_len` bytes
//! behind it. [`Head`] writes a reply up to its value.
//!
//! Thread safety: plain data and pure functions.
//!
//! Invariants: those of the crate. Nothing that the header announces is waited for beyond extras,
//! key, and [`LOGIN_BYTES_MAX`] of a login.
//!
//! The rules follow the protocol's description (`doc/protocol-binary.xml` of memcached) and, where
//! that is silent, what memcached 1.6.45 was seen to answer.

mod header;
mod reply;
mod request;

pub use header::{Frame, HEADER_BYTES, MAGIC_REPLY, MAGIC_REQUEST};
pub use reply::{Head, Status};
pub use request::{Command, Create, Get, Request, Store, Verb};

use header::Header;

use super::limits::KEY_LEN_MAX;

/// Largest body: the largest item of memcached, 1 GiB. More closes the connection.
pub const BODY_BYTES_MAX: u32 = 1 << 30;

/// Longest message of a login: three names and passwords of 255 bytes would take 767.
pub const LOGIN_BYTES_MAX: usize = 1024;

/// Longest name of a mechanism of a login.
pub const MECHANISM_LEN_MAX: usize = 32;

/// What the input starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A part of a request. Nothing is consumed; call again with more bytes behind these.
    Incomplete {
        /// Bytes from the start without which nothing can be said; more than there are.
        needed: usize,
    },
    /// A request.
    Request {
        /// The request, borrowing from the input.
        request: Request<'a>,
        /// Its bytes. The value of a storage request comes behind them.
        consumed: usize,
    },
    /// A request that cannot be.
    Refused {
        /// What to say, and what to do.
        refusal: Refusal,
        /// Bytes of it that lie in the input and are done with.
        consumed: usize,
    },
    /// No request at all: the connection is to be closed without a word.
    Foreign,
}

/// What is to be said to a request that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request.
    pub frame: Frame,
    /// Why.
    pub status: Status,
    /// Bytes to be dropped behind what was consumed, now or as they arrive; `None` closes the
    /// connection.
    pub swallow: Option<u32>,
    /// Whether this is said even to a client that would have to log in first.
    pub before_login: bool,
}

/// Reads one request off the start of `input`.
#[inline]
pub fn parse(input: &[u8]) -> Step<'_> {
    let needed = HEADER_BYTES;
    match input.first() {
        None => return Step::Incomplete { needed },
        Some(&MAGIC_REQUEST) => {}
        Some(_) => return Step::Foreign,
    }
    let Some(header) = Header::read(input) else { return Step::Incomplete { needed } };
    if let Err(refusal) = check(&header) {
        return Step::Refused { refusal, consumed: HEADER_BYTES };
    }
    let needed = HEADER_BYTES + header.extras_len + header.key_len;
    let Some(head) = input.get(HEADER_BYTES..needed) else { return Step::Incomplete { needed } };
    let (extras, key) = head.split_at(header.extras_len);
    request::read(&header, extras, key, &input[needed..])
}

/// Looks at lengths alone.
#[inline]
fn check(header: &Header) -> Result<(), Refusal> {
    let refuse = |status, before_login| {
        Err(Refusal { frame: header.frame, status, swallow: None, before_login })
    };
    if header.key_len + header.extras_len > header.body_len as usize {
        return refuse(Status::UnknownCommand, true);
    }
    if header.body_len > BODY_BYTES_MAX {
        return refuse(Status::InvalidArguments, true);
    }
    if header.key_len > KEY_LEN_MAX {
        return refuse(Status::InvalidArguments, false);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
