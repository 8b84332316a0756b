//! Compaction: what moves, what stays, what vanishes, and how much room is taken.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::engine::{chunk::Allowance, space::Role};

fn again(log: Log) -> Log {
    let mut log = log.reopen();
    log.engine.settings.space_target_percent = 130;
    log
}

fn used(log: &Log) -> usize {
    log.engine.manifest().rows.len() - log.engine.free.len()
}

fn live(log: &Log) -> u64 {
    log.engine.segments.iter().flatten().map(|segment| segment.live_bytes).sum()
}

/// Segments that a log may have when nothing is left to be moved: 1.3 times what lives, the one
/// that is written to, four in reserve, of which the survivors' is one, and three that are free.
pub(super) fn allowed(log: &Log) -> usize {
    (live(log) as usize * 13 / 10).div_ceil(16 << 10) + 1 + 4 + 3
}

/// A number that looks random.
pub(super) fn scatter(at: u32) -> u32 {
    at.wrapping_mul(2_654_435_761) >> 7
}

#[test]
fn the_space_target_is_held_while_keys_are_overwritten() {
    let mut log = Log::compacting(Mode::Safe);
    let keys = 300;
    let mut newest = BTreeMap::new();
    let mut most = 0;
    for at in 0..keys * 10 {
        let key = if at < keys { at } else { scatter(at) % keys };
        log.put(&key.to_le_bytes(), &[at as u8; 440]).unwrap();
        newest.insert(key, at as u8);
        log.settle();
        if at > keys * 2 {
            most = most.max(used(&log));
        }
    }
    let allowed = live(&log) as usize * 13 / 10 / (16 << 10) + 5;
    assert!(most <= allowed, "{most} segments are used, and {allowed} would be enough");
    let counts = log.engine.counts();
    assert!(counts.segments_moved > 20 && counts.records_moved > 500, "{counts:?}");
    let amplification = 1.0 + counts.records_moved as f64 / f64::from(keys * 10);
    assert!(amplification < 3.0, "each record was written {amplification} times");
    let mut log = again(log);
    assert_eq!(log.report.damages, []);
    for (key, value) in newest {
        assert_eq!(log.value(&key.to_le_bytes()), Some(vec![value; 440]), "key {key}");
    }
}

#[test]
fn puts_wait_while_moves_are_behind() {
    let mut log = Log::compacting(Mode::Async);
    let keys = 300;
    let mut most = 0;
    for at in 0..keys * 10 {
        let key = if at < keys { at } else { scatter(at) % keys };
        // Nothing is done but what a put waits for.
        log.put(&key.to_le_bytes(), &[at as u8; 440]).unwrap();
        if at > keys * 2 {
            most = most.max(used(&log));
        }
    }
    let allowed = live(&log) as usize * 13 / 10 / (16 << 10) + 8;
    assert!(most <= allowed, "{most} segments are used, and {allowed} would be enough");
}

#[test]
fn who_puts_pays_as_he_goes_when_much_is_owed() {
    let mut log = Log::new(Mode::Async);
    for at in 0..2000u32 {
        log.put(&(at % 1000).to_le_bytes(), &[at as u8; 440]).unwrap();
        log.put(&(at % 100 + 2000).to_le_bytes(), &[at as u8; 440]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 110;
    log.engine.compaction.look_again();
    let (before, mut most) = (used(&log), 0);
    for at in 0..2000u32 {
        let (key, mut steps) = (at % 1000, 0);
        let put = Put { key: &key.to_le_bytes(), value: &[7; 440], ..Put::default() };
        while log.engine.put(&put, log.now_ms).unwrap() == Wrote::Wait {
            if let Some(at_ms) = log.engine.retry_at_ms() {
                log.now_ms = at_ms;
                continue;
            }
            if !log.step() {
                log.now_ms += 200;
            }
            steps += 1;
        }
        most = most.max(steps);
    }
    // Nothing is done but what a put waits for: some are empty and not free.
    let after = used(&log) - log.engine.freeing.emptied.len();
    assert!(after < before * 9 / 10, "{after} of {before} segments");
    assert!(most < 60, "a put has waited for {most} reports");
}

#[test]
fn removes_cost_nothing_and_do_not_wait_when_much_is_owed() {
    let mut log = Log::new(Mode::Async);
    for at in 0..2000u32 {
        log.put(&(at % 1000).to_le_bytes(), &[at as u8; 440]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 110;
    log.engine.compaction.look_again();
    let put = Put { key: b"key", value: &[7; 440], ..Put::default() };
    let credit = |log: &Log| log.engine.compaction.account.credit_bytes();
    // It may wait for something else.
    while log.engine.put(&put, log.now_ms).unwrap() != Wrote::Wait || credit(&log) >= 0 {
        log.step();
    }
    let before = credit(&log);
    for key in 0..10u32 {
        let removed = log.engine.remove(&key.to_le_bytes(), log.now_ms).unwrap();
        assert!(matches!(removed, Removed::Done { .. }), "{removed:?}");
    }
    assert_eq!(log.engine.put(&put, log.now_ms).unwrap(), Wrote::Wait);
    assert_eq!(credit(&log), before, "a remove was paid for");
}

#[test]
fn what_was_paid_and_not_put_is_given_back() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put(b"key", b"value").unwrap();
    let credit = |log: &Log| log.engine.compaction.account.credit_bytes();
    log.engine.pay(Allowance::Bytes(500));
    assert_eq!(credit(&log), -1000);
    log.put(b"other", b"value").unwrap();
    log.remove(b"key");
    log.engine.close_chunk();
    // Of the second put: its header, key and value.
    let bytes = log.engine.counts().record_bytes;
    assert!((-200..0).contains(&credit(&log)), "{} of {bytes}", credit(&log));
}

#[test]
fn space_returns_when_most_is_removed() {
    let mut log = Log::compacting(Mode::Safe);
    for key in 0..600u32 {
        log.put(&key.to_le_bytes(), &[1; 440]).unwrap();
        log.settle();
    }
    let before = log.engine.manifest().rows.len();
    for key in (0..600u32).filter(|key| key % 10 != 0) {
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
        log.settle();
    }
    let after = log.engine.manifest().rows.len();
    let allowed = allowed(&log);
    assert!(
        after <= allowed && after < before * 2 / 3,
        "{after} of {before} segments, {allowed} allowed"
    );
    assert!(log.engine.counts().tombstones_dropped > 100, "{:?}", log.engine.counts());
    let mut log = again(log);
    for key in 0..600u32 {
        let expected = (key % 10 == 0).then(|| vec![1; 440]);
        assert_eq!(log.value(&key.to_le_bytes()), expected, "key {key}");
    }
}

/// Has the segments with these keys be sealed and mostly dead.
fn move_all(log: &mut Log) {
    for round in 0..40u32 {
        for key in 0..8u32 {
            log.put(&[100 + key as u8, 9], &[round as u8; 900]).unwrap();
            log.settle();
        }
    }
}

#[test]
fn what_moves_keeps_all_that_was_stored_with_it() {
    let mut log = Log::compacting(Mode::Safe);
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
    let Wrote::Done { .. } = log.engine.put(&put, 0).unwrap() else { panic!("waits") };
    let plain = Put { key: b"plain", value: b"1", ..Put::default() };
    let Wrote::Done { sequence, .. } = log.engine.put(&plain, 0).unwrap() else { panic!("waits") };
    log.settle();
    let before = log.stored(b"key").unwrap().unwrap();
    move_all(&mut log);
    let after = log.stored(b"key").unwrap().unwrap();
    assert!(after.sequence > before.sequence, "it has not moved");
    assert_eq!(Stored { sequence: before.sequence, ..after }, before);
    assert_eq!(log.stored(b"plain").unwrap().unwrap().token, sequence, "a copy keeps its token");
}

#[test]
fn large_values_move_part_by_part() {
    let mut log = Log::compacting(Mode::Safe);
    let value: Vec<u8> = (0..5000u32).map(|at| (at / 3) as u8).collect();
    log.settle();
    let mut upload = log.engine.begin_large(b"large", value.len() as u64).unwrap();
    for (at, part) in value.chunks(1024).enumerate() {
        while log.engine.put_part(&mut upload, part, 0).unwrap() == Wrote::Wait {
            assert!(log.step());
        }
        // The parts lie in several segments.
        for key in 0..6u8 {
            log.put(&[key, at as u8], &[1; 900]).unwrap();
            log.settle();
        }
    }
    let put = Put { key: b"large", flags: 3, ..Put::default() };
    while log.engine.put_head(&upload, &put, 0).unwrap() == Wrote::Wait {
        assert!(log.step());
    }
    drop(upload);
    log.settle();
    for key in 0..6u8 {
        for at in 0..5u8 {
            log.remove(&[key, at]);
            log.settle();
        }
    }
    let before = log.stored(b"large").unwrap().unwrap();
    move_all(&mut log);
    let after = log.stored(b"large").unwrap().unwrap();
    assert!(after.sequence > before.sequence, "it has not moved");
    assert_eq!((after.value, after.flags), (value.clone(), 3));
    let mut log = again(log);
    assert_eq!(log.value(b"large"), Some(value));
    assert_eq!(log.report.damages, []);
}

#[test]
fn a_tombstone_stays_as_long_as_something_older_is_anywhere() {
    let mut log = Log::compacting(Mode::Safe);
    log.settle();
    // The old value, in a segment that lives on.
    log.put(b"removed", &[1; 440]).unwrap();
    for key in 0..24u8 {
        log.put(&[key], &[2; 440]).unwrap();
    }
    log.seal();
    log.remove(b"removed");
    log.settle();
    move_all(&mut log);
    assert!(log.engine.counts().segments_moved > 0);
    let mut log = again(log);
    assert_eq!(log.value(b"removed"), None, "a removed key has returned");
    for key in 0..24u8 {
        assert_eq!(log.value(&[key]), Some(vec![2; 440]));
    }
}

#[test]
fn what_has_expired_leaves_nothing_older_behind() {
    let mut log = Log::compacting(Mode::Safe);
    log.settle();
    log.put(b"expired", &[1; 440]).unwrap();
    for key in 0..24u8 {
        log.put(&[key], &[2; 440]).unwrap();
    }
    log.seal();
    let put = Put { key: b"expired", value: &[3; 440], expiry_ms: 50, ..Put::default() };
    while log.engine.put(&put, 0).unwrap() == Wrote::Wait {
        assert!(log.step());
    }
    log.settle();
    log.engine.tell_wall_ms(100);
    log.now_ms = 100;
    move_all(&mut log);
    let mut log = again(log);
    log.now_ms = 100;
    assert_eq!(log.value(b"expired"), None, "what was before the expired value has returned");
}

#[test]
fn on_a_full_disk_what_is_removed_makes_room_in_the_end() {
    let mut log = Log::compacting(Mode::Safe);
    log.settle();
    let mut segments = 0;
    log.disk.fault = Some(Box::new(move |action| match action {
        Action::Create { file } if matches!(file.name, FileName::Segment(_)) => {
            segments += 1;
            (segments > 12).then_some(Failure::Full)
        }
        _ => None,
    }));
    log.put(b"small", b"1").unwrap();
    let mut keys = 0u32;
    while log.put(&keys.to_le_bytes(), &[1; 440]).is_ok() {
        keys += 1;
        log.settle();
    }
    assert!(keys > 100, "{keys} keys");
    log.settle();
    // What is less than a block makes no room: all segments are not looked at for it.
    assert!(log.engine.lacks_room() && !log.engine.is_moving());
    for (key, expected) in [(&b"small"[..], false), (&[0; 4], true)] {
        assert!(matches!(log.remove(key), Removed::Done { .. }));
        assert_eq!(log.engine.is_moving(), expected, "{key:?}");
    }
    log.settle();
    for key in (2..keys).filter(|key| key % 2 == 0) {
        let removed = log.remove(&key.to_le_bytes());
        assert!(matches!(removed, Removed::Done { .. }), "{removed:?}");
        log.settle();
    }
    for key in 0..keys / 4 {
        log.put(&(keys + key).to_le_bytes(), &[2; 440]).expect("there is room again");
        log.settle();
    }
    for key in (0..keys).filter(|key| key % 2 == 1) {
        assert_eq!(log.value(&key.to_le_bytes()), Some(vec![1; 440]));
    }
    assert!(log.engine.segments.iter().flatten().any(|it| it.role == Role::Sealed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against a map, through ends without a stop, with compaction all the time.
    #[test]
    fn a_log_that_is_compacted_is_a_map_that_lasts(
        steps in vec((0u8..14, 0u8..40, 0usize..1000), 100..700),
        is_async: bool,
    ) {
        let mode = if is_async { Mode::Async } else { Mode::Safe };
        let mut log = Log::compacting(mode);
        let mut model: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (at, (what, key, length)) in steps.into_iter().enumerate() {
            let value = vec![at as u8; length];
            match what {
                0..8 => {
                    log.put(&[key], &value).unwrap();
                    model.insert(key, value);
                }
                8 => {
                    let value = vec![at as u8; 1025 + length * 3];
                    log.put_large(&[key], &value);
                    model.insert(key, value);
                }
                9..11 => {
                    let was_there = matches!(log.remove(&[key]), Removed::Done { .. });
                    prop_assert_eq!(was_there, model.remove(&key).is_some());
                }
                11 => { log.step(); }
                12 => log.settle(),
                _ if length > 900 => {
                    log.engine.set_mode(Mode::Safe);
                    log.settle();
                    log = again(log);
                    log.engine.set_mode(mode);
                    prop_assert_eq!(&*log.report.damages, &[]);
                }
                _ => log.settle(),
            }
            prop_assert_eq!(log.value(&[key]), model.get(&key).cloned());
        }
        for key in 0..40 {
            prop_assert_eq!(log.value(&[key]), model.get(&key).cloned());
        }
    }
}
