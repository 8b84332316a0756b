//! The commands that bring a value.

use wire::memcached::{
    Expiry,
    binary::{Head, Status, Store, Verb},
};

use super::replies::{put, put_status, put_value};
use crate::memcached::{
    record::Sink,
    storage::{Condition, Outcome, Side, Terms},
    tokens::Tokens,
};

/// What a client hears whose value has no room.
const NO_MEMORY_STORING: &[u8] = b"Out of memory allocating item";

/// What a command asks for.
pub(in crate::memcached) fn terms(
    tokens: Tokens,
    deadline_ms: impl Fn(Expiry) -> u64,
    command: &Store<'_>,
) -> Terms {
    let token = tokens.wanted(command.token);
    let joined = |side| Condition::Joined { side, token, create_expiry_ms: None };
    let condition = match command.verb {
        Verb::Append => joined(Side::Back),
        Verb::Prepend => joined(Side::Front),
        _ if token != 0 => Condition::Matching { token, or_stale: false },
        Verb::Set => Condition::Always,
        Verb::Add => Condition::Absent,
        Verb::Replace => Condition::Present,
    };
    Terms {
        condition,
        client_flags: command.client_flags,
        expiry_ms: deadline_ms(command.expiry),
        token: tokens.fresh(),
        removes_on_failure: command.verb == Verb::Set,
    }
}

/// Answers.
pub(in crate::memcached) fn reply(command: &Store<'_>, outcome: Outcome, replies: &mut impl Sink) {
    let frame = command.frame;
    let status = match outcome {
        Outcome::Stored { .. } if command.quiet => return,
        Outcome::Stored { token, .. } => {
            return put(&Head { token, ..Head::new(frame, Status::Ok) }, &[], replies);
        }
        Outcome::NoMemory => {
            return put_value(frame, Status::OutOfMemory, NO_MEMORY_STORING, replies);
        }
        Outcome::NotStored => match command.verb {
            Verb::Add => Status::Exists,
            Verb::Replace => Status::NotFound,
            Verb::Set | Verb::Append | Verb::Prepend => Status::NotStored,
        },
        Outcome::Exists => Status::Exists,
        Outcome::NotFound => Status::NotFound,
        Outcome::TooLarge => Status::TooLarge,
    };
    put_status(frame, status, false, replies);
}
