//! A ring: a log that drops its oldest segment when there is room for no more.
//!
//! Nothing is moved. Entries that lead to the segment are taken out of the index, by its footer,
//! and it is freed like any other without live records.
//!
//! Invariants:
//! 1. A segment is used anew only when no entry leads to it, and nobody reads it.
//! 2. Where the ring recovers, a record is dropped only if nothing older is anywhere else: what it
//!    has overwritten cannot come back after a crash.
//! 3. And a key that is removed while a segment of which something was dropped is still on the disk
//!    gets a tombstone, whether the index has it or not: what was dropped could come back, too.
//! 4. Such a time ends: of a segment whose footer cannot be read nothing is dropped, and its header
//!    is tried again until it is written, while others are freed.

use super::{
    Engine, Ring,
    space::{Role, Segment},
    survey::Sealed,
    victims::Choice,
};
use crate::{
    error::Error,
    format::{manifest::RUN_SEQUENCES, record::Kind, segment::Listed},
    keys::Keys,
    plan::SegmentId,
    position::Entry,
};

impl<K: Keys> Engine<K> {
    /// Whether something of a key may be found: its newest record is a value.
    pub fn has(&self, key: &[u8]) -> bool {
        self.knows(key) == Some(true)
    }

    /// Whether the key's newest record is a value; `None` if [`Engine::remove`] has nothing to
    /// write or to wait for.
    pub fn knows(&self, key: &[u8]) -> Option<bool> {
        let entry = self.index.hash(key).ok().and_then(|hash| self.index.get(hash));
        let has = entry.is_some_and(|entry| !entry.class.is_tombstone());
        (entry.is_some() || self.is_dropping()).then_some(has)
    }

    /// Whether any key has an entry.
    pub fn has_records(&self) -> bool {
        self.segments.iter().flatten().any(|segment| segment.live_bytes > 0)
    }

    /// Whether everything that was on the disk was found by the open. If not, what is lost may come
    /// back, and nothing is dropped.
    pub fn is_whole(&self) -> bool {
        self.may_save
    }

    /// Takes a key out of a ring that does not recover: nothing is written, also when nothing can
    /// be. Says whether there was a value.
    ///
    /// # Errors
    /// When the key is none of the log's.
    pub fn drop_key(&mut self, key: &[u8]) -> Result<bool, Error> {
        let hash = self.index.hash(key)?;
        let Some(entry) = self.index.get(hash) else { return Ok(false) };
        self.forget(hash, entry);
        Ok(!entry.class.is_tombstone())
    }

    /// How the ring is run, if it is one.
    pub fn ring(&self) -> Option<Ring> {
        self.settings.ring
    }

    /// The sequence of the record that comes next.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// A number that is greater than each that an earlier run of this log has drawn, or could.
    pub fn run_begins(&self) -> u64 {
        self.manifest.run * RUN_SEQUENCES
    }

    /// Whether something was dropped that the disk still has.
    pub(super) fn is_dropping(&self) -> bool {
        self.settings.ring.is_some_and(|ring| ring.recovers) && !self.dropped.is_empty()
    }

    /// Whether a ring that recovers has a segment without a footer that can be read: nothing that
    /// is newer is dropped before an open has read all of it.
    pub(super) fn lacks_footer(&self) -> bool {
        let recovers = self.settings.ring.is_some_and(|ring| ring.recovers);
        let lacks = |(segment, id): (&Option<Segment>, u32)| {
            let is_listed = segment.as_ref().is_none_or(|it| it.role != Role::Unlisted);
            !is_listed || self.compaction.is_left_alone(SegmentId(id))
        };
        let is_looked_for = recovers && !base::mutant!("log_ring_held_up_over_a_stop");
        is_looked_for && self.segments.iter().zip(0..).any(lacks)
    }

    /// The oldest segment, when there is to be room.
    pub(super) fn choose_oldest(&mut self, ring: Ring, sealed: &Sealed) -> Choice {
        let (wanted, max) = (self.wanted_free(), self.segments_max());
        let empty = self.free.len() + self.freeing.emptied.len();
        let empty = empty + usize::from(self.is_freeing_one());
        // The bound may have been a greater one when it was opened before.
        let is_full = self.manifest.rows.len().saturating_sub(empty) + wanted > max;
        let is_disk_full = self.attempts.are_refused() && empty < wanted;
        if !is_full && !is_disk_full {
            return Choice::Nothing;
        }
        let Some((age, id)) = sealed.first else { return Choice::Nothing };
        // What is older and cannot be dropped now, because somebody reads it, can be another time.
        if ring.recovers && self.smallest_elsewhere(id) < age {
            return Choice::Nothing;
        }
        let segment = self.segment(id).filter(|segment| self.may_move_out(id, segment));
        match segment.filter(|segment| segment.live_bytes > 0) {
            Some(_) => Choice::Move(id),
            None => {
                self.compaction.look_again();
                Choice::LookOn
            }
        }
    }

    /// Drops a live record of the oldest segment, if it may be.
    pub(super) fn drop_listed(
        &mut self,
        victim: SegmentId,
        listed: &Listed,
        entry: Entry,
        elsewhere: u64,
    ) {
        let recovers = self.settings.ring.is_some_and(|ring| ring.recovers);
        let is_known = matches!(listed.kind, Kind::Value | Kind::Tombstone);
        if !is_known || recovers && listed.sequence >= elsewhere {
            return;
        }
        match listed.kind {
            Kind::Tombstone => self.counts.tombstones_dropped += 1,
            _ => self.counts.values_dropped += 1,
        }
        // What a ring that does not recover has on the disk nobody will look for.
        if recovers || base::mutant!("log_header_stops_the_ring") {
            self.dropped.insert(victim);
        }
        // An entry that stays leads to whatever the segment has next.
        if base::mutant!("log_dropped_stays") {
            self.take_live(entry);
            return;
        }
        self.forget(listed.hash, entry);
    }
}
