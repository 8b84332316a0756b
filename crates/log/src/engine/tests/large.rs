//! Values in parts.

use super::*;

#[test]
fn large_values_lie_in_parts_and_appear_when_all_are_durable() {
    let value: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
    let mut log = Log::new(Mode::Async);
    log.settle();
    log.put_large(b"large", &value);
    assert_eq!(log.value(b"large"), Some(value.clone()), "from memory");
    log.engine.set_mode(Mode::Safe);
    log.settle();
    log.disk.done.clear();
    assert_eq!(log.value(b"large"), Some(value.clone()));
    assert_eq!(log.disk.done.len(), 6, "one read for the head and one a part");
    let live =
        |log: &Log| log.engine.segments.iter().flatten().map(|it| it.live_bytes).sum::<u64>();
    let before = live(&log);
    assert!((5000..7000).contains(&before), "{before} live bytes");
    let mut log = log.reopen();
    assert_eq!(live(&log), before);
    assert_eq!(log.value(b"large"), Some(value));
    log.settle();
    log.put(b"large", b"small").unwrap();
    assert_eq!(live(&log), 64, "the parts die with their head");
}

#[test]
fn a_head_that_is_longer_than_most_is_found_again() {
    let value: Vec<u8> = (0..200_000u32).map(|at| (at >> 3) as u8).collect();
    let mut log = Log::new(Mode::Safe);
    log.settle();
    log.put_large(b"large", &value);
    log.settle();
    let live =
        |log: &Log| log.engine.segments.iter().flatten().map(|it| it.live_bytes).sum::<u64>();
    let before = live(&log);
    let mut log = log.reopen();
    assert_eq!(live(&log), before, "its parts are not found");
    assert!(log.value(b"large") == Some(value));
}

#[test]
fn a_head_waits_for_its_parts() {
    let mut log = Log::new(Mode::Safe);
    log.settle();
    let mut upload = log.engine.begin_large(b"large", 1025).unwrap();
    assert_eq!(log.engine.put_part(&mut upload, &[1; 10], 0), Err(Error::Upload));
    for part in [&[1; 1024][..], &[2]] {
        assert!(matches!(log.engine.put_part(&mut upload, part, 0), Ok(Wrote::Done { .. })));
    }
    let put = Put { key: b"large", ..Put::default() };
    assert_eq!(log.engine.put_head(&upload, &put, 0), Ok(Wrote::Wait), "head before its parts");
    log.settle();
    assert!(matches!(log.engine.put_head(&upload, &put, 0), Ok(Wrote::Done { .. })));
}

/// Where the parts of a key's value lie.
pub(super) fn spread_of(log: &mut Log, key: &[u8]) -> Spread {
    match log.engine.get(key, 0).unwrap() {
        Get::Memory { stored, .. } => stored.parts.expect("it lies in parts"),
        Get::Read(reading) => {
            let bytes = log.read(&reading).unwrap();
            let Fetched::Head(_, parts) = reading.finish(&bytes).unwrap() else {
                panic!("no head")
            };
            log.engine.parts(&reading, &parts).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_part_of_another_value_of_the_key_is_not_taken_for_one() {
    let mut log = Log::new(Mode::Safe);
    log.put_large(b"large", &[1; 3000]);
    log.settle();
    let first = spread_of(&mut log, b"large");
    log.put_large(b"large", &[2; 3000]);
    log.settle();
    let second = spread_of(&mut log, b"large");
    for reading in log.engine.all_parts(&second.taken_for(&first)) {
        let bytes = log.read(&reading).unwrap();
        let got = reading.finish(&bytes);
        assert!(matches!(got, Err(Error::OtherKey { .. })), "a mixture of two values: {got:?}");
    }
    for reading in log.engine.all_parts(&second) {
        let bytes = log.read(&reading).unwrap();
        assert!(matches!(reading.finish(&bytes), Ok(Fetched::Part([2, ..]))));
    }
}

#[test]
fn where_parts_lie_takes_little_memory_and_each_counts_when_it_is_read() {
    let mut log = Log::new(Mode::Safe);
    log.put_large(b"large", &[1; 20_000]);
    log.settle();
    let before = log.engine.counts().reads;
    let spread = spread_of(&mut log, b"large");
    assert_eq!((spread.value_bytes(), spread.parts()), (20_000, 20));
    assert!(spread.bytes() < 1000, "{} bytes for 20 parts", spread.bytes());
    let reads = log.engine.counts().reads - before;
    assert!(reads <= 1, "{reads} reads count of what only looks");
    log.engine.part(&spread, 19);
    assert_eq!(log.engine.counts().reads - before, reads + 1);
}

#[test]
fn parts_live_on_under_a_head_that_is_written_anew() {
    let mut log = Log::new(Mode::Safe);
    log.put_large(b"large", &[1; 3000]);
    log.settle();
    let live = |log: &Log| log.engine.segments.iter().flatten().map(|it| it.live_bytes).sum();
    let before: u64 = live(&log);
    let spread = spread_of(&mut log, b"large");
    let put = Put { key: b"large", flags: 9, ..Put::default() };
    while log.engine.put_head_anew(&put, &spread, log.now_ms).unwrap() == Wrote::Wait {
        assert!(log.step(), "the head waits for ever");
    }
    drop(spread);
    log.settle();
    assert_eq!(live(&log), before, "the parts die by a touch");
    let stored = log.stored(b"large").unwrap().expect("it is there");
    assert_eq!((stored.flags, stored.value), (9, vec![1; 3000]));
    log.put(b"large", b"small").unwrap();
    assert_eq!(live(&log), 64, "the parts live without a head");
}

/// Where the newest record of a key lies.
fn place_of(log: &Log, key: &[u8]) -> (SegmentId, u64) {
    let index = log.engine.index();
    log.engine.place(index.get(index.hash(key).unwrap()).unwrap().position)
}

/// A log with a sealed segment that has the parts and the head of a large value, and another one
/// with a small value.
fn with_large() -> Log {
    let mut log = Log::new(Mode::Safe);
    for key in [&b"large"[..], b"other"] {
        match key {
            b"large" => log.put_large(key, &[7; 3000]),
            _ => log.put(key, &[1; 900]).unwrap(),
        };
        log.seal();
    }
    log
}

#[test]
fn a_head_that_cannot_be_read_keeps_all_segments_until_its_key_is_written_anew() {
    let mut log = with_large();
    let (id, head) = place_of(&log, b"large");
    let segments = [id, place_of(&log, b"other").0];
    log.disk.files.get_mut(&segment(id.0)).unwrap()[head as usize + 50] ^= 1;
    let begun = |log: &Log| segments.map(|id| log.engine.segment(id).map(|segment| segment.begun));
    let before = begun(&log);
    let mut log = log.reopen();
    assert_eq!(log.report.damages.len(), 1);
    assert_eq!(begun(&log), before, "an iteration would visit them out of their order");
    let generations =
        |log: &Log| segments.map(|id| log.engine.segment(id).map(|segment| segment.generation));
    log.put(b"other", &[2; 900]).unwrap();
    log.settle();
    assert_eq!(generations(&log), [Some(1); 2], "its parts might be there");
    log.put(b"large", b"small").unwrap();
    log.settle();
    assert_eq!(generations(&log), [Some(2); 2]);
    let mut log = log.reopen();
    assert_eq!(log.report.damages, []);
    assert_eq!(log.value(b"other"), Some(vec![2; 900]));
    assert_eq!(log.value(b"large"), Some(b"small".to_vec()));
}

#[test]
fn parts_are_kept_while_a_segment_is_missing_that_may_have_their_head() {
    let mut log = Log::new(Mode::Safe);
    let upload = log.upload(b"large", &[[5; 1024], [6; 1024]].concat());
    let parts = log.engine.open.as_ref().unwrap().segment;
    log.seal();
    log.put_head(&upload, b"large");
    log.settle();
    let (head, _) = place_of(&log, b"large");
    assert_ne!(head, parts);
    let held = log.disk.files.remove(&segment(head.0)).unwrap();
    let mut log = log.reopen();
    assert_eq!(log.report.damages[0].what, Wrong::Missing);
    log.put(b"other", &[1; 900]).unwrap();
    log.settle();
    let generation = log.engine.segment(parts).unwrap().generation;
    assert_eq!(generation, 1, "parts are freed whose head may come back");
    log.disk.files.insert(segment(head.0), held);
    let mut log = log.reopen();
    assert_eq!(log.report.damages, []);
    assert_eq!(log.value(b"large"), Some([[5; 1024], [6; 1024]].concat()));
    log.put(b"large", b"").unwrap();
    log.settle();
    assert_eq!(log.engine.segment(parts).unwrap().generation, 2);
}

#[test]
fn a_head_is_read_again_that_the_disk_does_not_give_at_once() {
    for (failures, damages) in [(2, 0), (3, 1)] {
        let mut log = with_large();
        let (id, head) = place_of(&log, b"large");
        let mut left = failures;
        log.disk.fail(move |action| match action {
            Action::Read { file, offset, bytes, .. } if *file == segment(id.0) && left > 0 => {
                let is_it = (*offset..offset + *bytes as u64).contains(&head);
                left -= u32::from(is_it);
                is_it
            }
            _ => false,
        });
        let log = log.reopen();
        assert_eq!(log.report.damages.len(), damages, "{failures} reads failed");
    }
}

#[test]
fn only_the_first_head_that_cannot_be_read_has_all_segments_be_kept() {
    let mut log = Log::new(Mode::Safe);
    log.put(b"key", b"value").unwrap();
    log.settle();
    let id = log.engine.open.as_ref().unwrap().segment;
    let [first, second] = [1024, 2048].map(|offset| log.engine.position(id, offset));
    log.engine.keep_parts_of(first);
    let segment = log.engine.segment_mut(id).unwrap();
    assert!(!std::mem::replace(&mut segment.may_be_freed, true), "parts may be in it");
    // There may be 100,000 of them, and 65,536 segments.
    log.engine.keep_parts_of(second);
    assert!(log.engine.segment(id).unwrap().may_be_freed, "all segments are gone over for each");
}
