//! The next value in parts, read while what comes before it is sent.
//!
//! A connection that asks for one value behind the other would have the disk rest while one is
//! sent, and the network while the next is read. What is read ahead has only memory that nobody
//! else waits for: the store ends it when somebody does. Nothing of it was shown, so it is read
//! anew when its turn has come.

use super::{Session, Turn};
use crate::memcached::durable::transfer::Outgoing;

/// What is read of the next value. It is of the next reply that is due.
#[derive(Debug, Default)]
pub(super) enum Ahead {
    #[default]
    Nothing,
    Reading(Outgoing),
    /// It waits for its turn.
    GivenUp,
}

impl Ahead {
    /// Whether it needs no reader more when its turn has come.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self, Self::Reading(outgoing) if !outgoing.has_failed())
    }
}

impl Session {
    /// Begins to read the next value, if it is known, lies in parts and may be read now.
    pub(super) fn read_ahead(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.ahead, Ahead::Nothing) || base::mutant!("server_reads_one_at_a_time") {
            return;
        }
        let Some(large) = self.board.next_large() else { return };
        if let Some(outgoing) = turn.table.read_ahead(&large, self.board.unsent()) {
            self.ahead = Ahead::Reading(outgoing);
        }
    }

    /// Gives its memory back when it has ended.
    pub(super) fn tend_ahead(&mut self) {
        if matches!(&self.ahead, Ahead::Reading(outgoing) if outgoing.has_failed()) {
            self.ahead = Ahead::GivenUp;
        }
    }

    /// The value whose turn has come, if it is read already.
    pub(super) fn take_ahead(&mut self, turn: &mut Turn<'_>) -> Option<Outgoing> {
        match std::mem::take(&mut self.ahead) {
            Ahead::Reading(outgoing) => turn.table.begin_taking(&outgoing).then_some(outgoing),
            Ahead::Nothing | Ahead::GivenUp => None,
        }
    }
}
