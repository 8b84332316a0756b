//! Requests of the binary protocol.

use cache::INLINE_VALUE_MAX_BYTES;
use reactor::Next;
use wire::memcached::binary::{
    self as protocol, Command, HEADER_BYTES, Refusal, Request, Status, Step,
};

use super::{Advance, Phase, Session, Turn};
use crate::memcached::{
    binary::{Login, is_open_to_strangers, log_in, mechanisms, replies::put_status},
    burst::refusal_of_stranger,
    command::StoreCommand,
    dialect::{Dialect, Standing},
    durable::{
        admin::{self, Order},
        asking::{Asking, What},
        binary,
    },
};

impl Session {
    /// One request, and the value behind it.
    pub(super) fn frame(
        &mut self,
        turn: &mut Turn<'_>,
        standing: Standing,
        input: &[u8],
    ) -> Advance {
        if standing != Standing::Known
            && let Some(refusal) = refusal_of_stranger(input)
        {
            return self.refuse(turn, &refusal, HEADER_BYTES);
        }
        let (request, consumed) = match protocol::parse(input) {
            Step::Request { request, consumed } => (request, consumed),
            Step::Incomplete { needed } => return Advance::need(Some(needed)),
            Step::Refused { mut refusal, consumed } => {
                let is_stranger = standing != Standing::Known
                    && !refusal.before_login
                    && !is_open_to_strangers(refusal.frame.opcode);
                if is_stranger && !base::mutant!("server_strangers_stay") {
                    refusal.status = Status::Unauthenticated;
                    refusal.swallow = None;
                }
                return self.refuse(turn, &refusal, consumed);
            }
            Step::Foreign => {
                self.phase = Phase::Finished;
                self.is_wrong = true;
                return Advance::on(input.len());
            }
        };
        let (line, rest) = input.split_at(consumed);
        if let Some(command) = StoreCommand::of_binary(&request) {
            return self.frame_store(turn, command, line, rest);
        }
        if let Command::Get(_)
        | Command::Touch { .. }
        | Command::Delete { .. }
        | Command::Arithmetic { .. } = request.command
        {
            let deed = binary::deed(&turn.table.desk, &request);
            let asking = Asking { what: What::Binary(request), line };
            return Advance::flow(consumed, self.ask(turn, &asking, deed));
        }
        self.order(turn, &request, standing, line)
    }

    fn frame_store(
        &mut self,
        turn: &mut Turn<'_>,
        command: StoreCommand<'_>,
        line: &[u8],
        rest: &[u8],
    ) -> Advance {
        let len = command.value_len() as usize;
        let table = turn.table.member_of(&command);
        let value_bytes_max = table.value_bytes_max();
        if table.takes_in_parts(&command) {
            return self.receive_large(turn, command, line);
        }
        if len > value_bytes_max {
            let rest = len as u64;
            let flow = self.refuse_value(turn, (command, line), rest);
            return Advance::flow(line.len(), flow);
        }
        let Some(value) = rest.get(..len) else {
            return if len <= INLINE_VALUE_MAX_BYTES {
                Advance::need(Some(line.len() + len))
            } else {
                self.receive(turn, command, line)
            };
        };
        let flow = self.store(turn, command, line, value);
        Advance::flow(line.len() + len, flow)
    }

    /// A request that is about no key.
    fn order(
        &mut self,
        turn: &mut Turn<'_>,
        request: &Request<'_>,
        mut standing: Standing,
        line: &[u8],
    ) -> Advance {
        let desk = &turn.table.desk;
        let frame = request.frame;
        let mut reply = Vec::new();
        match request.command {
            Command::Stat { .. } | Command::Flush { .. } if !self.is_clear() => {
                return Advance::stop(Next::Wait);
            }
            Command::Flush { at } => {
                let asking = Asking { what: What::Binary(*request), line };
                return Advance::flow(line.len(), self.flush(turn, &asking, at));
            }
            Command::Quit => {
                put_status(frame, Status::Ok, request.quiet, &mut reply);
                self.answer(turn, reply.into());
                self.phase = Phase::Finished;
            }
            Command::Mechanisms => {
                mechanisms(&desk.access, &mut standing, frame, &mut reply);
                self.dialect = Dialect::Binary(standing);
                self.answer(turn, reply.into());
            }
            Command::Login { mechanism, message, begins } => {
                let login = Login { mechanism, message, begins };
                let who = (&desk.access, &*desk.counters);
                log_in(who, &mut standing, &login, frame, &mut reply);
                self.dialect = Dialect::Binary(standing);
                self.answer(turn, reply.into());
            }
            _ => match admin::frame(desk, request) {
                Order::Reply(reply) => self.answer(turn, reply.into()),
                Order::List(list) => self.phase = Phase::List(list, Some(frame)),
                Order::Finish => self.phase = Phase::Finished,
            },
        }
        turn.commands_left -= 1;
        Advance::on(line.len())
    }

    /// Answers a request that cannot be.
    fn refuse(&mut self, turn: &mut Turn<'_>, refusal: &Refusal, consumed: usize) -> Advance {
        let has_users = turn.table.desk.access.users.is_some();
        // Without users there are no commands to log in by, however malformed.
        let is_login = is_open_to_strangers(refusal.frame.opcode) && !has_users;
        let unknown = is_login && refusal.swallow.is_some();
        let status = if unknown { Status::UnknownCommand } else { refusal.status };
        let mut reply = Vec::new();
        put_status(refusal.frame, status, false, &mut reply);
        self.answer(turn, reply.into());
        self.phase = match refusal.swallow {
            Some(bytes) => Phase::Swallow(bytes.into()),
            None => Phase::Finished,
        };
        turn.commands_left -= 1;
        Advance::on(consumed)
    }
}
