//! A disk that was found full: what is said of that is asked for again.

use super::*;

/// A log of which no other segment can be made, and a put is refused for it. Says how many keys it
/// has.
fn refusing() -> (Log, u32) {
    let mut log = Log::new(Mode::Async);
    log.settle();
    let mut left = 10;
    log.disk.fault = Some(Box::new(move |action| match action {
        Action::Create { file } if matches!(file.name, FileName::Segment(_)) => {
            let is_full = left == 0;
            left -= i32::from(!is_full);
            is_full.then_some(Failure::Full)
        }
        _ => None,
    }));
    let mut keys = 0;
    while log.put(&u32::to_le_bytes(keys), &[1; 900]).is_ok() {
        keys += 1;
        log.settle();
    }
    assert!(keys > 100, "{keys} keys");
    (log, keys)
}

/// Removes all keys, durably. Segments come empty for it.
fn remove_all(log: &mut Log, keys: u32) {
    for key in 0..keys {
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
    }
    log.flush();
}

/// Nobody has asked for anything since there was room.
#[test]
fn a_put_is_not_refused_by_what_was_so_long_ago() {
    let (mut log, _) = refusing();
    log.disk.fault = None;
    log.now_ms += 100;
    log.put(b"key", &[1; 900]).expect("refused by what was so long ago");
}

#[test]
fn a_put_waits_for_the_attempt_that_is_under_way() {
    let (mut log, _) = refusing();
    log.disk.fault = None;
    log.now_ms += 100;
    assert!(log.step(), "no segment is made");
    // Others are written to meanwhile, and it takes longer than the next one would be waited for.
    log.now_ms += 1000;
    log.put(b"key", &[1; 900]).expect("refused before it is known");
}

/// Segments came empty since, so that none had to be made for a while.
#[test]
fn what_was_freed_meanwhile_keeps_no_refusal() {
    let (mut log, keys) = refusing();
    log.disk.fault = None;
    remove_all(&mut log, keys);
    assert!(log.engine.attempts.are_refused() && !log.engine.wants_segment());
    log.now_ms += 1000;
    for key in 0..keys + 100 {
        log.put(&key.to_le_bytes(), &[2; 900]).expect("refused by what was so long ago");
    }
}

/// Time is told by calls, and an attempt that takes long is reported by none.
#[test]
fn an_attempt_that_takes_long_is_an_answer_all_the_same() {
    let (mut log, _) = refusing();
    log.now_ms += 100;
    let put = Put { key: b"key", value: &[1; 900], ..Put::default() };
    let refused = (0..100).find_map(|_| {
        let wrote = log.engine.put(&put, log.now_ms);
        log.step();
        log.now_ms += 500;
        wrote.err()
    });
    assert_eq!(refused, Some(Error::NoRoom), "it waits for one attempt after the other");
}

#[test]
fn a_file_that_was_removed_makes_room_at_once() {
    let (mut log, keys) = refusing();
    assert_eq!(log.put(b"key", &[1; 900]), Err(Error::NoRoom), "there is room");
    log.disk.fault = None;
    remove_all(&mut log, keys);
    assert!(log.engine.counts().files_removed > 0, "no file was removed");
    let before_ms = log.now_ms;
    for key in 0..keys {
        log.put(&key.to_le_bytes(), &[2; 900]).expect("refused by what was before the removal");
    }
    assert_eq!(log.now_ms, before_ms, "time has passed");
}

/// What an open could not know of.
#[test]
fn a_file_of_somebody_else_that_has_come_meanwhile_refuses_nothing() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let next = log.engine.next_number().0;
    for id in next..next + 3 {
        log.disk.files.insert(segment(id), vec![7; 100]);
    }
    for key in 0..200u32 {
        log.put(&key.to_le_bytes(), &[1; 900]).expect("a file is in the way");
    }
    for id in next..next + 3 {
        assert_eq!(log.disk.files[&segment(id)], [7; 100], "somebody else's file is used");
    }
}
