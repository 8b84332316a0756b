//! What all segments come to: how much lives in them, and which of them is best moved.
//!
//! There may be 65,536 of them. They are looked at in steps, so that nobody holds the lock for
//! long, and what they come to is kept until something changes by a segment: a put asks for no more
//! than a step. What changes meanwhile counts the next time, but for what lives of values, which is
//! kept up.
//!
//! Invariant: no segment has an older value than the floor says. It is forgotten when one may have.

use super::{
    Engine,
    space::{Role, Segment},
};
use crate::{keys::Keys, plan::SegmentId};

/// Segments that are looked at in one step: some 50 us, when none of it is in a cache. In a log
/// with half as many every look is a whole one.
const LOOKED_AT_MAX: usize = if cfg!(test) { 64 } else { 4096 };

/// The smallest sequences of values in two segments: below the first nothing is anywhere, and below
/// the second nothing in any segment but the one that has the first. An older tombstone brings
/// nothing back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    first: (u64, SegmentId),
    second: u64,
}

impl Floor {
    /// Where nothing is yet: what comes has this sequence or a greater one.
    fn of_none(next_sequence: u64) -> Self {
        Self { first: (next_sequence, SegmentId(u32::MAX)), second: next_sequence }
    }

    fn add(&mut self, smallest: u64, id: SegmentId) {
        if smallest < self.first.0 {
            self.second = self.first.0;
            self.first = (smallest, id);
        } else {
            self.second = self.second.min(smallest);
        }
    }

    /// The smallest sequence in any segment but this one.
    fn elsewhere(&self, id: SegmentId) -> u64 {
        if self.first.1 == id { self.second } else { self.first.0 }
    }
}

/// A segment that may be moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: SegmentId,
    /// How much copies of what lives in it would take.
    pub(super) live_bytes: u64,
    /// How much is won for what that costs.
    gain: f64,
}

/// What is said of all sealed segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sealed {
    pub(super) bytes: u64,
    /// Bytes of values that live.
    pub(super) values: u64,
    /// Bytes of all records, by size classes, and what these would take side by side.
    all_bytes: u64,
    packed_bytes: u64,
    /// Bytes of tombstones that must stay.
    pub(super) tombstones: u64,
    /// The one in which the least lives of those that are worth moving.
    pub(super) least: Option<Candidate>,
    /// The one by which the most is won for what its move costs.
    pub(super) best: Option<Candidate>,
    /// The segment, if any, that has the oldest value.
    pub(super) oldest: Option<SegmentId>,
    /// Of a ring: the sealed one that has the oldest record, and its sequence. It is dropped next.
    pub(super) first: Option<(u64, SegmentId)>,
}

/// A look at all segments.
#[derive(Debug)]
struct Look {
    /// The next segment.
    next: usize,
    floor: Floor,
    /// Begun when the floor is known.
    sealed: Option<Sealed>,
    /// As that of the survey, of segments that were looked at for `sealed` already.
    living: i64,
}

/// What all segments have come to.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// A look that is not done.
    look: Option<Look>,
    floor: Option<Floor>,
    sealed: Option<Sealed>,
    /// Something has changed since the last look was begun.
    is_outdated: bool,
    /// By how many bytes, by size classes, more lives of values in sealed segments than when each
    /// was looked at for `sealed`.
    living: i64,
}

impl Survey {
    /// Something has changed by a segment.
    pub(super) fn note_change(&mut self) {
        self.is_outdated = true;
    }

    /// A segment may have an older value than when it was looked at.
    pub(super) fn forget_floor(&mut self) {
        let (sealed, living) = (self.sealed, self.living);
        *self = Self { sealed, living, is_outdated: true, ..Self::default() };
    }

    /// Whether something has changed since the last look was begun.
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Whether a look is under way.
    pub(super) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// As of the last look that is done.
    pub(super) fn sealed(&self) -> Option<Sealed> {
        self.sealed
    }

    /// So many bytes more live of values in a sealed segment, or less.
    pub(super) fn note_living(&mut self, id: SegmentId, bytes: i64) {
        self.living += bytes;
        let look = self.look.as_mut().filter(|look| look.sealed.is_some());
        if let Some(look) = look.filter(|look| (id.0 as usize) < look.next) {
            look.living += bytes;
        }
    }

    /// How much copies would take of the values that live in these sealed segments now: what has
    /// changed since they were looked at takes its share of what all their records come to.
    pub(super) fn values_now(&self, sealed: &Sealed) -> u64 {
        let part = u128::from(self.living.unsigned_abs()) * u128::from(sealed.packed_bytes);
        let part = u64::try_from(part / u128::from(sealed.all_bytes.max(1))).unwrap_or(u64::MAX);
        if base::mutant!("log_dead_since_the_look_lives") {
            return sealed.values;
        }
        match self.living {
            0.. => sealed.values.saturating_add(part),
            _ => sealed.values.saturating_sub(part),
        }
    }
}

impl<K: Keys> Engine<K> {
    /// What all segments come to; `None` when not all were looked at: the next call goes on.
    pub(super) fn survey(&mut self) -> Option<Sealed> {
        let survey = &mut self.compaction.survey;
        if survey.look.is_none() && !survey.is_outdated && survey.sealed.is_some() {
            return survey.sealed;
        }
        let mut look = survey.look.take().unwrap_or_else(|| {
            survey.is_outdated = false;
            Look { next: 0, floor: Floor::of_none(self.next_sequence), sealed: None, living: 0 }
        });
        let mut left = LOOKED_AT_MAX;
        while left > 0 {
            let end = self.segments.len().min(look.next + left);
            left -= end - look.next;
            let ids = (look.next..end).filter_map(|id| u32::try_from(id).ok().map(SegmentId));
            match &mut look.sealed {
                None => ids.for_each(|id| look.floor.add(self.smallest_of(id), id)),
                Some(sealed) => ids.for_each(|id| self.add_sealed(id, &look.floor, sealed)),
            }
            look.next = end;
            if end < self.segments.len() {
                continue;
            }
            let oldest = Some(look.floor.first.1).filter(|id| id.0 != u32::MAX);
            look.next = 0;
            let Some(sealed) = look.sealed.replace(Sealed { oldest, ..Sealed::default() }) else {
                continue;
            };
            let survey = &mut self.compaction.survey;
            (survey.floor, survey.sealed) = (Some(look.floor), Some(sealed));
            let is_lost = base::mutant!("log_dead_during_the_look_live");
            survey.living = if is_lost { 0 } else { look.living };
            return Some(sealed);
        }
        self.compaction.survey.look = Some(look);
        None
    }

    fn add_sealed(&self, id: SegmentId, floor: &Floor, sealed: &mut Sealed) {
        let bytes = self.manifest.shape.segment_bytes;
        let Some(segment) = self.segment(id).filter(|it| it.role == Role::Sealed) else { return };
        let is_victim = self.compaction.victim() == Some(id);
        // One that is being moved is not free before that is done.
        if segment.live_bytes == 0 && segment.may_be_freed && !is_victim {
            return;
        }
        let oldest = match segment.smallest_value {
            0 => segment.greatest_tombstone,
            value => value,
        };
        let is_first = sealed.first.is_none_or(|(first, _)| oldest < first);
        if self.settings.ring.is_some() && is_first && self.may_move_out(id, segment) {
            sealed.first = Some((oldest, id));
        }
        let values = segment.live_bytes.saturating_sub(segment.tombstone_bytes);
        let tombstones = staying_tombstones(id, segment, floor);
        let live = segment.share(values + tombstones, bytes);
        sealed.bytes += bytes;
        sealed.values += segment.share(values, bytes);
        sealed.all_bytes += segment.all_bytes;
        sealed.packed_bytes += segment.packed_bytes.min(bytes);
        sealed.tombstones += segment.share(tombstones, bytes);
        // Copies may not lie closer than what they are copies of: none is packed for ever.
        let may_pack = self.compaction.rounds() == 0;
        let is_worth_it = segment.is_worth_moving(values + tombstones, bytes, may_pack);
        if !is_worth_it || !self.may_move_out(id, segment) {
            return;
        }
        let is_blind = base::mutant!("log_victim_of_any_age");
        let gain = gain_of_move(live, bytes, if is_blind { 0 } else { self.age_of(segment) });
        let candidate = Candidate { id, live_bytes: live, gain };
        if sealed.least.is_none_or(|least| live < least.live_bytes) {
            sealed.least = Some(candidate);
        }
        if sealed.best.is_none_or(|best| gain > best.gain) {
            sealed.best = Some(candidate);
        }
    }

    /// Sequences that were drawn since the first value or head of a segment; 0 of one without any.
    /// Nobody knows how many a run before this one drew: what is of such a one is as old as this
    /// one.
    pub(super) fn age_of(&self, segment: &Segment) -> u64 {
        if segment.begun == 0 {
            return 0;
        }
        self.next_sequence.saturating_sub(segment.begun.max(self.run_begins()))
    }

    /// Live bytes of a segment, by size classes, but for tombstones that may vanish: as of the last
    /// look.
    pub(super) fn staying_bytes(&self, id: SegmentId, segment: &Segment) -> u64 {
        let floor = self.compaction.survey.floor;
        let tombstones =
            floor.map_or(segment.tombstone_bytes, |floor| staying_tombstones(id, segment, &floor));
        segment.live_bytes.saturating_sub(segment.tombstone_bytes) + tombstones
    }

    /// No other segment has a value with a smaller sequence than this.
    pub(super) fn smallest_elsewhere(&self, id: SegmentId) -> u64 {
        if base::mutant!("log_tombstone_by_file_number") {
            let older = (0..id.0).map(|older| self.smallest_of(SegmentId(older)));
            return older.min().unwrap_or(u64::MAX);
        }
        let found = self.compaction.survey.floor.map_or(0, |floor| floor.elsewhere(id));
        debug_assert!(found <= self.sweep().elsewhere(id), "older values have come in elsewhere");
        found
    }

    /// The floor as it is now.
    fn sweep(&self) -> Floor {
        let mut floor = Floor::of_none(self.next_sequence);
        let ids = (0..self.segments.len()).filter_map(|id| u32::try_from(id).ok().map(SegmentId));
        ids.for_each(|id| floor.add(self.smallest_of(id), id));
        floor
    }

    /// The smallest sequence of a value in a segment.
    fn smallest_of(&self, id: SegmentId) -> u64 {
        match self.segment(id) {
            // What cannot be found may come back, and nobody has the number of what was removed.
            None => {
                let row = self.manifest.rows.binary_search_by_key(&id, |row| row.segment);
                row.map_or(u64::MAX, |_| 1)
            }
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
                let own = tail.map_or(0, |tail| tail.listed.smallest_value());
                let both = [own, segment.smallest_value].into_iter();
                both.filter(|sequence| *sequence != 0).min().unwrap_or(u64::MAX)
            }
        }
    }
}

/// How much is won by the move of a segment for what it costs: what is dead in it, by what has to
/// be copied. What is old and still lives will live long, so its move lasts, and in what is new
/// more dies soon: hence the age (Rosenblum and Ousterhout, "The Design and Implementation of a
/// Log-Structured File System", 1992, section 3.6; theirs is that of the youngest data, and not its
/// root, by which an old segment that is nearly all alive does not come before all others).
#[allow(clippy::cast_precision_loss)] // a choice, not a sum
fn gain_of_move(live_bytes: u64, bytes: u64, age: u64) -> f64 {
    let dead_bytes = bytes.saturating_sub(live_bytes);
    dead_bytes as f64 / live_bytes.max(1) as f64 * ((age + 1) as f64).sqrt()
}

/// Bytes of tombstones that may not vanish.
fn staying_tombstones(id: SegmentId, segment: &Segment, floor: &Floor) -> u64 {
    let may_vanish = segment.greatest_tombstone < floor.elsewhere(id);
    if may_vanish { 0 } else { segment.tombstone_bytes }
}
