//! What a request does to a record, as the store carries it out.

use std::borrow::Cow;

use cache::{Change, Digits, Edit, Meta, Value};
use store::{Command, Needs, Present};
use wire::memcached::reply::{Facts, Renewal, Status};

use crate::memcached::{
    arithmetic,
    meta::{Expiries, Inspection, Removal, facts},
    storage::{self, Condition, Forms},
};

/// Bytes that one costs while it waits, beside a value.
const DEED_BYTES: usize = 256;

/// A request that changes a record, or looks at it under its key's lock.
#[derive(Clone, Debug)]
pub(crate) struct Deed<'v>(pub(super) Kind<'v>);

#[derive(Clone, Debug)]
pub(super) enum Kind<'v> {
    /// Every command that brings a value.
    Store { terms: storage::Terms, value: Cow<'v, [u8]> },
    /// The same with a value that the store has already, in parts.
    StoreUploaded { terms: storage::Terms, value_len: u32 },
    /// `incr`, `decr`, `ma`.
    Count(arithmetic::Terms),
    /// `touch`, `gat`.
    Touch { expiry_ms: u64, with_value: bool },
    /// `delete`; a token other than 0 is compared.
    Delete { token: u64 },
    /// `md`.
    MetaDelete(Removal),
    /// `mg` that may change something.
    MetaGet { inspection: Inspection, with_value: bool },
    /// `me`, at this time.
    MetaDebug { now_ms: u64 },
}

/// What it has come to; of what is stored, without the token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    /// Of a store.
    Stored(storage::Outcome),
    /// Of a command that counts.
    Counted(arithmetic::Outcome),
    /// Of a touch: the record.
    Touched(Option<Meta>),
    /// Of a delete.
    Deleted(Status),
    /// The store knows whether something was deleted.
    Gone,
    /// `mg` found a record, and the time to be told.
    Shown(Facts, Renewal),
    /// `mg` has created one.
    Created,
    /// What `me` tells of a record.
    Known(Facts),
    /// There is no record.
    Absent,
}

impl Deed<'_> {
    /// The same, which borrows from nothing.
    pub(super) fn to_owned(&self) -> Deed<'static> {
        Deed(match &self.0 {
            Kind::Store { terms, value } => {
                Kind::Store { terms: *terms, value: Cow::Owned(value.to_vec()) }
            }
            Kind::StoreUploaded { terms, value_len } => {
                Kind::StoreUploaded { terms: *terms, value_len: *value_len }
            }
            Kind::Count(terms) => Kind::Count(*terms),
            Kind::Touch { expiry_ms, with_value } => {
                Kind::Touch { expiry_ms: *expiry_ms, with_value: *with_value }
            }
            Kind::Delete { token } => Kind::Delete { token: *token },
            Kind::MetaDelete(removal) => Kind::MetaDelete(*removal),
            Kind::MetaGet { inspection, with_value } => {
                Kind::MetaGet { inspection: *inspection, with_value: *with_value }
            }
            Kind::MetaDebug { now_ms } => Kind::MetaDebug { now_ms: *now_ms },
        })
    }
}

impl Command for Deed<'_> {
    type Verdict = Verdict;

    fn needs(&self) -> Needs {
        match &self.0 {
            Kind::Store { terms, .. } | Kind::StoreUploaded { terms, .. } => {
                match terms.condition {
                    Condition::Always => Needs::Nothing,
                    Condition::Joined { .. } => Needs::Value,
                    Condition::Absent | Condition::Present | Condition::Matching { .. } => {
                        Needs::Fields
                    }
                }
            }
            Kind::Delete { token: 0 } => Needs::Nothing,
            Kind::Delete { .. } | Kind::MetaDebug { .. } => Needs::Fields,
            Kind::MetaDelete(removal) if removal.is_plain() => Needs::Nothing,
            Kind::MetaDelete(removal) if removal.clears || !removal.stale => Needs::Fields,
            // What keeps the value writes it anew.
            Kind::Count(_) | Kind::Touch { .. } | Kind::MetaDelete(_) | Kind::MetaGet { .. } => {
                Needs::Value
            }
        }
    }

    fn bytes(&self) -> usize {
        DEED_BYTES
            + match &self.0 {
                Kind::Store { value, .. } => value.len(),
                _ => 0,
            }
    }

    fn shows(&self) -> bool {
        matches!(
            self.0,
            Kind::Touch { with_value: true, .. } | Kind::MetaGet { with_value: true, .. }
        )
    }

    fn decide<'s>(&'s self, present: Option<&Present<'s>>) -> (Change<'s>, Verdict) {
        let record = present.map(Present::meta);
        match &self.0 {
            Kind::Store { terms, value } => {
                let (change, outcome) = terms.decide(record, Forms::of(value));
                (change, Verdict::Stored(outcome))
            }
            Kind::StoreUploaded { terms, value_len } => {
                let (change, outcome) = terms.decide(record, Forms::uploaded((*value_len).into()));
                (change, Verdict::Stored(outcome))
            }
            Kind::Count(terms) => count(terms, present),
            Kind::Touch { expiry_ms, .. } => {
                let edit = Edit { expiry_ms: Some(*expiry_ms), ..Edit::default() };
                let change = record.map_or(Change::Keep, |_| Change::Edit(edit));
                (change, Verdict::Touched(record))
            }
            Kind::Delete { token: 0 } => (Change::Remove, Verdict::Gone),
            Kind::Delete { token } => match record {
                None => (Change::Keep, Verdict::Deleted(Status::NotFound)),
                Some(record) if record.token == *token => {
                    (Change::Remove, Verdict::Deleted(Status::Done))
                }
                Some(_) => (Change::Keep, Verdict::Deleted(Status::Exists)),
            },
            Kind::MetaDelete(removal) if removal.is_plain() => (Change::Remove, Verdict::Gone),
            Kind::MetaDelete(removal) => match record {
                None => (Change::Keep, Verdict::Deleted(Status::NotFound)),
                Some(record) => {
                    let (change, status) = removal.decide(&record);
                    (change, Verdict::Deleted(status))
                }
            },
            Kind::MetaGet { inspection, .. } => match (record, inspection.create()) {
                (None, None) => (Change::Keep, Verdict::Absent),
                (None, Some(put)) => (Change::Put(put), Verdict::Created),
                (Some(record), _) => {
                    let judged = inspection.judge(&record, 0);
                    (judged.change, Verdict::Shown(judged.facts, judged.renewal))
                }
            },
            Kind::MetaDebug { now_ms } => {
                let known = |record: Meta| {
                    let expiries = Expiries::of(record.expiry_ms, None);
                    Verdict::Known(facts(&record, expiries, 0, *now_ms))
                };
                (Change::Keep, record.map_or(Verdict::Absent, known))
            }
        }
    }
}

fn count<'s>(terms: &'s arithmetic::Terms, present: Option<&Present<'s>>) -> (Change<'s>, Verdict) {
    let found = present.map(|present| {
        let copy = |room: &mut [u8]| {
            let len = room.len().min(present.value().len());
            room[..len].copy_from_slice(&present.value()[..len]);
            len
        };
        (present.meta(), copy)
    });
    let (decision, verdict) = terms.decide(found, None);
    match (verdict, present) {
        (arithmetic::Verdict::Over(outcome), _) => (decision.change, Verdict::Counted(outcome)),
        // A number in a value that is wider than any: it is not filled up any further.
        (arithmetic::Verdict::Prepare { number, .. }, Some(present)) => {
            let meta = present.meta();
            let value = Value::Digits(Digits::new(number, Digits::LEN_MAX));
            let (put, _) = terms.put(&meta, number, value);
            (Change::Put(put), Verdict::Counted(arithmetic::changed(&meta, number)))
        }
        (arithmetic::Verdict::Prepare { .. }, None) => {
            unreachable!("invariant: a value that is there is wide")
        }
    }
}
