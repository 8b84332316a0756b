//! What goes when memory is full, and that nothing goes while memory is free.

use super::*;
use crate::PolicyKind;

const MIB: u64 = 1 << 20;
const VALUE_LEN: usize = 1000;

fn cache(policy: PolicyKind) -> Cache {
    let config = CacheConfig { policy, writers: 1, hash_seed: 7, ..CacheConfig::new(24 * MIB) };
    Cache::new(config, Clock::manual(1_000_000)).expect("a cache")
}

fn fill(worker: &mut Worker, keys: std::ops::Range<u64>) {
    for number in keys {
        set(worker, &number.to_le_bytes(), &[7; VALUE_LEN]);
        worker.quiesce();
    }
}

fn present(worker: &mut Worker, keys: std::ops::Range<u64>) -> u64 {
    keys.filter(|number| super::read(worker, &number.to_le_bytes()).is_some()).count() as u64
}

#[test]
fn what_returns_uses_free_memory_up() {
    for policy in PolicyKind::ALL.into_iter().filter(|kind| kind.remembers()) {
        let cache = cache(policy);
        let mut worker = cache.worker().expect("a place");
        // More than fits, so that keys are remembered.
        fill(&mut worker, 0..40_000);
        let held = cache.stats().records;
        // All of memory goes to another class, and is free again.
        worker.flush();
        while worker.sweep(usize::MAX) {}
        for number in 0..10_000u64 {
            set(&mut worker, &number.to_be_bytes(), &[7; 3000]);
            worker.quiesce();
        }
        worker.flush();
        while worker.sweep(usize::MAX) {}
        let evicted = cache.stats().evictions;
        fill(&mut worker, 0..held * 9 / 10);
        assert_eq!(cache.stats().evictions, evicted, "{policy}: evicted while memory was free");
        assert_eq!(present(&mut worker, 0..held * 9 / 10), held * 9 / 10, "{policy}");
    }
}

#[test]
fn nothing_is_evicted_while_slots_are_free() {
    for policy in PolicyKind::ALL.into_iter().filter(|kind| !kind.limits_partitions()) {
        let cache = cache(policy);
        let mut worker = cache.worker().expect("a place");
        // Most of it becomes hot.
        for _ in 0..3 {
            fill(&mut worker, 0..12_000);
            fill(&mut worker, 100_000..112_000);
            present(&mut worker, 0..12_000);
        }
        let held = cache.stats().records;
        worker.flush();
        while worker.sweep(usize::MAX) {}
        let evicted = cache.stats().evictions;
        fill(&mut worker, 0..held);
        assert_eq!(cache.stats().evictions, evicted, "{policy}: evicted while slots were free");
        assert_eq!(present(&mut worker, 0..held), held, "{policy}");
    }
}
