//! What to do next, and what came of it: writes and flushes of records.

use std::sync::Arc;

use super::{CLOSING_MAX, Engine, Job, Mode, sealing::Sealing, tail::Tail};
use crate::{
    keys::Keys,
    plan::{Action, FileName, Outcome, Plan, SegmentId, Token},
};

impl<K: Keys> Engine<K> {
    /// The next action to perform; `None` until something is reported, written or due.
    pub fn poll(&mut self, now_ms: u64) -> Option<Plan> {
        loop {
            let changes = self.unreported();
            let plan = self.poll_records(now_ms).or_else(|| self.poll_upkeep(now_ms));
            if plan.is_some() || self.unreported() == changes {
                return plan;
            }
        }
    }

    /// The next write or flush of records: what those who wait for a record wait for.
    pub fn poll_records(&mut self, now_ms: u64) -> Option<Plan> {
        self.now_ms = now_ms;
        self.reclaim();
        self.rewrite();
        let plan = self.poll_closing().or_else(|| self.poll_open());
        self.go_with(plan)
    }

    /// The next action for anything else: footers, segments that are made ahead or emptied, moves.
    /// Where there is none, and [`Engine::unreported`] has changed, it is to be asked for again.
    pub fn poll_upkeep(&mut self, now_ms: u64) -> Option<Plan> {
        self.now_ms = now_ms;
        self.begin_sealing();
        if self.encode_footer() {
            return None;
        }
        let plan = self.poll_sealing().or_else(|| self.poll_space());
        let plan = plan.or_else(|| self.poll_moving());
        self.go_with(plan)
    }

    /// As [`Engine::poll_upkeep`], while somebody else goes on with the records of a move: two who
    /// do it in turn are no faster, and whoever calls the log waits for either.
    pub fn poll_beside(&mut self, now_ms: u64) -> Option<Plan> {
        self.now_ms = now_ms;
        self.begin_sealing();
        let plan = self.poll_sealing().or_else(|| self.poll_space());
        let plan = plan.or_else(|| match base::mutant!("log_beside_moves") {
            true => self.poll_moving(),
            false => self.poll_beside_moves(),
        });
        self.go_with(plan)
    }

    /// Whoever has asked goes away to perform the action, if there is one.
    pub(super) fn go_with(&mut self, plan: Option<Plan>) -> Option<Plan> {
        if plan.is_some() {
            self.compaction.leave_turns();
        }
        if let Some(Plan { action: Action::Write { file, bytes, .. }, .. }) = &plan
            && matches!(file.name, FileName::Segment(_))
        {
            self.counts.written_bytes += *bytes as u64;
        }
        plan
    }

    /// Takes what came of an action.
    ///
    /// # Panics
    /// When no action is out under `token`.
    pub fn complete(&mut self, token: Token, outcome: Outcome) {
        let job = self.jobs.remove(&token).expect("invariant: each token is reported once");
        let copies = self.copies.tail.as_ref().map(|tail| tail.segment);
        // Moves wait for nothing that a write of other records brings.
        let is_write =
            matches!(job, Job::Write { segment, .. } if copies.is_none_or(|it| it != segment));
        if !is_write {
            self.compaction.go_on();
        }
        match (job, outcome) {
            (Job::Chain, outcome) => self.report_space(outcome),
            (Job::Sealing, outcome) => self.report_sealing(outcome),
            (Job::Moving, outcome) => self.report_move(outcome),
            (Job::Write { segment, chunk }, Outcome::Wrote(bytes)) => {
                let wrote = self.tail_mut(segment).map(|tail| tail.wrote(chunk, bytes));
                if wrote == Some(false) {
                    self.fail_tail(segment);
                }
            }
            (Job::Flush { segment }, Outcome::Done) => self.flushed(segment),
            (Job::Flush { segment }, Outcome::Failed(..))
                if base::mutant!("log_failed_flush_tried_again") =>
            {
                self.tail_mut(segment).into_iter().for_each(Tail::forget_flush);
            }
            (Job::Write { segment, .. } | Job::Flush { segment }, _) => self.fail_tail(segment),
        }
    }

    /// Whether [`Engine::poll`] may have something to do now that nobody waits for: a chunk that
    /// is closed, a segment that is full.
    pub fn has_work(&self) -> bool {
        let is_waiting = |tail: &Tail| tail.has_waiting();
        let is_unflushed = |tail: &Tail| tail.has_written() && !tail.is_flushing();
        let is_unsealed = |tail: &Tail| tail.is_flushed() && self.sealing.is_none();
        self.open.as_ref().is_some_and(is_waiting)
            || self.closing.iter().any(|it| {
                is_unsealed(it) || !it.is_for_copies && (is_waiting(it) || is_unflushed(it))
            })
            || self.wants_segment()
            || self.wants_freeing()
            || self.may_take_turn()
            || self.wants_growth()
            || self.wants_wipe()
    }

    /// Whether there is a turn to be taken, of a move or a footer, or a copy to be written, that
    /// nobody is at.
    pub fn may_take_turn(&self) -> bool {
        self.may_move() || self.may_encode()
    }

    /// What failed flushes have left, and how many have failed: when it changes, those who wait for
    /// any report are to look again.
    pub fn setbacks(&self) -> (usize, u32) {
        (self.stranded.len(), self.failures)
    }

    /// How many actions are out.
    pub fn out(&self) -> usize {
        self.jobs.len()
    }

    fn flushed(&mut self, segment: SegmentId) {
        let mut buffers = Vec::new();
        if let Some(tail) = self.tail_mut(segment) {
            tail.flushed(&mut buffers);
            self.counts.flushes += 1;
        }
        self.retired.append(&mut buffers);
    }

    /// Takes back the buffers that nobody writes from any more.
    pub(super) fn reclaim(&mut self) {
        for buffer in std::mem::take(&mut self.retired) {
            match Arc::try_unwrap(buffer) {
                // Of copies: only those are of no pool.
                Ok(buffer) if buffer.number().is_none() => self.copies.buffers.push(buffer),
                Ok(buffer) => self.buffers.push(buffer),
                Err(shared) => self.retired.push(shared),
            }
        }
    }

    /// The open segment is full: it is closed, and another may be opened. `false` when too many
    /// are on their way to being sealed.
    pub(super) fn close_tail(&mut self) -> bool {
        let closing = self.closing.iter().chain(self.sealing.as_ref().map(Sealing::tail));
        if closing.filter(|tail| !tail.is_for_copies).count() >= CLOSING_MAX {
            return false;
        }
        self.close_chunk();
        self.closing.extend(self.open.take());
        true
    }

    fn poll_closing(&mut self) -> Option<Plan> {
        for at in 0..self.closing.len() {
            if self.closing[at].is_for_copies {
                continue;
            }
            let segment = self.closing[at].segment;
            let plan = self.poll_write(segment).or_else(|| self.poll_flush(segment));
            if plan.is_some() {
                return plan;
            }
        }
        None
    }

    fn poll_open(&mut self) -> Option<Plan> {
        let tail = self.open.as_ref()?;
        let segment = tail.segment;
        // A group is what has come while the one before was on its way.
        let is_free = !tail.has_closed() && !tail.is_flushing();
        if tail.is_filling() && is_free && self.wants_flush() {
            self.close_chunk();
        }
        let write = self.poll_write(segment);
        if write.is_some() || !self.wants_flush() { write } else { self.poll_flush(segment) }
    }

    /// Whether what is not flushed should be.
    fn wants_flush(&self) -> bool {
        let Some(tail) = &self.open else { return false };
        let is_draining = tail.first_unflushed().is_some_and(|first| first < self.drain_below);
        let at_risk = tail.at_risk_bytes() + self.large_bytes_at_risk();
        let since_ms = tail.waits_since_ms().unwrap_or(self.now_ms);
        let settings = &self.settings;
        let age_ms = self.now_ms.saturating_sub(since_ms);
        let memory = u64::from(settings.chunk_bytes) * u64::from(settings.chunks);
        settings.mode == Mode::Safe
            || is_draining
            || at_risk >= settings.at_risk_bytes_max / 2
            || tail.unflushed_bytes() >= memory / 2
            || age_ms >= settings.at_risk_ms_max / 2 && !base::mutant!("log_async_never_due")
    }

    pub(super) fn poll_write(&mut self, segment: SegmentId) -> Option<Plan> {
        let (chunk, action) = self.tail_mut(segment)?.next_write()?;
        let token = self.token(Job::Write { segment, chunk });
        Some(Plan { token, action })
    }

    pub(super) fn poll_flush(&mut self, segment: SegmentId) -> Option<Plan> {
        let tail = self.tail_mut(segment)?;
        if tail.is_flushing() || !tail.has_written() {
            return None;
        }
        let action = tail.begin_flush();
        let token = self.token(Job::Flush { segment });
        Some(Plan { token, action })
    }
}
