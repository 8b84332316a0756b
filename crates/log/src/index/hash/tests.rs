use std::collections::BTreeMap;

use base::random::Random;
use proptest::prelude::*;

use super::*;
use crate::position::{Position, SizeClass};

pub(super) fn hash(random: &mut Random) -> KeyHash {
    let (low, high) = (random.bits(), random.bits());
    KeyHash(u128::from(high) << 64 | u128::from(low))
}

fn hashes(seed: u64, count: u64) -> Vec<KeyHash> {
    let mut random = Random::new(seed, 0);
    (0..count).map(|_| hash(&mut random)).collect()
}

pub(super) fn entry(units: u64) -> Entry {
    let class = SizeClass::from_bits((units % 51) as u8).expect("a class");
    Entry { position: Position::new(units).expect("a position"), class }
}

pub(super) fn publish(index: &HashIndex, key: KeyHash, entry: Entry) -> Option<Entry> {
    index.lock(key).expect("room").publish(entry)
}

#[test]
fn what_is_published_is_found_replaced_and_cleared() {
    let index = HashIndex::new(1000).expect("an index");
    let keys = hashes(1, 1000);
    for (key, at) in keys.iter().zip(1..) {
        assert_eq!(index.get(*key), Lookup::Absent);
        assert!(index.lock_present(*key).expect("loaded").is_none());
        assert_eq!(publish(&index, *key, entry(at)), None);
        assert_eq!(index.get(*key), Lookup::At(entry(at)));
    }
    let most = (1 << HashIndex::POSITION_BITS) - 1;
    for (key, at) in keys.iter().zip(1..) {
        assert_eq!(publish(&index, *key, entry(most - at)), Some(entry(at)));
        assert_eq!(index.get(*key), Lookup::At(entry(most - at)));
    }
    index.validate();
    for (key, at) in keys.iter().zip(1..) {
        let mut guard = index.lock_present(*key).expect("loaded").expect("present");
        assert_eq!(
            (guard.entry(), guard.clear()),
            (Some(entry(most - at)), Some(entry(most - at)))
        );
        assert_eq!((guard.entry(), guard.clear()), (None, None));
        assert_eq!(guard.publish(entry(5)), None);
        assert_eq!(guard.clear(), Some(entry(5)));
        drop(guard);
        assert_eq!(index.get(*key), Lookup::Absent);
    }
    assert!(index.is_empty());
    index.validate();
}

#[test]
#[should_panic(expected = "is too far")]
fn a_position_that_does_not_fit_is_a_bug() {
    let index = HashIndex::new(10).expect("an index");
    publish(&index, KeyHash(1), entry(1 << HashIndex::POSITION_BITS));
}

/// The figure of the format, and that no key is lost on the way: two rounds of growth.
#[test]
fn memory_stays_below_18_bytes_a_key_while_it_grows() {
    const KEYS: u64 = 700_000;
    let index = HashIndex::new(KEYS).expect("an index");
    let directory = index.bytes();
    let keys = hashes(2, KEYS);
    let mut most = 0.0_f64;
    for (key, at) in keys.iter().zip(1..) {
        publish(&index, *key, entry(at));
        // Before that, the rest of the last block is more than what there is to spare.
        if at > 400_000 {
            most = most.max((index.bytes() - directory) as f64 / at as f64);
        }
    }
    println!("{most:.3} bytes a key at most, {} buckets", index.buckets());
    assert!(index.buckets() > 5 << (BASE_BITS - 1), "into the second round of growth");
    assert!(most < 17.77, "{most} bytes a key");
    let directory_share = directory as f64 / KEYS as f64;
    assert!(directory_share < 0.01, "{directory_share} bytes of directory a key");
    for (key, at) in keys.iter().zip(1..) {
        assert_eq!(index.get(*key), Lookup::At(entry(at)));
    }
    index.validate();
}

#[test]
fn a_full_index_says_so_and_still_serves_and_clears() {
    let index = HashIndex::new(200_000).expect("an index");
    let buckets_max = index.buckets_max();
    let mut keys = Vec::new();
    let mut random = Random::new(3, 0);
    let error = loop {
        let key = hash(&mut random);
        match index.lock(key) {
            Ok(mut guard) => assert_eq!(guard.publish(entry(keys.len() as u64 + 1)), None),
            Err(error) => break error,
        }
        keys.push(key);
    };
    assert_eq!(error, IndexError::Full { entries: keys.len() as u64, buckets: buckets_max });
    let load = keys.len() as f64 / (buckets_max * 8) as f64;
    println!("full at {load:.4}");
    assert!(load > 0.96, "full at {load}");
    for (key, at) in keys.iter().zip(1..) {
        assert_eq!(index.get(*key), Lookup::At(entry(at)));
    }
    index.validate();
    let guard = index.lock_present(keys[0]).expect("loaded");
    assert_eq!(guard.expect("present").clear(), Some(entry(1)));
}

/// A key of two buckets, one of an even and one of an odd number, that stays there when they are
/// split.
fn between(one: u64, other: u64, number: u64) -> KeyHash {
    let tag = (one ^ other) << 40 | (number & 0x1ff) << 55;
    KeyHash(u128::from(one) << 113 | u128::from(number >> 9) << 64 | u128::from(tag))
}

/// A neighbourhood that fills up while there is room everywhere else: a row of buckets whose keys
/// belong to one and the next. The last keys of its beginning find room at its end, hundreds of
/// buckets away; the first one that finds none is refused before the index has grown by much.
#[test]
fn a_key_whose_neighbourhood_is_full_finds_room_far_away_or_is_refused_at_once() {
    const ROW: u64 = 300;
    let index = HashIndex::new(1_000_000).expect("an index");
    let buckets = index.buckets();
    // Buckets are split from the first on, which does not come near.
    let first = buckets - ROW - 1;
    let keys: Vec<KeyHash> = (0..ROW)
        .flat_map(|at| (0..8).map(move |number| between(first + at, first + at + 1, number)))
        .chain((8..16).map(|number| between(first, first + 1, number)))
        .collect();
    for (key, at) in keys.iter().zip(1..) {
        publish(&index, *key, entry(at));
    }
    assert_eq!(index.buckets(), buckets, "room was there");

    let refused = index.lock(between(first, first + 1, 16)).map(drop);
    let grown = index.buckets() - buckets;
    assert!((1..=64).contains(&grown), "grown by {grown} buckets");
    let crowded = IndexError::Crowded { entries: keys.len() as u64, buckets: buckets + grown };
    assert_eq!(refused, Err(crowded));

    for (key, at) in keys.iter().zip(1..) {
        assert_eq!(publish(&index, *key, entry(at + 1)), Some(entry(at)));
    }
    publish(&index, between(first - 2, first - 1, 0), entry(1));
    let gone = index.lock_present(keys[0]).expect("loaded");
    gone.expect("present").clear();
    publish(&index, between(first, first + 1, 16), entry(1));
    index.validate();
}

#[test]
fn an_index_that_is_too_large_is_refused() {
    let entries_max = BUCKETS_MAX * 8;
    assert_eq!(
        HashIndex::new(entries_max).expect_err("large"),
        IndexError::TooLarge { entries_max }
    );
    assert!(matches!(HashIndex::new(u64::MAX), Err(IndexError::TooLarge { .. })));
}

/// Two keys with one hash are one key to the index: the later one's record is what both find, and
/// who compares the keys finds out. Nothing else is harmed.
#[test]
fn keys_with_one_hash_share_an_entry_and_harm_no_other() {
    let index = HashIndex::new(5000).expect("an index");
    let keys: Vec<KeyHash> = hashes(4, 2000).iter().map(|key| key.shortened(10)).collect();
    let mut model: BTreeMap<KeyHash, Entry> = BTreeMap::new();
    let mut collisions = 0;
    for (key, at) in keys.iter().zip(1..) {
        let before = publish(&index, *key, entry(at));
        collisions += u32::from(before.is_some());
        assert_eq!(before, model.insert(*key, entry(at)));
    }
    // 2,000 keys over 1,024 hashes leave e^-1.95 of these without a key.
    assert!((1050..1200).contains(&collisions), "{collisions} collisions");
    for key in &keys {
        assert_eq!(index.get(*key), Lookup::At(model[key]));
    }
    for key in keys.iter().step_by(3) {
        let guard = index.lock_present(*key).expect("loaded");
        assert_eq!(guard.and_then(|mut guard| guard.clear()), model.remove(key));
    }
    for key in &keys {
        let expected = model.get(key).map_or(Lookup::Absent, |&entry| Lookup::At(entry));
        assert_eq!(index.get(*key), expected);
    }
    assert_eq!(index.len(), model.len() as u64);
    index.validate();
}

#[test]
fn every_kept_bit_of_a_hash_tells_keys_apart() {
    let key = hashes(5, 1)[0];
    let index = HashIndex::new(10).expect("an index");
    publish(&index, key, entry(7));
    let offset = u128::from(key.0 as u64 >> 40 & 0x7fff | 1);
    for bit in 0..128 {
        let other = KeyHash(key.0 ^ 1 << bit);
        // 64 of tag, 12 of fingerprint, and the base; the 37 between the two are not kept.
        let is_kept = !(76..113).contains(&bit);
        let expected = if is_kept { Lookup::Absent } else { Lookup::At(entry(7)) };
        assert_eq!(index.get(other), expected, "bit {bit}");
    }
    // The other base of the same fingerprint is the same identity: the format counts both.
    assert_eq!(index.get(KeyHash(key.0 ^ offset << 113)), Lookup::At(entry(7)));
}

/// Keys of two buckets and of nothing else: as many as fit into both.
#[test]
fn a_bucket_is_known_to_be_full_as_long_as_it_is() {
    let index = HashIndex::new(1000).expect("an index");
    let (one, other) = (1000, 1001);
    let keys: Vec<KeyHash> = (0..16).map(|number| between(one, other, number)).collect();
    let both = |index: &HashIndex| [one, other].map(|bucket| index.full.has(bucket));
    for (key, at) in keys.iter().zip(1..) {
        assert_ne!(both(&index), [true; 2], "{at} keys before");
        publish(&index, *key, entry(at));
        index.validate();
    }
    assert_eq!(both(&index), [true; 2]);
    publish(&index, keys[3], entry(99));
    assert_eq!(both(&index), [true; 2], "nothing has gone");
    let gone = index.lock_present(keys[3]).expect("loaded");
    gone.expect("present").clear();
    assert_ne!(both(&index), [true; 2], "one is known to be full that has room");
    index.validate();
    publish(&index, keys[3], entry(5));
    assert_eq!(both(&index), [true; 2]);
    index.validate();
    // Each could only go to the other bucket.
    assert_eq!(index.make_room(Identity::of(keys[0])), Ok(false));
}

proptest! {
    #[test]
    fn it_does_what_a_map_does(ops in prop::collection::vec((0..4_u8, 0..300_u64), 1..600)) {
        let index = HashIndex::new(1000).expect("an index");
        let keys = hashes(6, 300);
        let mut model: BTreeMap<KeyHash, Entry> = BTreeMap::new();
        for (turn, (what, key)) in ops.into_iter().enumerate() {
            let key = keys[key as usize];
            let at = entry(turn as u64 + 1);
            match what {
                0 | 1 => prop_assert_eq!(publish(&index, key, at), model.insert(key, at)),
                2 => {
                    let guard = index.lock_present(key).expect("loaded");
                    prop_assert_eq!(guard.and_then(|mut guard| guard.clear()), model.remove(&key));
                }
                _ => {
                    let expected = model.get(&key).map_or(Lookup::Absent, |&at| Lookup::At(at));
                    prop_assert_eq!(index.get(key), expected);
                }
            }
        }
        prop_assert_eq!(index.len(), model.len() as u64);
        index.validate();
    }
}

#[test]
fn a_reserved_index_does_not_grow_and_only_an_empty_one_is_reserved() {
    let (least, entries) = (1 << BASE_BITS, 400_000);
    let mut index = HashIndex::new(entries).expect("an index");
    assert_eq!(index.buckets(), least);
    index.reserve(10);
    assert_eq!(index.buckets(), least, "never smaller than the least");
    index.reserve(entries);
    // 400,000 / 0.91 in eights, and one more.
    assert_eq!(index.buckets(), 54_946);
    let hashes = hashes(9, entries);
    for (at, hash) in hashes.iter().enumerate() {
        index.ask_for(*hash);
        publish(&index, *hash, entry(at as u64 + 1));
    }
    assert_eq!(index.buckets(), 54_946);
    for (at, hash) in hashes.iter().enumerate() {
        assert_eq!(index.get(*hash), Lookup::At(entry(at as u64 + 1)));
    }
    let mut other = HashIndex::new(entries).expect("an index");
    publish(&other, hashes[0], entry(1));
    other.reserve(entries);
    assert_eq!((other.buckets(), other.get(hashes[0])), (least, Lookup::At(entry(1))));
    other.reserve(u64::MAX);
    assert_eq!(other.buckets(), least);
}
