//! How compaction keeps up with what is written.
//!
//! Moves are begun when the log takes more than its target, and done when nothing else is to be
//! done. When they fall behind by a segment they come first for one of those who drive the log; by
//! two, whoever puts waits, a chunk at a time, until enough was moved. What is in the way is some
//! of a segment's reads, so that nobody waits for all of it.

use super::{Engine, tail::Tail};
use crate::keys::Keys;

/// Segments beyond the target from which on moves come first for one of those who drive the log.
const URGENT_SEGMENTS: u64 = 1;

/// Segments beyond the target from which on whoever puts waits.
const BEHIND_SEGMENTS: u64 = 2;

/// Bytes that the sealed segments take, and those that they may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    taken: u64,
    allowed: u64,
}

impl<K: Keys> Engine<K> {
    /// Whether a put has to wait until more was moved.
    pub(super) fn is_behind(&mut self) -> bool {
        self.owes(BEHIND_SEGMENTS) && !base::mutant!("log_puts_never_wait")
    }

    /// Whether moves should come before records, for one of those who drive the log.
    pub fn is_move_urgent(&mut self) -> bool {
        self.owes(URGENT_SEGMENTS)
    }

    /// Whether the log takes so many segments more than it should, and something can be done.
    fn owes(&mut self, segments: u64) -> bool {
        if !self.is_moving() || self.is_held_up() {
            return false;
        }
        let debt = self.debt();
        let written: u64 = self.own_tails().map(Tail::end).sum();
        let taken = (debt.taken + written).saturating_sub(self.moved_out_bytes());
        taken > debt.allowed + segments * self.manifest.shape.segment_bytes
    }

    /// As of when something has last changed by a segment.
    fn debt(&mut self) -> Debt {
        if let Some(debt) = self.compaction.debt() {
            return debt;
        }
        let sealed = self.look_at_sealed(&self.floor());
        let percent = u64::from(self.settings.space_target_percent);
        let debt = Debt { taken: sealed.bytes, allowed: sealed.values * percent / 100 };
        self.compaction.keep_debt(debt);
        debt
    }
}
