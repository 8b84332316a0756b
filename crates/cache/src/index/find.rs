//! Looking an entry up, without a lock and with one.

use std::ops::ControlFlow;

use super::{Bucket, Entry, Index, LINE_ENTRIES, LINE_WORDS, Tag, Version};
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

/// Attempts of an optimistic read before it takes the lock. A writer holds a bucket for some 50 ns
/// and a read takes as long, so more than a few in a row mean that the bucket is under heavy fire.
pub(crate) const OPTIMISTIC_ATTEMPTS: u32 = 8;

/// Overflow lines followed from one bucket: more than any bucket has had in tests at a load of
/// 0.95, so a longer chain is a torn one.
pub(super) const OVERFLOW_CHAIN_MAX: usize = 64;

impl Index {
    /// Reads without a lock: calls `read` for every entry that may be the one, until it returns
    /// something and the bucket has not changed meanwhile. `None` is a miss that is certain.
    /// `Err` when writers kept interfering: take the lock.
    #[inline(always)]
    pub(crate) fn read<'a, R>(
        &self,
        arena: &'a Arena,
        hash: u64,
        mut read: impl FnMut(Found<'a>) -> Option<R>,
    ) -> Result<Option<(Found<'a>, R)>, Contended> {
        for _ in 0..OPTIMISTIC_ATTEMPTS {
            match self.read_once(arena, hash, &mut read) {
                Attempt::Hit(found, result) => return Ok(Some((found, result))),
                Attempt::Miss => return Ok(None),
                Attempt::Again => base::sync::spin_loop(),
            }
        }
        Err(Contended)
    }

    #[inline(always)]
    fn read_once<'a, R>(
        &self,
        arena: &'a Arena,
        hash: u64,
        read: &mut impl FnMut(Found<'a>) -> Option<R>,
    ) -> Attempt<'a, R> {
        let tag = Tag::of(hash);
        let candidates = self.candidates(hash);
        let first = self.bucket(arena, candidates.first());
        // One hit in four is in the second bucket: its miss overlaps with the first one's.
        let second = self.bucket_at(candidates.second());
        arena.prefetch(second);
        let Some(first_version) = first.version() else { return Attempt::Again };
        if let Some(attempt) = probe(first, first, first_version, tag, read) {
            return attempt;
        }
        let second = Bucket::new(arena.slice(second, LINE_WORDS));
        let Some(second_version) = second.version() else { return Attempt::Again };
        if let Some(attempt) = probe(second, second, second_version, tag, read) {
            return attempt;
        }
        if first.overflow() != 0
            && let Some(attempt) = self.probe_overflow(arena, first, first_version, tag, read)
        {
            return attempt;
        }
        // An entry that moved from the second bucket to the first between the two probes was seen
        // in neither; then a version has changed, or the number of buckets.
        let unmoved = cfg!(mutant = "miss_without_revalidation")
            || (second.unchanged(second_version)
                && first.unchanged(first_version)
                && self.is_current(candidates));
        if unmoved { Attempt::Miss } else { Attempt::Again }
    }

    #[cold]
    #[inline(never)]
    fn probe_overflow<'a, R>(
        &self,
        arena: &'a Arena,
        first: Bucket<'a>,
        version: Version,
        tag: Tag,
        read: &mut impl FnMut(Found<'a>) -> Option<R>,
    ) -> Option<Attempt<'a, R>> {
        match self.walk_overflow(arena, first, |line| {
            match probe(first, line, version, tag, read) {
                Some(attempt) => ControlFlow::Break(attempt),
                None => ControlFlow::Continue(()),
            }
        }) {
            ControlFlow::Break(attempt) => Some(attempt),
            ControlFlow::Continue(()) => None,
        }
    }

    /// Finds the entry of a key among its locked candidates: one with this tag that `is_key`.
    #[inline]
    pub(crate) fn find_tagged<'a>(
        &self,
        arena: &'a Arena,
        first: Bucket<'a>,
        second: Bucket<'a>,
        tag: Tag,
        is_key: impl Fn(Entry) -> bool,
    ) -> Option<Found<'a>> {
        for bucket in [first, second] {
            let mut places = bucket.tagged(tag);
            while places != 0 {
                let place = places.trailing_zeros() as usize;
                places &= places - 1;
                let entry = bucket.entry(place);
                if is_key(entry) {
                    return Some(Found { bucket, line: bucket, place, entry });
                }
            }
        }
        if first.overflow() == 0 {
            return None;
        }
        self.find_in(arena, first, second, |entry| entry.matches(tag) && is_key(entry))
    }

    /// Finds the entry that satisfies `wanted` while the caller holds the locks of `first` and
    /// `second` (or accepts to find a stale one).
    pub(crate) fn find_in<'a>(
        &self,
        arena: &'a Arena,
        first: Bucket<'a>,
        second: Bucket<'a>,
        wanted: impl Fn(Entry) -> bool,
    ) -> Option<Found<'a>> {
        let in_line = |bucket: Bucket<'a>, line: Bucket<'a>| {
            // Each entry is loaded once: without the lock a second load may find another record.
            (0..LINE_ENTRIES).find_map(|place| {
                let entry = line.entry(place);
                (!entry.is_empty() && wanted(entry)).then_some(Found { bucket, line, place, entry })
            })
        };
        in_line(first, first).or_else(|| in_line(second, second)).or_else(|| {
            match self.walk_overflow(arena, first, |line| match in_line(first, line) {
                Some(found) => ControlFlow::Break(found),
                None => ControlFlow::Continue(()),
            }) {
                ControlFlow::Break(found) => Some(found),
                ControlFlow::Continue(()) => None,
            }
        })
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

    /// Finds the entry that leads to `location`, without a lock: a hint that must be confirmed by
    /// a compare-and-swap under the lock.
    #[inline]
    pub(crate) fn find_location<'a>(
        &self,
        arena: &'a Arena,
        hash: u64,
        location: usize,
    ) -> Option<Found<'a>> {
        let candidates = self.candidates(hash);
        let first = self.bucket(arena, candidates.first());
        let second = self.bucket(arena, candidates.second());
        self.find_in(arena, first, second, |entry| entry.location() == location)
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

/// Reads what entries of `line` with this tag lead to. `None`: it is not here.
#[inline(always)]
fn probe<'a, R>(
    bucket: Bucket<'a>,
    line: Bucket<'a>,
    version: Version,
    tag: Tag,
    read: &mut impl FnMut(Found<'a>) -> Option<R>,
) -> Option<Attempt<'a, R>> {
    let mut places = line.tagged(tag);
    while places != 0 {
        let place = places.trailing_zeros() as usize;
        places &= places - 1;
        let entry = line.entry(place);
        let found = Found { bucket, line, place, entry };
        if let Some(result) = read(found) {
            return Some(if bucket.unchanged(version) {
                Attempt::Hit(found, result)
            } else {
                Attempt::Again
            });
        }
    }
    None
}
