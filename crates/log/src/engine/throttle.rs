//! Puts slow down before they would have to stop.
//!
//! In `Async` three bounds stop puts: what may be lost, how far moves may be behind, and the end of
//! the last segment that is ready. What takes a bound away is a flush, a move or a segment that is
//! made, and whoever came to the bound would wait for all of that: for tens of milliseconds, while
//! the device is busy with something else. So where a bound is near, shares of what is left to it
//! are put: in a millisecond a 16th of it where half of the bound is left, and half of such a share
//! of half as much. Whoever puts one after the other waits for a millisecond or two, or to make up
//! for a long one, and what is left falls as one over the time: with 8 of 16 MiB left a device may
//! stand still for 0.3 s before puts of 1 KiB come to the bound, and for 0.25 s with 100 KiB. By
//! a 16th of whatever is left, which is simpler, it is 0.1 s.
//!
//! What is put and what is taken away settle where both are as fast, in front of the bound. An LSM
//! tree does the same with its merges in bLSM (Sears and Ramakrishnan, SIGMOD 2012, "spring and
//! gear").
//!
//! Only what is appended takes shares: removes, what is written over in memory and the parts that a
//! head brings to what may be lost do not, so they may bring puts to a bound all the same. In
//! `Safe` each put waits for a flush anyway, and what a ring cannot take is dropped. Bounds that
//! are overrun in one step, as moves are behind by gigabytes when nearly everything was removed,
//! are for `pacing.rs`: there whoever puts pays by what is won.

use super::{Engine, Mode, chunk::Allowance};
use crate::keys::Keys;

/// Milliseconds in which as much as is left to a bound might be put where that is half of it,
/// unless the bound is fewer chunks than that: then as many.
const SHARE_MS: u64 = 16;

/// As how many chunks a bound counts at most: in long segments puts are not to slow down long
/// before others help with moves, nor for long where none is to be had.
const BOUND_CHUNKS_MAX: u64 = 32;

/// Milliseconds whose shares are put at once by whoever comes later: who waits for one sleeps for
/// two or three, on a machine that is busy.
const SAVED_MS: u64 = 4;

/// How much may be put in a millisecond where so much is left to a bound of so many bytes.
pub(super) fn share_bytes(left_bytes: u64, bound_bytes: u64, chunk_bytes: u64) -> u64 {
    let bound_bytes = bound_bytes.min(BOUND_CHUNKS_MAX * chunk_bytes);
    let of_left = left_bytes / (bound_bytes / chunk_bytes).clamp(1, SHARE_MS);
    if base::mutant!("log_shares_of_what_is_left") {
        return of_left;
    }
    let half = (bound_bytes / 2).max(1);
    let share = u128::from(of_left) * u128::from(left_bytes) / u128::from(half);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// What may be put now.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When that was last looked at.
    looked_ms: u64,
    /// Bytes that may be put; less than 0 while one that was longer is to be made up for, which is
    /// done after 16 ms.
    left_bytes: i64,
    /// Whether the write that was asked for last waits for time, and for nothing else.
    is_waiting: bool,
}

impl Throttle {
    /// No bound is near: what comes next begins anew.
    fn release(&mut self) {
        self.left_bytes = i64::MAX;
    }

    /// Takes in the time since the last look. Those who ask may have looked at different times what
    /// time it is.
    fn earn(&mut self, bytes_per_ms: u64, now_ms: u64) {
        let spent_ms = now_ms.saturating_sub(self.looked_ms);
        let spent_ms = if base::mutant!("log_time_earns_nothing") { 0 } else { spent_ms };
        let shares = |ms: u64| i64::try_from(bytes_per_ms.saturating_mul(ms)).unwrap_or(i64::MAX);
        // What a long one has overdrawn has made shares smaller, too.
        let is_endless = base::mutant!("log_long_ones_made_up_for");
        let least = if is_endless { i64::MIN } else { -shares(SHARE_MS) };
        let left_bytes = self.left_bytes.max(least).saturating_add(shares(spent_ms));
        self.left_bytes = left_bytes.min(shares(SAVED_MS));
        let goes_back = base::mutant!("log_time_earns_twice");
        self.looked_ms = if goes_back { now_ms } else { self.looked_ms.max(now_ms) };
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        let bytes = if base::mutant!("log_shares_cost_nothing") { 0 } else { bytes };
        self.left_bytes = self.left_bytes.saturating_sub_unsigned(bytes as u64);
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        let bytes = if base::mutant!("log_shares_not_given_back") { 0 } else { bytes };
        self.left_bytes = self.left_bytes.saturating_add_unsigned(bytes as u64);
    }
}

impl<K: Keys> Engine<K> {
    /// When a put or a batch that was just told to wait may be asked for again, though nothing is
    /// reported. `None` when it waits for a report.
    pub fn retry_at_ms(&self) -> Option<u64> {
        self.throttle.is_waiting.then_some(self.throttle.looked_ms + 1)
    }

    /// Somebody asks for something to be written, at this time.
    pub(super) fn begin_write(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.throttle.is_waiting &= base::mutant!("log_time_awaited_for_others");
    }

    /// How much may be put now, if so many bytes are to be and moves are behind by so many.
    pub(super) fn throttled(&mut self, bytes: usize, debt_bytes: Option<u64>) -> Allowance {
        let Some(bytes_per_ms) = self.bytes_per_ms(debt_bytes) else {
            self.throttle.release();
            return Allowance::Chunk;
        };
        self.throttle.earn(bytes_per_ms, self.now_ms);
        let left = usize::try_from(self.throttle.left_bytes).unwrap_or(0);
        self.throttle.is_waiting = left == 0;
        if left == 0 {
            return Allowance::Nothing;
        }
        Allowance::Share(bytes.max(left.min(self.grain_bytes())))
    }

    /// How much may be put in a millisecond; `None` when no bound is near.
    fn bytes_per_ms(&self, debt_bytes: Option<u64>) -> Option<u64> {
        let is_async = self.settings.mode == Mode::Async && self.settings.ring.is_none();
        if !is_async || base::mutant!("log_puts_run_into_bounds") {
            return None;
        }
        let chunk_bytes = u64::from(self.settings.chunk_bytes);
        let of_debt = debt_bytes.filter(|_| !base::mutant!("log_puts_run_into_moves"));
        let of_debt =
            of_debt.map(|debt| (self.behind_bytes().saturating_sub(debt), self.behind_bytes()));
        let bounds = [self.left_to_lose(), self.left_ready(), of_debt];
        let share = |(left, bound)| share_bytes(left, bound, chunk_bytes);
        let least = bounds.into_iter().flatten().map(share).min()?;
        // With more, the next look is a chunk away. With less, a put that still fits would wait for
        // longer than what takes the bound away.
        let floor = (self.grain_bytes() as u64 / SHARE_MS).max(1);
        (least < chunk_bytes / 2).then_some(least.max(floor))
    }

    /// Bytes that may be acknowledged before a flush, and how many these are at most: while there
    /// is a flush to wait for.
    fn left_to_lose(&self) -> Option<(u64, u64)> {
        let (at_risk, bound) = (self.at_risk_bytes(), self.settings.at_risk_bytes_max);
        (at_risk >= bound / 2 && at_risk > 0).then(|| (bound.saturating_sub(at_risk), bound))
    }

    /// Bytes that may be put before another segment is ready, and what a segment has: while none is
    /// and one is to be had for all that is known.
    fn left_ready(&self) -> Option<(u64, u64)> {
        let is_ready = self.free.len() > self.put_reserve();
        let is_hopeless = self.attempts.are_refused() && !base::mutant!("log_refusal_awaited");
        if is_ready || is_hopeless || base::mutant!("log_puts_run_out_of_segments") {
            return None;
        }
        let tail = self.open.as_ref().filter(|tail| tail.is_for_puts)?;
        Some((tail.left_bytes(), self.manifest.shape.segment_bytes))
    }
}
