//! Adding and removing entries under the locks of a key's two buckets.

use base::sync::atomic::Ordering;

use super::{
    Candidates, Entry, Found, Index, Lines, Locked, Probe, Role, Size, Tag, bucket::OTHER_SHIFT,
};
use crate::arena::Arena;

/// The two candidate buckets of a key, locked.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    first: Locked<'a>,
    second: Locked<'a>,
    pub(super) hash: u64,
    /// The index's size when it was locked.
    pub(super) size: Size,
}

/// A place for an entry in a bucket that is locked alone.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    lock: Locked<'a>,
    place: usize,
    role: Role,
}

impl Room<'_> {
    /// Puts the entry in and unlocks the bucket.
    #[inline]
    pub(crate) fn take(self, entry: Entry) {
        let word = self.lock.bucket().word(self.place);
        word.store(entry.in_role(self.role).0, Ordering::Relaxed);
    }
}

/// The bucket to add an entry to, and a place in it: the first one while it has several, else the
/// one with more room. Where several are left a lookup finds most keys in the first line; from
/// there on the second keeps both from filling up.
#[inline]
fn roomier(lines: Lines<'_>) -> Option<(Role, usize)> {
    let both = lines.first.both_tagged(lines.second, Tag::NONE);
    let (first, second) = (both % (1 << OTHER_SHIFT), both >> OTHER_SHIFT);
    // Counting them takes a dozen instructions more. Without branches: it is a matter of chance.
    let several = |places: u32| places & places.wrapping_sub(1) != 0;
    let takes_first = several(first) | (!several(second) & ((first != 0) | (second == 0)));
    let (role, room) = if takes_first { (Role::First, first) } else { (Role::Second, second) };
    (room != 0).then(|| (role, room.trailing_zeros() as usize))
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
        if !self.is_current(candidates) {
            candidates = self.candidates(hash);
        }
        loop {
            let Lines { first, second } = Lines::of(arena, candidates);
            let swap = candidates.second < candidates.first;
            let (low, high) = if swap { (second, first) } else { (first, second) };
            let (low, high) = (low.lock(), high.lock());
            // A bucket may have been split while this thread waited for it, or before.
            let is_current = self.is_current(candidates);
            let now = if is_current { candidates } else { self.candidates(hash) };
            if is_current || now.lines() == candidates.lines() {
                let (first, second) = if swap { (high, low) } else { (low, high) };
                return Pair { first, second, hash, size: now.size };
            }
            candidates = now;
        }
    }

    /// Locks one bucket for a key that `probe` found nowhere, if that is enough: if nothing has
    /// changed since, and there is room. To be given back with an entry in it.
    ///
    /// Two threads that add one key this way to different buckets each lock their own first and
    /// then look at the other's, so at least one of them sees the other and goes the long way. Who
    /// locks both cannot have locked this one.
    #[inline]
    pub(crate) fn lock_one<'a>(
        &self,
        probe: &Probe<'a>,
        candidates: Candidates,
        hash: u64,
    ) -> Option<Room<'a>> {
        if probe.places != 0 || !probe.is_all() {
            return None;
        }
        let (role, place) = roomier(probe.lines)?;
        let Lines { first, second } = probe.lines;
        let (here, there, versions) = match role {
            Role::First => (first, second, probe.heads),
            Role::Second => (second, first, (probe.heads.1, probe.heads.0)),
        };
        let lock = here.lock_at(versions.0)?;
        let is_alone = (base::mutant!("insert_looks_at_one_bucket") || there.is_still(versions.1))
            && (self.is_current(candidates) || self.candidates(hash).lines() == candidates.lines());
        is_alone.then_some(Room { lock, place, role })
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
        if let Some((role, place)) = roomier(pair.lines()) {
            let target = if role == Role::First { first } else { second };
            target.word(place).store(entry.in_role(role).0, Ordering::Relaxed);
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
