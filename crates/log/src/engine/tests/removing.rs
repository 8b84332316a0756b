//! Files of segments that are too many, and their numbers.

use super::{freeing::segments, *};
use crate::engine::{Iteration, preparing::Preparing};

/// A log with more than a dozen segments that are empty, held by an iteration.
fn with_many_empty() -> (Log, Iteration) {
    with_many_empty_in(1)
}

fn with_many_empty_in(directories: u16) -> (Log, Iteration) {
    let mut disk = MemoryDisk::default();
    let opened = open_in(&mut disk, directories, shape(), Mode::Safe, map_keys);
    let (engine, report) = opened.unwrap();
    let mut log = Log { disk, engine, report, now_ms: 0 };
    for key in 0..150u8 {
        log.put(&[key], &[key; 900]).unwrap();
        log.settle();
    }
    let iteration = log.engine.iterate(None).unwrap();
    for key in 0..150u8 {
        log.put(&[key], b"").unwrap();
        log.settle();
    }
    (log, iteration)
}

fn is_removal(action: &Action) -> Option<File> {
    match action {
        Action::Remove { file } => {
            Some(*file).filter(|file| matches!(file.name, FileName::Segment(_)))
        }
        _ => None,
    }
}

#[test]
fn a_number_is_free_when_the_end_of_its_file_is_durable() {
    let mut log = Log::new(Mode::Safe);
    for value in [&[1; 900][..], b""] {
        for key in 0..150u8 {
            log.put(&[key], value).unwrap();
            while log.step() {
                let Some(Preparing::Removing(files)) = &log.engine.preparing else { continue };
                let is_free = files.iter().any(|(id, _)| log.engine.removing.numbers.contains(id));
                assert!(!is_free, "the number of a file that may be back after a crash");
            }
        }
    }
    assert!(log.engine.counts().files_removed > 3);
}

#[test]
fn files_of_more_than_a_few_free_segments_are_removed_and_their_numbers_used_again() {
    let mut log = Log::new(Mode::Safe);
    for key in 0..150u8 {
        log.put(&[key], &[key; 900]).unwrap();
        log.settle();
    }
    let many = segments(&log);
    log.disk.done.clear();
    for key in 0..150u8 {
        log.put(&[key], b"").unwrap();
        log.settle();
    }
    let few = segments(&log);
    assert!(few < many, "{few} of {many} segments are left");
    assert!(log.engine.free.len() <= 5, "{} are free", log.engine.free.len());
    assert!(log.engine.counts().files_removed as usize >= many - few);
    assert_eq!(log.engine.manifest().rows.len(), few);
    let first = |words: &str| log.disk.done.iter().position(|done| done.starts_with(words));
    assert!(first("rename manifest") < first("remove 000"), "a file is gone and its row is not");
    let mut log = log.reopen();
    assert_eq!(log.report.damages, []);
    for key in 0..150u8 {
        log.put(&[key], &[key; 900]).unwrap();
        log.settle();
    }
    assert!(segments(&log) <= many + 2, "{} of {many}", segments(&log));
    let greatest = log.disk.files.keys().filter_map(|file| match file.name {
        FileName::Segment(id) => Some(id.0 as usize),
        _ => None,
    });
    assert!(greatest.max() < Some(many + 3), "numbers are used up");
}

#[test]
fn several_files_are_removed_after_one_manifest() {
    let (mut log, iteration) = with_many_empty();
    log.disk.done.clear();
    log.engine.end_iteration(iteration);
    log.settle();
    let count = |words: &str| log.disk.done.iter().filter(|done| done.starts_with(words)).count();
    let (removed, manifests) = (count("remove 000"), count("rename manifest"));
    assert!(removed > 4, "{removed} files were removed");
    assert!(manifests <= removed.div_ceil(4), "{manifests} manifests for {removed} files");
    assert_eq!(log.reopen().report.damages, []);
}

/// Whether each segment that has a row, and no other number below the last, is not to be used.
fn has_all_numbers(log: &Log) -> bool {
    let unused = (0..log.engine.next_segment).map(SegmentId);
    let unused = unused.filter(|id| log.engine.segment(*id).is_none());
    unused.eq(log.engine.removing.numbers.iter().copied())
}

fn rows(log: &Log) -> usize {
    log.engine.manifest().rows.len()
}

#[test]
fn a_file_that_cannot_be_removed_keeps_no_other_one_and_is_tried_again() {
    let (mut log, iteration) = with_many_empty();
    let mut stuck = None;
    log.disk.fault = Some(Box::new(move |action| {
        let file = is_removal(action)?;
        (*stuck.get_or_insert(file) == file).then(io)
    }));
    log.engine.end_iteration(iteration);
    log.settle();
    // Four at a time, and after a failure no more for a second.
    assert_eq!(log.engine.counts().files_removed, 0, "those behind it are tried as well");
    let left = (segments(&log), log.engine.space().unremoved);
    assert_eq!(left, (rows(&log) + 4, 4), "the files behind it are forgotten");
    for round in 1..=9 {
        log.now_ms = round * 1000;
        log.settle();
        assert_eq!(segments(&log), rows(&log) + 1, "in round {round}");
        assert!(log.engine.counts().files_removed >= 3, "the files behind it stay");
        assert_eq!(log.engine.space().unremoved, 1);
    }
    assert!(log.engine.counts().files_removed > 6, "{:?}", log.engine.counts());
    log.disk.fault = None;
    log.now_ms += 64_000;
    log.settle();
    assert_eq!((segments(&log), log.engine.space().unremoved), (rows(&log), 0));
    assert!(has_all_numbers(&log), "a number is lost");
    assert_eq!(log.reopen().report.damages, []);
}

#[test]
fn files_that_cannot_be_removed_are_no_more_than_are_removed_at_once() {
    let (mut log, iteration) = with_many_empty();
    log.disk.fault = Some(Box::new(|action| is_removal(action).map(|_| io())));
    log.engine.end_iteration(iteration);
    log.disk.done.clear();
    for round in 0..8 {
        log.now_ms = round * 1000;
        log.settle();
        assert_eq!(segments(&log), rows(&log) + 4, "in round {round}");
    }
    assert_eq!(log.engine.counts().files_removed, 0);
    // A device may take long for each: now, and after 1, 3 and 7 seconds.
    let tried = log.disk.done.iter().filter(|done| done.starts_with("remove 000")).count();
    assert_eq!(tried, 4, "{:?}", log.disk.done);
}

#[test]
fn a_directory_whose_files_cannot_be_removed_keeps_no_other_one_s() {
    let (mut log, iteration) = with_many_empty_in(2);
    let of_home = |file: File| file.directory == DirectoryId(0);
    log.disk.fail(move |action| is_removal(action).is_some_and(of_home));
    log.engine.end_iteration(iteration);
    for _ in 0..9 {
        log.now_ms += 64_000;
        log.settle();
    }
    let free = log.engine.free.iter().filter_map(|id| log.engine.segment(*id));
    let of_other = free.filter(|segment| segment.directory != DirectoryId(0)).count();
    assert!(of_other <= log.engine.wanted_free() + 1, "{of_other} are free");
    assert_eq!(log.engine.space().unremoved, 4);
    assert!(log.engine.counts().files_removed > 4, "{:?}", log.engine.counts());
}

#[test]
fn a_number_whose_file_may_be_back_is_not_used_before_a_flush_is_good() {
    let (mut log, iteration) = with_many_empty();
    let mut has_removed = false;
    log.disk.fail(move |action| {
        let is_flush = matches!(action, Action::FlushDirectory { .. });
        let fails = is_flush && has_removed;
        has_removed = !is_flush && (has_removed || is_removal(action).is_some());
        fails
    });
    log.engine.end_iteration(iteration);
    log.settle();
    assert_eq!(segments(&log), rows(&log), "nothing was removed");
    let numbers = &log.engine.removing.numbers;
    assert!(numbers.is_empty(), "used before that is durable: {numbers:?}");
    assert_eq!((log.engine.counts().files_removed, log.engine.space().unremoved), (0, 4));
    log.disk.fault = None;
    log.now_ms += 1000;
    log.settle();
    assert!(log.engine.counts().files_removed > 4);
    assert!(has_all_numbers(&log), "a number is lost");
}

/// What could not be made and not be removed again.
#[test]
fn what_cannot_be_cleared_away_uses_up_few_numbers_and_is_removed_when_it_can_be() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let before = (segments(&log), log.engine.next_segment);
    log.disk.fault = Some(Box::new(|action| match action {
        Action::Allocate { .. } => Some(Failure::Full),
        action => is_removal(action).map(|_| io()),
    }));
    let mut keys = 0u32;
    while log.put(&keys.to_le_bytes(), &[1; 900]).is_ok() {
        keys += 1;
        log.settle();
    }
    // Ten minutes.
    for _ in 0..6000 {
        log.now_ms += 100;
        log.settle();
    }
    let used = log.engine.next_segment - before.1;
    assert!((10..30).contains(&used), "{used} numbers are used up");
    assert_eq!(log.engine.space().unremoved, 4, "what is in the way is forgotten");
    let uncleared = segments(&log) - rows(&log);
    log.disk.fault =
        Some(Box::new(|action| matches!(action, Action::Allocate { .. }).then_some(Failure::Full)));
    log.now_ms += 64_000;
    log.settle();
    assert_eq!(segments(&log), rows(&log) + uncleared - 4, "what is remembered stays");
    assert_eq!(log.engine.removing.numbers.len(), 4, "their numbers are lost");
    // Room is looked for as often as before.
    log.disk.fault = None;
    log.now_ms += 200;
    log.settle();
    log.put(b"key", b"value").expect("there is room");
    let log = log.reopen();
    assert_eq!(log.report.damages, []);
    assert!(has_all_numbers(&log), "a number is lost");
}

/// A log of which files that have no row could not be removed.
fn with_unremoved() -> Log {
    let (mut log, iteration) = with_many_empty();
    log.disk.fault = Some(Box::new(|action| is_removal(action).map(|_| io())));
    log.engine.end_iteration(iteration);
    log.settle();
    assert_eq!(log.engine.space().unremoved, 4);
    log
}

#[test]
fn files_that_cannot_be_removed_do_not_keep_a_log_from_being_opened() {
    let log = with_unremoved();
    let (files, rows_before) = (segments(&log), rows(&log));
    let mut log = log.reopen();
    assert_eq!((log.report.damages.len(), log.report.foreign.len()), (0, 0));
    assert_eq!(log.report.unremoved.len(), 4, "{:?}", log.report);
    assert_eq!((log.engine.space().unremoved, segments(&log)), (4, files));
    // Their numbers are not used, and nothing meets them.
    for key in 0..400u16 {
        log.put(&key.to_le_bytes(), &[1; 900]).unwrap();
        log.settle();
    }
    assert!(rows(&log) > rows_before + 4);
    assert_eq!(segments(&log), rows(&log) + 4);
    log.disk.fault = None;
    log.now_ms += 64_000;
    log.settle();
    assert_eq!((log.engine.space().unremoved, segments(&log)), (0, rows(&log)));
    assert!(has_all_numbers(&log), "a number is lost");
    let log = log.reopen();
    assert!(log.report.unremoved.is_empty(), "{:?}", log.report);
}

/// Of what cannot be read nobody can tell whose it is.
#[test]
fn files_without_a_row_that_cannot_be_read_are_left_alone_and_named() {
    for is_header in [true, false] {
        let log = with_unremoved();
        let files = segments(&log);
        let mut disk = log.disk;
        disk.fail(move |action| match action {
            Action::Read { file, offset, .. } => {
                let is_of = (*offset < 1024) == is_header;
                is_of && matches!(file.name, FileName::Segment(id) if id.0 > 12)
            }
            _ => false,
        });
        let of = |log: &Log| log.report.foreign.len();
        let log = open_disk(disk, Mode::Safe).expect("it keeps the log from being opened");
        assert!(of(&log) > 0, "{:?}", log.report);
        assert!(segments(&log) < files && segments(&log) >= rows(&log) + of(&log));
        let mut disk = log.disk;
        disk.fault = None;
        let log = Log::of(disk, Mode::Safe);
        assert_eq!((of(&log), segments(&log)), (0, rows(&log)));
    }
}

#[test]
fn zeros_that_are_longer_than_a_segment_are_somebody_else_s() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let bytes = shape().segment_bytes as usize;
    log.disk.files.insert(segment(70), vec![0; bytes]);
    log.disk.files.insert(segment(71), vec![0; bytes + 1]);
    log.disk.done.clear();
    let log = log.reopen();
    assert_eq!(log.report.foreign, ["00000071.segment of directory 0"]);
    let files: Vec<_> = [70, 71].map(|id| log.disk.files.contains_key(&segment(id))).into();
    assert_eq!(files, [false, true]);
    let reads = log.disk.done.iter().filter(|done| *done == "read 00000071.segment").count();
    assert_eq!(reads, 2, "more is read than its header copies");
}

#[test]
fn a_file_whose_row_is_gone_is_removed_by_the_next_open() {
    let mut log = Log::new(Mode::Safe);
    for key in 0..150u8 {
        log.put(&[key], &[key; 900]).unwrap();
        log.settle();
    }
    log.disk.fault = Some(Box::new(|action| is_removal(action).map(|_| io())));
    for key in 0..150u8 {
        log.put(&[key], b"").unwrap();
        log.settle();
    }
    log.disk.fault = None;
    let rows = rows(&log);
    assert!(segments(&log) > rows, "no file was left");
    assert_eq!(log.engine.counts().files_removed, 0, "a file that is there counts as removed");
    let log = log.reopen();
    assert_eq!(log.report.damages, []);
    assert!(log.report.foreign.is_empty(), "{:?}", log.report.foreign);
    assert_eq!(segments(&log), rows);
}

/// The flush after the last removal may have failed: before a number is used again in another
/// directory, the file must be gone for good.
#[test]
fn an_open_makes_sure_of_what_was_removed_before() {
    use std::{cell::RefCell, collections::BTreeSet, rc::Rc};
    let mut disk = MemoryDisk::default();
    let open = |disk: &mut MemoryDisk| {
        open_in(disk, 3, shape(), Mode::Safe, map_keys).unwrap();
    };
    open(&mut disk);
    let flushed = Rc::new(RefCell::new(BTreeSet::new()));
    let noted = Rc::clone(&flushed);
    disk.fault = Some(Box::new(move |action| {
        if let Action::FlushDirectory { directory } = action {
            noted.borrow_mut().insert(directory.0);
        }
        None
    }));
    open(&mut disk);
    assert_eq!(*flushed.borrow(), BTreeSet::from([0, 1, 2]));
}
