//! Segments: which there are, which are empty, and who may take one.

use super::{Engine, Pin, room::Purpose, tail::Tail};
use crate::{
    error::Error,
    format::{LogId, Seed, manifest::SEGMENTS_MAX},
    keys::Keys,
    plan::{DirectoryId, File, FileName, SegmentId},
};

/// Empty segments that values do not take: one for removes on a full disk, one for rewriting after
/// a failed flush.
pub(super) const RESERVE: usize = 2;

/// Two more for compaction, where it is on: one to work with, and one because a crash may leave
/// that half full of copies.
const COPY_RESERVE: usize = 2;

/// Segments that a log with a space target, or a ring, reaches at least: beside those for
/// compaction, two for puts.
pub const SEGMENTS_LEAST: usize = RESERVE + COPY_RESERVE + 2;

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing is in it.
    Free,
    /// Records are being put into it, or its footer is being written.
    Open,
    /// Its footer is flushed.
    Sealed,
    /// Its next generation is being written.
    Freeing,
    /// It has records and no footer: a flush of it failed, or it cannot be read in full.
    Unlisted,
}

/// A segment of the log.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) directory: DirectoryId,
    pub(super) generation: u64,
    pub(super) seed: Seed,
    pub(super) role: Role,
    /// Whether its blocks were written before: then a flush need not wait for the file system to
    /// note that they are.
    pub(super) is_written: bool,
    /// Bytes of records that are the newest of their keys, by size classes.
    pub(super) live_bytes: u64,
    /// Of these, what tombstones count as.
    pub(super) tombstone_bytes: u64,
    /// Bytes of parts, by size classes, that were put and had no head: as long as it is written to,
    /// and somebody holds the pin, they may get one.
    pub(super) headless_bytes: u64,
    /// Bytes of all its records, by size classes: what would be live if all of them were.
    pub(super) all_bytes: u64,
    /// Bytes that they would take side by side, with their entries in a footer: commits end with
    /// padding.
    pub(super) packed_bytes: u64,
    /// The smallest sequence of a value or a head in it; 0 when there is none, or it is still being
    /// written. A tombstone that moves keeps its sequence.
    pub(super) smallest_value: u64,
    /// The sequence of the value or head that lies first in it, as of the same time. While a
    /// segment is written to it changes, by an overwrite, only before that record is flushed.
    pub(super) begun: u64,
    /// The greatest sequence of a tombstone; 0 when there is none.
    pub(super) greatest_tombstone: u64,
    /// Whether it may be freed when nothing in it is live. What cannot be read may be read another
    /// time; and after a failed flush the file is left alone before the next open.
    pub(super) may_be_freed: bool,
    /// Is held by all who read from it.
    pub(super) pin: Pin,
}

/// What came of asking for a segment.
pub(super) enum Taken {
    /// One is open.
    Taken,
    /// One is on its way.
    Wait,
}

impl Segment {
    pub(super) fn empty(
        log: LogId,
        id: SegmentId,
        directory: DirectoryId,
        generation: u64,
    ) -> Self {
        Self {
            directory,
            generation,
            seed: Seed::new(log, id.0, generation),
            role: Role::Free,
            is_written: false,
            live_bytes: 0,
            tombstone_bytes: 0,
            headless_bytes: 0,
            all_bytes: 0,
            packed_bytes: 0,
            smallest_value: 0,
            begun: 0,
            greatest_tombstone: 0,
            may_be_freed: true,
            pin: Pin::default(),
        }
    }

    pub(super) fn file(&self, id: SegmentId) -> File {
        File { directory: self.directory, name: FileName::Segment(id) }
    }
}

impl<K: Keys> Engine<K> {
    /// Opens an empty segment.
    pub(super) fn take_segment(&mut self, purpose: Purpose) -> Result<Taken, Error> {
        let kept = match purpose {
            Purpose::Put if base::mutant!("log_puts_take_the_reserve") => 0,
            Purpose::Put => self.put_reserve(),
            Purpose::Remove if base::mutant!("log_reserve_of_one") => 0,
            // What compaction needs it needs also when it is not at work just then.
            Purpose::Remove => self.remove_reserve(),
            Purpose::Rewrite => 0,
        };
        if self.free.len() <= kept && !self.may_take_last(purpose) {
            return self.no_segment().map(|()| Taken::Wait);
        }
        let written = self.free.iter().position(|id| self.is_written(*id));
        let at = written.filter(|_| purpose == Purpose::Put).unwrap_or(0);
        let mut tail = self.open_free(at);
        tail.is_for_puts = purpose == Purpose::Put;
        self.open = Some(tail);
        Ok(Taken::Taken)
    }

    /// Whether a remove may take what is kept for compaction: nothing can be moved, freed or made,
    /// and only what is removed may change that. Not while somebody reads: what he keeps may be
    /// moved when he ends.
    fn may_take_last(&mut self, purpose: Purpose) -> bool {
        let is_left = purpose == Purpose::Remove && self.free.len() >= RESERVE;
        is_left && self.pins.are_none() && self.no_segment().is_err()
    }

    /// A segment is empty: it may be taken, but where records could not be written. That one is
    /// left alone before the next open.
    pub(super) fn add_free(&mut self, id: SegmentId) {
        if self.is_sound(id) {
            self.free.push(id);
        }
    }

    /// Whether no write or flush of records has failed in a segment's directory, or there is no
    /// other.
    pub(super) fn is_sound(&self, id: SegmentId) -> bool {
        let failed = self.failed_directory;
        failed.is_none() || self.segment(id).is_none_or(|it| Some(it.directory) != failed)
    }

    /// A tail in one of the empty segments.
    pub(super) fn open_free(&mut self, at: usize) -> Tail {
        let id = self.free.remove(at);
        let shape = self.manifest.shape;
        let segment = self.segment_mut(id).expect("invariant: free segments are segments");
        segment.role = Role::Open;
        let (file, seed) = (segment.file(id), segment.seed);
        if self.settings.ring.is_some() {
            // The oldest may have to go now.
            self.compaction.look_again();
        }
        Tail::new(file, id, seed, shape.block_bytes, shape.segment_bytes)
    }

    /// Empty segments that values leave.
    pub(super) fn put_reserve(&self) -> usize {
        let is_ring = self.settings.ring.is_some();
        let compacts = self.settings.space_target_percent > 0 && self.may_save && !is_ring;
        let left = if base::mutant!("log_copy_reserve_of_one") { 1 } else { COPY_RESERVE };
        // The survivors' segment is one of them.
        let left = left.saturating_sub(usize::from(self.copies.tail.is_some()));
        RESERVE + if compacts { left } else { 0 }
    }

    /// Empty segments that removes leave while something can be moved. The survivors' segment is
    /// none of them: it may be nearly full, and the next move need another one.
    fn remove_reserve(&self) -> usize {
        let has_survivors = self.copies.tail.is_some();
        let is_counted = has_survivors && base::mutant!("log_survivors_counted_twice");
        self.put_reserve() - 1 + usize::from(has_survivors && !is_counted)
    }

    pub(super) fn is_written(&self, id: SegmentId) -> bool {
        self.segment(id).is_some_and(|segment| segment.is_written)
    }

    /// Whether a value may be put into the open segment: it was not taken from the reserve, or the
    /// reserve is whole again.
    pub(super) fn is_open_for_puts(&mut self) -> Result<bool, Error> {
        let is_whole = self.free.len() >= self.put_reserve();
        let Some(tail) = &mut self.open else { return Ok(false) };
        tail.is_for_puts |= is_whole;
        if tail.is_for_puts {
            return Ok(true);
        }
        self.no_segment().map(|()| false)
    }

    /// Whether what failed flushes have left can be written again without any call but reports.
    ///
    /// # Errors
    /// When there is no segment for it, and none can be had for all that is known.
    pub(super) fn check_rewriting(&self) -> Result<(), Error> {
        let has_segment = self.open.is_some() || !self.free.is_empty() || self.is_freeing();
        if has_segment || self.stranded.is_empty() || base::mutant!("log_rewriting_always_awaited")
        {
            return Ok(());
        }
        self.check_making()
    }

    /// Whether to wait for a segment.
    fn no_segment(&mut self) -> Result<(), Error> {
        self.attempts.tell_ms(self.now_ms);
        // Nothing moves before what failed flushes have left is written again.
        let is_moving = self.is_moving() && self.stranded.is_empty();
        if self.is_freeing() || is_moving || self.is_closing_on_a_full_disk() {
            // What is in the way is on its way.
            self.drain_below = self.drain_below.max(self.next_ticket);
            return Ok(());
        }
        self.check_making()
    }

    /// Whether another segment can be made, for all that is known.
    fn check_making(&self) -> Result<(), Error> {
        if self.segments_left() == 0 && self.preparing.is_none() {
            return Err(Error::PositionsUsedUp { segments: self.segments_max() });
        }
        // What the last attempts have met is the answer until others are due: there may be room
        // since, and who asks waits for what is found then.
        let is_asked = self.attempts.is_due(self.now_ms) || self.is_making();
        let is_asked = is_asked && !base::mutant!("log_refusal_kept");
        if self.attempts.are_refused() && !is_asked { Err(Error::NoRoom) } else { Ok(()) }
    }

    /// Whether a look for what can be moved follows without any call but reports: on a full disk a
    /// segment that is sealed is one to look at.
    fn is_closing_on_a_full_disk(&self) -> bool {
        let may_move = self.settings.space_target_percent > 0 && self.may_save;
        let is_sealed = self.sealing.as_ref().is_some_and(|it| !it.tail().is_for_copies);
        let is_closing = is_sealed || self.closing.iter().any(|tail| !tail.is_for_copies);
        may_move && is_closing && self.lacks_room() && !base::mutant!("log_refused_while_sealing")
    }

    /// Whether the first put would wait for a segment, and one can be had for all that is known.
    pub fn awaits_segment(&self) -> bool {
        let has_none = self.open.is_none() && self.free.len() <= self.put_reserve();
        has_none && !self.attempts.are_refused() && self.segments_left() > 0 && !self.is_read_only()
    }

    /// How many segments the index, and the manifest, can tell apart.
    pub(super) fn segments_max(&self) -> usize {
        let reached = self.index.units_max() / self.units_of_segment;
        let bytes = self.manifest.shape.segment_bytes;
        let ring = self.settings.ring.map_or(u64::MAX, |ring| ring.bytes_max / bytes);
        usize::try_from(reached.min(ring)).unwrap_or(usize::MAX).min(SEGMENTS_MAX)
    }

    /// Whether what is kept for compaction leaves some segments for puts.
    pub(super) fn check_reach(&self) -> Result<(), Error> {
        let is_off = self.settings.space_target_percent == 0;
        if is_off || self.segments_max() >= SEGMENTS_LEAST {
            return Ok(());
        }
        Err(Error::Settings { what: "a log with a space target reaches six segments at least" })
    }
}
