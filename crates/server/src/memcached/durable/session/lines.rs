//! Text and meta requests.

use cache::INLINE_VALUE_MAX_BYTES;
use reactor::Next;
use wire::memcached::{
    Get, Keys, KeysStep, LoginStep, Request, Step, Then,
    body::{self, Body, TERMINATOR_LEN},
    lines, parse, parse_keys, parse_login, plain_get,
};

use super::{Advance, Flow, Phase, Session, Turn};
use crate::memcached::{
    command::StoreCommand,
    dialect::Dialect,
    durable::{
        admin::{self, Order},
        asking::{Asking, Style, What},
        deed::{Deed, Kind},
        keyed,
    },
    retrieval::Retrieval,
    upload::LINE_KEPT_BYTES_MAX,
};

impl Session {
    /// One line, and the value behind it.
    pub(super) fn line(&mut self, turn: &mut Turn<'_>, input: &[u8]) -> Advance {
        if let Some((key, consumed)) = plain_get(input) {
            let style = Style { with_token: false, touches: false, is_only: true };
            let asking = Asking { what: What::Value(key, style), line: &[] };
            return Advance::flow(consumed, self.ask(turn, &asking, None));
        }
        match parse(input, &turn.table.desk.limits) {
            Step::Incomplete => Advance::need(None),
            Step::Invalid { reply, consumed, then } => {
                self.answer(turn, reply.into());
                self.phase = match then {
                    // Records were sent before a retrieval turned out to be wrong.
                    _ if self.keys_done > 0 => Phase::Finished,
                    Then::Continue => Phase::Line,
                    Then::Swallow { bytes } => Phase::Swallow(bytes.into()),
                    Then::Close => Phase::Finished,
                };
                self.is_wrong |= then == Then::Close;
                turn.commands_left -= 1;
                Advance::on(consumed)
            }
            Step::Request { request, consumed } => {
                self.text_request(turn, input, &request, consumed)
            }
        }
    }

    fn text_request(
        &mut self,
        turn: &mut Turn<'_>,
        input: &[u8],
        request: &Request<'_>,
        consumed: usize,
    ) -> Advance {
        if let Request::Get(get) = request {
            return Advance::flow(consumed, self.retrieve(turn, get));
        }
        let line = &input[..consumed];
        // Lines are kept until they are answered: of long ones a connection has one.
        if line.len() > LINE_KEPT_BYTES_MAX && !self.is_clear() {
            return Advance::stop(Next::Wait);
        }
        if let Some(command) = StoreCommand::of(request) {
            return self.text_store(turn, command, line, &input[consumed..]);
        }
        let asking = Asking { what: What::Text(*request), line };
        let mut room = [0; wire::memcached::limits::KEY_LEN_MAX];
        let key = match request {
            Request::Delete { key, .. }
            | Request::Touch { key, .. }
            | Request::Arithmetic { key, .. } => *key,
            Request::MetaGet(meta)
            | Request::MetaDelete(meta)
            | Request::MetaArithmetic { meta, .. } => meta.key.bytes(&mut room),
            Request::MetaDebug { key } => key.bytes(&mut room),
            Request::FlushAll { at, .. } => {
                // It comes behind what was asked before.
                if !self.is_clear() && !base::mutant!("server_flush_overtakes") {
                    return Advance::stop(Next::Wait);
                }
                return Advance::flow(consumed, self.flush(turn, &asking, *at));
            }
            _ => return self.admin(turn, request, consumed),
        };
        let deed = keyed::deed(&turn.table.desk, request);
        Advance::flow(consumed, self.ask(turn, &asking, deed.map(|deed| (key, deed))))
    }

    fn admin(&mut self, turn: &mut Turn<'_>, request: &Request<'_>, consumed: usize) -> Advance {
        // What reports say is to be about all that was answered before.
        let is_report = matches!(request, Request::Stats(_) | Request::MemoryLimit { .. });
        if is_report && !self.is_clear() {
            return Advance::stop(Next::Wait);
        }
        turn.commands_left -= 1;
        match admin::text(&turn.table.desk, self.connection.id(), request) {
            Order::Reply(reply) => self.answer(turn, reply.into()),
            Order::List(list) => self.phase = Phase::List(list, None),
            Order::Finish => self.phase = Phase::Finished,
        }
        Advance::on(consumed)
    }

    /// A command that brings a value, which `rest` begins with.
    fn text_store(
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
            let rest = (len + TERMINATOR_LEN) as u64;
            let flow = self.refuse_value(turn, (command, line), rest);
            return Advance::flow(line.len(), flow);
        }
        match body::split(rest, command.value_len()) {
            Body::Partial if len <= INLINE_VALUE_MAX_BYTES => {
                Advance::need(Some(line.len() + len + TERMINATOR_LEN))
            }
            Body::Partial => self.receive(turn, command, line),
            Body::Malformed { consumed } => {
                self.refuse_end(turn, &command);
                turn.commands_left -= 1;
                Advance::on(line.len() + consumed)
            }
            Body::Whole { value, consumed } => {
                let flow = self.store(turn, command, line, value);
                Advance::flow(line.len() + consumed, flow)
            }
        }
    }

    /// `get`, `gets`, `gat`, `gats`.
    fn retrieve(&mut self, turn: &mut Turn<'_>, get: &Get<'_>) -> Flow {
        let retrieval = Retrieval {
            with_token: get.with_token,
            touch_ms: get.touch.map(|expiry| turn.table.desk.deadline_ms(expiry)),
        };
        let mut keys = get.keys;
        if let Some(key) = keys.next()
            && get.complete
            && keys.rest_len() == 0
        {
            return self.ask_for(turn, key, retrieval, true);
        }
        self.ask_for_all(turn, retrieval, get.keys, get.complete)
    }

    /// One key of a retrieval.
    fn ask_for(
        &mut self,
        turn: &mut Turn<'_>,
        key: &[u8],
        retrieval: Retrieval,
        is_only: bool,
    ) -> Flow {
        let Retrieval { with_token, touch_ms } = retrieval;
        let style = Style { with_token, touches: touch_ms.is_some(), is_only };
        let deed = touch_ms.map(|expiry_ms| Deed(Kind::Touch { expiry_ms, with_value: true }));
        let asking = Asking { what: What::Value(key, style), line: &[] };
        self.ask(turn, &asking, deed.map(|deed| (key, deed)))
    }

    /// Keys of a retrieval, from where it stopped the last time. Behind the last ones of a line
    /// comes the end of the reply, behind others come more keys.
    fn ask_for_all(
        &mut self,
        turn: &mut Turn<'_>,
        retrieval: Retrieval,
        mut keys: Keys<'_>,
        complete: bool,
    ) -> Flow {
        let total = keys.rest_len();
        keys.skip_to(total - self.keys_done);
        while let Some(key) = keys.next() {
            if let Some(next) = self.send_due(turn).or_else(|| self.pause(turn)) {
                return Flow::Stop(next);
            }
            if let Flow::Stop(next) = self.ask_for(turn, key, retrieval, false) {
                return Flow::Stop(next);
            }
            if let Phase::Finished = self.phase {
                return Flow::On;
            }
            self.keys_done = total - keys.rest_len();
        }
        if let Some(next) = self.send_due(turn).or_else(|| self.pause(turn)) {
            return Flow::Stop(next);
        }
        self.keys_done = 0;
        if complete {
            self.answer(turn, lines::END.into());
        } else {
            self.phase = Phase::Keys(retrieval);
        }
        Flow::On
    }

    /// More keys of a long line.
    pub(super) fn more_keys(
        &mut self,
        turn: &mut Turn<'_>,
        retrieval: Retrieval,
        input: &[u8],
    ) -> Advance {
        // Replies may have come since the keys before.
        if let Some(next) = self.pause(turn) {
            self.phase = Phase::Keys(retrieval);
            return Advance::stop(next);
        }
        let (keys, consumed, complete) = match parse_keys(input, &turn.table.desk.limits) {
            KeysStep::Part { keys, consumed, complete } => (keys, consumed, complete),
            KeysStep::Incomplete => {
                self.phase = Phase::Keys(retrieval);
                return Advance::stop(Next::Read);
            }
            KeysStep::TooLong => {
                self.answer(turn, lines::BAD_FORMAT.into());
                self.phase = Phase::Finished;
                return Advance::on(0);
            }
        };
        let flow = self.ask_for_all(turn, retrieval, keys, complete);
        if flow != Flow::On {
            self.phase = Phase::Keys(retrieval);
        }
        Advance::flow(consumed, flow)
    }

    /// What a client of the text protocol sends that has to log in.
    pub(super) fn text_login(&mut self, turn: &mut Turn<'_>, input: &[u8]) -> Advance {
        turn.commands_left -= 1;
        match parse_login(input) {
            LoginStep::Incomplete { needed } => Advance::need(needed),
            LoginStep::Refused { reply, consumed } => {
                self.answer(turn, reply.into());
                Advance::on(consumed)
            }
            LoginStep::Login { user, password, consumed } => {
                let reply = if turn.table.desk.logs_in(user, password) {
                    self.dialect = Dialect::Text;
                    lines::STORED
                } else {
                    lines::LOGIN_FAILED
                };
                self.answer(turn, reply.into());
                Advance::on(consumed)
            }
            LoginStep::Foreign => {
                self.phase = Phase::Finished;
                Advance::on(input.len())
            }
        }
    }
}
