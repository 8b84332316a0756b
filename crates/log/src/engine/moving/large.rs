//! Large values of which something moves: copies of the parts first, and when these are durable a
//! new head that names them.

use super::{
    super::failure::TOKEN_BYTES_MAX, Awaited, Engine, Moving, Next, records::TURN_ENTRIES,
};
use crate::{
    engine::{
        Pin,
        read::{Fetched, Reading, Wanted},
        room::Needed,
    },
    format::{
        KeyHash,
        record::{Kind, Parts, Record},
        segment::Listed,
    },
    keys::Keys,
    position::{Position, SizeClass},
};

/// A large value that moves.
#[derive(Debug)]
pub(super) struct Large {
    head: Position,
    /// Which parts were copied, from where and to where.
    copies: Vec<(u16, Position, (Position, SizeClass))>,
    /// Of the segments of the copies, which nothing makes live yet.
    pins: Vec<Pin>,
    /// Up to which ticket copies must be durable.
    below: u64,
}

impl Moving {
    /// Notes a large value of which something lies in the segment.
    pub(super) fn note_large(&mut self, hash: KeyHash, head: Position) {
        self.large_mut(hash, head);
    }

    fn large_mut(&mut self, hash: KeyHash, head: Position) -> &mut Large {
        let new = || Large { head, copies: Vec::new(), pins: Vec::new(), below: 0 };
        let large = self.larges.entry(hash).or_insert_with(new);
        if large.head != head {
            *large = new();
        }
        large
    }
}

impl<K: Keys> Engine<K> {
    /// Copies a part of the value whose head lies at `head`. `false` when there is no room.
    pub(super) fn copy_part(
        &mut self,
        moving: &mut Moving,
        listed: &Listed,
        record: &Record<'_>,
        head: Position,
    ) -> bool {
        if self.is_pinned(self.place(head).0) {
            // Its head stays as it is, and with it the part.
            moving.stays_for_reader = true;
            return true;
        }
        if !self.make_copy_room(Needed::one(record.bytes())) {
            return false;
        }
        let from = self.position(moving.victim, listed.offset());
        let (copy, class) = self.append_copy(record, listed.hash);
        let pin = self.pin(self.place(copy).0);
        let below = self.next_copy_ticket();
        let large = moving.large_mut(listed.hash, head);
        large.copies.push((listed.part, from, (copy, class)));
        large.pins.extend(pin);
        large.below = below;
        true
    }

    /// Everything that was read is copied: goes on with large values when there is nothing more to
    /// be read, or when there are many.
    pub(super) fn next_larges(&mut self, moving: &mut Moving) -> Next {
        for _ in 0..TURN_ENTRIES {
            let is_left = moving.footer.is_some_and(|(_, blocks)| moving.next_block < blocks);
            if is_left && !moving.has_many_larges() {
                return Next::Turn;
            }
            let Some(hash) = moving.larges.keys().next().copied() else {
                self.close_copy_chunk();
                return Next::Done;
            };
            if let Some(next) = self.next_large(moving, hash) {
                return next;
            }
        }
        Next::Turn
    }

    /// What is to be done for a large value; `None` when it is done with.
    fn next_large(&mut self, moving: &mut Moving, hash: KeyHash) -> Option<Next> {
        let large = moving.larges.get(&hash)?;
        let (head, below) = (large.head, large.below);
        let entry = self.index.get(hash).filter(|entry| entry.position == head);
        let Some(entry) = entry else {
            self.counts.moves_lost += 1;
            moving.larges.remove(&hash);
            return None;
        };
        if self.is_pinned(self.place(head).0) {
            moving.stays_for_reader = true;
            moving.larges.remove(&hash);
            return None;
        }
        if self.copies_durable_below() < below && !base::mutant!("log_moved_head_before_copies") {
            self.close_copy_chunk();
            return Some(Next::Wait);
        }
        // It is read from the disk.
        let (segment, offset) = self.place(head);
        let tail = self.tails().find(|tail| tail.segment == segment);
        if tail.is_some_and(|tail| tail.in_memory(offset, u64::MAX).is_some()) {
            self.close_copy_chunk();
            self.drain_upkeep(self.next_ticket);
            return Some(Next::Wait);
        }
        let bytes = (entry.class.bytes() as usize + TOKEN_BYTES_MAX).min(self.records_bytes_max());
        if !self.make_copy_room(Needed::one(bytes)) {
            self.close_copy_chunk();
            return Some(Next::Wait);
        }
        let Ok(reading) = self.reading(head, entry.class, Wanted::Head) else {
            moving.is_stuck = true;
            moving.larges.remove(&hash);
            return None;
        };
        let action = reading.action(self.buffer_of(reading.bytes()));
        Some(Next::Read(action, Awaited::Head(hash, Box::new(reading))))
    }

    /// Writes a head anew that names the copies, from what was read of the old one.
    pub(super) fn move_head(
        &mut self,
        moving: &mut Moving,
        hash: KeyHash,
        reading: &Reading,
        read: &[u8],
    ) {
        let Some(large) = moving.larges.get(&hash) else { return };
        let head = large.head;
        if self.is_pinned(self.place(head).0) && !base::mutant!("log_moves_pinned_head") {
            moving.stays_for_reader = true;
            moving.larges.remove(&hash);
            return;
        }
        let entry = self.index.get(hash).filter(|entry| entry.position == head);
        let (Some(_), Some(mut parts)) = (entry, self.larges.get(&head).cloned()) else {
            self.counts.moves_lost += 1;
            moving.larges.remove(&hash);
            return;
        };
        let Ok(Fetched::Head(record, named)) = reading.finish(read) else {
            moving.is_stuck = true;
            moving.larges.remove(&hash);
            return;
        };
        for (number, from, to) in &large.copies {
            let part = parts.get_mut(usize::from(*number)).filter(|(part, _)| part == from);
            part.into_iter().for_each(|part| *part = *to);
        }
        let has_expired = self.has_expired(&record);
        let positions: Vec<Position> = parts.iter().map(|(position, _)| *position).collect();
        let value = Parts::encode(named.value_bytes, named.upload, &positions);
        let mut copy = Record { is_member: false, value: &value, ..record };
        if has_expired {
            // It does not vanish: it would be back after a crash, and its parts may be gone.
            copy = Record::new(Kind::Tombstone, record.sequence, record.key, &[]);
        }
        if !self.make_copy_room(Needed::one(copy.bytes() + TOKEN_BYTES_MAX)) {
            self.close_copy_chunk();
            return;
        }
        if copy.kind == Kind::Tombstone {
            self.publish_copy(&copy, hash, None);
        } else {
            let Ok(sequence) = self.draw() else { return };
            let is_kept = base::mutant!("log_moved_head_keeps_sequence");
            copy.sequence = if is_kept { record.sequence } else { sequence };
            self.publish_copy(&copy, hash, Some(parts));
        }
        moving.larges.remove(&hash);
    }
}
