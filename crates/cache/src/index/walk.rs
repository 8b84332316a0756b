//! A walk through all entries while others read and write.
//!
//! Buckets are visited in order of their numbers, each under its lock. An entry that is there from
//! the first step to the last is met at least once: it leaves its bucket only by a split, which
//! takes it to a bucket behind all others; by displacement, which refuses to take an entry that has
//! not been met to a bucket that has been visited; or by a merge, of which there is none meanwhile.
//! What comes and goes in between may be met or not, and what is split, twice.
//!
//! Thread safety: one walk at a time, which any thread may step. Who moves an entry holds the locks
//! of both buckets and then asks how far the walk is; the walk notes that a bucket is visited
//! before it unlocks it. So whoever locks a visited bucket knows that it is one.

use std::ops::ControlFlow;

use base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};

use super::{Bucket, Found, Index, LINE_ENTRIES};
use crate::arena::Arena;

/// A walk that nobody steps for so long gives way to another, or to merges: who steps it waits for
/// a client, perhaps for ever.
pub(crate) const STALLED_MS: u64 = 30_000;

/// How far the walk has come. On lines of its own: each step writes it, and who moves entries
/// reads it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Walk {
    /// Buckets below this one have been visited; 0 while nobody walks.
    visited: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Walks begun. The last of them is under way if `stepped_ms` is there.
    begun: u64,
    /// When it was last stepped, in milliseconds.
    stepped_ms: Option<u64>,
}

/// What a step of a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A bucket was visited, and there are more.
    More,
    /// All have been.
    End,
    /// The walk was not stepped for so long that another one, or a merge, took its place.
    Lost,
}

impl Index {
    /// Begins a walk and returns its number. `None` while another is under way.
    pub(crate) fn begin_walk(&self, now_ms: u64) -> Option<u64> {
        // A merge that is under way might take entries to where the walk has been.
        let _growth = lock(&self.growth);
        let mut state = lock(&self.walk.state);
        if state.is_under_way(now_ms) {
            return None;
        }
        self.walk.visited.store(0, Ordering::Relaxed);
        state.begun += 1;
        state.stepped_ms = Some(now_ms);
        Some(state.begun)
    }

    /// Shows `visit` all entries of the next bucket, under its lock.
    pub(crate) fn step_walk<'a>(
        &self,
        arena: &'a Arena,
        walk: u64,
        now_ms: u64,
        mut visit: impl FnMut(Found<'a>),
    ) -> Step {
        let mut state = lock(&self.walk.state);
        if state.begun != walk || state.stepped_ms.is_none() {
            return Step::Lost;
        }
        let number = self.walk.visited.load(Ordering::Relaxed);
        if number >= self.buckets() {
            self.end(&mut state);
            return Step::End;
        }
        state.stepped_ms = Some(now_ms);
        let locked = self.bucket(arena, number).lock();
        let bucket = locked.bucket();
        let mut visit_line = |line: Bucket<'a>| {
            for place in 0..LINE_ENTRIES {
                let entry = line.entry(place);
                if !entry.is_empty() {
                    visit(Found { bucket, line, place, entry });
                }
            }
            ControlFlow::<()>::Continue(())
        };
        let _ = visit_line(bucket);
        let _ = self.walk_overflow(arena, bucket, visit_line);
        self.walk.visited.store(number + 1, Ordering::Relaxed);
        Step::More
    }

    /// Ends a walk before its end.
    pub(crate) fn end_walk(&self, walk: u64) {
        let mut state = lock(&self.walk.state);
        if state.begun == walk {
            self.end(&mut state);
        }
    }

    /// Whether a walk is under way: nothing may be merged. The caller holds the lock of `growth`,
    /// without which none begins.
    pub(super) fn is_walked(&self) -> bool {
        lock(&self.walk.state).stepped_ms.is_some()
    }

    /// Whether the walk would miss an entry that went from one bucket to another. The caller has
    /// locked both.
    pub(super) fn hides(&self, from: u64, to: u64) -> bool {
        let visited = self.walk.visited.load(Ordering::Relaxed);
        to < visited && from >= visited && !base::mutant!("walk_is_overtaken")
    }

    /// Ends a walk that stalls, so that buckets may be merged again.
    pub(crate) fn end_stalled_walk(&self, now_ms: u64) {
        let mut state = lock(&self.walk.state);
        if state.stepped_ms.is_some() && !state.is_under_way(now_ms) {
            self.end(&mut state);
        }
    }

    fn end(&self, state: &mut State) {
        state.stepped_ms = None;
        self.walk.visited.store(0, Ordering::Relaxed);
    }
}

impl State {
    fn is_under_way(&self, now_ms: u64) -> bool {
        self.stepped_ms.is_some_and(|at_ms| now_ms < at_ms + STALLED_MS)
    }
}
