//! `mg`.

use cache::{Change, Decision, Edit, Get, Key, Pinned, Put, Token, Value, View};
use wire::memcached::{
    Expiry, Meta,
    lines::LINE_END,
    reply::{Facts, Renewal, Writer},
};

use super::{Creation, Expiries, facts};
use crate::memcached::{
    context::Context,
    deadline::is_due,
    record::{Record, Replies, put_line},
    tokens::Tokens,
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
        let inspection =
            Inspection::of(command, now_ms, context.tokens, |it| context.deadline_ms(it));
        let creation = inspection.creation;
        let mut locked = Locked::Missing;
        let hit = !command.flags.has(b'u');
        let mark = replies.mark();
        let result = context.worker.update(key, |view| {
            replies.rewind(mark);
            let Some(view) = view else {
                let Some(put) = inspection.create() else {
                    locked = Locked::Missing;
                    return Change::Keep.into();
                };
                locked = Locked::Created;
                return Decision { change: Change::Put(put), hit };
            };
            let judged = inspection.judge(&view.meta(), view.age_ms());
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

/// What a command asks for; times in milliseconds, 0 is never.
#[derive(Clone, Copy, Debug)]
pub(in crate::memcached) struct Inspection {
    now_ms: u64,
    /// `T`.
    expiry_ms: Option<u64>,
    /// `R`.
    renew_ms: Option<u64>,
    /// `R` comes behind `T`.
    renews_after: bool,
    /// What is created if there is no record.
    pub(in crate::memcached) creation: Option<Creation>,
    token: Token,
}

/// What a command does to a record, and says about it.
pub(in crate::memcached) struct Judged {
    pub(in crate::memcached) change: Change<'static>,
    pub(in crate::memcached) facts: Facts,
    pub(in crate::memcached) renewal: Renewal,
}

impl Inspection {
    pub(in crate::memcached) fn of(
        command: &Meta<'_>,
        now_ms: u64,
        tokens: Tokens,
        deadline_ms: impl Fn(Expiry) -> u64,
    ) -> Self {
        let is_either = |token: &&[u8]| matches!(token[0], b'T' | b'R');
        Self {
            now_ms,
            expiry_ms: command.expiry.map(&deadline_ms),
            renew_ms: command.renew.map(&deadline_ms),
            renews_after: command.tokens().find(is_either).is_some_and(|token| token[0] == b'T'),
            creation: Creation::of(command, deadline_ms),
            token: tokens.chosen(command.token),
        }
    }

    /// The record that is created where there is none.
    pub(in crate::memcached) fn create(&self) -> Option<Put<'static>> {
        let Creation { expiry_ms, .. } = self.creation?;
        let put = Put::new(Value::Bytes(b""));
        Some(Put { expiry_ms, token: self.token, win_sent: true, ..put })
    }

    pub(in crate::memcached) fn judge(&self, meta: &cache::Meta, age_ms: u64) -> Judged {
        let expiries = Expiries::of(meta.expiry_ms, self.expiry_ms);
        let seen_ms = if self.renews_after { expiries.after_ms } else { expiries.before_ms };
        let is_due = |renew_ms| is_due(seen_ms, renew_ms, self.now_ms);
        let won = (meta.stale || self.renew_ms.is_some_and(is_due)) && !meta.win_sent;
        let edit =
            Edit { expiry_ms: self.expiry_ms, win_sent: won.then_some(true), ..Edit::default() };
        let unchanged = edit.expiry_ms.is_none() && edit.win_sent.is_none();
        Judged {
            change: if unchanged { Change::Keep } else { Change::Edit(edit) },
            facts: facts(meta, expiries, age_ms, self.now_ms),
            renewal: Renewal { won, stale: meta.stale, taken: meta.win_sent },
        }
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
