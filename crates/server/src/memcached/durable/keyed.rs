//! Text and meta requests about one key, as deeds.

use std::borrow::Cow;

use wire::memcached::{Meta, Request};

use super::{
    deed::{Deed, Kind},
    desk::{Desk, TOKENS},
};
use crate::memcached::{
    arithmetic::Terms,
    command::StoreCommand,
    meta::{Inspection, Removal, count_terms},
};

/// What a request without a value does under its key's lock; `None` for what only reads, and for
/// what is about no key.
pub(super) fn deed(desk: &Desk, request: &Request<'_>) -> Option<Deed<'static>> {
    let kind = match request {
        Request::Delete { .. } => Kind::Delete { token: 0 },
        Request::Touch { expiry, .. } => {
            Kind::Touch { expiry_ms: desk.deadline_ms(*expiry), with_value: false }
        }
        Request::Arithmetic { direction, delta, .. } => Kind::Count(Terms {
            direction: *direction,
            delta: *delta,
            compare: 0,
            token: TOKENS.fresh(),
            expiry_ms: None,
            create: None,
        }),
        Request::MetaGet(command) if changes(command) => return Some(inspection(desk, command)),
        Request::MetaDelete(command) => {
            let removal = Removal::of(command, TOKENS, |expiry| desk.deadline_ms(expiry));
            Kind::MetaDelete(removal)
        }
        Request::MetaArithmetic { meta, direction } => {
            let deadline_ms = |expiry| desk.deadline_ms(expiry);
            Kind::Count(count_terms(meta, *direction, TOKENS, deadline_ms))
        }
        Request::MetaDebug { .. } => Kind::MetaDebug { now_ms: desk.now_ms },
        _ => return None,
    };
    Some(Deed(kind))
}

/// Whether a `mg` may change its record, or make one.
fn changes(command: &Meta<'_>) -> bool {
    b"NTR".iter().any(|&flag| command.flags.has(flag))
}

/// A `mg` that looks under its key's lock.
pub(super) fn inspection(desk: &Desk, command: &Meta<'_>) -> Deed<'static> {
    let deadline_ms = |expiry| desk.deadline_ms(expiry);
    let inspection = Inspection::of(command, desk.now_ms, TOKENS, deadline_ms);
    Deed(Kind::MetaGet { inspection, with_value: command.flags.has(b'v') })
}

/// What a request does that brings a value.
pub(super) fn store<'i>(desk: &Desk, command: &StoreCommand<'i>, value: &'i [u8]) -> Deed<'i> {
    let terms = command.terms(TOKENS, |expiry| desk.deadline_ms(expiry));
    Deed(Kind::Store { terms, value: Cow::Borrowed(value) })
}

/// The same when the store has the value already, in parts.
pub(super) fn store_uploaded(desk: &Desk, command: &StoreCommand<'_>) -> Deed<'static> {
    let terms = command.terms(TOKENS, |expiry| desk.deadline_ms(expiry));
    Deed(Kind::StoreUploaded { terms, value_len: command.value_len() })
}

/// What it does when its value is too long: a record does not outlive the failure of its
/// replacement. `None` where it does.
pub(super) fn refused(desk: &Desk, command: &StoreCommand<'_>) -> Option<Deed<'static>> {
    let terms = command.terms(TOKENS, |expiry| desk.deadline_ms(expiry));
    terms.removes_on_failure.then_some(Deed(Kind::Delete { token: 0 }))
}
