//! Moves by those who write: behind a put, a remove or a batch some steps, for what it has made
//! necessary.
//!
//! Whoever has written something has the log already. A thread that takes turns of moves meanwhile
//! takes it from him again and again, and whoever comes behind him waits for both. So while enough
//! is written, nobody else copies records or looks footers up: other threads read what is to be
//! moved, and begin and end moves. They go on with them when not enough is written, when what is
//! written cannot keep up, when somebody waits for a report, and when puts have no room.
//!
//! A step is a record, or some entries of a footer. How many there are is measured in bytes: a
//! quarter as many as were written when the log takes hardly more than its target, and up to twice
//! as many the more it takes: rather a little behind many writes than much behind few. Whoever
//! comes close behind the one before has waited for something, or never rests: his steps are put
//! off, but for so many bytes and no more.

use super::{
    Engine, Moving,
    records::{STEP, TURN},
};
use crate::keys::Keys;

/// Milliseconds in which as much has to be written as one turn moves, for moves to be left to those
/// who write. They are left to them for up to twice as long when nobody writes any more.
pub(in crate::engine) const SPAN_MS: u64 = 10;

/// Bytes that are owed at most, unless one call has written more: what was written beyond them is
/// not moved for. Below that, steps are put off while writes come close one behind the other. One
/// takes less than two microseconds for each KiB, so this is what writes catch up on when they have
/// been held up for some 0.1 ms.
const OWED_BYTES_MAX: u64 = if cfg!(test) { 2 << 10 } else { 128 << 10 };

/// What a look at entries counts as, unless records have less: it takes about as long as to copy so
/// much. Were it a record, so many puts would move nothing of large ones.
const ENTRIES_COUNT_BYTES: u64 = if cfg!(test) { 128 } else { 1 << 10 };

/// Bytes that are written before it is looked anew how much the log takes.
const LOOK_BYTES: u64 = 32 << 10;

/// 256ths of what is written that are moved: when the log takes no more than it should, for each
/// half of a segment that it takes more, and however much that is.
const PACE_LEAST: u64 = 64;
const PACE_PER_HALF: u64 = 256;
const PACE_MOST: u64 = 512;

/// What those who write have moved, and are to move.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Whether whoever writes takes steps.
    are_taken: bool,
    /// Bytes of records that were written when somebody last might have taken some.
    written_bytes: u64,
    /// Bytes that are to be moved for these.
    owed_bytes: u64,
    /// Bytes that are written until it is looked how much the log takes.
    look_bytes: u64,
    /// 256ths of what is written that are moved.
    pace: u64,
    /// Whether others move as well, because those who write do not keep up.
    are_behind: bool,
    /// Whether somebody waits for a report, which moves may lead to.
    is_awaited: bool,
    /// When the present span has begun, and how many bytes were written in it and in the one
    /// before.
    span_ms: u64,
    span_bytes: [u64; 2],
}

impl Steps {
    /// So many bytes were written.
    fn note_written(&mut self, bytes: u64, now_ms: u64) {
        let is_endless = base::mutant!("log_spans_never_end");
        match now_ms.saturating_sub(self.span_ms) / SPAN_MS {
            0 => {}
            _ if is_endless => self.span_ms = now_ms,
            1 => {
                (self.span_ms, self.span_bytes) = (self.span_ms + SPAN_MS, [0, self.span_bytes[0]])
            }
            _ => (self.span_ms, self.span_bytes) = (now_ms, [0; 2]),
        }
        self.span_bytes[0] += bytes;
    }

    /// Until when those who write count as busy, who write at least so much in a span; 0 when they
    /// do not.
    fn busy_until_ms(&self, least_bytes: u64) -> u64 {
        let [this, before] = self.span_bytes.map(|bytes| bytes >= least_bytes);
        match (this, before) {
            (true, _) => self.span_ms + 2 * SPAN_MS,
            (false, true) => self.span_ms + SPAN_MS,
            (false, false) => 0,
        }
    }
}

impl<K: Keys> Engine<K> {
    /// Has whoever writes move something, by [`Engine::step_moves`] behind what he has written, and
    /// leaves moves to them as long as they do. A ring moves nothing.
    pub fn leave_moves_to_writers(&mut self) {
        let are_taken = self.settings.ring.is_none();
        let written_bytes = self.counts.record_bytes;
        self.compaction.steps = Steps { are_taken, written_bytes, ..Steps::default() };
    }

    /// Has nobody move anything for so many of the bytes that were written last.
    pub(in crate::engine) fn forgo_steps(&mut self, bytes: u64) {
        self.compaction.steps.written_bytes += bytes;
    }

    /// Whether whoever writes now is to move something.
    pub fn takes_steps(&self) -> bool {
        self.compaction.steps.are_taken && self.compaction.moving.is_some()
    }

    /// Tells whether somebody waits for a report: then nothing is left to those who write.
    pub fn tell_waiting(&mut self, is_awaited: bool) {
        self.compaction.steps.is_awaited = is_awaited;
    }

    /// Moves something, for what was written since the last time, if moves are left to whoever
    /// writes. `is_close`: it came close behind what was written before.
    pub fn step_moves(&mut self, now_ms: u64, is_close: bool) {
        let all_bytes = self.counts.record_bytes;
        let steps = &mut self.compaction.steps;
        let written_bytes = all_bytes - std::mem::replace(&mut steps.written_bytes, all_bytes);
        if written_bytes == 0 || !steps.are_taken {
            return;
        }
        self.now_ms = now_ms;
        steps.note_written(written_bytes, now_ms);
        if !self.takes_steps() || self.compaction.waits || self.is_held_up() {
            return;
        }
        self.set_pace(written_bytes);
        let Some(record_bytes) = self.bytes_of_a_record() else { return };
        let steps = &mut self.compaction.steps;
        let due_bytes = written_bytes.saturating_mul(steps.pace) / 256;
        let most_bytes = OWED_BYTES_MAX.max(2 * record_bytes).max(due_bytes);
        steps.owed_bytes = (steps.owed_bytes + due_bytes).min(most_bytes);
        let may_wait = steps.owed_bytes < most_bytes || base::mutant!("log_steps_put_off_for_ever");
        if is_close && may_wait && !base::mutant!("log_steps_never_put_off") {
            return;
        }
        // Steps are whole records, so what was put off is done by and by; one more while it is
        // much. And no more bytes than a turn, for which others wait, or half of what they have
        // just waited for; of large records two, if that is no more than half as much again: with
        // one a put, moves would fall behind where less than half of a segment is dead.
        let is_much = steps.owed_bytes >= most_bytes / 2 && !base::mutant!("log_put_off_for_good");
        let due_bytes = due_bytes + if is_much { record_bytes } else { 0 };
        let due_bytes = if base::mutant!("log_one_step_a_put") { 1 } else { due_bytes };
        let is_short = base::mutant!("log_one_large_step_a_put");
        let two_bytes = if is_short { 0 } else { 2 * record_bytes };
        let longest = (TURN.bytes as u64).max(written_bytes / 2);
        let longest = longest.max(two_bytes.min(written_bytes * 3 / 2));
        self.take_steps(due_bytes.min(longest), record_bytes);
    }

    /// Takes steps until so many bytes are moved, or all that is owed.
    fn take_steps(&mut self, mut left_bytes: u64, record_bytes: u64) {
        while left_bytes > 0 && self.compaction.steps.owed_bytes >= record_bytes {
            let before = self.counts.moved_bytes;
            let moving = self.compaction.moving.as_ref();
            let is_look = moving.is_some_and(|moving| self.may_take_entries(moving))
                && !base::mutant!("log_looks_are_records");
            if !self.take_step() {
                return;
            }
            let least = if is_look { record_bytes.min(ENTRIES_COUNT_BYTES) } else { record_bytes };
            let bytes = (self.counts.moved_bytes - before).max(least);
            left_bytes = left_bytes.saturating_sub(bytes);
            let steps = &mut self.compaction.steps;
            steps.owed_bytes = steps.owed_bytes.saturating_sub(bytes);
        }
    }

    fn set_pace(&mut self, written_bytes: u64) {
        let steps = &mut self.compaction.steps;
        if written_bytes < steps.look_bytes {
            steps.look_bytes -= written_bytes;
            return;
        }
        let debt_bytes = self.debt_bytes().unwrap_or(0);
        let are_behind = debt_bytes > self.helped_bytes();
        let half_bytes = self.manifest.shape.segment_bytes / 2;
        let is_even = base::mutant!("log_steps_at_one_pace");
        let more = if is_even { 0 } else { debt_bytes.saturating_mul(PACE_PER_HALF) / half_bytes };
        let pace = PACE_LEAST + more;
        let steps = &mut self.compaction.steps;
        steps.look_bytes = LOOK_BYTES;
        (steps.pace, steps.are_behind) = (pace.min(PACE_MOST), are_behind);
    }

    /// Bytes of a record of what is being moved, on average; `None` until its trailer is read.
    fn bytes_of_a_record(&self) -> Option<u64> {
        let moving = self.compaction.moving.as_ref()?;
        moving.footer.map(|_| moving.record_bytes)
    }

    /// Moves a little of what was read. `false` when there is nothing, or somebody reads it.
    fn take_step(&mut self) -> bool {
        let Some(mut moving) = self.compaction.moving.take() else { return false };
        let is_read = self.is_pinned(moving.victim) && !base::mutant!("log_steps_move_pinned");
        let is_free = !self.compaction.waits && !is_read;
        let next = if is_free { self.move_some(&mut moving, &STEP) } else { None };
        let is_taken = next.is_some();
        match next {
            Some(next) => {
                let read = self.follow(moving, next);
                debug_assert!(read.is_none(), "a step has asked for a read");
            }
            None => self.compaction.moving = Some(moving),
        }
        is_taken
    }

    /// Until when what is at hand is left to whoever writes next; 0 when it is not.
    fn left_until_ms(&self, moving: &Moving) -> u64 {
        let steps = &self.compaction.steps;
        let are_behind = steps.are_behind && !base::mutant!("log_late_moves_left_to_writers");
        let is_awaited = steps.is_awaited && !base::mutant!("log_awaited_moves_left_to_writers");
        let has_room = !self.lacks_room() || base::mutant!("log_room_left_to_writers");
        let is_at_hand = self.may_take_entries(moving) || !moving.windows.is_empty();
        if are_behind || is_awaited || !has_room || !is_at_hand {
            return 0;
        }
        let least_bytes = (TURN.records as u64 * moving.record_bytes).min(TURN.bytes as u64);
        let is_trickle = base::mutant!("log_moves_left_to_a_trickle");
        steps.busy_until_ms(if is_trickle { 1 } else { least_bytes })
    }

    /// Whether what is at hand is left to whoever writes next.
    pub(super) fn leaves_to_writers(&self, moving: &Moving) -> bool {
        if base::mutant!("log_turns_beside_steps") {
            return false;
        }
        let until_ms = self.left_until_ms(moving);
        self.now_ms < until_ms || until_ms > 0 && base::mutant!("log_steps_never_end")
    }

    /// When others go on with what is left to whoever writes next.
    pub(in crate::engine) fn steps_end_ms(&self) -> Option<u64> {
        let moving = self.compaction.moving.as_ref().filter(|_| !self.compaction.waits)?;
        let until_ms = self.left_until_ms(moving);
        (self.now_ms < until_ms).then_some(until_ms)
    }
}
