//! Copies that compaction makes: when readers are led to them, and what becomes of the others.

use super::*;
use crate::{
    engine::{
        room::Needed,
        space::{RESERVE, Role},
        victims::Choice,
    },
    format::record::Kind,
};

/// New values of seven keys, all written.
pub(super) fn overwrite_seven(log: &mut Log) {
    for key in 0..7u8 {
        log.put(&[key], &[key; 901]).unwrap();
    }
    log.flush();
}

/// Eight keys in one segment, of which five are dead.
pub(super) fn mostly_dead(log: &mut Log) -> SegmentId {
    // Nothing moves before it is wanted.
    log.engine.settings.space_target_percent = 0;
    for key in 0..8u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    let victim = log.engine.open.as_ref().unwrap().segment;
    log.seal();
    for key in 0..5u8 {
        log.put(&[key], &[100 + key; 900]).unwrap();
    }
    log.flush();
    log.engine.settings.space_target_percent = 130;
    victim
}

pub(super) fn value(key: u8) -> Option<Vec<u8>> {
    Some(vec![if key < 5 { 100 + key } else { key }; 900])
}

/// Steps until records were read that are to be copied.
fn step_to_records(log: &mut Log) {
    for _ in 0..100 {
        if log.engine.compaction.has_records() {
            return;
        }
        assert!(log.step(), "nothing is moved");
    }
    panic!("nothing is read");
}

/// Steps until copies wait for their flush.
pub(super) fn step_to_copies(log: &mut Log) {
    for _ in 0..100 {
        if log.engine.counts().records_moved > 0 {
            return;
        }
        assert!(log.step(), "nothing is moved");
    }
    panic!("nothing is copied");
}

#[test]
fn a_segment_is_freed_when_what_was_moved_out_of_it_is_flushed() {
    let mut log = Log::compacting(Mode::Async);
    let victim = mostly_dead(&mut log);
    step_to_copies(&mut log);
    while log.engine.segment(victim).unwrap().role == Role::Sealed {
        let is_flushed = log.engine.are_copies_durable();
        assert!(log.step(), "it does not end");
        let is_sealed = log.engine.segment(victim).unwrap().role == Role::Sealed;
        assert!(is_flushed || is_sealed, "freed before the copies are flushed");
    }
    log.settle();
    assert_eq!(log.engine.counts().records_moved, 3);
    assert_eq!(log.engine.segment(victim).unwrap().role, Role::Free);
    let mut log = log.reopen();
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key));
    }
}

#[test]
fn what_was_written_meanwhile_stays_the_newest() {
    for reopens in [false, true] {
        let mut log = Log::compacting(Mode::Async);
        mostly_dead(&mut log);
        step_to_records(&mut log);
        log.put(&[5], b"newer").unwrap();
        assert!(matches!(log.remove(&[6]), Removed::Done { .. }));
        log.settle();
        if reopens {
            log.flush();
            log = log.reopen();
        }
        assert_eq!(log.value(&[5]), Some(b"newer".to_vec()), "an old value has come back");
        assert_eq!(log.value(&[6]), None, "an old value has come back");
        assert_eq!(log.value(&[7]), value(7));
    }
}

#[test]
fn room_that_is_not_used_is_not_written() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    assert!(log.engine.make_copy_room(Needed::one(100)));
    log.engine.flush_copies();
    assert!(log.engine.close_copies(), "it is not closed");
    log.settle();
    assert!(log.engine.closing.is_empty() && log.engine.failures == 0, "nothing was written");
    assert!(log.engine.make_copy_room(Needed::one(100)), "its memory is gone");
}

#[test]
fn a_flush_of_copies_that_fails_loses_nothing() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    step_to_copies(&mut log);
    let copies = log.engine.copies.tail.as_ref().unwrap().file;
    log.disk.fail(move |action| matches!(action, Action::Flush { file } if *file == copies));
    log.settle();
    assert_eq!(log.engine.failures, 1);
    log.disk.fault = None;
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key));
    }
    log.put(&[9], b"more").unwrap();
    log.settle();
    let mut log = log.reopen();
    assert_eq!(log.report.damages, []);
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key));
    }
}

#[test]
fn copies_whose_flush_was_the_last_to_fail_are_read_from_memory() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    step_to_copies(&mut log);
    let copies = log.engine.copies.tail.as_ref().unwrap().file;
    log.disk.fail(move |action| matches!(action, Action::Flush { file } if *file == copies));
    // One has failed before, and is mended.
    log.engine.failures = 1;
    log.settle();
    assert!(log.engine.is_read_only());
    log.disk.fault = None;
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key));
    }
    let mut log = log.reopen();
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key));
    }
}

#[test]
fn what_a_failed_flush_has_left_keeps_a_tombstone() {
    let mut log = Log::compacting(Mode::Safe);
    log.engine.settings.space_target_percent = 0;
    log.put(b"key", &[1; 900]).unwrap();
    // The record reaches the disk, and the flush fails.
    log.disk.fail_next_flush();
    log.settle();
    log.disk.fault = None;
    log.seal();
    assert_eq!(log.value(b"key"), Some(vec![1; 900]));
    log.remove(b"key");
    for key in 0..5u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    log.seal();
    for key in 0..5u8 {
        log.put(&[key], &[key; 901]).unwrap();
    }
    log.settle();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    log.settle();
    assert!(log.engine.counts().segments_moved > 0, "{:?}", log.engine.counts());
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), None, "a removed key has returned from what a failed flush left");
}

#[test]
fn a_new_head_comes_when_the_copies_of_its_parts_are_flushed() {
    let mut log = Log::compacting(Mode::Async);
    log.engine.settings.space_target_percent = 0;
    let value: Vec<u8> = (0..3000u32).map(|at| (at / 3) as u8).collect();
    log.put_large(b"large", &value);
    for key in 0..7u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    log.seal();
    overwrite_seven(&mut log);
    log.engine.settings.space_target_percent = 130;
    while log.step() {
        let Some(tail) = &log.engine.copies.tail else { continue };
        let unflushed = |kind| tail.listed.behind_chunk(tail.flushed).any(|it| it.kind == kind);
        assert!(
            !(unflushed(Kind::Head) && unflushed(Kind::Part)),
            "the head is written before the copies of its parts are flushed"
        );
    }
    assert_eq!(log.engine.counts().heads_moved, 1);
    assert_eq!(log.value(b"large"), Some(value.clone()));
    let mut log = log.reopen();
    assert_eq!(log.value(b"large"), Some(value));
}

/// What is to be done when all segments were looked at.
fn choose(log: &mut Log) -> Choice {
    let mut choices = (0..100).map(|_| log.engine.choose());
    choices.find(|choice| *choice != Choice::LookOn).expect("there are few segments")
}

#[test]
fn copies_leave_the_reserve_and_what_does_not_fit_is_no_victim() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    assert!(matches!(choose(&mut log), Choice::Move(_)));
    log.engine.free.truncate(RESERVE);
    assert!(!log.engine.make_copy_room(Needed::one(100)), "copies have taken the reserve");
    assert_eq!(choose(&mut log), Choice::Nothing, "there is no room for what lives");
}

#[test]
fn nothing_moves_while_somebody_iterates_over_it() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    step_to_records(&mut log);
    let iteration = log.engine.iterate(None).unwrap();
    log.settle();
    let counts = log.engine.counts();
    assert_eq!((counts.records_moved, counts.segments_moved), (0, 0));
    log.engine.end_iteration(iteration);
    log.settle();
    assert_eq!(log.engine.counts().segments_moved, 1, "{:?}", log.engine.counts());
    for key in 0..8 {
        assert_eq!(log.value(&[key]), value(key));
    }
}

#[test]
fn an_iteration_begins_when_what_was_moved_is_flushed() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    step_to_copies(&mut log);
    assert_eq!(log.engine.settle_moves(), Settled::Pending);
    let moved = log.engine.counts().records_moved;
    while log.engine.settle_moves() == Settled::Pending {
        assert!(log.step(), "it does not end");
    }
    assert_eq!(log.engine.counts().records_moved, moved, "moved meanwhile");
    let mut iteration = log.engine.iterate(None).unwrap();
    let mut keys = Vec::new();
    while let Some(window) = iteration.window() {
        let Outcome::Read(buffer, bytes) =
            log.disk.perform(window.action(Buffer::new(window.bytes())))
        else {
            panic!("a read answers with bytes")
        };
        let mut found = iteration.take(&buffer.as_slice()[..bytes]);
        log.engine.keep_newest(&mut iteration, &mut found, 0);
        keys.extend(found.into_iter().map(|found| found.unwrap().key[0]));
    }
    keys.sort_unstable();
    assert_eq!(keys, (0..8).collect::<Vec<u8>>());
}

#[test]
fn nothing_moves_in_a_log_that_lacks_something() {
    let mut log = Log::compacting(Mode::Safe);
    log.engine.settings.space_target_percent = 0;
    log.put(b"key", b"old").unwrap();
    log.seal();
    log.put(b"key", b"new").unwrap();
    let away = segment(log.engine.open.as_ref().unwrap().segment.0);
    for key in 0..6u8 {
        log.put(&[key], &[key; 900]).unwrap();
    }
    log.seal();
    let kept = log.disk.files.remove(&away).unwrap();
    let mut log = log.reopen();
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    for round in 0..40u8 {
        log.put(&[b'm', round % 2], &[round; 900]).unwrap();
        log.put(&[b'n', round], &[round; 100]).unwrap();
        log.settle();
    }
    let is_moved = log.engine.counts().records_moved > 0;
    log.disk.files.insert(away, kept);
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(b"new".to_vec()), "an old value passes for newer");
    assert!(!is_moved, "something was moved while something is missing");
}
