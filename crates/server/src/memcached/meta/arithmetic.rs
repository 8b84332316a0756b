//! `ma`.

use cache::Key;
use wire::memcached::{
    Direction, Expiry, Meta, lines,
    reply::{Facts, Status},
};

use super::{Creation, Expiries, ttl_s};
use crate::memcached::{
    arithmetic::{Create, Order, Outcome, Terms, count},
    context::Context,
    record::{Replies, Sink, put_line},
    tokens::Tokens,
};

/// Answers `ma`.
pub(in crate::memcached) fn arithmetic(
    context: &mut Context,
    key: Key<'_>,
    command: &Meta<'_>,
    direction: Direction,
    replies: &mut Replies,
) {
    let deadline = |expiry| context.deadline_ms(expiry);
    let terms = terms(command, direction, context.tokens, deadline);
    let outcome = count(context, &Order { key, terms });
    let now_ms = context.worker.now_ms();
    reply(command, outcome, now_ms, |expiry| context.deadline_ms(expiry), replies);
}
/// What the command asks for.
pub(in crate::memcached) fn terms(
    command: &Meta<'_>,
    direction: Direction,
    tokens: Tokens,
    deadline_ms: impl Fn(Expiry) -> u64,
) -> Terms {
    let creation = Creation::of(command, &deadline_ms);
    Terms {
        direction,
        delta: command.delta,
        compare: command.compare.unwrap_or(0),
        token: tokens.chosen(command.token),
        expiry_ms: command.expiry.map(&deadline_ms),
        create: creation
            .map(|creation| Create { number: command.initial, expiry_ms: creation.expiry_ms }),
    }
}

/// Writes the answer.
pub(in crate::memcached) fn reply(
    command: &Meta<'_>,
    outcome: Outcome,
    now_ms: u64,
    deadline_ms: impl Fn(Expiry) -> u64,
    replies: &mut impl Sink,
) {
    let (number, facts) = match outcome {
        Outcome::Changed { number, token, expiry_before_ms } => {
            let expiry_ms = command.expiry.map(deadline_ms);
            let Expiries { before_ms, after_ms } = Expiries::of(expiry_before_ms, expiry_ms);
            let ttl_s = |expiry_ms| ttl_s(expiry_ms, now_ms);
            let (ttl_s, ttl_before_s) = (ttl_s(after_ms), ttl_s(before_ms));
            (number, Facts { token, ttl_s, ttl_before_s, ..Facts::default() })
        }
        Outcome::Created { token } => {
            let creation = Creation::of(command, deadline_ms);
            let creation = creation.expect("invariant: it told what to create");
            (command.initial, creation.facts(token, now_ms))
        }
        Outcome::Missing => return fail(command, Status::NotFound, replies),
        Outcome::Exists => return fail(command, Status::Exists, replies),
        Outcome::NotNumeric => return replies.put(lines::NON_NUMERIC),
        Outcome::NoMemory => return replies.put(lines::OUT_OF_MEMORY),
    };
    put_line(replies, |writer| writer.meta_arithmetic(command, number, &facts));
}

fn fail(command: &Meta<'_>, status: Status, replies: &mut impl Sink) {
    put_line(replies, |writer| writer.meta_arithmetic_failed(status, command));
}
