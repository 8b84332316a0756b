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

mod large;
mod records;

use std::collections::{BTreeMap, BTreeSet};

use self::{large::Large, records::Records};
use super::{
    Engine, Job, Pin, Settled,
    pacing::{Account, Debt},
    read::Reading,
    victims::Choice,
};
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

/// Segments that are looked into one after the other when nothing is to be read of them.
const TURNS_MAX: usize = 4;

/// A victim is looked for when this part of a segment more is dead: an eighth.
const LOOK_AFTER: u64 = 8;

/// What compaction is at.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    moving: Option<Moving>,
    /// Whether a read is under way, and of what.
    reading: Option<Awaited>,
    /// Whether something must be reported first.
    waits: bool,
    /// Segments of which something cannot be moved.
    stuck: BTreeSet<SegmentId>,
    /// The time on the axis of expiries; 0 while nobody has told it.
    wall_ms: u64,
    /// Bytes that have died since a victim was looked for.
    dead_bytes: u64,
    /// Whether something else has changed that a victim is chosen by.
    may_look: bool,
    /// Segments that were moved since one was sealed that has no copies, or as much has died.
    moved: usize,
    /// Bytes that have died since then, but for what was moved.
    fresh_bytes: u64,
    /// What the log takes and may take, as of the last change by a segment.
    debt: Option<Debt>,
    pub(super) account: Account,
    /// How often there was nothing more to be moved.
    ends: u64,
    /// Nothing is moved before this time: an iteration is about to begin.
    held_until_ms: u64,
}

/// A segment out of which what lives is being moved.
#[derive(Debug)]
struct Moving {
    victim: SegmentId,
    /// What is won when all of it is moved.
    dead_bytes: u64,
    file: File,
    seed: Seed,
    /// Its file stays.
    _pin: Pin,
    /// Where the records end, and blocks of the footer.
    footer: Option<(u64, u64)>,
    /// The next block of it.
    next_block: u64,
    /// What is to be moved of what was read of it; the first one is the last.
    listed: Vec<Listed>,
    records: Option<Records>,
    /// Large values of which parts, or the head, lie in the segment.
    larges: BTreeMap<KeyHash, Large>,
    buffer: Option<Buffer>,
    short_reads: u32,
    /// Something in it is damaged.
    is_stuck: bool,
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
    /// It goes on another time: somebody reads what is in the way.
    GiveUp,
    Done,
}

impl Compaction {
    /// Something has changed that a victim is chosen by.
    pub(super) fn look_again(&mut self) {
        self.may_look = true;
        self.debt = None;
    }

    pub(super) fn debt(&self) -> Option<Debt> {
        self.debt
    }

    pub(super) fn keep_debt(&mut self, debt: Debt) {
        self.debt = Some(debt);
    }

    /// A segment is sealed that has new records.
    pub(super) fn note_sealed(&mut self) {
        self.moved = 0;
        self.fresh_bytes = 0;
    }

    /// How many segments were moved since a segment with new records was sealed.
    pub(super) fn moved(&self) -> usize {
        self.moved
    }

    /// So many bytes of a segment are dead.
    pub(super) fn note_dead(&mut self, bytes: u64) {
        self.dead_bytes += bytes;
        self.fresh_bytes += bytes;
    }

    /// Whoever has held moves up has begun.
    pub(super) fn release(&mut self) {
        self.held_until_ms = 0;
    }

    /// Whether records were read that are to be copied.
    #[cfg(test)]
    pub(super) fn has_records(&self) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.records.is_some())
    }

    /// The segment is used anew.
    pub(super) fn unstick(&mut self, segment: SegmentId) {
        self.stuck.remove(&segment);
    }

    /// Something was reported that moves may have waited for.
    pub(super) fn go_on(&mut self) {
        self.waits = false;
    }

    /// So many bytes of a segment are dead because they were moved.
    pub(super) fn note_moved(&mut self, bytes: u64) {
        self.dead_bytes = self.dead_bytes.saturating_sub(bytes);
        self.fresh_bytes = self.fresh_bytes.saturating_sub(bytes);
    }

    pub(super) fn is_stuck(&self, segment: SegmentId) -> bool {
        self.stuck.contains(&segment)
    }
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
        let most = self.manifest.shape.segment_bytes / LOOK_AFTER;
        let most = if self.lacks_room() { 1 } else { most };
        self.compaction.may_look || self.compaction.dead_bytes >= most
    }

    /// Whether [`Engine::poll_moving`] may have something to do.
    pub(super) fn may_move(&self) -> bool {
        let is_asked = self.is_moving() && self.compaction.reading.is_none();
        is_asked && !self.compaction.waits && !self.is_held_up() || self.may_write_copies()
    }

    /// The next action that moves something.
    pub(super) fn poll_moving(&mut self) -> Option<Plan> {
        let copies = self.poll_copies();
        if copies.is_some() || self.is_held_up() || self.compaction.reading.is_some() {
            return copies;
        }
        for _ in 0..TURNS_MAX {
            if let Some(plan) = self.take_turn() {
                return Some(plan);
            }
            if self.compaction.waits || !self.may_look() && self.compaction.moving.is_none() {
                break;
            }
        }
        // A segment may be empty now.
        self.poll_copies().or_else(|| self.poll_space())
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
                    self.drain_below = self.drain_below.max(self.next_ticket);
                }
                self.compaction.moving = Some(moving);
                self.compaction.waits = true;
            }
            Next::GiveUp => self.give_up(),
            Next::Done => self.end_move(&moving),
        }
        None
    }

    /// Everything that could be moved was.
    fn end_move(&mut self, moving: &Moving) {
        self.compaction.account.won_bytes += moving.dead_bytes;
        self.compaction.ends += 1;
        let is_left = self.segment(moving.victim).is_some_and(|segment| segment.live_bytes > 0);
        if is_left && !moving.is_stuck {
            // Somebody reads it, or a large value has got its head meanwhile.
            return self.give_up();
        }
        if moving.is_stuck {
            self.compaction.stuck.insert(moving.victim);
        } else {
            self.counts.segments_moved += 1;
            self.compaction.moved += 1;
        }
        self.compaction.look_again();
    }

    /// Gives up what is being moved: what was not moved yet stays where it is.
    pub(super) fn cancel_moves(&mut self) {
        self.compaction.account.won_bytes += self.moved_out_bytes();
        self.compaction.ends += 1;
        self.compaction.moving = None;
        self.close_copy_chunk();
    }

    /// How often a move has ended, or there was none to begin: who waits for more room is to look
    /// again when it changes, though nothing was reported.
    pub(crate) fn move_ends(&self) -> u64 {
        self.compaction.ends
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
        let done = (moving.next_block * per_block).saturating_sub(moving.listed.len() as u64);
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
        self.compaction.dead_bytes = 0;
        if self.compaction.fresh_bytes >= self.manifest.shape.segment_bytes {
            self.compaction.note_sealed();
        }
        let choice = self.choose();
        self.compaction.may_look = choice.is_some();
        self.compaction.ends += u64::from(choice.is_none());
        let id = match choice? {
            Choice::Move(id) => id,
            Choice::SealCopies => {
                self.compaction.may_look = self.close_copies();
                return None;
            }
        };
        let segment = self.segment(id)?;
        let bytes = self.manifest.shape.segment_bytes;
        Some(Moving {
            dead_bytes: bytes - segment.share(segment.live_bytes, bytes),
            victim: id,
            file: segment.file(id),
            seed: segment.seed,
            _pin: segment.pin.clone(),
            footer: None,
            next_block: 0,
            listed: Vec::new(),
            records: None,
            larges: BTreeMap::new(),
            buffer: None,
            short_reads: 0,
            is_stuck: false,
        })
    }

    fn next_move(&mut self, moving: &mut Moving) -> Next {
        if let Some(records) = moving.records.take() {
            if !self.copy_records(moving, &records) {
                moving.records = Some(records);
                return Next::Wait;
            }
            moving.buffer = Some(records.buffer);
        }
        if !moving.listed.is_empty() {
            return self.read_records(moving);
        }
        let block = u64::from(self.manifest.shape.block_bytes);
        let Some((records_end, blocks)) = moving.footer else {
            let from = self.manifest.shape.segment_bytes - block;
            return moving.read(from, from + block, Awaited::Trailer);
        };
        if moving.next_block < blocks {
            let count = records::footer_blocks_at_once(block).min(blocks - moving.next_block);
            let from = records_end + moving.next_block * block;
            return moving.read(from, from + count * block, Awaited::Footer { blocks: count });
        }
        while let Some(hash) = moving.larges.keys().next().copied() {
            if let Some(next) = self.next_large(moving, hash) {
                return next;
            }
        }
        self.close_copy_chunk();
        Next::Done
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

impl Moving {
    fn read(&mut self, from: u64, end: u64, awaited: Awaited) -> Next {
        let bytes = usize::try_from(end - from).unwrap_or(usize::MAX);
        let kept = self.buffer.take().filter(|buffer| buffer.as_slice().len() >= bytes);
        let buffer = kept.unwrap_or_else(|| Buffer::new(bytes));
        Next::Read(Action::Read { file: self.file, offset: from, buffer, bytes }, awaited)
    }
}
