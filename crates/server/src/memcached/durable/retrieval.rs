//! Requests that only look: what memory has goes from there to the client.

use std::rc::Rc;

use cache::Meta;
use store::Got;
use wire::memcached::{
    Request,
    binary::Command,
    lines::{LAST_VALUE_END, LINE_END},
    reply::{LINE_BYTES_MAX, Writer},
};

use super::{
    answers::{self, count_meta_hit, seen, wins},
    asking::{Asking, What},
    binary,
    board::{Board, Body, Reply},
    deed::Verdict,
    desk::Desk,
    keyed,
    table::{Table, Told},
};
use crate::memcached::{
    record::{Head, Record, Replies},
    retrieval::ValueLine,
};

/// How a look was answered.
pub(super) enum Looked {
    /// It was written to the output.
    Written,
    /// As other requests are.
    Told(Told),
}

/// A head and a value that wait for other replies.
struct Kept<H> {
    head: H,
    bytes: Vec<u8>,
    len: usize,
    with_value: bool,
}

impl<H: Head> cache::Output for Kept<H> {
    fn begin(&mut self, meta: &Meta) -> &mut [u8] {
        let value_len = meta.value_len as usize;
        self.bytes.clear();
        self.bytes.resize(LINE_BYTES_MAX + value_len, 0);
        let mut writer = Writer::new(&mut self.bytes);
        self.with_value = self.head.write(meta, &mut writer);
        let start = writer.len();
        self.len = start + if self.with_value { value_len } else { 0 };
        &mut self.bytes[start..]
    }
}

/// Looks for the record that `asking` is about. `replies`: the output, if no other reply waits.
pub(super) fn look(
    table: &mut Table,
    board: &Rc<Board>,
    asking: &Asking<'_>,
    replies: Option<&mut Replies>,
) -> Looked {
    let now_ms = table.desk.now_ms;
    match asking.what {
        What::Value(key, style) => {
            let head = ValueLine { key, with_token: style.with_token };
            let tail: &'static [u8] = if style.is_only { LAST_VALUE_END } else { LINE_END };
            let looked = get(table, board, asking, (key, head, tail), replies);
            finish(table, asking, looked, |desk| desk.count_retrieval(key, false, true))
        }
        What::Text(Request::MetaGet(command)) => {
            let mut room = [0; wire::memcached::limits::KEY_LEN_MAX];
            let key = command.key.bytes(&mut room);
            let head = |meta: &Meta, writer: &mut Writer<'_>| {
                let (facts, renewal) = seen(meta, now_ms);
                writer.meta_get_hit(&command, &facts, renewal)
            };
            // Who is to renew a stale record is decided under its key's lock, and in the order of
            // requests: what memory cannot tell at once is looked up there.
            let looked = get(table, board, asking, (key, head, LINE_END), replies);
            if let Found::Locked = looked {
                let deed = keyed::inspection(&table.desk, &command);
                return Looked::Told(table.execute(board, asking, key, &deed));
            }
            finish(table, asking, looked, |desk| count_meta_hit(desk, &command))
        }
        What::Binary(request) => {
            let Command::Get(retrieval) = request.command else {
                unreachable!("invariant: it was looked at before")
            };
            let given_back = if retrieval.with_key { retrieval.key } else { &[] };
            let head = |meta: &Meta, writer: &mut Writer<'_>| {
                binary::head(request.frame, given_back, meta, writer);
                true
            };
            let looked = get(table, board, asking, (retrieval.key, head, &[]), replies);
            finish(table, asking, looked, |desk| desk.count_retrieval(retrieval.key, false, true))
        }
        _ => unreachable!("invariant: it was looked at before"),
    }
}

/// What a look in memory, or in the log's, has come to.
enum Found {
    /// It was written to the output.
    Written,
    /// A record, as a reply.
    Reply(Reply),
    /// It is to be looked up under the key's lock; nothing was written.
    Locked,
    /// Something else.
    Got(Got),
}

fn get<H: Head>(
    table: &mut Table,
    board: &Rc<Board>,
    asking: &Asking<'_>,
    (key, head, tail): (&[u8], H, &'static [u8]),
    replies: Option<&mut Replies>,
) -> Found {
    let is_meta = matches!(asking.what, What::Text(_));
    if let Some(replies) = replies {
        let mut record = Record::new(replies, head);
        let got = match is_meta {
            true => table.get_at_once(key, &mut record),
            false => Some(table.get(board, asking, key, &mut record)),
        };
        let Some(got) = got else { return Found::Locked };
        return match got {
            Got::Hit(meta) if is_meta && wins(&meta) => Found::Locked,
            Got::Large(pinned) if is_meta && wins(pinned.meta()) => Found::Locked,
            Got::Hit(_) => {
                record.finish(tail);
                Found::Written
            }
            Got::Large(pinned) => {
                record.finish_large(pinned, tail);
                Found::Written
            }
            other => Found::Got(other),
        };
    }
    let mut kept = Kept { head, bytes: Vec::new(), len: 0, with_value: false };
    let got = match is_meta {
        true => table.get_at_once(key, &mut kept),
        false => Some(table.get(board, asking, key, &mut kept)),
    };
    let Some(got) = got else { return Found::Locked };
    match got {
        Got::Hit(meta) if is_meta && wins(&meta) => Found::Locked,
        Got::Large(pinned) if is_meta && wins(pinned.meta()) => Found::Locked,
        Got::Hit(_) => {
            kept.bytes.truncate(kept.len);
            let tail = if kept.with_value { tail } else { &[] };
            Found::Reply(Reply { tail, ..Reply::from(kept.bytes) })
        }
        Got::Large(pinned) => {
            kept.bytes.clear();
            kept.bytes.resize(LINE_BYTES_MAX, 0);
            let mut writer = Writer::new(&mut kept.bytes);
            let with_value = kept.head.write(pinned.meta(), &mut writer);
            let len = writer.len();
            kept.bytes.truncate(len);
            let reply = Reply::from(kept.bytes);
            Found::Reply(match with_value {
                true => Reply { value: Some(Body::Pinned(pinned)), tail, ..reply },
                false => reply,
            })
        }
        other => Found::Got(other),
    }
}

/// Counts a hit, and answers what is none.
fn finish(
    table: &mut Table,
    asking: &Asking<'_>,
    found: Found,
    count: impl FnOnce(&Desk),
) -> Looked {
    let answer = match found {
        Found::Written => {
            count(&table.desk);
            return Looked::Written;
        }
        Found::Reply(reply) => {
            count(&table.desk);
            return Looked::Told(Told::Now(reply));
        }
        Found::Got(Got::Miss) => store::Answer::<Verdict>::Miss,
        Found::Got(Got::Failed(error)) => store::Answer::Failed(error),
        Found::Got(Got::Later) => return Looked::Told(Told::Later),
        Found::Got(Got::Busy) => return Looked::Told(Told::Busy),
        Found::Got(Got::Hit(_) | Got::Large(_)) | Found::Locked => {
            unreachable!("invariant: a hit is written")
        }
    };
    Looked::Told(Told::Now(answers::form(&mut table.desk, &asking.what, answer)))
}
