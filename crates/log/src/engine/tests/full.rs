//! Full disks, and crashes there while something moves.

use super::{copies::mostly_dead, *};
use crate::engine::{
    room::{Needed, Purpose},
    space::{RESERVE, Taken},
};

/// Segments for which there is room.
const SEGMENTS: u32 = 12;

/// From now on no more segments can be made than there is room for.
pub(super) fn fill(log: &mut Log) {
    let files = log.disk.files.keys();
    let segments = files.filter(|file| matches!(file.name, FileName::Segment(_)));
    let mut left = SEGMENTS.saturating_sub(segments.count() as u32);
    log.disk.fault = Some(Box::new(move |action| match action {
        Action::Create { file } if matches!(file.name, FileName::Segment(_)) => {
            let is_full = left == 0;
            left = left.saturating_sub(1);
            is_full.then_some(Failure::Full)
        }
        _ => None,
    }));
    log.engine.settings.space_target_percent = 130;
}

/// Puts values of so many bytes until there is no room for more. Says how many keys there are.
fn put_until_full(log: &mut Log, bytes: usize) -> u32 {
    log.settle();
    let mut keys = 0u32;
    while log.put(&keys.to_le_bytes(), &vec![1; bytes]).is_ok() {
        keys += 1;
        log.settle();
    }
    keys
}

#[test]
fn removes_leave_what_the_next_move_needs() {
    let mut log = Log::compacting(Mode::Async);
    mostly_dead(&mut log);
    // Segments are made, and nothing moves.
    while let Some(plan) = log.engine.poll_space() {
        let outcome = log.disk.perform(plan.action);
        log.engine.complete(plan.token, outcome);
    }
    assert!(log.engine.make_copy_room(Needed::one(100)), "there is no room for copies");
    log.engine.free.truncate(RESERVE + 1);
    assert_eq!(log.engine.free.len(), RESERVE + 1);
    let taken = log.engine.take_segment(Purpose::Remove);
    // One for what is moved when the survivors' segment is full, and one after a crash.
    assert!(matches!(taken, Ok(Taken::Wait)), "removes have taken what the next move needs");
}

/// Removes keys, one durably before the next, with a look at the log after each action.
fn remove_all(log: &mut Log, keys: impl Iterator<Item = u32>, mut look: impl FnMut(&Log)) {
    for key in keys {
        let (mut mark, mut idle) = (None, 0);
        while mark.is_none_or(|mark| log.engine.durable(mark) == Settled::Pending) {
            if mark.is_none() {
                match log.engine.remove(&key.to_le_bytes(), log.now_ms) {
                    Ok(Removed::Done { mark: taken, .. }) => mark = Some(taken),
                    Ok(Removed::Absent { .. }) => break,
                    Ok(Removed::Wait) => {}
                    Err(error) => panic!("removes are refused: {error}"),
                }
            }
            idle = if log.step() { 0 } else { idle + 1 };
            assert!(idle < 10, "the remove waits for ever");
            look(log);
        }
    }
}

/// In `safe` each tombstone takes a block, and a fifth of each segment lives: when removes need
/// another segment the survivors' one may be nearly full.
#[test]
fn a_crash_at_any_step_of_removes_on_a_full_disk_leaves_enough_to_go_on_with() {
    let mut log = Log::new(Mode::Safe);
    fill(&mut log);
    let keys = put_until_full(&mut log, 200);
    let removed = (0..keys).filter(|key| key % 5 != 0);
    let mut crashes = 0;
    remove_all(&mut log, removed.clone(), |log| {
        crashes += 1;
        let files = log.disk.files.clone();
        let mut log = Log::of(MemoryDisk { files, ..MemoryDisk::default() }, Mode::Safe);
        fill(&mut log);
        remove_all(&mut log, removed.clone(), |_| {});
        log.settle();
        log.put(b"key", &[2; 200]).expect("nothing can be moved any more");
        for key in (0..keys).filter(|key| key % 5 == 0) {
            assert_eq!(log.value(&key.to_le_bytes()), Some(vec![1; 200]));
        }
    });
    assert!(crashes > 500, "there were {crashes}");
}

#[test]
fn a_log_that_kept_nothing_for_moves_takes_removes_on_a_full_disk() {
    let mut log = Log::new(Mode::Safe);
    fill(&mut log);
    log.engine.settings.space_target_percent = 0;
    let keys = put_until_full(&mut log, 440);
    assert_eq!(log.engine.free.len(), RESERVE);
    log.engine.settings.space_target_percent = 130;
    log.engine.compaction.look_again();
    log.settle();
    // What somebody reads may be moved when he ends: that has to be left room for.
    let iteration = log.engine.iterate(None).unwrap();
    let refused = (0..100).find_map(|_| match log.engine.remove(&[0; 4], log.now_ms) {
        Ok(Removed::Wait) => {
            log.step();
            None
        }
        removed => Some(removed),
    });
    assert!(matches!(refused, Some(Err(Error::NoRoom))), "{refused:?}");
    log.engine.end_iteration(iteration);
    // One of each segment: too little is won by moving any.
    remove_all(&mut log, (0..keys).step_by(29), |_| {});
    assert_eq!(log.engine.free.len(), RESERVE - 1);
}

/// Removes take what is kept while a reader keeps an emptied segment: it replaces that at his end.
#[test]
fn a_full_log_goes_on_with_what_a_reader_has_kept() {
    let mut log = Log::new(Mode::Safe);
    fill(&mut log);
    let keys = put_until_full(&mut log, 440);
    let index = log.engine.index();
    let segment_of = |key: u32| {
        let hash = index.hash(&key.to_le_bytes()).unwrap();
        log.engine.place(index.get(hash).unwrap().position).0
    };
    let kept = segment_of(0);
    let (there, others): (Vec<u32>, Vec<u32>) = (0..keys).partition(|key| segment_of(*key) == kept);
    let generation = |log: &Log| log.engine.segment(kept).map(|it| it.generation);
    let before = generation(&log);
    let pin = log.engine.pin(kept).expect("it is there");
    remove_all(&mut log, there.into_iter(), |_| {});
    remove_all(&mut log, others.into_iter().step_by(29), |_| {});
    log.settle();
    assert_eq!(generation(&log), before, "it is freed under its reader");
    drop(pin);
    log.settle();
    assert!(generation(&log) > before, "nothing is freed any more");
    log.put(b"key", &[2; 440]).expect("there is room again");
}

#[test]
fn a_crash_in_mid_move_on_a_full_disk_leaves_a_segment_to_go_on_with() {
    for steps in 0..40 {
        let mut log = Log::new(Mode::Safe);
        fill(&mut log);
        let keys = put_until_full(&mut log, 440);
        remove_all(&mut log, (0..keys).step_by(2), |_| {});
        for _ in 0..steps * 5 {
            log.step();
        }
        let mut log = log.reopen();
        fill(&mut log);
        for key in 0..keys / 4 {
            let put = log.put(&(keys + key).to_le_bytes(), &[2; 440]);
            put.expect("nothing can be moved any more");
            log.settle();
        }
        for key in (0..keys).filter(|key| key % 2 == 1) {
            assert_eq!(log.value(&key.to_le_bytes()), Some(vec![1; 440]));
        }
    }
}

/// A crash between two survivors' segments may leave a single one.
#[test]
fn a_single_segment_is_enough_to_go_on_with_on_a_full_disk() {
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
    let mut log = log.reopen();
    fill(&mut log);
    log.engine.free.truncate(1);
    // Something to be moved is looked for before it is known that no segment can be made.
    if let Some(plan) = log.engine.poll_moving() {
        let outcome = log.disk.perform(plan.action);
        log.engine.complete(plan.token, outcome);
    }
    remove_all(&mut log, (0..keys).step_by(2), |_| {});
    log.put(b"key", &[3; 440]).expect("nothing can be moved any more");
    for key in (1..keys).step_by(2) {
        assert_eq!(log.value(&key.to_le_bytes()), Some(vec![2; 440]));
    }
}

/// A full disk with half of the oldest segments dead, and one empty segment. What was removed is in
/// the open segment, which takes no other one any more.
fn with_one_left() -> Log {
    let mut log = Log::new(Mode::Safe);
    fill(&mut log);
    let keys = put_until_full(&mut log, 440);
    log.engine.settings.space_target_percent = 0;
    log.engine.free.truncate(RESERVE);
    for key in (0..keys).step_by(2) {
        assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
        log.settle();
        let tail = log.engine.open.as_ref().unwrap();
        if !tail.has_room(Needed::one(64)) {
            break;
        }
    }
    log.engine.settings.space_target_percent = 130;
    assert_eq!((log.engine.free.len(), log.engine.attempts.are_refused()), (1, true));
    log
}

/// Nothing can be moved before it is: what it takes to write the removes again is left.
#[test]
fn a_remove_waits_for_those_before_it_to_be_sealed() {
    let mut log = with_one_left();
    for _ in 0..100 {
        assert!(!log.engine.finds_victim(), "something is moved");
    }
    assert!(!log.engine.is_moving(), "something is looked for");
    let removed = log.engine.remove(&1u32.to_le_bytes(), log.now_ms);
    assert!(matches!(removed, Ok(Removed::Wait)), "refused too soon: {removed:?}");
    assert!(matches!(log.remove(&1u32.to_le_bytes()), Removed::Done { .. }));
    assert!(log.engine.counts().segments_moved > 0, "{:?}", log.engine.counts());
}

/// It serves moves only when nothing but copies could have to be written again.
#[test]
fn copies_leave_the_last_segment_to_removes_that_may_fail() {
    let takes = |log: &mut Log| log.engine.make_copy_room(Needed::one(100));
    let mut log = with_one_left();
    assert!(!takes(&mut log), "taken from removes that are to come");
    // Removes that are full, and not flushed.
    let mut log = with_one_left();
    let tail = log.engine.open.as_mut().unwrap();
    let (buffer, segment) = (log.engine.buffers.pop().unwrap(), tail.segment);
    tail.fill(buffer, log.engine.next_ticket, 0);
    log.engine.next_ticket += 1;
    assert!(log.engine.close_tail());
    assert!(log.engine.own_tails().any(|tail| !tail.is_flushed()));
    assert!(!takes(&mut log), "taken from removes that are not flushed");
    // Their flush has failed.
    log.engine.fail_tail(segment);
    assert!(!takes(&mut log), "taken from removes that are to be written again");
    let mut log = with_one_left();
    assert!(log.engine.close_tail());
    assert!(log.engine.own_tails().all(|tail| tail.is_flushed()));
    assert!(takes(&mut log), "there is nothing to be written again");
}

#[test]
fn a_log_that_reaches_too_few_segments_has_no_space_target() {
    let mut disk = MemoryDisk::default();
    let mut open = |segments: u64, space_target_percent| {
        let opening = Opening {
            directories: 1,
            new: New { log: LogId(5), shape: shape() },
            settings: Settings { space_target_percent, ..settings(Mode::Safe) },
            now_ms: 0,
            progress: &mut |_| {},
        };
        let make = |_: &Manifest| Ok(MapKeys::new(segments * 1024));
        let opened = Engine::<MapKeys>::open(&mut disk, opening, make).map(|_| ());
        (opened, std::mem::take(&mut disk.done))
    };
    assert!(open(5, 0).0.is_ok() && open(6, 130).0.is_ok());
    let (opened, done) = open(5, 130);
    assert!(matches!(opened, Err(Error::Settings { .. })), "no put has any room");
    assert!(
        done.iter().all(|done| done.starts_with("read") || done.starts_with("list")),
        "{done:?}"
    );
}
