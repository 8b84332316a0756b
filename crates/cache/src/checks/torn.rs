//! Two real cores: one reads what the other overwrites, deletes, stores anew and evicts.
//!
//! All words of a value carry one stamp. Model checkers prove the protocol on a few words; this
//! looks at the compiled code, with values of real sizes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::clock::Clock;

use super::parallel::{Name, Random};
use crate::{Cache, CacheConfig, Change, Get, Put, StoreError, Value, Worker};

/// Reads in CI: a few seconds.
const READS: u64 = 5_000_000;
/// Reads in a soak run.
const READS_SOAK: u64 = 100_000_000;

/// Keys that are read. Few, so that both threads meet.
const KEYS: u64 = 6;
/// Lengths of their values: in one word and in many, across slot classes, up to the longest inline
/// value.
const LENGTHS: [usize; 10] = [8, 31, 31, 31, 33, 40, 100, 250, 900, 4096];

/// Smallest arena there is, so that the other keys keep it full.
const ARENA_BYTES: u64 = 8 << 20;
/// Other keys: many times what memory holds.
const OTHER_KEYS: u64 = 1 << 20;

fn cache() -> Cache {
    let config = CacheConfig {
        writers: 1,
        value_size_max: 8192,
        hash_seed: 0x0123_4567_89ab_cdef << 64 | 0xfedc_ba98_7654_3210,
        ..CacheConfig::new(ARENA_BYTES)
    };
    Cache::new(config, Clock::manual(1_000_000)).expect("a cache")
}

fn fill(value: &mut [u8], stamp: u64) {
    for (at, byte) in value.iter_mut().enumerate() {
        *byte = stamp.to_le_bytes()[at % 8];
    }
}

/// The stamp that all words of a value carry.
fn stamp_of(value: &[u8]) -> Option<u64> {
    let (words, tail) = value.as_chunks::<8>();
    let first = *words.first()?;
    let same = words.iter().all(|word| *word == first) && *tail == first[..tail.len()];
    same.then(|| u64::from_le_bytes(first))
}

fn set(writer: &mut Worker, key: u64, value: &[u8]) {
    let name = Name::of(key);
    match writer.set(writer.key(name.bytes()), &Put::new(Value::Bytes(value))) {
        Ok(_) | Err(StoreError::OutOfMemory { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Overwrites, deletes and stores the keys anew, and evicts, until told to stop.
fn write(cache: &Cache, written: &[AtomicU64], stop: &AtomicBool) {
    let mut writer = cache.worker().expect("a place");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut value = vec![0; 4096];
    let mut lengths = [31; KEYS as usize];
    for number in 1.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = random.below(KEYS);
        let stamp = key << 48 | number;
        match random.below(8) {
            0 => {
                let name = Name::of(key);
                let removed = writer.update(writer.key(name.bytes()), |_| Change::Remove.into());
                removed.expect("a removal needs no memory");
            }
            1 | 2 => lengths[key as usize] = LENGTHS[random.below(LENGTHS.len() as u64) as usize],
            3 => {
                // Somebody else's record, in a slot that one of the keys may have had.
                let other = KEYS + random.below(OTHER_KEYS);
                let len = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
                fill(&mut value[..len], other << 16);
                set(&mut writer, other, &value[..len]);
            }
            _ => {}
        }
        let len = lengths[key as usize];
        fill(&mut value[..len], stamp);
        // Before it is stored: a reader may see it from then on.
        written[key as usize].store(number, Ordering::Release);
        set(&mut writer, key, &value[..len]);
        writer.quiesce();
    }
}

fn read(reads: u64) {
    let cache = cache();
    let written: [AtomicU64; KEYS as usize] = std::array::from_fn(|_| AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let (mut hits, mut changes) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&cache, &written, &stop));
        // Also when an assertion fails, or the scope would wait for ever.
        let _stop = StopOnDrop(&stop);
        let mut reader = cache.worker().expect("a place");
        let mut random = Random(0x0123_4567_89ab_cdef);
        let mut last = [0; KEYS as usize];
        let mut value = Vec::with_capacity(4096);
        for _ in 0..reads {
            let key = random.below(KEYS);
            let name = Name::of(key);
            let found = reader.get(reader.key(name.bytes()), &mut value);
            reader.quiesce();
            let Get::Hit(meta) = found else { continue };
            hits += 1;
            assert_eq!(value.len(), meta.value_len as usize, "torn read: the length");
            let stamp = stamp_of(&value);
            let stamp = stamp.unwrap_or_else(|| panic!("torn read: {:x?}", value.as_slice()));
            let number = stamp & ((1 << 48) - 1);
            assert_eq!(stamp >> 48, key, "torn read: another key's value");
            assert!(number <= written[key as usize].load(Ordering::Acquire), "from the future");
            assert!(number >= last[key as usize], "an older value than before");
            changes += u64::from(number != last[key as usize]);
            last[key as usize] = number;
        }
    });
    println!("{reads} reads, {hits} hits, {changes} of them of a new value, {:?}", cache.stats());
    // On a busy machine both threads may share a core: then only a switch shows a new value.
    assert!(hits > reads / 2 && changes > 100, "{hits} hits, {changes} new values");
    assert!(cache.stats().evictions > 0, "memory was never full");
    cache.table().validate();
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn torn_reads_are_not_served() {
    read(READS);
}

#[test]
#[ignore = "soak: a minute or two"]
fn soak_torn_reads() {
    read(READS_SOAK);
}
