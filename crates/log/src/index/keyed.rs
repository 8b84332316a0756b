//! An index with what makes hashes of keys: what an engine uses.

use std::ops::Range;

use base::hash::{WIDE_SEED_BYTES, WideHasher};

use super::{
    FlatIndex, FlatRange, HashIndex, Index, IndexError, KeyHash, Lookup,
    checkpoint::{self, CheckpointError, Limits, Stamp},
};
use crate::{
    error::Error,
    format::manifest::{IndexKind, Manifest},
    keys::{IndexFull, KeyFlaw, Keys, MakeKeys},
    plan::{DirectoryId, Disk, Failure},
    position::Entry,
};

/// The log's home directory.
const HOME: DirectoryId = DirectoryId(0);

/// An index, wholly loaded, and the names of its keys.
#[derive(Debug)]
pub struct Keyed {
    index: Index,
    /// Of a hash index.
    hasher: Option<WideHasher>,
}

/// Makes the index that a log's manifest asks for, or loads the one that was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimits {
    /// What a flat index's `kmax` may grow to.
    pub kmax_limit: u64,
    /// Keys that a hash index may have at most, removed ones with a tombstone included.
    pub entries_max: u64,
}

impl IndexLimits {
    fn of(self, manifest: &Manifest) -> Limits {
        match manifest.shape.index {
            IndexKind::Flat { kmin, kmax } => Limits::Flat(FlatRange {
                kmin,
                kmax,
                kmax_limit: kmax.max(self.kmax_limit),
                entry_bytes: manifest.shape.entry_bytes.into(),
            }),
            IndexKind::Hash { .. } => Limits::Hash { entries_max: self.entries_max },
        }
    }
}

impl MakeKeys<Keyed> for IndexLimits {
    fn empty(&mut self, manifest: &Manifest) -> Result<Keyed, IndexFull> {
        let index = match self.of(manifest) {
            Limits::Flat(range) => FlatIndex::new(range).map(Index::Flat),
            Limits::Hash { entries_max } => HashIndex::new(entries_max).map(Index::Hash),
        };
        Ok(Keyed::of(index.map_err(|_| IndexFull)?, manifest))
    }

    fn saved(&mut self, manifest: &Manifest, disk: &mut dyn Disk) -> Result<Option<Keyed>, Error> {
        let mut disk = disk;
        let opened = checkpoint::open(self.of(manifest), stamp(manifest), HOME, &mut disk);
        let (index, loader) = match opened {
            Err(CheckpointError::Disk { failure: Failure::NotFound, .. }) => return Ok(None),
            opened => opened.map_err(|error| of_checkpoint("read", error))?,
        };
        loader.load(&index, &mut disk).map_err(|error| of_checkpoint("read", error))?;
        Ok(Some(Keyed::of(index, manifest)))
    }
}

fn stamp(manifest: &Manifest) -> Stamp {
    Stamp { log_id: manifest.log, run: manifest.run }
}

fn of_checkpoint(doing: &'static str, error: CheckpointError) -> Error {
    match error {
        CheckpointError::Disk { file, failure, .. } => Error::Disk { doing, file, failure },
        CheckpointError::Damaged { file, offset, flaw } => {
            Error::SavedIndex { file, offset, flaw: flaw.to_string() }
        }
        CheckpointError::NotLoaded { .. } => panic!("an engine's index is wholly loaded"),
    }
}

impl Keyed {
    fn of(index: Index, manifest: &Manifest) -> Self {
        let hasher = match &manifest.shape.index {
            IndexKind::Flat { .. } => None,
            IndexKind::Hash { seeds } => Some(WideHasher::new(seeds)),
        };
        Self { index, hasher }
    }

    /// A flat index: its keys are integers of eight bytes, the lowest first.
    #[must_use]
    pub fn flat(index: FlatIndex) -> Self {
        Self { index: Index::Flat(index), hasher: None }
    }

    /// A hash index, whose keys are hashed with the log's seed.
    #[must_use]
    pub fn hash(index: HashIndex, seed: &[u8; WIDE_SEED_BYTES]) -> Self {
        Self { index: Index::Hash(index), hasher: Some(WideHasher::new(seed)) }
    }

    /// Bytes of memory that the index takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.index.bytes()
    }
}

impl Keys for Keyed {
    fn hash(&self, key: &[u8]) -> Result<KeyHash, KeyFlaw> {
        if let Some(hasher) = &self.hasher {
            return Ok(KeyHash(hasher.hash(key)));
        }
        let bytes = key.try_into().map_err(|_| KeyFlaw::NoInteger { got: key.len() })?;
        let key = u64::from_le_bytes(bytes);
        match &self.index {
            Index::Flat(flat) if !flat.has(key) => {
                let range = flat.range();
                Err(KeyFlaw::OutOfRange { key, kmin: range.kmin, kmax: range.kmax })
            }
            _ => Ok(key.into()),
        }
    }

    fn get(&self, hash: KeyHash) -> Option<Entry> {
        match self.index.get(hash) {
            Lookup::Absent => None,
            Lookup::At(entry) => Some(entry),
            Lookup::Loading(_) => panic!("an engine's index is wholly loaded"),
        }
    }

    #[inline]
    fn ask_for(&self, hash: KeyHash) {
        self.index.ask_for(hash);
    }

    fn prepare(&self, hash: KeyHash) -> Result<(), IndexFull> {
        // A search may find room for more, but not for the same keys in any order: a recovery,
        // which has another one, must have room for all.
        if let Index::Hash(index) = &self.index
            && !index.has_room_for(1)
            && matches!(self.index.get(hash), Lookup::Absent)
        {
            return Err(IndexFull);
        }
        match self.index.prepare(hash) {
            Ok(()) => Ok(()),
            Err(IndexError::Full { .. } | IndexError::Crowded { .. }) => Err(IndexFull),
            // A footer may list a key from which the range has been taken away.
            Err(IndexError::OutOfRange { .. }) => Err(IndexFull),
            Err(error) => panic!("a key that was hashed has its place: {error}"),
        }
    }

    fn admits(&self, hash: KeyHash) -> Result<(), KeyFlaw> {
        match (&self.index, hash.integer()) {
            (Index::Flat(flat), Some(key)) if !flat.has(key) => {
                let range = flat.range();
                Err(KeyFlaw::OutOfRange { key, kmin: range.kmin, kmax: range.kmax })
            }
            _ => Ok(()),
        }
    }

    fn prepare_all(&self, hashes: &[KeyHash]) -> Result<(), IndexFull> {
        // One may take the place that was found for another: there has to be room for as many.
        match &self.index {
            Index::Hash(index) if !index.has_room_for(hashes.len()) => Err(IndexFull),
            _ => hashes.iter().try_for_each(|hash| self.prepare(*hash)),
        }
    }

    fn kmax_limit(&self) -> Option<u64> {
        match &self.index {
            Index::Flat(index) => Some(index.range().kmax_limit),
            Index::Hash(_) => None,
        }
    }

    fn range(&self) -> Option<Range<u64>> {
        match &self.index {
            Index::Flat(index) => Some(index.range().kmin..index.range().kmax),
            Index::Hash(_) => None,
        }
    }

    fn grow(&self, kmax: u64) {
        if let Index::Flat(index) = &self.index {
            index.grow(kmax).expect("invariant: the limit was looked at");
        }
    }

    fn publish(&self, hash: KeyHash, entry: Entry) -> Option<Entry> {
        let mut guard = self.index.lock(hash).expect("invariant: room was made");
        guard.publish(entry)
    }

    fn forget(&self, hash: KeyHash) {
        let found = self.index.lock_present(hash).expect("invariant: the index is wholly loaded");
        if let Some(mut guard) = found {
            guard.clear();
        }
    }

    fn insert(&self, hash: KeyHash, entry: Entry) -> Result<Option<Entry>, IndexFull> {
        // Under one lock: a recovery does this for every record.
        match self.index.lock(hash) {
            Ok(mut guard) => Ok(guard.publish(entry)),
            Err(
                IndexError::Full { .. }
                | IndexError::Crowded { .. }
                | IndexError::OutOfRange { .. },
            ) => Err(IndexFull),
            Err(error) => panic!("a key that was hashed has its place: {error}"),
        }
    }

    fn kept(&self, entry: Entry) -> Entry {
        self.index.kept(entry)
    }

    fn units_max(&self) -> u64 {
        (1 << self.index.position_bits()) - 1
    }

    fn entries(&self) -> u64 {
        self.index.len()
    }

    fn emptied(&self) -> Self {
        let index = match &self.index {
            Index::Flat(index) => {
                let empty = FlatIndex::new(index.range());
                Index::Flat(empty.expect("invariant: there is an index of this range"))
            }
            Index::Hash(index) => Index::Hash(index.emptied()),
        };
        Self { index, hasher: self.hasher.clone() }
    }

    fn reserve(&mut self, entries: u64) {
        if let Index::Hash(index) = &mut self.index {
            index.reserve(entries);
        }
    }

    fn save(&self, manifest: &Manifest, disk: &mut dyn Disk) -> Result<bool, Error> {
        let mut disk = disk;
        checkpoint::save(&self.index, stamp(manifest), HOME, &mut disk)
            .map_err(|error| of_checkpoint("save", error))?;
        Ok(true)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{
        index::FlatRange,
        position::{Position, SizeClass},
    };

    fn entry(units: u64) -> Entry {
        Entry { position: Position::new(units).expect("a position"), class: SizeClass::LARGEST }
    }

    #[test]
    fn integers_of_a_flat_index_have_eight_bytes_and_a_range() {
        let range = FlatRange { kmin: 5, kmax: 9, kmax_limit: 9, entry_bytes: 4 };
        let keys = Keyed::flat(FlatIndex::new(range).expect("an index"));
        assert_eq!(keys.hash(b"four"), Err(KeyFlaw::NoInteger { got: 4 }));
        for key in [4_u64, 9] {
            let expected = KeyFlaw::OutOfRange { key, kmin: 5, kmax: 9 };
            assert_eq!(keys.hash(&key.to_le_bytes()), Err(expected));
        }
        let hash = keys.hash(&8_u64.to_le_bytes()).expect("in the range");
        assert_eq!(hash, KeyHash(8));
        assert_eq!((keys.get(hash), keys.prepare(hash)), (None, Ok(())));
        let most = entry(keys.units_max());
        assert_eq!(keys.publish(hash, most), None);
        assert_eq!(keys.get(hash), Some(keys.kept(most)));
        assert_eq!(keys.units_max(), (1 << 30) - 1);
    }

    #[test]
    fn bytes_of_a_hash_index_are_hashed_with_the_seed() {
        let seed = std::array::from_fn(|at| at as u8);
        let keys = Keyed::hash(HashIndex::new(1000).expect("an index"), &seed);
        let hash = keys.hash(b"a key").expect("any bytes");
        assert_eq!(hash, KeyHash(WideHasher::new(&seed).hash(b"a key")));
        assert_eq!((keys.get(hash), keys.prepare(hash)), (None, Ok(())));
        assert_eq!(keys.publish(hash, entry(keys.units_max())), None);
        assert_eq!(keys.get(hash), Some(entry((1 << 38) - 1)));
    }

    #[test]
    fn a_full_index_has_no_room_for_a_new_key_but_for_an_old_one() {
        let make = || Keyed::hash(HashIndex::new(1).expect("an index"), &[7; WIDE_SEED_BYTES]);
        let keys = make();
        let mut taken = Vec::new();
        let full = (0_u64..).find_map(|number| {
            let hash = KeyHash::from(number).shortened(63);
            let prepared = keys.prepare(hash);
            if prepared.is_ok() {
                keys.publish(hash, entry(number + 1));
                taken.push(hash);
            }
            prepared.err()
        });
        assert_eq!(full, Some(IndexFull));
        assert_eq!(keys.prepare(taken[0]), Ok(()));
        // Nor do others that are asked for, one after the other, find a place by luck.
        let others = (0..1000).map(|number| KeyHash::from(!number).shortened(63));
        assert!(others.into_iter().all(|hash| keys.prepare(hash).is_err()));
        // In whatever order they come, an index as large has room for all of them.
        let again = make();
        assert!(taken.iter().rev().all(|hash| again.insert(*hash, entry(1)) == Ok(None)));
    }
}
