use std::collections::HashSet;

use base::{clock::Clock, sync::thread};

use super::*;
use crate::{
    Cache, CacheConfig, Change, Get, Put, Value,
    index::{Merge, STALLED_MS},
};

fn cache(clock: &Clock) -> Cache {
    let config = CacheConfig { writers: 1, ..CacheConfig::new(64 << 20) };
    Cache::new(config, clock.clone()).expect("a cache")
}

fn set(worker: &mut Worker, number: u32, value: &[u8]) {
    let name = number.to_be_bytes();
    worker.set(worker.key(&name), &Put::new(Value::Bytes(value))).expect("memory");
}

/// Goes on for at most `steps` and adds what it meets to `met`.
fn go_on(cursor: &mut Cursor, worker: &mut Worker, steps: usize, met: &mut Vec<u32>) -> Step {
    for _ in 0..steps {
        let step = cursor.step(worker, |listed| {
            met.push(u32::from_be_bytes(listed.key.try_into().expect("four bytes")));
        });
        if step != Step::More {
            return step;
        }
    }
    Step::More
}

#[test]
fn every_record_of_a_cache_at_rest_is_met_once_with_its_fields() {
    let clock = Clock::manual(1_000_000);
    let mut worker = cache(&clock).worker().expect("a place");
    for (key, len, expiry_ms) in [("a", 3, 0), ("expires", 4096, 1_005_000), ("parts", 70_000, 0)] {
        let value = vec![1; len];
        let put = Put { client_flags: 7, expiry_ms, ..Put::new(Value::Bytes(&value)) };
        worker.set(worker.key(key.as_bytes()), &put).expect("memory");
    }
    let dead = Put { expiry_ms: 1_001_000, ..Put::new(Value::Bytes(b"")) };
    worker.set(worker.key(b"dead"), &dead).expect("memory");
    assert!(matches!(worker.get(worker.key(b"a"), &mut Vec::new()), Get::Hit(_)));
    clock.advance_ms(2_000);
    worker.quiesce();
    let mut cursor = Cursor::begin(&worker).expect("the only one");
    let mut met = Vec::new();
    loop {
        let step = cursor.step(&mut worker, |listed| {
            let Meta { value_len, expiry_ms, fetched, client_flags, .. } = listed.meta;
            assert_eq!((client_flags, listed.age_ms), (7, 2_000));
            met.push((listed.key.to_vec(), value_len, expiry_ms, fetched));
        });
        match step {
            Step::More => {}
            Step::End => break,
            Step::Lost => panic!("nobody took it"),
        }
    }
    met.sort();
    let wanted =
        [("a", 3, 0, true), ("expires", 4096, 1_005_000, false), ("parts", 70_000, 0, false)];
    assert_eq!(met, wanted.map(|(key, len, at, read)| (key.as_bytes().to_vec(), len, at, read)));
    assert_eq!(cursor.step(&mut worker, |_| {}), Step::Lost, "the end comes once");
}

/// Twelve thousand keys fill the buckets that there are at first to four fifths, so that some of
/// those that come displace others.
#[test]
fn what_stays_is_met_whatever_is_displaced_and_split_meanwhile() {
    let mut worker = cache(&Clock::manual(1_000_000)).worker().expect("a place");
    let mut stays: u32 = 0;
    let buckets = worker.table().memory.index.buckets();
    while u64::from(stays) * 10 < buckets * 7 * 8 {
        set(&mut worker, stays, b"stays");
        stays += 1;
    }
    let mut cursor = Cursor::begin(&worker).expect("the only one");
    let (mut met, mut next) = (Vec::new(), stays);
    while go_on(&mut cursor, &mut worker, 8, &mut met) == Step::More {
        // Some go so that others come: the load stays below what growth begins at, for a while.
        for _ in 0..40 {
            set(&mut worker, next, b"comes");
            let gone = next.saturating_sub(if next % 3 == 0 { 400 } else { 40 }).max(stays);
            let name = gone.to_be_bytes();
            let key = worker.key(&name);
            worker.update(key, |_| Change::Remove.into()).expect("no memory needed");
            next += 1;
        }
    }
    let met: HashSet<u32> = met.into_iter().collect();
    let missed = (0..stays).filter(|number| !met.contains(number)).count();
    assert_eq!(missed, 0, "records that stayed were missed by the walk");
    worker.table().validate();
}

#[test]
fn what_stays_is_met_while_other_threads_write() {
    let cache = cache(&Clock::system());
    let mut worker = cache.worker().expect("a place");
    let stays = 50_000;
    (0..stays).for_each(|number| set(&mut worker, number, b"stays"));
    let handles: Vec<_> = (1..3u32)
        .map(|thread| {
            let mut worker = cache.worker().expect("a place");
            thread::spawn(move || {
                for number in 0..60_000 {
                    worker.quiesce();
                    // Other sizes go to other slots, and new records make the index grow.
                    set(&mut worker, number % stays, &vec![0; (number % 97) as usize]);
                    set(&mut worker, stays + thread * 1_000_000 + number, b"comes");
                }
            })
        })
        .collect();
    for round in 0..3 {
        let mut cursor = Cursor::begin(&worker).expect("the only one");
        let mut met = Vec::new();
        while go_on(&mut cursor, &mut worker, 64, &mut met) == Step::More {
            worker.quiesce();
        }
        let met: HashSet<u32> = met.into_iter().collect();
        let missed = (0..stays).find(|number| !met.contains(number));
        assert_eq!(missed, None, "round {round}");
    }
    worker.offline(|| handles.into_iter().for_each(|handle| handle.join().expect("it ends")));
}

#[test]
fn one_goes_at_a_time_and_who_stalls_gives_way() {
    let clock = Clock::manual(1_000_000);
    let mut worker = cache(&clock).worker().expect("a place");
    let mut first = Cursor::begin(&worker).expect("the first");
    assert!(Cursor::begin(&worker).is_none());
    clock.advance_ms(STALLED_MS - 1);
    worker.quiesce();
    assert!(Cursor::begin(&worker).is_none());
    assert_eq!(first.step(&mut worker, |_| {}), Step::More);
    clock.advance_ms(STALLED_MS);
    worker.quiesce();
    let mut second = Cursor::begin(&worker).expect("the first one stalls");
    assert_eq!(first.step(&mut worker, |_| {}), Step::Lost);
    drop(first);
    assert_eq!(second.step(&mut worker, |_| {}), Step::More, "the lost one ends nobody else's");
    drop(second);
    assert!(Cursor::begin(&worker).is_some());
    // Housekeeping ends one that stalls, so that the index may shrink.
    let mut third = Cursor::begin(&worker).expect("none is left");
    clock.advance_ms(STALLED_MS);
    worker.fit();
    assert_eq!(third.step(&mut worker, |_| {}), Step::Lost);
}

#[test]
fn the_index_does_not_shrink_under_a_cursor() {
    let mut worker = cache(&Clock::manual(1_000_000)).worker().expect("a place");
    (0..200_000).for_each(|number| set(&mut worker, number, b"value"));
    let cursor = Cursor::begin(&worker).expect("the only one");
    let memory = &worker.table().memory;
    let grown = memory.index.buckets();
    assert_eq!(memory.index.merge(&memory.arena), Merge::NotNow);
    drop(cursor);
    assert_ne!(memory.index.merge(&memory.arena), Merge::NotNow);
    assert_eq!(memory.index.buckets(), grown - 1);
}
