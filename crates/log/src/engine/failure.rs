//! After a failed flush: what memory still has is written again, elsewhere.
//!
//! The kernel may have marked the pages clean, so that a second flush of them would succeed and
//! mean nothing. Who waited is answered with an error. No new record is taken before this is done.

use std::sync::Arc;

use super::{
    Engine, FAILURES_MAX, Mark,
    room::{Needed, Purpose, Room},
    space::Role,
    tail::Unflushed,
};
use crate::{
    error::Error,
    format::{
        KeyHash,
        record::{BATCH_BYTES, Kind, Parts, Record},
    },
    keys::Keys,
    plan::{Buffer, DirectoryId, SegmentId},
    position::Position,
};

impl<K: Keys> Engine<K> {
    /// A write or a flush of this tail has failed.
    pub(super) fn fail_tail(&mut self, segment: SegmentId) {
        self.settle_notes();
        if self.is_mended() {
            self.mended = self.failed_tickets.len();
        }
        // What was reported after the failure is about nothing any more.
        let Some(directory) = self.tail_mut(segment).map(|tail| tail.file.directory) else {
            return;
        };
        self.failures += 1;
        for segment in self.leave_directory(directory, segment) {
            self.strand(segment);
        }
    }

    /// The tails that go with one of which a write or a flush has failed: if there is another
    /// directory, all that are in this one and would be written to. They would fail as well, and a
    /// second failure ends all writes.
    fn leave_directory(&mut self, directory: DirectoryId, failed: SegmentId) -> Vec<SegmentId> {
        // A ring has no room for others in the place of those that it would leave alone.
        let has_others = self.directories > 1 && self.settings.ring.is_none();
        if !has_others || base::mutant!("log_failed_directory_used") {
            return vec![failed];
        }
        self.failed_directory = Some(directory);
        let mut free = std::mem::take(&mut self.free);
        free.retain(|id| self.is_sound(*id));
        self.free = free;
        if base::mutant!("log_other_tails_left_there") {
            return vec![failed];
        }
        // The oldest first: so they are written again.
        let closing = self.closing.iter().filter(|tail| !tail.is_flushed());
        let tails = closing.chain(&self.open).chain(&self.copies.tail);
        let there = tails.filter(|tail| tail.file.directory == directory);
        there.map(|tail| tail.segment).collect()
    }

    /// Takes a tail away that is not written to any more. What memory has of it is to be written
    /// again.
    fn strand(&mut self, segment: SegmentId) {
        let is_open = self.open.as_ref().is_some_and(|tail| tail.segment == segment);
        let is_copies = self.copies.tail.as_ref().is_some_and(|tail| tail.segment == segment);
        let tail = if is_open {
            self.take_back_allowance();
            self.open.take()
        } else if is_copies {
            self.copies.tail.take()
        } else {
            let at = self.closing.iter().position(|tail| tail.segment == segment);
            at.map(|at| self.closing.remove(at))
        };
        let Some(tail) = tail else { return };
        self.good_ends.insert(segment, tail.flushed_end());
        if let Some(segment) = self.segment_mut(segment) {
            segment.role = Role::Unlisted;
            // Also of what is not flushed: the disk may have it.
            segment.smallest_value = tail.listed.smallest_value();
            segment.begun = tail.listed.begun();
            segment.may_be_freed = false;
        }
        self.compaction.survey.forget_floor();
        if tail.is_for_copies {
            // Nobody waits for a copy. Parts that have no head yet are dead.
            self.cancel_moves();
            self.stranded.push(tail.into_unflushed(self.next_copy_ticket()));
            return;
        }
        let unflushed = tail.into_unflushed(self.next_ticket);
        if !unflushed.tickets.is_empty() {
            self.failed_tickets.push(unflushed.tickets.clone());
        }
        self.stranded.push(unflushed);
    }

    /// Writes again what failed flushes have left, as far as there is room.
    pub(super) fn rewrite(&mut self) {
        if self.stranded.is_empty() {
            return;
        }
        let before = self.counts.record_bytes;
        self.rewrite_stranded();
        if !base::mutant!("log_rewritten_is_moved_for") {
            self.forgo_steps(self.counts.record_bytes - before);
        }
    }

    fn rewrite_stranded(&mut self) {
        while self.failures <= FAILURES_MAX && !self.stranded.is_empty() {
            let mut unflushed = self.stranded.remove(0);
            let is_done = self.rewrite_one(&mut unflushed);
            if !is_done {
                self.stranded.insert(0, unflushed);
                if self.is_rewriting_over() && !base::mutant!("log_rewriting_awaited_for_ever") {
                    self.failures = FAILURES_MAX + 1;
                }
                return;
            }
        }
    }

    /// Whether there is no segment for what is left, and none is made or freed any more, as nobody
    /// knows what the manifest is.
    fn is_rewriting_over(&self) -> bool {
        let has_segment = self.open.is_some() || !self.free.is_empty() || self.preparing.is_some();
        self.is_read_only() && !has_segment && self.has_lost()
    }

    fn rewrite_one(&mut self, unflushed: &mut Unflushed) -> bool {
        while let Some(chunk) = unflushed.chunks.front() {
            let (buffer, base, end) = (Arc::clone(&chunk.buffer), chunk.offset, chunk.bytes);
            while unflushed.at < end {
                match self.rewrite_next(unflushed, &buffer, base, end) {
                    Some(bytes) => unflushed.at += bytes,
                    None => return false,
                }
            }
            unflushed.at = 0;
            drop(buffer);
            self.retired.extend(unflushed.chunks.pop_front().map(|chunk| chunk.buffer));
        }
        self.rewritten_below = self.next_ticket;
        true
    }

    /// Writes the next record again if it is the newest of its key, and one that takes effect
    /// together with others if one of them is. Says how many bytes further the one behind it is, or
    /// `None` when there is no room.
    fn rewrite_next(
        &mut self,
        unflushed: &Unflushed,
        buffer: &Buffer,
        base: u64,
        end: usize,
    ) -> Option<usize> {
        let at = unflushed.at;
        let offset = base + at as u64;
        let bytes = &buffer.as_slice()[at..end];
        let Ok((record, bytes)) = Record::decode(bytes, unflushed.seed, offset) else {
            // Zeros behind the last record.
            return Some(end - at);
        };
        let mut items = Vec::new();
        let mut length = bytes;
        if record.kind == Kind::Batch {
            for _ in 0..record.part {
                let bytes = &buffer.as_slice()[at + length..end];
                let (member, bytes) =
                    Record::decode(bytes, unflushed.seed, offset + length as u64).ok()?;
                items.extend(self.rewritable(unflushed.segment, offset + length as u64, member));
                length += bytes;
            }
        } else {
            items.extend(self.rewritable(unflushed.segment, offset, record));
        }
        if items.iter().any(|item| item.is_newest) {
            self.rewrite_items(items)?;
        }
        Some(length)
    }

    /// What there is to know of a record that may have to be written again; `None` of one that says
    /// nothing of its key.
    fn rewritable<'a>(
        &self,
        segment: SegmentId,
        offset: u64,
        record: Record<'a>,
    ) -> Option<Rewritable<'a>> {
        let hash = self.index.hash(record.key).ok().filter(|_| record.kind.decides())?;
        let position = self.position(segment, offset);
        let is_newest = self.index.get(hash).is_some_and(|entry| entry.position == position);
        Some(Rewritable { record, hash, position, is_newest })
    }

    /// Writes a record again, or all that take effect together. `None` when there is no room.
    fn rewrite_items(&mut self, mut items: Vec<Rewritable<'_>>) -> Option<()> {
        let is_batch = items.first().is_some_and(|item| item.record.is_member);
        // A new sequence makes the record longer by its token.
        let bytes = items.iter().map(|item| item.record.bytes() + TOKEN_BYTES_MAX).sum::<usize>();
        let bytes = bytes + if is_batch { BATCH_BYTES } else { 0 };
        match self.make_room(Needed { bytes, records: items.len() }, Purpose::Rewrite) {
            Ok(Room::Ready) => {}
            Ok(Room::Wait) | Err(Error::NoRoom) => return None,
            // No waiting mends this.
            Err(_) => {
                self.failures = FAILURES_MAX + 1;
                return None;
            }
        }
        for item in &mut items {
            // No other record of a tombstone's key is newer, and none may pass for newer. What is
            // not the newest any more is written only because others of its batch are: it must
            // not pass for newer than what came behind it. Where nothing is recovered, none passes
            // for anything, and a flush of all tells by the sequence what was there before it.
            let keeps = self.settings.ring.is_some_and(|ring| !ring.recovers);
            if item.is_newest && item.record.kind != Kind::Tombstone && !keeps {
                item.record.sequence = self.draw().ok()?;
            }
        }
        let records: Vec<_> = items.iter().map(|item| item.record).collect();
        self.begin_batch(&records);
        for Rewritable { record, hash, position, is_newest } in items {
            self.counts.rewritten += 1;
            if !is_newest {
                self.append_old(&record, hash);
                continue;
            }
            let parts = self.larges.remove(&position);
            self.append(&record, hash);
            if let Some(parts) = Parts::parse(record.value).filter(|_| record.kind == Kind::Head) {
                self.note_head(parts.value_bytes);
            }
            if let (Some(parts), Some(entry)) = (parts, self.index.get(hash)) {
                self.larges.insert(entry.position, parts);
            }
        }
        // Some of it was acknowledged long ago.
        self.drain_below = self.drain_below.max(self.next_ticket);
        Some(())
    }

    /// What a reply that saw the record at `position` waits for.
    ///
    /// # Errors
    /// When it will never be durable.
    pub(super) fn wait_for(&self, position: Position) -> Result<Seen, Error> {
        let (segment, offset) = self.place(position);
        if let Some(unflushed) = self.stranded_with(segment, offset) {
            let is_final = self.failures > FAILURES_MAX;
            // What it is a copy of is durable, and memory goes on having it.
            let is_copy = unflushed.is_copies && !base::mutant!("log_stranded_copies_unread");
            return match (is_copy, is_final) {
                (true, _) => Ok(Seen::Until(None)),
                (false, false) => Ok(Seen::Stranded),
                (false, true) => Err(Error::Unflushed),
            };
        }
        let is_early = base::mutant!("log_read_answered_before_flush");
        let tail = self.tails().find(|tail| tail.segment == segment && !is_early);
        // What it is a copy of is durable.
        let tail = tail.filter(|tail| !tail.is_for_copies);
        let found = tail.and_then(|tail| tail.in_memory(offset, self.next_ticket));
        Ok(Seen::Until(found.map(|found| Mark(found.last_ticket))))
    }

    /// Whether failed flushes have left what nothing durable stands for: more than copies.
    pub(super) fn has_lost(&self) -> bool {
        self.stranded.iter().any(|it| !it.is_copies)
    }

    pub(super) fn is_stranded(&self, segment: SegmentId, offset: u64) -> bool {
        self.stranded_with(segment, offset).is_some()
    }

    /// What a failed flush has left, this record among it.
    pub(super) fn stranded_with(&self, segment: SegmentId, offset: u64) -> Option<&Unflushed> {
        self.stranded.iter().find(|it| it.segment == segment && it.holds(offset))
    }
}

/// A record that a failed flush has left.
struct Rewritable<'a> {
    record: Record<'a>,
    hash: KeyHash,
    position: Position,
    /// Whether it says what its key is.
    is_newest: bool,
}

/// What a reply that saw a record waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Its flush, or nothing when it is flushed.
    Until(Option<Mark>),
    /// It is to be written again; it must be looked up anew.
    Stranded,
}

/// What a token adds to a record at most, rounded up.
pub(super) const TOKEN_BYTES_MAX: usize = 16;
