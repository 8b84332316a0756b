//! Memory that is short: what may go for a new record, and what may not.

use super::*;
use crate::PolicyKind;

/// A value inline, and far from a block's worth.
const LEN: usize = 2000;

fn name(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Puts records until there is no room. Returns how many there are.
fn fill_up(worker: &mut Worker, len: usize) -> u64 {
    for number in 0.. {
        let key = name(number);
        let value = pattern(len, number);
        if worker.set(worker.key(&key), &Put::new(Value::Bytes(&value))).is_err() {
            return number;
        }
        worker.quiesce();
    }
    unreachable!("memory has an end");
}

#[test]
fn without_evictions_what_is_deleted_in_any_shard_has_room_for_others() {
    let config =
        CacheConfig { evicts: false, writers: 2, hash_seed: 7, ..CacheConfig::new(140 << 20) };
    let cache = Cache::new(config, Clock::manual(1_000_000)).expect("a cache");
    let mut worker = cache.worker().expect("a place");
    let full = fill_up(&mut worker, LEN);
    let owners = cache.table().sub_tables().iter().filter(|sub_table| sub_table.blocks() > 50);
    assert_eq!(owners.count(), 4, "shards of the one class");
    // As many for each shard, and less than a block's worth.
    let deleted: Vec<u64> = (0..full).step_by(full as usize / 60).collect();
    for &number in &deleted {
        worker.update(worker.key(&name(number)), |_| Change::Remove.into()).expect("removes");
        worker.quiesce();
    }
    for (at, number) in (full..).take(deleted.len()).enumerate() {
        let (key, value) = (name(number), pattern(LEN, number));
        let stored = worker.set(worker.key(&key), &Put::new(Value::Bytes(&value)));
        assert!(stored.is_ok(), "{at} of {}", deleted.len());
        worker.quiesce();
    }
    let (key, value) = (name(1 << 40), pattern(LEN, 0));
    let stored = worker.set(worker.key(&key), &Put::new(Value::Bytes(&value)));
    assert!(matches!(stored, Err(StoreError::OutOfMemory { .. })), "{stored:?}");
    assert_eq!(cache.stats().evictions, 0);
    worker.quiesce();
    cache.table().validate();
}

#[test]
fn a_put_never_evicts_the_record_of_its_own_key() {
    let cache = cache(8 << 20);
    let mut worker = cache.worker().expect("a place");
    let mut next = 0;
    // Until it evicts, and makes slots ahead.
    while cache.stats().evictions < 5000 {
        set(&mut worker, &name(next), &pattern(LEN, next));
        worker.quiesce();
        next += 1;
    }
    cache.follow_evictions(true);
    let _ = cache.take_evicted();
    // The next to go is mostly the one behind the last that went.
    let mut in_vain = 0;
    for _ in 0..500 {
        for _ in 0..8 {
            set(&mut worker, &name(next), &pattern(LEN, next));
            worker.quiesce();
            next += 1;
        }
        let gone = cache.take_evicted().0;
        let last = gone.last().expect("it is full");
        let key = name(1 + u64::from_le_bytes(last.key[..].try_into().expect("eight bytes")));
        let records = cache.stats().records;
        set(&mut worker, &key, &pattern(LEN, 1));
        let gone = cache.take_evicted().0;
        assert!(gone.iter().all(|evicted| evicted.key[..] != key), "its own record was evicted");
        in_vain += usize::from(!gone.is_empty() && cache.stats().records < records);
    }
    assert!(in_vain > 100, "{in_vain} slots made ahead of an overwrite");
    worker.quiesce();
    cache.table().validate();
}

#[test]
fn of_values_that_are_being_sent_no_more_go_than_are_asked_for() {
    for policy in [PolicyKind::Htr, PolicyKind::Fifo, PolicyKind::Lru, PolicyKind::Arc] {
        let config = CacheConfig {
            policy,
            value_size_max: 1 << 20,
            writers: 2,
            hash_seed: 7,
            ..CacheConfig::new(16 << 20)
        };
        let cache = Cache::new(config, Clock::manual(1_000_000)).expect("a cache");
        let mut worker = cache.worker().expect("a place");
        let pins: Vec<_> = (0..20)
            .map(|number| {
                set(&mut worker, &name(number), &pattern(100_000, number));
                match worker.get(worker.key(&name(number)), &mut Vec::new()) {
                    Get::Large(pinned) => pinned,
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        let table = cache.table();
        let owners = table.sub_tables().iter().filter(|sub_table| sub_table.blocks() > 0);
        let owner = owners.max_by_key(|sub_table| sub_table.bytes(&table.memory)).expect("one");
        assert!(owner.give_value(&table.memory));
        assert_eq!(cache.stats().evictions, 1, "{policy:?}: more than a block's worth");
        drop(pins);
        worker.quiesce();
        table.validate();
    }
}
