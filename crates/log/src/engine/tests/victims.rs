//! What is moved next, in which steps, and for how long.

use super::{moving::allowed, *};
use crate::engine::{space::Role, victims::Choice};

#[test]
fn space_returns_when_most_was_removed_before_anything_moved() {
    let mut log = Log::new(Mode::Async);
    for key in 0..2000u32 {
        log.put(&key.to_le_bytes(), &[1; 440]).unwrap();
    }
    for key in (0..2000u32).filter(|key| key % 10 != 0) {
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
    }
    log.flush();
    let before = log.engine.manifest().rows.len();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    log.settle();
    let after = log.engine.manifest().rows.len();
    let allowed = allowed(&log);
    assert!(before > 3 * allowed, "{before} segments, {allowed} allowed");
    assert!(after <= allowed, "{after} of {before} segments, {allowed} allowed");
    for key in 0..2000u32 {
        let expected = (key % 10 == 0).then(|| vec![1; 440]);
        assert_eq!(log.value(&key.to_le_bytes()), expected, "key {key}");
    }
}

#[test]
fn all_segments_are_looked_at_in_steps_and_only_when_something_has_changed() {
    let mut log = Log::compacting(Mode::Async);
    for key in 0..3000u32 {
        log.put(&key.to_le_bytes(), &[1; 440]).unwrap();
    }
    log.flush();
    let segments = log.engine.segments.len();
    assert!(segments > 64, "{segments} segments");
    while log.engine.survey().is_none() {}
    log.engine.compaction.look_again();
    let steps = (1..).find(|_| log.engine.survey().is_some()).unwrap();
    // Twice each, 64 in a step.
    assert_eq!(steps, (2 * segments).div_ceil(64));
    let sealed = log.engine.survey().expect("nothing has changed");
    let all = log.engine.segments.iter().flatten();
    let bytes = all.filter(|it| it.role == Role::Sealed).count() as u64 * (16 << 10);
    assert_eq!(sealed.bytes, bytes);
    log.engine.compaction.look_again();
    assert!(log.engine.survey().is_none(), "what has changed is not looked at");
}

#[test]
fn a_move_notes_few_large_values_at_a_time() {
    let mut log = Log::new(Mode::Async);
    let value: Vec<u8> = (0..1100u32).map(|at| (at / 3) as u8).collect();
    let mut uploads = Vec::new();
    for key in 0..90u8 {
        let upload = log.upload(&[key], &value);
        uploads.push(upload);
    }
    log.flush();
    log.engine.close_tail();
    for (key, upload) in (0..90u8).zip(&uploads) {
        log.put_head(upload, &[key]);
    }
    drop(uploads);
    log.flush();
    log.engine.close_tail();
    // Of each value the head is dead, or the value lives on.
    for key in (0..90u8).filter(|key| key % 3 != 0) {
        log.put(&[key], &[key; 20]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    let mut most = 0;
    while log.step() {
        most = most.max(log.engine.compaction.larges());
    }
    assert!(log.engine.counts().heads_moved >= 30, "{:?}", log.engine.counts());
    // Four, and those of a block of a footer.
    assert!((5..=4 + 15).contains(&most), "{most} large values are noted");
    for key in 0..90u8 {
        let expected = if key % 3 == 0 { value.clone() } else { vec![key; 20] };
        assert_eq!(log.value(&[key]), Some(expected));
    }
}

#[test]
fn a_head_that_is_to_be_moved_is_flushed_without_waiting_for_its_time() {
    let mut log = Log::new(Mode::Async);
    let value: Vec<u8> = (0..3000u32).map(|at| (at / 3) as u8).collect();
    let upload = log.upload(b"large", &value);
    for key in 0..7u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    log.seal();
    for key in 0..7u8 {
        log.put(&[key], &[key; 20]).unwrap();
    }
    log.flush();
    log.put_head(&upload, b"large");
    drop(upload);
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    // Whoever drives a log sleeps when there is neither an action nor a change.
    log.settle();
    assert_eq!((log.now_ms, log.engine.counts().heads_moved), (0, 1));
    assert_eq!(log.value(b"large"), Some(value));
}

/// Has a segment be sealed whose records are 440 bytes of these keys. Says which it is.
fn seal_of(log: &mut Log, keys: std::ops::Range<u32>) -> SegmentId {
    let mut id = None;
    for key in keys {
        log.put(&key.to_le_bytes(), &[1; 440]).unwrap();
        let segment = log.engine.open.as_ref().map(|tail| tail.segment);
        assert!(id.is_none() || id == segment, "a segment has room for them");
        id = segment;
    }
    log.seal();
    id.unwrap()
}

/// An old segment of which a sixth is dead, many in which all lives, and one that is new and half
/// dead.
fn with_old_and_new() -> (Log, SegmentId, SegmentId) {
    let mut log = Log::new(Mode::Async);
    let old = seal_of(&mut log, 0..25);
    for nth in 1..40 {
        seal_of(&mut log, 100 * nth..100 * nth + 25);
    }
    let new = seal_of(&mut log, 4000..4025);
    for key in (0..4).chain(4000..4013) {
        log.put(&u32::to_le_bytes(key), &[2; 20]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 101;
    (log, old, new)
}

fn chosen(log: &mut Log) -> Choice {
    log.engine.compaction.look_again();
    while log.engine.survey().is_none() {}
    log.engine.choose()
}

#[test]
fn what_is_old_and_lives_is_moved_before_what_is_new_and_will_die() {
    let (mut log, old, new) = with_old_and_new();
    // Copies of the old one may not fit into a single segment.
    let for_copies = log.engine.left_by_copies();
    log.engine.free.resize(for_copies + 2, SegmentId(900));
    assert_eq!(chosen(&mut log), Choice::Move(old), "the age does not count");
    log.engine.free.truncate(for_copies + 1);
    assert_eq!(chosen(&mut log), Choice::Move(new), "another one would fit");
}

#[test]
fn where_puts_have_no_room_what_makes_most_of_it_is_moved_first() {
    let (mut log, _, new) = with_old_and_new();
    log.engine.attempts.fail(1, log.now_ms);
    log.engine.free.truncate(log.engine.put_reserve());
    assert_eq!(chosen(&mut log), Choice::Move(new), "another one would make more room");
}

#[test]
fn what_a_run_before_has_left_is_as_old_as_this_run() {
    let (log, old, new) = with_old_and_new();
    let age = |log: &Log, id| log.engine.age_of(log.engine.segment(id).unwrap());
    assert!(age(&log, old) > 10 * age(&log, new), "{} {}", age(&log, old), age(&log, new));
    let mut log = log.reopen();
    log.put(b"key", b"value").unwrap();
    assert_eq!((age(&log, old), age(&log, new)), (1, 1));
}
