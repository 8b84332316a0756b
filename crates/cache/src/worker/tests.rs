mod memory;
mod replacement;
mod scarce;
mod time;

use std::collections::HashMap;

use base::sync::atomic::Ordering;

use super::*;
use crate::{Change, Decision, Digits, Edit, Get, KEY_LEN_MAX, Put, Token, Value};

fn cache(memory_bytes: u64) -> Cache {
    let config = CacheConfig {
        hash_seed: 0x0123_4567_89ab_cdef << 64 | 0xfedc_ba98_7654_3210,
        value_size_max: memory_bytes / 4,
        writers: 2,
        ..CacheConfig::new(memory_bytes)
    };
    Cache::new(config, Clock::manual(1_000_000)).expect("a cache")
}

/// A generator that every run repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn read(worker: &mut Worker, key: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match worker.get(worker.key(key), &mut out) {
        Get::Miss => None,
        Get::Hit(meta) => {
            assert_eq!(meta.value_len as usize, out.len());
            Some(out)
        }
        Get::Large(pinned) => Some(pinned.slices().collect::<Vec<_>>().concat()),
        Get::Busy => panic!("nothing else is pinned"),
    }
}

fn set(worker: &mut Worker, key: &[u8], value: &[u8]) -> u64 {
    worker.set(worker.key(key), &Put::new(Value::Bytes(value))).expect("memory")
}

/// Bytes that differ from place to place and from seed to seed.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut words = Random(seed << 1 | 1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&words.below(u64::MAX).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn tokens_of_an_earlier_cache_are_no_writes() {
    let cache = cache(1 << 22);
    cache.continue_after(1_000);
    cache.continue_after(500);
    assert_eq!((cache.last_token(), cache.stats().writes), (1_000, 0));
    let mut worker = cache.worker().expect("a place");
    assert_eq!(set(&mut worker, b"key", b"value"), 1_001);
    cache.continue_after(2_000);
    assert_eq!((cache.last_token(), cache.stats().writes), (2_000, 1));
}

#[test]
fn values_of_every_size_survive_overwrites() {
    let cache = cache(64 << 20);
    let mut worker = cache.worker().expect("a place");
    let mut random = Random(42);
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for step in 0..20_000u64 {
        let key = format!("key-{}", random.below(300)).into_bytes();
        let len = match random.below(20) {
            0 => random.below(300_000),
            1..3 => random.below(9000),
            _ => random.below(300),
        };
        match random.below(10) {
            0 => {
                worker.update(worker.key(&key), |_| Change::Remove.into()).expect("removes");
                model.remove(&key);
            }
            1..6 => {
                let value = pattern(len as usize, step);
                set(&mut worker, &key, &value);
                model.insert(key.clone(), value);
            }
            _ => {}
        }
        assert!(read(&mut worker, &key) == model.get(&key).cloned(), "step {step}");
        worker.quiesce();
    }
    assert_eq!(cache.stats().evictions, 0, "all of it fits");
    assert_eq!(cache.stats().records, model.len() as u64);
    for (key, value) in &model {
        assert!(read(&mut worker, key).as_ref() == Some(value));
    }
    for key in model.keys() {
        worker.update(worker.key(key), |_| Change::Remove.into()).expect("removes");
    }
    let stats = cache.stats();
    assert_eq!((stats.records, stats.record_bytes), (0, 0), "everything came back");
}

#[test]
fn a_full_cache_evicts_and_never_mixes_values() {
    let cache = cache(8 << 20);
    let mut worker = cache.worker().expect("a place");
    let mut random = Random(7);
    let mut hits = 0;
    for step in 0..400_000u64 {
        let number = random.below(400_000);
        let key = number.to_le_bytes();
        let len = 20 + (number % 150) as usize;
        if random.below(3) == 0 {
            set(&mut worker, &key, &pattern(len, number));
        } else if let Some(value) = read(&mut worker, &key) {
            assert!(value == pattern(len, number), "step {step}");
            hits += 1;
        }
        worker.quiesce();
    }
    let stats = cache.stats();
    assert!(stats.evictions > 10_000, "{stats:?}");
    assert!(hits > 20_000, "{hits} {stats:?}");
    assert_eq!(stats.out_of_memory, 0);
    assert!(stats.record_bytes * 10 > stats.arena_bytes * 8, "{stats:?}");
}

#[test]
fn large_values_push_out_small_ones_and_the_other_way_round() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    for number in 0..200_000u64 {
        set(&mut worker, &number.to_le_bytes(), &pattern(60, number));
        worker.quiesce();
    }
    for number in 0..100u64 {
        let value = pattern(1_000_000, number);
        set(&mut worker, &number.to_be_bytes(), &value);
        assert!(read(&mut worker, &number.to_be_bytes()) == Some(value), "{number}");
        worker.quiesce();
    }
    let kept = (0..100u64).filter(|n| read(&mut worker, &n.to_be_bytes()).is_some()).count();
    assert!(kept >= 4, "{kept} {:?}", cache.stats());
    for number in 0..400_000u64 {
        set(&mut worker, &number.to_le_bytes(), &pattern(60, number));
        worker.quiesce();
    }
    let kept = (0..400_000u64).filter(|n| read(&mut worker, &n.to_le_bytes()).is_some()).count();
    assert!(kept > 20_000, "{kept} {:?}", cache.stats());
    assert_eq!(cache.stats().out_of_memory, 0);
}

/// Values in parts go in the policy's order as well: those that were wanted once do not stay for
/// ever while each new one has to go at once.
#[test]
fn new_large_values_are_given_their_share() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    let value = pattern(9_000, 3);
    let name = |number: u64| number.to_le_bytes();
    for number in 0..1_500 {
        set(&mut worker, &name(number), &value);
        for _ in 0..2 {
            assert!(read(&mut worker, &name(number)).is_some());
        }
    }
    let evictions = cache.stats().evictions;
    let found = (2_000..6_000).filter(|&number| {
        set(&mut worker, &name(number), &value);
        number >= 2_050 && read(&mut worker, &name(number - 50)).is_some()
    });
    let found = found.count();
    assert!(found > 3_900, "{found} of 3950");
    assert!(cache.stats().evictions > evictions + 3_000);
}

#[test]
fn a_pinned_value_outlives_its_record() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    let value = pattern(500_000, 1);
    set(&mut worker, b"k", &value);
    let Get::Large(pinned) = worker.get(worker.key(b"k"), &mut Vec::new()) else {
        panic!("a large value is pinned")
    };
    assert!(cache.stats().pinned_bytes >= 500_000);
    for number in 0..100u64 {
        set(&mut worker, b"k", &pattern(500_000, number));
        worker.quiesce();
    }
    worker.update(worker.key(b"k"), |_| Change::Remove.into()).expect("removes");
    assert!(pinned.slices().collect::<Vec<_>>().concat() == value);
    drop(pinned);
    let stats = cache.stats();
    assert_eq!((stats.pinned_bytes, stats.record_bytes), (0, 0));
}

#[test]
fn updates_see_and_change_one_record() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    let key = worker.key(b"counter");
    let add = |worker: &mut Worker| {
        worker.update(key, |view| match view {
            None => Change::Put(Put::new(Value::Digits(Digits::new(9, 0)))).into(),
            Some(view) => {
                let mut text = [0; 20];
                let len = view.copy_prefix(&mut text);
                let number: u64 =
                    std::str::from_utf8(&text[..len]).expect("digits").parse().expect("a number");
                Change::Put(Put::new(Value::Digits(Digits::new(number + 1, len)))).into()
            }
        })
    };
    let first = add(&mut worker).expect("memory").expect("a token");
    let second = add(&mut worker).expect("memory").expect("a token");
    assert!(second > first);
    assert_eq!(read(&mut worker, b"counter").as_deref(), Some(&b"10"[..]));
    for (value, expected) in [
        (Value::Append(b" and more than fits the class"), &b"10 and more than fits the class"[..]),
        (Value::Prepend(b"<"), b"<10 and more than fits the class"),
    ] {
        worker.update(key, |_| Change::Put(Put::new(value)).into()).expect("memory");
        assert_eq!(read(&mut worker, b"counter").as_deref(), Some(expected));
    }
    let long = pattern(10_000, 3);
    worker.update(key, |_| Change::Put(Put::new(Value::Append(&long))).into()).expect("memory");
    let mut expected = b"<10 and more than fits the class".to_vec();
    expected.extend_from_slice(&long);
    assert!(read(&mut worker, b"counter") == Some(expected.clone()));
    worker.update(key, |_| Change::Put(Put::new(Value::Prepend(b"x"))).into()).expect("memory");
    expected.insert(0, b'x');
    assert!(read(&mut worker, b"counter") == Some(expected.clone()));
    let mut upload = worker.upload(70_000).expect("allowed");
    let body = pattern(70_000, 4);
    for bytes in body.chunks(777) {
        upload.push(&mut worker, bytes).expect("memory");
    }
    worker
        .update_uploaded(key, upload, |_| Change::Put(Put::new(Value::AppendUploaded)).into())
        .expect("memory");
    expected.extend_from_slice(&body);
    assert!(read(&mut worker, b"counter") == Some(expected));
}

#[test]
fn edits_change_fields_and_leave_the_value_and_its_token() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    for len in [10, 20_000] {
        let key = worker.key(b"k");
        let value = pattern(len, 1);
        let token = set(&mut worker, b"k", &value);
        let edit = Edit { expiry_ms: Some(1_005_000), stale: Some(true), ..Edit::default() };
        assert_eq!(worker.update(key, |_| Change::Edit(edit).into()), Ok(Some(token)));
        let mut seen = None;
        let keep = |view: Option<&View<'_>>| {
            seen = view.map(View::meta);
            Decision { change: Change::Keep, hit: false }
        };
        worker.update(key, keep).expect("nothing to do");
        let meta = seen.expect("there");
        assert_eq!((meta.expiry_ms, meta.stale, meta.token), (1_005_000, true, token));
        assert!(read(&mut worker, b"k") == Some(value.clone()));
        let edit = Edit { expiry_ms: Some(1_006_000), ..Edit::default() };
        worker.update(key, |_| Change::Edit(edit).into()).expect("in place");
        worker
            .update(key, |view| {
                assert!(view.expect("there").meta().fetched, "an edit keeps the mark");
                Change::Keep.into()
            })
            .expect("nothing to do");
        let edit = Edit { token: Some(Token::Given(5)), expiry_ms: Some(0), ..Edit::default() };
        assert_eq!(worker.update(key, |_| Change::Edit(edit).into()), Ok(Some(5)));
        assert!(read(&mut worker, b"k") == Some(value));
    }
}

#[test]
fn a_hit_that_needs_a_larger_slot_counts_once_and_only_when_done() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    set(&mut worker, b"k", b"0123456789");
    let mut seen = Vec::new();
    worker
        .update(worker.key(b"k"), |view| {
            seen.push(view.expect("there").meta().fetched);
            let edit = Edit { expiry_ms: Some(1_005_000), ..Edit::default() };
            Decision { change: Change::Edit(edit), hit: true }
        })
        .expect("memory");
    assert!(seen.len() > 1 && !seen.contains(&true), "{seen:?}");
    let mut out = Vec::new();
    let Get::Hit(meta) = worker.get(worker.key(b"k"), &mut out) else { panic!("still there") };
    assert!(meta.fetched && meta.expiry_ms == 1_005_000);
}

#[test]
fn the_longest_value_may_be_shorter_than_what_is_inline() {
    let config = CacheConfig { value_size_max: 1024, ..CacheConfig::new(16 << 20) };
    let cache = Cache::new(config, Clock::manual(1_000_000)).expect("a cache");
    let mut worker = cache.worker().expect("a place");
    set(&mut worker, b"a", &[1; 1024]);
    let error = worker.set(worker.key(b"a"), &Put::new(Value::Bytes(&[2; 1025])));
    assert_eq!(error, Err(StoreError::ValueTooLarge { len: 1025, max: 1024 }));
    assert_eq!(read(&mut worker, b"a"), Some(vec![1; 1024]));
}

#[test]
#[should_panic(expected = "the cache that made it")]
fn a_key_of_another_cache_is_refused() {
    let (one, other) = (cache(16 << 20), cache(16 << 20));
    let mut worker = one.worker().expect("a place");
    let foreign = other.worker().expect("a place");
    let _ = worker.get(foreign.key(b"a"), &mut Vec::new());
}

#[test]
fn flushes_without_a_store_between_are_one() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    let flushes = |worker: &Worker| worker.table().memory.flushes.load(Ordering::Relaxed);
    set(&mut worker, b"a", b"1");
    for _ in 0..100 {
        worker.flush();
    }
    assert_eq!(flushes(&worker), 1);
    assert_eq!(read(&mut worker, b"a"), None);
    set(&mut worker, b"a", b"2");
    assert_eq!(read(&mut worker, b"a").as_deref(), Some(&b"2"[..]));
    worker.flush();
    assert_eq!((flushes(&worker), read(&mut worker, b"a")), (2, None));
}

#[test]
fn dead_records_whose_keys_are_stored_again_are_counted() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    let counted = || cache.stats().overwritten_dead;
    let put = Put { expiry_ms: 1_002_000, ..Put::new(Value::Bytes(b"value")) };
    for key in [b"a", b"b", b"c"] {
        worker.set(worker.key(key), &put).expect("memory");
    }
    // In place, elsewhere, and by an update; but not while it lives.
    set(&mut worker, b"a", b"other");
    assert_eq!(counted(), 0);
    worker.set(worker.key(b"a"), &put).expect("memory");
    cache.clock().advance_ms(2_000);
    worker.quiesce();
    worker.set(worker.key(b"a"), &Put { expiry_ms: 1_009_000, ..put }).expect("memory");
    assert_eq!(counted(), 1);
    set(&mut worker, b"b", &[1; 500]);
    assert_eq!(counted(), 2);
    let stored = worker.update(worker.key(b"c"), |view| {
        assert!(view.is_none());
        Change::Put(Put::new(Value::Bytes(b"x"))).into()
    });
    assert!(stored.is_ok());
    assert_eq!(counted(), 3);
    worker.flush();
    for key in [b"a", b"b", b"c", b"d"] {
        set(&mut worker, key, b"x");
    }
    assert_eq!(counted(), 6);
}

#[test]
fn expired_and_flushed_records_are_gone_and_swept() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    for number in 0..5_000u64 {
        let expiry_ms = if number % 2 == 0 { 1_002_000 } else { 0 };
        let put = Put { expiry_ms, ..Put::new(Value::Bytes(b"value")) };
        worker.set(worker.key(&number.to_le_bytes()), &put).expect("memory");
    }
    cache.clock().advance_ms(1_999);
    worker.quiesce();
    assert!(read(&mut worker, &0u64.to_le_bytes()).is_some());
    cache.clock().advance_ms(1);
    worker.quiesce();
    assert!(read(&mut worker, &0u64.to_le_bytes()).is_none());
    assert!(read(&mut worker, &1u64.to_le_bytes()).is_some());
    while worker.sweep(4) {}
    let stats = cache.stats();
    assert_eq!((stats.records, stats.reclaimed), (2_500, 2_500));
    cache.flush_at(1_010_000);
    assert!(read(&mut worker, &1u64.to_le_bytes()).is_some());
    cache.clock().advance_ms(8_000);
    worker.quiesce();
    assert!(read(&mut worker, &1u64.to_le_bytes()).is_none());
    set(&mut worker, b"after", b"1");
    for _ in 0..20 {
        worker.flush();
        set(&mut worker, b"after", b"1");
    }
    assert_eq!(read(&mut worker, b"after").as_deref(), Some(&b"1"[..]));
    while worker.sweep(4) {}
    while worker.sweep(4) {}
    assert_eq!(cache.stats().records, 1);
}

#[test]
fn a_key_of_any_allowed_length_works_and_no_other() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    for len in [1, 2, 3, 4, 5, 11, 12, 13, 50, 51, 249, KEY_LEN_MAX] {
        let key = vec![b'k'; len];
        for value in [0, 100, 4096, 4097] {
            let value = pattern(value, len as u64);
            set(&mut worker, &key, &value);
            assert!(read(&mut worker, &key) == Some(value));
        }
    }
    for len in [0, KEY_LEN_MAX + 1, 1000] {
        let key = vec![b'k'; len];
        assert_eq!(read(&mut worker, &key), None);
        assert_eq!(
            worker.set(worker.key(&key), &Put::new(Value::Bytes(b""))),
            Err(StoreError::KeyLength { len })
        );
    }
}

#[test]
fn uploads_hold_at_most_a_quarter_and_give_it_back() {
    let cache = cache(16 << 20);
    let mut worker = cache.worker().expect("a place");
    let chunk = pattern(100_000, 0);
    let mut uploads = Vec::new();
    let error = loop {
        let mut upload = worker.upload(1_000_000).expect("allowed");
        let error = (0..10).find_map(|_| upload.push(&mut worker, &chunk).err());
        uploads.push(upload);
        if let Some(error) = error {
            break error;
        }
    };
    assert!(matches!(error, StoreError::UploadsFull { .. }), "{error}");
    assert!((3..=5).contains(&uploads.len()), "{}", uploads.len());
    drop(uploads);
    assert_eq!(cache.stats().upload_bytes, 0);
    set(&mut worker, b"k", &pattern(1_000_000, 1));
}
