//! Two keys with one hash: rare enough never to be seen, and survived all the same.

use super::*;
use crate::{
    index::{IndexLimits, Keyed},
    keys::{KeyFlaw, KeyHash},
    plan::Disk,
    position::Entry,
};

/// An index that tells keys apart by few bits of their hashes.
#[derive(Debug)]
struct ShortKeys(Keyed);

const BITS: u32 = 5;

/// Makes such an index, or loads the one that was saved.
struct Short(IndexLimits);

impl Keys for ShortKeys {
    fn hash(&self, key: &[u8]) -> Result<KeyHash, KeyFlaw> {
        self.0.hash(key).map(|hash| hash.shortened(BITS))
    }

    fn get(&self, hash: KeyHash) -> Option<Entry> {
        self.0.get(hash)
    }

    fn prepare(&self, hash: KeyHash) -> Result<(), IndexFull> {
        self.0.prepare(hash)
    }

    fn publish(&self, hash: KeyHash, entry: Entry) -> Option<Entry> {
        self.0.publish(hash, entry)
    }

    fn forget(&self, hash: KeyHash) {
        self.0.forget(hash);
    }

    fn emptied(&self) -> Self {
        Self(self.0.emptied())
    }

    fn units_max(&self) -> u64 {
        self.0.units_max()
    }

    fn save(&self, manifest: &Manifest, disk: &mut dyn Disk) -> Result<bool, Error> {
        self.0.save(manifest, disk)
    }
}

impl MakeKeys<ShortKeys> for Short {
    fn empty(&mut self, manifest: &Manifest) -> Result<ShortKeys, IndexFull> {
        self.0.empty(manifest).map(ShortKeys)
    }

    fn saved(
        &mut self,
        manifest: &Manifest,
        disk: &mut dyn Disk,
    ) -> Result<Option<ShortKeys>, Error> {
        Ok(self.0.saved(manifest, disk)?.map(ShortKeys))
    }
}

fn open(disk: MemoryDisk) -> Log<ShortKeys> {
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1000 };
    open_with(disk, shape(), Mode::Safe, Short(limits)).unwrap()
}

/// What the hash of a key has seen last: whose value, or that a key of it was removed.
type Model = BTreeMap<KeyHash, Option<(u8, Vec<u8>)>>;

/// No key has another's value, and none is lost but to one with the same hash.
fn check(log: &mut Log<ShortKeys>, model: &Model, what: &str) {
    let before = log.engine.counts().collisions;
    let mut collisions = 0;
    for key in 0..=u8::MAX {
        let hash = log.engine.index().hash(&[key]).unwrap();
        let expected = match model.get(&hash) {
            None | Some(None) => Ok(None),
            Some(Some((owner, value))) if *owner == key => Ok(Some(value.clone())),
            Some(Some(_)) => Err(()),
        };
        let found = log.stored(&[key]).map(|stored| stored.map(|stored| stored.value));
        collisions += u64::from(matches!(found, Err(Error::OtherKey { .. })));
        let found = found.map_err(|error| assert!(matches!(error, Error::OtherKey { .. })));
        assert_eq!(found, expected, "{what}: key {key} has another key's value, or is lost");
    }
    assert!(collisions > 100, "{what}: {collisions} gets of 256 met another key");
    assert_eq!(log.engine.counts().collisions - before, collisions, "{what}: they are counted");
}

#[test]
fn keys_with_one_hash_harm_nobody_else_through_removes_and_recovery() {
    let mut log = open(MemoryDisk::default());
    let mut model = Model::new();
    for round in 0..3u8 {
        for at in 0..60u8 {
            let key = at.wrapping_mul(67).wrapping_add(round * 31);
            let hash = log.engine.index().hash(&[key]).unwrap();
            if at % 5 == 4 {
                let is_there = model.get(&hash).is_some_and(|owner| owner.is_some());
                assert_eq!(matches!(log.remove(&[key]), Removed::Done { .. }), is_there);
                model.insert(hash, None);
            } else {
                let value = vec![key; 100 + usize::from(at)];
                log.put(&[key], &value).unwrap();
                model.insert(hash, Some((key, value)));
            }
        }
        check(&mut log, &model, "from memory");
        log.settle();
        check(&mut log, &model, "from the disk");
        log = open(log.disk);
        assert!(!log.report.is_clean && log.report.damages.is_empty());
        check(&mut log, &model, "after a recovery");
        log.engine.close(&mut log.disk, 0).unwrap();
        log = open(log.disk);
        assert!(log.report.is_clean);
        check(&mut log, &model, "after a stop in order");
    }
}
