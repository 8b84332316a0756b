//! Values that are put while the ones before are still in the chunk that is being filled.

use super::*;

/// What is in the chunk that is being filled, and how often a value in one was written over.
fn in_chunk(log: &Log) -> (u64, u64) {
    let open = log.engine.open.as_ref();
    (open.map_or(0, |tail| tail.unflushed_bytes()), log.engine.counts().overwritten)
}

#[test]
fn an_overwrite_takes_the_place_of_what_is_in_the_chunk() {
    for mode in [Mode::Safe, Mode::Async] {
        let mut log = Log::new(mode);
        log.settle();
        log.put(b"a", &[1; 100]).unwrap();
        let mark = log.put(b"b", &[2; 100]).unwrap();
        let (bytes, _) = in_chunk(&log);
        let sequence = log.stored(b"a").unwrap().unwrap().sequence;
        let later = log.put(b"a", &[3; 100]).unwrap();
        assert!(later > mark, "it is newer");
        assert_eq!(in_chunk(&log), (bytes, 1), "it has a place of its own");
        let stored = log.stored(b"a").unwrap().unwrap();
        assert_eq!((stored.value, stored.sequence), (vec![3; 100], sequence + 2));
        assert_eq!(stored.token, stored.sequence);
        assert_eq!(log.engine.durable(later), Settled::Pending);
        log.flush();
        assert_eq!(log.engine.durable(mark), Settled::Done);
        assert_eq!(log.engine.durable(later), Settled::Done);
        log.seal();
        for _ in 0..2 {
            assert_eq!(log.stored(b"a").unwrap().unwrap().sequence, sequence + 2);
            assert_eq!(log.value(b"a"), Some(vec![3; 100]));
            assert_eq!(log.value(b"b"), Some(vec![2; 100]));
            log = log.reopen();
            assert!(log.report.damages.is_empty(), "{:?}", log.report.damages);
        }
        log.engine.close(&mut log.disk, 0).unwrap();
        let mut found = Vec::new();
        log.engine.verify(&mut log.disk, &mut |_| {}, &mut |damage| found.push(damage));
        assert!(found.is_empty(), "damaged where nothing is: {found:?}");
    }
}

#[test]
fn what_is_not_alone_in_its_place_is_not_written_over() {
    let put_of = |key: &'static [u8], value: &'static [u8]| {
        Change::Put(Put { key, value, ..Put::default() })
    };
    let mut log = Log::new(Mode::Async);
    log.settle();
    let appends = |log: &mut Log, key: &[u8], value: &[u8], why: &str| {
        let before = in_chunk(log);
        log.put(key, value).unwrap();
        let (bytes, overwritten) = in_chunk(log);
        assert!(bytes > before.0 && overwritten == before.1, "{why}");
        assert_eq!(log.value(key), Some(value.to_vec()));
    };
    log.put(b"length", &[1; 30]).unwrap();
    appends(&mut log, b"length", &[2; 60], "a longer one");
    appends(&mut log, b"length", &[3; 20], "a shorter one");
    assert!(matches!(log.remove(b"length"), Removed::Done { .. }));
    appends(&mut log, b"length", &[3; 20], "over a tombstone");
    let batch = [put_of(b"first", b"1"), put_of(b"second", b"2")];
    assert!(matches!(log.engine.write_batch(&batch, log.now_ms), Ok(Batch::Done { .. })));
    appends(&mut log, b"first", b"3", "a member of a batch");
    let batch = [put_of(b"first", b"4"), put_of(b"second", b"5")];
    assert!(matches!(log.engine.write_batch(&batch, log.now_ms), Ok(Batch::Done { .. })));
    let before = log.engine.counts().overwritten;
    assert_eq!((log.value(b"first"), before), (Some(b"4".to_vec()), 0), "by a batch");
    log.engine.close_chunk();
    appends(&mut log, b"length", &[3; 20], "what is on its way to the disk");
    log.flush();
    appends(&mut log, b"length", &[3; 20], "what is on the disk");
    // The last one can be.
    log.put(b"length", &[4; 20]).unwrap();
    assert_eq!(log.engine.counts().overwritten, 1);
    let mut log = log.reopen();
    assert_eq!(log.value(b"first"), Some(b"4".to_vec()));
}

#[test]
fn fields_may_change_where_the_length_does_not() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let mut put = |expiry_ms: u64, flags: u32, tags: &[u8], value: &[u8]| {
        let put = Put { key: b"key", value, expiry_ms, flags, tags, ..Put::default() };
        assert!(matches!(log.engine.put(&put, 0), Ok(Wrote::Done { .. })));
        let stored = log.stored(b"key").unwrap().unwrap();
        assert_eq!((stored.expiry_ms, stored.flags), (expiry_ms, flags));
        assert_eq!((stored.tags.as_slice(), stored.value.as_slice()), (tags, value));
        in_chunk(&log)
    };
    let first = put(0, 0, &[], &[1; 37]);
    assert_eq!(put(7, 0, &[], &[2; 31]), (first.0, 1));
    assert_eq!(put(0, 9, &[5; 8], &[3; 25]), (first.0, 2));
    assert_eq!(put(0, 0, &[], &[4; 24]), (first.0, 3), "what is left is zeros");
    log.flush();
    let mut log = log.reopen();
    assert_eq!(log.value(b"key"), Some(vec![4; 24]));
}

#[test]
fn what_was_written_over_is_at_risk_as_well() {
    // 6,000 bytes may be lost, whatever else is at risk.
    for others in 0..6u8 {
        let mut log = Log::new(Mode::Async);
        log.settle();
        let mut acknowledged = 0;
        let mut put = |log: &mut Log, key: &[u8], value: &[u8]| {
            let put = Put { key, value, ..Put::default() };
            let is_done = log.engine.put(&put, log.now_ms).unwrap() != Wrote::Wait;
            acknowledged +=
                if is_done { put.record(record::Kind::Value, value).bytes() } else { 0 };
            assert!(acknowledged <= 6000, "{acknowledged} bytes are acknowledged and not flushed");
            is_done
        };
        for other in 0..others {
            assert!(put(&mut log, &[other], &[1; 900]));
        }
        while put(&mut log, b"key", &[1; 300]) {}
        // What pads the chunks counts as well.
        assert!(acknowledged > 6000 - 336 - 3 * 512, "{acknowledged}");
        let counts = log.engine.counts();
        assert!(counts.overwritten > 0, "nothing was written over");
        // No chunk has much more than a quarter of it: it is on its way before all of it is.
        assert!(others > 0 || counts.commits == 2, "{counts:?}");
        log.settle();
        let again = Put { key: b"key", value: &[1; 300], ..Put::default() };
        assert!(matches!(log.engine.put(&again, log.now_ms), Ok(Wrote::Done { .. })));
        // Nor for longer than a second.
        log.now_ms += 999;
        assert!(matches!(log.engine.put(&again, log.now_ms), Ok(Wrote::Done { .. })));
        log.now_ms += 1;
        assert_eq!(log.engine.put(&again, log.now_ms).unwrap(), Wrote::Wait);
    }
}

#[test]
fn what_was_written_over_is_written_again_when_its_flush_fails() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    log.put(b"a", &[1; 100]).unwrap();
    log.put(b"b", &[2; 100]).unwrap();
    let first = log.put(b"a", &[3; 100]).unwrap();
    log.disk.fail_next_flush();
    log.settle();
    assert_eq!(log.engine.durable(first), Settled::Failed);
    // Nothing is written over before that.
    let put = Put { key: b"a", value: &[4; 100], ..Put::default() };
    while log.engine.put(&put, log.now_ms).unwrap() == Wrote::Wait {
        assert!(log.step(), "it waits for ever");
    }
    log.flush();
    let mut log = log.reopen();
    assert_eq!(log.value(b"a"), Some(vec![4; 100]));
    assert_eq!(log.value(b"b"), Some(vec![2; 100]));
}
