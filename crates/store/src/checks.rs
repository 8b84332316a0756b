//! Who puts a record into memory, who flushes it and who reads it, in every interleaving and with
//! every value that weak memory allows. The reader is the spawned thread, as loom finds more that
//! way.

use base::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    thread,
};
use log::engine::Mark;
use loom::model::Builder;

use crate::unflushed::Unflushed;

const HASH: u64 = 7;

/// Runs a model; `LOOM_MAX_PREEMPTIONS` overrides its bound.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

/// A key: its records are 1, 2 and so on, the first with mark 0.
struct Key {
    unflushed: Unflushed,
    /// The record in memory: published with a release, read with an acquire, as the cache does.
    in_memory: AtomicU64,
    on_disk: AtomicU64,
}

impl Key {
    fn flush(&self, record: u64, waits: bool) {
        self.on_disk.store(record, Ordering::Relaxed);
        self.unflushed.tell(Mark::of(record), waits);
    }
}

#[test]
fn loom_no_hit_is_told_before_it_is_flushed() {
    explore(|| {
        let (in_memory, on_disk) = (AtomicU64::new(0), AtomicU64::new(0));
        let key = Arc::new(Key { unflushed: Unflushed::new(), in_memory, on_disk });
        let reading = {
            let key = Arc::clone(&key);
            thread::spawn(move || {
                let seen = key.in_memory.load(Ordering::Acquire);
                if key.unflushed.may_tell(HASH) {
                    let flushed = key.on_disk.load(Ordering::Relaxed);
                    assert!(seen <= flushed, "{seen} is told before it is flushed");
                }
            })
        };
        key.unflushed.note(HASH, Mark::of(0), true);
        key.in_memory.store(1, Ordering::Release);
        key.unflushed.note(HASH, Mark::of(1), true);
        // What was put behind it is still in the log's memory.
        key.flush(1, true);
        key.in_memory.store(2, Ordering::Release);
        key.flush(2, false);
        reading.join().expect("the reader ends");
        assert!(key.unflushed.may_tell(HASH), "all is flushed");
    });
}
