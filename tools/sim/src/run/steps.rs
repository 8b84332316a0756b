//! What a driver does that leaves moves to whoever writes: steps behind what clients have written,
//! and footers that are encoded while others have the log.

use super::{Log, Run};

/// Records that were moved by whoever has written.
pub(super) const MOVED_BY_WRITERS: &str = "records moved by writers";

/// Footers of which something was encoded while others had the log.
pub(super) const ENCODED_BESIDE: &str = "pieces of footers encoded beside";

impl Run {
    /// The log was opened.
    pub(super) fn leave_moves_to_writers(&mut self) {
        let are_left = self.scenario.has_steps;
        self.log.as_mut().filter(|_| are_left).into_iter().for_each(Log::leave_moves_to_writers);
    }

    /// A client has written something, or has not.
    pub(super) fn step_moves(&mut self) {
        if !self.scenario.has_steps {
            return;
        }
        let is_close = self.random.below(2) == 0;
        let Some(log) = &mut self.log else { return };
        let before = log.counts();
        log.step_moves(self.now_ms, is_close);
        let moved = log.counts().records_moved - before.records_moved;
        self.count_many(MOVED_BY_WRITERS, moved);
        self.note_moves(before);
    }

    /// Takes a footer to encode something of it, and some time later gives it back.
    pub(super) fn encode_beside(&mut self) {
        if !self.scenario.has_steps {
            return;
        }
        if self.encoding.is_some() {
            if self.random.below(2) == 0 {
                self.give_footer_back();
            }
            return;
        }
        self.encoding = self.log.as_mut().and_then(Log::take_footer);
    }

    fn give_footer_back(&mut self) {
        let Some(mut encoding) = self.encoding.take() else { return };
        let Some(log) = &mut self.log else { return };
        encoding.encode();
        let plan = log.give_back(encoding);
        plan.into_iter().for_each(|plan| self.machine.submit(plan));
        self.count(ENCODED_BESIDE);
    }
}
