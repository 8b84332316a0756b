//! `md`.

use cache::{Change, Decision, Edit, Key, Put, Token, Value};
use wire::memcached::{Meta, lines, reply::Status};

use crate::memcached::{
    context::Context,
    deadline::NEVER_MS,
    record::{Replies, put_line},
};

/// Answers `md`.
pub(in crate::memcached) fn delete(
    context: &mut Context,
    key: Key<'_>,
    command: &Meta<'_>,
    replies: &mut Replies,
) {
    let expiry_ms = command.expiry.map(|expiry| context.deadline_ms(expiry));
    let tokens = context.tokens;
    let mut status = Status::NotFound;
    let result = context.worker.update(key, |view| {
        let change;
        (change, status) = match view {
            None => (Change::Keep, Status::NotFound),
            Some(view) => decide(&view.meta(), command, expiry_ms, tokens.chosen(command.token)),
        };
        Decision::from(change)
    });
    if result.is_err() {
        return replies.put(lines::OUT_OF_MEMORY);
    }
    let counters = &context.counters;
    match status {
        Status::Done if command.flags.has(b'I') => {}
        Status::Done => counters.delete_hits.add(1),
        _ => counters.delete_misses.add(1),
    }
    put_line(replies, |writer| writer.meta_delete(status, command));
}

fn decide(
    record: &cache::Meta,
    command: &Meta<'_>,
    expiry_ms: Option<u64>,
    new_token: Token,
) -> (Change<'static>, Status) {
    if command.compare.is_some_and(|token| token != record.token) {
        return (Change::Keep, Status::Exists);
    }
    let stale = command.flags.has(b'I');
    let change = if command.flags.has(b'x') {
        let token = match new_token {
            Token::Fresh if !stale => Token::Given(record.token),
            token => token,
        };
        Change::Put(Put {
            client_flags: command.client_flags,
            expiry_ms: expiry_ms.unwrap_or(NEVER_MS),
            token,
            stale,
            ..Put::new(Value::Bytes(b""))
        })
    } else if stale {
        Change::Edit(Edit {
            expiry_ms,
            token: Some(new_token),
            stale: Some(true),
            win_sent: Some(false),
        })
    } else {
        Change::Remove
    };
    (change, Status::Done)
}
