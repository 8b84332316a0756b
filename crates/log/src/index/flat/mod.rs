//! The flat index: an array over `[kmin, kmax)`, for integer keys that lie close together.
//!
//! The entry of a key is where its number says, so no key is in memory and growing is a larger
//! `kmax`. The idea is Zing Database's (Nguyen and Nguyen 2015, section 2.1), without its mapping
//! of the file.
//!
//! Thread safety: reads take no lock. The lock of a key is that of its line; of entries of eight
//! bytes a bit of its own word.

mod packing;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use base::{
    prefetch,
    sync::{
        Backoff,
        atomic::{AtomicU64, Ordering},
    },
};

use self::packing::{LOCK_BIT, Packing};
use super::{
    IndexError, Lookup,
    blocks::{BLOCK_LINES, Blocks, Loading},
    line::{Changing, Line, Locked},
};
use crate::position::Entry;

/// Looks at a line without its lock before the lock is taken. A change takes a few stores, so a
/// reader who sees this many is being overtaken by a thread that the system put to sleep in one.
const LOOKS_MAX: u32 = 64;

/// Keys that a range may have at most. The directory of their blocks, 24 bytes for 8,192 keys or
/// more, is made at once, and takes up to 200 MB of these.
pub const SLOTS_MAX: u64 = 1 << 36;

/// Which keys a flat index is for, and how wide its entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatRange {
    /// The least key.
    pub kmin: u64,
    /// One more than the greatest, now.
    pub kmax: u64,
    /// What `kmax` may grow to.
    pub kmax_limit: u64,
    /// Bytes of an entry: 4 to 8.
    pub entry_bytes: u32,
}

/// The flat index of one log.
#[derive(Debug)]
pub struct FlatIndex {
    blocks: Blocks,
    kmin: u64,
    kmax: AtomicU64,
    kmax_limit: u64,
    packing: Packing,
    entries: AtomicU64,
}

/// A key's lock, and its entry. Dropped, it unlocks. A thread holds one at a time.
#[derive(Debug)]
pub struct FlatGuard<'a> {
    index: &'a FlatIndex,
    held: Held<'a>,
    place: usize,
}

#[derive(Debug)]
enum Held<'a> {
    Line(Locked<'a>),
    Word(&'a AtomicU64),
}

impl FlatIndex {
    /// An empty index.
    ///
    /// # Errors
    /// [`IndexError::Range`] when the range makes no sense.
    pub fn new(range: FlatRange) -> Result<Self, IndexError> {
        Self::awaiting(range, 0, &[])
    }

    /// An index of `entries` entries, which are in these blocks of a checkpoint.
    pub(super) fn awaiting(
        range: FlatRange,
        entries: u64,
        awaited: &[u32],
    ) -> Result<Self, IndexError> {
        let FlatRange { kmin, kmax, kmax_limit, entry_bytes } = range;
        let slots = kmax_limit.checked_sub(kmin).filter(|&slots| slots <= SLOTS_MAX);
        let packing = Packing::of_bytes(entry_bytes);
        let (Some(slots), Some(packing), true) =
            (slots, packing, (kmin..=kmax_limit).contains(&kmax))
        else {
            return Err(IndexError::Range { range });
        };
        Ok(Self {
            blocks: Blocks::new(slots.div_ceil(packing.entries()), awaited),
            kmin,
            kmax: AtomicU64::new(kmax),
            kmax_limit,
            packing,
            entries: AtomicU64::new(entries),
        })
    }

    /// Blocks of an index for a range, if there is such an index.
    pub(super) fn blocks_of(range: FlatRange) -> Option<u64> {
        let packing = Packing::of_bytes(range.entry_bytes)?;
        let slots = range.kmax.checked_sub(range.kmin).filter(|&slots| slots <= SLOTS_MAX)?;
        Some(slots.div_ceil(packing.entries()).div_ceil(BLOCK_LINES as u64))
    }

    /// Which keys it is for.
    pub fn range(&self) -> FlatRange {
        FlatRange {
            kmin: self.kmin,
            kmax: self.kmax.load(Ordering::Acquire),
            kmax_limit: self.kmax_limit,
            entry_bytes: self.packing.entry_bytes(),
        }
    }

    /// Makes the range larger; a `kmax` that is not larger changes nothing.
    ///
    /// # Errors
    /// [`IndexError::Range`] above the limit.
    pub fn grow(&self, kmax: u64) -> Result<(), IndexError> {
        if kmax > self.kmax_limit {
            return Err(IndexError::Range { range: FlatRange { kmax, ..self.range() } });
        }
        self.kmax.fetch_max(kmax, Ordering::AcqRel);
        Ok(())
    }

    /// Bits of a position that an entry has room for.
    pub fn position_bits(&self) -> u32 {
        self.packing.position_bits()
    }

    /// What an entry comes back as: of entries of four bytes the class is rounded up.
    pub fn kept(&self, entry: Entry) -> Entry {
        self.packing.unpack(self.packing.pack(entry)).unwrap_or(entry)
    }

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
        self.blocks.bytes()
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// What there is of a key. Takes no lock. Keys outside the range are absent.
    #[inline]
    pub fn get(&self, key: u64) -> Lookup {
        match self.bits_of(key) {
            Ok(bits) => self.packing.unpack(bits).map_or(Lookup::Absent, Lookup::At),
            Err(loading) => Lookup::Loading(loading),
        }
    }

    fn bits_of(&self, key: u64) -> Result<u64, Loading> {
        let Some(slot) = self.slot(key) else { return Ok(0) };
        let (number, place) = self.packing.split(slot);
        let Some(line) = self.blocks.line(number)? else { return Ok(0) };
        if self.packing.is_lone() {
            return Ok(line.lone_word(place).load(Ordering::Acquire) & !LOCK_BIT);
        }
        for _ in 0..LOOKS_MAX {
            let version = line.version();
            let bits = self.packing.read(line, place);
            if line.unchanged(version) {
                return Ok(bits);
            }
            base::sync::spin_loop();
        }
        Ok(self.packing.read(line.lock().line(), place))
    }

    /// Whether a key is in the range.
    pub fn has(&self, key: u64) -> bool {
        self.slot(key).is_some()
    }

    /// The number of a key's entry, if it is in the range.
    #[inline]
    fn slot(&self, key: u64) -> Option<u64> {
        (key >= self.kmin && key < self.kmax.load(Ordering::Acquire)).then(|| key - self.kmin)
    }

    /// Asks the processor for a key's line, so that it comes while the caller does something else.
    /// Of a key that is not in the range nothing happens.
    #[inline]
    pub fn ask_for(&self, key: u64) {
        let line =
            self.slot(key).and_then(|slot| self.blocks.line_here(self.packing.split(slot).0));
        line.into_iter().for_each(prefetch::to_write);
    }

    /// Sees to it that a key can be locked.
    ///
    /// # Errors
    /// As of [`FlatIndex::lock`].
    #[inline]
    pub fn prepare(&self, key: u64) -> Result<(), IndexError> {
        let slot =
            self.slot(key).ok_or_else(|| IndexError::OutOfRange { key, range: self.range() })?;
        let (number, _) = self.packing.split(slot);
        self.blocks.line_made(number)?;
        Ok(())
    }

    /// Locks a key. Whoever has the key's line waits for nobody else, so this waits for him only.
    ///
    /// # Errors
    /// [`IndexError::OutOfRange`], or [`IndexError::Loading`] when a block has to be loaded first.
    pub fn lock(&self, key: u64) -> Result<FlatGuard<'_>, IndexError> {
        let slot =
            self.slot(key).ok_or_else(|| IndexError::OutOfRange { key, range: self.range() })?;
        let (number, place) = self.packing.split(slot);
        let line = self.blocks.line_made(number)?;
        let held = match self.packing.is_lone() {
            true => Held::Word(lock_word(line, place)),
            false => Held::Line(line.lock()),
        };
        Ok(FlatGuard { index: self, held, place })
    }
}

fn lock_word(line: &Line, place: usize) -> &AtomicU64 {
    let word = line.lone_word(place);
    let mut backoff = Backoff::new();
    while word.fetch_or(LOCK_BIT, Ordering::Acquire) & LOCK_BIT != 0 {
        backoff.wait();
    }
    word
}

impl FlatGuard<'_> {
    /// The key's entry.
    #[must_use]
    pub fn entry(&self) -> Option<Entry> {
        self.index.packing.unpack(self.bits())
    }

    fn bits(&self) -> u64 {
        match &self.held {
            Held::Line(locked) => self.index.packing.read(locked.line(), self.place),
            Held::Word(word) => word.load(Ordering::Relaxed) & !LOCK_BIT,
        }
    }

    /// Makes readers see this entry, and returns the one before, as [`FlatIndex::kept`] has it.
    ///
    /// # Panics
    /// When the position has more than [`FlatIndex::position_bits`] bits.
    pub fn publish(&mut self, entry: Entry) -> Option<Entry> {
        let units = entry.position.units();
        assert!(units >> self.index.position_bits() == 0, "position {units} is too far");
        self.replace(self.index.packing.pack(entry))
    }

    /// Makes the key absent, and returns its entry.
    pub fn clear(&mut self) -> Option<Entry> {
        self.replace(0)
    }

    fn replace(&mut self, bits: u64) -> Option<Entry> {
        let before = self.bits();
        match &self.held {
            Held::Line(locked) => {
                locked.change(|line| self.index.packing.write(line, self.place, bits));
            }
            // What the record says was written before.
            Held::Word(word) => word.store(bits | LOCK_BIT, Ordering::Release),
        }
        match (before != 0, bits != 0) {
            (false, true) => self.index.entries.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.index.entries.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        self.index.packing.unpack(before)
    }
}

impl Drop for FlatGuard<'_> {
    fn drop(&mut self) {
        if let Held::Word(word) = &self.held {
            word.store(word.load(Ordering::Relaxed) & !LOCK_BIT, Ordering::Release);
        }
    }
}
