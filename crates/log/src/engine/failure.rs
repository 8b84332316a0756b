//! After a failed flush: what memory still has is written again, elsewhere.
//!
//! The kernel may have marked the pages clean, so that a second flush of them would succeed and
//! mean nothing. Who waited is answered with an error. Nothing else is written before this is done.

use std::sync::Arc;

use super::{
    Engine, FAILURES_MAX, Mark,
    space::Role,
    tail::Unflushed,
    write::{Purpose, Room},
};
use crate::{
    error::Error,
    format::record::{Kind, Record},
    keys::Keys,
    plan::{Buffer, SegmentId},
    position::Position,
};

impl<K: Keys> Engine<K> {
    /// A write or a flush of this tail has failed.
    pub(super) fn fail_tail(&mut self, segment: SegmentId) {
        let is_open = self.open.as_ref().is_some_and(|tail| tail.segment == segment);
        let tail = if is_open {
            self.open.take()
        } else {
            let at = self.closing.iter().position(|tail| tail.segment == segment);
            at.map(|at| self.closing.remove(at))
        };
        // What was reported after the failure is about nothing any more.
        let Some(tail) = tail else { return };
        self.failures += 1;
        if let Some(segment) = self.segment_mut(segment) {
            segment.role = Role::Unlisted;
        }
        let unflushed = tail.into_unflushed(self.next_ticket);
        self.failed_tickets.push(unflushed.tickets.clone());
        self.stranded.push(unflushed);
    }

    /// Writes again what failed flushes have left, as far as there is room.
    pub(super) fn rewrite(&mut self) {
        while self.failures <= FAILURES_MAX && !self.stranded.is_empty() {
            let mut unflushed = self.stranded.remove(0);
            let is_done = self.rewrite_one(&mut unflushed);
            if !is_done {
                self.stranded.insert(0, unflushed);
                return;
            }
        }
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
        true
    }

    /// Writes the next record again if it is the newest of its key. Says how many bytes further
    /// the one behind it is, or `None` when there is no room.
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
        if !record.kind.decides() {
            return Some(bytes);
        }
        let position = self.position(unflushed.segment, offset);
        let Ok(hash) = self.index.hash(record.key) else { return Some(bytes) };
        if self.index.get(hash).is_none_or(|entry| entry.position != position) {
            return Some(bytes);
        }
        // A new sequence makes the record longer by its token.
        match self.make_room(bytes + TOKEN_BYTES_MAX, Purpose::Rewrite) {
            Ok(Room::Ready) => {}
            Ok(Room::Wait) | Err(Error::NoRoom) => return None,
            // No waiting mends this.
            Err(_) => {
                self.failures = FAILURES_MAX + 1;
                return None;
            }
        }
        let sequence = match record.kind {
            // No other record of the key is newer, and none may pass for newer.
            Kind::Tombstone => record.sequence,
            _ => self.draw().ok()?,
        };
        let parts = self.larges.remove(&position);
        let copy = Record { sequence, ..record };
        self.append(&copy, hash);
        if let (Some(parts), Some(entry)) = (parts, self.index.get(hash)) {
            self.larges.insert(entry.position, parts);
        }
        self.counts.rewritten += 1;
        Some(bytes)
    }

    /// What a reply that saw the record at `position` waits for.
    ///
    /// # Errors
    /// When it will never be durable.
    pub(super) fn wait_for(&self, position: Position) -> Result<Seen, Error> {
        let (segment, offset) = self.place(position);
        if self.is_stranded(segment, offset) {
            let is_final = self.failures > FAILURES_MAX;
            return if is_final { Err(Error::Unflushed) } else { Ok(Seen::Stranded) };
        }
        let is_early = cfg!(mutant = "log_read_answered_before_flush");
        let tail = self.tails().find(|tail| tail.segment == segment && !is_early);
        let found = tail.and_then(|tail| tail.in_memory(offset, self.next_ticket));
        Ok(Seen::Until(found.map(|found| Mark(found.last_ticket))))
    }

    pub(super) fn is_stranded(&self, segment: SegmentId, offset: u64) -> bool {
        self.stranded.iter().any(|it| it.segment == segment && it.holds(offset))
    }
}

/// What a reply that saw a record waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Its flush, or nothing when it is flushed.
    Until(Option<Mark>),
    /// It is to be written again; it must be looked up anew.
    Stranded,
}

/// What a token adds to a record at most, rounded up.
pub(super) const TOKEN_BYTES_MAX: usize = 16;
