//! How compaction keeps up with what is written.
//!
//! Moves are begun when the log takes more than its target, and done when nothing else is to be
//! done, or by those who write (`moving/steps.rs`). When they fall behind by half a segment they
//! come first for one of those who drive the log; by five quarters, the others help those who
//! write; before one and a half puts slow down (`throttle.rs`), and beyond it whoever puts pays as
//! he goes: for each byte two have to be won. So the debt falls, and nobody waits for all of it,
//! nor for a whole chunk. Removes, what is written over in memory and what is written again after a
//! failed flush cost nothing, and nobody pays while the oldest values are moved only for tombstones
//! to go: there is nothing to be won before all of that is done.

use super::{Engine, chunk::Allowance, sealing::Sealing, survey::Sealed, tail::Tail};
use crate::{format::segment::footer_blocks, keys::Keys};

/// Halves of a segment beyond the target from which on moves come first for one of those who drive
/// the log.
const URGENT_HALVES: u64 = 1;

/// Halves of a segment beyond the target from which on whoever puts waits. The later that is, the
/// more has died of what is moved; space is bounded by it.
const BEHIND_HALVES: u64 = 3;

/// Quarters of a segment beyond the target from which on others help those who write with moves.
const HELPED_QUARTERS: u64 = 5;

/// Whoever puts while moves are behind pays for this part of a chunk at once, or for what he puts,
/// if that is more: with chunks of 1 MiB for 64 KiB, which takes a millisecond or two, and more
/// while segments are moved in which much lives.
const GRAINS: usize = 16;

/// What was won by moving, and what of it is not paid out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Bytes that were won by the moves that are done.
    pub(super) won_bytes: u64,
    /// The most that was ever won by moves that are done, and by one that was under way. What was
    /// paid out for a move that was given up has to be won anew before more is.
    seen_won_bytes: u64,
    /// Bytes that were won and are not paid out; less than 0 while something is owed.
    credit_bytes: i64,
}

impl Account {
    /// Takes in what was won since the last time, with so many bytes by the move that is under way.
    fn earn(&mut self, winning_bytes: u64, most_bytes: u64) {
        let won_bytes = (self.won_bytes + winning_bytes).max(self.seen_won_bytes);
        let won = i64::try_from(won_bytes - self.seen_won_bytes).unwrap_or(i64::MAX / 4);
        let most = i64::try_from(most_bytes).unwrap_or(i64::MAX / 4);
        self.seen_won_bytes = won_bytes;
        self.credit_bytes = (self.credit_bytes + won).min(most);
    }

    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn credit_bytes(&self) -> i64 {
        self.credit_bytes
    }

    /// As if nothing was left of what was won, and so much was paid since.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn owe(&mut self, bytes: i64) {
        self.credit_bytes = -bytes;
    }

    fn spend(&mut self, bytes: usize) {
        self.credit_bytes -= i64::try_from(bytes).unwrap_or(i64::MAX / 4) * 2;
    }

    fn give_back(&mut self, bytes: usize) {
        self.credit_bytes += i64::try_from(bytes).unwrap_or(i64::MAX / 4) * 2;
    }
}

impl<K: Keys> Engine<K> {
    /// How much may be put, if so many bytes are to be: what was won for, or a share of what is
    /// left to a bound that is near.
    pub(super) fn allowance(&mut self, bytes: usize) -> Allowance {
        let debt_bytes = self.debt_bytes();
        let is_worth_waiting =
            self.compaction.is_worth_waiting() && !base::mutant!("log_puts_never_wait");
        let debt_bytes = debt_bytes.filter(|_| is_worth_waiting);
        let is_owing = debt_bytes.is_some_and(|debt| debt > self.behind_bytes());
        let winning_bytes = self.won_so_far_bytes();
        let chunk_bytes = self.settings.chunk_bytes;
        let account = &mut self.compaction.account;
        account.earn(winning_bytes, chunk_bytes.into());
        if !is_owing {
            account.credit_bytes = 0;
            // Nothing of it was paid out.
            account.seen_won_bytes = account.won_bytes + winning_bytes;
            return self.throttled(bytes, debt_bytes);
        }
        if account.credit_bytes < 0 {
            Allowance::Nothing
        } else {
            Allowance::Bytes(bytes.max(self.grain_bytes()))
        }
    }

    /// What is put between two looks at what may be put, unless one record has more.
    pub(super) fn grain_bytes(&self) -> usize {
        self.settings.chunk_bytes as usize / GRAINS
    }

    /// What was allowed may be put into the chunk at hand.
    pub(super) fn pay(&mut self, allowance: Allowance) {
        self.take_back_allowance();
        match allowance {
            Allowance::Bytes(bytes) => self.compaction.account.spend(bytes),
            Allowance::Share(bytes) => self.throttle.spend(bytes),
            Allowance::Nothing | Allowance::Chunk => {}
        }
        self.open.iter_mut().for_each(|tail| tail.allow(allowance));
    }

    /// What was paid and not put is not owed, and what is left of a share is for the next put.
    pub(super) fn take_back_allowance(&mut self) {
        match self.open.as_mut().map(Tail::take_unused) {
            Some(Allowance::Bytes(unused)) => self.compaction.account.give_back(unused),
            Some(Allowance::Share(unused)) => self.throttle.give_back(unused),
            Some(Allowance::Nothing | Allowance::Chunk) | None => {}
        }
    }

    /// Of what was paid for a move that has won nothing no more than a chunk has to be won anew.
    pub(super) fn forgive(&mut self) {
        let chunk_bytes = u64::from(self.settings.chunk_bytes);
        let account = &mut self.compaction.account;
        account.seen_won_bytes = account.seen_won_bytes.min(account.won_bytes + chunk_bytes);
    }

    /// Whether moves should come before records, for one of those who drive the log.
    pub fn is_move_urgent(&mut self) -> bool {
        self.debt_bytes().is_some_and(|debt| debt > self.halves_bytes(URGENT_HALVES))
    }

    /// How far the log is beyond its target when puts wait for moves, if enough is won by that.
    pub(super) fn behind_bytes(&self) -> u64 {
        self.halves_bytes(BEHIND_HALVES)
    }

    /// How far the log is beyond its target when others help those who write with moves: before
    /// puts wait for them.
    pub(super) fn helped_bytes(&self) -> u64 {
        self.manifest.shape.segment_bytes * HELPED_QUARTERS / 4
    }

    fn halves_bytes(&self, halves: u64) -> u64 {
        halves * self.manifest.shape.segment_bytes / 2
    }

    /// How many bytes the log takes more than it should, if something can be done.
    pub(super) fn debt_bytes(&mut self) -> Option<u64> {
        if self.settings.ring.is_some() || !self.is_moving() || self.is_held_up() {
            return None;
        }
        // What is owed is owed also while the next victim is looked for in several steps.
        if !self.finds_victim() && !self.compaction.survey.is_looking() {
            return None;
        }
        // Where it takes several steps to look at all segments: as of the last time.
        self.survey();
        let sealed = self.compaction.survey.sealed()?;
        let (taken, values) = self.taken(&sealed);
        let allowed = values * u64::from(self.settings.space_target_percent) / 100;
        Some(taken.saturating_sub(allowed))
    }

    /// What the log takes now, and what lives of it.
    pub(super) fn taken(&self, sealed: &Sealed) -> (u64, u64) {
        // What is being written to counts as far as it is put there, and so does what lives there:
        // else a load that never changes would be behind at the end of each chunk, or of each
        // segment.
        let taken = sealed.bytes + self.tails().map(|tail| self.taken_by(tail)).sum::<u64>();
        // Where one has died since the last look a newer one may be in a tail, and where it was
        // moved its copy is.
        let values = self.compaction.survey.values_now(sealed)
            + self.tails().map(|tail| self.living_in(tail)).sum::<u64>();
        if base::mutant!("log_moved_counts_twice") {
            return (taken - self.won_so_far_bytes().min(taken), values);
        }
        // And so does what is being moved: its copies are in a tail already.
        let gone = self.moved_out_of(self.manifest.shape.segment_bytes);
        (taken.saturating_sub(gone), values)
    }

    /// What a segment takes that is being written to, with its part of the footer.
    fn taken_by(&self, tail: &Tail) -> u64 {
        let sealing = self.sealing.as_ref().filter(|it| it.tail().segment == tail.segment);
        let listed = tail.listed.len() + sealing.map_or(0, Sealing::listed);
        let block = self.manifest.shape.block_bytes;
        let blocks = footer_blocks(listed, block);
        let is_blind = base::mutant!("log_footers_uncounted");
        let is_by_chunk = base::mutant!("log_taken_by_the_chunk");
        let records_end = if is_by_chunk { tail.end() } else { tail.next_offset() };
        records_end + if is_blind { 0 } else { blocks * u64::from(block) }
    }

    /// What lives in a segment that is being written to, parts of values included that get their
    /// heads later.
    fn living_in(&self, tail: &Tail) -> u64 {
        let Some(segment) = self.segment(tail.segment) else { return 0 };
        let is_put = segment.pin.is_held() && !base::mutant!("log_parts_without_heads_are_dead");
        let headless_bytes = if is_put { segment.headless_bytes } else { 0 };
        let live_bytes = segment.live_bytes + headless_bytes;
        segment.share(live_bytes, self.manifest.shape.segment_bytes)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_paid_for_a_move_that_is_given_up_is_won_before_more_is_paid() {
        let mut account = Account::default();
        let mut is_paid = |winning_bytes, bytes| {
            account.spend(bytes);
            account.earn(winning_bytes, 10_000);
            account.credit_bytes >= 0
        };
        assert!(!is_paid(0, 1000));
        assert!(is_paid(2000, 0), "two were won for each");
        // It is given up: nothing is won by it.
        assert!(!is_paid(0, 1000));
        assert!(!is_paid(2000, 0), "paid twice for the same");
        assert!(!is_paid(3999, 0));
        assert!(is_paid(4000, 0));
    }

    #[test]
    fn what_is_won_while_nobody_puts_lets_no_more_through_than_a_chunk() {
        let mut account = Account::default();
        account.earn(1 << 40, 1000);
        account.spend(500);
        assert_eq!(account.credit_bytes, 0);
    }
}
