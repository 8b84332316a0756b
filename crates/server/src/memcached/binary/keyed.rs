//! The commands about one record that bring no value.

use cache::{Change, Decision, Edit, Get, Key, Meta};
use wire::memcached::{
    Expiry,
    binary::{Command, Frame, Get as Retrieval, Head, Request, Status},
    reply::Writer,
    watch,
};

use super::replies::{put, put_status, put_value};
use crate::memcached::{
    arithmetic::{self, Create, Outcome, Terms},
    context::Context,
    record::{Record, Replies, Sink},
    retrieval::{count_retrieval, get_and_touch},
    tokens::Tokens,
};

/// What a client hears whose number has no room.
const NO_MEMORY_COUNTING: &[u8] = b"Out of memory incrementing value";

/// Sends the record of `key`, if there is one. False if it is there but cannot be sent now.
pub(super) fn get(
    context: &mut Context,
    key: Key<'_>,
    request: &Request<'_>,
    get: &Retrieval<'_>,
    replies: &mut Replies,
) -> bool {
    let frame = request.frame;
    let given_back = if get.with_key { key.bytes() } else { &[] };
    let head = |meta: &Meta, writer: &mut Writer<'_>| {
        let Meta { token, value_len, .. } = *meta;
        let extras = &meta.client_flags.to_be_bytes();
        let head =
            Head { token, extras, key: given_back, value_len, ..Head::new(frame, Status::Ok) };
        head.write(writer);
        true
    };
    let mut record = Record::new(replies, head);
    let touch_ms = get.touch.map(|expiry| context.deadline_ms(expiry));
    let found = match touch_ms {
        None => context.worker.get(key, &mut record),
        Some(expiry_ms) => get_and_touch(context, key, expiry_ms, &mut record),
    };
    let found = match found {
        Get::Busy if context.waits_for_pins => return false,
        Get::Busy | Get::Miss => {
            miss(request, given_back, replies);
            None
        }
        Get::Hit(meta) => {
            record.finish(&[]);
            Some(meta.value_len)
        }
        Get::Large(pinned) => {
            let len = pinned.meta().value_len;
            record.finish_large(pinned, &[]);
            Some(len)
        }
    };
    note_retrieval(context, key, touch_ms.is_some(), found);
    true
}

/// Counts a retrieval, or a touch, and logs it; `found` is the length of the value.
fn note_retrieval(context: &mut Context, key: Key<'_>, touches: bool, found: Option<u32>) {
    if context.watched & watch::FETCHERS != 0 {
        context.log_fetch(key.bytes(), found);
    }
    count_retrieval(context, &key, touches, found.is_some());
}

/// A miss: nothing if the client is quiet, the key if it asked for it, else words.
fn miss(request: &Request<'_>, given_back: &[u8], replies: &mut Replies) {
    let head = Head { key: given_back, ..Head::new(request.frame, Status::NotFound) };
    if request.quiet {
        return;
    }
    let value = if given_back.is_empty() { Status::NotFound.text() } else { &[] };
    put(&head, value, replies);
}

/// Gives a record another time, and answers with its flags.
pub(super) fn touch(
    context: &mut Context,
    key: Key<'_>,
    frame: Frame,
    expiry: Expiry,
    replies: &mut Replies,
) {
    let edit = Edit { expiry_ms: Some(context.deadline_ms(expiry)), ..Edit::default() };
    let mut found = None;
    let edited = context.worker.update(key, |view| {
        found = view.map(|view| view.meta());
        let change = if found.is_some() { Change::Edit(edit) } else { Change::Keep };
        Decision { change, hit: found.is_some() }
    });
    match (edited, found) {
        // A record that had no time has to move to a larger slot, and there was none.
        (Err(_), _) => put_status(frame, Status::OutOfMemory, false, replies),
        (Ok(_), None) => put_status(frame, Status::NotFound, false, replies),
        (Ok(_), Some(Meta { token, client_flags, .. })) => {
            let extras = &client_flags.to_be_bytes();
            put(&Head { token, extras, ..Head::new(frame, Status::Ok) }, &[], replies);
        }
    }
    note_retrieval(context, key, true, found.map(|meta| meta.value_len));
}

/// Deletes the record of `key` if it has `token`, or any for 0.
pub(super) fn delete(context: &mut Context, key: Key<'_>, token: u64) -> Status {
    let mut status = Status::NotFound;
    context
        .worker
        .update(key, |view| {
            status = match view.map(|view| view.meta().token) {
                None => Status::NotFound,
                Some(present) if token == 0 || token == present => Status::Ok,
                Some(_) => Status::Exists,
            };
            if status == Status::Ok { Change::Remove.into() } else { Change::Keep.into() }
        })
        .expect("invariant: removing needs no memory");
    context.server.prefixes().count(key.bytes(), |counts| counts.deletes += 1);
    match status {
        Status::Ok => context.counters.delete_hits.add(1),
        Status::NotFound => context.counters.delete_misses.add(1),
        _ => {}
    }
    status
}

/// Counts, as `request` says, which is `Arithmetic`.
pub(super) fn count(
    context: &mut Context,
    key: Key<'_>,
    request: &Request<'_>,
    replies: &mut Replies,
) {
    let terms = terms(request, context.tokens, |expiry| context.deadline_ms(expiry));
    let outcome = arithmetic::count(context, &arithmetic::Order { key, terms });
    count_reply(request, outcome, replies);
}

/// What a request asks for, which is `Arithmetic`.
pub(in crate::memcached) fn terms(
    request: &Request<'_>,
    tokens: Tokens,
    deadline_ms: impl Fn(Expiry) -> u64,
) -> Terms {
    let Command::Arithmetic { direction, delta, create, token, .. } = request.command else {
        unreachable!("invariant: it was looked at before");
    };
    let create = create
        .map(|create| Create { number: create.number, expiry_ms: deadline_ms(create.expiry) });
    Terms { direction, delta, compare: token, token: tokens.fresh(), expiry_ms: None, create }
}

/// Answers such a request.
pub(in crate::memcached) fn count_reply(
    request: &Request<'_>,
    outcome: Outcome,
    replies: &mut impl Sink,
) {
    let Request { frame, quiet, command } = *request;
    let (number, token) = match outcome {
        Outcome::Changed { number, token, .. } => (number, token),
        Outcome::Created { token } => {
            let number = match command {
                Command::Arithmetic { create: Some(create), .. } => create.number,
                _ => 0,
            };
            (number, token)
        }
        Outcome::Missing => return put_status(frame, Status::NotFound, false, replies),
        Outcome::Exists => return put_status(frame, Status::Exists, false, replies),
        Outcome::NotNumeric => return put_status(frame, Status::NotNumeric, false, replies),
        Outcome::NoMemory => {
            return put_value(frame, Status::OutOfMemory, NO_MEMORY_COUNTING, replies);
        }
    };
    if !quiet {
        put(&Head { token, ..Head::new(frame, Status::Ok) }, &number.to_be_bytes(), replies);
    }
}
