//! Replies that are written part by part, as the client takes them.

use reactor::{CloseReason, ConnId, Next};
use wire::memcached::binary::Frame;

use super::{Advance, Phase, Session, Turn};
use crate::memcached::{
    binary,
    dump::{Dump, PartEnd},
    reports::List,
    watch::Watch,
};

impl Session {
    /// More of a report. A part of it counts as a command.
    pub(super) fn list(
        &mut self,
        turn: &mut Turn<'_>,
        mut list: List,
        frame: Option<Frame>,
    ) -> Advance {
        if turn.commands_left == 0 || !turn.replies.has_room() {
            self.phase = Phase::List(list, frame);
            return turn.pause();
        }
        turn.commands_left -= 1;
        let (part, is_last) = list.part(&turn.context.server);
        match frame {
            None => turn.replies.put(&part),
            Some(frame) => binary::put_part(frame, &part, is_last, turn.replies),
        }
        if !is_last {
            self.phase = Phase::List(list, frame);
        }
        Advance::on(0)
    }

    /// More of a list of keys. What was looked at for a part counts as so many commands.
    pub(super) fn dump(
        &mut self,
        turn: &mut Turn<'_>,
        mut dump: Box<Dump>,
        frame: Option<Frame>,
    ) -> Advance {
        if turn.commands_left == 0 || !turn.replies.has_room() {
            self.phase = Phase::Dump(dump, frame);
            return turn.pause();
        }
        let part = dump.part(&mut turn.context.worker);
        turn.commands_left = turn.commands_left.saturating_sub(part.steps.max(1));
        let is_last = part.end == PartEnd::Nothing;
        match frame {
            None => turn.replies.put(&part.bytes),
            Some(frame) => binary::put_sizes(frame, &part.bytes, is_last, turn.replies),
        }
        self.phase = match part.end {
            PartEnd::More => Phase::Dump(dump, frame),
            PartEnd::Nothing => Phase::Line,
            PartEnd::Lost => Phase::Finished,
        };
        Advance::on(0)
    }

    /// More lines of logs. What the client says does not matter any more.
    pub(super) fn watch(&mut self, turn: &mut Turn<'_>, watch: Watch, input: &[u8]) -> Advance {
        let next = if watch.write(turn.replies) { Next::Read } else { Next::Blocked };
        self.phase = Phase::Watch(watch);
        Advance::stop(input.len(), next)
    }

    /// Says which connection of the loop it is.
    pub(in crate::memcached) fn settle(&self, connection: ConnId) {
        if let Phase::Watch(watch) = &self.phase {
            watch.settle(connection);
        }
    }

    /// Tells those who watch that its connection has ended, and why.
    pub fn log_end(&self, reason: &CloseReason) {
        let reason = match reason {
            CloseReason::Finished if self.is_wrong => "error",
            CloseReason::Finished => "normal",
            CloseReason::Idle => "idle_timeout",
            CloseReason::Stopped => "shutdown",
            _ => "error",
        };
        self.connection.log_end(reason);
    }
}
