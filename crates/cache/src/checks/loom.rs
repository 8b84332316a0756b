//! Two threads over a few words, in every interleaving and with every value that weak memory
//! allows.
//!
//! The reader is the spawned thread, the writer the first: loom forgets a conflict with a load when
//! the writer itself loads the word before it stores it, and so finds the interleavings from the
//! reader's side only.

use base::{
    clock::Clock,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        thread,
    },
};
use loom::model::Builder;

use crate::{
    Cache, CacheConfig, Change, Get, PolicyKind, Put, Value, Worker,
    blocks::Blocks,
    geometry::{ARENA_MIN_BLOCKS, BLOCK_BYTES},
    index::Merge,
    qsbr::Qsbr,
};

/// Runs a model. `preemptions` bounds how often a thread is interrupted where it would not have
/// waited; `LOOM_MAX_PREEMPTIONS` overrides it.
fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(model);
}

fn cache(blocks: usize) -> Cache {
    let memory_bytes = (blocks * (BLOCK_BYTES + 256)) as u64;
    let config = CacheConfig {
        memory_bytes,
        memory_max_bytes: memory_bytes,
        value_size_max: 1024,
        value_share_divisor: 1,
        policy: PolicyKind::default(),
        evicts: true,
        victim_bytes: 0,
        writers: 1,
        // With it models end soon: what their two threads do meets where they are about, and
        // hardly elsewhere.
        hash_seed: 10,
    };
    Cache::new(config, Clock::manual(1)).expect("a cache")
}

fn set(worker: &mut Worker, key: &[u8], value: &[u8]) {
    worker.set(worker.key(key), &Put::new(Value::Bytes(value))).expect("memory");
}

fn remove(worker: &mut Worker, key: &[u8]) {
    worker.update(worker.key(key), |_| Change::Remove.into()).expect("a removal needs no memory");
}

fn get(worker: &mut Worker, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    match worker.get(worker.key(key), &mut value) {
        Get::Miss => None,
        Get::Hit(_) => Some(value),
        Get::Large(_) | Get::Busy => panic!("a small value"),
    }
}

/// Where the record of a key is.
fn location(cache: &Cache, key: &[u8]) -> Option<usize> {
    let memory = &cache.table().memory;
    let hash = memory.hasher.hash(key);
    let mut entries = memory.index.buckets_of_entries(&memory.arena).into_iter();
    entries.find(|(_, location)| memory.hash_at(*location) == Some(hash)).map(|(_, at)| at)
}

const OLD: &[u8] = b"aaaaaaaaaaaaaaaa";
const NEW: &[u8] = b"bbbbbbbbbbbbbbbb";

#[test]
fn loom_reader_and_writer_of_one_bucket() {
    // As short as a value of two words can be: one of three takes five times as long.
    let (old, new) = (&OLD[..8], &NEW[..8]);
    explore(Some(3), move || {
        let cache = cache(ARENA_MIN_BLOCKS);
        let mut reader = cache.worker().expect("a place");
        set(&mut reader, b"k", old);
        let mut writer = cache.worker().expect("a place");
        let reading = thread::spawn(move || {
            let value = get(&mut reader, b"k").expect("present key missed");
            assert!(value == old || value == new, "torn read: {value:?}");
        });
        set(&mut writer, b"k", new);
        reading.join().expect("the reader ends");
        assert_eq!(get(&mut writer, b"k").as_deref(), Some(new), "the old value after the new");
    });
}

/// Keys that two looks that overlap tell apart, the second of them alone. With so short values
/// their records have as many words as others.
const LONG_KEYS: [&[u8]; 2] = [b"long key k", b"long key l"];

#[test]
fn loom_reader_and_writer_of_a_reused_slot() {
    let ([key, other], old, new) = (LONG_KEYS, &OLD[..2], &NEW[..2]);
    explore(Some(2), move || {
        let cache = cache(ARENA_MIN_BLOCKS);
        let mut reader = cache.worker().expect("a place");
        set(&mut reader, key, old);
        let mut writer = cache.worker().expect("a place");
        let before = location(&cache, key);
        let reading = thread::spawn(move || {
            if let Some(value) = get(&mut reader, key) {
                assert!(value == old, "torn read: {value:?}");
            }
        });
        remove(&mut writer, key);
        set(&mut writer, other, new);
        reading.join().expect("the reader ends");
        assert!(before.is_some() && before == location(&cache, other), "another slot");
        assert_eq!(get(&mut writer, key), None, "a removed key");
        assert_eq!(get(&mut writer, other).as_deref(), Some(new), "present key missed");
    });
}

/// A cache with a few records whose index has grown by some buckets, and grows by another one with
/// the next new record.
fn growing(splits: u8) -> (Cache, Worker) {
    let cache = cache(16);
    let mut worker = cache.worker().expect("a place");
    for name in b'a'..=b'z' {
        set(&mut worker, &[name], OLD);
    }
    // Growth goes by the count of records.
    cache.table().memory.records.store(10_000, Ordering::Relaxed);
    for name in 0..splits {
        set(&mut worker, &[name], NEW);
    }
    (cache, worker)
}

/// A number of splits, and a key that the next one moves: found by trying.
fn split_that_moves() -> (u8, u8) {
    let found = std::sync::Arc::new(std::sync::Mutex::new(None));
    let result = std::sync::Arc::clone(&found);
    explore(None, move || {
        *result.lock().expect("one thread") = (1..12).find_map(|splits| {
            let (cache, mut worker) = growing(splits);
            let memory = &cache.table().memory;
            let before = memory.index.buckets_of_entries(&memory.arena);
            set(&mut worker, b"another", NEW);
            let after = memory.index.buckets_of_entries(&memory.arena);
            let moved = |hash| {
                let is_it = |at: &&(u64, usize)| memory.hash_at(at.1) == Some(hash);
                before.iter().find(is_it).map(|at| at.0) != after.iter().find(is_it).map(|at| at.0)
            };
            let mut names = b'a'..=b'z';
            names.find(|&name| moved(worker.key(&[name]).hash)).map(|name| (splits, name))
        });
    });
    let found = *found.lock().expect("one thread");
    found.expect("some split moves a key")
}

#[test]
fn loom_miss_during_move_to_a_split_bucket() {
    let (splits, name) = split_that_moves();
    explore(Some(2), move || {
        let (cache, mut reader) = growing(splits);
        let mut writer = cache.worker().expect("a place");
        let reading = thread::spawn(move || {
            let value = get(&mut reader, &[name]);
            assert!(value.is_some(), "present key missed");
        });
        set(&mut writer, b"another", NEW);
        reading.join().expect("the reader ends");
        assert_eq!(get(&mut writer, &[name]).as_deref(), Some(OLD), "present key missed");
    });
}

#[test]
fn loom_miss_during_move_to_a_merged_bucket() {
    let (splits, name) = split_that_moves();
    explore(Some(2), move || {
        let (cache, mut reader) = growing(splits);
        let mut writer = cache.worker().expect("a place");
        set(&mut writer, b"another", NEW);
        let reading = thread::spawn(move || {
            let value = get(&mut reader, &[name]);
            assert!(value.is_some(), "present key missed");
        });
        let memory = &cache.table().memory;
        assert_ne!(memory.index.merge(&memory.arena), Merge::NotNow);
        reading.join().expect("the reader ends");
        assert_eq!(get(&mut writer, &[name]).as_deref(), Some(OLD), "present key missed");
    });
}

#[test]
fn loom_miss_during_move_between_the_two_buckets() {
    explore(Some(3), || {
        let cache = cache(ARENA_MIN_BLOCKS);
        let mut reader = cache.worker().expect("a place");
        set(&mut reader, b"k", OLD);
        let memory = &cache.table().memory;
        let key = memory.hasher.hash(b"k");
        // What a displacement does, but for the role, which readers do not look at.
        let displace = || {
            let pair = memory.index.lock(&memory.arena, memory.index.candidates(key), key);
            let crate::index::Lines { first, second } = pair.lines();
            let (from, to) =
                if second.room() == Some(0) { (first, second) } else { (second, first) };
            let entry = from.word(0).swap(0, Ordering::Relaxed);
            to.word(0).store(entry, Ordering::Relaxed);
        };
        displace();
        let mut observer = cache.worker().expect("a place");
        let reading = thread::spawn(move || {
            assert!(get(&mut reader, b"k").is_some(), "present key missed");
        });
        // From the second bucket to the first.
        displace();
        reading.join().expect("the reader ends");
        assert_eq!(get(&mut observer, b"k").as_deref(), Some(OLD), "present key missed");
    });
}

/// One block, linked from one place; a reader that goes online, looks twice and goes offline.
#[test]
fn loom_reclaim_waits_for_a_reader_that_goes_online() {
    explore(None, || {
        let ground =
            Arc::new((Qsbr::new(), Blocks::new(2, 2), AtomicU64::new(0), AtomicU64::new(1)));
        let (qsbr, blocks, link, content) = &*ground;
        let block = blocks.take_reserved(qsbr).expect("one is free");
        link.store(u64::from(block), Ordering::Relaxed);
        let reading = Arc::clone(&ground);
        let reader = thread::spawn(move || {
            let (qsbr, _, link, content) = &*reading;
            let place = qsbr.register().expect("a place");
            qsbr.online(place);
            for _ in 0..2 {
                if link.load(Ordering::Relaxed) != 0 {
                    let seen = content.load(Ordering::Relaxed);
                    assert_eq!(seen, 1, "reused under a reader");
                }
                qsbr.quiesce(place);
            }
            qsbr.offline(place);
        });
        link.store(0, Ordering::Relaxed);
        blocks.retire(qsbr, block);
        if blocks.take_reserved(qsbr).is_some() {
            content.store(2, Ordering::Relaxed);
        }
        reader.join().expect("the reader ends");
    });
}

#[test]
fn loom_pin_keeps_a_value_that_is_removed() {
    const LEN: usize = 60;
    explore(Some(2), || {
        let cache = cache(8);
        let mut reader = cache.worker().expect("a place");
        set(&mut reader, b"k", &[b'a'; LEN]);
        let mut writer = cache.worker().expect("a place");
        let reading = thread::spawn(move || {
            let read = reader.get(reader.key(b"k"), &mut Vec::new());
            if let Get::Large(pinned) = read {
                for _ in 0..2 {
                    let value: Vec<u8> = pinned.slices().flatten().copied().collect();
                    assert!(value == [b'a'; LEN], "a pinned value has changed: {value:?}");
                    thread::yield_now();
                }
            }
        });
        remove(&mut writer, b"k");
        // What it was made of is used again, if it may be.
        let mut upload = writer.upload(LEN).expect("allowed");
        upload.push(&mut writer, &[b'b'; LEN]).expect("memory");
        reading.join().expect("the reader ends");
    });
}
