//! The records of a segment that is compacted: which of them live, and copies of these.

use super::{super::failure::TOKEN_BYTES_MAX, Awaited, Engine, Moving, Next};
use crate::{
    engine::room::Needed,
    format::{
        KeyHash,
        record::{Kind, Record},
        segment::{Listed, Trailer, decode_footer_block, footer_blocks},
    },
    keys::Keys,
    plan::Buffer,
    position::{Entry, Position, SizeClass},
};

/// Bytes of records that are read at once, unless one record has more.
const READ_BYTES: u64 = 256 << 10;

/// Records that are read at once.
const READ_RECORDS: usize = 512;

/// Records of a footer that are looked up in one turn: some 10 us.
pub(super) const TURN_ENTRIES: usize = if cfg!(test) { 4 } else { 64 };

/// Records that are copied in one turn, and bytes of them: 10 to 20 us, in which nobody else has
/// the log. For each, memory is waited for several times, and checksums are made of its bytes.
const TURN_RECORDS: usize = if cfg!(test) { 4 } else { 16 };
const TURN_BYTES: u64 = 64 << 10;

/// Bytes of a footer that are read at once: some 500 records.
const FOOTER_BYTES: u64 = if cfg!(test) { 512 } else { 16 << 10 };

/// Records that were read.
#[derive(Debug)]
pub(super) struct Records {
    from: u64,
    end: u64,
    pub(super) buffer: Buffer,
}

/// What was copied of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    All,
    /// Enough for one turn.
    Some,
    /// There is no room for more.
    NoRoom,
}

pub(super) fn footer_blocks_at_once(block_bytes: u64) -> u64 {
    (FOOTER_BYTES / block_bytes).max(1)
}

/// Where a record ends at most.
fn end_of(listed: &Listed) -> u64 {
    let class = SizeClass::from_bits(listed.class).unwrap_or(SizeClass::LARGEST);
    listed.offset() + u64::from(class.bytes())
}

impl<K: Keys> Engine<K> {
    /// Reads the next records that are to be moved, with what lies between.
    pub(super) fn read_records(&mut self, moving: &mut Moving) -> Next {
        let Some(first) = moving.listed.last() else { return Next::Done };
        let shape = &self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let from = first.offset() - first.offset() % block;
        let fit = moving.listed.iter().rev().take(READ_RECORDS).map(end_of);
        let end = fit.take_while(|end| *end <= from + READ_BYTES).max().unwrap_or(0);
        let end = end.max(end_of(first)).next_multiple_of(block).min(shape.segment_bytes);
        self.read_of(moving, from, end, Awaited::Records { from, end })
    }

    /// `None` when it has to be read again, or is damaged.
    pub(super) fn take_read(
        &mut self,
        moving: &mut Moving,
        awaited: Awaited,
        buffer: Buffer,
        bytes: usize,
    ) -> Option<()> {
        let shape = self.manifest.shape;
        let block = u64::from(shape.block_bytes);
        let read = &buffer.as_slice()[..bytes.min(buffer.as_slice().len())];
        match awaited {
            Awaited::Trailer => {
                let read = read.get(..block as usize)?;
                let trailer = Trailer::decode(read, moving.seed, shape.segment_bytes - block)?;
                let entries = usize::try_from(trailer.entries).ok()?;
                let blocks = footer_blocks(entries, shape.block_bytes);
                moving.footer = Some((trailer.records_end, blocks));
            }
            Awaited::Footer { blocks } => {
                let (records_end, _) = moving.footer?;
                let mut pieces = read.chunks_exact(block as usize);
                for number in moving.next_block..moving.next_block + blocks {
                    let offset = records_end + number * block;
                    let piece = pieces.next();
                    let entries = piece
                        .and_then(|piece| decode_footer_block(piece, number, moving.seed, offset));
                    let Some(entries) = entries else {
                        // All of it is read again.
                        moving.entries.clear();
                        return None;
                    };
                    moving.entries.extend(entries);
                }
                moving.next_block += blocks;
            }
            Awaited::Records { from, end } => {
                if (read.len() as u64) < end - from {
                    return None;
                }
                moving.records = Some(Records { from, end, buffer });
                return Some(());
            }
            Awaited::Head(_, reading) if read.len() < reading.bytes() => return None,
            Awaited::Head(hash, reading) => {
                self.move_head(moving, hash, &reading, read);
                return Some(());
            }
        }
        self.compaction.buffer = Some(buffer);
        Some(())
    }

    /// Keeps of the next entries of the footer what is to be moved.
    pub(super) fn take_entries(&mut self, moving: &mut Moving) {
        let mut entries = std::mem::take(&mut moving.entries);
        let turn = entries.len().min(TURN_ENTRIES);
        entries[..turn].iter().for_each(|listed| self.index.ask_for(listed.hash));
        // Nothing is added elsewhere that is older.
        let elsewhere = self.smallest_elsewhere(moving.victim);
        for listed in entries.drain(..turn) {
            let position = self.position(moving.victim, listed.offset());
            let Some(entry) = self.live_entry(&listed, position) else { continue };
            let is_early = base::mutant!("log_tombstone_dropped_early");
            match listed.kind {
                Kind::Tombstone if listed.sequence < elsewhere || is_early => {
                    self.counts.tombstones_dropped += 1;
                    self.forget(listed.hash, entry);
                }
                Kind::Head => moving.note_large(listed.hash, position),
                _ => moving.listed.push(listed),
            }
        }
        if entries.is_empty() {
            moving.listed.sort_unstable_by_key(|listed| std::cmp::Reverse(listed.unit));
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
    fn forget(&mut self, hash: KeyHash, entry: Entry) {
        self.index.forget(hash);
        self.take_live(entry);
    }

    /// Copies the next ones of what was read.
    pub(super) fn copy_records(&mut self, moving: &mut Moving, records: &Records) -> Copied {
        // Nothing is added elsewhere that is older.
        let elsewhere = self.smallest_elsewhere(moving.victim);
        let (mut left, mut left_bytes) = (TURN_RECORDS, TURN_BYTES);
        let turn = moving.listed.iter().rev().take(TURN_RECORDS);
        turn.for_each(|listed| self.index.ask_for(listed.hash));
        while let Some(listed) = moving.listed.last().copied() {
            let is_cut =
                end_of(&listed) > records.end && records.end < self.manifest.shape.segment_bytes;
            if listed.offset() >= records.end || is_cut {
                return Copied::All;
            }
            if left == 0 || left_bytes == 0 {
                return Copied::Some;
            }
            left -= 1;
            left_bytes = left_bytes.saturating_sub(end_of(&listed) - listed.offset());
            let offset = listed.offset();
            let at = usize::try_from(offset - records.from).unwrap_or(usize::MAX);
            let end = usize::try_from(records.end - records.from).unwrap_or(usize::MAX);
            let bytes = records.buffer.as_slice().get(at..end).unwrap_or_default();
            let is_done = match Record::decode(bytes, moving.seed, offset) {
                Ok((record, _)) => self.copy_record(moving, &listed, record, elsewhere),
                Err(_) => {
                    moving.is_stuck = true;
                    true
                }
            };
            if !is_done {
                return Copied::NoRoom;
            }
            moving.listed.pop();
        }
        Copied::All
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
