//! Replies.

use super::super::{
    limits::KEY_LEN_MAX,
    reply::{LINE_BYTES_MAX, Writer},
};
use super::header::{Frame, HEADER_BYTES, MAGIC_REPLY};

/// Longest extras of a reply: flags.
const EXTRAS_LEN_MAX: usize = 4;

// A head fits where a line fits.
const _: () = assert!(HEADER_BYTES + EXTRAS_LEN_MAX + KEY_LEN_MAX <= LINE_BYTES_MAX);

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Done.
    Ok = 0x00,
    /// No such record.
    NotFound = 0x01,
    /// There is a record already, or one with another token.
    Exists = 0x02,
    /// The value is larger than the server takes.
    TooLarge = 0x03,
    /// The request is malformed.
    InvalidArguments = 0x04,
    /// A condition did not hold.
    NotStored = 0x05,
    /// The value to be counted in is no number.
    NotNumeric = 0x06,
    /// The client has to log in, or failed to, or may not do this at all.
    Unauthenticated = 0x20,
    /// The login goes on.
    LoginGoesOn = 0x21,
    /// No such operation.
    UnknownCommand = 0x81,
    /// The server has no memory.
    OutOfMemory = 0x82,
    /// The server cannot do it, for a reason that the value says.
    Internal = 0x84,
    /// It does the same for somebody else.
    Busy = 0x85,
}

impl Status {
    /// The value of a reply that has nothing else to say.
    pub const fn text(self) -> &'static [u8] {
        match self {
            Self::Ok | Self::LoginGoesOn => b"",
            Self::NotFound => b"Not found",
            Self::Exists => b"Data exists for key.",
            Self::TooLarge => b"Too large.",
            Self::InvalidArguments => b"Invalid arguments",
            Self::NotStored => b"Not stored.",
            Self::NotNumeric => b"Non-numeric server-side value for incr or decr",
            Self::Unauthenticated => b"Auth failure.",
            Self::UnknownCommand => b"Unknown command",
            Self::OutOfMemory => b"Out of memory",
            Self::Internal => b"Internal error",
            Self::Busy => b"Busy",
        }
    }
}

/// A reply up to its value, which comes behind it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// What is answered.
    pub frame: Frame,
    /// How it went.
    pub status: Status,
    /// The token of the record, 0 if there is none.
    pub token: u64,
    /// Extras, at most 4 bytes.
    pub extras: &'a [u8],
    /// The key, or the name of a statistic; empty if it is not to be given back.
    pub key: &'a [u8],
    /// Bytes of the value.
    pub value_len: u32,
}

impl<'a> Head<'a> {
    /// The reply to `frame`, with nothing in it yet.
    #[inline]
    pub const fn new(frame: Frame, status: Status) -> Self {
        Self { frame, status, token: 0, extras: &[], key: &[], value_len: 0 }
    }

    /// Writes header, extras and key: at most [`LINE_BYTES_MAX`].
    ///
    /// # Panics
    ///
    /// If the room does not suffice.
    #[inline]
    pub fn write(&self, writer: &mut Writer<'_>) {
        let Self { frame, status, token, extras, key, value_len } = *self;
        let body_len = extras.len() as u32 + key.len() as u32 + value_len;
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = MAGIC_REPLY;
        bytes[1] = frame.opcode;
        bytes[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
        bytes[4] = extras.len() as u8;
        bytes[6..8].copy_from_slice(&(status as u16).to_be_bytes());
        bytes[8..12].copy_from_slice(&body_len.to_be_bytes());
        bytes[12..16].copy_from_slice(&frame.opaque);
        bytes[16..].copy_from_slice(&token.to_be_bytes());
        writer.put(&bytes);
        writer.put(extras);
        writer.put(key);
    }
}
