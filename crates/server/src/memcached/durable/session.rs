//! The state of one connection, and its turns.

mod frames;
mod lines;

use std::rc::Rc;

use base::sync::atomic::Ordering;
use reactor::{CloseReason, ConnId, Input, Next};
use wire::memcached::{binary::Frame, limits::KEY_LEN_MAX, lines::BAD_DATA_CHUNK};

use super::{
    answers,
    asking::{Asking, Reason, What, read},
    board::{Board, Reply},
    deed::Deed,
    keyed,
    retrieval::{Looked, look},
    table::{Table, Told},
    upload::{Progress, Receiving},
};
use crate::{
    config::Protocol,
    memcached::{
        binary::put_part, command::StoreCommand, dialect::Dialect, record::Replies, reports::List,
        retrieval::Retrieval,
    },
    stats::OpenConnection,
};

/// How long a request waits until less waits for the disk before its client is told so.
const BUSY_MS_MAX: u64 = 1000;

/// One connection to a durable table.
#[derive(Debug)]
pub(crate) struct Session {
    connection: OpenConnection,
    /// What may be spoken, if that is not up to the server.
    protocol: Option<Protocol>,
    dialect: Dialect,
    phase: Phase,
    board: Rc<Board>,
    /// Bytes of the keys that the retrieval at the start of the input is already past.
    keys_done: usize,
    /// Since when the request at the start of the input waits because too much does.
    busy_since_ms: Option<u64>,
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
    /// A piece of a value, or a value that waits to be stored.
    Value(Box<Receiving>),
    /// So many bytes that nobody wants.
    Swallow(u64),
    /// A report has to be written first; in the binary protocol the answer to what it names.
    List(List, Option<Frame>),
    /// Nothing that matters.
    Finished,
}

/// What one turn of a connection works with.
struct Turn<'t> {
    table: &'t mut Table,
    replies: &'t mut Replies,
    /// Commands, and keys of retrievals, that it may still do.
    commands_left: usize,
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

    fn stop(next: Next) -> Self {
        Self { consumed: 0, needed: None, flow: Flow::Stop(next) }
    }

    fn flow(consumed: usize, flow: Flow) -> Self {
        let consumed = if flow == Flow::On { consumed } else { 0 };
        Self { consumed, needed: None, flow }
    }

    fn need(needed: Option<usize>) -> Self {
        Self { needed, ..Self::stop(Next::Read) }
    }
}

impl Session {
    /// A connection that has not said anything yet, of a client that speaks `protocol`, if that is
    /// not up to the server.
    #[must_use]
    pub(crate) fn new(
        connection: OpenConnection,
        protocol: Option<Protocol>,
        table: &Table,
    ) -> Self {
        Self {
            connection,
            protocol,
            dialect: Dialect::Undecided,
            phase: Phase::Line,
            board: table.board(),
            keys_done: 0,
            busy_since_ms: None,
            is_wrong: false,
        }
    }

    /// Whether its client reads frames, which lines are not.
    pub(crate) fn speaks_binary(&self) -> bool {
        matches!(self.dialect, Dialect::Binary(_))
    }

    /// Tells those who watch that its connection has ended, and why.
    pub(crate) fn log_end(&self, reason: &CloseReason) {
        let reason = match reason {
            CloseReason::Finished if self.is_wrong => "error",
            CloseReason::Finished => "normal",
            CloseReason::Idle => "idle_timeout",
            CloseReason::Stopped => "shutdown",
            _ => "error",
        };
        self.connection.log_end(reason);
    }

    /// Sends the replies that are there, and has what `input` holds carried out, within the bounds
    /// of a turn. `table` has begun since it last waited.
    pub(crate) fn serve(
        &mut self,
        table: &mut Table,
        id: ConnId,
        input: &mut Input,
        replies: &mut Replies,
    ) -> Next {
        self.board.settle(id);
        let (written_before, read_before) = (replies.len(), input.bytes().len());
        let commands_left = table.desk.turn_commands_max;
        let mut turn = Turn { table, replies, commands_left };
        let mut awaits_value;
        let next = loop {
            if let Some(next) = self.send_due(&mut turn) {
                awaits_value = false;
                break next;
            }
            let advance = self.advance(&mut turn, input.bytes());
            input.consume(advance.consumed);
            awaits_value = advance.needed.is_some();
            if let Some(needed) = advance.needed {
                input.need(needed);
            }
            match advance.flow {
                Flow::On => turn.table.quiesce(),
                Flow::Stop(next) => break next,
            }
        };
        let desk = &table.desk;
        let read = read_before - input.bytes().len();
        let seen = self.connection.connection();
        if read > 0 {
            seen.last_command_ms.store(desk.now_ms, Ordering::Relaxed);
        }
        awaits_value |= matches!(self.phase, Phase::Value(_));
        seen.awaits_value.store(awaits_value, Ordering::Relaxed);
        desk.counters.bytes_read.add(read as u64);
        desk.counters.bytes_written.add((replies.len() - written_before) as u64);
        desk.counters.conn_yields.add(u64::from(next == Next::Yield));
        // What is under way is answered, although its client asks for nothing more.
        let waits = next == Next::Read && input.ended() && !self.board.is_empty();
        if waits { Next::Wait } else { next }
    }

    /// Sends what is there, in order. Says why that is all for now, if so it is.
    fn send_due(&mut self, turn: &mut Turn<'_>) -> Option<Next> {
        while self.board.is_due() {
            if !turn.replies.has_room() {
                return Some(Next::Blocked);
            }
            let reply = self.board.send_next()?;
            let is_last = reply.is_last;
            reply.write(turn.replies);
            if is_last {
                return Some(Next::Finish);
            }
        }
        None
    }

    /// One phase.
    fn advance(&mut self, turn: &mut Turn<'_>, input: &[u8]) -> Advance {
        match std::mem::replace(&mut self.phase, Phase::Line) {
            Phase::Line if input.is_empty() => Advance::stop(Next::Read),
            Phase::Line => match self.pause(turn) {
                Some(next) => Advance::stop(next),
                None => self.request(turn, input),
            },
            Phase::Keys(retrieval) => self.more_keys(turn, retrieval, input),
            Phase::Value(receiving) => self.value(turn, receiving, input),
            Phase::Swallow(bytes) if bytes > input.len() as u64 => {
                self.phase = Phase::Swallow(bytes - input.len() as u64);
                Advance { consumed: input.len(), ..Advance::stop(Next::Read) }
            }
            Phase::Swallow(bytes) => {
                Advance::on(usize::try_from(bytes).expect("invariant: at most the input"))
            }
            Phase::List(list, frame) => self.list(turn, list, frame),
            Phase::Finished => {
                self.phase = Phase::Finished;
                let next = if self.board.is_empty() { Next::Finish } else { Next::Wait };
                Advance { consumed: input.len(), ..Advance::stop(next) }
            }
        }
    }

    /// Why nothing more can be done now, if so it is.
    fn pause(&self, turn: &Turn<'_>) -> Option<Next> {
        if turn.commands_left == 0 {
            Some(Next::Yield)
        } else if !turn.replies.has_room() {
            Some(Next::Blocked)
        } else if !self.board.has_room() || turn.table.is_laden() && !self.board.is_empty() {
            Some(Next::Wait)
        } else {
            None
        }
    }

    fn request(&mut self, turn: &mut Turn<'_>, input: &[u8]) -> Advance {
        if self.dialect == Dialect::Undecided {
            self.dialect = Dialect::of(&turn.table.desk.access, self.protocol, input);
        }
        match self.dialect {
            Dialect::TextLogin => self.text_login(turn, input),
            Dialect::Binary(standing) => self.frame(turn, standing, input),
            Dialect::Undecided | Dialect::Text => self.line(turn, input),
        }
    }

    /// More of a report.
    fn list(&mut self, turn: &mut Turn<'_>, mut list: List, frame: Option<Frame>) -> Advance {
        let pause = if self.board.is_empty() { self.pause(turn) } else { Some(Next::Wait) };
        if let Some(next) = pause {
            self.phase = Phase::List(list, frame);
            return Advance::stop(next);
        }
        turn.commands_left -= 1;
        let (part, is_last) = list.part(&turn.table.desk.server);
        match frame {
            None => turn.replies.put(&part),
            Some(frame) => put_part(frame, &part, is_last, turn.replies),
        }
        if !is_last {
            self.phase = Phase::List(list, frame);
        }
        Advance::on(0)
    }

    /// Has what was asked of one key carried out, or looked up.
    fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        asking: &Asking<'_>,
        deed: Option<(&[u8], Deed<'_>)>,
    ) -> Flow {
        let told = match deed {
            Some((key, deed)) => turn.table.execute(&self.board, asking, key, &deed),
            None => {
                let replies = self.board.is_empty().then_some(&mut *turn.replies);
                match look(turn.table, &self.board, asking, replies) {
                    Looked::Written => None,
                    Looked::Told(told) => Some(told),
                }
                .unwrap_or(Told::Later)
            }
        };
        match told {
            Told::Later => {}
            Told::Now(reply) => self.answer(turn, reply),
            Told::Busy => {
                let now_ms = turn.table.desk.now_ms;
                let since_ms = *self.busy_since_ms.get_or_insert(now_ms);
                if now_ms < since_ms + BUSY_MS_MAX {
                    let is_alone = self.board.is_empty();
                    return Flow::Stop(if is_alone { Next::Retry } else { Next::Wait });
                }
                let reply = answers::busy(&turn.table.desk, &asking.what);
                self.answer(turn, reply);
            }
        }
        self.busy_since_ms = None;
        turn.commands_left = turn.commands_left.saturating_sub(1);
        Flow::On
    }

    /// Has a value be stored, all of which is there.
    fn store(
        &mut self,
        turn: &mut Turn<'_>,
        command: StoreCommand<'_>,
        line: &[u8],
        value: &[u8],
    ) -> Flow {
        let mut room = [0; KEY_LEN_MAX];
        let key = command.key();
        let key = key.bytes(&mut room);
        let deed = keyed::store(&turn.table.desk, &command, value);
        self.ask(turn, &Asking { what: What::Store(command), line }, Some((key, deed)))
    }

    /// Refuses a value, of which `rest` bytes are still to come.
    fn refuse_value(
        &mut self,
        turn: &mut Turn<'_>,
        (command, line): (StoreCommand<'_>, &[u8]),
        reason: Reason,
        rest: u64,
    ) -> Flow {
        let flow = match keyed::refused(&turn.table.desk, &command) {
            None => {
                let reply = answers::refuse(&turn.table.desk, &command, reason);
                self.answer(turn, reply);
                Flow::On
            }
            Some(deed) => {
                let mut room = [0; KEY_LEN_MAX];
                let key = command.key();
                let key = key.bytes(&mut room);
                let asking = Asking { what: What::Refused(command, reason), line };
                self.ask(turn, &asking, Some((key, deed)))
            }
        };
        if flow == Flow::On {
            self.phase = Phase::Swallow(rest);
        }
        flow
    }

    /// Says that a value was not followed by a line end. It was a store all the same.
    fn refuse_end(&mut self, turn: &mut Turn<'_>, command: &StoreCommand<'_>) {
        let desk = &turn.table.desk;
        desk.counters.cmd_set.add(1);
        command.count_prefix(&desk.server);
        let is_silent = matches!(command, StoreCommand::Text(it) if it.noreply);
        let reply = if is_silent { &[] } else { BAD_DATA_CHUNK };
        self.answer(turn, reply.into());
    }

    /// Begins to take a value of which not all is there, behind `line`.
    fn receive(&mut self, turn: &Turn<'_>, command: &StoreCommand<'_>, line: &[u8]) -> Advance {
        let receiving = Receiving::new(line, command.inflow(), turn.table.upload());
        self.phase = Phase::Value(Box::new(receiving));
        Advance::on(line.len())
    }

    /// More of a value, or another try to store it.
    fn value(
        &mut self,
        turn: &mut Turn<'_>,
        mut receiving: Box<Receiving>,
        input: &[u8],
    ) -> Advance {
        // Whatever comes of it is answered.
        if let Some(next) = self.pause(turn) {
            self.phase = Phase::Value(receiving);
            return Advance::stop(next);
        }
        let (consumed, progress) = receiving.take(input);
        let asking = read(&receiving.line);
        let Some(What::Store(command)) = asking else {
            unreachable!("invariant: the line was such a command before")
        };
        let flow = match progress {
            Progress::Open => {
                let flow = if consumed > 0 { Flow::On } else { Flow::Stop(Next::Read) };
                self.phase = Phase::Value(receiving);
                return Advance { consumed, needed: None, flow };
            }
            Progress::Malformed => {
                self.refuse_end(turn, &command);
                Flow::On
            }
            Progress::NoRoom(rest) => {
                let what = (command, &*receiving.line);
                return match self.refuse_value(turn, what, Reason::NoMemory, rest) {
                    Flow::On => Advance::on(consumed),
                    // It does not matter to its client any more what its key had.
                    Flow::Stop(_) => {
                        let reply = answers::refuse(&turn.table.desk, &command, Reason::NoMemory);
                        self.answer(turn, reply);
                        self.phase = Phase::Swallow(rest);
                        Advance::on(consumed)
                    }
                };
            }
            Progress::Complete => self.store(turn, command, &receiving.line, receiving.value()),
        };
        if flow != Flow::On {
            self.phase = Phase::Value(receiving);
        }
        Advance { consumed, needed: None, flow }
    }

    /// Sends a reply in its turn. There is a slot, should it have to wait.
    fn answer(&mut self, turn: &mut Turn<'_>, reply: Reply) {
        if !self.board.is_empty() {
            return self.board.fill(self.board.take(), reply);
        }
        if reply.is_last {
            self.phase = Phase::Finished;
        }
        reply.write(turn.replies);
    }
}
