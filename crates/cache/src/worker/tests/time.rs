//! The time that a worker judges by.

use super::*;

#[test]
fn what_has_expired_stays_so_when_a_caller_has_an_older_time() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    let before_ms = cache.clock().now_ms();
    let put = Put { expiry_ms: before_ms + 5, ..Put::new(Value::Bytes(b"value")) };
    worker.set(worker.key(b"a"), &put).expect("memory");
    cache.clock().advance_ms(5);
    worker.quiesce();
    assert_eq!(read(&mut worker, b"a"), None);
    worker.quiesce_at(before_ms);
    assert_eq!((read(&mut worker, b"a"), worker.now_ms()), (None, before_ms + 5));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the time is to be taken")]
fn who_was_away_takes_the_time_before_a_command() {
    let mut worker = cache(16 << 20).worker().expect("a place");
    worker.away(|| ());
    let _ = worker.key(b"a");
}
