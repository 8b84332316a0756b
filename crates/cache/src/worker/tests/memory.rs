//! Memory that is made smaller and larger, and tables that give back what they do not need.

use super::*;
use crate::ConfigError;

const MIB: u64 = 1 << 20;

/// A cache of `memory_bytes` that may become one of `memory_max_bytes`.
fn growable(memory_bytes: u64, memory_max_bytes: u64) -> Cache {
    let config = CacheConfig {
        memory_max_bytes,
        value_size_max: MIB,
        writers: 2,
        hash_seed: 7,
        ..CacheConfig::new(memory_bytes)
    };
    Cache::new(config, Clock::manual(1_000_000)).expect("a cache")
}

fn fit(worker: &mut Worker) {
    for _ in 0..10_000 {
        if !worker.fit() {
            return;
        }
    }
    panic!("memory does not get where it should");
}

fn fill(worker: &mut Worker, keys: std::ops::Range<u64>, len: usize) {
    for number in keys {
        set(worker, &number.to_le_bytes(), &pattern(len, number));
        if number % 50 == 0 {
            worker.cache().clock().advance_ms(1);
        }
        worker.quiesce();
    }
}

/// How many of `keys` are there; panics on a wrong value.
fn present(worker: &mut Worker, keys: std::ops::Range<u64>, len: usize) -> usize {
    keys.filter(|&number| {
        let value = read(worker, &number.to_le_bytes());
        worker.quiesce();
        value.is_some_and(|value| {
            assert!(value == pattern(len, number), "key {number}");
            true
        })
    })
    .count()
}

#[test]
fn less_memory_keeps_what_fits_and_more_is_there_at_once() {
    for len in [20, 1000, 30_000] {
        let cache = growable(16 * MIB, 32 * MIB);
        let mut worker = cache.worker().expect("a place");
        let keys = 0..17 * MIB / (len as u64 + 40);
        fill(&mut worker, keys.clone(), len);
        let full = present(&mut worker, keys.clone(), len);
        cache.set_memory(4 * MIB).expect("enough");
        fit(&mut worker);
        let small = cache.stats();
        assert!(small.arena_bytes < 4 * MIB, "{small:?}");
        assert!(small.arena_used_bytes <= small.arena_bytes, "{small:?}");
        let kept = present(&mut worker, keys.clone(), len);
        assert!(kept * 6 > full, "{kept} of {full} values of {len} bytes are left");
        assert!(kept * 3 < full, "{kept} of {full} values of {len} bytes are left");
        worker.quiesce();
        cache.table().validate();
        cache.set_memory(32 * MIB).expect("reserved");
        let others = keys.end..keys.end * 2;
        fill(&mut worker, others.clone(), len);
        assert_eq!(present(&mut worker, others, len) as u64, keys.end, "room for all");
        assert_eq!(cache.stats().out_of_memory, 0);
        worker.quiesce();
        cache.table().validate();
    }
}

#[test]
fn memory_that_cannot_be_is_refused_and_changes_nothing() {
    let cache = growable(64 * MIB, 128 * MIB);
    let before = cache.stats();
    let refused = cache.set_memory(128 * MIB + 1);
    assert!(matches!(refused, Err(ConfigError::MemoryAboveMax { .. })), "{refused:?}");
    let refused = cache.set_memory(3 * MIB);
    assert!(matches!(refused, Err(ConfigError::ValueSizeMax { .. })), "{refused:?}");
    assert_eq!(cache.stats(), before);
}

#[test]
fn what_is_pinned_above_a_lowered_limit_keeps_nobody_from_storing() {
    let cache = growable(64 * MIB, 64 * MIB);
    let mut worker = cache.worker().expect("a place");
    let large = |number: u64| (1 << 40 | number).to_le_bytes();
    let mut pins = Vec::new();
    for number in 0..14 {
        set(&mut worker, &large(number), &pattern(MIB as usize, number));
        match worker.get(worker.key(&large(number)), &mut Vec::new()) {
            Get::Large(pinned) => pins.push(pinned),
            other => panic!("{other:?}"),
        }
        worker.quiesce();
    }
    fill(&mut worker, 0..1000, 100);
    cache.set_memory(12 * MIB).expect("enough for one that nobody pins");
    fit(&mut worker);
    fill(&mut worker, 2000..3000, 100);
    assert_eq!(present(&mut worker, 2000..3000, 100), 1000);
    assert_eq!(cache.stats().out_of_memory, 0);
    // By a thread that is offline: what is pinned lies in blocks that are being given back.
    worker.offline(|| drop(pins));
    fit(&mut worker);
    let stats = cache.stats();
    assert!(stats.arena_used_bytes <= stats.arena_bytes, "{stats:?}");
    assert!(stats.arena_bytes < 12 * MIB, "{stats:?}");
    worker.quiesce();
    cache.table().validate();
}

#[test]
fn index_and_ghosts_of_small_records_make_room_for_large_ones() {
    let cache = cache(8 * MIB);
    let mut worker = cache.worker().expect("a place");
    fill(&mut worker, 0..250_000, 0);
    let small = cache.stats();
    assert!(small.index_bytes + small.ghost_bytes > 3 * MIB / 2, "{small:?}");
    // A key that was made when the index was large.
    let (name, absent) = (1u64.to_le_bytes(), u64::MAX.to_le_bytes());
    let keys = [worker.key(&name), worker.key(&absent)];
    for round in 0..4 {
        let from = 3_000_000 + round * 100_000;
        fill(&mut worker, from..from + 9_000, 1000);
        fit(&mut worker);
    }
    let large = cache.stats();
    assert!(large.index_bytes * 2 < small.index_bytes, "{large:?}");
    assert!(large.ghost_bytes < small.ghost_bytes, "{large:?}");
    assert_eq!(large.out_of_memory, 0);
    let mut out = Vec::new();
    for key in keys {
        assert!(matches!(worker.get(key, &mut out), Get::Miss));
        worker.set(key, &Put::new(Value::Bytes(b"new"))).expect("memory");
        assert!(matches!(worker.get(key, &mut out), Get::Hit(_)));
    }
    worker.quiesce();
    cache.table().validate();
    // Three turnovers later there are as many small ones as at first.
    for round in 0..5 {
        fill(&mut worker, round * 125_000..(round + 1) * 125_000, 0);
        fit(&mut worker);
    }
    assert!(cache.stats().records * 20 > small.records * 19, "{:?}", cache.stats());
    worker.quiesce();
    cache.table().validate();
}

#[test]
fn the_longest_value_that_may_be_is_stored_and_sent_in_little_memory() {
    // A quarter of the memory: more than a quarter of the arena.
    const MEMORY_BYTES: usize = 4 << 20;
    let cache = cache(MEMORY_BYTES as u64);
    let mut worker = cache.worker().expect("a place");
    for round in 0..3 {
        for len in [MEMORY_BYTES / 4, MEMORY_BYTES / 4 - 1] {
            let value = pattern(len, round);
            set(&mut worker, b"k", &value);
            assert!(read(&mut worker, b"k") == Some(value), "{len}");
            worker.quiesce();
        }
    }
    cache.table().validate();
}

#[test]
fn more_sizes_than_blocks_are_stored_in_turn() {
    // 40 blocks or so, and records of some sixty classes and as many ranges of large values.
    let config = CacheConfig { value_size_max: 300_000, writers: 1, ..CacheConfig::new(40 << 16) };
    let config = CacheConfig { value_share_divisor: 1, ..config };
    let cache = Cache::new(config, Clock::manual(1_000_000)).expect("a cache");
    let mut worker = cache.worker().expect("a place");
    for round in 0..20 {
        let sizes =
            (0..60).map(|step| 8 + step * 68).chain([5_000, 10_000, 20_000, 40_000, 200_000]);
        for (number, len) in sizes.enumerate() {
            let name = (round << 32 | number as u64).to_le_bytes();
            set(&mut worker, &name, &pattern(len, round));
            assert_eq!(read(&mut worker, &name), Some(pattern(len, round)), "{len}");
            worker.quiesce();
        }
    }
    assert_eq!(cache.stats().out_of_memory, 0);
    cache.table().validate();
}
