//! Stat: each line of a report is a reply, and behind the last comes an empty one.

use wire::memcached::binary::{Frame, Head, Status};

use super::replies::{put, put_status, put_value};
use crate::memcached::{
    admin::Then,
    context::Context,
    dump::Dump,
    record::{Replies, Sink},
    reports::{self, List},
};

/// The name under which the counts by prefix come, as they are in text.
const DETAILED: &[u8] = b"detailed";

/// Answers with the report called `name`; the general one has none.
pub(super) fn report(context: &Context, frame: Frame, name: &[u8], replies: &mut Replies) -> Then {
    let server = &*context.server;
    let cache = context.worker.cache();
    let may_detail = server.settings().dumps_allowed;
    let detail = name.strip_prefix(b"detail").filter(|_| may_detail);
    let report = match name {
        b"" => reports::general(server, cache),
        b"items" => reports::items(server, cache),
        b"slabs" => reports::slabs(server, cache),
        b"sizes" if server.tracks_sizes() => match Dump::of_sizes(&context.worker) {
            Ok(dump) => return Then::Dump(Box::new(dump)),
            // Another client has the cache gone through.
            Err(_) => {
                put_status(frame, Status::Busy, false, replies);
                return Then::Continue;
            }
        },
        b"sizes" => reports::sizes(),
        b"tables" => return Then::List(List::tables()),
        _ if name.starts_with(b"settings") => reports::settings(server),
        _ if name.starts_with(b"reset") => {
            server.reset();
            Vec::new()
        }
        _ if detail.is_some_and(|order| order.starts_with(b" dump")) => {
            return Then::List(List::prefixes());
        }
        _ if detail.is_some_and(|order| order.starts_with(b" on")) => {
            server.prefixes().enable(true);
            Vec::new()
        }
        _ if detail.is_some_and(|order| order.starts_with(b" off")) => {
            server.prefixes().enable(false);
            Vec::new()
        }
        _ => {
            put_status(frame, Status::NotFound, false, replies);
            return Then::Continue;
        }
    };
    put_lines(frame, &report, replies);
    put_value(frame, Status::Ok, &[], replies);
    Then::Continue
}

/// Answers with each line of a report.
pub(in crate::memcached) fn put_lines(frame: Frame, lines: &[u8], replies: &mut impl Sink) {
    for (name, value) in lines.split(|&byte| byte == b'\n').filter_map(statistic) {
        put(&Head { key: name, ..Head::new(frame, Status::Ok) }, value, replies);
    }
}

/// Answers with whole lines of a report that goes through all records, and perhaps the end.
pub(in crate::memcached) fn put_sizes(
    frame: Frame,
    lines: &[u8],
    is_last: bool,
    replies: &mut Replies,
) {
    put_lines(frame, lines, replies);
    if is_last {
        put_value(frame, Status::Ok, &[], replies);
    }
}

/// Answers with a part of the counts by prefix, and perhaps the end.
pub(in crate::memcached) fn put_part(
    frame: Frame,
    part: &[u8],
    is_last: bool,
    replies: &mut impl Sink,
) {
    put(&Head { key: DETAILED, ..Head::new(frame, Status::Ok) }, part, replies);
    if is_last {
        put_value(frame, Status::Ok, &[], replies);
    }
}

/// Name and value of a line `STAT <name> <value>`.
fn statistic(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\r")?.strip_prefix(b"STAT ")?;
    let blank = line.iter().position(|&byte| byte == b' ')?;
    Some((&line[..blank], &line[blank + 1..]))
}
