//! `ma`.

use cache::Key;
use wire::memcached::{
    Direction, Meta, lines,
    reply::{Facts, Status},
};

use super::{Creation, Expiries, ttl_s};
use crate::memcached::{
    arithmetic::{Create, Order, Outcome, count},
    context::Context,
    record::{Replies, put_line},
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
    let expiry_ms = command.expiry.map(deadline);
    let creation = Creation::of(command, context);
    let order = Order {
        key,
        direction,
        delta: command.delta,
        compare: command.compare.unwrap_or(0),
        token: context.tokens.chosen(command.token),
        expiry_ms,
        create: creation
            .map(|creation| Create { number: command.initial, expiry_ms: creation.expiry_ms }),
    };
    let outcome = count(context, &order);
    let now_ms = context.worker.now_ms();
    let (number, facts) = match outcome {
        Outcome::Changed { number, token, expiry_before_ms } => {
            let Expiries { before_ms, after_ms } = Expiries::of(expiry_before_ms, expiry_ms);
            let ttl_s = |expiry_ms| ttl_s(expiry_ms, now_ms);
            let (ttl_s, ttl_before_s) = (ttl_s(after_ms), ttl_s(before_ms));
            (number, Facts { token, ttl_s, ttl_before_s, ..Facts::default() })
        }
        Outcome::Created { token } => {
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

fn fail(command: &Meta<'_>, status: Status, replies: &mut Replies) {
    put_line(replies, |writer| writer.meta_arithmetic_failed(status, command));
}
