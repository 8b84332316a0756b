//! The commands that bring a value: what they ask for, and what they are told.

use cache::{Key, StoreError, Upload};
use wire::memcached::{
    Expiry, MetaKey, MetaStore, Request, Store, StoreMode, StoreVerb, binary, body::Inflow, lines,
    watch,
};

use super::{
    binary::{store_reply, store_terms},
    context::Context,
    meta,
    record::{Replies, Sink, put_unless},
    storage::{Condition, Order, Outcome, Side, Terms, fail, store, store_upload},
    tokens::Tokens,
};
use crate::stats::{Counters, ServerStats};

/// A command that brings a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoreCommand<'i> {
    /// A text command.
    Text(Store<'i>),
    /// `ms`.
    Meta(MetaStore<'i>),
    /// A command of the binary protocol.
    Binary(binary::Store<'i>),
}

impl<'i> StoreCommand<'i> {
    /// The request, if it brings a value.
    pub(super) fn of(request: &Request<'i>) -> Option<Self> {
        match request {
            Request::Store(command) => Some(Self::Text(*command)),
            Request::MetaStore(command) => Some(Self::Meta(*command)),
            _ => None,
        }
    }

    /// The request of the binary protocol, if it brings a value.
    pub(super) fn of_binary(request: &binary::Request<'i>) -> Option<Self> {
        match request.command {
            binary::Command::Store(command) => Some(Self::Binary(command)),
            _ => None,
        }
    }

    /// Bytes of the value.
    pub(super) fn value_len(&self) -> u32 {
        match self {
            Self::Text(command) => command.value_len,
            Self::Meta(command) => command.value_len,
            Self::Binary(command) => command.value_len,
        }
    }

    /// The value as it is going to arrive.
    pub(super) fn inflow(&self) -> Inflow {
        match self {
            Self::Text(_) | Self::Meta(_) => Inflow::new(self.value_len()),
            Self::Binary(_) => Inflow::bare(self.value_len()),
        }
    }

    /// The key as it was sent, if that is what it is.
    pub(super) fn plain_key(&self) -> Option<&'i [u8]> {
        self.key().plain_bytes()
    }

    /// Stores `value` as the command says, and answers. `known` is the key if it was hashed before.
    pub(super) fn store(
        &self,
        context: &mut Context,
        known: Option<&Key<'_>>,
        value: &[u8],
        replies: &mut Replies,
    ) {
        self.with_order(context, known, |context, order| {
            note_look(context, order);
            let outcome = store(&mut context.worker, order, value);
            self.answer(context, order, outcome, replies);
        });
    }

    /// The same with a value that came bit by bit.
    pub(super) fn store_upload(
        &self,
        context: &mut Context,
        upload: Upload,
        replies: &mut Replies,
    ) {
        self.with_order(context, None, |context, order| {
            note_look(context, order);
            let outcome = store_upload(&mut context.worker, order, upload);
            self.answer(context, order, outcome, replies);
        });
    }

    /// Says that the value cannot be stored, for which `error` is the reason.
    pub(super) fn refuse(&self, context: &mut Context, error: StoreError, replies: &mut Replies) {
        self.with_order(context, None, |context, order| {
            let outcome = fail(&mut context.worker, order, error);
            self.answer(context, order, outcome, replies);
        });
    }

    /// Says that the value was not followed by a line end. It was a store all the same.
    pub(super) fn refuse_data(&self, context: &Context, replies: &mut Replies) {
        context.counters.cmd_set.add(1);
        self.count_prefix(&context.server);
        let noreply = match self {
            Self::Text(command) => command.noreply,
            Self::Meta(_) | Self::Binary(_) => false,
        };
        put_unless(noreply, lines::BAD_DATA_CHUNK, replies);
    }

    #[inline]
    fn with_order(
        &self,
        context: &mut Context,
        known: Option<&Key<'_>>,
        run: impl FnOnce(&mut Context, &Order<'_>),
    ) {
        context.with_key(known, &self.key(), |context, key| {
            let terms = self.terms(context.tokens, |expiry| context.deadline_ms(expiry));
            run(context, &Order { key, terms });
        });
    }

    /// Whether its value is joined to the one that is there.
    pub(super) fn joins(&self) -> bool {
        match self {
            Self::Text(command) => {
                matches!(command.verb, StoreVerb::Append | StoreVerb::Prepend)
            }
            Self::Meta(command) => {
                matches!(command.mode, StoreMode::Append | StoreMode::Prepend)
            }
            Self::Binary(command) => {
                matches!(command.verb, binary::Verb::Append | binary::Verb::Prepend)
            }
        }
    }

    /// Whether it stores over a record with one token only.
    pub(super) fn compares(&self) -> bool {
        match self {
            Self::Text(command) => matches!(command.verb, StoreVerb::CompareAndSwap { .. }),
            Self::Meta(command) => {
                let swaps = matches!(command.mode, StoreMode::Set | StoreMode::Replace);
                swaps && command.meta.compare.is_some()
            }
            Self::Binary(command) => command.token != 0 && !self.joins(),
        }
    }

    /// What it asks for.
    #[inline]
    pub(super) fn terms(&self, tokens: Tokens, deadline_ms: impl Fn(Expiry) -> u64) -> Terms {
        match self {
            Self::Text(command) => text_terms(tokens, deadline_ms, command),
            Self::Meta(command) => meta::store_terms(tokens, deadline_ms, command),
            Self::Binary(command) => store_terms(tokens, deadline_ms, command),
        }
    }

    /// The key as it was sent.
    #[inline]
    pub(super) fn key(&self) -> MetaKey<'i> {
        match self {
            Self::Text(command) => MetaKey::plain(command.key),
            Self::Meta(command) => command.meta.key,
            Self::Binary(command) => MetaKey::plain(command.key),
        }
    }

    fn answer(
        &self,
        context: &Context,
        order: &Order<'_>,
        outcome: Outcome,
        replies: &mut Replies,
    ) {
        let swaps = matches!(order.terms.condition, Condition::Matching { .. });
        self.count(&context.counters, &context.server, swaps, outcome);
        if context.watched & watch::MUTATIONS != 0 {
            context.log_store(order, outcome, self.value_len().into());
        }
        self.reply(outcome, replies);
    }

    /// Counts what came of it. `swaps`: it has compared tokens.
    pub(super) fn count(
        &self,
        counters: &Counters,
        server: &ServerStats,
        swaps: bool,
        outcome: Outcome,
    ) {
        let swaps = u64::from(swaps);
        match outcome {
            Outcome::TooLarge => counters.store_too_large.add(1),
            Outcome::NoMemory => counters.store_no_memory.add(1),
            _ => counters.cmd_set.add(1),
        }
        match outcome {
            Outcome::Stored { .. } => {
                counters.total_items.add(1);
                counters.cas_hits.add(swaps);
            }
            Outcome::Exists => counters.cas_badval.add(swaps),
            Outcome::NotFound => counters.cas_misses.add(swaps),
            Outcome::TooLarge | Outcome::NoMemory | Outcome::NotStored => {}
        }
        self.count_prefix(server);
    }

    /// Counts a store for the prefix of its key, whatever comes of it; meta commands are not
    /// counted.
    pub(super) fn count_prefix(&self, server: &ServerStats) {
        let key = match self {
            Self::Text(command) => command.key,
            Self::Binary(command) => command.key,
            Self::Meta(_) => return,
        };
        server.prefixes().count(key, |counts| counts.sets += 1);
    }

    /// Writes the answer.
    pub(super) fn reply(&self, outcome: Outcome, replies: &mut impl Sink) {
        match self {
            Self::Text(command) => {
                let reply = match outcome {
                    Outcome::Stored { .. } => lines::STORED,
                    Outcome::NotStored => lines::NOT_STORED,
                    Outcome::Exists => lines::EXISTS,
                    Outcome::NotFound => lines::NOT_FOUND,
                    Outcome::TooLarge => lines::TOO_LARGE,
                    Outcome::NoMemory => lines::OUT_OF_MEMORY_STORING,
                };
                put_unless(command.noreply, reply, replies);
            }
            Self::Meta(command) => meta::store_reply(command, outcome, replies),
            Self::Binary(command) => store_reply(command, outcome, replies),
        }
    }
}

/// Logs that a command looks whether its key has a record.
fn note_look(context: &mut Context, order: &Order<'_>) {
    if context.watched & watch::FETCHERS != 0 {
        context.log_store_look(order.key);
    }
}

fn text_terms(tokens: Tokens, deadline_ms: impl Fn(Expiry) -> u64, command: &Store<'_>) -> Terms {
    let joined = |side| Condition::Joined { side, token: 0, create_expiry_ms: None };
    let condition = match command.verb {
        StoreVerb::Set => Condition::Always,
        StoreVerb::Add => Condition::Absent,
        StoreVerb::Replace => Condition::Present,
        StoreVerb::Append => joined(Side::Back),
        StoreVerb::Prepend => joined(Side::Front),
        StoreVerb::CompareAndSwap { token } => {
            Condition::Matching { token: tokens.wanted(token), or_stale: false }
        }
    };
    Terms {
        condition,
        client_flags: command.client_flags,
        expiry_ms: deadline_ms(command.expiry),
        token: tokens.fresh(),
        removes_on_failure: command.verb == StoreVerb::Set,
    }
}
