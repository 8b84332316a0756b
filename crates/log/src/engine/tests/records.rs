//! Puts, gets and removes: single ones, and many against a map.

use proptest::{collection::vec, prelude::*};

use super::*;

#[test]
fn values_come_back_from_memory_and_from_the_disk() {
    let mut log = Log::new(Mode::Safe);
    let put = Put {
        key: b"key",
        value: b"value",
        expiry_ms: 5000,
        flags: 6,
        token: Some(7),
        tags: &[1; 8],
        is_stale: true,
        is_recached: true,
    };
    log.settle();
    let Wrote::Done { sequence, mark } = log.engine.put(&put, 0).unwrap() else { panic!("waits") };
    assert_eq!(log.engine.may_answer(mark), Settled::Pending, "answered before the flush");
    let Get::Memory { stored, wait } = log.engine.get(b"key", 0).unwrap() else { panic!("gone") };
    assert_eq!(wait, Some(mark));
    let expected = Stored {
        value: b"value".to_vec(),
        sequence,
        token: 7,
        expiry_ms: 5000,
        flags: 6,
        is_stale: true,
        is_recached: true,
        tags: vec![1; 8],
        parts: None,
    };
    assert_eq!(stored, expected);
    log.settle();
    assert_eq!(log.engine.may_answer(mark), Settled::Done);
    assert!(matches!(log.engine.get(b"key", 0).unwrap(), Get::Read(_)));
    assert_eq!(log.stored(b"key").unwrap(), Some(expected.clone()));
    let mut log = log.reopen();
    assert_eq!(log.stored(b"key").unwrap(), Some(expected));
    assert_eq!(log.value(b"other"), None);
    assert_eq!(log.report.damages, []);
}

#[test]
fn a_get_never_answers_another_keys_value() {
    let mut log = Log::new(Mode::Safe);
    // One hash: the map's index tells keys apart by 15 bytes and the length.
    let (key, other) = ([7; 20], [[7; 16].as_slice(), &[8; 4]].concat());
    log.put(&key, b"value").unwrap();
    assert!(matches!(log.stored(&other), Err(Error::OtherKey { .. })), "another key's value");
    log.settle();
    assert!(matches!(log.stored(&other), Err(Error::OtherKey { .. })), "another key's value");
    assert_eq!(log.value(&key), Some(b"value".to_vec()));
}

#[test]
fn a_put_reads_nothing_and_a_get_once() {
    let mut log = Log::new(Mode::Safe);
    for round in 0..40u8 {
        log.put(&[round % 10, 1], &[round; 700]).unwrap();
        log.settle();
    }
    assert!(!log.disk.done.iter().any(|done| done.starts_with("read")), "a put has read");
    log.disk.done.clear();
    assert_eq!(log.value(&[3, 1]), Some(vec![33; 700]));
    assert_eq!(log.disk.done.len(), 1);
    assert_eq!(log.engine.counts().reads, 1);
}

#[test]
fn an_expired_value_is_absent_in_memory() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let put = Put { key: b"key", value: b"v", expiry_ms: 100, ..Put::default() };
    let Wrote::Done { mark, .. } = log.engine.put(&put, 0).unwrap() else { panic!("waits") };
    assert!(matches!(log.engine.get(b"key", 99).unwrap(), Get::Memory { .. }));
    let Get::Absent { wait } = log.engine.get(b"key", 100).unwrap() else { panic!("there") };
    assert_eq!(wait, Some(mark), "the reply saw a record that is not flushed");
}

#[test]
fn a_removed_key_stays_away_and_its_absence_waits_for_the_tombstone() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", b"value").unwrap();
    log.settle();
    let Removed::Done { mark, .. } = log.remove(b"key") else { panic!("was not there") };
    let Get::Absent { wait } = log.engine.get(b"key", 0).unwrap() else { panic!("is there") };
    assert_eq!(wait, Some(mark), "the reply saw a tombstone that is not flushed");
    let absent = log.remove(b"key");
    let waits = Removed::Absent { wait: Some(mark) };
    assert_eq!(absent, waits, "the remove saw a tombstone that is not flushed");
    log.settle();
    assert_eq!(log.remove(b"key"), Removed::Absent { wait: None });
    assert_eq!(log.remove(b"never"), Removed::Absent { wait: None });
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), None);
}

#[test]
fn sequences_of_a_run_are_above_those_of_the_one_before() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let mut last = 0;
    for run in 1..4 {
        let put = Put { key: b"key", value: b"v", ..Put::default() };
        let Wrote::Done { sequence, .. } = log.engine.put(&put, 0).unwrap() else { panic!("wait") };
        assert_eq!((sequence, log.report.run), (run << 40, run));
        assert!(sequence > last);
        last = sequence;
        log.settle();
        log = log.reopen();
        log.settle();
    }
}

#[test]
fn what_cannot_be_stored_is_refused_and_changes_nothing() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let before = log.engine.counts();
    let key = &[1; 70_000][..];
    let put = Put { key: b"k", ..Put::default() };
    for (put, error) in [
        (Put { key: b"", ..put }, Error::KeyBytes { got: 0, max: 65_535 }),
        (Put { key, ..put }, Error::KeyBytes { got: 70_000, max: 65_535 }),
        (Put { value: &key[..1025], ..put }, Error::ValueBytes { got: 1025, max: 1024 }),
        (Put { tags: &key[..9], ..put }, Error::TagBytes { got: 9, max: 32_768 }),
        (Put { tags: &key[..32_776], ..put }, Error::TagBytes { got: 32_776, max: 32_768 }),
        (Put { expiry_ms: 1 << 48, ..put }, Error::Expiry),
        (Put { key: &key[..3000], ..put }, Error::ValueBytes { got: 3024, max: 2032 }),
    ] {
        assert_eq!(log.engine.put(&put, 0), Err(error));
    }
    assert_eq!(log.engine.counts(), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against a map, through ends without a stop.
    #[test]
    fn a_log_is_a_map_that_lasts(
        steps in vec((0u8..12, 0u8..20, 0usize..1000), 1..200),
        is_async: bool,
    ) {
        let mode = if is_async { Mode::Async } else { Mode::Safe };
        let mut log = Log::new(mode);
        let mut model: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (at, (what, key, length)) in steps.into_iter().enumerate() {
            let value = vec![at as u8; length];
            match what {
                0..6 => {
                    log.put(&[key], &value).unwrap();
                    model.insert(key, value);
                }
                6 => {
                    let value = vec![at as u8; 1025 + length * 3];
                    log.put_large(&[key], &value);
                    model.insert(key, value);
                }
                7..9 => {
                    let was_there = matches!(log.remove(&[key]), Removed::Done { .. });
                    prop_assert_eq!(was_there, model.remove(&key).is_some());
                }
                9 => { log.step(); }
                10 => log.settle(),
                _ => {
                    log.engine.set_mode(Mode::Safe);
                    log.settle();
                    log = log.reopen();
                    log.engine.set_mode(mode);
                    prop_assert_eq!(&*log.report.damages, &[]);
                }
            }
            prop_assert_eq!(log.value(&[key]), model.get(&key).cloned());
        }
        for key in 0..20 {
            prop_assert_eq!(log.value(&[key]), model.get(&key).cloned());
        }
    }
}
