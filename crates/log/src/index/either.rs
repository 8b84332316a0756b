//! Either index behind one interface, for a log that does not care which it has.

use super::{
    FlatGuard, FlatIndex, HashGuard, HashIndex, IndexError, KeyHash, Lookup, blocks::Blocks,
    line::Image,
};
use crate::position::Entry;

/// A log's index. Keys of a flat one are the integers themselves, as [`KeyHash`]es.
#[derive(Debug)]
pub enum Index {
    /// For integers.
    Flat(FlatIndex),
    /// For bytes.
    Hash(HashIndex),
}

/// A key's lock, and its entry. Dropped, it unlocks. A thread holds one at a time.
#[derive(Debug)]
pub enum Guard<'a> {
    /// Of a flat index.
    Flat(FlatGuard<'a>),
    /// Of a hash index.
    Hash(HashGuard<'a>),
}

impl Index {
    /// What there is of a key. Takes no lock.
    #[inline]
    pub fn get(&self, key: KeyHash) -> Lookup {
        match self {
            Self::Flat(flat) => key.integer().map_or(Lookup::Absent, |key| flat.get(key)),
            Self::Hash(hash) => hash.get(key),
        }
    }

    /// Locks a key, with room for its entry.
    ///
    /// # Errors
    /// As [`FlatIndex::lock`] and [`HashIndex::lock`].
    pub fn lock(&self, key: KeyHash) -> Result<Guard<'_>, IndexError> {
        match self {
            Self::Flat(flat) => flat.lock(key.integer().unwrap_or(u64::MAX)).map(Guard::Flat),
            Self::Hash(hash) => hash.lock(key).map(Guard::Hash),
        }
    }

    /// Asks the processor for the lines of a key, so that they come while the caller does
    /// something else.
    #[inline]
    pub fn ask_for(&self, key: KeyHash) {
        match self {
            Self::Flat(flat) => flat.ask_for(key.integer().unwrap_or(u64::MAX)),
            Self::Hash(hash) => hash.ask_for(key),
        }
    }

    /// Sees to it that a key can be locked. For a log's one owner: room that others take is not
    /// there any more.
    ///
    /// # Errors
    /// As of [`Index::lock`].
    pub fn prepare(&self, key: KeyHash) -> Result<(), IndexError> {
        match self {
            Self::Flat(flat) => flat.prepare(key.integer().unwrap_or(u64::MAX)),
            Self::Hash(hash) => hash.prepare(key),
        }
    }

    /// Locks a key if it has an entry. Needs no room, so that it works in a full index.
    ///
    /// # Errors
    /// [`IndexError::Loading`] when a block has to be loaded first.
    pub fn lock_present(&self, key: KeyHash) -> Result<Option<Guard<'_>>, IndexError> {
        match self {
            Self::Hash(hash) => Ok(hash.lock_present(key)?.map(Guard::Hash)),
            Self::Flat(flat) => match flat.lock(key.integer().unwrap_or(u64::MAX)) {
                Ok(guard) => Ok(guard.entry().is_some().then_some(Guard::Flat(guard))),
                Err(IndexError::OutOfRange { .. }) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Bits of a position that an entry has room for.
    pub fn position_bits(&self) -> u32 {
        match self {
            Self::Flat(flat) => flat.position_bits(),
            Self::Hash(_) => HashIndex::POSITION_BITS,
        }
    }

    /// What an entry comes back as: see [`FlatIndex::kept`].
    pub fn kept(&self, entry: Entry) -> Entry {
        match self {
            Self::Flat(flat) => flat.kept(entry),
            Self::Hash(_) => entry,
        }
    }

    /// Entries that there are, tombstones included.
    pub fn len(&self) -> u64 {
        match self {
            Self::Flat(flat) => flat.len(),
            Self::Hash(hash) => hash.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Flat(flat) => flat.bytes(),
            Self::Hash(hash) => hash.bytes(),
        }
    }

    /// Puts a block of a checkpoint in its place.
    pub(super) fn load(&self, block: u32, image: &[Image]) {
        if self.blocks().load(block, image)
            && let Self::Hash(hash) = self
            && !base::mutant!("index_loaded_full_unnoted")
        {
            hash.note_full(block);
        }
    }

    pub(super) fn blocks(&self) -> &Blocks {
        match self {
            Self::Flat(flat) => flat.blocks(),
            Self::Hash(hash) => hash.blocks(),
        }
    }
}

impl Guard<'_> {
    /// The key's entry.
    #[must_use]
    pub fn entry(&self) -> Option<Entry> {
        match self {
            Self::Flat(guard) => guard.entry(),
            Self::Hash(guard) => guard.entry(),
        }
    }

    /// Makes readers see this entry, and returns the one before, as [`Index::kept`] has it.
    ///
    /// # Panics
    /// When the position has more than [`Index::position_bits`] bits.
    pub fn publish(&mut self, entry: Entry) -> Option<Entry> {
        match self {
            Self::Flat(guard) => guard.publish(entry),
            Self::Hash(guard) => guard.publish(entry),
        }
    }

    /// Makes the key absent, and returns its entry.
    pub fn clear(&mut self) -> Option<Entry> {
        match self {
            Self::Flat(guard) => guard.clear(),
            Self::Hash(guard) => guard.clear(),
        }
    }
}
