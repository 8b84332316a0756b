//! A log that drops its oldest segment.

use super::*;
use crate::{
    engine::{Ring, space::Role},
    index::{IndexLimits, Keyed},
};

/// Segments that a ring of these tests has at most.
const SEGMENTS: u64 = 8;

fn ring(mode: Mode, recovers: bool) -> Log {
    of(Log::new(mode), recovers)
}

fn of<K: Keys>(mut log: Log<K>, recovers: bool) -> Log<K> {
    let bytes_max = SEGMENTS * log.engine.manifest.shape.segment_bytes;
    log.engine.settings.ring = Some(Ring { bytes_max, recovers });
    log.engine.settings.space_target_percent = 130;
    log.settle();
    log
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Puts many, and tells which of them are there.
fn fill(log: &mut Log, numbers: std::ops::Range<u32>) -> Vec<u32> {
    for number in numbers.clone() {
        log.put(&key(number), &[number as u8; 900]).unwrap();
        log.settle();
    }
    numbers.filter(|number| log.value(&key(*number)).is_some()).collect()
}

#[test]
fn a_ring_drops_its_oldest_segments_and_keeps_the_newest_records() {
    for (mode, recovers) in [(Mode::Safe, true), (Mode::Async, true), (Mode::Async, false)] {
        let mut log = ring(mode, recovers);
        let there = fill(&mut log, 0..300);
        let first = there[0];
        assert!(first > 200, "nothing was dropped");
        assert!(there.len() > 10, "little is kept");
        assert_eq!(there, (first..300).collect::<Vec<_>>(), "not the oldest were dropped");
        let kept = there[there.len() / 2];
        for number in there {
            assert_eq!(log.value(&key(number)), Some(vec![number as u8; 900]));
        }
        let segments = log.engine.manifest.rows.len() as u64;
        assert!(segments <= SEGMENTS, "{segments} segments");
        let counts = log.engine.counts();
        assert_eq!(counts.values_dropped, u64::from(first));
        assert_eq!((counts.records_moved, counts.collisions), (0, 0));
        let mut log = of(log.reopen(), recovers);
        assert_eq!(log.report.damages, []);
        assert_eq!(log.value(&key(0)), None);
        assert_eq!(log.value(&key(kept)), Some(vec![kept as u8; 900]));
        assert!(fill(&mut log, 300..600).len() > 10);
    }
}

#[test]
fn a_ring_that_is_made_smaller_gives_segments_back() {
    let mut log = ring(Mode::Async, true);
    fill(&mut log, 0..200);
    let bytes_max = (SEGMENTS - 2) * log.engine.manifest.shape.segment_bytes;
    log.engine.settings.ring = Some(Ring { bytes_max, recovers: true });
    let there = fill(&mut log, 200..400);
    assert!(there.len() > 5 && there.last() == Some(&399));
    // One more is kept than is wanted.
    let segments = log.engine.manifest.rows.len() as u64;
    assert!(segments < SEGMENTS, "{segments} segments");
}

#[test]
fn what_was_dropped_does_not_come_back_before_its_segment_is_freed() {
    let mut log = ring(Mode::Safe, true);
    let mut number = 0;
    while !log.engine.is_dropping() {
        log.put(&key(number), &[number as u8; 900]).unwrap();
        number += 1;
        while !log.engine.is_dropping() && log.step() {}
        assert!(number < 1000, "nothing is dropped");
    }
    let dropped = (0..number).find(|number| !log.engine.has(&key(*number))).unwrap();
    assert_eq!(log.engine.knows(&key(dropped)), Some(false));
    let removed = log.engine.remove(&key(dropped), 0).unwrap();
    assert!(matches!(removed, Removed::Done { .. }), "no tombstone: {removed:?}");
    // Its flush, and not yet the header of the segment.
    while log.engine.own_tails().any(|tail| tail.first_unflushed().is_some()) {
        let plan = log.engine.poll_records(0).expect("a write or a flush");
        let outcome = log.disk.perform(plan.action);
        log.engine.complete(plan.token, outcome);
    }
    let mut log = of(log.reopen(), true);
    assert_eq!(log.value(&key(dropped)), None, "what was dropped and removed came back");
}

#[test]
fn a_key_is_dropped_without_a_record_also_when_nothing_can_be_written() {
    let mut log = ring(Mode::Async, false);
    fill(&mut log, 0..3);
    let records = log.engine.counts().records;
    assert!(log.engine.drop_key(&key(1)).unwrap());
    assert!(!log.engine.drop_key(&key(1)).unwrap());
    assert_eq!((log.value(&key(1)), log.engine.counts().records), (None, records));
    assert!(log.engine.has(&key(0)) && !log.engine.has(&key(1)));
    assert_eq!(log.engine.knows(&key(1)), None);
}

/// Puts until something is dropped that the disk still has, or so many were. Says how many.
fn put_until_dropping(log: &mut Log, most: u32) -> u32 {
    for number in 0..most {
        log.put(&key(number), &[number as u8; 900]).unwrap();
        while !log.engine.is_dropping() && log.step() {}
        if log.engine.is_dropping() {
            return number + 1;
        }
    }
    most
}

#[test]
fn of_a_segment_whose_footer_cannot_be_read_nothing_is_dropped() {
    let mut log = ring(Mode::Async, true);
    // More than are read at once have to be in a footer.
    let put = |log: &mut Log, number: u32| {
        let put = Put { key: &key(number), value: &[1; 20], ..Put::default() };
        for _ in 0..100 {
            match log.engine.put(&put, log.now_ms) {
                Ok(Wrote::Wait) if !log.step() => log.now_ms += 200,
                Ok(Wrote::Wait) => {}
                other => return other.is_ok(),
            }
        }
        false
    };
    let oldest = File { directory: DirectoryId(0), name: FileName::Segment(SegmentId(0)) };
    let from = shape().segment_bytes - 3 * u64::from(shape().block_bytes);
    log.disk.fail(move |action| {
        matches!(action, Action::Read { file, offset, .. } if *file == oldest && *offset >= from
            && *offset < from + 2 * 512)
    });
    let taken = (0..6000).take_while(|number| put(&mut log, *number)).count() as u32;
    log.settle();
    assert!(taken < 6000, "it was dropped");
    assert!(!log.engine.is_dropping(), "something was dropped, and stays on the disk");
    assert!((0..50).all(|number| log.engine.has(&key(number))));
    assert_eq!(log.engine.knows(&key(taken + 1)), None, "every key gets a tombstone");
}

/// The sealed segment that has the oldest value.
fn oldest<K: Keys>(log: &Log<K>) -> File {
    let sealed = log.engine.segments.iter().zip(0..).filter_map(|(it, id)| {
        let it = it.as_ref().filter(|it| it.role == Role::Sealed)?;
        Some((it.smallest_value, segment(id)))
    });
    sealed.min().unwrap().1
}

#[test]
fn a_ring_goes_on_behind_a_footer_that_a_crash_has_torn() {
    let mut log = ring(Mode::Safe, true);
    fill(&mut log, 0..300);
    let oldest = oldest(&log);
    let footer = footer_offset(&log.disk, oldest);
    log.disk.files.get_mut(&oldest).unwrap()[footer + 100..footer + 512].fill(0);
    let mut log = of(log.reopen(), true);
    assert_eq!(log.report.damages, []);
    assert!(fill(&mut log, 300..600).len() > 10);
}

#[test]
fn a_stop_in_order_ends_what_has_held_up_a_ring() {
    let limits = IndexLimits { kmax_limit: 0, entries_max: 1000 };
    let taken = |log: &mut Log<Keyed>, numbers: std::ops::Range<u32>| {
        let mut put = |number: u32| {
            let put = log.put(&key(number), &[1; 900]);
            log.settle();
            put.is_ok()
        };
        numbers.take_while(|number| put(*number)).count()
    };
    for is_written in [true, false] {
        let log = open_with(MemoryDisk::default(), shape(), Mode::Safe, limits).unwrap();
        let mut log = of(log, true);
        if !is_written {
            let (trailer, mut first) = (shape().segment_bytes - 512, None);
            log.disk.fail(move |action| match action {
                Action::Write { file, offset, .. } if *offset == trailer => {
                    *first.get_or_insert(*file) == *file
                }
                _ => false,
            });
        }
        assert_eq!(taken(&mut log, 0..40), 40);
        log.disk.fault = None;
        if is_written {
            let oldest = oldest(&log);
            let at = footer_offset(&log.disk, oldest) + 40;
            log.disk.files.get_mut(&oldest).unwrap()[at] ^= 1;
        }
        assert!(taken(&mut log, 40..1000) < 900, "the ring was not held up");
        log.settle();
        log.engine.close(&mut log.disk, 0).unwrap();
        let mut log = of(open_with(log.disk, shape(), Mode::Safe, limits).unwrap(), true);
        assert_eq!(log.report.damages, []);
        assert_eq!(taken(&mut log, 1000..1300), 300, "it is held up for ever");
    }
}

#[test]
fn a_header_that_cannot_be_written_is_tried_again() {
    let mut log = ring(Mode::Safe, true);
    let put = put_until_dropping(&mut log, 1000);
    assert!(put < 1000, "nothing is dropped");
    log.disk.fail(|action| matches!(action, Action::Write { offset: 0 | 512, .. }));
    log.settle();
    let mut segments = log.engine.segments.iter().flatten();
    assert!(segments.any(|it| it.role == Role::Unlisted), "it was not tried");
    assert!(log.engine.is_dropping(), "it could be written");
    assert!(log.engine.wake_at_ms().is_some(), "nobody looks");
    log.disk.fail(|_| false);
    log.settle();
    assert!(log.engine.is_dropping(), "it is tried all the time");
    for _ in 0..4 {
        log.now_ms += 600;
        log.settle();
    }
    assert!(!log.engine.is_dropping(), "every key gets a tombstone for ever");
    assert!(fill(&mut log, 1000..1200).len() > 10);
}

#[test]
fn a_log_of_one_kind_is_not_opened_as_another() {
    let of = |ring: Option<bool>| {
        let bytes_max = SEGMENTS * shape().segment_bytes;
        let ring = ring.map(|recovers| Ring { bytes_max, recovers });
        Settings { ring, space_target_percent: 130, ..settings(Mode::Async) }
    };
    let open = |disk: &mut MemoryDisk, settings| {
        let new = New { log: LogId(5), shape: shape() };
        let opening = Opening { directories: 1, new, settings, now_ms: 0, progress: &mut |_| {} };
        Engine::open(disk, opening, map_keys).map(|_| ())
    };
    let inspect = |disk: &mut MemoryDisk, settings| {
        let new = New { log: LogId(5), shape: shape() };
        let opening = Opening { directories: 1, new, settings, now_ms: 0, progress: &mut |_| {} };
        Engine::inspect(disk, opening, map_keys).map(|_| ())
    };
    let kinds = [None, Some(true), Some(false)];
    for (made, opened) in kinds.iter().flat_map(|made| kinds.map(|opened| (*made, opened))) {
        let mut disk = MemoryDisk::default();
        assert_eq!(open(&mut disk, of(made)), Ok(()));
        let error = open(&mut disk, of(opened)).err();
        let (found, wanted) = (of(made).purpose(), of(opened).purpose());
        let refused = (made != opened).then_some(Error::Purpose { found, wanted });
        assert_eq!(error, refused, "made as {made:?}, opened as {opened:?}");
        assert_eq!(inspect(&mut disk, of(opened)), Ok(()), "not looked into");
    }
}

#[test]
fn while_something_is_dropped_every_key_needs_a_tombstone_that_can_be_written() {
    let mut log = ring(Mode::Safe, true);
    assert!(put_until_dropping(&mut log, 1000) < 1000, "nothing is dropped");
    assert_eq!(log.engine.knows(&key(5000)), Some(false));
    log.disk.fail(|action| matches!(action, Action::Flush { .. }));
    for number in 5000..5010 {
        let put = Put { key: &key(number), value: &[1; 900], ..Put::default() };
        let _ = log.engine.put(&put, log.now_ms);
        log.settle();
    }
    assert!(log.engine.is_read_only() && log.engine.is_dropping());
    assert_eq!(log.engine.remove(&key(6000), 0), Err(Error::ReadOnly));
}

#[test]
fn one_header_that_cannot_be_written_does_not_stop_the_ring() {
    for recovers in [false, true] {
        let mut log = ring(Mode::Safe, recovers);
        let mut first = None;
        // A segment that is made gets two headers at once.
        log.disk.fail(move |action| match action {
            Action::Write { file, offset: 0 | 512, bytes: 512, .. } => {
                *first.get_or_insert(*file) == *file
            }
            _ => false,
        });
        let put_many = |log: &mut Log, from: u32| {
            for number in from..from + 1000 {
                let put = Put { key: &key(number), value: &[1; 900], ..Put::default() };
                let _ = log.engine.put(&put, log.now_ms);
                log.settle();
                log.now_ms += 20;
            }
            log.engine.counts().segments_freed
        };
        let freed = put_many(&mut log, 0);
        let then = put_many(&mut log, 1000);
        // Nothing goes before what may come back.
        assert_eq!(then > freed, !recovers, "{then} after {freed}");
        let put = Put { key: b"key", value: &[1; 900], ..Put::default() };
        let stays = log.engine.put(&put, log.now_ms);
        assert!(!matches!(stays, Ok(Wrote::Wait)), "a put waits for what does not come");
        assert!(
            !matches!(log.engine.remove(&key(0), log.now_ms), Ok(Removed::Wait)),
            "a remove waits"
        );
        log.disk.fail(|_| false);
        log.now_ms += 2000;
        log.settle();
        assert!(put_many(&mut log, 2000) > then + 10, "it does not go on");
    }
}
