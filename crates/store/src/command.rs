//! What is done to a record: the caller's protocol decides, the store carries out.

use cache::{Change, Meta};

use crate::Large;

/// What a command has to know before it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// Nothing: it does the same whatever is there.
    Nothing,
    /// Whether there is a record, and its fields.
    Fields,
    /// The value as well.
    Value,
}

/// A record that is there, and has not expired.
#[derive(Clone, Copy, Debug)]
pub struct Present<'r> {
    pub(crate) meta: Meta,
    pub(crate) value: &'r [u8],
    pub(crate) large: Option<&'r Large>,
}

impl<'r> Present<'r> {
    /// Its fields.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// Its value; perhaps nothing, if the command needs but [`Needs::Fields`], and of one in parts
    /// nothing.
    #[must_use]
    pub fn value(&self) -> &'r [u8] {
        self.value
    }

    /// Whether the value lies in parts: then it is no number.
    #[must_use]
    pub fn is_in_parts(&self) -> bool {
        self.large.is_some()
    }
}

/// A command on one key.
///
/// It is asked once, with what the command before it has left, unless what it decided could not be
/// done yet: then it is asked again, and its last answer counts. It must not panic: it is asked
/// under a lock of many keys, and every thread that takes it later would panic as well.
pub trait Command: Send {
    /// What the caller wants to know of the decision.
    type Verdict: Send + std::fmt::Debug;

    /// What it has to know.
    fn needs(&self) -> Needs;

    /// Bytes that it holds while it waits.
    fn bytes(&self) -> usize;

    /// Whether the answer is to have the record as it was.
    fn shows(&self) -> bool {
        false
    }

    /// What becomes of the record; `None` where there is no live one, and always for
    /// [`Needs::Nothing`]. [`cache::Value::Uploaded`] is possible where the command came with an
    /// upload, [`cache::Value::AppendUploaded`] and [`cache::Value::PrependUploaded`] fail.
    fn decide<'s>(&'s self, present: Option<&Present<'s>>) -> (Change<'s>, Self::Verdict);
}
