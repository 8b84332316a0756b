use base::clock::Clock;

use super::compact;
use crate::{
    Cache, CacheConfig, Change, Get, Pinned, Put, Value, Worker,
    extent::tests::bytes,
    geometry::{BLOCK_BYTES, INLINE_VALUE_MAX_BYTES},
};

/// A value of one piece, some of whose bytes are unused.
const LEN: usize = BLOCK_BYTES / PER_BLOCK as usize - 3;
/// Such pieces of a block: eighths, or quarters under miri, which takes a second for each value.
const PER_BLOCK: u8 = if cfg!(miri) { 4 } else { 8 };
/// Blocks that are filled with them.
const FILLED: u8 = if cfg!(miri) { 2 } else { 10 };

const _: () = assert!(LEN > INLINE_VALUE_MAX_BYTES);

fn cache() -> Cache {
    let memory_bytes = if cfg!(any(loom, shuttle, miri)) { 32 << 10 } else { 8 << 20 };
    let config = CacheConfig {
        value_size_max: memory_bytes / 4,
        hash_seed: 3 << 64,
        ..CacheConfig::new(memory_bytes)
    };
    Cache::new(config, Clock::manual(1_000)).expect("memory")
}

fn value(key: u8) -> Vec<u8> {
    bytes(LEN, key.wrapping_mul(31))
}

fn set(worker: &mut Worker, key: u8) {
    worker.set(worker.key(&[key]), &Put::new(Value::Bytes(&value(key)))).expect("memory");
    worker.quiesce();
}

fn remove(worker: &mut Worker, key: u8) {
    worker.update(worker.key(&[key]), |_| Change::Remove.into()).expect("removes");
}

fn pin(worker: &mut Worker, key: u8) -> Pinned {
    match worker.get(worker.key(&[key]), &mut Vec::new()) {
        Get::Large(pinned) => pinned,
        other => panic!("{key}: {other:?}"),
    }
}

fn holds(pinned: &Pinned, key: u8) -> bool {
    pinned.slices().collect::<Vec<_>>().concat() == value(key)
}

/// Of a few full blocks, every value but one in `PER_BLOCK` is removed: the one with the number
/// `left` in its block.
fn sparse(cache: &Cache, left: u8) -> Worker {
    let mut worker = cache.worker().expect("a place");
    (0..FILLED * PER_BLOCK).for_each(|key| set(&mut worker, key));
    for key in (0..FILLED * PER_BLOCK).filter(|key| key % PER_BLOCK != left) {
        remove(&mut worker, key);
    }
    worker
}

fn taken(cache: &Cache) -> usize {
    cache.table().memory.blocks.taken()
}

#[test]
fn miri_free_pieces_become_free_blocks_and_values_stay() {
    let cache = cache();
    let mut worker = sparse(&cache, PER_BLOCK - 3);
    let (memory, before) = (&cache.table().memory, taken(&cache));
    let mut emptied = 0;
    while compact(memory) {
        emptied += 1;
    }
    // One value was left of each block.
    assert_eq!(emptied, FILLED - FILLED.div_ceil(PER_BLOCK));
    assert_eq!(before - taken(&cache), usize::from(emptied));
    assert!(!memory.pieces.has_spare());
    for key in (0..FILLED).map(|block| (block + 1) * PER_BLOCK - 3) {
        assert!(holds(&pin(&mut worker, key), key), "{key}");
    }
    worker.quiesce();
    #[cfg(not(any(loom, miri)))]
    cache.table().validate();
}

#[test]
fn miri_a_value_that_somebody_sends_stays_where_it_is() {
    let cache = cache();
    let mut worker = sparse(&cache, 0);
    let memory = &cache.table().memory;
    let pins: Vec<Pinned> = (0..FILLED).map(|block| pin(&mut worker, block * PER_BLOCK)).collect();
    let before = taken(&cache);
    // Who stores takes what is free, and not what is read.
    (0..FILLED).for_each(|block| set(&mut worker, block * PER_BLOCK + 1));
    for _ in 0..=FILLED {
        assert!(!compact(memory), "a block was taken from under a reader");
    }
    assert_eq!(taken(&cache), before);
    assert!(!memory.pieces.has_spare(), "others would wait for what cannot be had");
    for (block, pinned) in (0..FILLED).zip(&pins) {
        assert!(holds(pinned, block * PER_BLOCK), "{block}");
    }
    drop(pins);
    assert!(!compact(memory), "nobody has heard of it");
    // What the housekeeping thread does now and then.
    worker.fit();
    assert!(memory.pieces.has_spare());
    assert!(compact(memory));
}

#[test]
fn miri_a_value_that_arrives_stays_where_it_is() {
    let cache = cache();
    let mut worker = sparse(&cache, PER_BLOCK - 1);
    let memory = &cache.table().memory;
    while compact(memory) {}
    let (key, bytes) = (200, value(200));
    let mut upload = worker.upload(LEN).expect("allowed");
    upload.push(&mut worker, &bytes[..LEN / 2]).expect("memory");
    // All that is left beside it.
    (0..FILLED).for_each(|block| remove(&mut worker, (block + 1) * PER_BLOCK - 1));
    assert!(!compact(memory), "the bytes that have arrived were moved");
    upload.push(&mut worker, &bytes[LEN / 2..]).expect("memory");
    worker
        .update_uploaded(worker.key(&[key]), upload, |_| {
            Change::Put(Put::new(Value::Uploaded)).into()
        })
        .expect("memory");
    assert!(holds(&pin(&mut worker, key), key));
}
