//! `ms`.

use wire::memcached::{
    Expiry, MetaStore, StoreMode, lines,
    reply::{Facts, Status},
};

use crate::memcached::{
    deadline::NEVER_MS,
    record::{Sink, put_line},
    storage::{Condition, Outcome, Side, Terms},
    tokens::Tokens,
};

/// What `ms` asks for.
pub(in crate::memcached) fn terms(
    tokens: Tokens,
    deadline: impl Fn(Expiry) -> u64,
    command: &MetaStore<'_>,
) -> Terms {
    let meta = &command.meta;
    let joined = |side| Condition::Joined {
        side,
        token: tokens.wanted(meta.compare.unwrap_or(0)),
        create_expiry_ms: meta.vivify.map(&deadline),
    };
    let matching = meta.compare.map(|token| Condition::Matching {
        token: tokens.wanted(token),
        or_stale: meta.flags.has(b'I'),
    });
    let condition = match command.mode {
        StoreMode::Set => matching.unwrap_or(Condition::Always),
        StoreMode::Replace => matching.unwrap_or(Condition::Present),
        StoreMode::Add => Condition::Absent,
        StoreMode::Append => joined(Side::Back),
        StoreMode::Prepend => joined(Side::Front),
    };
    Terms {
        condition,
        client_flags: meta.client_flags,
        expiry_ms: meta.expiry.map_or(NEVER_MS, &deadline),
        token: tokens.chosen(meta.token),
        removes_on_failure: true,
    }
}

/// Answers `ms`.
pub(in crate::memcached) fn reply(
    command: &MetaStore<'_>,
    outcome: Outcome,
    replies: &mut impl Sink,
) {
    let unstored = Facts { value_len: command.value_len, ..Facts::default() };
    let (status, facts) = match outcome {
        Outcome::Stored { token, value_len } => {
            let value_len = u32::try_from(value_len).unwrap_or(u32::MAX);
            (Status::Done, Facts { value_len, token, ..Facts::default() })
        }
        Outcome::NotStored => (Status::NotStored, unstored),
        Outcome::Exists => (Status::Exists, unstored),
        Outcome::NotFound => (Status::NotFound, unstored),
        Outcome::TooLarge => return replies.put(lines::TOO_LARGE),
        Outcome::NoMemory => return replies.put(lines::OUT_OF_MEMORY_STORING),
    };
    put_line(replies, |writer| writer.meta_store(status, &command.meta, &facts));
}
