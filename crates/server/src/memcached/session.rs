//! The state of one connection, and its turns.

mod keys;
mod lists;
mod login;

use base::sync::atomic::Ordering;
use reactor::{Input, Next};
use wire::memcached::{self as protocol, binary::Frame};

use super::{
    admin::Then,
    binary,
    burst::{End, Plan, Planned, StoreBody, Work},
    context::Context,
    dialect::{Dialect, Standing},
    dump::Dump,
    execute::{Done, execute},
    record::Replies,
    reports::List,
    retrieval::Retrieval,
    upload::{self, Receiving},
    watch::Watch,
};
use crate::{config::Protocol, stats::OpenConnection};

/// Most commands, and most keys of retrievals, that a connection gets done before it is the turn of
/// others: 512 at 100 to 300 ns are about 0.1 ms.
pub const TURN_COMMANDS_MAX: usize = 512;

/// How long a request for a large value waits for others to take theirs, so that memory may be
/// pinned for it. Then it misses, as it may at any time: clients that never read must not keep
/// others waiting for ever.
pub(super) const PIN_WAIT_MS_MAX: u64 = 1000;

/// One connection.
#[derive(Debug)]
pub struct Session {
    connection: OpenConnection,
    /// What may be spoken, if that is not up to the server.
    protocol: Option<Protocol>,
    dialect: Dialect,
    phase: Phase,
    /// Bytes of the keys that the retrieval at the start of the input is already past.
    keys_done: usize,
    /// Since when it waits for memory to be unpinned.
    waits_since_ms: Option<u64>,
    /// It ends because what it said makes no sense.
    is_wrong: bool,
}

/// What the next bytes of the input are, or what has to be done first.
#[derive(Debug)]
enum Phase {
    /// A line, or a request of the binary protocol.
    Line,
    /// More keys of a retrieval line that is longer than the input.
    Keys(Retrieval),
    /// A piece of a value.
    Value(Box<Receiving>),
    /// So many bytes that nobody wants.
    Swallow(u64),
    /// A report has to be written first; in the binary protocol the answer to what it names.
    List(List, Option<Frame>),
    /// What all records are gone through for has to be written first; likewise.
    Dump(Box<Dump>, Option<Frame>),
    /// Lines of logs are sent; nothing that matters.
    Watch(Watch),
    /// Nothing that matters.
    Finished,
}

/// What one turn of a connection works with.
struct Turn<'t> {
    context: &'t mut Context,
    replies: &'t mut Replies,
    /// Commands, and keys of retrievals, that it may still do.
    commands_left: usize,
}

impl Turn<'_> {
    /// Stops where it is, because it has done its work or has no room for replies.
    fn pause(&self) -> Advance {
        Advance::stop(0, if self.commands_left == 0 { Next::Yield } else { Next::Blocked })
    }
}

impl Phase {
    /// What follows a command.
    fn after(then: Then, frame: Option<Frame>) -> Self {
        match then {
            Then::Continue => Self::Line,
            Then::List(list) => Self::List(list, frame),
            Then::Dump(dump) => Self::Dump(dump, frame),
            Then::Watch(watch) => Self::Watch(watch),
            Then::Finish => Self::Finished,
        }
    }
}

/// Whether a turn goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Stop(Next),
}

/// How far a phase came.
struct Advance {
    /// Bytes of the input that it took.
    consumed: usize,
    /// Bytes of the input, counted behind those, without which nothing goes on, if that is known.
    needed: Option<usize>,
    flow: Flow,
}

impl Advance {
    fn on(consumed: usize) -> Self {
        Self { consumed, needed: None, flow: Flow::On }
    }

    fn stop(consumed: usize, next: Next) -> Self {
        Self { consumed, needed: None, flow: Flow::Stop(next) }
    }
}

/// The start of a turn: what came of the requests that were planned with those of others.
pub(super) struct Begun {
    advance: Advance,
    commands_left: usize,
    written_before: usize,
}

impl Session {
    /// A connection that has not said anything yet.
    #[must_use]
    pub fn new(connection: OpenConnection) -> Self {
        let dialect = Dialect::Undecided;
        let (phase, is_wrong) = (Phase::Line, false);
        let (protocol, keys_done, waits_since_ms) = (None, 0, None);
        Self { connection, protocol, dialect, phase, keys_done, waits_since_ms, is_wrong }
    }

    /// The same, of a client that speaks `protocol`, if that is not up to the server.
    #[must_use]
    pub(crate) fn speaking(self, protocol: Option<Protocol>) -> Self {
        Self { protocol, ..self }
    }

    /// Whether its client reads frames, which lines are not.
    pub(crate) fn speaks_binary(&self) -> bool {
        matches!(self.dialect, Dialect::Binary(_))
    }

    /// Forgets what it was about: what comes next is from somebody else, who speaks `protocol` if
    /// that is not up to the server.
    pub(crate) fn begin_anew(&mut self, protocol: Option<Protocol>) {
        self.protocol = protocol;
        self.dialect = Dialect::Undecided;
        self.phase = Phase::Line;
        self.keys_done = 0;
        self.waits_since_ms = None;
    }

    /// Executes what `input` holds and appends the replies, within the bounds of a turn. The
    /// worker of `context` must have announced its quiescence since it last waited.
    pub fn serve(
        &mut self,
        context: &mut Context,
        input: &mut Input,
        replies: &mut Replies,
    ) -> Next {
        let written_before = replies.len();
        context.unsent_before = written_before;
        context.client = self.connection.id();
        self.choose_patience(context);
        let mut turn = Turn { commands_left: context.turn_commands_max, context, replies };
        let advance = self.advance(&mut turn, input.bytes());
        let Turn { commands_left, .. } = turn;
        self.go_on(context, input, replies, Begun { advance, commands_left, written_before })
    }

    /// Adds at most `requests_max` requests that `input` starts with to `plan`; `None` if they
    /// cannot be planned, because there is something else to do first.
    pub(super) fn plan<'i>(
        &mut self,
        plan: &mut Plan<'i>,
        context: &Context,
        input: &'i [u8],
        requests_max: usize,
    ) -> Option<End> {
        if !matches!(self.phase, Phase::Line) {
            return None;
        }
        if self.dialect == Dialect::Undecided {
            self.dialect = Dialect::of(&context.access, self.protocol, input);
        }
        let Context { limits, worker, .. } = context;
        match self.dialect {
            Dialect::TextLogin => None,
            Dialect::Binary(standing) => {
                Some(plan.read_binary(input, worker, requests_max, standing))
            }
            Dialect::Undecided | Dialect::Text => {
                Some(plan.read(input, limits, worker, requests_max))
            }
        }
    }

    /// Begins a turn with requests that were planned, and behind which `input` holds what `end`
    /// says.
    pub(super) fn begin(
        &mut self,
        context: &mut Context,
        input: &[u8],
        replies: &mut Replies,
        planned: &[Planned<'_>],
        end: End,
    ) -> Begun {
        let written_before = replies.len();
        context.unsent_before = written_before;
        context.client = self.connection.id();
        self.choose_patience(context);
        let mut turn = Turn { commands_left: context.turn_commands_max, context, replies };
        let advance = self.perform_all(&mut turn, planned, end, input);
        Begun { advance, commands_left: turn.commands_left, written_before }
    }

    /// Goes on with a turn that has begun, to its end.
    pub(super) fn go_on(
        &mut self,
        context: &mut Context,
        input: &mut Input,
        replies: &mut Replies,
        begun: Begun,
    ) -> Next {
        let read_before = input.bytes().len();
        let Begun { mut advance, commands_left, written_before } = begun;
        // Others may have begun theirs since.
        context.unsent_before = written_before;
        context.client = self.connection.id();
        let mut turn = Turn { context, replies, commands_left };
        let mut awaits_value;
        let next = loop {
            input.consume(advance.consumed);
            awaits_value = advance.needed.is_some();
            if let Some(needed) = advance.needed {
                input.need(needed);
            }
            match advance.flow {
                Flow::On => turn.context.worker.quiesce(),
                Flow::Stop(next) => break next,
            }
            // Others may have been served since it began.
            self.choose_patience(turn.context);
            advance = self.advance(&mut turn, input.bytes());
        };
        let now_ms = context.worker.now_ms();
        self.waits_since_ms = (next == Next::Retry).then(|| self.waits_since_ms.unwrap_or(now_ms));
        let read = read_before - input.bytes().len();
        if read > 0 {
            let heard = &self.connection.connection().last_command_ms;
            heard.store(now_ms, Ordering::Relaxed);
        }
        awaits_value |= matches!(self.phase, Phase::Value(_));
        self.connection.connection().awaits_value.store(awaits_value, Ordering::Relaxed);
        let counters = &context.counters;
        counters.bytes_read.add(read as u64);
        counters.bytes_written.add((replies.len() - written_before) as u64);
        counters.conn_yields.add(u64::from(next == Next::Yield));
        next
    }

    /// Has `context` wait for memory that others have pinned, unless this session has waited long
    /// enough.
    fn choose_patience(&self, context: &mut Context) {
        let now_ms = context.worker.now_ms();
        context.waits_for_pins =
            self.waits_since_ms.is_none_or(|since_ms| now_ms < since_ms + PIN_WAIT_MS_MAX);
    }

    /// One phase.
    fn advance(&mut self, turn: &mut Turn<'_>, input: &[u8]) -> Advance {
        match std::mem::replace(&mut self.phase, Phase::Line) {
            Phase::Line => self.lines(turn, input),
            Phase::Keys(retrieval) => self.keys(turn, retrieval, input),
            Phase::Value(receiving) if input.is_empty() => {
                self.phase = Phase::Value(receiving);
                Advance::stop(0, Next::Read)
            }
            Phase::Value(receiving) => {
                let (consumed, then) =
                    upload::receive(turn.context, receiving, input, turn.replies);
                self.follow(then);
                Advance::on(consumed)
            }
            Phase::Swallow(bytes) if bytes > input.len() as u64 => {
                self.phase = Phase::Swallow(bytes - input.len() as u64);
                Advance::stop(input.len(), Next::Read)
            }
            Phase::Swallow(bytes) => {
                Advance::on(usize::try_from(bytes).expect("invariant: at most the input"))
            }
            Phase::List(list, frame) => self.list(turn, list, frame),
            Phase::Dump(dump, frame) => self.dump(turn, dump, frame),
            Phase::Watch(watch) => self.watch(turn, watch, input),
            Phase::Finished => {
                self.phase = Phase::Finished;
                Advance::stop(input.len(), Next::Finish)
            }
        }
    }

    /// A burst of lines.
    fn lines(&mut self, turn: &mut Turn<'_>, input: &[u8]) -> Advance {
        let mut plan = Plan::default();
        let Some(end) = self.plan(&mut plan, turn.context, input, turn.commands_left) else {
            return self.text_login(turn, input);
        };
        plan.prefetch(&turn.context.worker);
        self.perform_all(turn, plan.requests(), end, input)
    }

    /// Executes what was planned from the start of `input`.
    fn perform_all(
        &mut self,
        turn: &mut Turn<'_>,
        planned: &[Planned<'_>],
        end: End,
        input: &[u8],
    ) -> Advance {
        let mut consumed = 0;
        for planned in planned {
            if !turn.replies.has_room() {
                return Advance::stop(consumed, Next::Blocked);
            }
            let flow = match (&planned.work, &planned.key) {
                (Work::Get, Some(key)) => Self::get(turn, key),
                _ => self.perform(turn, planned, &input[consumed..][..planned.consumed]),
            };
            match flow {
                Flow::On => consumed += planned.consumed,
                Flow::Stop(next) => return Advance::stop(consumed, next),
            }
            if !matches!(self.phase, Phase::Line) {
                return Advance::on(consumed);
            }
        }
        match end {
            End::Incomplete { needed } => {
                let needed = needed.map(|needed| needed - consumed);
                Advance { needed, ..Advance::stop(consumed, Next::Read) }
            }
            End::Pause if turn.commands_left == 0 => Advance::stop(consumed, Next::Yield),
            End::Pause => Advance::on(consumed),
        }
    }

    /// Does what one line asks for, or stops before it.
    fn perform(&mut self, turn: &mut Turn<'_>, planned: &Planned<'_>, line: &[u8]) -> Flow {
        let Turn { context, replies, .. } = turn;
        if let Dialect::Binary(Standing::Stranger | Standing::Begun) = self.dialect
            && let Some(frame) = planned.work.closed_to_strangers()
        {
            binary::refuse_stranger(frame, *replies);
            self.phase = Phase::Finished;
            return Flow::On;
        }
        match &planned.work {
            Work::Get => unreachable!("invariant: it has a key, and is done"),
            Work::Retrieval(get) => return self.retrieve(turn, get, planned.key.as_ref()),
            Work::Request(request) => match execute(context, request, planned.key, replies) {
                Done::Busy => return Flow::Stop(Next::Retry),
                Done::Yes(Then::Continue) => {}
                Done::Yes(then) => self.phase = Phase::after(then, None),
            },
            Work::Binary(request) => {
                let Dialect::Binary(standing) = &mut self.dialect else {
                    unreachable!("invariant: it was planned in this dialect")
                };
                match binary::execute(context, request, planned.key, standing, replies) {
                    Done::Busy => return Flow::Stop(Next::Retry),
                    Done::Yes(Then::Continue) => {}
                    Done::Yes(then) => self.phase = Phase::after(then, Some(request.frame)),
                }
            }
            Work::Refused(refusal) => {
                binary::refuse(context, refusal, replies);
                self.phase = match refusal.swallow {
                    Some(bytes) => Phase::Swallow(bytes.into()),
                    None => Phase::Finished,
                };
            }
            Work::Store(command, StoreBody::Whole(value)) => {
                command.store(context, planned.key.as_ref(), value, replies);
            }
            Work::Store(command, StoreBody::Malformed) => command.refuse_data(context, replies),
            Work::Store(command, StoreBody::Coming) => {
                self.follow(upload::begin(context, line, command, replies));
            }
            Work::Invalid { reply, then } => {
                replies.put(reply);
                self.phase = match then {
                    // Records were sent before a retrieval turned out to be wrong.
                    _ if self.keys_done > 0 => Phase::Finished,
                    protocol::Then::Continue => Phase::Line,
                    protocol::Then::Swallow { bytes } => Phase::Swallow((*bytes).into()),
                    protocol::Then::Close => Phase::Finished,
                };
                self.is_wrong |= *then == protocol::Then::Close;
            }
        }
        turn.commands_left = turn.commands_left.saturating_sub(1);
        Flow::On
    }

    fn follow(&mut self, then: upload::Then) {
        self.phase = match then {
            upload::Then::More(receiving) => Phase::Value(receiving),
            upload::Then::Swallow(bytes) => Phase::Swallow(bytes),
        };
    }
}
