//! The time that a worker judges by.

use super::*;
use crate::record::EPOCHS;

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

/// A header tells sixteen generations apart, so what a sweep has to leave it must look at again.
#[test]
fn a_flushed_record_that_a_sweep_finds_locked_does_not_come_back() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    set(&mut worker, b"flushed", b"1");
    // Each of them begins a generation, because something was stored since the one before.
    let flush = |worker: &mut Worker| {
        set(worker, b"other", b"2");
        worker.flush();
    };
    (2..EPOCHS).for_each(|_| flush(&mut worker));
    let memory = &cache.table().memory;
    let key = worker.key(b"flushed");
    let locked = memory.index.lock(&memory.arena, key.candidates, key.hash);
    while worker.sweep(usize::MAX) {}
    drop(locked);
    (0..2).for_each(|_| flush(&mut worker));
    assert_eq!(worker.flushes(), EPOCHS, "flushes that began no generation");
    assert_eq!(read(&mut worker, b"flushed"), None, "a flushed record came back");
}
