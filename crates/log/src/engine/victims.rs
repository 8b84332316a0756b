//! Which segment is compacted next: of all of them the one in which the least lives.

use super::{
    Engine,
    space::{RESERVE, Role, Segment},
};
use crate::{
    format::{manifest::Row, segment::footer_blocks},
    keys::Keys,
    plan::SegmentId,
};

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
    fn is_worth_moving(&self, live_bytes: u64, bytes: u64, may_pack: bool) -> bool {
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

/// The smallest sequences of values in two segments: below the first nothing is anywhere, and below
/// the second nothing in any segment but the one that has the first. An older tombstone brings
/// nothing back.
pub(super) struct Floor {
    first: (u64, SegmentId),
    second: u64,
}

impl Floor {
    /// The smallest sequence in any segment but this one.
    fn elsewhere(&self, id: SegmentId) -> u64 {
        if self.first.1 == id { self.second } else { self.first.0 }
    }
}

/// What is to be done for the log to take less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// What lives in this segment is moved.
    Move(SegmentId),
    /// The survivors' segment has the oldest values, and is sealed to be moved like any other.
    SealCopies,
}

/// What is said of all sealed segments.
#[derive(Default)]
pub(super) struct Sealed {
    pub(super) bytes: u64,
    /// Bytes of values that live.
    pub(super) values: u64,
    /// Bytes of tombstones that must stay.
    tombstones: u64,
    /// The one in which the least lives of those that are worth moving.
    best: Option<(u64, SegmentId)>,
}

impl<K: Keys> Engine<K> {
    /// What is to be done, if the log takes more than it should.
    pub(super) fn choose(&self) -> Option<Choice> {
        let floor = self.floor();
        let sealed = self.look_at_sealed(&floor);
        let percent = u64::from(self.settings.space_target_percent);
        let is_over = sealed.bytes * 100 > sealed.values * percent;
        // Heads of large values are written anew for each part: without an end, if it is not set.
        let rounds = self.compaction.moved() / self.manifest.rows.len().max(1);
        let has_end = rounds < if is_over { ROUNDS_MAX } else { 1 };
        if !has_end || !is_over && !self.lacks_room() {
            return None;
        }
        let fits = |live| self.fits_copies(live) || base::mutant!("log_victim_that_does_not_fit");
        if let Some((live, id)) = sealed.best {
            return fits(live).then_some(Choice::Move(id));
        }
        // Tombstones go when nothing that is older than they are lies elsewhere.
        if sealed.tombstones * 100 <= sealed.values * TOMBSTONE_PERCENT_MAX {
            return None;
        }
        let id = floor.first.1;
        if self.copies.tail.as_ref().is_some_and(|tail| tail.segment == id) {
            return Some(Choice::SealCopies);
        }
        let segment = self.segment(id).filter(|segment| self.may_move_out(id, segment))?;
        // What was moved out of it may not be flushed yet.
        if segment.live_bytes == 0 {
            return None;
        }
        let live = segment.share(segment.live_bytes, self.manifest.shape.segment_bytes);
        fits(live).then_some(Choice::Move(id))
    }

    pub(super) fn look_at_sealed(&self, floor: &Floor) -> Sealed {
        let bytes = self.manifest.shape.segment_bytes;
        let mut sealed = Sealed::default();
        // Copies may not lie closer than what they are copies of: none is packed for ever.
        let may_pack = self.compaction.moved() < self.manifest.rows.len();
        for Row { segment: id, .. } in &self.manifest.rows {
            let Some(segment) = self.segment(*id).filter(|it| it.role == Role::Sealed) else {
                continue;
            };
            if segment.live_bytes == 0 && segment.may_be_freed {
                continue;
            }
            let values = segment.live_bytes.saturating_sub(segment.tombstone_bytes);
            let tombstones = self.staying_tombstones(*id, segment, floor);
            let live = segment.share(values + tombstones, bytes);
            sealed.bytes += bytes;
            sealed.values += segment.share(values, bytes);
            sealed.tombstones += segment.share(tombstones, bytes);
            let is_worth_it = segment.is_worth_moving(values + tombstones, bytes, may_pack);
            let is_better = sealed.best.is_none_or(|(least, _)| live < least);
            if is_worth_it && is_better && self.may_move_out(*id, segment) {
                sealed.best = Some((live, *id));
            }
        }
        sealed
    }

    fn may_move_out(&self, id: SegmentId, segment: &Segment) -> bool {
        let is_whole = segment.role == Role::Sealed && segment.may_be_freed;
        is_whole && !self.is_pinned(id) && !self.compaction.is_stuck(id)
    }

    /// Whether no segment can be made.
    pub(super) fn lacks_room(&self) -> bool {
        let has_failed = self.retry_at_ms != 0 || self.segments_left() == 0;
        has_failed && self.free.len() <= self.put_reserve()
    }

    /// Bytes of tombstones that may not vanish.
    fn staying_tombstones(&self, id: SegmentId, segment: &Segment, floor: &Floor) -> u64 {
        let may_vanish = segment.greatest_tombstone < floor.elsewhere(id);
        if may_vanish { 0 } else { segment.tombstone_bytes }
    }

    /// Whether copies of so many bytes have room in the survivors' segment and in empty ones.
    fn fits_copies(&self, live_bytes: u64) -> bool {
        let shape = &self.manifest.shape;
        let left = self.copies.tail.as_ref().map_or(0, |tail| {
            let footer = footer_blocks(tail.listed.len(), shape.block_bytes) + 1;
            let taken = tail.end() + footer * u64::from(shape.block_bytes);
            shape.segment_bytes.saturating_sub(taken)
        });
        let empty = self.free.len().saturating_sub(RESERVE) as u64 * shape.segment_bytes;
        live_bytes * GROWTH_PERCENT / 100 <= left + empty
    }

    /// The smallest sequence of a value in any other segment.
    pub(super) fn smallest_elsewhere(&self, id: SegmentId) -> u64 {
        self.floor().elsewhere(id)
    }

    pub(super) fn floor(&self) -> Floor {
        let mut floor = Floor { first: (u64::MAX, SegmentId(u32::MAX)), second: u64::MAX };
        for Row { segment: id, .. } in &self.manifest.rows {
            let smallest = self.smallest_of(*id);
            if smallest < floor.first.0 {
                floor.second = floor.first.0;
                floor.first = (smallest, *id);
            } else {
                floor.second = floor.second.min(smallest);
            }
        }
        floor
    }

    /// The smallest sequence of a value in a segment.
    fn smallest_of(&self, id: SegmentId) -> u64 {
        match self.segment(id) {
            // What cannot be found may come back.
            None => 1,
            Some(segment) if segment.role == Role::Free => u64::MAX,
            Some(segment)
                if segment.role == Role::Unlisted && base::mutant!("log_failed_uncounted") =>
            {
                u64::MAX
            }
            Some(segment) => {
                let mut tails = self.tails().filter(|_| segment.role == Role::Open);
                let tail = tails.find(|tail| tail.segment == id);
                // A failed flush may have left anything, and so may what cannot be read. One
                // without a record may be of a generation that a copy of its header lacks.
                let is_known = segment.may_be_freed && (segment.all_bytes > 0 || tail.is_some());
                if !is_known {
                    return 1;
                }
                let own = tail.map_or(0, |tail| tail.listed.begun());
                let both = [own, segment.begun].into_iter();
                both.filter(|sequence| *sequence != 0).min().unwrap_or(u64::MAX)
            }
        }
    }
}
