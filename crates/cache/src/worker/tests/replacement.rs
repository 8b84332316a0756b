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

#[test]
fn what_returns_is_hot_though_its_slot_was_made_before_that_was_known() {
    let cache = cache(PolicyKind::Htr);
    let mut worker = cache.worker().expect("a place");
    fill(&mut worker, 0..40_000);
    let held = cache.stats().records;
    // Evicted not long ago.
    let returning = 39_800 - held..39_900 - held;
    assert_eq!(present(&mut worker, returning.clone()), 0);
    assert!(worker.slot_need.is_likely());
    fill(&mut worker, returning.clone());
    fill(&mut worker, 100_000..100_000 + held);
    let kept = present(&mut worker, returning);
    assert!(kept >= 90, "{kept} of 100 are left");
    drop(worker);
    cache.table().validate();
}

#[test]
fn a_slot_that_was_made_in_vain_serves_the_next_record() {
    for policy in PolicyKind::ALL.into_iter().filter(|kind| !kind.limits_partitions()) {
        let cache = cache(policy);
        let mut worker = cache.worker().expect("a place");
        fill(&mut worker, 0..40_000);
        assert!(worker.slot_need.is_likely(), "{policy}");
        let before = cache.stats();
        fill(&mut worker, 39_999..40_000);
        let between = cache.stats();
        assert_eq!(between.evictions, before.evictions + 1, "{policy}: for nothing");
        assert_eq!(between.records, before.records - 1, "{policy}");
        fill(&mut worker, 40_000..40_001);
        let after = cache.stats();
        assert_eq!((after.evictions, after.records), (between.evictions, before.records));
        fill(&mut worker, 39_900..40_000);
        assert!(!worker.slot_need.is_likely(), "{policy}");
        let evictions = cache.stats().evictions;
        fill(&mut worker, 39_900..40_000);
        assert_eq!(cache.stats().evictions, evictions, "{policy}: nothing is new");
        drop(worker);
        cache.table().validate();
    }
}

#[test]
fn workers_go_from_shard_to_shard_and_begin_with_different_ones() {
    let config = CacheConfig { writers: 1, hash_seed: 7, ..CacheConfig::new(256 * MIB) };
    let cache = Cache::new(config, Clock::manual(1_000_000)).expect("a cache");
    let bytes = || {
        let used = cache.table().sub_tables().iter().map(|it| it.summary().taken_bytes);
        used.filter(|bytes| *bytes > 0).collect::<Vec<_>>()
    };
    let mut workers = [(); 2].map(|()| cache.worker().expect("a place"));
    // Slots of 64 bytes.
    let mut number = 0u64;
    let mut store = |worker: &mut Worker, records: u64| {
        for _ in 0..records {
            number += 1;
            set(worker, &number.to_le_bytes(), &[7; 44]);
        }
    };
    store(&mut workers[0], 64);
    assert_eq!(bytes(), [4096]);
    store(&mut workers[1], 32);
    assert_eq!(bytes(), [4096, 2048]);
    store(&mut workers[0], 3 * 64);
    assert_eq!(bytes(), [4096, 4096 + 2048, 4096, 4096]);
    store(&mut workers[0], 32);
    assert_eq!(bytes(), [4096 + 2048, 4096 + 2048, 4096, 4096]);
}
