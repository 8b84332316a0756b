//! Segments that become empty: when they are freed, and what keeps them.

use super::*;
use crate::{
    engine::{preparing::Preparing, space::Role},
    plan::Plan,
};

/// Puts `rounds` rounds of the same four keys, so that all but the last segments are dead.
fn churn(log: &mut Log, rounds: u8) {
    for round in 0..rounds {
        for key in 0..4 {
            log.put(&[key], &[round; 900]).unwrap();
            log.settle();
        }
    }
}

pub(super) fn segments(log: &Log) -> usize {
    log.disk.files.keys().filter(|file| matches!(file.name, FileName::Segment(_))).count()
}

fn in_role(log: &Log, role: Role) -> usize {
    log.engine.segments.iter().flatten().filter(|segment| segment.role == role).count()
}

#[test]
fn dead_segments_are_used_again_and_the_log_does_not_grow() {
    let mut log = Log::new(Mode::Safe);
    churn(&mut log, 10);
    let few = segments(&log);
    churn(&mut log, 100);
    assert!(segments(&log) <= few, "{} segments", segments(&log));
    assert!(log.engine.counts().segments_freed > 20);
    let mut log = log.reopen();
    assert_eq!(log.report.damages, []);
    for key in 0..4 {
        assert_eq!(log.value(&[key]), Some(vec![99; 900]));
    }
    churn(&mut log, 20);
    assert!(segments(&log) <= few + 1, "{} segments", segments(&log));
    log.engine.close(&mut log.disk, 0).unwrap();
    let mut log = log.reopen();
    assert_eq!(log.value(&[3]), Some(vec![19; 900]));
}

#[test]
fn a_segment_is_freed_when_what_replaced_its_records_is_flushed() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put(b"key", &[1; 900]).unwrap();
    log.seal();
    assert_eq!(in_role(&log, Role::Sealed), 1);
    log.put(b"takes a segment", b"for which another one is made").unwrap();
    log.flush();
    log.put(b"key", &[2; 900]).unwrap();
    log.settle();
    let freed = log.engine.counts().segments_freed;
    assert!(log.engine.tails().any(|tail| tail.unflushed_bytes() > 0), "nothing is at risk");
    assert!(
        !log.engine.freeing.emptied.is_empty(),
        "freed before what replaced its records is flushed"
    );
    let mut after =
        Log::of(MemoryDisk { files: log.disk.files.clone(), ..MemoryDisk::default() }, Mode::Async);
    assert!(after.value(b"key").is_some());
    log.flush();
    assert!(log.engine.freeing.emptied.is_empty());
    assert!(log.engine.counts().segments_freed > freed);
}

#[test]
fn a_segment_that_is_emptied_is_awaited_instead_of_another_one_that_is_made() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put(b"key", &[1; 900]).unwrap();
    log.seal();
    let (made, freed) = (segments(&log), log.engine.counts().segments_freed);
    // The segment that it takes leaves one too few.
    log.put(b"key", &[2; 900]).unwrap();
    assert!(log.engine.has_work(), "nobody is told that a flush is due");
    log.settle();
    assert_eq!(log.engine.counts().segments_freed, freed + 1, "it waits for more to be put");
    assert_eq!(segments(&log), made, "another one is made beside it");
    assert_eq!(log.engine.free.len(), log.engine.wanted_free());
    // One that somebody reads from may be long in coming.
    let read = log.engine.open.as_ref().unwrap().segment;
    log.seal();
    let pin = log.engine.pin(read);
    log.put(b"key", &[3; 900]).unwrap();
    log.settle();
    assert_eq!(segments(&log), made + 1, "it waits for a reader");
    drop(pin);
}

#[test]
fn what_fills_a_closed_segment_is_awaited_too() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"old", &[1; 900]).unwrap();
    log.seal();
    assert_eq!(in_role(&log, Role::Sealed), 1);
    // What replaces it is in a segment that is full and not flushed.
    log.put(b"old", &[2; 900]).unwrap();
    log.engine.close_tail();
    assert!(!log.engine.begin_freeing(), "freed before what replaced its record is flushed");
    log.settle();
    assert_eq!(log.engine.counts().segments_freed, 1);
    assert_eq!(log.reopen().value(b"old"), Some(vec![2; 900]));
}

#[test]
fn a_flush_that_fails_has_everything_noted_anew() {
    let mut log = Log::new(Mode::Async);
    log.put(b"key", &[1; 900]).unwrap();
    log.seal();
    log.put(b"key", &[2; 900]).unwrap();
    let mut left = 1;
    log.disk.fail(move |action| {
        let fails = matches!(action, Action::Flush { .. }) && left > 0;
        left -= u32::from(fails);
        fails
    });
    log.engine.drain();
    // Until the flush has failed and the record is written again, but not flushed.
    while log.engine.failures == 0 || !log.engine.stranded.is_empty() {
        assert!(log.step());
    }
    assert!(log.engine.has_ready(), "nobody is woken to note it anew");
    assert!(!log.engine.begin_freeing(), "freed before the copy is flushed");
    assert!(!log.engine.has_ready(), "somebody is woken for nothing");
    assert_eq!(log.engine.counts().segments_freed, 0, "freed before the copy is flushed");
    log.settle();
    assert_eq!(log.engine.counts().segments_freed, 1);
    assert_eq!(log.reopen().value(b"key"), Some(vec![2; 900]));
}

/// Performs an action and reports it.
fn perform(log: &mut Log, plan: Plan) {
    let outcome = log.disk.perform(plan.action);
    log.engine.complete(plan.token, outcome);
}

/// So many actions of sealing are reported before a flush of records fails, and the others after.
fn fail_while_sealing(reported: usize) -> Log {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", &[1; 900]).unwrap();
    log.settle();
    log.engine.close_tail();
    log.put(b"key", &[2; 900]).unwrap();
    for _ in 0..reported {
        let plan = log.engine.poll_upkeep(0).expect("the segment is being sealed");
        perform(&mut log, plan);
    }
    let mut late = log.engine.poll_upkeep(0);
    log.disk.fail_next_flush();
    while log.engine.failures == 0 {
        let plan = log.engine.poll_records(0).expect("a write or a flush");
        perform(&mut log, plan);
    }
    while let Some(plan) = late {
        perform(&mut log, plan);
        late = if in_role(&log, Role::Sealed) == 0 { log.engine.poll_upkeep(0) } else { None };
    }
    log
}

#[test]
fn what_is_not_written_again_yet_is_awaited() {
    // The footer is written in four actions, and the segment is sealed when the last is reported.
    for reported in 0..4 {
        let mut log = fail_while_sealing(reported);
        assert_eq!(in_role(&log, Role::Sealed), 1);
        assert!(!log.engine.stranded.is_empty(), "nothing waits to be written again");
        let written_again = log.engine.poll_records(0).expect("a write");
        assert!(log.engine.stranded.is_empty());
        assert!(!log.engine.begin_freeing(), "freed before the copy is flushed");
        perform(&mut log, written_again);
        log.settle();
        assert_eq!(log.engine.counts().segments_freed, 1);
        assert_eq!(log.reopen().value(b"key"), Some(vec![2; 900]));
    }
}

#[test]
fn the_next_generation_is_durable_before_a_segment_is_used_again() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", &[1; 900]).unwrap();
    log.seal();
    log.put(b"key", &[2; 900]).unwrap();
    log.disk.done.clear();
    log.settle();
    let at = |words: &str| log.disk.done.iter().filter(|done| *done == words).count();
    let times = (at("write 00000000.segment"), at("flush 00000000.segment"));
    assert_eq!(times, (2, 2), "no generation was written");
    assert_eq!(log.engine.segment(SegmentId(0)).unwrap().generation, 2);
    // Each copy has a flush of its own.
    let of = log.disk.done.iter().filter(|done| done.ends_with("00000000.segment"));
    let of: Vec<_> = of.map(|done| &done[..5]).collect();
    assert_eq!(of, ["write", "flush", "write", "flush"]);
}

#[test]
fn nobody_pins_a_segment_that_is_being_freed() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", &[1; 900]).unwrap();
    log.seal();
    assert!(log.engine.pin(SegmentId(0)).is_some());
    log.put(b"key", &[2; 900]).unwrap();
    let is_freeing = |log: &Log| matches!(log.engine.preparing, Some(Preparing::Freeing(_)));
    while !is_freeing(&log) {
        assert!(log.step(), "nothing is freed");
    }
    while is_freeing(&log) {
        assert_eq!(log.engine.pin(SegmentId(0)), None, "pinned while it is being freed");
        log.step();
    }
    assert_eq!(log.engine.counts().segments_freed, 1);
}

#[test]
fn a_segment_with_a_reader_stays() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", &[1; 900]).unwrap();
    log.settle();
    let Get::Read(reading) = log.engine.get(b"key", 0).unwrap() else { panic!("no read") };
    log.engine.close_tail();
    churn(&mut log, 30);
    log.put(b"key", &[2; 900]).unwrap();
    churn(&mut log, 30);
    let bytes = log.read(&reading).unwrap();
    let fetched = reading.finish(&bytes).expect("freed under a reader");
    let Fetched::Value(record) = fetched else { panic!("no value") };
    assert_eq!(record.value, [1; 900]);
    let freed = log.engine.counts().segments_freed;
    drop(reading);
    log.settle();
    assert_eq!(log.engine.counts().segments_freed, freed + 1);
}

#[test]
fn a_large_value_that_is_read_stays_with_all_its_parts() {
    let mut log = Log::new(Mode::Safe);
    // More than a segment has room for.
    let value: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
    log.put_large(b"large", &value);
    log.settle();
    log.engine.close_tail();
    log.put(b"other", &[1; 900]).unwrap();
    log.settle();
    let Get::Read(reading) = log.engine.get(b"large", 0).unwrap() else { panic!("no read") };
    let head = log.read(&reading).unwrap();
    log.put(b"large", b"small").unwrap();
    churn(&mut log, 40);
    let Fetched::Head(_, parts) = reading.finish(&head).unwrap() else { panic!("no head") };
    let mut read = Vec::new();
    let spread = log.engine.parts(&reading, &parts).unwrap();
    for reading in log.engine.all_parts(&spread) {
        let bytes = log.read(&reading).unwrap();
        let Fetched::Part(part) = reading.finish(&bytes).unwrap() else { panic!("no part") };
        read.extend_from_slice(part);
    }
    assert_eq!(read, value);
}

#[test]
fn parts_that_have_no_head_yet_stay() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let value = [&[1; 1024][..], &[2]].concat();
    let upload = log.upload(b"large", &value);
    log.settle();
    log.engine.close_tail();
    churn(&mut log, 60);
    log.put_head(&upload, b"large");
    drop(upload);
    churn(&mut log, 60);
    let stored = log.stored(b"large").expect("the parts were freed").map(|stored| stored.value);
    assert_eq!(stored, Some(value.clone()));
    assert_eq!(log.reopen().value(b"large"), Some(value));
}

#[test]
fn parts_that_died_after_all_are_noted_anew() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    let upload = log.upload(b"large", &[1; 1025]);
    log.flush();
    // The segment is sealed while nothing in it lives.
    log.engine.close_tail();
    log.settle();
    assert_eq!(log.engine.freeing.emptied.len(), 1);
    log.put_head(&upload, b"large");
    drop(upload);
    log.flush();
    log.put(b"large", b"small").unwrap();
    log.settle();
    assert!(log.engine.tails().any(|tail| tail.unflushed_bytes() > 0), "nothing is at risk");
    assert_eq!(log.engine.counts().segments_freed, 0, "freed before the small value is flushed");
    assert!(log.reopen().value(b"large").is_some());
}
