//! How compaction keeps up with what is written.
//!
//! Moves are begun when the log takes more than its target, and done when nothing else is to be
//! done. When they fall behind by half a segment they come first for one of those who drive the
//! log; by a whole one, whoever puts pays as he goes: for each byte two have to be won. So the debt
//! falls, and nobody waits for all of it.

use super::{Engine, tail::Tail};
use crate::keys::Keys;

/// Halves of a segment beyond the target from which on moves come first for one of those who drive
/// the log.
const URGENT_HALVES: u64 = 1;

/// Halves of a segment beyond the target from which on whoever puts waits.
const BEHIND_HALVES: u64 = 2;

/// Bytes that the sealed segments take, and those that they may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    taken: u64,
    allowed: u64,
}

/// What was won by moving, and what was put while moves were behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Bytes that were put, of whole chunks.
    pub(super) put_bytes: u64,
    /// Bytes that were won by the moves that are done.
    pub(super) won_bytes: u64,
    /// As of the last look.
    seen: (u64, u64),
    /// Bytes that were won and are not paid out.
    credit_bytes: i64,
}

impl Account {
    /// Whether what was put is paid for, when so many bytes are won by the move that is under way.
    fn is_paid(&mut self, winning_bytes: u64, chunk_bytes: u64) -> bool {
        let now = (self.put_bytes, self.won_bytes + winning_bytes);
        let put = i64::try_from(now.0.saturating_sub(self.seen.0)).unwrap_or(i64::MAX / 4);
        let won = i64::try_from(now.1.saturating_sub(self.seen.1)).unwrap_or(i64::MAX / 4);
        self.seen = now;
        let most = i64::try_from(chunk_bytes).unwrap_or(i64::MAX / 4);
        self.credit_bytes = (self.credit_bytes + won).min(most) - put.min(most) * 2;
        self.credit_bytes >= 0
    }

    /// Moves are not behind: nothing is owed.
    fn clear(&mut self, winning_bytes: u64) {
        self.seen = (self.put_bytes, self.won_bytes + winning_bytes);
        self.credit_bytes = 0;
    }
}

impl<K: Keys> Engine<K> {
    /// Whether a put has to wait until more was moved.
    pub(super) fn is_behind(&mut self) -> bool {
        let owes = self.owes(BEHIND_HALVES);
        let winning_bytes = self.moved_out_bytes();
        let chunk_bytes = u64::from(self.settings.chunk_bytes);
        if !owes || base::mutant!("log_puts_never_wait") {
            self.compaction.account.clear(winning_bytes);
            return false;
        }
        !self.compaction.account.is_paid(winning_bytes, chunk_bytes)
    }

    /// Whether moves should come before records, for one of those who drive the log.
    pub fn is_move_urgent(&mut self) -> bool {
        self.owes(URGENT_HALVES)
    }

    /// Whether the log takes so many halves of a segment more than it should, and something can be
    /// done.
    fn owes(&mut self, halves: u64) -> bool {
        if !self.is_moving() || self.is_held_up() || !self.finds_victim() {
            return false;
        }
        let debt = self.debt();
        let written: u64 = self.own_tails().map(Tail::end).sum();
        let taken = (debt.taken + written).saturating_sub(self.moved_out_bytes());
        taken > debt.allowed + halves * self.manifest.shape.segment_bytes / 2
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
