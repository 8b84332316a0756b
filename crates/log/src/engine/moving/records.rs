//! The records of a segment that is compacted: which of them live, and copies of these.

use base::prefetch;

use super::{
    super::{chunk::ASKED_BYTES, failure::TOKEN_BYTES_MAX},
    Engine, Moving,
    window::{Window, end_of},
};
use crate::{
    engine::room::Needed,
    format::{
        KeyHash,
        record::{Kind, Record},
        segment::Listed,
    },
    keys::Keys,
    position::{Entry, Position},
};

/// Records of a footer that are looked up in one turn: some 10 us.
pub(super) const TURN_ENTRIES: usize = if cfg!(test) { 4 } else { 64 };

/// How much is moved at most before others may have the log.
pub(super) struct Portion {
    /// Entries of a footer that are looked up.
    entries: usize,
    /// Records that are copied, and bytes of them.
    pub(super) records: usize,
    pub(super) bytes: usize,
}

/// A turn, in which nobody else has the log: 10 to 20 us. For each record, memory is waited for
/// several times, and checksums are made of its bytes.
pub(super) const TURN: Portion = Portion {
    entries: TURN_ENTRIES,
    records: if cfg!(test) { 4 } else { 16 },
    bytes: if cfg!(test) { 768 } else { 64 << 10 },
};

/// A step, for which whoever puts stays a microsecond or two longer, and for a record of 64 KiB
/// some 50.
pub(super) const STEP: Portion =
    Portion { entries: if cfg!(test) { 2 } else { 8 }, records: 1, bytes: usize::MAX };

/// What was copied of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    All,
    /// Enough for one turn.
    Some,
    /// There is no room for more.
    NoRoom,
}

impl<K: Keys> Engine<K> {
    /// Of a ring that recovers either all of a segment is dropped or nothing: what is left half has
    /// every key stored with a tombstone for ever.
    pub(super) fn drops_whole(&self) -> bool {
        let recovers = self.settings.ring.is_some_and(|ring| ring.recovers);
        recovers && !base::mutant!("log_dropped_by_halves")
    }

    /// Whether something of the footer may be decoded or looked up now.
    pub(super) fn may_take_entries(&self, moving: &Moving) -> bool {
        let waits = self.drops_whole() && moving.piece.is_none() && moving.has_blocks_left();
        moving.has_entries() && !waits
    }

    /// Keeps of the next entries of the footer what is to be moved.
    pub(super) fn take_entries(&mut self, moving: &mut Moving, portion: &Portion) {
        let is_whole = self.drops_whole();
        if moving.entries.is_empty() || is_whole {
            self.take_block(moving);
        }
        if is_whole && moving.has_blocks_left() {
            return;
        }
        let mut entries = std::mem::take(&mut moving.entries);
        let turn = entries.len().min(portion.entries);
        self.ask_for_all(entries.range(..turn));
        // Nothing is added elsewhere that is older.
        let elsewhere = self.smallest_elsewhere(moving.victim);
        let before = moving.found.len();
        for listed in entries.drain(..turn) {
            let position = self.position(moving.victim, listed.offset());
            let Some(entry) = self.live_entry(&listed, position) else { continue };
            let is_early = base::mutant!("log_tombstone_dropped_early");
            if self.settings.ring.is_some() {
                self.drop_listed(moving.victim, &listed, entry, elsewhere);
                continue;
            }
            match listed.kind {
                Kind::Tombstone if listed.sequence < elsewhere || is_early => {
                    self.counts.tombstones_dropped += 1;
                    self.forget(listed.hash, entry);
                }
                Kind::Head => moving.note_large(listed.hash, position),
                kind => {
                    moving.parts += usize::from(kind == Kind::Part);
                    moving.note_found(listed);
                }
            }
        }
        self.ask_for_all(entries.range(..entries.len().min(portion.entries)));
        moving.note_dead(turn - (moving.found.len() - before));
        if entries.is_empty() && moving.piece.is_none() {
            moving.end_looks();
        }
        moving.entries = entries;
    }

    /// The entry of the key that a record is about, if the record lives.
    fn live_entry(&self, listed: &Listed, position: Position) -> Option<Entry> {
        let entry = self.index.get(listed.hash)?;
        let is_live = if listed.kind == Kind::Part {
            let parts = self.larges.get(&entry.position);
            let part = parts.and_then(|parts| parts.get(usize::from(listed.part)));
            part.is_some_and(|(part, _)| *part == position)
        } else {
            entry.position == position
        };
        is_live.then_some(entry)
    }

    /// The key is as if it had never been there.
    pub(in crate::engine) fn forget(&mut self, hash: KeyHash, entry: Entry) {
        self.index.forget(hash);
        self.take_live(entry);
    }

    /// Asks the processor for what the index has of these.
    fn ask_for_all<'a>(&self, listed: impl Iterator<Item = &'a Listed>) {
        listed.for_each(|listed| self.index.ask_for(listed.hash));
    }

    /// Asks the processor for the next record of what was read, and for what the index has of it:
    /// until the next step, it would be waited for.
    fn ask_for_record(&self, listed: &Listed, window: &Window) {
        self.index.ask_for(listed.hash);
        let bytes = window.bytes_at(listed.offset());
        let end = end_of(listed) - listed.offset();
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(ASKED_BYTES).min(bytes.len());
        prefetch::all_to_read(&bytes[..end]);
    }

    /// Copies the next ones of what was read.
    pub(super) fn copy_window(
        &mut self,
        moving: &mut Moving,
        window: &mut Window,
        portion: &Portion,
    ) -> Copied {
        // Nothing is added elsewhere that is older.
        let elsewhere = self.smallest_elsewhere(moving.victim);
        let mut left = portion.records.min(window.count);
        let mut left_bytes = portion.bytes;
        self.ask_for_all(moving.listed.range(..left));
        while left > 0 && left_bytes > 0 {
            let listed = moving.listed[0];
            let offset = listed.offset();
            left -= 1;
            let bytes = usize::try_from(end_of(&listed) - offset).unwrap_or(usize::MAX);
            left_bytes = left_bytes.saturating_sub(bytes);
            let is_done = match Record::decode(window.bytes_at(offset), moving.seed, offset) {
                Ok((record, _)) => self.copy_record(moving, &listed, record, elsewhere),
                Err(_) => {
                    moving.is_stuck = true;
                    true
                }
            };
            if !is_done {
                return Copied::NoRoom;
            }
            moving.note_moved();
            moving.parts -= usize::from(listed.kind == Kind::Part);
            window.count -= 1;
            if window.count > 0 {
                self.ask_for_record(&moving.listed[0], window);
            }
        }
        if window.count == 0 { Copied::All } else { Copied::Some }
    }

    /// Copies a record, if it lives. `false` when there is no room.
    fn copy_record(
        &mut self,
        moving: &mut Moving,
        listed: &Listed,
        record: Record<'_>,
        elsewhere: u64,
    ) -> bool {
        let position = self.position(moving.victim, listed.offset());
        let live = self.live_entry(listed, position);
        let stays =
            |_: &Entry| record.kind != Kind::Part && base::mutant!("log_move_without_check");
        let live = live.or_else(|| self.index.get(listed.hash).filter(stays));
        let Some(entry) = live else {
            self.counts.moves_lost += 1;
            if base::mutant!("log_lost_move_stays") {
                self.copy_lost(listed, &record);
            }
            return true;
        };
        if record.kind == Kind::Part {
            return self.copy_part(moving, listed, &record, entry.position);
        }
        let has_expired = self.has_expired(&record);
        if has_expired && may_drop_expired(record.sequence, elsewhere) {
            self.counts.expired_dropped += 1;
            self.forget(listed.hash, entry);
            return true;
        }
        let mut copy = Record { is_member: false, ..record };
        if has_expired {
            copy = Record::new(Kind::Tombstone, record.sequence, record.key, &[]);
        }
        if !self.make_copy_room(Needed::one(copy.bytes() + TOKEN_BYTES_MAX)) {
            return false;
        }
        // No other record of a tombstone's key is newer, and none may pass for newer.
        if copy.kind != Kind::Tombstone {
            let Ok(sequence) = self.draw() else { return false };
            copy.sequence = sequence;
        }
        self.publish_copy(&copy, listed.hash, None);
        true
    }

    /// Leaves a copy of what was written anew meanwhile; only a mutant does that.
    fn copy_lost(&mut self, listed: &Listed, record: &Record<'_>) {
        let has_room = self.make_copy_room(Needed::one(record.bytes() + TOKEN_BYTES_MAX));
        if record.kind == Kind::Value
            && has_room
            && let Ok(sequence) = self.draw()
        {
            self.append_copy(&Record { is_member: false, sequence, ..*record }, listed.hash);
        }
    }

    pub(super) fn has_expired(&self, record: &Record<'_>) -> bool {
        record.expiry_ms != 0 && record.expiry_ms <= self.compaction.wall_ms
    }
}

/// Whether an expired record of this sequence may vanish when this is the smallest elsewhere.
fn may_drop_expired(sequence: u64, elsewhere: u64) -> bool {
    sequence < elsewhere || base::mutant!("log_expired_dropped_early")
}
