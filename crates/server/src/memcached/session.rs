//! The state of one connection, and its turns.

use base::sync::atomic::Ordering;
use reactor::{Burst, Input, Next};
use wire::memcached::{self as protocol, Get, KeysStep, Request, lines, parse_keys};

use super::{
    admin::Then,
    burst::{End, Planned, StoreBody, Work, plan, prefetch},
    command::StoreCommand,
    context::Context,
    execute::{Done, execute},
    large::LargeValue,
    record::Replies,
    retrieval::{Progress, Retrieval, send, send_all},
    storage::Body,
    upload::{self, Receiving},
};
use crate::stats::OpenConnection;

/// Most commands, and most keys of retrievals, that a connection gets done before it is the turn of
/// others: 512 at 100 to 300 ns are about 0.1 ms.
pub const TURN_COMMANDS_MAX: usize = 512;

/// Bytes of a report that are written at a time, at most [`reactor::OUTPUT_UNIT_BYTES_MAX`].
const REPORT_PART_BYTES: usize = 16 << 10;

const _: () = assert!(REPORT_PART_BYTES <= reactor::OUTPUT_UNIT_BYTES_MAX);

/// One connection.
#[derive(Debug)]
pub struct Session {
    connection: OpenConnection,
    phase: Phase,
    /// Bytes of the keys that the retrieval at the start of the input is already past.
    keys_done: usize,
}

/// What the next bytes of the input are, or what has to be done first.
#[derive(Debug)]
enum Phase {
    /// A line.
    Line,
    /// More keys of a retrieval line that is longer than the input.
    Keys(Retrieval),
    /// A piece of a value.
    Value(Box<Receiving>),
    /// So many bytes that nobody wants.
    Swallow(u64),
    /// A report has to be sent first.
    Report { report: Vec<u8>, sent: usize },
    /// Nothing that matters.
    Finished,
}

/// Whether a turn goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Stop(Next),
}

/// Serves all connections of a turn.
pub fn serve_all(context: &mut Context, burst: &mut Burst<Session, LargeValue>) {
    context.worker.quiesce();
    for connection in burst {
        connection.next =
            connection.session.serve(context, &mut connection.input, &mut connection.output);
    }
}

impl Session {
    /// A connection that has not said anything yet.
    #[must_use]
    pub fn new(connection: OpenConnection) -> Self {
        Self { connection, phase: Phase::Line, keys_done: 0 }
    }

    /// Executes what `input` holds and appends the replies, within the bounds of a turn. The
    /// worker of `context` must have announced its quiescence since it last waited.
    pub fn serve(
        &mut self,
        context: &mut Context,
        input: &mut Input,
        replies: &mut Replies,
    ) -> Next {
        let read_before = input.bytes().len();
        let written_before = replies.len();
        let mut commands_left = TURN_COMMANDS_MAX;
        let next = loop {
            let (consumed, needed, flow) =
                self.step(context, input.bytes(), &mut commands_left, replies);
            input.consume(consumed);
            if let Some(needed) = needed {
                input.need(needed);
            }
            match flow {
                Flow::On => context.worker.quiesce(),
                Flow::Stop(next) => break next,
            }
        };
        let read = read_before - input.bytes().len();
        if read > 0 {
            let heard = &self.connection.connection().last_command_ms;
            heard.store(context.worker.now_ms(), Ordering::Relaxed);
        }
        let counters = &context.counters;
        counters.bytes_read.add(read as u64);
        counters.bytes_written.add((replies.len() - written_before) as u64);
        counters.conn_yields.add(u64::from(next == Next::Yield));
        next
    }

    /// One phase. Returns bytes consumed, bytes needed to go on if known, and whether to go on.
    fn step(
        &mut self,
        context: &mut Context,
        input: &[u8],
        commands_left: &mut usize,
        replies: &mut Replies,
    ) -> (usize, Option<usize>, Flow) {
        match std::mem::replace(&mut self.phase, Phase::Line) {
            Phase::Line => self.lines(context, input, commands_left, replies),
            Phase::Keys(retrieval) => {
                let (consumed, flow) = self.keys(context, retrieval, input, commands_left, replies);
                (consumed, None, flow)
            }
            Phase::Value(receiving) if input.is_empty() => {
                self.phase = Phase::Value(receiving);
                (0, None, Flow::Stop(Next::Read))
            }
            Phase::Value(receiving) => {
                let (consumed, then) = upload::receive(context, receiving, input, replies);
                self.follow(then);
                (consumed, None, Flow::On)
            }
            Phase::Swallow(bytes) => {
                let dropped = bytes.min(input.len() as u64);
                let left = bytes - dropped;
                let flow = if left == 0 { Flow::On } else { Flow::Stop(Next::Read) };
                if left > 0 {
                    self.phase = Phase::Swallow(left);
                }
                (usize::try_from(dropped).expect("invariant: at most input"), None, flow)
            }
            Phase::Report { report, sent } => (0, None, self.report(report, sent, replies)),
            Phase::Finished => {
                self.phase = Phase::Finished;
                (input.len(), None, Flow::Stop(Next::Finish))
            }
        }
    }

    /// A burst of lines.
    fn lines(
        &mut self,
        context: &mut Context,
        input: &[u8],
        commands_left: &mut usize,
        replies: &mut Replies,
    ) -> (usize, Option<usize>, Flow) {
        let burst = plan(input, &context.limits, &context.worker, *commands_left);
        prefetch(&burst, &context.worker);
        let mut consumed = 0;
        for planned in &burst.planned {
            if !replies.has_room() {
                return (consumed, None, Flow::Stop(Next::Blocked));
            }
            let line = &input[consumed..consumed + planned.consumed];
            let flow = self.perform(context, planned, line, commands_left, replies);
            match flow {
                Flow::On => consumed += planned.consumed,
                Flow::Stop(_) => return (consumed, None, flow),
            }
        }
        match burst.end {
            End::Incomplete { needed } => {
                let needed = needed.map(|needed| needed - consumed);
                (consumed, needed, Flow::Stop(Next::Read))
            }
            End::Pause if *commands_left == 0 => (consumed, None, Flow::Stop(Next::Yield)),
            End::Pause => (consumed, None, Flow::On),
        }
    }

    /// Does what one line asks for, or stops before it.
    fn perform(
        &mut self,
        context: &mut Context,
        planned: &Planned<'_>,
        line: &[u8],
        commands_left: &mut usize,
        replies: &mut Replies,
    ) -> Flow {
        match &planned.work {
            Work::Request(Request::Get(get)) => {
                return self.get(context, get, planned, commands_left, replies);
            }
            Work::Request(request) => match execute(context, request, planned.key, replies) {
                Done::Busy => return Flow::Stop(Next::Retry),
                Done::Yes(Then::Continue) => {}
                Done::Yes(Then::Report(report)) => self.phase = Phase::Report { report, sent: 0 },
                Done::Yes(Then::Finish) => self.phase = Phase::Finished,
            },
            Work::Store(command, body) => {
                self.store(context, command, *body, planned, line, replies)
            }
            Work::Invalid { reply, then } => {
                replies.put(reply);
                match then {
                    protocol::Then::Continue => {}
                    protocol::Then::Swallow { bytes } => {
                        self.phase = Phase::Swallow((*bytes).into())
                    }
                    protocol::Then::Close => self.phase = Phase::Finished,
                }
            }
        }
        *commands_left = commands_left.saturating_sub(1);
        Flow::On
    }

    fn store(
        &mut self,
        context: &mut Context,
        command: &StoreCommand<'_>,
        body: StoreBody<'_>,
        planned: &Planned<'_>,
        line: &[u8],
        replies: &mut Replies,
    ) {
        match body {
            StoreBody::Whole(value) => {
                command.store(context, planned.key, Body::Bytes(value), replies);
            }
            StoreBody::Malformed => command.refuse_data(replies),
            StoreBody::Coming => {
                let then = upload::begin(context, line, command, replies);
                self.follow(then);
            }
        }
    }

    fn follow(&mut self, then: upload::Then) {
        self.phase = match then {
            upload::Then::More(receiving) => Phase::Value(receiving),
            upload::Then::Swallow(bytes) => Phase::Swallow(bytes),
        };
    }

    fn get(
        &mut self,
        context: &mut Context,
        get: &Get<'_>,
        planned: &Planned<'_>,
        commands_left: &mut usize,
        replies: &mut Replies,
    ) -> Flow {
        let retrieval = Retrieval {
            with_token: get.with_token,
            touch_ms: get.touch.map(|expiry| context.deadline_ms(expiry)),
        };
        if let Some(key) = planned.key {
            if !send(context, retrieval, key, replies) {
                return Flow::Stop(Next::Retry);
            }
            *commands_left = commands_left.saturating_sub(1);
        } else {
            let done = &mut self.keys_done;
            let progress = send_all(context, retrieval, get.keys, done, commands_left, replies);
            if let Some(next) = stops(progress) {
                return Flow::Stop(next);
            }
            self.keys_done = 0;
        }
        if get.complete {
            replies.put(lines::END);
        } else {
            self.phase = Phase::Keys(retrieval);
        }
        Flow::On
    }

    /// More keys of a long line.
    fn keys(
        &mut self,
        context: &mut Context,
        retrieval: Retrieval,
        input: &[u8],
        commands_left: &mut usize,
        replies: &mut Replies,
    ) -> (usize, Flow) {
        let (keys, consumed, complete) = match parse_keys(input, &context.limits) {
            KeysStep::Part { keys, consumed, complete } => (keys, consumed, complete),
            KeysStep::Incomplete => {
                self.phase = Phase::Keys(retrieval);
                return (0, Flow::Stop(Next::Read));
            }
            KeysStep::TooLong => {
                replies.put(lines::BAD_FORMAT);
                self.phase = Phase::Finished;
                return (0, Flow::On);
            }
        };
        let done = &mut self.keys_done;
        let progress = send_all(context, retrieval, keys, done, commands_left, replies);
        if let Some(next) = stops(progress) {
            self.phase = Phase::Keys(retrieval);
            return (0, Flow::Stop(next));
        }
        self.keys_done = 0;
        if complete {
            replies.put(lines::END);
        } else {
            self.phase = Phase::Keys(retrieval);
        }
        (consumed, Flow::On)
    }

    fn report(&mut self, report: Vec<u8>, mut sent: usize, replies: &mut Replies) -> Flow {
        while sent < report.len() {
            if !replies.has_room() {
                self.phase = Phase::Report { report, sent };
                return Flow::Stop(Next::Blocked);
            }
            let part = &report[sent..report.len().min(sent + REPORT_PART_BYTES)];
            replies.put(part);
            sent += part.len();
        }
        Flow::On
    }
}

/// What a turn ends with when a retrieval does not come to its end.
fn stops(progress: Progress) -> Option<Next> {
    match progress {
        Progress::Complete => None,
        Progress::NoRoom => Some(Next::Blocked),
        Progress::TurnOver => Some(Next::Yield),
        Progress::Busy => Some(Next::Retry),
    }
}
