//! Commands that bring a value.

use reactor::Next;
use wire::memcached::{limits::KEY_LEN_MAX, lines::BAD_DATA_CHUNK};

use super::{Advance, Flow, Phase, Session, Turn};
use crate::memcached::{
    command::StoreCommand,
    durable::{
        answers,
        asking::{Asking, What, read},
        keyed,
        upload::{Progress, Receiving},
    },
    storage::Outcome,
    upload::LINE_KEPT_BYTES_MAX,
};

impl Session {
    /// Has a value be stored, all of which is there.
    pub(super) fn store(
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

    /// Refuses a value that is too long, of which `rest` bytes are still to come.
    pub(super) fn refuse_value(
        &mut self,
        turn: &mut Turn<'_>,
        (command, line): (StoreCommand<'_>, &[u8]),
        rest: u64,
    ) -> Flow {
        let flow = match keyed::refused(&turn.table.desk, &command) {
            None => {
                self.tell(turn, &command, Outcome::TooLarge);
                Flow::On
            }
            Some(deed) => {
                let mut room = [0; KEY_LEN_MAX];
                let key = command.key();
                let key = key.bytes(&mut room);
                let asking = Asking { what: What::Refused(command), line };
                self.ask(turn, &asking, Some((key, deed)))
            }
        };
        if flow == Flow::On {
            self.phase = Phase::Swallow(rest);
        }
        flow
    }

    /// The same for lack of memory. That is no fault of the value, and may be others': as when the
    /// disk is full, its key keeps what it has.
    pub(super) fn lack_memory(
        &mut self,
        turn: &mut Turn<'_>,
        (command, line): (StoreCommand<'_>, &[u8]),
        rest: u64,
    ) {
        if base::mutant!("server_lack_of_memory_removes") {
            self.refuse_value(turn, (command, line), rest);
            return;
        }
        self.tell(turn, &command, Outcome::NoMemory);
        self.phase = Phase::Swallow(rest);
    }

    /// Says why a value is not stored.
    fn tell(&mut self, turn: &mut Turn<'_>, command: &StoreCommand<'_>, outcome: Outcome) {
        let reply = answers::put_outcome(&turn.table.desk, command, outcome);
        self.answer(turn, reply);
        turn.commands_left = turn.commands_left.saturating_sub(1);
    }

    /// Says that a value was not followed by a line end. It was a store all the same.
    pub(super) fn refuse_end(&mut self, turn: &mut Turn<'_>, command: &StoreCommand<'_>) {
        let desk = &turn.table.desk;
        desk.counters.cmd_set.add(1);
        command.count_prefix(&desk.server);
        let is_silent = matches!(command, StoreCommand::Text(it) if it.noreply);
        let reply = if is_silent { &[] } else { BAD_DATA_CHUNK };
        self.answer(turn, reply.into());
    }

    /// Begins to take a value of which not all is there, behind `line`.
    pub(super) fn receive(
        &mut self,
        turn: &mut Turn<'_>,
        command: StoreCommand<'_>,
        line: &[u8],
    ) -> Advance {
        let inflow = command.inflow();
        if line.len() > LINE_KEPT_BYTES_MAX {
            self.lack_memory(turn, (command, line), inflow.left());
        } else {
            let upload = turn.table.upload(command.value_len() as usize);
            self.phase = Phase::Value(Box::new(Receiving::new(line, inflow, upload)));
        }
        Advance::on(line.len())
    }

    /// More of a value, or another try to store it.
    pub(super) fn value(
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
                self.lack_memory(turn, (command, &receiving.line), rest);
                return Advance::on(consumed);
            }
            Progress::Complete => self.store(turn, command, &receiving.line, &receiving.value()),
        };
        if flow != Flow::On {
            self.phase = Phase::Value(receiving);
        }
        Advance { consumed, needed: None, flow }
    }
}
