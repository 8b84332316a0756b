//! Compaction: what lives in a segment that is mostly dead moves to the survivors' segment.
//!
//! The footer of the segment is read a piece at a time, then of its records those that live, in
//! windows that are read ahead of what is copied. What it comes to is `copies.rs`. Who copies when
//! is in `steps.rs`: those who drive the log, in turns, or those who write, in steps.
//!
//! Invariants:
//! 1. A copy gets its sequence, and readers are led to it, in one step with a look at the index,
//!    which leads to the original.
//! 2. The head of a large value is written anew when the copies of its parts are durable.
//! 3. A tombstone, or what has expired, vanishes only when no other segment has an older value.
//!    Else it stays, as a tombstone of the same sequence.
//! 4. Nothing is moved out of a segment that somebody iterates over or copies.
//! 5. One read is out at a time, and it is of what is being moved: no other move begins before the
//!    read of one that was given up is reported.

mod begin;
mod compaction;
mod large;
mod progress;
mod records;
mod steps;
mod window;

pub(super) use self::compaction::Compaction;
pub use self::compaction::Unreported;
use self::{
    begin::{Lists, Moving},
    records::{Copied, Portion, TURN},
    steps::Steps,
    window::Awaited,
};
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(super) use self::{steps::SPAN_MS, window::WINDOWS_AHEAD};
use super::{Engine, Job, Settled};
use crate::{
    keys::Keys,
    plan::{Action, Plan},
};

/// Milliseconds for which moves wait for an iteration to begin.
const HELD_MS: u64 = 1000;

/// A victim is looked for when this part of a segment more is dead: an eighth.
const LOOK_AFTER: u64 = 8;

/// And on a full disk, when this part is, or a block: 64 KiB of 64 MiB. All segments are looked at
/// for it, and each put on a full disk asks.
const FULL_LOOK_AFTER: u64 = 1024;

/// Large values that are noted before their heads are looked at: with those of one read of a footer
/// more, that is what one turn may go over.
const LARGES_MAX: usize = if cfg!(test) { 4 } else { 512 };

/// What there is to do next.
enum Next {
    Read(Action, Awaited),
    /// There is no room, and something must be reported first.
    Wait,
    /// What is being read must be reported first.
    Idle,
    /// Nothing, but that is enough for one turn.
    Turn,
    /// It goes on another time: somebody reads what is in the way.
    GiveUp,
    /// It stays where it is: it cannot be read.
    Leave,
    Done,
}

impl<K: Keys> Engine<K> {
    /// Tells the time on the axis of expiries. What has expired by then need not be kept: before
    /// it is told for the first time, compaction keeps everything.
    pub fn tell_wall_ms(&mut self, wall_ms: u64) {
        self.compaction.wall_ms = wall_ms;
    }

    /// Has what was moved be durable, as an iteration that begins needs it; until it does begin,
    /// which is at once when this is done, nothing is moved. It fails while there is no room for
    /// what a failed flush has left.
    pub fn settle_moves(&mut self) -> Settled {
        // What a failed flush has left will be moved once more.
        let is_rewritten = self.stranded.is_empty() && self.durable_below() >= self.rewritten_below
            || base::mutant!("log_iterates_before_rewritten");
        if is_rewritten && self.are_copies_durable() || self.is_read_only() {
            return Settled::Done;
        }
        if self.check_rewriting().is_err() {
            return Settled::Failed;
        }
        self.compaction.held_until_ms = self.now_ms + HELD_MS;
        self.flush_copies();
        Settled::Pending
    }

    pub(super) fn is_held_up(&self) -> bool {
        self.is_read_only()
            || self.is_stopping
            || !self.stranded.is_empty()
            || self.is_wiping() && !base::mutant!("log_moves_while_wiping")
            || self.now_ms < self.compaction.held_until_ms
    }

    /// Whether something is being moved, or may be.
    pub(super) fn is_moving(&self) -> bool {
        let is_on = self.settings.space_target_percent > 0 && !self.is_read_only();
        is_on && self.may_save && (self.compaction.moving.is_some() || self.may_look())
    }

    fn may_look(&self) -> bool {
        // Who waits for room waits for whatever there is to be had.
        let shape = &self.manifest.shape;
        let most = match self.lacks_room() {
            true => (shape.segment_bytes / FULL_LOOK_AFTER).max(shape.block_bytes.into()),
            false => shape.segment_bytes / LOOK_AFTER,
        };
        self.compaction.may_look || self.compaction.dead_bytes >= most
    }

    /// Whether something can be done while a read is under way.
    fn has_turn(&self) -> bool {
        let moving = self.compaction.moving.as_ref();
        self.compaction.reading.is_none() || moving.is_some_and(Moving::has_turn)
    }

    /// Whether there is something to be moved, or a copy to be written, that nobody is at.
    pub(super) fn may_move(&self) -> bool {
        let is_asked = self.is_moving() && self.has_turn() && !self.is_left_to_writers();
        let is_free = !self.compaction.waits && !self.compaction.is_in_turns;
        is_asked && is_free && !self.is_held_up() || self.may_write_copies()
    }

    /// Whether all that is to be done is left to whoever puts next.
    fn is_left_to_writers(&self) -> bool {
        let Some(moving) = &self.compaction.moving else { return false };
        let wants_read = self.compaction.reading.is_none() && self.wants_read(moving).is_some();
        !wants_read && self.leaves_to_writers(moving)
    }

    /// Somebody else than whoever was given an action is about to ask for the next one.
    pub fn stay_in_turns(&mut self) {
        self.compaction.stay_in_turns();
    }

    /// The next action that moves something.
    pub(super) fn poll_moving(&mut self) -> Option<Plan> {
        self.compaction.is_in_turns = false;
        let copies = self.poll_copies();
        if copies.is_some() || self.is_held_up() || !self.has_turn() {
            return copies;
        }
        // Without an action: there may be copies to be written now, or a segment may be empty.
        self.take_turn().or_else(|| self.poll_copies()).or_else(|| self.poll_space())
    }

    /// The next action that moves something, but no turn: somebody else is at that.
    pub(super) fn poll_beside_moves(&mut self) -> Option<Plan> {
        let copies = self.poll_copies();
        if copies.is_some() || self.is_held_up() || self.compaction.reading.is_some() {
            return copies;
        }
        let mut moving = self.compaction.moving.take()?;
        let is_pinned = self.is_pinned(moving.victim);
        let read = if is_pinned { None } else { self.next_read(&mut moving) };
        self.compaction.moving = Some(moving);
        let Some(Next::Read(action, awaited)) = read else { return None };
        Some(self.begin_read(action, awaited))
    }

    fn begin_read(&mut self, action: Action, awaited: Awaited) -> Plan {
        self.compaction.reading = Some(awaited);
        Plan { token: self.token(Job::Moving), action }
    }

    /// Goes on with what is being moved, or begins with another segment. The next read, if there is
    /// one.
    fn take_turn(&mut self) -> Option<Plan> {
        if self.compaction.moving.is_none() {
            self.compaction.moving = self.begin_move();
        }
        let mut moving = self.compaction.moving.take()?;
        let next = match self.is_pinned(moving.victim) {
            true => Next::GiveUp,
            false => self.next_move(&mut moving),
        };
        if matches!(next, Next::Turn) {
            self.compaction.end_turn();
        }
        self.follow(moving, next)
    }

    /// Does what has come of a turn or a step. The next read, if there is one.
    fn follow(&mut self, moving: Moving, next: Next) -> Option<Plan> {
        match next {
            Next::Read(action, awaited) => {
                self.compaction.moving = Some(moving);
                return Some(self.begin_read(action, awaited));
            }
            Next::Wait if !self.may_take_copy_segment() => {
                // Nothing that is reported makes room.
                self.compaction.moving = Some(moving);
                self.give_up();
            }
            Next::Idle | Next::Turn => self.compaction.moving = Some(moving),
            Next::Wait => {
                if self.copies.tail.is_none() {
                    // A segment is to be emptied, for which what was put has to be flushed.
                    self.drain_upkeep(self.next_ticket);
                }
                self.compaction.moving = Some(moving);
                self.compaction.waits = true;
            }
            Next::GiveUp => {
                self.compaction.moving = Some(moving);
                self.give_up();
            }
            Next::Leave => self.leave(moving),
            Next::Done => {
                self.end_move(&moving);
                self.compaction.lists = moving.into_lists();
            }
        }
        None
    }

    /// Leaves a segment that cannot be read where it is.
    fn leave(&mut self, moving: Moving) {
        self.compaction.stuck.insert(moving.victim);
        self.compaction.moving = Some(moving);
        self.cancel_moves();
    }

    /// Everything that could be moved was.
    fn end_move(&mut self, moving: &Moving) {
        let is_left = self.segment(moving.victim).is_some_and(|segment| segment.live_bytes > 0);
        if is_left && !moving.is_stuck {
            if !moving.stays_for_reader && !moving.stayed_for_reader {
                // A large value has got its head meanwhile.
                return self.give_up();
            }
            if moving.stays_for_reader {
                // The same would be read again, and come to nothing.
                self.compaction.held.insert(moving.victim);
            }
            self.cancel_moves();
            return self.compaction.look_again();
        }
        if is_left {
            self.compaction.stuck.insert(moving.victim);
            self.forgive();
        } else {
            self.compaction.account.won_bytes += moving.dead_bytes;
            self.counts.segments_moved += 1;
            self.compaction.moved += 1;
        }
        self.compaction.unreported.ends += 1;
        self.compaction.look_again();
    }

    /// Gives up what is being moved: what was not moved yet stays where it is, and nothing is won.
    pub(super) fn cancel_moves(&mut self) {
        self.compaction.unreported.ends += 1;
        self.compaction.survey.note_change();
        self.compaction.end_moving();
        self.forgive();
        self.close_copy_chunk();
    }

    /// What has changed though nothing was reported.
    #[must_use]
    pub fn unreported(&self) -> Unreported {
        self.compaction.unreported
    }

    /// As if a move had ended without a report.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn note_end_of_move(&mut self) {
        self.compaction.unreported.ends += 1;
    }

    /// Has what was put below this ticket be flushed, because moves or an empty segment wait for
    /// that.
    pub(super) fn drain_upkeep(&mut self, below: u64) {
        if self.drain_below < below {
            self.drain_below = below;
            self.compaction.unreported.turns += 1;
        }
    }

    /// Gives up until something changes that a victim is chosen by.
    fn give_up(&mut self) {
        self.cancel_moves();
        self.compaction.may_look = false;
    }

    fn next_move(&mut self, moving: &mut Moving) -> Next {
        if self.compaction.reading.is_none()
            && let Some(next) = self.next_read(moving)
        {
            return next;
        }
        if self.leaves_to_writers(moving) {
            return Next::Idle;
        }
        if let Some(next) = self.move_some(moving, &TURN) {
            return next;
        }
        if self.compaction.reading.is_some() { Next::Idle } else { self.next_larges(moving) }
    }

    /// Looks the next entries of the footer up, or copies the next records that were read. `None`
    /// when neither can be done.
    fn move_some(&mut self, moving: &mut Moving, portion: &Portion) -> Option<Next> {
        if self.may_take_entries(moving) {
            self.take_entries(moving, portion);
            return Some(if moving.is_unreadable() { Next::Leave } else { Next::Turn });
        }
        let mut window = moving.windows.pop_front()?;
        let copied = self.copy_window(moving, &mut window, portion);
        if copied == Copied::All {
            self.compaction.keep_buffer(window.buffer);
        } else {
            moving.windows.push_front(window);
        }
        Some(if copied == Copied::NoRoom { Next::Wait } else { Next::Turn })
    }
}
