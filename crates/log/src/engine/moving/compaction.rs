//! What compaction is at, and when it looks for a segment to move.

use std::collections::BTreeSet;

use super::{Awaited, Lists, Moving, Steps};
use crate::{
    engine::{pacing::Account, survey::Survey},
    plan::{Buffer, SegmentId},
};

/// Counts of what has changed though nothing was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unreported {
    /// Moves that have ended, and looks that have found none to begin: who waits for room is to
    /// look again.
    pub ends: u64,
    /// Turns that were taken without an action, and flushes that have become due: who drives the
    /// log is to ask again what to do.
    pub turns: u64,
}

/// What compaction is at.
#[derive(Debug, Default)]
pub(in crate::engine) struct Compaction {
    pub(super) moving: Option<Moving>,
    /// Whether a read is under way, and of what.
    pub(super) reading: Option<Awaited>,
    /// What was read into, for the next reads, of the next segment too.
    pub(super) buffers: Vec<Buffer>,
    /// The lists of the move before this one.
    pub(super) lists: Lists,
    /// Whether something must be reported first.
    pub(super) waits: bool,
    /// Segments of which something cannot be moved.
    pub(super) stuck: BTreeSet<SegmentId>,
    /// Segments of which something cannot be moved as long as somebody reads where heads of large
    /// values lie.
    pub(super) held: BTreeSet<SegmentId>,
    /// The time on the axis of expiries; 0 while nobody has told it.
    pub(super) wall_ms: u64,
    /// Bytes that have died since a victim was looked for.
    pub(super) dead_bytes: u64,
    /// Whether something else has changed that a victim is chosen by.
    pub(super) may_look: bool,
    /// Segments that were moved since one was sealed that has no copies, or as much has died.
    pub(super) moved: usize,
    /// The most segments that there were since then: files are removed while segments are moved.
    pub(super) segments_max: usize,
    /// Bytes that have died since then, but for what was moved.
    pub(super) fresh_bytes: u64,
    /// What all segments come to.
    pub(in crate::engine) survey: Survey,
    pub(in crate::engine) account: Account,
    pub(super) unreported: Unreported,
    /// Whether somebody is about to take the next turn.
    pub(super) is_in_turns: bool,
    /// What whoever writes moves.
    pub(super) steps: Steps,
    /// Nothing is moved before this time: an iteration is about to begin.
    pub(super) held_until_ms: u64,
}

impl Compaction {
    /// Something has changed that a victim is chosen by.
    pub(in crate::engine) fn look_again(&mut self) {
        self.may_look = true;
        self.survey.note_change();
    }

    /// Somebody who has read segments does so no more.
    pub(in crate::engine) fn note_end_of_reading(&mut self) {
        self.held.clear();
        if let Some(moving) = &mut self.moving {
            moving.stayed_for_reader |= std::mem::take(&mut moving.stays_for_reader);
        }
        self.look_again();
    }

    /// A segment is sealed that has new records.
    pub(in crate::engine) fn note_sealed(&mut self) {
        self.moved = 0;
        self.segments_max = 0;
        self.fresh_bytes = 0;
        self.look_again();
    }

    /// How often as many segments as there are were moved since a segment with new records was
    /// sealed.
    pub(in crate::engine) fn rounds(&self) -> usize {
        self.moved / self.segments_max.max(1)
    }

    /// So many bytes of a segment are dead.
    pub(in crate::engine) fn note_dead(&mut self, bytes: u64) {
        self.dead_bytes += bytes;
        self.fresh_bytes += bytes;
    }

    /// So many bytes of a segment are dead because they were moved.
    pub(in crate::engine) fn note_moved(&mut self, bytes: u64) {
        self.dead_bytes = self.dead_bytes.saturating_sub(bytes);
        self.fresh_bytes = self.fresh_bytes.saturating_sub(bytes);
    }

    /// Whoever has held moves up has begun.
    pub(in crate::engine) fn release(&mut self) {
        self.held_until_ms = 0;
    }

    /// Whether puts may have to wait for what is being moved.
    pub(in crate::engine) fn is_worth_waiting(&self) -> bool {
        self.moving.as_ref().is_none_or(|moving| moving.is_worth_waiting)
    }

    /// What is being moved, if it is something.
    pub(in crate::engine) fn victim(&self) -> Option<SegmentId> {
        self.moving.as_ref().map(|moving| moving.victim)
    }

    /// What is won by that.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn victim_dead_bytes(&self) -> u64 {
        self.moving.as_ref().map_or(0, |moving| moving.dead_bytes)
    }

    /// Whether records were read that are to be copied.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn has_records(&self) -> bool {
        self.moving.as_ref().is_some_and(|moving| !moving.windows.is_empty())
    }

    /// Whether something of the footer is to be looked up.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn has_entries(&self) -> bool {
        self.moving.as_ref().is_some_and(Moving::has_entries)
    }

    /// Windows that were read and are not copied.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn windows(&self) -> usize {
        self.moving.as_ref().map_or(0, |moving| moving.windows.len())
    }

    /// Buffers that are read into, hold what was read, or are kept for the next reads.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn buffers(&self) -> usize {
        let held = self.moving.as_ref().map_or(0, |it| usize::from(it.piece.is_some()));
        self.buffers.len() + self.windows() + held + usize::from(self.reading.is_some())
    }

    /// Those of them that have more than so many bytes, if only of windows more is read.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn longer_buffers(&self, bytes: usize) -> usize {
        let is_longer = |buffer: &&Buffer| buffer.as_slice().len() > bytes;
        let of_windows = self.moving.iter().flat_map(|it| it.windows.iter().map(|it| &it.buffer));
        let is_out = matches!(self.reading, Some(Awaited::Window { .. }));
        let longer = self.buffers.iter().chain(of_windows).filter(is_longer).count();
        longer + usize::from(is_out)
    }

    /// For how many records there is room in what the last move has left.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn rooms_kept(&self) -> [usize; 3] {
        self.lists.rooms()
    }

    /// Whether something stays for somebody who reads.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn stays_for_reader(&self) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.stays_for_reader)
    }

    /// Large values that are noted to be moved.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(in crate::engine) fn larges(&self) -> usize {
        self.moving.as_ref().map_or(0, |moving| moving.larges.len())
    }

    /// The segment is used anew.
    pub(in crate::engine) fn forget(&mut self, segment: SegmentId) {
        self.stuck.remove(&segment);
        self.held.remove(&segment);
    }

    /// That was enough for one turn; whoever has taken it takes another one.
    pub(in crate::engine) fn end_turn(&mut self) {
        self.unreported.turns += 1;
        self.is_in_turns = true;
    }

    /// Whether somebody is about to take the next turn.
    pub(in crate::engine) fn is_in_turns(&self) -> bool {
        self.is_in_turns
    }

    /// Whoever has taken a turn may be away for long.
    pub(in crate::engine) fn leave_turns(&mut self) {
        self.is_in_turns = false;
    }

    /// Somebody else than whoever goes away takes the next turn.
    pub(super) fn stay_in_turns(&mut self) {
        self.is_in_turns = true;
    }

    /// Something was reported that moves may have waited for.
    pub(in crate::engine) fn go_on(&mut self) {
        self.waits = false;
    }

    /// Whether not all of the segment could be moved, and nothing has changed that.
    pub(in crate::engine) fn is_left_alone(&self, segment: SegmentId) -> bool {
        self.stuck.contains(&segment) || self.held.contains(&segment)
    }
}
