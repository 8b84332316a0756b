//! What clients hear when the store cannot do what they ask.

use log::error::Error as LogError;
use store::Error;
use wire::memcached::{
    binary::{Frame, Status},
    lines::LINE_END,
};

use crate::memcached::binary::replies::put_value;

/// More waits for the disk than may.
pub(super) const BUSY: &str = "too much waits for the disk";

/// The key begins as those of a table of integers, and is none of them.
const FOREIGN_KEY: &str = "the key is no integer of its table";

/// What is said about an error. The log of the server has all of it.
pub(super) fn of(error: &Error) -> &'static str {
    match error {
        Error::ValueBytes { .. } | Error::Log(LogError::ValueBytes { .. }) => {
            "object too large for cache"
        }
        Error::ForeignKey => FOREIGN_KEY,
        Error::NoMemory => "out of memory",
        Error::Log(LogError::NoRoom) => "the disk is full",
        Error::Log(LogError::ReadOnly) => "read-only, because writing to the disk has failed",
        Error::Log(LogError::Unflushed) => "not kept, because writing to the disk has failed",
        Error::Log(
            LogError::IndexFull(_) | LogError::PositionsUsedUp { .. } | LogError::SequencesUsedUp,
        ) => "the log is full",
        Error::Log(LogError::Damaged { .. } | LogError::OtherKey { .. }) => {
            "the record on the disk is damaged"
        }
        Error::InParts => "nothing is put before or behind a value of this length",
        Error::PartsLost => "not kept, because writing to the disk has failed",
        Error::Slow => "too slow for a value of this length",
        Error::Moved { .. } | Error::TooMany { .. } => BUSY,
        Error::Log(LogError::Disk { .. } | LogError::Unreadable { .. }) => {
            "the record cannot be read from the disk"
        }
        _ => "the store cannot do this",
    }
}

/// What is said about a flush that is not done.
pub(super) fn of_flush(error: &Error) -> &'static str {
    match error {
        Error::Log(LogError::WipeUnsure(_)) => {
            "read-only, because writing to the disk has failed; all may be gone after a restart"
        }
        Error::Log(LogError::Disk { .. }) => "not flushed, because writing to the disk has failed",
        error => of(error),
    }
}

/// A line of the text protocols.
pub(super) fn line(words: &str) -> Vec<u8> {
    let whose: &[u8] = if words == FOREIGN_KEY { b"CLIENT_ERROR " } else { b"SERVER_ERROR " };
    [whose, words.as_bytes(), LINE_END].concat()
}

/// A reply of the binary protocol.
pub(super) fn frame(frame: Frame, words: &str) -> Vec<u8> {
    let status = match words {
        BUSY => Status::Busy,
        FOREIGN_KEY => Status::InvalidArguments,
        _ => Status::Internal,
    };
    let mut reply = Vec::new();
    put_value(frame, status, words.as_bytes(), &mut reply);
    reply
}
