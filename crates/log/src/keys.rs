//! What the log needs of an index.
//!
//! An index leads from a key's hash to the position of the key's newest record. It keeps no keys: a
//! hash of 128 bits is the key's identity (`docs/formats/index.md`), and a get compares the key
//! that it reads all the same.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Mutex, PoisonError},
};

pub use crate::format::KeyHash;
use crate::{error::Error, format::manifest::Manifest, plan::Disk, position::Entry};

/// Why a key is none of an index's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFlaw {
    /// A flat index has keys of eight bytes.
    #[error("an integer key has 8 bytes, and this one has {got}")]
    NoInteger {
        /// Its bytes.
        got: usize,
    },
    /// Only integers have an order.
    #[error("keys of bytes have no order")]
    NoOrder,
    /// The key is not among those that the index was made for.
    #[error("key {key} is not in [{kmin}, {kmax})")]
    OutOfRange {
        /// The key.
        key: u64,
        /// The first key.
        kmin: u64,
        /// The first key behind.
        kmax: u64,
    },
}

/// An index has no room for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index has no room")]
pub struct IndexFull;

/// An index, as an engine uses it. Calls that change one key come one after the other; while a log
/// is opened, several threads change different keys.
pub trait Keys: Sync + Sized {
    /// What stands for `key`.
    ///
    /// # Errors
    /// When the index cannot have such a key.
    fn hash(&self, key: &[u8]) -> Result<KeyHash, KeyFlaw>;

    /// The key's entry.
    fn get(&self, hash: KeyHash) -> Option<Entry>;

    /// Asks the processor for what a look at the key's entry, or a change of it, will need, so that
    /// it comes while the caller does something else.
    fn ask_for(&self, hash: KeyHash) {
        let _ = hash;
    }

    /// Makes room for the key's entry.
    ///
    /// # Errors
    /// When there is none.
    fn prepare(&self, hash: KeyHash) -> Result<(), IndexFull>;

    /// Whether the index can have such a key: one that a footer lists may be outside its range.
    ///
    /// # Errors
    /// When it cannot.
    fn admits(&self, hash: KeyHash) -> Result<(), KeyFlaw> {
        let _ = hash;
        Ok(())
    }

    /// Makes room for the entries of all these keys at once.
    ///
    /// # Errors
    /// When there is none for one of them.
    fn prepare_all(&self, hashes: &[KeyHash]) -> Result<(), IndexFull> {
        hashes.iter().try_for_each(|hash| self.prepare(*hash))
    }

    /// What the first key behind those of a range may become; `None` when keys are no range.
    fn kmax_limit(&self) -> Option<u64> {
        None
    }

    /// The integers that may be keys; `None` when keys are no integers.
    fn range(&self) -> Option<Range<u64>> {
        None
    }

    /// Takes keys up to `kmax`, which is at most [`Keys::kmax_limit`].
    fn grow(&self, kmax: u64) {
        let _ = kmax;
    }

    /// Makes `entry` the key's, and returns the one before. Room was made for it.
    fn publish(&self, hash: KeyHash, entry: Entry) -> Option<Entry>;

    /// Takes the key's entry away, if there is one.
    fn forget(&self, hash: KeyHash);

    /// One like it, with nothing in it.
    fn emptied(&self) -> Self;

    /// Makes room for `entry`, makes it the key's, and returns the one before. Where a disk can be
    /// shared, several threads do this for different keys: then it must be one step, and not two as
    /// here, between which another key may take the room.
    ///
    /// # Errors
    /// When there is no room.
    fn insert(&self, hash: KeyHash, entry: Entry) -> Result<Option<Entry>, IndexFull> {
        self.prepare(hash)?;
        Ok(self.publish(hash, entry))
    }

    /// What an entry comes back as: the class of a narrow one is wider.
    fn kept(&self, entry: Entry) -> Entry {
        entry
    }

    /// The greatest position that it can keep, in units.
    fn units_max(&self) -> u64;

    /// Keys that it has, removed ones with a tombstone included; 0 when it does not count them.
    fn entries(&self) -> u64 {
        0
    }

    /// Makes an empty index large enough for so many keys, which are about to come.
    fn reserve(&mut self, entries: u64) {
        let _ = entries;
    }

    /// Saves the index as that of the log and the run of `manifest`. Says whether it did: one that
    /// cannot be saved is filled from the footers.
    ///
    /// # Errors
    /// When it could not be saved.
    fn save(&self, manifest: &Manifest, disk: &mut dyn Disk) -> Result<bool, Error> {
        let _ = (manifest, disk);
        Ok(false)
    }
}

/// Makes the index of a log that is opened.
pub trait MakeKeys<K> {
    /// An empty one.
    ///
    /// # Errors
    /// When there is no memory for it.
    fn empty(&mut self, manifest: &Manifest) -> Result<K, IndexFull>;

    /// The one that was saved for the log and the run of `manifest`; `None` when none was.
    ///
    /// # Errors
    /// When it is damaged. It is filled from the footers then.
    fn saved(&mut self, manifest: &Manifest, disk: &mut dyn Disk) -> Result<Option<K>, Error> {
        let _ = (manifest, disk);
        Ok(None)
    }
}

impl<K, F: FnMut(&Manifest) -> Result<K, IndexFull>> MakeKeys<K> for F {
    fn empty(&mut self, manifest: &Manifest) -> Result<K, IndexFull> {
        self(manifest)
    }
}

/// An index that is an ordered map: for tests and for small sets.
#[derive(Debug)]
pub struct MapKeys {
    entries: Mutex<BTreeMap<KeyHash, Entry>>,
    units_max: u64,
}

impl MapKeys {
    /// An empty one that keeps positions up to `units_max`.
    #[must_use]
    pub fn new(units_max: u64) -> Self {
        Self { entries: Mutex::default(), units_max }
    }
}

impl Keys for MapKeys {
    /// The key's length and its first 15 bytes: keys of more bytes can be told apart by no more.
    fn hash(&self, key: &[u8]) -> Result<KeyHash, KeyFlaw> {
        let mut bytes = [0; 16];
        let kept = key.len().min(15);
        bytes[..kept].copy_from_slice(&key[..kept]);
        bytes[15] = u8::try_from(key.len()).unwrap_or(u8::MAX);
        Ok(KeyHash(u128::from_le_bytes(bytes)))
    }

    fn get(&self, hash: KeyHash) -> Option<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).copied()
    }

    fn prepare(&self, _: KeyHash) -> Result<(), IndexFull> {
        Ok(())
    }

    fn publish(&self, hash: KeyHash, entry: Entry) -> Option<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(hash, entry)
    }

    fn forget(&self, hash: KeyHash) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
    }

    fn emptied(&self) -> Self {
        Self::new(self.units_max)
    }

    fn units_max(&self) -> u64 {
        self.units_max
    }
}
