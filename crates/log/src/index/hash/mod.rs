//! The hash index: slots of 15 bytes, two buckets a key, growth bucket by bucket.
//!
//! A slot holds enough of its key's hash to be the key (`docs/formats/index.md` has the
//! arithmetic), so a put reads nothing. Both buckets follow from a slot and the one it is in:
//! partial-key cuckoo hashing (Fan et al. 2013) over linear hashing (Litwin 1980), as in the
//! index of crate `cache`, with room made by a search in breadth, so that buckets are fuller.
//!
//! Thread safety: reads take no lock. A key's lock is that of both of its buckets, taken in the
//! order of their numbers. Invariants:
//! 1. A key has at most one slot, in one of its two buckets.
//! 2. A slot appears, changes, moves or disappears only while both buckets it may be in are
//!    locked.
//! 3. The number of buckets changes only while the one that is split and the new one are locked.
//! 4. Whoever holds a key's lock waits for nothing: room was made before, and splitting and
//!    searching take their locks when they hold no other. The first full bucket of 32,768 has 4 KiB
//!    allocated, for the bits that say so.

mod bucket;
#[cfg(test)]
mod checks;
mod full;
mod grow;
mod identity;
mod room;
mod slot;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering, fence},
};

use self::{
    bucket::{BUCKET_LINES, Bucket, Locked},
    full::FullBuckets,
    identity::{BASE_BITS, BUCKETS_MAX, Identity, Size},
};
use super::{
    IndexError, KeyHash, Lookup,
    blocks::{BLOCK_LINES, Blocks, Loading},
    line::{Changing, Line, Version},
};
use crate::position::Entry;

/// Looks at a key's buckets without their locks before those are taken; see the flat index.
const LOOKS_MAX: u32 = 64;

/// How often no room is found before there is none. More than once because slots that other threads
/// move are missed by a search, and because the index grows in between.
const SEARCHES_MAX: u32 = 3;

/// The hash index of one log.
#[derive(Debug)]
pub struct HashIndex {
    blocks: Blocks,
    /// How many there are; with it, where every key belongs.
    buckets: AtomicU64,
    entries: AtomicU64,
    full: FullBuckets,
    /// Held by the one thread that splits buckets.
    growth: Mutex<()>,
}

/// A key's lock, and its entry. Dropped, it unlocks. A thread holds one at a time.
#[derive(Debug)]
pub struct HashGuard<'a> {
    index: &'a HashIndex,
    identity: Identity,
    /// In the order of their numbers.
    locked: [Locked<'a>; 2],
    /// Which of the two, and where in it, the key's slot is or may be.
    at: (usize, usize),
    is_taken: bool,
}

/// Why a look at a key's buckets decided nothing.
enum Again {
    Changed,
    Loading(Loading),
}

impl HashIndex {
    /// An empty index for at most so many entries.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`] when that is more than any index may have.
    pub fn new(entries_max: u64) -> Result<Self, IndexError> {
        Self::awaiting(entries_max, 1 << BASE_BITS, 0, &[])
    }

    /// An empty index for as many entries at most.
    pub(super) fn emptied(&self) -> Self {
        Self::of(self.buckets_max(), 1 << BASE_BITS, 0, &[])
    }

    /// An index of so many buckets, which are in these blocks of a checkpoint.
    pub(super) fn awaiting(
        entries_max: u64,
        buckets: u64,
        entries: u64,
        awaited: &[u32],
    ) -> Result<Self, IndexError> {
        let buckets_max = grow::buckets_for(entries_max).max(buckets);
        if buckets_max > BUCKETS_MAX {
            return Err(IndexError::TooLarge { entries_max });
        }
        Ok(Self::of(buckets_max, buckets, entries, awaited))
    }

    fn of(buckets_max: u64, buckets: u64, entries: u64, awaited: &[u32]) -> Self {
        let blocks = Blocks::new(buckets_max * BUCKET_LINES as u64, awaited);
        let full = FullBuckets::none_of(blocks.lines_max() / BUCKET_LINES as u64);
        let (buckets, entries) = (AtomicU64::new(buckets), AtomicU64::new(entries));
        Self { blocks, buckets, entries, full, growth: Mutex::new(()) }
    }

    /// Blocks of an index of so many buckets, if there is such an index.
    pub(super) fn blocks_of(buckets: u64) -> Option<u64> {
        let is_one = (1 << BASE_BITS..=BUCKETS_MAX).contains(&buckets);
        is_one.then(|| (buckets * BUCKET_LINES as u64).div_ceil(BLOCK_LINES as u64))
    }

    /// Bits of a position that a slot has room for.
    pub const POSITION_BITS: u32 = slot::POSITION_BITS;

    /// Entries that there are, tombstones included.
    pub fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.blocks.bytes() + self.full.bytes()
    }

    /// Buckets that there are.
    pub fn buckets(&self) -> u64 {
        self.size().0
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Notes which buckets of a block that was loaded are full.
    pub(super) fn note_full(&self, block: u32) {
        let block_buckets = (BLOCK_LINES / BUCKET_LINES) as u64;
        let first = u64::from(block) * block_buckets;
        for number in first..first + block_buckets {
            if let Some(pair) = self.blocks.pair_here(number) {
                Bucket(pair).lock(number, &self.full).note_if_full();
            }
        }
    }

    #[inline]
    fn size(&self) -> Size {
        Size(self.buckets.load(Ordering::Acquire))
    }

    /// What there is of a key. Takes no lock.
    #[inline]
    pub fn get(&self, key: KeyHash) -> Lookup {
        let identity = Identity::of(key);
        for _ in 0..LOOKS_MAX {
            match self.look(identity) {
                Ok(found) => return found,
                Err(Again::Loading(loading)) => return Lookup::Loading(loading),
                Err(Again::Changed) => base::sync::spin_loop(),
            }
        }
        match self.lock_buckets(identity) {
            Ok(locked) => {
                let find = |locked: &Locked<'_>| locked.bucket().find(identity.fingerprint);
                lookup(locked.iter().find_map(find).map(|(_, bits)| bits))
            }
            Err(loading) => Lookup::Loading(loading),
        }
    }

    #[inline]
    fn look(&self, identity: Identity) -> Result<Lookup, Again> {
        let size = self.size();
        let numbers = identity.buckets(size);
        let both = numbers.map(|number| self.blocks.pair(number));
        let mut loading = None;
        let mut seen: [Option<(Bucket<'_>, Version)>; 2] = [None; 2];
        for (bucket, seen) in both.into_iter().zip(&mut seen) {
            match bucket {
                Ok(Some(pair)) => {
                    let bucket = Bucket(pair);
                    let version = bucket.version();
                    if let Some((_, bits)) = bucket.find(identity.fingerprint) {
                        return match bucket.unchanged(version) {
                            true => Ok(lookup(Some(bits))),
                            false => Err(Again::Changed),
                        };
                    }
                    *seen = Some((bucket, version));
                }
                Ok(None) => {}
                Err(awaited) => loading = Some(awaited),
            }
        }
        if base::mutant!("index_miss_without_second_look") {
            return loading.map_or(Ok(Lookup::Absent), |loading| Err(Again::Loading(loading)));
        }
        // A slot that moved from the second bucket to the first between the two looks was seen in
        // neither: then a version has changed, or the number of buckets.
        let is_unmoved = seen.into_iter().flatten().all(|(line, version)| line.unchanged(version));
        fence(Ordering::Acquire);
        let now = Size(self.buckets.load(Ordering::Relaxed));
        let is_missed = is_unmoved && (now == size || identity.buckets(now) == numbers);
        match loading {
            _ if !is_missed => Err(Again::Changed),
            Some(loading) => Err(Again::Loading(loading)),
            None => Ok(Lookup::Absent),
        }
    }

    /// Asks the processor for a key's buckets, so that they come while the caller does something
    /// else.
    #[inline]
    pub fn ask_for(&self, key: KeyHash) {
        let buckets = Identity::of(key).buckets(self.size());
        buckets.into_iter().for_each(|number| self.ask_for_bucket(number));
    }

    /// Asks the processor for a bucket.
    #[inline]
    fn ask_for_bucket(&self, number: u64) {
        self.blocks.pair_here(number).map(Bucket).into_iter().for_each(Bucket::ask_for);
    }

    /// Makes room for a key's slot, if need be. That needs no lock where a place is free.
    ///
    /// # Errors
    /// As of [`HashIndex::lock`].
    pub fn prepare(&self, key: KeyHash) -> Result<(), IndexError> {
        self.grow_if_full()?;
        let [one, other] = Identity::of(key).buckets(self.size());
        let both = [self.bucket_made(one)?, self.bucket_made(other)?];
        // Both are looked at, so that both are loaded when they are locked.
        let is_free = both.map(|bucket| bucket.free().is_some());
        if is_free[0] | is_free[1] { Ok(()) } else { self.lock(key).map(drop) }
    }

    /// Locks a key, with room for its slot.
    ///
    /// # Errors
    /// [`IndexError::Full`] or [`IndexError::Crowded`], or [`IndexError::Loading`] when a block has
    /// to be loaded first.
    pub fn lock(&self, key: KeyHash) -> Result<HashGuard<'_>, IndexError> {
        let identity = Identity::of(key);
        let mut searches_failed = 0;
        loop {
            self.grow_if_full()?;
            let locked = self.lock_buckets(identity)?;
            let both = [locked[0].bucket(), locked[1].bucket()];
            let found = taken(&locked, identity);
            let is_taken = found.is_some();
            // Of two, the emptier one: then room is rarely to be made.
            let emptier = usize::from(both[1].free_count() > both[0].free_count());
            let at = found.or_else(|| both[emptier].free().map(|place| (emptier, place)));
            if let Some(at) = at {
                return Ok(HashGuard { index: self, identity, locked, at, is_taken });
            }
            drop(locked);
            if self.make_room(identity)? {
                continue;
            }
            searches_failed += 1;
            if searches_failed == SEARCHES_MAX {
                return Err(self.no_room());
            }
            self.grow_for_search()?;
        }
    }

    fn no_room(&self) -> IndexError {
        let (entries, buckets) = (self.len(), self.buckets());
        match buckets < self.buckets_max() {
            true => IndexError::Crowded { entries, buckets },
            false => IndexError::Full { entries, buckets },
        }
    }

    /// Locks a key if it has an entry. Needs no room, so that it works in a full index.
    ///
    /// # Errors
    /// When a block has to be loaded first.
    pub fn lock_present(&self, key: KeyHash) -> Result<Option<HashGuard<'_>>, Loading> {
        let identity = Identity::of(key);
        let locked = self.lock_buckets(identity)?;
        let at = taken(&locked, identity);
        Ok(at.map(|at| HashGuard { index: self, identity, locked, at, is_taken: true }))
    }

    /// Locks both buckets of a key. Retries when the index has grown meanwhile, which is another
    /// thread's progress.
    fn lock_buckets(&self, identity: Identity) -> Result<[Locked<'_>; 2], Loading> {
        loop {
            let mut numbers = identity.buckets(self.size());
            numbers.sort_unstable();
            let locked = self.lock_both(numbers)?;
            let mut now = identity.buckets(self.size());
            now.sort_unstable();
            if now == numbers || base::mutant!("index_lock_without_second_look") {
                return Ok(locked);
            }
        }
    }
}

/// Which of a key's buckets has its slot, and where.
fn taken(locked: &[Locked<'_>; 2], identity: Identity) -> Option<(usize, usize)> {
    (0..2).find_map(|which| {
        let found = locked[which].bucket().find(identity.fingerprint);
        found.map(|(place, _)| (which, place))
    })
}

#[inline]
fn lookup(bits: Option<u64>) -> Lookup {
    bits.and_then(slot::entry).map_or(Lookup::Absent, Lookup::At)
}

impl HashGuard<'_> {
    /// The key's entry.
    #[must_use]
    pub fn entry(&self) -> Option<Entry> {
        let (which, place) = self.at;
        let slot = self.locked[which].bucket().slot(place)?;
        debug_assert!(self.is_taken && slot.fingerprint == self.identity.fingerprint);
        slot::entry(slot.bits)
    }

    /// Makes readers see this entry, and returns the one before.
    ///
    /// # Panics
    /// When the position has more than [`HashIndex::POSITION_BITS`] bits.
    pub fn publish(&mut self, entry: Entry) -> Option<Entry> {
        let units = entry.position.units();
        assert!(units >> HashIndex::POSITION_BITS == 0, "position {units} is too far");
        let before = self.entry();
        let slot = slot::Slot { fingerprint: self.identity.fingerprint, bits: entry.to_bits() };
        let (which, place) = self.at;
        if self.is_taken {
            self.locked[which].write(place, slot);
        } else {
            self.locked[which].fill(place, slot);
            self.index.entries.fetch_add(1, Ordering::Relaxed);
            self.is_taken = true;
        }
        before
    }

    /// Makes the key absent, and returns its entry.
    pub fn clear(&mut self) -> Option<Entry> {
        let before = self.entry();
        if self.is_taken {
            let (which, place) = self.at;
            self.locked[which].clear(1 << place);
            self.index.entries.fetch_sub(1, Ordering::Relaxed);
            self.is_taken = false;
        }
        before
    }
}
