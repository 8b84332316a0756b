//! Replies, made of what was asked and what came of it.

use cache::Meta;
use log::error::Error as LogError;
use store::{Answer, Error, FoundValue};
use wire::memcached::{
    Meta as MetaCommand, Request,
    lines::{self, LAST_VALUE_END, LINE_END},
    reply::{Facts, Renewal, Status},
};

use super::{
    asking::{Style, What},
    binary,
    board::{Body, Reply},
    deed::Verdict,
    desk::Desk,
    words,
};
use crate::memcached::{
    arithmetic,
    command::StoreCommand,
    meta::{self, Creation, Expiries},
    record::{Sink, put_unless},
    reports::CLASS,
    storage::Outcome,
};

/// Milliseconds between two lines of the server's own log about what clients are refused.
const COMPLAINT_GAP_MS: u64 = 1000;

/// Makes the reply, and counts.
pub(super) fn form(desk: &mut Desk, what: &What<'_>, answer: Answer<Verdict>) -> Reply {
    if let Answer::Failed(error) = &answer {
        complain(desk, error);
    }
    match what {
        What::Value(key, style) => value(desk, key, *style, answer),
        What::Store(command) => stored(desk, command, answer),
        // What was to go has stayed.
        What::Refused(command)
            if let Answer::Failed(error) = &answer
                && !base::mutant!("server_refusal_hides_failure") =>
        {
            failed_store(command, words::of(error))
        }
        What::Refused(command) => put_outcome(desk, command, Outcome::TooLarge),
        What::Binary(request) => binary::form(desk, request, answer),
        What::Text(Request::FlushAll { noreply, .. }) => flushed(desk, *noreply, &answer),
        What::Text(Request::MetaGet(command)) => meta_get(desk, command, answer),
        What::Text(request) => text(desk, request, answer),
    }
}

/// Whether the value has more bytes than a record may have.
fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::ValueBytes { .. } | Error::Log(LogError::ValueBytes { .. }))
}

/// Tells the operator what clients are told in fewer words.
fn complain(desk: &mut Desk, error: &Error) {
    if desk.now_ms >= desk.complained_ms + COMPLAINT_GAP_MS
        && !matches!(error, Error::KeyBytes { .. } | Error::ForeignKey | Error::NoFlush)
        && !is_too_large(error)
    {
        desk.complained_ms = desk.now_ms;
        tracing::warn!(%error, "a client is refused");
    }
}

/// What is said when too much waits.
pub(super) fn busy(what: &What<'_>) -> Reply {
    match what {
        What::Value(_, style) => {
            Reply { is_last: !style.is_only, ..Reply::from(words::line(words::BUSY)) }
        }
        What::Text(request) => failed(request, words::BUSY),
        What::Store(command) | What::Refused(command) => failed_store(command, words::BUSY),
        What::Binary(request) => words::frame(request.frame, words::BUSY).into(),
    }
}

/// The record of one key, or what is said where there is none.
fn value(desk: &Desk, key: &[u8], style: Style, answer: Answer<Verdict>) -> Reply {
    let found = match answer {
        Answer::Value(found) | Answer::Done { found: Some(found), .. } => Some(found),
        Answer::Failed(Error::NoMemory) => None,
        Answer::Failed(error) => {
            // Among several records an error is no end that clients know.
            let head = words::line(words::of(&error));
            return Reply { is_last: !style.is_only, ..Reply::from(head) };
        }
        Answer::Miss | Answer::Flushed | Answer::Done { .. } => None,
    };
    desk.count_retrieval(key, style.touches, found.is_some());
    let Some(found) = found else {
        return if style.is_only { Reply::from(lines::END) } else { Reply::default() };
    };
    let mut head = Vec::new();
    let Meta { client_flags, value_len, .. } = found.meta;
    let token = style.with_token.then_some(found.meta.token);
    head.put_line(|writer| writer.value_header(key, client_flags, value_len, token));
    let tail: &'static [u8] = if style.is_only { LAST_VALUE_END } else { LINE_END };
    Reply { head, value: Some(found.into()), tail, ..Reply::default() }
}

/// What a request that brings a value has come to.
fn stored(desk: &Desk, command: &StoreCommand<'_>, answer: Answer<Verdict>) -> Reply {
    let outcome = match answer {
        Answer::Done { verdict: Verdict::Stored(outcome), token, .. } => match outcome {
            Outcome::Stored { value_len, .. } => {
                Outcome::Stored { token: token.unwrap_or(0), value_len }
            }
            outcome => outcome,
        },
        Answer::Failed(error) if is_too_large(&error) && command.joins() => Outcome::NotStored,
        Answer::Failed(error) if is_too_large(&error) => Outcome::TooLarge,
        Answer::Failed(Error::NoMemory) => Outcome::NoMemory,
        Answer::Failed(error) => return failed_store(command, words::of(&error)),
        answer => unreachable!("invariant: a store is answered as one, not {answer:?}"),
    };
    put_outcome(desk, command, outcome)
}

/// What is said to a value that was stored or not.
pub(super) fn put_outcome(desk: &Desk, command: &StoreCommand<'_>, outcome: Outcome) -> Reply {
    command.count(&desk.counters, &desk.server, command.compares(), outcome);
    let mut head = Vec::new();
    command.reply(outcome, &mut head);
    head.into()
}

/// A store that was not carried out.
fn failed_store(command: &StoreCommand<'_>, words: &str) -> Reply {
    match command {
        StoreCommand::Binary(command) => words::frame(command.frame, words).into(),
        StoreCommand::Text(command) if command.noreply => Reply::default(),
        StoreCommand::Text(_) | StoreCommand::Meta(_) => words::line(words).into(),
    }
}

/// A text or meta request that brings no value, `mg` aside.
fn text(desk: &Desk, request: &Request<'_>, answer: Answer<Verdict>) -> Reply {
    let (verdict, token, was_there) = match answer {
        Answer::Done { verdict, token, was_there, .. } => (verdict, token, was_there),
        Answer::Failed(error) => return failed(request, words::of(&error)),
        answer => unreachable!("invariant: a command is answered as one, not {answer:?}"),
    };
    let mut head = Vec::new();
    match (request, verdict) {
        (Request::Delete { key, noreply }, _) => {
            desk.server.prefixes().count(key, |counts| counts.deletes += 1);
            desk.count_delete(was_there);
            let line = if was_there { lines::DELETED } else { lines::NOT_FOUND };
            put_unless(*noreply, line, &mut head);
        }
        (Request::Touch { noreply, .. }, Verdict::Touched(record)) => {
            let counters = &desk.counters;
            counters.cmd_touch.add(1);
            let hit = record.is_some();
            if hit {
                counters.touch_hits.add(1)
            } else {
                counters.touch_misses.add(1)
            }
            let line = if hit { lines::TOUCHED } else { lines::NOT_FOUND };
            put_unless(*noreply, line, &mut head);
        }
        (Request::Arithmetic { direction, noreply, .. }, Verdict::Counted(outcome)) => {
            arithmetic::note(&desk.counters, *direction, outcome);
            match outcome {
                arithmetic::Outcome::Changed { number, .. } if !noreply => {
                    head.put_line(|writer| writer.number_line(number));
                }
                arithmetic::Outcome::Changed { .. } => {}
                arithmetic::Outcome::NotNumeric => {
                    put_unless(*noreply, lines::NON_NUMERIC, &mut head);
                }
                _ => put_unless(*noreply, lines::NOT_FOUND, &mut head),
            }
        }
        (Request::MetaDelete(command), verdict) => {
            meta_delete(desk, command, (verdict, was_there), &mut head);
        }
        (Request::MetaArithmetic { meta: command, direction }, Verdict::Counted(outcome)) => {
            arithmetic::note(&desk.counters, *direction, outcome);
            let outcome = outcome.with_token(token.unwrap_or(0));
            let deadline_ms = |expiry| desk.deadline_ms(expiry);
            meta::count_reply(command, outcome, desk.now_ms, deadline_ms, &mut head);
        }
        (Request::MetaDebug { key }, verdict) => {
            desk.counters.cmd_meta.add(1);
            match verdict {
                Verdict::Known(facts) => {
                    let mut room = [0; wire::memcached::limits::KEY_LEN_MAX];
                    let size = key.bytes(&mut room).len() as u64 + u64::from(facts.value_len);
                    head.put_line(|writer| writer.meta_debug(key, &facts, CLASS, size));
                }
                _ => head.put(lines::META_DEBUG_MISS),
            }
        }
        (request, verdict) => unreachable!("invariant: {verdict:?} answers no {request:?}"),
    }
    head.into()
}

/// `flush_all`.
fn flushed(desk: &Desk, noreply: bool, answer: &Answer<Verdict>) -> Reply {
    desk.counters.cmd_flush.add(1);
    match answer {
        _ if noreply => Reply::default(),
        Answer::Failed(Error::NoFlush) => lines::FLUSH_NOT_ALLOWED.into(),
        Answer::Failed(error) => words::line(words::of_flush(error)).into(),
        _ => lines::OK.into(),
    }
}

/// `md`: what it has decided, and whether something is gone.
fn meta_delete(
    desk: &Desk,
    command: &MetaCommand<'_>,
    (verdict, was_there): (Verdict, bool),
    head: &mut Vec<u8>,
) {
    let status = match verdict {
        Verdict::Deleted(status) => status,
        _ if was_there => Status::Done,
        _ => Status::NotFound,
    };
    if !(status == Status::Done && command.flags.has(b'I')) {
        desk.count_delete(status == Status::Done);
    }
    head.put_line(|writer| writer.meta_delete(status, command));
}

/// A request without a value that was not carried out.
fn failed(request: &Request<'_>, words: &str) -> Reply {
    match request {
        Request::Delete { noreply: true, .. }
        | Request::Touch { noreply: true, .. }
        | Request::FlushAll { noreply: true, .. }
        | Request::Arithmetic { noreply: true, .. } => Reply::default(),
        _ => words::line(words).into(),
    }
}

/// Whether a client that sees this record is the one that renews it.
pub(super) fn wins(meta: &Meta) -> bool {
    meta.stale && !meta.win_sent
}

/// `mg`.
fn meta_get(desk: &Desk, command: &MetaCommand<'_>, answer: Answer<Verdict>) -> Reply {
    let (facts, renewal, value) = match answer {
        Answer::Done { verdict: Verdict::Shown(facts, renewal), found, .. } => {
            (facts, renewal, found.map(Body::from))
        }
        Answer::Done { verdict: Verdict::Created, token, .. } => {
            let creation = Creation::of(command, |expiry| desk.deadline_ms(expiry));
            let creation = creation.expect("invariant: it told what to create");
            desk.counters.total_items.add(1);
            let renewal = Renewal { won: true, ..Renewal::default() };
            let nothing = Body::Found(FoundValue::default());
            (creation.facts(token.unwrap_or(0), desk.now_ms), renewal, Some(nothing))
        }
        Answer::Failed(error) if error != Error::NoMemory => {
            return words::line(words::of(&error)).into();
        }
        // Under the key's lock, nothing is answered as a value.
        Answer::Value(_)
        | Answer::Miss
        | Answer::Flushed
        | Answer::Done { .. }
        | Answer::Failed(_) => {
            desk.counters.cmd_get.add(1);
            desk.counters.get_misses.add(1);
            let mut head = Vec::new();
            head.put_line(|writer| writer.meta_get_miss(command));
            return head.into();
        }
    };
    count_meta_hit(desk, command);
    let mut head = Vec::new();
    let mut with_value = false;
    head.put_line(|writer| with_value = writer.meta_get_hit(command, &facts, renewal));
    if !with_value {
        return head.into();
    }
    Reply { head, value, tail: LINE_END, ..Reply::default() }
}

/// What `mg` tells of a record that it does not change.
pub(super) fn seen(meta: &Meta, now_ms: u64) -> (Facts, Renewal) {
    let facts = meta::facts(meta, Expiries::of(meta.expiry_ms, None), 0, now_ms);
    (facts, Renewal { won: false, stale: meta.stale, taken: meta.win_sent })
}

pub(super) fn count_meta_hit(desk: &Desk, command: &MetaCommand<'_>) {
    let counters = &desk.counters;
    if command.expiry.is_some() {
        counters.cmd_touch.add(1);
        counters.touch_hits.add(1);
    } else {
        counters.cmd_get.add(1);
        counters.get_hits.add(1);
    }
}
