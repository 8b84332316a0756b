//! Full disks, and crashes there while something moves.

use super::{copies::mostly_dead, *};
use crate::engine::{
    room::{Needed, Purpose},
    space::{RESERVE, Taken},
};

/// Segments for which there is room.
const SEGMENTS: u32 = 12;

/// From now on no more segments can be made than there is room for.
fn fill(log: &mut Log) {
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
