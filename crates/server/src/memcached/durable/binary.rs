//! Replies of the binary protocol.

use cache::Meta;
use store::{Answer, Error, Found};
use wire::memcached::{
    binary::{Command, Frame, Head, Request, Status},
    reply::Status as Outcome,
};

use super::{
    board::Reply,
    deed::{Deed, Kind, Verdict},
    desk::{Desk, TOKENS},
    words,
};
use crate::memcached::{
    arithmetic,
    binary::{
        count_reply, count_terms,
        replies::{put, put_status},
    },
    record::Sink,
};

/// What a request does under its key's lock; `None` for what only reads, and for what is about no
/// key.
pub(super) fn deed<'i>(desk: &Desk, request: &Request<'i>) -> Option<(&'i [u8], Deed<'static>)> {
    let (key, kind) = match request.command {
        Command::Get(get) => {
            let expiry_ms = desk.deadline_ms(get.touch?);
            (get.key, Kind::Touch { expiry_ms, with_value: true })
        }
        Command::Touch { key, expiry } => {
            let expiry_ms = desk.deadline_ms(expiry);
            (key, Kind::Touch { expiry_ms, with_value: false })
        }
        Command::Delete { key, token } => (key, Kind::Delete { token }),
        Command::Arithmetic { key, .. } => {
            let terms = count_terms(request, TOKENS, |expiry| desk.deadline_ms(expiry));
            (key, Kind::Count(terms))
        }
        _ => return None,
    };
    Some((key, Deed(kind)))
}

/// Makes the reply, and counts.
pub(super) fn form(desk: &Desk, request: &Request<'_>, answer: Answer<Verdict>) -> Reply {
    let frame = request.frame;
    if let Command::Flush { .. } = request.command {
        return flushed(desk, request, &answer);
    }
    let (verdict, token, was_there, found) = match answer {
        Answer::Value(found) => return retrieved(desk, request, Some(found)),
        Answer::Miss => return retrieved(desk, request, None),
        // As where memory is all that there is.
        Answer::Failed(Error::NoMemory) if let Command::Get(_) = request.command => {
            return retrieved(desk, request, None);
        }
        Answer::Failed(Error::NoMemory) => {
            let mut head = Vec::new();
            put_status(frame, Status::OutOfMemory, false, &mut head);
            return head.into();
        }
        Answer::Failed(error) => return words::frame(frame, words::of(&error)).into(),
        Answer::Flushed => unreachable!("invariant: a flush is answered as one"),
        Answer::Done { verdict, token, was_there, found } => (verdict, token, was_there, found),
    };
    let mut head = Vec::new();
    match (request.command, verdict) {
        (Command::Get(_), _) => return retrieved(desk, request, found),
        (Command::Touch { key, .. }, Verdict::Touched(record)) => {
            desk.count_retrieval(key, true, record.is_some());
            match record {
                None => put_status(frame, Status::NotFound, false, &mut head),
                Some(Meta { token, client_flags, .. }) => {
                    let extras = &client_flags.to_be_bytes();
                    put(&Head { token, extras, ..Head::new(frame, Status::Ok) }, &[], &mut head);
                }
            }
        }
        (Command::Delete { key, .. }, verdict) => {
            let status = match verdict {
                Verdict::Deleted(Outcome::Exists) => Status::Exists,
                _ if was_there => Status::Ok,
                _ => Status::NotFound,
            };
            desk.server.prefixes().count(key, |counts| counts.deletes += 1);
            if status != Status::Exists {
                desk.count_delete(status == Status::Ok);
            }
            put_status(frame, status, request.quiet, &mut head);
        }
        (Command::Arithmetic { direction, .. }, Verdict::Counted(outcome)) => {
            arithmetic::note(&desk.counters, direction, outcome);
            count_reply(request, outcome.with_token(token.unwrap_or(0)), &mut head);
        }
        (_, verdict) => unreachable!("invariant: {verdict:?} answers no {request:?}"),
    }
    head.into()
}

/// What a flush has come to.
fn flushed(desk: &Desk, request: &Request<'_>, answer: &Answer<Verdict>) -> Reply {
    desk.counters.cmd_flush.add(1);
    let status = match answer {
        Answer::Failed(Error::NoFlush) => Status::Unauthenticated,
        Answer::Failed(error) => return words::frame(request.frame, words::of_flush(error)).into(),
        _ => Status::Ok,
    };
    let mut head = Vec::new();
    put_status(request.frame, status, request.quiet, &mut head);
    head.into()
}

/// The record that a retrieval has found, or a miss.
fn retrieved(desk: &Desk, request: &Request<'_>, found: Option<Found>) -> Reply {
    let Command::Get(get) = request.command else {
        unreachable!("invariant: a record answers a retrieval")
    };
    desk.count_retrieval(get.key, get.touch.is_some(), found.is_some());
    let mut head = Vec::new();
    let key = if get.with_key { get.key } else { &[] };
    let Some(found) = found else {
        miss(request.frame, key, request.quiet, &mut head);
        return head.into();
    };
    put_head(request.frame, key, &found.meta, &mut head);
    Reply { head, value: Some(found.into()), tail: &[], ..Reply::default() }
}

/// A miss: nothing if the client is quiet, the key if it asked for it, else words.
pub(super) fn miss(frame: Frame, key: &[u8], quiet: bool, replies: &mut impl Sink) {
    if quiet {
        return;
    }
    let value = if key.is_empty() { Status::NotFound.text() } else { &[] };
    put(&Head { key, ..Head::new(frame, Status::NotFound) }, value, replies);
}

/// What comes before the value of a record.
pub(super) fn put_head(frame: Frame, key: &[u8], meta: &Meta, replies: &mut impl Sink) {
    replies.put_line(|writer| head(frame, key, meta, writer));
}

/// The same, into a line.
pub(super) fn head(
    frame: Frame,
    key: &[u8],
    meta: &Meta,
    writer: &mut wire::memcached::reply::Writer<'_>,
) {
    let Meta { token, value_len, .. } = *meta;
    let extras = &meta.client_flags.to_be_bytes();
    Head { token, extras, key, value_len, ..Head::new(frame, Status::Ok) }.write(writer);
}
