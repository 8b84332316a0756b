//! What is moved next, in which steps, and for how long.

use super::{moving::allowed, *};
use crate::engine::space::Role;

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
