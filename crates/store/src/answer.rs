//! What came of what was asked.

use std::{ops::Deref, sync::Arc};

use cache::{Meta, Pinned};

use crate::{Error, Large, ReadValue};

/// A record that was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Its fields.
    pub meta: Meta,
    /// Its value. Of a large one nothing.
    pub value: FoundValue,
    /// Of a large value: where its parts are.
    pub large: Option<Large>,
}

/// The value of a record that was found.
#[derive(Debug)]
pub enum FoundValue {
    /// In memory of its own, which all share who waited for the same read.
    Shared(Arc<[u8]>),
    /// In the buffer that it was read into, of somebody who waited for that alone.
    Read(ReadValue),
}

impl FoundValue {
    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Shared(value) => value.len(),
            Self::Read(value) => value.memory_bytes(),
        }
    }
}

impl Default for FoundValue {
    fn default() -> Self {
        Self::Shared(Arc::default())
    }
}

impl Deref for FoundValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Shared(value) => value,
            Self::Read(value) => value.bytes(),
        }
    }
}

impl PartialEq for FoundValue {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for FoundValue {}

/// The answer to a get, a command or a flush.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<V> {
    /// Of a get: the record.
    Value(Found),
    /// Of a get: there is none.
    Miss,
    /// A command was carried out.
    Done {
        /// What it decided.
        verdict: V,
        /// The record's token, if one was stored.
        token: Option<u64>,
        /// Of a removal: whether there was something.
        was_there: bool,
        /// The record as it was, if the command shows it.
        found: Option<Found>,
    },
    /// Everything that the table had is dead, also after a crash.
    Flushed,
    /// It was not, or is not durable although it should be.
    Failed(Error),
}

impl<V> Answer<V> {
    /// Bytes of the value that it has.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Self::Value(found) | Self::Done { found: Some(found), .. } => {
                found.value.len() + found.large.as_ref().map_or(0, Large::bytes)
            }
            Self::Miss | Self::Flushed | Self::Done { found: None, .. } | Self::Failed(_) => 0,
        }
    }
}

/// An answer that comes later.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered<V> {
    /// The number that the caller gave.
    pub caller: u64,
    /// The answer.
    pub answer: Answer<V>,
}

/// What came of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked<V> {
    /// The answer.
    Now(Answer<V>),
    /// It comes from [`crate::Worker::take_answers`].
    Later,
    /// Too much waits already. Nothing has happened.
    Busy,
}

/// What came of a get.
#[derive(Debug)]
pub enum Got {
    /// The value has been copied to the output.
    Hit(Meta),
    /// The value is too large to copy: it is pinned where it lies.
    Large(Pinned),
    /// There is none.
    Miss,
    /// The answer comes from [`crate::Worker::take_answers`].
    Later,
    /// Too much waits, or too much memory is held by replies that are being sent. Nothing has
    /// happened.
    Busy,
    /// It cannot be told.
    Failed(Error),
}
