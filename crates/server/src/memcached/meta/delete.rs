//! `md`.

use cache::{Change, Decision, Edit, Key, Put, Token, Value};
use wire::memcached::{Expiry, Meta, lines, reply::Status};

use crate::memcached::{
    context::Context,
    deadline::NEVER_MS,
    record::{Replies, put_line},
    tokens::Tokens,
};

/// Answers `md`.
pub(in crate::memcached) fn delete(
    context: &mut Context,
    key: Key<'_>,
    command: &Meta<'_>,
    replies: &mut Replies,
) {
    let removal = Removal::of(command, context.tokens, |expiry| context.deadline_ms(expiry));
    let mut status = Status::NotFound;
    let result = context.worker.update(key, |view| {
        let change;
        (change, status) = match view {
            None => (Change::Keep, Status::NotFound),
            Some(view) => removal.decide(&view.meta()),
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

/// What `md` does to a record.
#[derive(Clone, Copy, Debug)]
pub(in crate::memcached) struct Removal {
    /// The token that it must have.
    compare: Option<u64>,
    /// It stays, and is stale (`I`).
    pub(in crate::memcached) stale: bool,
    /// It stays, without its value (`x`).
    pub(in crate::memcached) clears: bool,
    client_flags: u32,
    expiry_ms: Option<u64>,
    token: Token,
}

impl Removal {
    pub(in crate::memcached) fn of(
        command: &Meta<'_>,
        tokens: Tokens,
        deadline_ms: impl Fn(Expiry) -> u64,
    ) -> Self {
        Self {
            compare: command.compare,
            stale: command.flags.has(b'I'),
            clears: command.flags.has(b'x'),
            client_flags: command.client_flags,
            expiry_ms: command.expiry.map(deadline_ms),
            token: tokens.chosen(command.token),
        }
    }

    /// Whether it does the same to every record that there is.
    pub(in crate::memcached) fn is_plain(&self) -> bool {
        self.compare.is_none() && !self.stale && !self.clears
    }

    /// What becomes of a record, and how that is called.
    pub(in crate::memcached) fn decide(&self, record: &cache::Meta) -> (Change<'static>, Status) {
        if self.compare.is_some_and(|token| token != record.token) {
            return (Change::Keep, Status::Exists);
        }
        let change = if self.clears {
            let token = match self.token {
                Token::Fresh if !self.stale => Token::Given(record.token),
                token => token,
            };
            Change::Put(Put {
                client_flags: self.client_flags,
                expiry_ms: self.expiry_ms.unwrap_or(NEVER_MS),
                token,
                stale: self.stale,
                ..Put::new(Value::Bytes(b""))
            })
        } else if self.stale {
            Change::Edit(Edit {
                expiry_ms: self.expiry_ms,
                token: Some(self.token),
                stale: Some(true),
                win_sent: Some(false),
            })
        } else {
            Change::Remove
        };
        (change, Status::Done)
    }
}
