//! The commands that bring a value.

use cache::Key;
use wire::memcached::binary::{Head, Status, Store, Verb};

use super::replies::{put, put_status, put_value};
use crate::memcached::{
    context::Context,
    record::Replies,
    storage::{Condition, Order, Outcome, Side},
};

/// What a client hears whose value has no room.
const NO_MEMORY_STORING: &[u8] = b"Out of memory allocating item";

/// What a command asks for.
pub(in crate::memcached) fn order<'k>(
    context: &Context,
    key: &'k Key<'k>,
    command: &Store<'_>,
) -> Order<'k> {
    let token = context.tokens.wanted(command.token);
    let joined = |side| Condition::Joined { side, token, create_expiry_ms: None };
    let condition = match command.verb {
        Verb::Append => joined(Side::Back),
        Verb::Prepend => joined(Side::Front),
        _ if token != 0 => Condition::Matching { token, or_stale: false },
        Verb::Set => Condition::Always,
        Verb::Add => Condition::Absent,
        Verb::Replace => Condition::Present,
    };
    Order {
        key,
        condition,
        client_flags: command.client_flags,
        expiry_ms: context.deadline_ms(command.expiry),
        token: context.tokens.fresh(),
        removes_on_failure: command.verb == Verb::Set,
    }
}

/// Answers.
pub(in crate::memcached) fn reply(command: &Store<'_>, outcome: Outcome, replies: &mut Replies) {
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
