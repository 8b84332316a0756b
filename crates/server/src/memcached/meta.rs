//! The meta commands.

mod arithmetic;
mod debug;
mod delete;
mod get;
mod store;

pub(super) use arithmetic::{arithmetic, reply as count_reply, terms as count_terms};
pub(super) use debug::debug;
pub(super) use delete::{Removal, delete};
pub(super) use get::{Inspection, get};
pub(super) use store::{reply as store_reply, terms as store_terms};

use wire::memcached::{Expiry, Meta, reply::Facts};

use super::deadline::{NEVER_MS, seconds_left};

/// What a command does to the expiry of a record, in milliseconds; 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expiries {
    /// Before the command.
    before_ms: u64,
    /// After it.
    after_ms: u64,
}

impl Expiries {
    /// Of a record that expires at `before_ms` unless `T` says otherwise, which is `new_ms`.
    pub(super) fn of(before_ms: u64, new_ms: Option<u64>) -> Self {
        Self { before_ms, after_ms: new_ms.unwrap_or(before_ms) }
    }
}

/// The seconds that a reply shows for an expiry.
fn ttl_s(expiry_ms: u64, now_ms: u64) -> Option<u32> {
    seconds_left(expiry_ms, now_ms).map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// What a reply can tell about a record that was there.
pub(super) fn facts(record: &cache::Meta, expiries: Expiries, age_ms: u64, now_ms: u64) -> Facts {
    Facts {
        value_len: record.value_len,
        client_flags: record.client_flags,
        token: record.token,
        ttl_s: ttl_s(expiries.after_ms, now_ms),
        ttl_before_s: ttl_s(expiries.before_ms, now_ms),
        idle_s: u32::try_from(age_ms / 1000).unwrap_or(u32::MAX),
        fetched: record.fetched,
    }
}

/// What a command gives to a record that it creates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    /// The record's expiry in milliseconds; 0 is never.
    expiry_ms: u64,
    /// The expiry as of the place of `t`.
    shown_ms: u64,
}

impl Creation {
    /// Of a record that expires never until `N` and `T` say otherwise, one after the other as
    /// they stand on the line. None if the command creates nothing.
    pub(super) fn of(command: &Meta<'_>, deadline_ms: impl Fn(Expiry) -> u64) -> Option<Self> {
        command.vivify?;
        let deadline = |expiry: Option<Expiry>| expiry.map_or(NEVER_MS, &deadline_ms);
        let mut expiry_ms = NEVER_MS;
        let mut shown_ms = NEVER_MS;
        for token in command.tokens() {
            match token[0] {
                b'N' => expiry_ms = deadline(command.vivify),
                b'T' => expiry_ms = deadline(command.expiry),
                b't' => shown_ms = expiry_ms,
                _ => {}
            }
        }
        Some(Self { expiry_ms, shown_ms })
    }

    /// What a reply can tell about the record.
    pub(super) fn facts(&self, token: u64, now_ms: u64) -> Facts {
        let ttl_s = ttl_s(self.shown_ms, now_ms);
        Facts { token, ttl_s, ttl_before_s: ttl_s, ..Facts::default() }
    }
}
