//! Clients of the text protocol that have to log in.

use reactor::Next;
use wire::memcached::{LoginStep, lines, parse_login};

use super::{Advance, Phase, Session, Turn};
use crate::memcached::dialect::Dialect;

impl Session {
    /// What a client of the text protocol sends that has to log in.
    pub(super) fn text_login(&mut self, turn: &mut Turn<'_>, input: &[u8]) -> Advance {
        if turn.commands_left == 0 || !turn.replies.has_room() {
            return turn.pause();
        }
        turn.commands_left -= 1;
        match parse_login(input) {
            LoginStep::Incomplete { needed } => Advance { needed, ..Advance::stop(0, Next::Read) },
            LoginStep::Refused { reply, consumed } => {
                turn.replies.put(reply);
                Advance::on(consumed)
            }
            LoginStep::Login { user, password, consumed } => {
                if turn.context.logs_in(user, password) {
                    self.dialect = Dialect::Text;
                    turn.replies.put(lines::STORED);
                } else {
                    turn.replies.put(lines::LOGIN_FAILED);
                }
                Advance::on(consumed)
            }
            LoginStep::Foreign => {
                self.phase = Phase::Finished;
                Advance::on(input.len())
            }
        }
    }
}
