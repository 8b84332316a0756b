//! Failed flushes, full disks and used up positions.

use super::*;

#[test]
fn a_failed_flush_fails_who_waited_and_saves_what_memory_has() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"kept", b"old").unwrap();
    log.settle();
    let mark = log.put(b"key", b"new").unwrap();
    log.disk.fail_next_flush();
    log.settle();
    assert_eq!(log.engine.durable(mark), Settled::Failed, "a failed flush was tried again");
    assert_eq!(log.engine.counts().rewritten, 1);
    let flushes = log.disk.done.iter().filter(|done| *done == "flush 00000000.segment").count();
    assert_eq!(flushes, 3, "prepared, committed, and failed once: no flush is tried again");
    for (key, value) in [(b"key\0", &b"new"[..]), (b"kept", b"old")] {
        let key = key.strip_suffix(b"\0").unwrap_or(key);
        assert_eq!(log.value(key).as_deref(), Some(value));
    }
    let stored = log.stored(b"key").unwrap().unwrap();
    assert!(stored.sequence > stored.token, "a rewritten value keeps its token");
    assert!(log.put(b"more", b"1").is_ok());
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(b"new".to_vec()));
    assert_eq!(log.value(b"kept"), Some(b"old".to_vec()));
}

#[test]
fn a_drain_that_begins_before_the_rewriting_waits_for_the_copies() {
    let mut log = Log::new(Mode::Async);
    log.put(b"key", b"new").unwrap();
    log.settle();
    log.disk.fail_next_flush();
    log.engine.drain();
    while log.engine.stranded.is_empty() {
        assert!(log.step());
    }
    let mut drain = log.engine.drain();
    assert!(log.step(), "the record is written again");
    assert!(log.engine.stranded.is_empty());
    assert_eq!(log.engine.drained(&mut drain), Settled::Pending, "confirmed before the copies");
    log.settle();
    assert_eq!(log.engine.drained(&mut drain), Settled::Done);
}

#[test]
fn a_second_failed_flush_makes_the_log_read_only() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"kept", b"old").unwrap();
    log.settle();
    log.disk.fail(|action| {
        matches!(action, Action::Flush { file } if matches!(file.name, FileName::Segment(_)))
    });
    log.put(b"key", b"new").unwrap();
    log.settle();
    assert!(log.engine.is_read_only());
    assert_eq!(log.put(b"more", b"1"), Err(Error::ReadOnly));
    assert_eq!(log.stored(b"key"), Err(Error::Unflushed));
    assert_eq!(log.value(b"kept"), Some(b"old".to_vec()));
}

#[test]
fn what_was_mended_stays_durable_when_another_flush_fails() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"first", b"1").unwrap();
    log.disk.fail_next_flush();
    log.settle();
    assert!(log.engine.is_mended());
    let mark = log.put(b"key", b"2").unwrap();
    log.settle();
    let durable_to = log.engine.durable_to();
    assert!(mark < durable_to);
    let last = log.put(b"last", b"3").unwrap();
    log.disk.fail_next_flush();
    log.settle();
    assert!(log.engine.is_read_only() && !log.engine.is_mended());
    assert_eq!(log.engine.durable_to(), durable_to, "it has gone back");
    assert!(durable_to <= last);
}

#[test]
fn a_full_disk_refuses_puts_and_takes_removes_until_there_is_room() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    log.disk.fault =
        Some(Box::new(|action| matches!(action, Action::Allocate { .. }).then_some(Failure::Full)));
    let mut keys = 0u32;
    let refused = loop {
        match log.put(&keys.to_le_bytes(), &[1; 900]) {
            Ok(_) => keys += 1,
            Err(error) => break error,
        }
        log.settle();
    };
    assert_eq!(refused, Error::NoRoom);
    assert!(keys > 10, "the segment that was there is used");
    // What could not be had is removed again.
    assert!(!log.disk.files.contains_key(&segment(4)));
    // Each takes a block; the segment that is kept for removes has room for some 27.
    let remove = |log: &mut Log, removed: std::ops::Range<u32>| {
        for key in removed {
            assert!(matches!(log.remove(&key.to_le_bytes()), Removed::Done { .. }));
            log.settle();
        }
    };
    remove(&mut log, 0..8);
    assert_eq!(log.put(b"key", &[1; 900]), Err(Error::NoRoom), "the reserve is for removes");
    // A segment without live bytes makes room.
    remove(&mut log, 8..20);
    assert_eq!(log.engine.counts().segments_freed, 1);
    log.put(b"key", &[1; 900]).unwrap();
    log.disk.fault = None;
    log.now_ms += 1000;
    log.settle();
    log.put(b"key", b"value").unwrap();
    log.settle();
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(b"value".to_vec()));
    assert_eq!(log.value(&0u32.to_le_bytes()), None);
}

#[test]
fn removes_leave_the_segment_that_rewriting_needs() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    log.disk.fault =
        Some(Box::new(|action| matches!(action, Action::Allocate { .. }).then_some(Failure::Full)));
    let mut keys = 0u32;
    while log.put(&keys.to_le_bytes(), b"value").is_ok() {
        keys += 1;
    }
    log.settle();
    let mut removed = 0u32;
    while removed < keys {
        match log.engine.remove(&removed.to_le_bytes(), log.now_ms) {
            Ok(Removed::Done { .. }) => removed += 1,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, Error::NoRoom);
                break;
            }
        }
        log.settle();
    }
    assert!((10..keys).contains(&removed), "{removed} of {keys} were removed");
    assert_eq!(log.engine.free.len(), 1, "there is no segment for rewriting");
}

#[test]
fn what_has_no_room_to_be_written_again_is_an_error_until_there_is_some() {
    let mut disk = MemoryDisk::default();
    let (engine, report) = open_in(&mut disk, 2, shape(), Mode::Safe, map_keys).unwrap();
    let mut log = Log { disk, engine, report, now_ms: 0 };
    log.settle();
    log.put(b"before", b"1").unwrap();
    log.settle();
    // All that is empty lies where the flush fails, and the other directory is full.
    let failing = log.engine.open.as_ref().unwrap().file.directory;
    let directory = |id: &SegmentId| log.engine.segment(*id).unwrap().directory;
    let there: Vec<_> =
        log.engine.free.iter().copied().filter(|id| directory(id) == failing).collect();
    log.engine.free = there;
    log.put(b"key", b"2").unwrap();
    log.disk.fail(move |action| match action {
        Action::Flush { file } => {
            file.directory == failing && matches!(file.name, FileName::Segment(_))
        }
        Action::Allocate { .. } => true,
        _ => false,
    });
    log.settle();
    assert_eq!((log.engine.stranded.len(), log.engine.free.len()), (1, 0));
    assert_eq!(log.put(b"other", b"3"), Err(Error::NoRoom));
    let mut waits = 0;
    let got = loop {
        match log.engine.get(b"key", 0) {
            Ok(Get::Wait) => assert!(waits < 100, "the get waits for ever"),
            got => break got.map(|_| ()),
        }
        waits += 1;
        log.step();
        log.now_ms += 10;
    };
    assert_eq!(got, Err(Error::Unflushed));
    let mut drain = log.engine.drain();
    assert_eq!(log.engine.drained(&mut drain), Settled::Failed, "the drain waits for ever");
    assert_eq!(log.value(b"before"), Some(b"1".to_vec()), "what is durable is not read");
    log.disk.fault = None;
    log.now_ms += 1000;
    log.settle();
    assert_eq!(
        log.value(b"key"),
        Some(b"2".to_vec()),
        "there is room, and it is not written again"
    );
    log.flush();
    let (engine, report) = open_in(&mut log.disk, 2, shape(), Mode::Safe, map_keys).unwrap();
    let mut log = Log { engine, report, ..log };
    assert_eq!(log.value(b"key"), Some(b"2".to_vec()));
}

#[test]
fn a_directory_without_room_does_not_hold_the_others_back() {
    let mut disk = MemoryDisk::default();
    let (engine, report) = open_in(&mut disk, 3, shape(), Mode::Safe, map_keys).unwrap();
    let mut log = Log { disk, engine, report, now_ms: 0 };
    log.disk.fault = Some(Box::new(|action| match action {
        Action::Allocate { file, .. } if file.directory != DirectoryId(2) => Some(Failure::Full),
        _ => None,
    }));
    for key in 0..100u32 {
        log.put(&key.to_le_bytes(), &[1; 900]).expect("there is room in one directory");
        log.settle();
    }
    let files = log.disk.files.keys();
    let segments: Vec<_> = files.filter(|file| matches!(file.name, FileName::Segment(_))).collect();
    assert!(segments.len() > 5, "{segments:?}");
    assert!(segments.iter().all(|file| file.directory == DirectoryId(2)), "{segments:?}");
}

#[test]
fn positions_that_the_index_cannot_keep_are_a_named_limit() {
    let few = |_: &Manifest| Ok(MapKeys::new(4 * 1024));
    let mut log = open_with(MemoryDisk::default(), shape(), Mode::Safe, few).unwrap();
    log.settle();
    let mut keys = 0u32;
    let error = loop {
        if let Err(error) = log.put(&keys.to_le_bytes(), &[1; 900]) {
            break error;
        }
        keys += 1;
        log.settle();
    };
    assert_eq!(error, Error::PositionsUsedUp { segments: 4 });
    assert!(matches!(log.remove(&0u32.to_le_bytes()), Removed::Done { .. }));
}

#[test]
fn what_a_failed_flush_leaves_fits_into_the_segment_that_is_kept_for_it() {
    let mut log = Log::new(Mode::Async);
    log.put(b"first", b"1").unwrap();
    log.flush();
    // The smallest records, which grow most: as many at risk as the log takes, on a full disk.
    log.disk.fault =
        Some(Box::new(|action| matches!(action, Action::Allocate { .. }).then_some(Failure::Full)));
    log.engine.settings.at_risk_bytes_max = 1 << 20;
    while log.engine.free.len() > 1 {
        log.engine.free.pop();
    }
    let mut keys = 0u16;
    while let Wrote::Done { .. } =
        log.engine.put(&Put { key: &keys.to_le_bytes(), ..Put::default() }, 0).unwrap()
    {
        keys += 1;
    }
    assert!(keys > 100, "{keys} records");
    let mut left = 1;
    log.disk.fault = Some(Box::new(move |action| match action {
        Action::Allocate { .. } => Some(Failure::Full),
        Action::Flush { file } if *file == segment(0) && left > 0 => {
            left -= 1;
            Some(io())
        }
        _ => None,
    }));
    log.engine.drain();
    for _ in 0..1000 {
        if !log.step() {
            log.now_ms += 50;
        }
    }
    assert!(log.engine.stranded.is_empty(), "it does not fit");
    for key in 0..keys {
        assert_eq!(log.value(&key.to_le_bytes()), Some(Vec::new()));
    }
}

#[test]
fn a_file_that_cannot_be_made_uses_up_no_number() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let next = log.engine.next_number();
    let before = log.engine.free.len();
    log.disk.fail(|action| {
        matches!(action, Action::Create { file } | Action::Truncate { file, .. }
            if matches!(file.name, FileName::Segment(_)))
    });
    while log.engine.free.len() == before {
        log.put(b"key", &[1; 900]).unwrap();
        log.settle();
    }
    for _ in 0..10 {
        log.now_ms += 200;
        log.settle();
    }
    assert_eq!(log.engine.next_number(), next, "a number is used up");
}

#[test]
fn a_log_that_takes_no_writes_says_so_only_of_what_it_would_have_to_write() {
    let mut log = Log::new(Mode::Safe);
    for key in [b"kept", b"gone"] {
        log.put(key, b"old").unwrap();
    }
    log.remove(b"gone");
    log.settle();
    log.disk.fail(|action| {
        matches!(action, Action::Flush { file } if matches!(file.name, FileName::Segment(_)))
    });
    log.put(b"lost", b"new").unwrap();
    log.settle();
    assert!(log.engine.is_read_only());
    for key in [b"gone", b"none"] {
        let removed = log.engine.remove(key, log.now_ms);
        assert_eq!(removed, Ok(Removed::Absent { wait: None }), "{key:?} is not there for good");
    }
    assert_eq!(log.engine.remove(b"kept", log.now_ms), Err(Error::ReadOnly));
    assert_eq!(log.engine.remove(b"lost", log.now_ms), Err(Error::ReadOnly));
}

#[test]
fn a_removal_that_is_never_durable_is_an_error_each_time() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", b"old").unwrap();
    log.settle();
    log.remove(b"key");
    log.disk.fail(|action| {
        matches!(action, Action::Flush { file } if matches!(file.name, FileName::Segment(_)))
    });
    log.settle();
    assert!(log.engine.is_read_only());
    for _ in 0..2 {
        assert_eq!(log.engine.remove(b"key", log.now_ms), Err(Error::Unflushed));
    }
}

#[test]
fn what_cannot_be_written_again_when_no_segment_is_made_any_more_is_told() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"kept", b"old").unwrap();
    log.settle();
    // The segment that is to take what a failed flush leaves: nobody knows whether it is there.
    log.engine.free.clear();
    let mut left = 1;
    log.disk.fault = Some(Box::new(move |action| match action {
        Action::Rename { .. } => Some(io()),
        Action::Flush { file } if *file == segment(0) && left > 0 => {
            left -= 1;
            Some(io())
        }
        _ => None,
    }));
    log.put(b"key", b"new").unwrap();
    log.settle();
    assert!(log.engine.is_read_only() && log.engine.setbacks().0 == 1);
    let hash = log.engine.hash(b"key").unwrap();
    assert_eq!(log.engine.seen(hash), Err(Error::Unflushed), "who has a copy waits for ever");
    assert_eq!(log.stored(b"key"), Err(Error::Unflushed));
    assert_eq!(log.value(b"kept"), Some(b"old".to_vec()));
}
