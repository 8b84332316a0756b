//! What was asked, and what is kept of it until it can be answered.

use wire::memcached::{Limits, Request, Step, binary, parse};

use crate::memcached::command::StoreCommand;

/// How the record of one key of a text retrieval is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// With its token.
    pub(super) with_token: bool,
    /// It gets a new expiry.
    pub(super) touches: bool,
    /// It is the only one: the end of the reply comes with it.
    pub(super) is_only: bool,
}

/// What was asked of one key.
#[derive(Clone, Copy, Debug)]
pub(super) enum What<'i> {
    /// The record of one key of a text retrieval.
    Value(&'i [u8], Style),
    /// A text or meta request without a value.
    Text(Request<'i>),
    /// A request that brings a value.
    Store(StoreCommand<'i>),
    /// One whose value is too long: what its key had goes.
    Refused(StoreCommand<'i>),
    /// A request of the binary protocol without a value.
    Binary(binary::Request<'i>),
}

/// The same, and where it was read: its line, or its frame without the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'i> {
    pub(super) what: What<'i>,
    pub(super) line: &'i [u8],
}

/// What is kept of a request. It is read again when it is answered.
#[derive(Debug)]
pub(super) struct Saved {
    /// The line or the frame; of a retrieval the key.
    bytes: Box<[u8]>,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Value(Style),
    Line,
    Refused,
}

impl Asking<'_> {
    pub(super) fn save(&self) -> Saved {
        let (bytes, form) = match self.what {
            What::Value(key, style) => (key, Form::Value(style)),
            What::Refused(_) => (self.line, Form::Refused),
            What::Text(_) | What::Store(_) | What::Binary(_) => (self.line, Form::Line),
        };
        Saved { bytes: bytes.into(), form }
    }
}

impl Saved {
    /// What was asked.
    pub(super) fn asking(&self) -> Asking<'_> {
        let line = &*self.bytes;
        let again = || read(line).expect("invariant: the line was such a request before");
        let what = match self.form {
            Form::Value(style) => What::Value(line, style),
            Form::Line => again(),
            Form::Refused => match again() {
                What::Store(command) => What::Refused(command),
                other => other,
            },
        };
        Asking { what, line }
    }
}

/// What the line or the frame asks for.
pub(super) fn read(line: &[u8]) -> Option<What<'_>> {
    if line.first() == Some(&binary::MAGIC_REQUEST) {
        let binary::Step::Request { request, .. } = binary::parse(line) else { return None };
        let store = StoreCommand::of_binary(&request);
        return Some(store.map_or(What::Binary(request), What::Store));
    }
    let Step::Request { request, .. } = parse(line, &Limits::default()) else { return None };
    Some(StoreCommand::of(&request).map_or(What::Text(request), What::Store))
}
