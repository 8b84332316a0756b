//! What a crash may take in `Async`.

use super::*;

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
fn the_head_of_a_large_value_waits_for_what_is_at_risk() {
    let mut log = Log::new(Mode::Async);
    let mut upload = log.engine.begin_large(b"large", 5000).unwrap();
    for part in [1; 5000].chunks(1024) {
        while log.engine.put_part(&mut upload, part, log.now_ms).unwrap() == Wrote::Wait {
            assert!(log.step());
        }
    }
    let mut drain = log.engine.drain();
    log.settle();
    assert_eq!(log.engine.drained(&mut drain), Settled::Done);
    let small = log.put(b"small", &[2; 1000]).unwrap();
    let put = Put { key: b"large", ..Put::default() };
    assert_eq!(log.engine.put_head(&upload, &put, log.now_ms).unwrap(), Wrote::Wait);
    log.settle();
    assert_eq!(log.engine.durable(small), Settled::Done);
    assert!(matches!(log.engine.put_head(&upload, &put, log.now_ms), Ok(Wrote::Done { .. })));
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
