//! Values in parts: taken off the input as the store takes them, sent as it reads them.

use std::rc::Rc;

use reactor::Next;
use store::{Answer, Error, Took, limits::LARGE_IDLE_MS};
use wire::memcached::{
    body::{Inflow, InflowState},
    limits::KEY_LEN_MAX,
};

use super::{Advance, Flow, Phase, Session, Stuck, Turn};
use crate::memcached::{
    command::StoreCommand,
    durable::{
        answers,
        asking::{Asking, What, read},
        board::{Body, LargeBody, Reply},
        keyed,
        table::{Table, Told},
        transfer::{Outgoing, Sending},
    },
    large::LargeValue,
    record::Replies,
    upload::LINE_KEPT_BYTES_MAX,
};

/// How long a large value waits until fewer arrive before its client is told so: those that bring
/// too little make way after two seconds.
const LARGE_BUSY_MS_MAX: u64 = 3000;

impl Session {
    /// Begins to take a value that will lie in parts, behind `line`.
    pub(super) fn receive_large(
        &mut self,
        turn: &mut Turn<'_>,
        command: StoreCommand<'_>,
        line: &[u8],
    ) -> Advance {
        // A value that is sent has its turn first, and would keep it from being taken for long.
        if !self.is_clear() {
            return Advance::stop(Next::Wait);
        }
        let inflow = command.inflow();
        if line.len() > LINE_KEPT_BYTES_MAX {
            self.lack_memory(turn, (command, line), inflow.left());
            return Advance::on(line.len());
        }
        let mut room = [0; KEY_LEN_MAX];
        let key = command.key();
        let key = key.bytes(&mut room);
        let value_len = command.value_len().into();
        match turn.table.begin_upload(key, value_len, self.board.unsent()) {
            Ok(intake) => {
                let sending = Sending { line: line.into(), inflow, intake };
                self.phase = Phase::Large(Box::new(sending));
            }
            // Some of those that arrive may make way.
            Err(Error::TooMany { .. }) if self.may_wait(turn, LARGE_BUSY_MS_MAX) => {
                return Advance::stop(Next::Retry);
            }
            Err(error) => self.refuse_large(turn, command, error, &inflow),
        }
        self.busy_since_ms = None;
        Advance::on(line.len())
    }

    /// More of a value that lies in parts.
    pub(super) fn large(
        &mut self,
        turn: &mut Turn<'_>,
        mut sending: Box<Sending>,
        input: &[u8],
    ) -> Advance {
        // What others leave untaken is no reason: nothing is added to it.
        let pause = (turn.commands_left == 0).then_some(Next::Yield);
        if let Some(next) = pause.or((!turn.replies.has_room()).then_some(Next::Blocked)) {
            self.phase = Phase::Large(sending);
            return Advance::stop(next);
        }
        let Some(What::Store(command)) = read(&sending.line) else {
            unreachable!("invariant: the line was such a command before")
        };
        let mut ahead = sending.inflow;
        let piece = ahead.take(input);
        let took = match sending.intake.error() {
            Some(error) => Err(error),
            None => turn.table.push(&sending.intake, piece.value),
        };
        match took {
            Err(error) => {
                self.refuse_large(turn, command, error, &ahead);
                Advance::on(piece.consumed)
            }
            Ok(Took::Wait(bytes)) => {
                sending.inflow.take(&input[..bytes]);
                self.phase = Phase::Large(sending);
                Advance { consumed: bytes, ..Advance::stop(Next::Wait) }
            }
            Ok(Took::All | Took::Whole) => {
                sending.inflow = ahead;
                match piece.state {
                    InflowState::Open => {
                        self.phase = Phase::Large(sending);
                        let is_on = piece.consumed > 0;
                        let flow = if is_on { Flow::On } else { Flow::Stop(Next::Read) };
                        Advance { consumed: piece.consumed, needed: None, flow }
                    }
                    InflowState::Malformed => {
                        self.refuse_end(turn, &command);
                        Advance::on(piece.consumed)
                    }
                    InflowState::Complete => {
                        self.finish_large(turn, &sending);
                        Advance::on(piece.consumed)
                    }
                }
            }
        }
    }

    /// All of the value is there: its command is carried out.
    fn finish_large(&mut self, turn: &mut Turn<'_>, sending: &Sending) {
        let Some(What::Store(command)) = read(&sending.line) else {
            unreachable!("invariant: the line was such a command before")
        };
        let deed = keyed::store_uploaded(&turn.table.desk, &command);
        let asking = Asking { what: What::Store(command), line: &sending.line };
        match turn.table.finish_upload(&self.board, &asking, &sending.intake, &deed) {
            Told::Later => {}
            Told::Now(reply) => self.answer(turn, reply),
            // It is not asked again: its parts are gone.
            Told::Busy => {
                let reply = answers::busy(&asking.what);
                self.answer(turn, reply);
            }
        }
        turn.commands_left = turn.commands_left.saturating_sub(1);
    }

    /// Says why a value is not stored, of which more may be to come.
    fn refuse_large(
        &mut self,
        turn: &mut Turn<'_>,
        command: StoreCommand<'_>,
        error: Error,
        rest: &Inflow,
    ) {
        let reply =
            answers::form(&mut turn.table.desk, &What::Store(command), Answer::Failed(error));
        self.answer(turn, reply);
        turn.commands_left = turn.commands_left.saturating_sub(1);
        self.phase = Phase::Swallow(rest.left());
    }

    /// Why the next reply has to wait, if it has a value in parts. Nothing of that is sent before
    /// all that comes before it is in the kernel's hands, nor read unless there is memory to spare:
    /// the parts of one value are all that a connection needs memory for, and its client has the
    /// time from then on to take them.
    pub(super) fn waits_to_read(&mut self, turn: &mut Turn<'_>) -> Option<Next> {
        let large = self.board.next_large()?;
        if !turn.replies.is_idle() && !base::mutant!("server_reads_behind_untaken") {
            self.read_ahead(turn);
            return Some(Next::Behind);
        }
        let may_begin = self.ahead.is_reading() || turn.table.may_begin_reading(&large);
        (!may_begin).then_some(Next::Retry)
    }

    /// Whether the connection is to end: for so long its client has taken nothing of what comes
    /// before a value in parts, which keeps places in the log.
    pub(super) fn has_stuck(&mut self, turn: &Turn<'_>) -> bool {
        let has_moved = |stuck: Stuck| {
            stuck.moved != turn.replies.moved() && !base::mutant!("server_moving_is_stuck")
        };
        if turn.replies.is_idle() || !self.board.has_large() || self.stuck.is_some_and(has_moved) {
            self.stuck = None;
        }
        let now_ms = turn.table.desk.now_ms;
        self.stuck.is_some_and(|stuck| now_ms >= stuck.since_ms + LARGE_IDLE_MS)
    }

    /// Notes whether it is so now, and has it looked at in time.
    pub(super) fn note_stuck(&mut self, table: &mut Table, replies: &Replies, next: Next) {
        if !matches!(next, Next::Blocked | Next::Behind) || !self.board.has_large() {
            self.stuck = None;
            return;
        }
        let now = Stuck { since_ms: table.desk.now_ms, moved: replies.moved() };
        let Stuck { since_ms, .. } = *self.stuck.get_or_insert(now);
        if !base::mutant!("server_stuck_for_ever") {
            table.watch(self.board.unsent(), since_ms + LARGE_IDLE_MS);
        }
    }

    /// Whether the connection is to end: its client takes nothing of values that are in memory of
    /// their own, which another one waits for.
    pub(super) fn keeps_untaken(&self, turn: &Turn<'_>) -> bool {
        let is_idle = self.board.unsent().is_idle(turn.table.desk.now_ms);
        is_idle && turn.table.is_wanted() && !base::mutant!("server_untaken_for_ever")
    }

    /// Sends a reply whose turn has come; of one with a value in parts what comes before that. Says
    /// whether the connection goes on.
    pub(super) fn write(&mut self, turn: &mut Turn<'_>, mut reply: Reply) -> bool {
        let Some(Body::Large(large)) = reply.value.take_if(|it| matches!(it, Body::Large(_)))
        else {
            reply.write(turn.replies, self.board.unsent(), !self.board.is_due());
            return true;
        };
        let large = LargeBody { table: reply.table, large };
        let outgoing = match self.take_ahead(turn) {
            Some(outgoing) => Ok(outgoing),
            None => turn.table.begin_reading(&large, self.board.unsent()),
        };
        match outgoing {
            Ok(mut outgoing) => {
                outgoing.tail = std::mem::take(&mut reply.tail);
                self.outgoing = Some(outgoing);
                reply.write(turn.replies, self.board.unsent(), !self.board.is_due());
                true
            }
            // It was asked before whether it may.
            Err(error) => {
                tracing::warn!(%error, "a client is refused a value");
                false
            }
        }
    }

    /// Whether the connection may end: who takes nothing of what is sent is cut off, but not when
    /// the loop waits for that alone.
    pub(super) fn may_end(&self) -> bool {
        self.untaken.is_empty() || base::mutant!("server_ends_untaken")
    }

    /// How the connection ends, when all is written.
    pub(super) fn end(&self) -> Next {
        if self.may_end() { Next::Finish } else { Next::Wait }
    }

    /// Sends what has come of a value in parts. Says why that is all for now, if so it is.
    pub(super) fn stream(&mut self, turn: &mut Turn<'_>) -> Option<Next> {
        self.tend_ahead();
        // Who takes nothing keeps memory and places in the log.
        self.untaken.retain(|said| Rc::strong_count(said) > 1);
        let outgoing = self.outgoing.as_ref();
        if self.untaken.iter().any(|said| said.has_failed())
            || outgoing.is_some_and(Outgoing::has_failed)
        {
            // Its client has been told of more bytes than there are, or does not take them.
            return Some(Next::Abort);
        }
        let outgoing = outgoing?;
        while outgoing.left.get() > 0 {
            let part = if turn.replies.has_room() { outgoing.next() } else { None };
            let Some(part) = part else {
                let next = if turn.replies.has_room() { Next::Wait } else { Next::Blocked };
                if turn.table.reads_no_more(outgoing) {
                    self.read_ahead(turn);
                }
                return Some(next);
            };
            turn.replies.attach(LargeValue::part(part));
        }
        turn.replies.put(outgoing.tail);
        self.untaken.push(Rc::clone(&outgoing.said));
        self.outgoing = None;
        None
    }
}
