//! What a crash may take in `Async`.

use super::*;
use crate::engine::room::Needed;

#[test]
fn with_the_head_of_a_large_value_all_of_it_is_at_risk() {
    let mut log = Log::new(Mode::Async);
    let head = log.put_large(b"large", &[1; 5000]);
    assert_eq!(log.engine.durable(head), Settled::Pending);
    let mut put = |key: &[u8]| {
        let put = Put { key, value: &[2; 700], ..Put::default() };
        log.engine.put(&put, log.now_ms).unwrap()
    };
    // 6,000 bytes may be lost.
    assert!(matches!(put(b"first"), Wrote::Done { .. }));
    assert_eq!(put(b"second"), Wrote::Wait);
    log.settle();
    assert_eq!(log.engine.durable(head), Settled::Done);
    assert_eq!(log.value(b"large"), Some(vec![1; 5000]));
}

#[test]
fn a_short_look_finds_what_a_long_one_finds() {
    // Segments that what waits for its flush can be written to again: else it is never short.
    let shape = Shape { segment_bytes: 64 << 10, ..shape() };
    for mode in [Mode::Async, Mode::Safe] {
        let make = |_: &Manifest| Ok(MapKeys::new(UNITS_MAX));
        let mut log = open_with(MemoryDisk::default(), shape, mode, make).unwrap();
        let mut random = base::random::Random::new(5, 0);
        let mut ready = [0; 2];
        for turn in 0..6000 {
            let bytes = 32 + 16 * random.below(60) as usize;
            log.engine.now_ms = log.now_ms;
            let is_ready = log.engine.is_ready(bytes);
            ready[usize::from(is_ready)] += 1;
            if is_ready {
                let engine = &log.engine;
                let tail = engine.open.as_ref().unwrap();
                assert!(!engine.is_at_risk(bytes as u64), "more than may be lost");
                assert!(engine.durable_below() >= engine.held_below, "it passes by what waits");
                assert!(engine.stranded.is_empty() && tail.is_for_puts);
                assert_eq!(tail.chunk_takes(bytes), Some(true));
                assert!(tail.has_room(Needed::one(bytes)), "no room for its footer");
            }
            let put = Put { key: &[turn as u8], value: &vec![1; bytes - 32], ..Put::default() };
            let wrote = log.engine.put(&put, log.now_ms).unwrap();
            assert!(!is_ready || wrote != Wrote::Wait, "ready, and not taken");
            match random.below(40) {
                0 => _ = log.put_large(b"large", &[2; 5000]),
                1 => _ = log.engine.drain(),
                2 => log.now_ms += 700,
                3 => log.settle(),
                _ => _ = random.below(3) == 0 && log.step(),
            }
        }
        assert!(ready.iter().all(|count| *count > 500), "{ready:?}");
        log.put_large(b"large", &[2; 5000]);
        log.settle();
        log.put(b"small", &[]).unwrap();
        assert!(log.engine.is_ready(32), "a large value that was flushed is still looked at");
    }
}

#[test]
fn the_head_of_a_large_value_waits_for_what_is_at_risk() {
    // 6,000 bytes may be lost; a value that is longer has to be the only one.
    for bytes in [5000, 9000] {
        let mut log = Log::new(Mode::Async);
        let upload = durable_parts(&mut log, b"large", bytes);
        let small = log.put(b"small", &[2; 1000]).unwrap();
        let put = Put { key: b"large", ..Put::default() };
        assert_eq!(log.engine.put_head(&upload, &put, log.now_ms).unwrap(), Wrote::Wait);
        // Nor does what comes meanwhile: the head would wait for as long as others come.
        let other = Put { key: b"other", value: &[3; 100], ..Put::default() };
        assert_eq!(log.engine.put(&other, log.now_ms).unwrap(), Wrote::Wait);
        let again = Put { key: b"small", value: &[3; 1000], ..Put::default() };
        let wrote = log.engine.put(&again, log.now_ms).unwrap();
        assert_eq!(wrote, Wrote::Wait, "what is written over passes by the head");
        log.settle();
        assert_eq!(log.engine.durable(small), Settled::Done);
        let head = log.engine.put_head(&upload, &put, log.now_ms);
        assert!(matches!(head, Ok(Wrote::Done { .. })));
        log.settle();
        assert!(log.put(b"other", &[3; 100]).is_ok());
    }
}

/// A large value without its head.
fn durable_parts(log: &mut Log, key: &[u8], bytes: usize) -> Upload {
    let upload = log.upload(key, &vec![1; bytes]);
    let mut drain = log.engine.drain();
    log.settle();
    assert_eq!(log.engine.drained(&mut drain), Settled::Done);
    upload
}

#[test]
fn the_large_values_of_a_batch_are_at_risk_together() {
    let put = |key| Put { key, ..Put::default() };
    for (mode, bytes, is_taken) in
        [(Mode::Async, 2500, true), (Mode::Async, 4000, false), (Mode::Safe, 4000, true)]
    {
        let mut log = Log::new(mode);
        let uploads = [b"a", b"b"].map(|key| (key, durable_parts(&mut log, key, bytes)));
        let small = log.put(b"small", &[2; 1000]).unwrap();
        let changes: Vec<_> =
            uploads.iter().map(|(key, upload)| Change::Head(upload, put(*key))).collect();
        if !is_taken {
            let refused = log.engine.write_batch(&changes, log.now_ms);
            assert!(matches!(refused, Err(Error::BatchBytes { max: 6000, .. })), "{refused:?}");
            continue;
        }
        if mode == Mode::Async {
            assert_eq!(log.engine.write_batch(&changes, log.now_ms), Ok(Batch::Wait));
            log.settle();
            assert_eq!(log.engine.durable(small), Settled::Done);
        }
        let taken = log.engine.write_batch(&changes, log.now_ms);
        assert!(matches!(taken, Ok(Batch::Done { .. })), "{taken:?}");
        log.settle();
        assert_eq!(log.value(b"b"), Some(vec![1; bytes]));
    }
}

#[test]
fn what_waits_in_safe_is_not_answered_by_a_change_to_async() {
    let mut log = Log::new(Mode::Safe);
    let before = log.put(b"before", &[1; 1000]).unwrap();
    log.engine.set_mode(Mode::Async);
    let behind = log.put(b"behind", &[2; 1000]).unwrap();
    assert_eq!(log.engine.may_answer(before), Settled::Pending, "more than may be lost");
    assert_eq!(log.engine.may_answer_all(before, behind), Settled::Pending);
    assert_eq!(log.engine.may_answer(behind), Settled::Done);
    log.settle();
    assert_eq!(log.engine.may_answer_all(before, behind), Settled::Done);
}
