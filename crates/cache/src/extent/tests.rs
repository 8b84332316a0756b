use base::clock::Clock;

use super::*;
use crate::{Cache, CacheConfig, Change, Get, INLINE_VALUE_MAX_BYTES, Pinned, Put, Value, Worker};

fn cache() -> Cache {
    cache_with(0)
}

fn cache_with(victim_bytes: usize) -> Cache {
    let memory_bytes = if cfg!(any(loom, shuttle, miri)) { 32 << 10 } else { 8 << 20 };
    let config = CacheConfig {
        value_size_max: memory_bytes / 4,
        hash_seed: 3 << 64,
        victim_bytes,
        ..CacheConfig::new(memory_bytes)
    };
    Cache::new(config, Clock::manual(1_000)).expect("memory")
}

/// A value that differs with `seed`. Copies of a short one: miri takes a microsecond for a step.
pub(super) fn bytes(len: usize, seed: u8) -> Vec<u8> {
    let first: [u8; 61] = std::array::from_fn(|at| seed.wrapping_add(at as u8));
    let mut value = first.repeat(len.div_ceil(first.len()));
    value.truncate(len);
    value
}

fn pin_value(worker: &mut Worker, key: &[u8]) -> Pinned {
    match worker.get(worker.key(key), &mut Vec::new()) {
        Get::Large(pinned) => pinned,
        other => panic!("{other:?}"),
    }
}

#[test]
fn miri_a_pinned_value_stays_while_its_key_is_overwritten_and_removed() {
    let cache = cache();
    let mut worker = cache.worker().expect("a place");
    let len = INLINE_VALUE_MAX_BYTES * 3 + 5;
    worker.set(worker.key(b"k"), &Put::new(Value::Bytes(&bytes(len, 1)))).expect("memory");
    let first = pin_value(&mut worker, b"k");
    let again = pin_value(&mut worker, b"k");
    worker.set(worker.key(b"k"), &Put::new(Value::Bytes(&bytes(len, 2)))).expect("memory");
    let second = pin_value(&mut worker, b"k");
    worker.update(worker.key(b"k"), |_| Change::Remove.into()).expect("removes");
    drop(again);
    for (pinned, seed) in [(&first, 1), (&second, 2)] {
        assert_eq!(pinned.slices().collect::<Vec<_>>().concat(), bytes(len, seed));
    }
    assert!(cache.stats().pinned_bytes > 0);
    drop((first, second));
    let stats = cache.stats();
    assert_eq!((stats.pinned_bytes, stats.records, stats.record_bytes), (0, 0, 0));
}

#[test]
fn miri_a_value_in_parts_that_has_to_go_is_shown_whole() {
    // miri takes a quarter of a second for a kilobyte of the queue.
    let cache = cache_with(if cfg!(miri) { 1 << 10 } else { 60 << 10 });
    let mut worker = cache.worker().expect("a place");
    let value = bytes(INLINE_VALUE_MAX_BYTES * 3 + 5, 4);
    worker.set(worker.key(b"key"), &Put::new(Value::Bytes(&value))).expect("memory");
    assert!(worker.evict(worker.key(b"key")));
    let mut found = Vec::new();
    assert!(worker.find_victim(worker.key(b"key"), &mut found).is_some());
    assert_eq!(found, value);
    assert_eq!(cache.stats().records, 0);
}

#[test]
fn miri_an_upload_takes_bytes_in_any_pieces_and_gives_them_back_when_dropped() {
    let cache = cache();
    let mut worker = cache.worker().expect("a place");
    let len = INLINE_VALUE_MAX_BYTES * 7 + 3;
    let value = bytes(len, 9);
    // An odd step puts the ends of pieces at every alignment; a step of one is most of miri's time.
    let steps: &[usize] = if cfg!(miri) { &[37, len] } else { &[1, 7, 64, len] };
    for &step in steps {
        let mut upload = worker.upload(len).expect("allowed");
        for piece in value.chunks(step) {
            assert_eq!(upload.push(&mut worker, piece), Ok(piece.len()));
        }
        assert_eq!(upload.push(&mut worker, b"more"), Ok(0), "nothing is missing");
        worker
            .update_uploaded(worker.key(b"k"), upload, |_| {
                Change::Put(Put::new(Value::Uploaded)).into()
            })
            .expect("memory");
        let pinned = pin_value(&mut worker, b"k");
        assert_eq!(pinned.slices().collect::<Vec<_>>().concat(), value, "pieces of {step}");
    }
    let mut upload = worker.upload(len).expect("allowed");
    upload.push(&mut worker, &value[..len / 2]).expect("memory");
    assert!(cache.stats().upload_bytes > 0);
    drop(upload);
    assert_eq!(cache.stats().upload_bytes, 0);
}

#[test]
fn a_head_cannot_be_pinned_before_it_is_linked_nor_after() {
    let cache = cache();
    let mut worker = cache.worker().expect("a place");
    let len = INLINE_VALUE_MAX_BYTES + 1;
    worker.set(worker.key(b"k"), &Put::new(Value::Bytes(&bytes(len, 1)))).expect("memory");
    let pinned = pin_value(&mut worker, b"k");
    let memory = &cache.table().memory;
    let location = pinned.location();
    assert!(!begin_move(memory, location), "somebody reads it here");
    drop(pinned);
    assert!(begin_move(memory, location));
    assert!(!pin(memory, location), "it is on its way");
    link(memory, location);
    assert!(pin(memory, location));
    assert!(!unpin(memory, location), "the index still leads to it");
}
