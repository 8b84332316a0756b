//! Compaction: what lives in a segment that is mostly dead moves to the survivors' segment.
//!
//! The footer of the segment is read a piece at a time, then of its records those that live. What
//! it comes to is `copies.rs`.
//!
//! Invariants:
//! 1. A copy gets its sequence, and readers are led to it, in one step with a look at the index,
//!    which leads to the original.
//! 2. The head of a large value is written anew when the copies of its parts are durable.
//! 3. A tombstone, or what has expired, vanishes only when no other segment has an older value.
//!    Else it stays, as a tombstone of the same sequence.
//! 4. Nothing is moved out of a segment that somebody iterates over or copies.

mod compaction;
mod large;
mod records;

use std::collections::BTreeMap;

pub(super) use self::compaction::Compaction;
pub use self::compaction::Unreported;
use self::{
    large::Large,
    records::{Copied, Records},
};
use super::{Engine, Job, Pin, Settled, read::Reading, victims::Choice};
use crate::{
    format::{
        KeyHash, Seed,
        segment::{Listed, entries_of_block},
    },
    keys::Keys,
    plan::{Action, Buffer, File, Outcome, Plan, SegmentId},
};

/// Reads that stop short, or of a footer that is damaged, before a segment is left as it is.
const SHORT_READS_MAX: u32 = 64;

/// Milliseconds for which moves wait for an iteration to begin.
const HELD_MS: u64 = 1000;

/// A victim is looked for when this part of a segment more is dead: an eighth.
const LOOK_AFTER: u64 = 8;

/// And on a full disk, when this part is, or a block: 64 KiB of 64 MiB. All segments are looked at
/// for it, and each put on a full disk asks.
const FULL_LOOK_AFTER: u64 = 1024;

/// Large values that are noted before their heads are looked at: with those of one read of a footer
/// more, that is what one turn may go over.
const LARGES_MAX: usize = if cfg!(test) { 4 } else { 512 };

/// A segment out of which what lives is being moved.
#[derive(Debug)]
struct Moving {
    victim: SegmentId,
    /// What is won when all of it is moved.
    dead_bytes: u64,
    /// Whether that is enough for puts to wait for it. The oldest values are moved also if all of
    /// them live: what is won by that is tombstones elsewhere, and later.
    is_worth_waiting: bool,
    file: File,
    seed: Seed,
    /// Its file stays.
    _pin: Pin,
    /// Where the records end, and blocks of the footer.
    footer: Option<(u64, u64)>,
    /// The next block of it.
    next_block: u64,
    /// What was read of it, and is to be looked up.
    entries: Vec<Listed>,
    /// What is to be moved of that; the first one is the last.
    listed: Vec<Listed>,
    records: Option<Records>,
    /// Large values of which parts, or the head, lie in the segment.
    larges: BTreeMap<KeyHash, Large>,
    short_reads: u32,
    /// Something in it is damaged.
    is_stuck: bool,
    /// Somebody reads where the head of a large value lies that has parts in it: these stay.
    stays_for_reader: bool,
    /// Parts have stayed for somebody who has ended since.
    stayed_for_reader: bool,
}

/// What a read is of.
#[derive(Debug)]
enum Awaited {
    Trailer,
    Footer { blocks: u64 },
    Records { from: u64, end: u64 },
    Head(KeyHash, Box<Reading>),
}

/// What there is to do next.
enum Next {
    Read(Action, Awaited),
    /// Something must be reported first.
    Wait,
    /// Nothing, but that is enough for one turn.
    Turn,
    /// It goes on another time: somebody reads what is in the way.
    GiveUp,
    Done,
}

impl<K: Keys> Engine<K> {
    /// Tells the time on the axis of expiries. What has expired by then need not be kept: before
    /// it is told for the first time, compaction keeps everything.
    pub fn tell_wall_ms(&mut self, wall_ms: u64) {
        self.compaction.wall_ms = wall_ms;
    }

    /// Has what was moved be durable, as an iteration that begins needs it; until it does begin,
    /// which is at once when this is done, nothing is moved.
    pub fn settle_moves(&mut self) -> Settled {
        // What a failed flush has left will be moved once more.
        let is_rewritten = self.stranded.is_empty() && self.durable_below() >= self.rewritten_below
            || base::mutant!("log_iterates_before_rewritten");
        if is_rewritten && self.are_copies_durable() || self.is_read_only() {
            return Settled::Done;
        }
        self.compaction.held_until_ms = self.now_ms + HELD_MS;
        self.flush_copies();
        Settled::Pending
    }

    pub(super) fn is_held_up(&self) -> bool {
        self.is_read_only()
            || self.is_stopping
            || !self.stranded.is_empty()
            || self.now_ms < self.compaction.held_until_ms
    }

    /// Whether something is being moved, or may be.
    pub(super) fn is_moving(&self) -> bool {
        let is_on = self.settings.space_target_percent > 0 && !self.is_read_only();
        is_on && self.may_save && (self.compaction.moving.is_some() || self.may_look())
    }

    fn may_look(&self) -> bool {
        // Who waits for room waits for whatever there is to be had.
        let shape = &self.manifest.shape;
        let most = match self.lacks_room() {
            true => (shape.segment_bytes / FULL_LOOK_AFTER).max(shape.block_bytes.into()),
            false => shape.segment_bytes / LOOK_AFTER,
        };
        self.compaction.may_look || self.compaction.dead_bytes >= most
    }

    /// Whether [`Engine::poll_moving`] may have something to do that nobody is at.
    pub(super) fn may_move(&self) -> bool {
        let is_asked = self.is_moving() && self.compaction.reading.is_none();
        let is_free = !self.compaction.waits && !self.compaction.is_in_turns;
        is_asked && is_free && !self.is_held_up() || self.may_write_copies()
    }

    /// The next action that moves something.
    pub(super) fn poll_moving(&mut self) -> Option<Plan> {
        self.compaction.is_in_turns = false;
        let copies = self.poll_copies();
        if copies.is_some() || self.is_held_up() || self.compaction.reading.is_some() {
            return copies;
        }
        // Without an action: there may be copies to be written now, or a segment may be empty.
        self.take_turn().or_else(|| self.poll_copies()).or_else(|| self.poll_space())
    }

    /// Goes on with what is being moved, or begins with another segment. The next read, if there is
    /// one.
    fn take_turn(&mut self) -> Option<Plan> {
        if self.compaction.moving.is_none() {
            self.compaction.moving = self.begin_move();
        }
        let mut moving = self.compaction.moving.take()?;
        let next = match self.is_pinned(moving.victim) {
            true => Next::GiveUp,
            false => self.next_move(&mut moving),
        };
        match next {
            Next::Read(action, awaited) => {
                self.compaction.moving = Some(moving);
                self.compaction.reading = Some(awaited);
                let token = self.token(Job::Moving);
                return Some(Plan { token, action });
            }
            Next::Wait if !self.may_take_copy_segment() => {
                // Nothing that is reported makes room.
                self.give_up();
            }
            Next::Wait => {
                if self.copies.tail.is_none() {
                    // A segment is to be emptied, for which what was put has to be flushed.
                    self.drain_for_moves();
                }
                self.compaction.moving = Some(moving);
                self.compaction.waits = true;
            }
            Next::Turn => {
                self.compaction.moving = Some(moving);
                self.compaction.end_turn();
            }
            Next::GiveUp => self.give_up(),
            Next::Done => self.end_move(&moving),
        }
        None
    }

    /// Everything that could be moved was.
    fn end_move(&mut self, moving: &Moving) {
        let is_left = self.segment(moving.victim).is_some_and(|segment| segment.live_bytes > 0);
        if is_left && !moving.is_stuck {
            if !moving.stays_for_reader && !moving.stayed_for_reader {
                // A large value has got its head meanwhile.
                return self.give_up();
            }
            if moving.stays_for_reader {
                // The same would be read again, and come to nothing.
                self.compaction.held.insert(moving.victim);
            }
            self.cancel_moves();
            return self.compaction.look_again();
        }
        if is_left {
            self.compaction.stuck.insert(moving.victim);
            self.forgive();
        } else {
            self.compaction.account.won_bytes += moving.dead_bytes;
            self.counts.segments_moved += 1;
            self.compaction.moved += 1;
        }
        self.compaction.unreported.ends += 1;
        self.compaction.look_again();
    }

    /// Gives up what is being moved: what was not moved yet stays where it is, and nothing is won.
    pub(super) fn cancel_moves(&mut self) {
        self.compaction.unreported.ends += 1;
        self.compaction.survey.note_change();
        self.compaction.moving = None;
        self.forgive();
        self.close_copy_chunk();
    }

    /// What has changed though nothing was reported.
    #[must_use]
    pub fn unreported(&self) -> Unreported {
        self.compaction.unreported
    }

    /// As if a move had ended without a report.
    #[cfg(test)]
    pub(crate) fn note_end_of_move(&mut self) {
        self.compaction.unreported.ends += 1;
    }

    /// Has what was put so far be flushed, because moves wait for that.
    fn drain_for_moves(&mut self) {
        if self.drain_below < self.next_ticket {
            self.drain_below = self.next_ticket;
            self.compaction.unreported.turns += 1;
        }
    }

    /// Whether something is being moved, if need be by choosing it now.
    pub(super) fn finds_victim(&mut self) -> bool {
        if self.compaction.moving.is_none() && self.compaction.reading.is_none() {
            self.compaction.moving = self.begin_move();
        }
        self.compaction.moving.is_some()
    }

    /// Gives up until something changes that a victim is chosen by.
    fn give_up(&mut self) {
        self.cancel_moves();
        self.compaction.may_look = false;
    }

    /// How much of the segment that is being moved need not be kept any more.
    pub(super) fn moved_out_bytes(&self) -> u64 {
        let Some(moving) = &self.compaction.moving else { return 0 };
        let Some((_, blocks)) = moving.footer else { return 0 };
        let per_block = entries_of_block(self.manifest.shape.block_bytes) as u64;
        let left = (moving.listed.len() + moving.entries.len()) as u64;
        let done = (moving.next_block * per_block).saturating_sub(left);
        let all = (blocks * per_block).max(1);
        let dead = u128::from(moving.dead_bytes) * u128::from(done) / u128::from(all);
        u64::try_from(dead).unwrap_or(0)
    }

    /// Chooses a segment, if the log takes more than it should.
    fn begin_move(&mut self) -> Option<Moving> {
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
        let segment = self.segment(id)?;
        let bytes = self.manifest.shape.segment_bytes;
        let staying_bytes = self.staying_bytes(id, segment);
        let is_worth_waiting = segment.is_worth_moving(staying_bytes, bytes, true)
            || base::mutant!("log_puts_wait_for_nothing");
        Some(Moving {
            dead_bytes: bytes - segment.share(staying_bytes, bytes),
            is_worth_waiting,
            victim: id,
            file: segment.file(id),
            seed: segment.seed,
            _pin: segment.pin.clone(),
            footer: None,
            next_block: 0,
            entries: Vec::new(),
            listed: Vec::new(),
            records: None,
            larges: BTreeMap::new(),
            short_reads: 0,
            is_stuck: false,
            stays_for_reader: false,
            stayed_for_reader: false,
        })
    }

    fn next_move(&mut self, moving: &mut Moving) -> Next {
        if let Some(records) = moving.records.take() {
            let copied = self.copy_records(moving, &records);
            if copied != Copied::All {
                moving.records = Some(records);
                return if copied == Copied::Some { Next::Turn } else { Next::Wait };
            }
            self.compaction.buffer = Some(records.buffer);
        }
        if !moving.entries.is_empty() {
            self.take_entries(moving);
            return Next::Turn;
        }
        if !moving.listed.is_empty() {
            return self.read_records(moving);
        }
        let block = u64::from(self.manifest.shape.block_bytes);
        let Some((records_end, blocks)) = moving.footer else {
            let from = self.manifest.shape.segment_bytes - block;
            return self.read_of(moving, from, from + block, Awaited::Trailer);
        };
        let left = blocks - moving.next_block;
        let mut looked_at = 0;
        while left == 0 || moving.larges.len() >= LARGES_MAX {
            let Some(hash) = moving.larges.keys().next().copied() else {
                self.close_copy_chunk();
                return Next::Done;
            };
            if looked_at == records::TURN_ENTRIES {
                return Next::Turn;
            }
            looked_at += 1;
            if let Some(next) = self.next_large(moving, hash) {
                return next;
            }
        }
        let count = records::footer_blocks_at_once(block).min(left);
        let from = records_end + moving.next_block * block;
        self.read_of(moving, from, from + count * block, Awaited::Footer { blocks: count })
    }

    fn read_of(&mut self, moving: &Moving, from: u64, end: u64, awaited: Awaited) -> Next {
        let bytes = usize::try_from(end - from).unwrap_or(usize::MAX);
        let kept = self.compaction.buffer.take().filter(|kept| kept.as_slice().len() >= bytes);
        let buffer = kept.unwrap_or_else(|| Buffer::new(bytes));
        Next::Read(Action::Read { file: moving.file, offset: from, buffer, bytes }, awaited)
    }

    /// Takes what came of a read.
    pub(super) fn report_move(&mut self, outcome: Outcome) {
        let awaited = self.compaction.reading.take();
        let (Some(mut moving), Some(awaited)) = (self.compaction.moving.take(), awaited) else {
            return;
        };
        if self.is_pinned(moving.victim) {
            return self.cancel_moves();
        }
        let taken = match outcome {
            Outcome::Read(buffer, bytes) => self.take_read(&mut moving, awaited, buffer, bytes),
            _ => None,
        };
        moving.short_reads = if taken.is_some() { 0 } else { moving.short_reads + 1 };
        if moving.short_reads <= SHORT_READS_MAX {
            self.compaction.moving = Some(moving);
        } else {
            self.compaction.stuck.insert(moving.victim);
            self.cancel_moves();
        }
    }
}
