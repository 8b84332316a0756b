use std::collections::BTreeMap;

use base::random::Random;
use proptest::prelude::*;

use super::*;
use crate::position::{Position, SizeClass};

fn index(entry_bytes: u32, kmin: u64, slots: u64, limit: u64) -> FlatIndex {
    let range = FlatRange { kmin, kmax: kmin + slots, kmax_limit: kmin + limit, entry_bytes };
    FlatIndex::new(range).expect("a range")
}

fn entry(units: u64, class: u8) -> Entry {
    let class = SizeClass::from_bits(class).expect("a class");
    Entry { position: Position::new(units).expect("a position"), class }
}

#[test]
fn entries_of_every_width_stand_beside_each_other() {
    for entry_bytes in 4..=8 {
        let index = index(entry_bytes, 100, 5000, 5000);
        let most = (1 << index.position_bits()) - 1;
        let of = |key: u64| entry(most - key, (key % 51) as u8);
        let mut random = Random::new(u64::from(entry_bytes), 0);
        let mut keys: Vec<u64> = (100..5100).collect();
        for at in (1..keys.len()).rev() {
            keys.swap(at, random.below(at as u32 + 1) as usize);
        }
        for &key in &keys {
            assert_eq!(index.get(key), Lookup::Absent);
            let mut guard = index.lock(key).expect("in the range");
            assert_eq!((guard.entry(), guard.publish(of(key))), (None, None));
            assert_eq!(guard.entry(), Some(index.kept(of(key))));
        }
        for &key in &keys {
            assert_eq!(index.get(key), Lookup::At(index.kept(of(key))), "{entry_bytes} bytes");
        }
        assert_eq!(index.len(), 5000);
        for &key in &keys {
            let mut guard = index.lock(key).expect("in the range");
            assert_eq!(guard.clear(), Some(index.kept(of(key))));
            drop(guard);
            assert_eq!(index.get(key), Lookup::Absent);
        }
        assert!(index.is_empty());
    }
}

#[test]
fn four_bytes_round_classes_up_and_nothing_else_does() {
    for entry_bytes in 4..=8 {
        let index = index(entry_bytes, 0, 10, 10);
        for class in (0..=50).chain([63]) {
            let (asked, kept) = (entry(7, class), index.kept(entry(7, class)));
            assert!(kept.class >= asked.class);
            assert_eq!(
                kept.class == asked.class,
                entry_bytes > 4 || [24, 40, 50, 63].contains(&class)
            );
            index.lock(3).expect("in the range").publish(asked);
            assert_eq!(index.get(3), Lookup::At(kept));
        }
    }
}

#[test]
fn keys_outside_are_absent_and_cannot_be_locked_until_the_range_grows() {
    let index = index(5, 1000, 10, 30);
    for key in [0, 999, 1010, u64::MAX] {
        assert_eq!(index.get(key), Lookup::Absent);
        let error = index.lock(key).expect_err("outside");
        assert_eq!(error, IndexError::OutOfRange { key, range: index.range() });
        assert_eq!(error.to_string(), format!("key {key} is outside [1000, 1010)"));
    }
    index.lock(1009).expect("inside").publish(entry(5, 5));
    index.grow(1030).expect("within the limit");
    index.grow(1020).expect("changes nothing");
    index.lock(1029).expect("inside now").publish(entry(6, 6));
    assert_eq!(index.get(1009), Lookup::At(entry(5, 5)));
    assert_eq!(index.get(1029), Lookup::At(entry(6, 6)));
    assert!(matches!(index.grow(1031), Err(IndexError::Range { .. })));
    assert_eq!(index.range().kmax, 1030);
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let good = FlatRange { kmin: 5, kmax: 7, kmax_limit: 9, entry_bytes: 5 };
    assert!(FlatIndex::new(good).is_ok());
    for bad in [
        FlatRange { entry_bytes: 3, ..good },
        FlatRange { entry_bytes: 9, ..good },
        FlatRange { kmax: 4, ..good },
        FlatRange { kmax: 10, ..good },
        FlatRange { kmin: 10, ..good },
        FlatRange { kmax_limit: 6 + SLOTS_MAX, ..good },
    ] {
        assert_eq!(FlatIndex::new(bad).expect_err("bad"), IndexError::Range { range: bad });
    }
}

#[test]
#[should_panic(expected = "is too far")]
fn a_position_that_does_not_fit_is_a_bug() {
    index(5, 0, 10, 10).lock(1).expect("inside").publish(entry(1 << 34, 0));
}

/// 100 million keys of 5 bytes may take 540 MB, growth included: what a hundredth takes, and the
/// directory of all.
#[test]
fn memory_is_what_the_format_says_while_the_range_grows() {
    const SLOTS: u64 = 100_000_000;
    const FILLED: u64 = SLOTS / 100;
    let index = index(5, 0, 10, SLOTS);
    let directory = index.bytes();
    let mut most = 0.0_f64;
    for key in 0..FILLED {
        index.grow(key + 1).expect("within the limit");
        index.lock(key).expect("inside").publish(entry(key + 1, 3));
        most = most.max((index.bytes() - directory) as f64 / (key + 12_288) as f64);
    }
    // 64 bytes for 12 keys, in blocks of 1,024 lines.
    assert!(most <= 64.0 / 12.0, "{most} bytes a key");
    assert_eq!(index.bytes() - directory, FILLED.div_ceil(12 * 1024) * 65_536);
    let all = directory + SLOTS.div_ceil(12 * 1024) * (65_536 + 128);
    assert!(all < 536_000_000, "{all} bytes for all");
}

#[derive(Clone, Debug)]
enum Op {
    Publish(u64, u64, u8),
    Clear(u64),
    Get(u64),
    Grow(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..80_u64, 1..1_u64 << 30, 0..=50_u8)
            .prop_map(|(key, at, class)| Op::Publish(key, at, class)),
        2 => (0..80_u64).prop_map(Op::Clear),
        3 => (0..80_u64).prop_map(Op::Get),
        1 => (0..70_u64).prop_map(Op::Grow),
    ]
}

proptest! {
    #[test]
    fn it_does_what_a_map_does(
        entry_bytes in 4..=8_u32,
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let index = index(entry_bytes, 10, 20, 60);
        let mut model: BTreeMap<u64, Entry> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Publish(key, at, class) => match index.lock(key) {
                    Ok(mut guard) => {
                        let kept = index.kept(entry(at, class));
                        prop_assert_eq!(guard.publish(entry(at, class)), model.insert(key, kept));
                    }
                    Err(_) => prop_assert!(key < 10 || key >= index.range().kmax),
                },
                Op::Clear(key) => {
                    if let Ok(mut guard) = index.lock(key) {
                        prop_assert_eq!(guard.clear(), model.remove(&key));
                    }
                }
                Op::Get(key) => {
                    let expected = model.get(&key).copied();
                    prop_assert_eq!(index.get(key), expected.map_or(Lookup::Absent, Lookup::At));
                }
                Op::Grow(kmax) => prop_assert!(index.grow(kmax).is_ok()),
            }
            prop_assert_eq!(index.len(), model.len() as u64);
        }
    }
}
