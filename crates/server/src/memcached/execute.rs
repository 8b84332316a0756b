//! Executing one request.

use cache::{Change, Decision, Edit, Key};
use wire::memcached::{Direction, Expiry, Request, lines, watch};

use super::{
    admin::{self, Then},
    arithmetic,
    context::Context,
    meta,
    record::{Replies, put_line, put_unless},
};

/// What a request came to.
#[derive(Debug)]
pub(super) enum Done {
    /// It is answered; what follows.
    Yes(Then),
    /// A large value cannot be sent now, and nothing has happened.
    Busy,
}

/// Executes a request that has no body and is no text retrieval. `known` is its key if it was
/// hashed before.
pub(super) fn execute(
    context: &mut Context,
    request: &Request<'_>,
    known: Option<Key<'_>>,
    replies: &mut Replies,
) -> Done {
    let stored = if context.watched == 0 { None } else { context.log_request(request, known) };
    match request {
        Request::MetaGet(command) => {
            let sent = context.with_key(known.as_ref(), &command.key, |context, key| {
                meta::get(context, *key, command, replies)
            });
            if !sent {
                return Done::Busy;
            }
        }
        Request::MetaDelete(command) => {
            context.with_key(known.as_ref(), &command.key, |context, key| {
                let before = context.counters.delete_hits.get();
                meta::delete(context, *key, command, replies);
                if context.watched & watch::DELETIONS != 0
                    && context.counters.delete_hits.get() > before
                    && !command.flags.has(b'x')
                {
                    context.log_deletion(key.bytes(), "md", stored.unwrap_or(0));
                }
            });
        }
        Request::MetaArithmetic { meta: command, direction } => {
            context.with_key(known.as_ref(), &command.key, |context, key| {
                meta::arithmetic(context, *key, command, *direction, replies);
            });
        }
        Request::MetaDebug { key: sent } => {
            context.with_key(known.as_ref(), sent, |context, key| {
                meta::debug(context, *key, sent, replies);
            });
        }
        Request::Delete { key, noreply } => {
            let key = known.unwrap_or_else(|| context.key(key));
            let before = context.counters.delete_hits.get();
            put_unless(*noreply, delete(context, key), replies);
            if context.watched & watch::DELETIONS != 0
                && context.counters.delete_hits.get() > before
            {
                context.log_deletion(key.bytes(), "delete", stored.unwrap_or(0));
            }
        }
        Request::Touch { key, expiry, noreply } => {
            let key = known.unwrap_or_else(|| context.key(key));
            put_unless(*noreply, touch(context, key, *expiry), replies);
        }
        Request::Arithmetic { key, direction, delta, noreply } => {
            let key = known.unwrap_or_else(|| context.key(key));
            count(context, key, *direction, *delta, *noreply, replies);
        }
        other => return Done::Yes(admin::admin(context, other, replies)),
    }
    Done::Yes(Then::Continue)
}

fn delete(context: &mut Context, key: Key<'_>) -> &'static [u8] {
    let mut found = false;
    context
        .worker
        .update(key, |view| {
            found = view.is_some();
            if found { Change::Remove.into() } else { Change::Keep.into() }
        })
        .expect("invariant: removing needs no memory");
    context.server.prefixes().count(key.bytes(), |counts| counts.deletes += 1);
    if found {
        context.counters.delete_hits.add(1);
        lines::DELETED
    } else {
        context.counters.delete_misses.add(1);
        lines::NOT_FOUND
    }
}

fn touch(context: &mut Context, key: Key<'_>, expiry: Expiry) -> &'static [u8] {
    let edit = Edit { expiry_ms: Some(context.deadline_ms(expiry)), ..Edit::default() };
    let mut found = false;
    let edited = context.worker.update(key, |view| {
        found = view.is_some();
        let change = if found { Change::Edit(edit) } else { Change::Keep };
        Decision { change, hit: found }
    });
    context.counters.cmd_touch.add(1);
    if edited.is_err() {
        // A record that had no time has to move to a larger slot, and there was none.
        lines::OUT_OF_MEMORY
    } else if found {
        context.counters.touch_hits.add(1);
        lines::TOUCHED
    } else {
        context.counters.touch_misses.add(1);
        lines::NOT_FOUND
    }
}

fn count(
    context: &mut Context,
    key: Key<'_>,
    direction: Direction,
    delta: u64,
    noreply: bool,
    replies: &mut Replies,
) {
    let token = context.tokens.fresh();
    let terms =
        arithmetic::Terms { direction, delta, compare: 0, token, expiry_ms: None, create: None };
    let order = arithmetic::Order { key, terms };
    let reply = match arithmetic::count(context, &order) {
        arithmetic::Outcome::Changed { number, .. } => {
            if !noreply {
                put_line(replies, |writer| writer.number_line(number));
            }
            return;
        }
        arithmetic::Outcome::NotNumeric => lines::NON_NUMERIC,
        arithmetic::Outcome::NoMemory => lines::OUT_OF_MEMORY,
        _ => lines::NOT_FOUND,
    };
    put_unless(noreply, reply, replies);
}
