//! A flush of copies that fails on a full disk, where they have the last segment.

use super::{full::fill, *};
use crate::engine::space::Role;

/// A full disk whose last empty segment is about to be taken for copies: of each key `put_twice`
/// has put the first value is dead, and nothing has moved yet.
fn about_to_move() -> (Log, u32) {
    let mut log = Log::new(Mode::Safe);
    fill(&mut log);
    log.engine.settings.space_target_percent = 0;
    log.settle();
    let mut keys = 0u32;
    let mut put_twice = |key: u32| {
        [1, 2].into_iter().all(|value| {
            let is_put = log.put(&key.to_le_bytes(), &[value; 440]).is_ok();
            log.settle();
            is_put
        })
    };
    while put_twice(keys) {
        keys += 1;
    }
    (log.reopen(), keys)
}

/// Moves until copies are in the last segment, and has their flush fail.
fn strand(log: &mut Log) {
    fill(log);
    log.engine.free.truncate(1);
    while log.engine.copies.tail.as_ref().is_none_or(|tail| tail.unflushed_bytes() == 0) {
        assert!(log.step(), "nothing moves");
    }
    let copies = log.engine.copies.tail.as_ref().unwrap().segment;
    let mut left = 1;
    log.disk.fault = Some(Box::new(move |action| match action {
        Action::Create { file } if matches!(file.name, FileName::Segment(_)) => Some(Failure::Full),
        Action::Flush { file } if file.name == FileName::Segment(copies) && left > 0 => {
            left -= 1;
            Some(io())
        }
        _ => None,
    }));
    log.settle();
    assert_eq!((log.engine.failures, log.engine.stranded.len()), (1, 1));
    assert!(!log.engine.has_lost(), "more than copies was lost");
}

/// What was removed is not there, and all else is.
fn check(log: &mut Log, keys: u32, removed: &[u32]) {
    // The last key was put once.
    for key in 0..keys {
        let value = (!removed.contains(&key)).then(|| vec![2; 440]);
        assert_eq!(log.value(&key.to_le_bytes()), value, "key {key}");
    }
}

#[test]
fn everything_is_read_and_nothing_waits_for_room_that_nobody_makes() {
    let (mut log, keys) = about_to_move();
    strand(&mut log);
    assert!(log.engine.free.is_empty(), "there is a segment");
    check(&mut log, keys, &[]);
    assert_eq!(log.put(b"key", b"value"), Err(Error::NoRoom));
    assert!(matches!(log.engine.remove(&[0; 4], log.now_ms), Err(Error::NoRoom)));
    let mut drain = log.engine.drain();
    assert_eq!(log.engine.drained(&mut drain), Settled::Done, "the originals are durable");
    assert_eq!(log.engine.settle_moves(), Settled::Failed);
    assert!(log.engine.begin_backup().is_some(), "the originals are there");
    // There is room again.
    log.disk.fault = None;
    log.now_ms += 1000;
    log.settle();
    assert!(log.engine.stranded.is_empty(), "it is not written again");
    while log.engine.settle_moves() == Settled::Pending {
        assert!(log.step(), "the iteration waits for ever");
    }
    log.put(b"key", b"value").unwrap();
    log.settle();
    check(&mut log, keys, &[]);
    check(&mut log.reopen(), keys, &[]);
}

#[test]
fn a_log_is_stopped_in_order_as_nothing_is_lost() {
    let (mut log, keys) = about_to_move();
    strand(&mut log);
    let stopped = log.engine.close(&mut log.disk, log.now_ms);
    assert_eq!(stopped, Ok(()), "what the copies are of is durable");
    check(&mut log.reopen(), keys, &[]);
}

#[test]
fn what_was_durable_before_is_freed_and_used_for_them() {
    let (mut log, keys) = about_to_move();
    log.engine.settings.space_target_percent = 0;
    let place = |log: &Log, key: u32| {
        let hash = log.engine.index.hash(&key.to_le_bytes()).unwrap();
        log.engine.place(log.engine.index.get(hash).unwrap().position).0
    };
    let emptied = place(&log, keys / 2);
    // Somebody reads it.
    let pin = log.engine.pin(emptied).unwrap();
    let removed: Vec<u32> = (0..keys).filter(|key| place(&log, *key) == emptied).collect();
    assert!(removed.len() > 5, "{removed:?}");
    for key in &removed {
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
    }
    log.seal();
    assert_eq!(log.engine.segment(emptied).unwrap().live_bytes, 0);
    strand(&mut log);
    assert!(
        log.engine.segment(emptied).unwrap().role == Role::Sealed,
        "it is freed under a reader"
    );
    assert_eq!(log.put(b"key", b"value"), Err(Error::NoRoom));
    drop(pin);
    log.settle();
    assert!(log.engine.stranded.is_empty(), "a segment that can be freed is not");
    check(&mut log, keys, &removed);
    // Where they are is room for removes as well.
    let left: Vec<u32> = (0..keys).filter(|key| !removed.contains(key)).collect();
    assert!(matches!(log.remove(&left[0].to_le_bytes()), Removed::Done { .. }));
    log.settle();
    check(&mut log.reopen(), keys, &[removed, vec![left[0]]].concat());
}
