//! When and in which order records go to the disk, and what is answered meanwhile.

use super::*;

#[test]
fn a_new_log_is_made_in_the_order_that_the_page_gives() {
    let mut log = Log::new(Mode::Safe);
    let manifest = [
        "remove manifest.new",
        "create manifest.new",
        "write manifest.new",
        "flush manifest.new",
        "rename manifest.new",
        "flush the directory of manifest",
    ];
    let mut expected = vec!["list the directory of manifest"];
    expected.extend(manifest);
    assert_eq!(log.disk.done, expected, "a step is missing");
    log.disk.done.clear();
    for _ in 0..11 {
        log.step();
    }
    let mut expected = vec![
        "create 00000000.segment",
        "allocate 00000000.segment",
        "write 00000000.segment",
        "flush 00000000.segment",
        "flush the directory of manifest",
    ];
    expected.extend(manifest);
    assert_eq!(log.disk.done, expected, "a step is missing");
    log.settle();
    assert_eq!(log.engine.manifest().rows.len(), 4);
}

#[test]
fn in_safe_segments_are_written_before_they_are_used_and_nobody_waits_for_that() {
    for (mode, used) in [(Mode::Safe, [3, 4]), (Mode::Async, [0, 1])] {
        let mut log = Log::new(mode);
        log.settle();
        // A header each, and of a segment of 16 KiB one write of zeros.
        let mut keys = 0..;
        let mut put = |log: &mut Log| log.put(&[keys.next().unwrap()], &[7; 1000]).unwrap();
        put(&mut log);
        while log.engine.open.as_ref().is_none_or(|tail| tail.segment == SegmentId(used[0])) {
            put(&mut log);
            log.settle();
        }
        for id in 0..5 {
            let name = format!("write {}", segment(id).name);
            let first = log.disk.done.iter().skip_while(|done| **done != name);
            let count = first.take_while(|done| **done == name).count();
            let is_written = mode == Mode::Safe && used.contains(&id);
            assert_eq!(count, 1 + usize::from(is_written), "{mode:?} {id}");
        }
        assert_eq!(log.engine.open.as_ref().unwrap().segment, SegmentId(used[1]), "{mode:?}");
    }
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", b"value").unwrap();
    assert_eq!(log.engine.open.as_ref().unwrap().segment, SegmentId(0));
    let writes = log.disk.done.iter().filter(|done| done.ends_with("segment"));
    assert_eq!(writes.filter(|done| done.starts_with("write")).count(), 3, "it waited for zeros");
}

#[test]
fn records_that_come_during_a_flush_share_the_next_one() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"opens a segment", b"0").unwrap();
    log.settle();
    let before = log.engine.counts();
    log.put(b"first", b"1").unwrap();
    let write = log.engine.poll(0).unwrap();
    assert!(matches!(write.action, Action::Write { .. }));
    for key in 0..7u8 {
        log.put(&[key], b"2").unwrap();
    }
    assert!(log.engine.poll(0).is_none(), "a group waits for the one before");
    let outcome = log.disk.perform(write.action);
    log.engine.complete(write.token, outcome);
    log.settle();
    let after = log.engine.counts();
    assert_eq!(after.flushes - before.flushes, 2);
    assert_eq!(after.commits - before.commits, 2);
}

#[test]
fn async_answers_at_once_within_its_bounds() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    let mark = log.put(b"key", &[1; 900]).unwrap();
    assert_eq!(log.engine.may_answer(mark), Settled::Done);
    log.settle();
    assert_eq!(log.engine.durable(mark), Settled::Pending);
    assert!(log.engine.poll(0).is_none(), "nothing is urgent");
    // Bytes: the seventh kilobyte waits for a flush.
    for key in 0..5u8 {
        log.put(&[key], &[2; 900]).unwrap();
    }
    let put = Put { key: b"more", value: &[3; 900], ..Put::default() };
    assert_eq!(log.engine.put(&put, 0).unwrap(), Wrote::Wait, "more at risk than promised");
    log.settle();
    log.flush();
    // Age: half of it begins a flush, all of it stops the puts.
    assert!(matches!(log.engine.put(&put, 1000).unwrap(), Wrote::Done { .. }));
    assert_eq!(log.engine.wake_at_ms(), Some(1500));
    assert!(log.engine.poll(1499).is_none());
    let late = Put { key: b"late", value: b"4", ..Put::default() };
    assert_eq!(log.engine.put(&late, 2000).unwrap(), Wrote::Wait, "older than promised");
    assert!(matches!(log.engine.poll(1500).unwrap().action, Action::Write { .. }));
}

#[test]
fn safe_is_confirmed_when_what_was_answered_before_is_flushed() {
    let mut log = Log::new(Mode::Async);
    log.settle();
    let mark = log.put(b"key", b"value").unwrap();
    log.engine.set_mode(Mode::Safe);
    let mut drain: Drain = log.engine.drain();
    assert_eq!(log.engine.drained(&mut drain), Settled::Pending, "confirmed before the drain");
    log.settle();
    assert_eq!(log.engine.durable(mark), Settled::Done);
    assert_eq!(log.engine.drained(&mut drain), Settled::Done);
}

#[test]
fn a_full_segment_is_sealed_when_its_records_are_flushed() {
    let mut log = Log::new(Mode::Safe);
    for key in 0..40u8 {
        log.put(&[key], &[key; 800]).unwrap();
        log.settle();
    }
    let of_first = log.disk.done.iter().filter(|done| done.ends_with("00000000.segment"));
    let of_first: Vec<&str> = of_first.map(|done| &done[..5]).collect();
    // The last record and its flush; the footer, the trailer, their flush.
    let last = &of_first[of_first.len() - 5..];
    let expected = ["write", "flush", "write", "write", "flush"];
    assert_eq!(last, expected, "the footer went with its records");
    log.engine.close(&mut log.disk, 0).unwrap();
    log.disk.done.clear();
    let mut log = log.reopen();
    assert_eq!((log.report.tails, &*log.report.torn), (4, &[][..]), "only empty ones are read");
    assert_eq!((log.report.records, &*log.report.damages), (40, &[][..]));
    for key in 0..40u8 {
        assert_eq!(log.value(&[key]), Some(vec![key; 800]));
    }
}

#[test]
fn short_writes_go_on_where_they_stopped() {
    let mut log = Log::new(Mode::Safe);
    log.disk.write_bytes_max = Some(600);
    for key in 0..40u8 {
        log.put(&[key], &[key; 800]).unwrap();
        log.settle();
    }
    let mut log = log.reopen();
    assert_eq!(log.report.damages, []);
    for key in 0..40u8 {
        assert_eq!(log.value(&[key]), Some(vec![key; 800]));
    }
}
