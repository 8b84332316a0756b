//! The survivors' segment: where compaction puts copies of the records that live on.
//!
//! It is apart from the one that new records are put into, because what has lived long will live
//! on. A copy is as good as its original, which is durable and stays until the copy is: so nobody
//! waits for one, and copies have tickets of their own. What a failed flush of copies has left is
//! written again like any other record.

use super::{
    Engine,
    room::{Needed, RECORD_BYTES_MIN},
    sealing::Sealing,
    space::RESERVE,
    tail::Tail,
};
use crate::{
    format::{
        KeyHash,
        record::{Kind, Record},
    },
    keys::Keys,
    plan::{Buffer, Plan},
    position::{Entry, Position, SizeClass},
};

/// Chunks for copies: one that is filled, one that is being written and one that is being flushed.
const COPY_CHUNKS: usize = 3;

/// Segments of copies that are full and not yet sealed.
const CLOSING_COPIES_MAX: usize = 1;

/// The segment that copies are put into, and their memory.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) tail: Option<Tail>,
    pub(super) buffers: Vec<Buffer>,
    /// How many buffers there are, here and in chunks.
    made: usize,
    /// The next ticket of a copy. They are no others' tickets.
    next_ticket: u64,
    /// The ticket of the next record when the last copy was made.
    below: u64,
}

impl<K: Keys> Engine<K> {
    /// Below which ticket of copies everything is durable.
    pub(super) fn copies_durable_below(&self) -> u64 {
        let copies = self.tails().filter(|tail| tail.is_for_copies);
        copies.filter_map(Tail::first_unflushed).min().unwrap_or(self.copies.next_ticket)
    }

    /// The ticket of the next copy.
    pub(super) fn next_copy_ticket(&self) -> u64 {
        self.copies.next_ticket
    }

    /// Whether all copies are durable, and all that was appended before the last one.
    pub(super) fn are_copies_durable(&self) -> bool {
        let below = self.copies.next_ticket;
        self.copies_durable_below() >= below && self.durable_below() >= self.copies.below
    }

    /// Has all copies be flushed, and all that was appended before the last one.
    pub(super) fn flush_copies(&mut self) {
        self.close_copy_chunk();
        self.drain_below = self.drain_below.max(self.copies.below);
    }

    /// Sees to it that a copy can be appended. `false`: something must be reported first.
    pub(super) fn make_copy_room(&mut self, needed: Needed) -> bool {
        if self.is_wiping() && !base::mutant!("log_moves_while_wiping") {
            return false;
        }
        if self.copies.tail.as_ref().is_some_and(|tail| !tail.has_room(needed))
            && !self.close_copies()
        {
            return false;
        }
        if self.copies.tail.is_none() && !self.take_copy_segment() {
            return false;
        }
        match self.copies.tail.as_ref().and_then(|tail| tail.chunk_takes(needed.bytes)) {
            Some(true) => return true,
            Some(false) => self.close_copy_chunk(),
            None => {}
        }
        // The chunk that was closed may have taken the segment's last block.
        if self.copies.tail.as_ref().is_some_and(|tail| !tail.has_room(needed)) {
            return self.close_copies() && self.make_copy_room(needed);
        }
        if !self.may_rewrite_chunk() {
            return false;
        }
        self.reclaim();
        if self.copies.buffers.is_empty() && self.copies.made < COPY_CHUNKS {
            self.copies.made += 1;
            self.copies.buffers.push(Buffer::new(self.settings.chunk_bytes as usize));
        }
        let (ticket, now_ms) = (self.copies.next_ticket, self.now_ms);
        let Some(buffer) = self.copies.buffers.pop() else { return false };
        let Some(tail) = &mut self.copies.tail else { return false };
        tail.fill(buffer, ticket, now_ms);
        true
    }

    /// Whether one segment takes all copies that are not flushed, and a chunk of them more, once
    /// more, should their flush fail.
    fn may_rewrite_chunk(&self) -> bool {
        let copies = self.tails().filter(|tail| tail.is_for_copies);
        let bytes: u64 = copies.map(Tail::unflushed_bytes).sum();
        let records = self.copies.next_ticket - self.copies_durable_below();
        let chunk_bytes = self.settings.chunk_bytes as usize;
        let all = Needed {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX / 2) + chunk_bytes,
            records: usize::try_from(records).unwrap_or(usize::MAX / 2)
                + chunk_bytes / RECORD_BYTES_MIN,
        };
        bytes == 0 || self.fits_a_segment(all)
    }

    /// Whether compaction can have a segment, now or when something is reported.
    pub(super) fn may_take_copy_segment(&self) -> bool {
        self.free.len() > self.left_by_copies() || self.copies.tail.is_some() || self.is_freeing()
    }

    /// Empty segments that copies leave: those that removes and rewriting need. On a full disk
    /// removes have theirs in use, or may have had it before a crash, and what is moved makes room
    /// for another. A crash may have left a single one, between two survivors' segments: it serves,
    /// while there are no records but copies that could have to be written again, and of these the
    /// originals are there.
    pub(super) fn left_by_copies(&self) -> usize {
        if base::mutant!("log_copies_take_the_reserve") {
            return 0;
        }
        if !self.lacks_room() {
            return RESERVE;
        }
        let has_none = self.open.is_none() || base::mutant!("log_last_taken_beside_removes");
        let is_durable = self.durable_below() >= self.next_ticket;
        let is_durable = is_durable || base::mutant!("log_last_taken_unflushed");
        let is_whole = self.stranded.is_empty() || base::mutant!("log_last_taken_while_stranded");
        let serves = has_none && is_durable && is_whole;
        if serves && !base::mutant!("log_last_is_for_no_copies") { 0 } else { RESERVE - 1 }
    }

    /// Takes an empty segment.
    fn take_copy_segment(&mut self) -> bool {
        if self.free.len() <= self.left_by_copies() {
            return false;
        }
        let mut tail = self.open_free(0);
        tail.is_for_puts = false;
        tail.is_for_copies = true;
        self.copies.tail = Some(tail);
        self.counts.segments_of_copies += 1;
        true
    }

    /// The survivors' segment is full, or the log is stopped. `false` when too many are on their
    /// way to being sealed.
    pub(super) fn close_copies(&mut self) -> bool {
        let closing = self.closing.iter().chain(self.sealing.as_ref().map(Sealing::tail));
        if closing.filter(|tail| tail.is_for_copies).count() >= CLOSING_COPIES_MAX {
            return false;
        }
        self.close_copy_chunk();
        self.closing.extend(self.copies.tail.take());
        true
    }

    /// What was copied so far goes to the disk.
    pub(super) fn close_copy_chunk(&mut self) {
        let next_ticket = self.copies.next_ticket;
        let Some(tail) = &mut self.copies.tail else { return };
        // Room was made, and what it was for is not copied.
        self.copies.buffers.extend(tail.take_empty());
        if tail.is_filling() {
            let before = tail.end();
            tail.close_chunk(next_ticket, &mut self.spare);
            self.counts.commits += 1;
            self.counts.commit_bytes += tail.end() - before;
        }
    }

    /// Whether a write or a flush of copies can be begun.
    pub(super) fn may_write_copies(&self) -> bool {
        let mut tails = self.tails().filter(|tail| tail.is_for_copies);
        tails.any(|tail| tail.has_waiting() || tail.has_written() && !tail.is_flushing())
    }

    /// The next write or flush of copies.
    pub(super) fn poll_copies(&mut self) -> Option<Plan> {
        let closing = self.closing.iter().filter(|tail| tail.is_for_copies);
        let tails: Vec<_> = closing.chain(&self.copies.tail).map(|tail| tail.segment).collect();
        tails.into_iter().find_map(|it| self.poll_write(it).or_else(|| self.poll_flush(it)))
    }

    /// Room was made: appends a copy that no entry leads to.
    pub(super) fn append_copy(
        &mut self,
        record: &Record<'_>,
        hash: KeyHash,
    ) -> (Position, SizeClass) {
        let tail = self.copies.tail.as_mut().expect("invariant: room was made");
        let (listed, class) = tail.append_listed(record, hash, &mut self.spare);
        let segment = tail.segment;
        self.copies.next_ticket += 1;
        self.copies.below = self.next_ticket;
        self.counts.moved_bytes += record.bytes() as u64;
        let position = self.position(segment, listed.offset());
        self.add_record(position, class, &listed);
        (position, class)
    }

    /// Room was made: appends a copy, and leads readers to it. Of a head: `parts` is where the
    /// parts lie.
    pub(super) fn publish_copy(
        &mut self,
        record: &Record<'_>,
        hash: KeyHash,
        parts: Option<Vec<(Position, SizeClass)>>,
    ) {
        let (position, class) = self.append_copy(record, hash);
        let is_tombstone = record.kind == Kind::Tombstone;
        let class = if is_tombstone { SizeClass::TOMBSTONE } else { class };
        let entry = self.index.kept(Entry { position, class });
        self.counts.records_moved += 1;
        self.counts.heads_moved += u64::from(parts.is_some());
        self.counts.tombstones_moved += u64::from(is_tombstone);
        self.add_live(position, entry.class);
        for (part, class) in parts.iter().flatten() {
            self.add_live(*part, *class);
        }
        if let Some(old) = self.index.publish(hash, entry) {
            let moved = self.live_bytes_of(old);
            self.take_live(old);
            self.compaction.note_moved(moved);
        }
        if let Some(parts) = parts {
            self.larges.insert(position, parts);
        }
    }
}
