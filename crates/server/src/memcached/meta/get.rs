//! `mg`.

use cache::{Change, Decision, Edit, Get, Key, Pinned, Put, Value, View};
use wire::memcached::{
    Meta,
    lines::LINE_END,
    reply::{Facts, Renewal, Writer},
};

use super::{Creation, Expiries, facts};
use crate::memcached::{
    context::Context,
    deadline::is_due,
    record::{Record, Replies, put_line},
};

/// Answers `mg`. False if the value cannot be sent now; then nothing has happened.
pub(in crate::memcached) fn get(
    context: &mut Context,
    key: Key<'_>,
    command: &Meta<'_>,
    replies: &mut Replies,
) -> bool {
    let found = if b"NTRluh".iter().any(|&flag| command.flags.has(flag)) {
        Retrieval { context, key, command, replies }.locked()
    } else {
        Retrieval { context, key, command, replies }.unlocked()
    };
    let counters = &context.counters;
    match found {
        Found::Busy => return false,
        Found::Missing => {
            counters.cmd_get.add(1);
            counters.get_misses.add(1);
            context.count_dead();
        }
        Found::Here if command.expiry.is_some() => {
            counters.cmd_touch.add(1);
            counters.touch_hits.add(1);
        }
        Found::Here => {
            counters.cmd_get.add(1);
            counters.get_hits.add(1);
        }
    }
    true
}

/// What became of a command. The reply is written, unless it is [`Found::Busy`].
enum Found {
    /// A record, or one was created.
    Here,
    /// None.
    Missing,
    /// One whose value cannot be sent now.
    Busy,
}

/// What was found under the lock.
enum Locked {
    Missing,
    Created,
    Written,
    Large(Pinned, Facts, Renewal),
    Busy,
}

/// A command, and what it works with.
struct Retrieval<'t> {
    context: &'t mut Context,
    key: Key<'t>,
    command: &'t Meta<'t>,
    replies: &'t mut Replies,
}

impl Retrieval<'_> {
    /// Reads without a lock, for commands that change nothing.
    fn unlocked(self) -> Found {
        let Self { context, key, command, replies } = self;
        let now_ms = context.worker.now_ms();
        let mut record = Record::new(replies, |meta: &cache::Meta, writer: &mut Writer<'_>| {
            let renewal = Renewal { won: false, stale: meta.stale, taken: meta.win_sent };
            let facts = facts(meta, Expiries::of(meta.expiry_ms, None), 0, now_ms);
            writer.meta_get_hit(command, &facts, renewal)
        });
        // A stale record that nobody renews is won by this client, which must be noted.
        let wins = |meta: &cache::Meta| meta.stale && !meta.win_sent;
        match context.worker.get(key, &mut record) {
            Get::Hit(meta) if !wins(&meta) => record.finish(LINE_END),
            Get::Large(pinned) if !wins(pinned.meta()) => record.finish_large(pinned, LINE_END),
            Get::Hit(_) | Get::Large(_) => {
                return Retrieval { context, key, command, replies }.locked();
            }
            // Under the lock no value is asked for that is not wanted.
            Get::Busy => return Retrieval { context, key, command, replies }.locked(),
            Get::Miss => {
                put_line(replies, |writer| writer.meta_get_miss(command));
                return Found::Missing;
            }
        }
        Found::Here
    }

    /// Reads under the key's lock, and changes what the command says.
    fn locked(self) -> Found {
        let Self { context, key, command, replies } = self;
        let now_ms = context.worker.now_ms();
        let times = Times {
            now_ms,
            expiry_ms: command.expiry.map(|expiry| context.deadline_ms(expiry)),
            renew_ms: command.renew.map(|expiry| context.deadline_ms(expiry)),
        };
        let creation = Creation::of(command, context);
        let token = context.tokens.chosen(command.token);
        let mut locked = Locked::Missing;
        let hit = !command.flags.has(b'u');
        let mark = replies.mark();
        let result = context.worker.update(key, |view| {
            replies.rewind(mark);
            let Some(view) = view else {
                let Some(Creation { expiry_ms, .. }) = creation else {
                    locked = Locked::Missing;
                    return Change::Keep.into();
                };
                locked = Locked::Created;
                let put = Put { expiry_ms, token, win_sent: true, ..Put::new(Value::Bytes(b"")) };
                return Decision { change: Change::Put(put), hit };
            };
            let judged = judge(view, command, &times);
            locked = write(view, command, &judged, replies);
            match locked {
                Locked::Busy => Change::Keep.into(),
                _ => Decision { change: judged.change, hit },
            }
        });
        match (result, locked) {
            (Ok(_), Locked::Written) => {}
            (Ok(_), Locked::Large(pinned, facts, renewal)) => {
                let head = |_: &cache::Meta, writer: &mut Writer<'_>| {
                    writer.meta_get_hit(command, &facts, renewal)
                };
                Record::new(replies, head).finish_large(pinned, LINE_END);
            }
            (Ok(token), Locked::Created) => {
                context.counters.total_items.add(1);
                let creation = creation.expect("invariant: it told what to create");
                let facts = creation.facts(token.unwrap_or(0), now_ms);
                let renewal = Renewal { won: true, ..Renewal::default() };
                put_line(replies, |writer| {
                    if writer.meta_get_hit(command, &facts, renewal) {
                        writer.put(LINE_END);
                    }
                });
            }
            (Ok(_), Locked::Busy) if context.waits_for_pins => return Found::Busy,
            (Ok(_), Locked::Missing | Locked::Busy) | (Err(_), _) => {
                replies.rewind(mark);
                put_line(replies, |writer| writer.meta_get_miss(command));
                return Found::Missing;
            }
        }
        Found::Here
    }
}

/// The times that a command names, in milliseconds; 0 is never.
struct Times {
    now_ms: u64,
    /// `T`.
    expiry_ms: Option<u64>,
    /// `R`.
    renew_ms: Option<u64>,
}

/// What a command does to a record, and says about it.
struct Judged {
    change: Change<'static>,
    facts: Facts,
    renewal: Renewal,
}

fn judge(view: &View<'_>, command: &Meta<'_>, times: &Times) -> Judged {
    let meta = view.meta();
    let expiries = Expiries::of(meta.expiry_ms, times.expiry_ms);
    let is_due = |renew_ms| is_due(expiries.seen_by_renew(command), renew_ms, times.now_ms);
    let won = (meta.stale || times.renew_ms.is_some_and(is_due)) && !meta.win_sent;
    let edit =
        Edit { expiry_ms: times.expiry_ms, win_sent: won.then_some(true), ..Edit::default() };
    let unchanged = edit.expiry_ms.is_none() && edit.win_sent.is_none();
    Judged {
        change: if unchanged { Change::Keep } else { Change::Edit(edit) },
        facts: facts(&meta, expiries, view.age_ms(), times.now_ms),
        renewal: Renewal { won, stale: meta.stale, taken: meta.win_sent },
    }
}

/// Writes the reply while the record is locked. A large value only gets pinned.
fn write(view: &View<'_>, command: &Meta<'_>, judged: &Judged, replies: &mut Replies) -> Locked {
    let Judged { facts, renewal, .. } = judged;
    let with_value = command.flags.has(b'v') && command.compare != Some(facts.token);
    if !with_value {
        put_line(replies, |writer| {
            writer.meta_get_hit(command, facts, *renewal);
        });
        return Locked::Written;
    }
    let head =
        |_: &cache::Meta, writer: &mut Writer<'_>| writer.meta_get_hit(command, facts, *renewal);
    let mut record = Record::new(replies, head);
    match view.read(&mut record) {
        Get::Large(pinned) => Locked::Large(pinned, *facts, *renewal),
        Get::Busy => Locked::Busy,
        Get::Hit(_) | Get::Miss => {
            record.finish(LINE_END);
            Locked::Written
        }
    }
}
