//! What clients of a store do, as the store carries it out.

use cache::{Change, Digits, Edit, Put, Token, Value};
use store::{Command, Needs, Present};

/// What is asked of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The value.
    Get,
    /// Store in any case.
    Set(Vec<u8>),
    /// Store until that time.
    SetUntil(Vec<u8>, u64),
    /// Store if there is nothing.
    Add(Vec<u8>),
    /// Store if there is something.
    Replace(Vec<u8>),
    /// Put behind what is there.
    Append(Vec<u8>),
    /// Put before what is there.
    Prepend(Vec<u8>),
    /// Store if the token is this one.
    Compare(u64, Vec<u8>),
    /// Add to the number that is there.
    Count(u64),
    /// Change until when it is there, and show it. 0 is for ever.
    Touch(u64),
    /// Remove.
    Delete,
    /// Remove with all others, which is asked of the table.
    Flush,
    /// The same, with a value that is sent in pieces.
    Large(Box<Self>),
}

/// What a deed has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The value is stored.
    Stored,
    /// The condition does not hold.
    NotStored,
    /// The token is another one.
    Exists,
    /// There is nothing.
    NotFound,
    /// The number is this one now.
    Number(u64),
    /// There is no number.
    NotNumeric,
    /// The expiry is another one.
    Touched,
    /// There is nothing any more.
    Removed,
}

/// The number that a value is.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok().filter(|it| !it.is_empty() && it.len() <= 20)?.parse().ok()
}

impl Deed {
    /// The same, as if its value came at once.
    pub(super) fn plain(&self) -> Self {
        if let Self::Large(deed) = self { (**deed).clone() } else { self.clone() }
    }

    /// The value that it brings.
    pub(super) fn value(&self) -> &[u8] {
        match self {
            Self::Large(deed) => deed.value(),
            Self::Set(value)
            | Self::SetUntil(value, _)
            | Self::Add(value)
            | Self::Replace(value)
            | Self::Append(value)
            | Self::Prepend(value)
            | Self::Compare(_, value) => value,
            Self::Get | Self::Count(_) | Self::Touch(_) | Self::Delete | Self::Flush => &[],
        }
    }
}

impl Command for Deed {
    type Verdict = Verdict;

    fn needs(&self) -> Needs {
        match self {
            Self::Large(deed) => deed.needs(),
            Self::Set(_) | Self::SetUntil(..) | Self::Delete | Self::Flush => Needs::Nothing,
            Self::Add(_) | Self::Replace(_) | Self::Compare(..) => Needs::Fields,
            Self::Get | Self::Append(_) | Self::Prepend(_) | Self::Count(_) | Self::Touch(_) => {
                Needs::Value
            }
        }
    }

    fn bytes(&self) -> usize {
        if let Self::Large(_) = self { 0 } else { self.value().len() }
    }

    fn shows(&self) -> bool {
        matches!(self, Self::Touch(_))
    }

    fn decide<'s>(&'s self, present: Option<&Present<'s>>) -> (Change<'s>, Verdict) {
        let put = |value| (Change::Put(Put::new(value)), Verdict::Stored);
        let keep = |verdict| (Change::Keep, verdict);
        match (self, present) {
            (Self::Large(deed), present) => match deed.decide(present) {
                (Change::Put(put), verdict) => {
                    (Change::Put(Put { value: Value::Uploaded, ..put }), verdict)
                }
                kept => kept,
            },
            (Self::Set(value), _) | (Self::Add(value), None) | (Self::Replace(value), Some(_)) => {
                put(Value::Bytes(value))
            }
            (Self::SetUntil(value, expiry_ms), _) => {
                let put = Put { expiry_ms: *expiry_ms, ..Put::new(Value::Bytes(value)) };
                (Change::Put(put), Verdict::Stored)
            }
            (Self::Add(_), Some(_))
            | (Self::Replace(_) | Self::Append(_) | Self::Prepend(_), None) => {
                keep(Verdict::NotStored)
            }
            (Self::Append(value), Some(_)) => put(Value::Append(value)),
            (Self::Prepend(value), Some(_)) => put(Value::Prepend(value)),
            (Self::Compare(token, value), Some(present)) if present.meta().token == *token => {
                put(Value::Bytes(value))
            }
            (Self::Compare(..), Some(_)) => keep(Verdict::Exists),
            (Self::Count(delta), Some(present)) => match number(present.value()) {
                None => keep(Verdict::NotNumeric),
                Some(number) => {
                    let number = number.wrapping_add(*delta);
                    let value = Value::Digits(Digits::new(number, 0));
                    let put = Put { token: Token::Fresh, ..Put::new(value) };
                    (Change::Put(put), Verdict::Number(number))
                }
            },
            (Self::Touch(expiry_ms), Some(_)) => {
                let edit = Edit { expiry_ms: Some(*expiry_ms), ..Edit::default() };
                (Change::Edit(edit), Verdict::Touched)
            }
            (Self::Compare(..) | Self::Count(_) | Self::Touch(_), None) => keep(Verdict::NotFound),
            (Self::Delete, _) => (Change::Remove, Verdict::Removed),
            (Self::Get | Self::Flush, _) => unreachable!("it is no command of a key"),
        }
    }
}
