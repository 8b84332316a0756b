//! Making all that is stored dead at once.

use super::*;
use crate::engine::{Wipe, preparing::Preparing, space::Role};

/// Something of each kind: a value that is sealed, one that is not, a removed key, a large value.
fn filled(mode: Mode) -> Log {
    let mut log = Log::new(mode);
    log.put(b"sealed", &[1; 300]).unwrap();
    log.put(b"gone", &[2; 300]).unwrap();
    log.put_large(b"large", &[3; 5000]);
    log.seal();
    log.put(b"open", &[4; 300]).unwrap();
    log.remove(b"gone");
    log
}

const KEYS: [&[u8]; 4] = [b"sealed", b"gone", b"large", b"open"];

/// How many of the keys are there.
fn there(log: &mut Log) -> usize {
    KEYS.iter().filter(|key| log.value(key).is_some()).count()
}

fn wipe(log: &mut Log) {
    let wipe = log.engine.wipe().unwrap();
    while log.engine.wiped(wipe).unwrap() == Settled::Pending {
        assert!(log.step(), "the wipe waits for ever");
    }
}

#[test]
fn a_wipe_makes_all_dead_and_what_comes_after_it_lives() {
    for mode in [Mode::Safe, Mode::Async] {
        let mut log = filled(mode);
        assert_eq!(there(&mut log), 3);
        wipe(&mut log);
        assert_eq!((there(&mut log), log.engine.wipes()), (0, 1));
        log.put(b"open", b"new").unwrap();
        log.put_large(b"large", &[5; 3000]);
        log.flush();
        for _ in 0..2 {
            assert_eq!(there(&mut log), 2);
            assert_eq!(log.value(b"open"), Some(b"new".to_vec()));
            assert_eq!(log.value(b"large"), Some(vec![5; 3000]));
            assert_eq!(log.report.damages, []);
            log = log.reopen();
        }
    }
}

#[test]
fn what_was_wiped_is_freed_at_once_and_after_an_open() {
    let mut log = filled(Mode::Safe);
    log.seal();
    let copy = MemoryDisk { files: log.disk.files.clone(), ..MemoryDisk::default() };
    wipe(&mut log);
    log.settle();
    let sealed = |log: &Log| {
        let segments = log.engine.segments.iter().flatten();
        segments.filter(|segment| segment.role == Role::Sealed).count()
    };
    assert_eq!(sealed(&log), 0, "nothing lives in any segment");
    // The same when the process ends right after the wipe.
    let mut log = Log::of(copy, Mode::Safe);
    assert!(sealed(&log) > 0);
    wipe(&mut log);
    let mut log = log.reopen();
    log.settle();
    assert_eq!(sealed(&log), 0);
}

#[test]
fn a_log_is_wiped_until_something_is_stored() {
    let mut log = filled(Mode::Safe);
    assert!(!log.engine.is_wiped());
    let store: [fn(&mut Log); 4] = [
        |log| assert!(log.put(b"open", b"new").is_ok()),
        |log| assert!(log.engine.begin_large(b"large", 5000).is_ok()),
        |log| {
            let batch = [Change::Put(Put { key: b"open", value: b"new", ..Put::default() })];
            assert!(matches!(log.engine.write_batch(&batch, 0), Ok(Batch::Done { .. })));
        },
        |log| *log = Log::of(std::mem::take(&mut log.disk), Mode::Safe),
    ];
    for (number, store) in store.into_iter().enumerate() {
        log.engine.wipe().unwrap();
        assert!(!log.engine.is_wiped(), "it is asked for");
        log.settle();
        assert!(log.engine.is_wiped());
        assert_eq!((there(&mut log), log.remove(b"open")), (0, Removed::Absent { wait: None }));
        assert!(log.engine.is_wiped());
        store(&mut log);
        assert!(!log.engine.is_wiped(), "what was stored is not seen, {number}");
        log.settle();
    }
}

#[test]
fn of_what_was_wiped_the_engine_keeps_nothing() {
    let mut log = filled(Mode::Safe);
    assert_eq!(log.engine.larges.len(), 1);
    wipe(&mut log);
    // Else parts would die once more, in segments that have others by then.
    assert!(log.engine.larges.is_empty(), "parts are known of what was wiped");
    assert!(log.engine.take_wiped().is_some());
    assert!(log.engine.take_wiped().is_none());
}

#[test]
fn a_head_that_could_not_be_read_keeps_no_segment_from_being_freed_when_it_was_wiped() {
    let mut log = filled(Mode::Safe);
    log.seal();
    let head = log.engine.larges.keys().next().copied().unwrap();
    let (id, offset) = log.engine.place(head);
    log.disk.files.get_mut(&segment(id.0)).unwrap()[offset as usize + 50] ^= 1;
    let mut log = log.reopen();
    assert_eq!(log.report.damages.len(), 1);
    let kept = |log: &Log| {
        let segments = log.engine.segments.iter().flatten();
        segments.filter(|segment| !segment.may_be_freed).count()
    };
    assert!(kept(&log) > 0);
    wipe(&mut log);
    log.settle();
    assert_eq!(kept(&log), 0, "what was wiped keeps segments");
}

#[test]
fn an_end_at_any_moment_leaves_all_or_nothing() {
    let (mut all, mut none) = (0, 0);
    for steps in 0.. {
        let mut log = filled(Mode::Safe);
        log.settle();
        let wipe = log.engine.wipe().unwrap();
        let is_done = (0..steps).any(|_| {
            log.step();
            log.engine.wiped(wipe) == Ok(Settled::Done)
        });
        let shown = there(&mut log);
        assert_eq!(shown, if is_done { 0 } else { 3 }, "after {steps} steps");
        let mut log = log.reopen();
        match there(&mut log) {
            0 => none += 1,
            3 => all += 1,
            some => panic!("{some} of three after {steps} steps"),
        }
        if is_done {
            assert_eq!(there(&mut log), 0, "it was answered");
            break;
        }
    }
    assert!(all >= 4 && none >= 2, "{all} before the manifest was there, {none} after that");
}

#[test]
fn nothing_is_put_removed_or_moved_while_the_manifest_is_written() {
    let mut log = filled(Mode::Safe);
    log.settle();
    log.engine.wipe().unwrap();
    while !matches!(log.engine.preparing, Some(Preparing::Wiping(_))) {
        assert!(log.step());
    }
    let next = log.engine.next_sequence;
    let put = Put { key: b"new", ..Put::default() };
    let put_now = log.engine.put(&put, 0).unwrap();
    assert_eq!(put_now, Wrote::Wait, "it has got a sequence");
    assert_eq!(log.engine.remove(b"open", 0).unwrap(), Removed::Wait);
    let batch = [Change::Put(put)];
    assert!(matches!(log.engine.write_batch(&batch, 0).unwrap(), Batch::Wait));
    assert!(!log.engine.make_copy_room(super::super::room::Needed::one(64)));
    assert_eq!(log.engine.next_sequence, next);
    assert!(log.value(b"open").is_some(), "nothing has happened yet");
    log.settle();
    log.put(b"new", b"value").unwrap();
    assert_eq!(there(&mut log), 0);
}

#[test]
fn what_is_put_when_a_wipe_is_asked_for_waits_though_it_cannot_be_begun_yet() {
    let mut log = filled(Mode::Safe);
    log.settle();
    // One thing is prepared at a time: now it is a segment.
    for _ in 0..200 {
        if log.engine.preparing.is_some() {
            break;
        }
        let put = Put { key: b"sealed", value: &[1; 1000], ..Put::default() };
        log.engine.put(&put, 0).unwrap();
        log.step();
    }
    assert!(log.engine.preparing.is_some(), "nothing is prepared");
    let again = Put { key: b"again", value: &[1; 10], ..Put::default() };
    while log.engine.put(&again, 0).unwrap() == Wrote::Wait {
        assert!(log.step(), "the put waits for ever");
    }
    let wipe = log.engine.wipe().unwrap();
    let put = Put { key: b"new", value: b"late", ..Put::default() };
    // What is in memory is about to be dead.
    let mut is_put = log.engine.put(&again, 0).unwrap() != Wrote::Wait;
    while log.engine.wiped(wipe).unwrap() == Settled::Pending {
        is_put |= log.engine.put(&put, 0).unwrap() != Wrote::Wait;
        is_put |= log.engine.remove(b"open", 0).unwrap() != Removed::Wait;
        assert!(log.step(), "the wipe waits for ever");
    }
    assert!(!is_put, "it was answered behind the wipe, and is gone with it");
    log.put(b"new", b"late").unwrap();
    log.flush();
    for _ in 0..2 {
        assert_eq!((there(&mut log), log.value(b"new")), (0, Some(b"late".to_vec())));
        log = log.reopen();
    }
}

/// A flush of something that was put fails while the manifest is written.
fn with_failed_flush() -> (Log, Wipe) {
    let mut log = filled(Mode::Safe);
    log.settle();
    log.put(b"open", b"late").unwrap();
    let flush = loop {
        let plan = log.engine.poll(0).expect("it is written and flushed");
        if matches!(plan.action, Action::Flush { .. }) {
            break plan.token;
        }
        let outcome = log.disk.perform(plan.action);
        log.engine.complete(plan.token, outcome);
    };
    let wipe = log.engine.wipe().unwrap();
    while !matches!(log.engine.preparing, Some(Preparing::Wiping(_))) {
        assert!(log.step());
    }
    log.engine.complete(flush, Outcome::Failed(io(), None));
    (log, wipe)
}

#[test]
fn what_a_failed_flush_has_left_is_not_there_alone_when_nobody_knows_of_the_wipe() {
    let (mut log, wipe) = with_failed_flush();
    log.disk.fail(|action| matches!(action, Action::FlushDirectory { .. }));
    log.settle();
    assert!(matches!(log.engine.wiped(wipe), Err(Error::WipeUnsure(_))));
    let closed = log.engine.close(&mut log.disk, 0);
    assert!(closed.is_err(), "what a failed flush has left is written again");
    // The manifest is there after all.
    let mut log =
        Log::of(MemoryDisk { files: log.disk.files, ..MemoryDisk::default() }, Mode::Safe);
    assert_eq!(there(&mut log), 0, "the wipe is there in part");
}

#[test]
fn what_a_failed_flush_has_left_is_not_written_again_across_a_wipe() {
    let (mut log, wipe) = with_failed_flush();
    log.settle();
    assert_eq!(log.engine.wiped(wipe), Ok(Settled::Done));
    assert!(log.engine.stranded.is_empty(), "it waits for ever");
    for _ in 0..2 {
        assert_eq!(there(&mut log), 0, "what was wiped is back");
        log = log.reopen();
    }
}

#[test]
fn who_asks_while_one_is_under_way_is_served_by_it_and_who_asks_before_waits() {
    let mut log = filled(Mode::Safe);
    log.settle();
    let first = log.engine.wipe().unwrap();
    log.step();
    let second = log.engine.wipe().unwrap();
    log.settle();
    assert_eq!(log.engine.wiped(first), Ok(Settled::Done));
    assert_eq!((log.engine.wiped(second), log.engine.wipes()), (Ok(Settled::Done), 1));
    let third = log.engine.wipe().unwrap();
    assert_eq!(log.engine.wiped(third), Ok(Settled::Pending));
}

#[test]
fn a_wipe_that_fails_is_told_and_leaves_all() {
    // Of manifest.new: removed, created, written, flushed; renamed, and the directory flushed.
    for failing in 1..6 {
        let mut log = filled(Mode::Safe);
        log.flush();
        let wipe = log.engine.wipe().unwrap();
        let mut step = 0;
        log.disk.fail(move |_| {
            step += 1;
            step == failing + 1
        });
        let told = loop {
            match log.engine.wiped(wipe) {
                Ok(Settled::Pending) => assert!(log.step(), "nothing is told of the failure"),
                other => break other,
            }
        };
        let is_unsure = failing >= 4;
        match told {
            Err(Error::WipeUnsure(_)) => assert!(is_unsure),
            Err(Error::Disk { .. }) => assert!(!is_unsure, "nobody knows whether it is wiped"),
            other => panic!("{other:?}"),
        }
        assert_eq!(there(&mut log), 3);
        assert_eq!(log.engine.is_read_only(), is_unsure, "step {failing}");
        if is_unsure {
            assert_eq!(log.engine.wipe(), Err(Error::ReadOnly));
            continue;
        }
        log.put(b"open", b"new").unwrap();
        super::wiping::wipe(&mut log);
        assert_eq!(there(&mut log), 0);
    }
}

#[test]
fn an_upload_that_began_before_a_wipe_is_there_after_it() {
    let mut log = filled(Mode::Safe);
    let upload = log.upload(b"late", &[7; 3000]);
    log.flush();
    wipe(&mut log);
    log.settle();
    log.put_head(&upload, b"late");
    drop(upload);
    log.seal();
    assert_eq!(log.value(b"late"), Some(vec![7; 3000]));
    let mut log = log.reopen();
    log.settle();
    assert_eq!((log.value(b"late"), there(&mut log)), (Some(vec![7; 3000]), 0));
}

#[test]
fn a_manifest_that_was_put_back_does_not_bring_back_what_was_wiped_and_freed_around() {
    let mut log = filled(Mode::Safe);
    log.settle();
    let manifest = log.disk.manifest().clone();
    let wiped = Manifest::decode(log.disk.manifest()).unwrap().dead_below;
    assert_eq!(wiped, 0);
    wipe(&mut log);
    // A segment is begun, of which the header says what was dead then.
    log.settle();
    *log.disk.manifest() = manifest;
    let mut log = log.reopen();
    assert_eq!(there(&mut log), 0, "what was wiped is back");
    assert_ne!(log.engine.manifest().dead_below, 0);
    log.put(b"open", b"new").unwrap();
    log.flush();
    let mut log = log.reopen();
    assert_eq!((there(&mut log), log.value(b"open")), (1, Some(b"new".to_vec())));
}
