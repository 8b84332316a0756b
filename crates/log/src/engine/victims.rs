//! Which segment is compacted next: of all of them the one by which the most is won.

use super::{
    Engine,
    space::{Role, Segment},
    survey::{Candidate, Sealed},
};
use crate::{format::segment::footer_blocks, keys::Keys, plan::SegmentId};

/// The most of a segment that may live for it to be worth moving, in percent: of all its records.
/// When these fill less than half of it, it is moved also if all of them live.
const LIVE_PERCENT_MAX: u64 = 90;

/// The most that tombstones which must stay may come to, in percent of the values. Above it the
/// oldest values are moved, until they are newer than the tombstones, and these can go.
const TOMBSTONE_PERCENT_MAX: u64 = 5;

/// How often all segments may be moved until new records have filled one, or as much has died.
const ROUNDS_MAX: usize = 2;

/// How much longer a copy may be than the record, in percent: by its token.
const GROWTH_PERCENT: u64 = 150;

impl Segment {
    /// Whether enough of it is dead when so many bytes live. They may fill less than the segment
    /// for other reasons, which copies have as well.
    pub(super) fn is_worth_moving(&self, live_bytes: u64, bytes: u64, may_pack: bool) -> bool {
        let is_dead = live_bytes * 100 <= self.all_bytes * LIVE_PERCENT_MAX;
        let live = self.share(live_bytes, bytes);
        (is_dead || may_pack && self.packed_bytes < bytes / 2)
            && live * 100 <= bytes * LIVE_PERCENT_MAX
    }

    /// How much of the segment, which has so many bytes, copies of what lives would take. Size
    /// classes are wider than records, so it is the share of what all records come to by them.
    pub(super) fn share(&self, live_bytes: u64, bytes: u64) -> u64 {
        if self.all_bytes == 0 {
            return live_bytes.min(bytes);
        }
        let packed_bytes = self.packed_bytes.min(bytes);
        let share = u128::from(packed_bytes) * u128::from(live_bytes) / u128::from(self.all_bytes);
        u64::try_from(share).unwrap_or(bytes).min(bytes)
    }
}

/// What is to be done for the log to take less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// What lives in this segment is moved.
    Move(SegmentId),
    /// The survivors' segment has the oldest values, and is sealed to be moved like any other.
    SealCopies,
    /// Nothing can be.
    Nothing,
    /// Not all segments were looked at since something has changed.
    LookOn,
}

impl<K: Keys> Engine<K> {
    /// What is to be done, if the log takes more than it should.
    pub(super) fn choose(&mut self) -> Choice {
        let Some(sealed) = self.survey() else { return Choice::LookOn };
        if let Some(ring) = self.settings.ring {
            return self.choose_oldest(ring, &sealed);
        }
        let percent = u64::from(self.settings.space_target_percent);
        let is_over = sealed.bytes * 100 > sealed.values * percent;
        // Heads of large values are written anew for each part: without an end, if it is not set.
        let has_end = self.compaction.rounds() < if is_over { ROUNDS_MAX } else { 1 };
        if !has_end || !is_over && !self.lacks_room() {
            return Choice::Nothing;
        }
        if let Some(Candidate { id, live_bytes, .. }) = self.candidate(&sealed) {
            let segment = self.segment(id).filter(|segment| self.may_move_out(id, segment));
            // Somebody may read it since.
            if segment.is_none_or(|segment| segment.live_bytes == 0) {
                self.compaction.look_again();
                return Choice::LookOn;
            }
            return self.move_if_it_fits(id, live_bytes);
        }
        // Tombstones go when nothing that is older than they are lies elsewhere.
        let Some(id) = sealed.oldest else { return Choice::Nothing };
        if sealed.tombstones * 100 <= sealed.values * TOMBSTONE_PERCENT_MAX {
            return Choice::Nothing;
        }
        if self.copies.tail.as_ref().is_some_and(|tail| tail.segment == id) {
            return Choice::SealCopies;
        }
        let segment = self.segment(id).filter(|segment| self.may_move_out(id, segment));
        // What was moved out of it may not be flushed yet.
        match segment.filter(|segment| segment.live_bytes > 0) {
            Some(segment) => {
                let live = segment.share(segment.live_bytes, self.manifest.shape.segment_bytes);
                self.move_if_it_fits(id, live)
            }
            None => Choice::Nothing,
        }
    }

    /// The segment by whose move the most is won, if its copies have room. If not, or where puts
    /// have none, the one in which the least lives, whether it fits or not.
    fn candidate(&self, sealed: &Sealed) -> Option<Candidate> {
        let lacks_room = self.lacks_room() && !base::mutant!("log_full_disk_moves_the_old");
        let fits = |best: &Candidate| {
            self.fits_copies(best.live_bytes) || base::mutant!("log_best_that_does_not_fit")
        };
        let best = sealed.best.filter(|best| !lacks_room && fits(best));
        best.or(sealed.least)
    }

    fn move_if_it_fits(&self, id: SegmentId, live_bytes: u64) -> Choice {
        let fits = self.fits_copies(live_bytes) || base::mutant!("log_victim_that_does_not_fit");
        if fits { Choice::Move(id) } else { Choice::Nothing }
    }

    pub(super) fn may_move_out(&self, id: SegmentId, segment: &Segment) -> bool {
        let is_whole = segment.role == Role::Sealed && segment.may_be_freed;
        is_whole && !self.is_pinned(id) && !self.compaction.is_left_alone(id)
    }

    /// Whether no segment can be made, and puts have none left.
    pub fn lacks_room(&self) -> bool {
        let has_failed = self.attempts.are_refused() || self.segments_left() == 0;
        has_failed && self.free.len() <= self.put_reserve()
    }

    /// Whether copies of so many bytes have room in the survivors' segment and in empty ones.
    fn fits_copies(&self, live_bytes: u64) -> bool {
        let shape = &self.manifest.shape;
        let left = self.copies.tail.as_ref().map_or(0, |tail| {
            let footer = footer_blocks(tail.listed.len(), shape.block_bytes) + 1;
            let taken = tail.end() + footer * u64::from(shape.block_bytes);
            shape.segment_bytes.saturating_sub(taken)
        });
        let empty = self.free.len().saturating_sub(self.left_by_copies()) as u64;
        let empty = empty * shape.segment_bytes;
        live_bytes * GROWTH_PERCENT / 100 <= left + empty
    }
}
