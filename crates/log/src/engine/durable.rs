//! What is durable, and what may be answered.

use std::ops::Range;

use super::{Drain, Engine, FAILURES_MAX, Mark, Mode, Settled, tail::Tail};
use crate::keys::Keys;

impl<K: Keys> Engine<K> {
    /// Changes when writes are answered. What was answered before is durable when a drain that
    /// begins now is done. What waits in `Safe` goes on waiting in `Async`: it may be more than may
    /// be lost.
    pub fn set_mode(&mut self, mode: Mode) {
        if self.settings.mode == Mode::Safe && mode == Mode::Async {
            self.async_from = self.next_ticket;
            self.drain_below = self.next_ticket;
        }
        self.settings.mode = mode;
    }

    /// Whether what a write or a read waits for is durable.
    pub fn durable(&self, mark: Mark) -> Settled {
        self.all_durable(mark, mark)
    }

    /// Whether everything from `first` to `last` is durable.
    pub(super) fn all_durable(&self, first: Mark, last: Mark) -> Settled {
        let has_failed = |range: &Range<u64>| range.start <= last.0 && first.0 < range.end;
        if self.failed_tickets.iter().any(has_failed) {
            Settled::Failed
        } else if last.0 < self.durable_below() {
            Settled::Done
        } else {
            Settled::Pending
        }
    }

    /// From this mark on replies wait for no flush.
    pub fn answers_wait_below(&self) -> Mark {
        match self.settings.mode {
            Mode::Safe => Mark(u64::MAX),
            Mode::Async => Mark(self.async_from),
        }
    }

    /// Whether a reply that waits for `mark` may go out in the mode that counts now.
    pub fn may_answer(&self, mark: Mark) -> Settled {
        self.may_answer_all(mark, mark)
    }

    /// Whether a reply that waits for everything from `first` to `last` may go out.
    pub fn may_answer_all(&self, first: Mark, last: Mark) -> Settled {
        let is_early = base::mutant!("log_answer_before_flush");
        let is_async = self.settings.mode == Mode::Async;
        if is_early || is_async && first.0 >= self.async_from {
            return Settled::Done;
        }
        let last = if is_async { last.min(Mark(self.async_from - 1)) } else { last };
        self.all_durable(first, last)
    }

    /// Below this mark everything is durable, under its own mark or, where a flush has failed,
    /// because it was written again and that is flushed.
    pub fn durable_to(&self) -> Mark {
        let below = self.durable_below();
        let unmended = self.failed_tickets.iter().skip(self.mended);
        let first_failed = unmended.map(|tickets| tickets.start).min();
        let is_mended = self.is_mended() || base::mutant!("store_failed_is_durable");
        Mark(first_failed.filter(|_| !is_mended).map_or(below, |first| first.min(below)))
    }

    /// Whether all that failed flushes have left was written again, and is flushed.
    pub fn is_mended(&self) -> bool {
        self.failures <= FAILURES_MAX
            && self.stranded.is_empty()
            && self.durable_below() >= self.rewritten_below
    }

    /// Has everything that is written so far be flushed.
    pub fn drain(&mut self) -> Drain {
        self.drain_below = self.next_ticket;
        let has_stranded = self.has_lost();
        Drain { below: self.next_ticket, failures: self.failures, has_stranded }
    }

    /// Whether a drain is done. What a failed flush has left counts when it is rewritten; as long
    /// as there is no room for that, it has failed.
    pub fn drained(&mut self, drain: &mut Drain) -> Settled {
        if base::mutant!("log_confirm_before_drain") {
            return Settled::Done;
        }
        if self.failures > FAILURES_MAX {
            return Settled::Failed;
        }
        // What copies are of is durable.
        if self.has_lost() {
            drain.has_stranded = true;
            let has_room = self.check_rewriting().is_ok();
            let waits = has_room || base::mutant!("log_drain_awaits_room");
            return if waits { Settled::Pending } else { Settled::Failed };
        }
        if drain.has_stranded || drain.failures != self.failures {
            *drain = self.drain();
        }
        if drain.below <= self.durable_below() { Settled::Done } else { Settled::Pending }
    }

    /// Below which ticket everything is durable, or has failed.
    pub(super) fn durable_below(&self) -> u64 {
        self.own_tails().filter_map(Tail::first_unflushed).min().unwrap_or(self.next_ticket)
    }
}
