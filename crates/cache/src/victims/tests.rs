//! What was evicted waits.

use std::collections::BTreeMap;

use base::clock::Clock;

use super::*;
use crate::{Cache, CacheConfig, Get, Put, Value, Worker};

fn made(victim_bytes: usize) -> (Cache, Worker) {
    let config = CacheConfig { writers: 1, victim_bytes, ..CacheConfig::new(4 << 20) };
    let cache = Cache::new(CacheConfig { value_size_max: 1 << 19, ..config }, Clock::system());
    let cache = cache.expect("a cache");
    let worker = cache.worker().expect("a place");
    (cache, worker)
}

/// Some are in parts.
fn value_of(number: u32) -> Vec<u8> {
    vec![number as u8; if number.is_multiple_of(50) { 20_000 } else { 500 }]
}

fn set(worker: &mut Worker, number: u32) {
    let value = value_of(number);
    let put = Put { client_flags: number, ..Put::new(Value::Bytes(&value)) };
    worker.set(worker.key(&number.to_be_bytes()), &put).expect("memory");
}

/// Takes out what waits longest.
fn take(worker: &Worker) -> Option<(u32, Vec<u8>)> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let victim = worker.next_victim(None)?;
    let meta = worker.victim_key(victim, &mut key).expect("it waits");
    assert!(worker.victim_value(victim, &meta, &mut value), "it waits");
    worker.leave_victim(victim);
    assert_eq!(key, meta.client_flags.to_be_bytes());
    Some((meta.client_flags, value))
}

#[test]
fn what_is_evicted_waits_whole_until_it_is_taken() {
    let (cache, mut worker) = made(1 << 20);
    let mut taken = BTreeMap::new();
    for number in 0..12_000 {
        set(&mut worker, number);
        taken.extend(std::iter::from_fn(|| take(&worker)));
    }
    let counts = cache.victim_counts();
    assert!(counts.noted > 3_000, "it is too large to evict");
    assert_eq!((counts.lost, counts.waiting), (0, 0));
    for number in 0..12_000_u32 {
        let mut value = Vec::new();
        let got = match worker.get(worker.key(&number.to_be_bytes()), &mut value) {
            Get::Large(pinned) => Some(pinned.slices().flatten().copied().collect()),
            Get::Hit(_) => Some(value),
            _ => taken.remove(&number),
        };
        assert_eq!(got, Some(value_of(number)), "record {number}");
    }
}

#[test]
fn what_waits_is_found_until_its_key_is_written_or_all_is_flushed() {
    let (cache, mut worker) = made(1 << 20);
    let found = |worker: &Worker, number: u32| {
        let mut value = Vec::new();
        let meta = worker.find_victim(worker.key(&number.to_be_bytes()), &mut value);
        meta.map(|_| value)
    };
    for number in [50, 51, 52] {
        set(&mut worker, number);
        assert!(worker.evict(worker.key(&number.to_be_bytes())));
        assert!(!worker.evict(worker.key(&number.to_be_bytes())), "it is there twice");
        assert_eq!(found(&worker, number), Some(value_of(number)));
    }
    worker.forget_victim(worker.key(&50_u32.to_be_bytes()), None);
    assert_eq!(found(&worker, 50), None);
    assert_eq!(take(&worker), Some((51, value_of(51))));
    set(&mut worker, 53);
    worker.flush();
    assert_eq!((found(&worker, 52), worker.next_victim(None)), (None, None));
    // What is evicted now is dead.
    for number in 0..1000 {
        set(&mut worker, number);
    }
    worker.flush();
    for number in 20_000..32_000 {
        set(&mut worker, number);
        while let Some((number, _)) = take(&worker) {
            assert!(number >= 20_000, "record {number} waits, and was flushed");
        }
    }
    let counts = cache.victim_counts();
    assert_eq!((counts.overtaken, counts.lost), (2, 0));
}

#[test]
fn no_more_waits_than_has_room() {
    let (cache, mut worker) = made(50_000);
    let mut evict = |number| {
        set(&mut worker, number);
        worker.evict(worker.key(&number.to_be_bytes()));
        cache.victim_counts()
    };
    // In parts: each takes 20,004 bytes of the 50,000.
    assert_eq!([50, 100, 150].map(|number| evict(number).lost), [0, 0, 1]);
    let left = (50_000 - 2 * 20_004) / 504;
    let counts = (1..=left + 1).map(&mut evict).last();
    assert_eq!(counts.map(|it| (it.waiting, it.lost)), Some((u64::from(left) + 2, 2)));
    let (cache, mut worker) = made(50_000);
    for number in 0..1500_u32 {
        let name = number.to_be_bytes();
        let key = worker.key(&name);
        worker.set(key, &Put::new(Value::Bytes(b"small"))).expect("memory");
        worker.evict(key);
    }
    assert_eq!(cache.victim_counts().waiting, PLACES_MIN as u64);
}

#[test]
fn an_eviction_does_not_wait_for_who_has_the_queue() {
    let (cache, mut worker) = made(1 << 20);
    set(&mut worker, 1);
    let waiting = cache.table().memory.victims.on().expect("it is on");
    let queue = lock(&waiting.queue);
    assert!(worker.evict(worker.key(&1_u32.to_be_bytes())));
    drop(queue);
    assert_eq!(cache.victim_counts(), VictimCounts { lost: 1, ..VictimCounts::default() });
    assert_eq!(worker.next_victim(None), None);
}

#[test]
fn what_has_the_token_of_the_new_record_goes_on_waiting() {
    let (cache, mut worker) = made(1 << 20);
    let name = 1_u32.to_be_bytes();
    set(&mut worker, 1);
    worker.evict(worker.key(&name));
    set(&mut worker, 1);
    worker.evict(worker.key(&name));
    let mut value = Vec::new();
    let newest = worker.find_victim(worker.key(&name), &mut value).expect("it waits").token;
    worker.forget_victim(worker.key(&name), Some(newest));
    let found = worker.find_victim(worker.key(&name), &mut value).map(|meta| meta.token);
    assert_eq!((found, cache.victim_counts().overtaken), (Some(newest), 1));
    worker.forget_victim(worker.key(&name), Some(newest + 1));
    assert_eq!(cache.victim_counts().waiting, 0);
}

#[test]
fn those_behind_one_that_has_to_wait_are_taken_in_its_place() {
    let (_cache, mut worker) = made(1 << 20);
    for number in 1..4_u32 {
        set(&mut worker, number);
        worker.evict(worker.key(&number.to_be_bytes()));
    }
    let first = worker.next_victim(None);
    let second = worker.next_victim(first).expect("it waits");
    worker.leave_victim(second);
    assert!(!worker.waits(second));
    assert!(worker.next_victim(first).is_some_and(|third| third != second));
    assert_eq!(take(&worker).map(|(number, _)| number), Some(1));
    assert_eq!(take(&worker).map(|(number, _)| number), Some(3));
    assert_eq!(worker.next_victim(None), None);
}

#[test]
fn what_was_looked_at_before_a_flush_is_dead_behind_it() {
    let (_cache, mut worker) = made(1 << 20);
    let name = 1_u32.to_be_bytes();
    let put = Put::new(Value::Bytes(b"old"));
    set(&mut worker, 1);
    worker.evict(worker.key(&name));
    let flushes = worker.flushes();
    worker.flush();
    let mut value = Vec::new();
    worker.fill_as_of(flushes, worker.key(&name), &put).expect("memory");
    assert!(matches!(worker.get(worker.key(&name), &mut value), Get::Miss), "a fill came behind");
    worker.set_as_of(flushes, false, worker.key(&name), &put).expect("memory");
    assert!(matches!(worker.get(worker.key(&name), &mut value), Get::Miss), "a set came behind");
    worker.fill_as_of(worker.flushes(), worker.key(&name), &put).expect("memory");
    let got = worker.get(worker.key(&name), &mut value);
    assert!(matches!(got, Get::Hit(meta) if meta.fetched), "{got:?}");
}

#[test]
fn a_second_flush_ends_when_nothing_waits_too() {
    let (cache, mut worker) = made(1 << 20);
    set(&mut worker, 1);
    worker.flush();
    // As if the first had begun the generation, and come to nothing else yet.
    set(&mut worker, 2);
    worker.evict(worker.key(&2_u32.to_be_bytes()));
    let table = cache.table();
    table.flushed_before.store(table.next_sequence(), Ordering::Release);
    worker.flush();
    assert_eq!(cache.victim_counts().waiting, 0, "it waits, and all was flushed");
}

#[test]
fn a_value_is_copied_also_when_too_much_is_pinned() {
    let (_cache, mut worker) = made(1 << 20);
    let long = vec![b'v'; 400 << 10];
    let name = 9_u32.to_be_bytes();
    let mut pins = Vec::new();
    let mut out = Vec::new();
    for number in 0..4_u32 {
        let put = Put::new(Value::Bytes(&long));
        worker.set(worker.key(&number.to_be_bytes()), &put).expect("memory");
        match worker.get(worker.key(&number.to_be_bytes()), &mut out) {
            Get::Large(pinned) => pins.push(pinned),
            got => assert!(matches!(got, Get::Busy), "{got:?}"),
        }
    }
    assert!(pins.len() < 4, "all are pinned");
    assert!(worker.copy(worker.key(&3_u32.to_be_bytes()), &mut out).is_some());
    assert_eq!(out, long);
    set(&mut worker, 9);
    assert!(worker.copy(worker.key(&name), &mut out).is_some());
    assert_eq!(out, value_of(9));
    assert_eq!(worker.copy(worker.key(&10_u32.to_be_bytes()), &mut out).map(|_| ()), None);
}

#[test]
fn what_is_too_long_for_who_takes_it_does_not_wait() {
    let (cache, mut worker) = made(1 << 20);
    cache.limit_victims(1000);
    for number in [50, 51] {
        set(&mut worker, number);
        assert!(worker.evict(worker.key(&number.to_be_bytes())));
    }
    let counts = cache.victim_counts();
    assert_eq!((counts.long, counts.noted, counts.lost), (1, 1, 0));
    assert_eq!(take(&worker).map(|(number, _)| number), Some(51));
}
