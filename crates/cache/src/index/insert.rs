//! Adding and removing entries under the locks of a key's two buckets.

use base::sync::atomic::Ordering;

use super::{Candidates, Entry, Found, Index, LINE_ENTRIES, Lines, Locked, Probe, Role};
use crate::arena::Arena;

/// Entries in the first bucket before a new one goes to the emptier of the two. Below it a lookup
/// needs one line; from it on the second keeps both from filling up.
const FIRST_FILL: u32 = 6;

/// The two candidate buckets of a key, locked.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    first: Locked<'a>,
    second: Locked<'a>,
    pub(super) hash: u64,
    /// How many buckets there are while it is held.
    pub(super) buckets: u64,
}

/// No line can take another entry and there is no memory for an overflow line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

impl<'a> Pair<'a> {
    /// Both lines.
    #[inline]
    pub(crate) fn lines(&self) -> Lines<'a> {
        Lines { first: self.first.bucket(), second: self.second.bucket() }
    }

    /// Whether `probe` found no entry with its tag, and both lines are still as it saw them.
    #[inline]
    pub(crate) fn still_misses(&self, probe: &Probe<'_>) -> bool {
        let Lines { first, second } = probe.lines;
        probe.places == 0
            && probe.is_all()
            && self.first.bucket().is(first)
            && self.second.bucket().is(second)
            && self.first.was(probe.heads.0)
            && self.second.was(probe.heads.1)
    }
}

impl Index {
    /// Locks the candidates of `hash`, in address order. `candidates` may be out of date.
    #[inline]
    pub(crate) fn lock<'a>(
        &self,
        arena: &'a Arena,
        mut candidates: Candidates,
        hash: u64,
    ) -> Pair<'a> {
        loop {
            let Lines { first, second } = Lines::of(arena, candidates);
            let swap = candidates.second < candidates.first;
            let (low, high) = if swap { (second, first) } else { (first, second) };
            let (low, high) = (low.lock(), high.lock());
            // A bucket may have been split while this thread waited for it, or before.
            let is_current = self.is_current(candidates);
            let now = if is_current { candidates } else { self.candidates(hash) };
            if is_current || (now.first, now.second) == (candidates.first, candidates.second) {
                let (first, second) = if swap { (high, low) } else { (low, high) };
                return Pair { first, second, hash, buckets: now.buckets };
            }
            candidates = now;
        }
    }

    /// Adds an entry that none of the key's lines holds yet.
    #[inline]
    pub(crate) fn insert<'a>(
        &self,
        arena: &'a Arena,
        pair: &Pair<'a>,
        entry: Entry,
    ) -> Result<(), Full> {
        let Lines { first, second } = pair.lines();
        let (first_room, second_room) = (first.empty(), second.empty());
        let (in_first, in_second) = (first_room.count_ones(), second_room.count_ones());
        let takes_first = in_first > LINE_ENTRIES as u32 - FIRST_FILL || in_first >= in_second;
        let (role, room) =
            if takes_first { (Role::First, first_room) } else { (Role::Second, second_room) };
        if room != 0 {
            let target = if takes_first { first } else { second };
            let entry = entry.in_role(role);
            target.word(room.trailing_zeros() as usize).store(entry.0, Ordering::Relaxed);
        } else if let Some((bucket, place)) = self.displace(arena, pair) {
            let role = if bucket.is(first) { Role::First } else { Role::Second };
            bucket.word(place).store(entry.in_role(role).0, Ordering::Relaxed);
        } else {
            let (line, place) = self.overflow_room(arena, &pair.first)?;
            line.word(place).store(entry.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes an entry out, if it still leads to the record that was found. The caller holds the
    /// lock of `found.bucket`. Only who gets `true` may free the record.
    pub(crate) fn remove<'a>(&self, arena: &'a Arena, found: &Found<'a>) -> bool {
        // Under the lock only counters change, so a store is as good as a compare-and-swap: a
        // reader that counts a hit meanwhile either did so before, or fails.
        let still = self.confirm(arena, found);
        if let Some(found) = still {
            found.line.word(found.place).store(0, Ordering::Relaxed);
        }
        still.is_some()
    }
}
