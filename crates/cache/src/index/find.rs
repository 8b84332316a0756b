//! Looking an entry up, without a lock and with one.

use std::ops::ControlFlow;

use super::{Bucket, Candidates, Entry, Index, Tag, Version, bucket::OTHER_SHIFT};
use crate::arena::Arena;

/// An entry and the bucket whose version guards it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    /// The bucket that guards the entry; for one in an overflow line, the bucket that leads there.
    pub(crate) bucket: Bucket<'a>,
    /// The line that the entry is in.
    pub(crate) line: Bucket<'a>,
    /// Its place in the line.
    pub(crate) place: usize,
    /// The entry as it was seen.
    pub(crate) entry: Entry,
}

/// The two candidate lines of a key, looked at as one: both misses overlap, and which of the two
/// has the entry costs no misprediction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) first: Bucket<'a>,
    pub(crate) second: Bucket<'a>,
}

/// Attempts of an optimistic read before it takes the lock. A writer holds a bucket for some 50 ns
/// and a read takes as long, so more than a few in a row mean that the bucket is under heavy fire.
pub(crate) const OPTIMISTIC_ATTEMPTS: u32 = 8;

/// Overflow lines followed from one bucket: more than any bucket has had in tests at a load of
/// 0.95, so a longer chain is a torn one.
pub(super) const OVERFLOW_CHAIN_MAX: usize = 64;

impl Found<'_> {
    /// The entry as it is now. Under the lock only its counter can have changed.
    #[inline]
    pub(crate) fn now(self) -> Self {
        Self { entry: self.line.entry(self.place), ..self }
    }
}

impl<'a> Lines<'a> {
    #[inline(always)]
    pub(super) fn of(arena: &'a Arena, candidates: Candidates) -> Self {
        let line = |number| Bucket::new(arena.line(number));
        Self { first: line(candidates.first), second: line(candidates.second) }
    }

    /// The places of both lines whose entries have this tag.
    #[inline(always)]
    pub(super) fn tagged(self, tag: Tag) -> u32 {
        self.first.both_tagged(self.second, tag)
    }

    /// The line and the place in it that a bit of a set stands for.
    #[inline(always)]
    pub(super) fn place(self, bit: u32) -> (Bucket<'a>, usize) {
        let line = if bit < OTHER_SHIFT { self.first } else { self.second };
        (line, (bit % OTHER_SHIFT) as usize)
    }

    /// The entry that a bit of a set stands for.
    #[inline(always)]
    fn found(self, bit: u32) -> Found<'a> {
        let (line, place) = self.place(bit);
        Found { bucket: line, line, place, entry: line.entry(place) }
    }
}

/// A look at both lines of a key without a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'a> {
    pub(super) lines: Lines<'a>,
    /// As they were before anything else was read.
    pub(super) heads: (Version, Version),
    /// The places with the tag that have not been looked at.
    pub(super) places: u32,
}

impl<'a> Probe<'a> {
    /// The first entry with the tag.
    #[inline(always)]
    pub(crate) fn found(&self) -> Option<Found<'a>> {
        (self.places != 0).then(|| self.lines.found(self.places.trailing_zeros()))
    }

    /// Whether the overflow lines need not be looked at.
    #[inline(always)]
    pub(crate) fn is_all(&self) -> bool {
        self.lines.first.overflow() == 0
    }

    /// Whether what `found` was read from has not changed since.
    #[inline(always)]
    pub(crate) fn holds(&self, found: &Found<'a>) -> bool {
        found.bucket.unchanged(self.version(found))
    }

    /// The version of the bucket in which this found something, from before it looked.
    #[inline(always)]
    pub(crate) fn version(&self, found: &Found<'a>) -> Version {
        let in_first = found.bucket.is(self.lines.first);
        if in_first { self.heads.0 } else { self.heads.1 }
    }

    /// Whether none of the two lines has changed since. An entry that moved from the second bucket
    /// to the first between the two looks was seen in neither; then a version has changed, or the
    /// number of buckets.
    #[inline(always)]
    fn is_unmoved(&self) -> bool {
        let Lines { first, second } = self.lines;
        if base::mutant!("miss_without_revalidation") {
            return self.heads.0.is_even() && self.heads.1.is_even();
        }
        second.unchanged(self.heads.1) && first.unchanged(self.heads.0)
    }
}

impl Index {
    /// Reads without a lock: calls `read` for every entry that may be the one, until it returns
    /// something and the bucket has not changed meanwhile. `Ok(None)` is a miss that is certain.
    ///
    /// # Errors
    /// When writers kept interfering: take the lock.
    pub(crate) fn read<'a, R>(
        &self,
        arena: &'a Arena,
        mut candidates: Candidates,
        hash: u64,
        mut read: impl FnMut(Found<'a>) -> Option<R>,
    ) -> Result<Option<(Found<'a>, R)>, Contended> {
        if !self.is_current(candidates) {
            candidates = self.candidates(hash);
        }
        for _ in 0..OPTIMISTIC_ATTEMPTS {
            match self.read_once(arena, candidates, Tag::of(hash), &mut read) {
                Attempt::Hit(found, result) => return Ok(Some((found, result))),
                Attempt::Miss => return Ok(None),
                Attempt::Again => {
                    base::sync::spin_loop();
                    candidates = self.candidates(hash);
                }
            }
        }
        Err(Contended)
    }

    fn read_once<'a, R>(
        &self,
        arena: &'a Arena,
        candidates: Candidates,
        tag: Tag,
        read: &mut impl FnMut(Found<'a>) -> Option<R>,
    ) -> Attempt<'a, R> {
        let mut probe = self.probe(arena, candidates, tag);
        while let Some(found) = probe.found() {
            if let Some(result) = read(found) {
                return if probe.holds(&found) {
                    Attempt::Hit(found, result)
                } else {
                    Attempt::Again
                };
            }
            probe.places &= probe.places - 1;
        }
        let Probe { lines: Lines { first, .. }, heads, .. } = probe;
        if first.overflow() != 0
            && let Some(attempt) = self.probe_overflow(arena, first, heads.0, tag, read)
        {
            return attempt;
        }
        if probe.is_unmoved() && self.is_current(candidates) {
            Attempt::Miss
        } else {
            Attempt::Again
        }
    }

    /// Looks for a key without a lock.
    #[inline(always)]
    pub(crate) fn probe<'a>(
        &self,
        arena: &'a Arena,
        candidates: Candidates,
        tag: Tag,
    ) -> Probe<'a> {
        let lines = Lines::of(arena, candidates);
        let heads = (lines.first.version(), lines.second.version());
        Probe { lines, heads, places: lines.tagged(tag) }
    }

    /// Whether a probe that found nothing proves that there is nothing. If not, look again.
    #[inline(always)]
    pub(crate) fn is_miss(&self, probe: &Probe<'_>, candidates: Candidates) -> bool {
        probe.is_all() && probe.is_unmoved() && self.is_current(candidates)
    }

    #[cold]
    #[inline(never)]
    fn probe_overflow<'a, R>(
        &self,
        arena: &'a Arena,
        first: Bucket<'a>,
        version: Version,
        tag: Tag,
        read: &mut dyn FnMut(Found<'a>) -> Option<R>,
    ) -> Option<Attempt<'a, R>> {
        let probed = self.walk_overflow(arena, first, |line| {
            let mut places = line.tagged(tag);
            while places != 0 {
                let place = places.trailing_zeros() as usize;
                places &= places - 1;
                let found = Found { bucket: first, line, place, entry: line.entry(place) };
                if let Some(result) = read(found) {
                    return ControlFlow::Break(match first.unchanged(version) {
                        true => Attempt::Hit(found, result),
                        false => Attempt::Again,
                    });
                }
            }
            ControlFlow::Continue(())
        });
        probed.break_value()
    }

    /// Finds the entry of a key among its locked candidates: one with this tag that `is_it`.
    #[inline]
    pub(crate) fn find_tagged<'a>(
        &self,
        arena: &'a Arena,
        lines: Lines<'a>,
        tag: Tag,
        is_it: impl Fn(Entry) -> bool,
    ) -> Option<Found<'a>> {
        let mut places = lines.tagged(tag);
        while places != 0 {
            let found = lines.found(places.trailing_zeros());
            places &= places - 1;
            if is_it(found.entry) {
                return Some(found);
            }
        }
        if lines.first.overflow() == 0 {
            return None;
        }
        self.find_in_overflow(arena, lines.first, tag, &is_it)
    }

    /// Finds the entry of a hash that leads to `location`; without the locks a hint that must be
    /// confirmed under the bucket's. Finds nothing when `candidates` are out of date.
    #[inline]
    pub(crate) fn find_location<'a>(
        &self,
        arena: &'a Arena,
        candidates: Candidates,
        hash: u64,
        location: usize,
    ) -> Option<Found<'a>> {
        if !self.is_current(candidates) {
            return None;
        }
        let tag = Tag::of(hash);
        // Each word is loaded twice: without the lock it may be another the second time.
        let is_it = |entry: Entry| entry.location() == location && entry.tag() == tag;
        self.find_tagged(arena, Lines::of(arena, candidates), tag, is_it)
    }

    #[cold]
    #[inline(never)]
    fn find_in_overflow<'a>(
        &self,
        arena: &'a Arena,
        first: Bucket<'a>,
        tag: Tag,
        is_it: &dyn Fn(Entry) -> bool,
    ) -> Option<Found<'a>> {
        let found = self.walk_overflow(arena, first, |line| {
            let mut places = line.tagged(tag);
            while places != 0 {
                let place = places.trailing_zeros() as usize;
                places &= places - 1;
                let found = Found { bucket: first, line, place, entry: line.entry(place) };
                if is_it(found.entry) {
                    return ControlFlow::Break(found);
                }
            }
            ControlFlow::Continue(())
        });
        found.break_value()
    }

    /// Under the lock of `found.bucket`: the entry as it is now, if it still leads to the same
    /// record from the same place. An overflow line may be another bucket's by now.
    #[inline]
    pub(crate) fn confirm<'a>(&self, arena: &'a Arena, found: &Found<'a>) -> Option<Found<'a>> {
        let entry = found.line.entry(found.place);
        let same = entry.location() == found.entry.location() && entry.tag() == found.entry.tag();
        let guarded = || {
            found.line.is(found.bucket) || {
                let in_chain = |line: Bucket<'a>| match line.is(found.line) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
                self.walk_overflow(arena, found.bucket, in_chain).is_break()
            }
        };
        (same && guarded()).then_some(Found { entry, ..*found })
    }

    pub(super) fn walk_overflow<'a, B>(
        &self,
        arena: &'a Arena,
        bucket: Bucket<'a>,
        mut visit: impl FnMut(Bucket<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut number = bucket.overflow();
        for _ in 0..OVERFLOW_CHAIN_MAX {
            let Some(line) = self.overflow_line(arena, number) else { break };
            visit(line)?;
            number = line.overflow();
        }
        ControlFlow::Continue(())
    }
}

/// Writers kept interfering with a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contended;

enum Attempt<'a, R> {
    Hit(Found<'a>, R),
    Miss,
    Again,
}
