//! The state of one connection, and its turns.

mod ahead;
mod frames;
mod large;
mod lines;
mod values;

use std::rc::Rc;

use base::sync::atomic::Ordering;
use reactor::{CloseReason, ConnId, Input, Next};
use wire::memcached::{Expiry, binary::Frame};

use self::ahead::Ahead;
use super::{
    answers,
    asking::Asking,
    board::{Board, Reply},
    deed::Deed,
    retrieval::{Looked, look},
    table::{Table, Told},
    transfer::{Outgoing, Said, Sending},
    upload::Receiving,
};
use crate::{
    config::Protocol,
    memcached::{
        binary::put_part, dialect::Dialect, record::Replies, reports::List, retrieval::Retrieval,
    },
    stats::OpenConnection,
    thread::OUT_OF_MEMORY_REQUEST,
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
    /// The value that is being sent, in parts. What comes behind it waits.
    outgoing: Option<Outgoing>,
    /// The next one, if it lies in parts.
    ahead: Ahead,
    /// Those before it whose parts are in the output.
    untaken: Vec<Rc<Said>>,
    /// Since when a value in parts waits behind what its client does not take.
    stuck: Option<Stuck>,
    /// The last reply is written: nothing comes behind it.
    is_over: bool,
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
    /// A piece of a value that will lie in parts.
    Large(Box<Sending>),
    /// So many bytes that nobody wants.
    Swallow(u64),
    /// A report has to be written first; in the binary protocol the answer to what it names.
    List(List, Option<Frame>),
    /// A flush has to be done first.
    Flush,
    /// Nothing that matters.
    Finished,
}

/// What a value in parts waits behind.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    since_ms: u64,
    /// What had gone out by then.
    moved: u64,
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
        let is_taken = flow == Flow::On || base::mutant!("server_busy_is_taken");
        let consumed = if is_taken { consumed } else { 0 };
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
            outgoing: None,
            ahead: Ahead::default(),
            untaken: Vec::new(),
            stuck: None,
            is_over: false,
            is_wrong: false,
        }
    }

    /// Whether its client reads frames, which lines are not.
    pub(crate) fn speaks_binary(&self) -> bool {
        matches!(self.dialect, Dialect::Binary(_))
    }

    /// What to send to a client whose request cannot be taken for lack of memory, before the
    /// connection is closed: nothing, if it would be taken for the answer to another request.
    pub(crate) fn last_words(&self) -> &'static [u8] {
        let is_silent = self.speaks_binary() || !self.is_clear();
        if is_silent { &[] } else { OUT_OF_MEMORY_REQUEST }
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
        self.note_stuck(table, replies, next);
        let desk = &table.desk;
        let read = read_before - input.bytes().len();
        let seen = self.connection.connection();
        if read > 0 {
            seen.last_command_ms.store(desk.now_ms, Ordering::Relaxed);
        }
        awaits_value |= matches!(self.phase, Phase::Value(_) | Phase::Large(_));
        seen.awaits_value.store(awaits_value, Ordering::Relaxed);
        desk.counters.bytes_read.add(read as u64);
        desk.counters.bytes_written.add((replies.len() - written_before) as u64);
        desk.counters.conn_yields.add(u64::from(next == Next::Yield));
        // What is under way is answered, although its client asks for nothing more.
        let waits = next == Next::Read && input.ended() && !(self.is_clear() && self.may_end());
        if waits { Next::Wait } else { next }
    }

    /// Whether a reply may be written at once.
    fn is_clear(&self) -> bool {
        self.board.is_empty() && self.outgoing.is_none()
    }

    /// Sends what is there, in order. Says why that is all for now, if so it is.
    fn send_due(&mut self, turn: &mut Turn<'_>) -> Option<Next> {
        if self.has_stuck(turn) || self.keeps_untaken(turn) {
            return Some(Next::Abort);
        }
        if let Some(next) = self.stream(turn) {
            return Some(next);
        }
        if self.is_over {
            return Some(self.end());
        }
        while self.board.is_due() {
            if !turn.replies.has_room() {
                return Some(Next::Blocked);
            }
            if let Some(next) = self.waits_to_read(turn) {
                return Some(next);
            }
            let reply = self.board.send_next()?;
            self.is_over = reply.is_last;
            if !self.write(turn, reply) {
                return Some(Next::Abort);
            }
            if let Some(next) = self.stream(turn) {
                return Some(next);
            }
            if self.is_over {
                return Some(self.end());
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
            Phase::Large(sending) => self.large(turn, sending, input),
            Phase::Swallow(bytes) if bytes > input.len() as u64 => {
                self.phase = Phase::Swallow(bytes - input.len() as u64);
                Advance { consumed: input.len(), ..Advance::stop(Next::Read) }
            }
            Phase::Swallow(bytes) => {
                Advance::on(usize::try_from(bytes).expect("invariant: at most the input"))
            }
            Phase::List(list, frame) => self.list(turn, list, frame),
            Phase::Flush if self.is_clear() => Advance::on(0),
            Phase::Flush => {
                self.phase = Phase::Flush;
                Advance::stop(Next::Wait)
            }
            Phase::Finished => {
                self.phase = Phase::Finished;
                let next = if self.is_clear() { self.end() } else { Next::Wait };
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
        } else if !self.board.has_room() && !base::mutant!("server_pause_forgotten") {
            Some(Next::Wait)
        } else if turn.table.is_laden()
            && (!self.is_clear() || self.board.unsent().waits_for_client())
        {
            // One at a time.
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
        let pause = if self.is_clear() { self.pause(turn) } else { Some(Next::Wait) };
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
                let replies = self.is_clear().then_some(&mut *turn.replies);
                match look(turn.table, &self.board, asking, replies) {
                    Looked::Written => None,
                    Looked::Told(told) => Some(told),
                }
                .unwrap_or(Told::Later)
            }
        };
        self.take_told(turn, asking, told)
    }

    /// Has all records be dead, now or at a time. What comes behind a flush waits for it: it would
    /// still be shown what was there.
    fn flush(&mut self, turn: &mut Turn<'_>, asking: &Asking<'_>, at: Expiry) -> Flow {
        let told = turn.table.flush_all(&self.board, asking, at);
        if matches!(told, Told::Later) && !base::mutant!("server_flush_overtaken") {
            self.phase = Phase::Flush;
        }
        self.take_told(turn, asking, told)
    }

    fn take_told(&mut self, turn: &mut Turn<'_>, asking: &Asking<'_>, told: Told) -> Flow {
        match told {
            Told::Later => {}
            Told::Now(reply) => self.answer(turn, reply),
            // Its own client may be who takes too little.
            Told::Busy if self.is_clear() && self.board.unsent().waits_for_client() => {
                self.busy_since_ms = None;
                return Flow::Stop(Next::Wait);
            }
            Told::Busy => {
                if self.may_wait(turn, BUSY_MS_MAX) {
                    let is_alone = self.is_clear();
                    return Flow::Stop(if is_alone { Next::Retry } else { Next::Wait });
                }
                let reply = answers::busy(&asking.what);
                self.answer(turn, reply);
            }
        }
        self.busy_since_ms = None;
        turn.commands_left = turn.commands_left.saturating_sub(1);
        Flow::On
    }

    /// Whether the request at the start of the input may go on waiting until less is under way.
    fn may_wait(&mut self, turn: &Turn<'_>, ms_max: u64) -> bool {
        let now_ms = turn.table.desk.now_ms;
        now_ms < *self.busy_since_ms.get_or_insert(now_ms) + ms_max
    }

    /// Sends a reply in its turn. One with a value in parts may have to wait for that.
    fn answer(&mut self, turn: &mut Turn<'_>, reply: Reply) {
        let has_turn = self.is_clear() || base::mutant!("server_answer_overtakes");
        if !has_turn || reply.large().is_some() {
            return self.board.fill(self.board.take(), reply);
        }
        if reply.is_last {
            self.phase = Phase::Finished;
        }
        self.write(turn, reply);
    }
}
