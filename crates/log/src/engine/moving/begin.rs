//! What is being moved: which segment, and how far that is.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Engine, LARGES_MAX,
    large::Large,
    progress::Progress,
    window::{Piece, Window},
};
use crate::{
    engine::{Pin, victims::Choice},
    format::{KeyHash, Seed, segment::Listed},
    keys::Keys,
    plan::{File, SegmentId},
};

/// Records for which a list keeps its room from one move to the next.
const LISTED_KEPT: usize = 8192;

/// A segment out of which what lives is being moved.
///
/// Its footer is read a piece at a time. What a piece lists is looked up, and what of it lives is
/// put behind what is to be moved already; of this, windows are read and copied in their order.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) victim: SegmentId,
    /// What is won when all of it is moved.
    pub(super) dead_bytes: u64,
    /// Whether that is enough for puts to wait for it. The oldest values are moved also if all of
    /// them live: what is won by that is tombstones elsewhere, and later.
    pub(super) is_worth_waiting: bool,
    pub(super) file: File,
    pub(super) seed: Seed,
    /// Its file stays.
    _pin: Pin,
    /// Bytes of a record, on average, by the trailer.
    pub(super) record_bytes: u64,
    pub(super) progress: Progress,
    /// Where the records end, and blocks of the footer.
    pub(super) footer: Option<(u64, u64)>,
    /// The next block of it that is to be read.
    pub(super) next_block: u64,
    /// What was read of it.
    pub(super) piece: Option<Piece>,
    /// What a block of that lists, and is to be looked up.
    pub(super) entries: VecDeque<Listed>,
    /// What of that is to be moved, until all of it is looked up: in the order in which it lies.
    pub(super) found: Vec<Listed>,
    /// What is to be moved, in the order in which it is.
    pub(super) listed: VecDeque<Listed>,
    /// How many parts of large values there are among these two.
    pub(super) parts: usize,
    /// How many of the latter, the first ones, are in windows, or in the one that is being read.
    pub(super) planned: usize,
    /// What was read of the records and is not copied.
    pub(super) windows: VecDeque<Window>,
    /// Large values of which parts, or the head, lie in the segment.
    pub(super) larges: BTreeMap<KeyHash, Large>,
    pub(super) short_reads: u32,
    /// Something in it is damaged.
    pub(super) is_stuck: bool,
    /// Somebody reads where the head of a large value lies that has parts in it: these stay.
    pub(super) stays_for_reader: bool,
    /// Parts have stayed for somebody who has ended since.
    pub(super) stayed_for_reader: bool,
}

/// The lists of a move, empty, for the next one: memory that is new to the process may take
/// milliseconds to come, and nobody else has the log meanwhile.
#[derive(Debug, Default)]
pub(super) struct Lists {
    entries: VecDeque<Listed>,
    found: Vec<Listed>,
    listed: VecDeque<Listed>,
}

impl Lists {
    /// For how many records there is room in each.
    #[cfg(test)]
    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn rooms(&self) -> [usize; 3] {
        [self.entries.capacity(), self.found.capacity(), self.listed.capacity()]
    }
}

impl Moving {
    /// What is left of it for the next one. A list takes no more than pieces of two footers.
    pub(super) fn into_lists(self) -> Lists {
        let (mut entries, mut found, mut listed) = (self.entries, self.found, self.listed);
        for list in [&mut entries, &mut listed] {
            list.clear();
            // Of a ring that recovers it was all that a segment lists.
            list.shrink_to(LISTED_KEPT);
        }
        found.clear();
        Lists { entries, found, listed }
    }

    /// Notes that a record is to be moved. Most come in the order in which they lie. Others are put
    /// in between rather than have somebody wait until all of them are sorted: a footer is read in
    /// pieces, so at most 64 KiB of the list make room.
    pub(super) fn note_found(&mut self, listed: Listed) {
        insert_in_order(&mut self.found, listed);
    }

    /// Whether there is something to be looked up or copied.
    pub(super) fn has_turn(&self) -> bool {
        self.has_entries() || !self.windows.is_empty()
    }

    /// Whether something of the footer is to be looked up.
    pub(super) fn has_entries(&self) -> bool {
        !self.entries.is_empty() || self.piece.is_some()
    }

    /// Whether blocks of the footer were not decoded yet.
    pub(super) fn has_blocks_left(&self) -> bool {
        let is_read = self.footer.is_none_or(|(_, blocks)| blocks == self.next_block);
        !is_read || self.piece.is_some()
    }

    /// Whether as many large values are noted, or will be, as may be at a time.
    pub(super) fn has_many_larges(&self) -> bool {
        self.larges.len() + self.parts >= LARGES_MAX
    }

    /// Of so many entries that were looked up nothing is to be copied.
    pub(super) fn note_dead(&mut self, entries: usize) {
        self.progress.note_dead(entries as u64 * self.record_bytes);
    }

    /// The next record of what is to be moved was.
    pub(super) fn note_moved(&mut self) {
        self.progress.note_moved(self.record_bytes, self.listed.len() + self.found.len());
        self.planned -= 1;
        self.listed.pop_front();
    }

    /// All that was read of the footer is looked up.
    pub(super) fn end_looks(&mut self) {
        self.listed.extend(self.found.drain(..));
        if self.listed.is_empty() {
            self.progress.release();
        }
    }

    /// What is to be moved and in no window.
    pub(super) fn unplanned(&self) -> usize {
        self.listed.len() - self.planned
    }
}

fn insert_in_order(all: &mut Vec<Listed>, listed: Listed) {
    if all.last().is_none_or(|last| last.unit < listed.unit) || base::mutant!("log_found_unsorted")
    {
        return all.push(listed);
    }
    let at = all.partition_point(|other| other.unit < listed.unit);
    all.insert(at, listed);
}

impl<K: Keys> Engine<K> {
    /// Whether something is being moved, if need be by choosing it now.
    pub(in crate::engine) fn finds_victim(&mut self) -> bool {
        let is_free =
            self.compaction.reading.is_none() || base::mutant!("log_move_begun_during_a_read");
        if self.compaction.moving.is_none() && is_free {
            self.compaction.moving = self.begin_move();
        }
        self.compaction.moving.is_some()
    }

    /// How much of what is won by the move that is under way is won.
    pub(in crate::engine) fn won_so_far_bytes(&self) -> u64 {
        let dead_bytes = self.compaction.moving.as_ref().map_or(0, |moving| moving.dead_bytes);
        self.moved_out_of(dead_bytes)
    }

    /// How much of the segment that is being moved, with so many bytes, is behind the move.
    pub(in crate::engine) fn moved_out_of(&self, bytes: u64) -> u64 {
        let Some(moving) = &self.compaction.moving else { return 0 };
        let Some((records_end, _)) = moving.footer else { return 0 };
        let part = u128::from(bytes) * u128::from(moving.progress.passed_bytes())
            / u128::from(records_end.max(1));
        u64::try_from(part).unwrap_or(0).min(bytes)
    }

    /// Chooses a segment, if the log takes more than it should.
    pub(super) fn begin_move(&mut self) -> Option<Moving> {
        let is_on = self.settings.space_target_percent > 0;
        // What is lost may come back, and a copy's new sequence would pass for newer.
        let may_move = self.may_save || base::mutant!("log_move_in_spite_of_damage");
        if !is_on || !may_move || !self.may_look() {
            return None;
        }
        if !self.compaction.may_look {
            // Enough has died.
            self.compaction.look_again();
        }
        self.compaction.dead_bytes = 0;
        if self.compaction.fresh_bytes >= self.manifest.shape.segment_bytes {
            self.compaction.note_sealed();
        }
        let segments = self.manifest.rows.len();
        self.compaction.segments_max = self.compaction.segments_max.max(segments);
        let id = match self.choose() {
            Choice::Move(id) => id,
            Choice::SealCopies => {
                self.compaction.may_look = self.close_copies();
                self.compaction.unreported.turns += 1;
                return None;
            }
            Choice::Nothing => {
                self.compaction.may_look = self.compaction.survey.is_outdated();
                self.compaction.unreported.ends += 1;
                return None;
            }
            Choice::LookOn => {
                self.compaction.unreported.turns += 1;
                return None;
            }
        };
        self.new_move(id)
    }

    fn new_move(&mut self, id: SegmentId) -> Option<Moving> {
        let segment = self.segment(id)?;
        let bytes = self.manifest.shape.segment_bytes;
        let staying_bytes = self.staying_bytes(id, segment);
        let is_worth_waiting = segment.is_worth_moving(staying_bytes, bytes, true)
            || base::mutant!("log_puts_wait_for_nothing");
        let file = segment.file(id);
        let (seed, pin) = (segment.seed, segment.pin.clone());
        let dead_bytes = bytes - segment.share(staying_bytes, bytes);
        let Lists { entries, found, listed } = std::mem::take(&mut self.compaction.lists);
        Some(Moving {
            dead_bytes,
            is_worth_waiting,
            victim: id,
            file,
            seed,
            _pin: pin,
            record_bytes: bytes,
            progress: Progress::default(),
            footer: None,
            next_block: 0,
            piece: None,
            entries,
            found,
            listed,
            parts: 0,
            planned: 0,
            windows: VecDeque::new(),
            larges: BTreeMap::new(),
            short_reads: 0,
            is_stuck: false,
            stays_for_reader: false,
            stayed_for_reader: false,
        })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::format::record::Kind;

    #[test]
    fn what_is_found_in_any_order_is_in_the_order_in_which_it_lies() {
        let mut all = Vec::new();
        for unit in [4, 9, 6, 1, 12, 5, 11] {
            let hash = KeyHash(1);
            let listed = Listed { hash, sequence: 7, unit, kind: Kind::Value, class: 4, part: 0 };
            insert_in_order(&mut all, listed);
        }
        let units: Vec<u32> = all.iter().map(|listed| listed.unit).collect();
        assert_eq!(units, [1, 4, 5, 6, 9, 11, 12], "what is found is moved in no order");
    }
}
