//! What was evicted, for whoever wants to follow it.
//!
//! Off until asked for: then each eviction notes its record in a queue that somebody empties now
//! and then. What does not fit is counted.
//!
//! Thread safety: shared by all; the queue's lock is a leaf.

use std::collections::VecDeque;

use base::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};

use crate::{KEY_LEN_MAX, Meta, record::Slot};

/// Evictions that may wait: with keys of at most 250 bytes they take 1024 * 350 bytes = 350 KiB,
/// while somebody follows them, and are as many as a command makes when it takes blocks.
const WAITING_MAX: usize = 1024;

/// A record that was evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: Box<[u8]>,
    /// Its other fields.
    pub meta: Meta,
}

/// Evictions that nobody has looked at yet.
#[derive(Debug, Default)]
pub(crate) struct EvictionLog {
    followed: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<Evicted>,
    lost: u64,
}

impl EvictionLog {
    /// Begins to note evictions, or stops and forgets them.
    pub(crate) fn follow(&self, on: bool) {
        self.followed.store(on, Ordering::Relaxed);
        if !on {
            *lock(&self.waiting) = Waiting::default();
        }
    }

    #[inline]
    pub(crate) fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    /// What was noted since the last call, and how many evictions found no room.
    pub(crate) fn take(&self) -> (Vec<Evicted>, u64) {
        let Waiting { records, lost } = std::mem::take(&mut *lock(&self.waiting));
        (records.into(), lost)
    }

    /// Notes the record in `slot`, which has just been taken out of the index and not been freed
    /// yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, slot: Slot<'_>, fetched: bool) {
        let mut waiting = lock(&self.waiting);
        if waiting.records.len() == WAITING_MAX {
            waiting.lost += 1;
            return;
        }
        let header = slot.header();
        let mut room = [0; KEY_LEN_MAX];
        let key = &mut room[..header.key_len()];
        slot.copy_exactly(header.key_at(), key);
        let meta = slot.meta(header, fetched);
        waiting.records.push_back(Evicted { key: (&*key).into(), meta });
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use base::clock::Clock;

    use super::*;
    use crate::{Cache, CacheConfig, Put, Value};

    #[test]
    fn evictions_are_noted_while_they_are_followed_and_no_more_than_fit() {
        let config = CacheConfig { writers: 1, ..CacheConfig::new(4 << 20) };
        let cache = Cache::new(CacheConfig { value_size_max: 1 << 19, ..config }, Clock::system());
        let cache = cache.expect("a cache");
        let mut worker = cache.worker().expect("a place");
        let mut set = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let value = vec![1; if number % 50 == 0 { 20_000 } else { 500 }];
                let put = Put { client_flags: number, ..Put::new(Value::Bytes(&value)) };
                worker.set(worker.key(&number.to_be_bytes()), &put).expect("memory");
            }
        };
        set(0..10_000);
        assert!(cache.stats().evictions > 1_000, "it is too large to evict");
        assert_eq!(cache.take_evicted(), (vec![], 0), "nobody follows");
        cache.follow_evictions(true);
        let before = cache.stats().evictions;
        set(10_000..10_400);
        let (evicted, lost) = cache.take_evicted();
        assert_eq!((evicted.len() as u64, lost), (cache.stats().evictions - before, 0));
        for Evicted { key, meta } in &evicted {
            let number = u32::from_be_bytes((**key).try_into().expect("four bytes"));
            let len = if number % 50 == 0 { 20_000 } else { 500 };
            assert_eq!((meta.client_flags, meta.value_len), (number, len));
        }
        assert!(evicted.iter().any(|one| one.meta.value_len == 20_000), "no large one went");
        let before = cache.stats().evictions;
        set(20_000..24_000);
        let (evicted, lost) = cache.take_evicted();
        assert_eq!(evicted.len(), WAITING_MAX);
        assert_eq!(lost, cache.stats().evictions - before - WAITING_MAX as u64);
        set(30_000..30_100);
        cache.follow_evictions(false);
        set(40_000..40_100);
        assert_eq!(cache.take_evicted(), (vec![], 0));
    }
}
