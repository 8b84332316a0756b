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
