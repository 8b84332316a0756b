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

/// What was won by moving, and what was put while moves were behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Bytes that were put, of whole chunks.
    pub(super) put_bytes: u64,
    /// Bytes that were won by the moves that are done.
    pub(super) won_bytes: u64,
    /// Bytes that were put as of the last look.
    seen_put: u64,
    /// The most that was ever won by moves that are done, and by one that was under way. What was
    /// paid out for a move that was given up has to be won anew before more is.
    seen_won: u64,
    /// Bytes that were won and are not paid out.
    credit_bytes: i64,
}

impl Account {
    /// Whether what was put is paid for, when so many bytes are won by the move that is under way.
    /// Removes are put as well and never wait: whoever puts next pays for a chunk at most.
    fn is_paid(&mut self, winning_bytes: u64, chunk_bytes: u64) -> bool {
        let (put, won) = self.look(winning_bytes);
        let most = i64::try_from(chunk_bytes).unwrap_or(i64::MAX / 4);
        self.credit_bytes = (self.credit_bytes + won).min(most) - put.min(most) * 2;
        self.credit_bytes >= 0
    }

    /// Moves are not behind: nothing is owed.
    fn clear(&mut self, winning_bytes: u64) {
        self.look(winning_bytes);
        self.credit_bytes = 0;
    }

    /// Bytes that were put, and won, since the last look.
    fn look(&mut self, winning_bytes: u64) -> (i64, i64) {
        let won_bytes = (self.won_bytes + winning_bytes).max(self.seen_won);
        let put = i64::try_from(self.put_bytes - self.seen_put).unwrap_or(i64::MAX / 4);
        let won = i64::try_from(won_bytes - self.seen_won).unwrap_or(i64::MAX / 4);
        (self.seen_put, self.seen_won) = (self.put_bytes, won_bytes);
        (put, won)
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
        // Where it takes several steps to look at all segments: as of the last time.
        self.survey();
        let Some(sealed) = self.compaction.survey.sealed() else { return false };
        let written: u64 = self.own_tails().map(Tail::end).sum();
        let taken = (sealed.bytes + written).saturating_sub(self.moved_out_bytes());
        let allowed = sealed.values * u64::from(self.settings.space_target_percent) / 100;
        taken > allowed + halves * self.manifest.shape.segment_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_BYTES: u64 = 1000;

    #[test]
    fn what_was_paid_for_a_move_that_is_given_up_is_won_before_more_is_paid() {
        let mut account = Account { put_bytes: 1000, ..Account::default() };
        assert!(!account.is_paid(0, CHUNK_BYTES));
        assert!(account.is_paid(2000, CHUNK_BYTES), "two were won for each");
        // It is given up: nothing is won by it.
        account.put_bytes += 1000;
        assert!(!account.is_paid(0, CHUNK_BYTES));
        assert!(!account.is_paid(1999, CHUNK_BYTES), "paid twice for the same");
        account.clear(0);
        account.put_bytes += 1000;
        assert!(!account.is_paid(2000, CHUNK_BYTES), "paid twice for the same");
        assert!(!account.is_paid(3999, CHUNK_BYTES));
        assert!(account.is_paid(4000, CHUNK_BYTES));
    }

    #[test]
    fn who_puts_pays_for_no_more_than_a_chunk_of_what_was_removed() {
        let mut account = Account { put_bytes: 500 * CHUNK_BYTES, ..Account::default() };
        assert!(!account.is_paid(0, CHUNK_BYTES));
        assert!(!account.is_paid(2 * CHUNK_BYTES - 1, CHUNK_BYTES));
        assert!(account.is_paid(2 * CHUNK_BYTES, CHUNK_BYTES));
    }
}
