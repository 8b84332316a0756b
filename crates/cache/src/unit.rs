//! A cache of so many records of equal size and without values: what policies are compared with.

use std::collections::{HashMap, VecDeque};

use crate::PolicyKind;

/// A read-through cache that holds numbers. Deterministic.
#[derive(Debug)]
pub struct UnitCache {
    kind: PolicyKind,
    capacity: usize,
    /// By key: whether it is hot, and its counter.
    records: HashMap<u64, (bool, u8)>,
    temporary: VecDeque<u64>,
    hot: VecDeque<u64>,
    ghosts: HashMap<u64, (bool, u64)>,
    ghost_queues: [VecDeque<(u64, u64)>; 2],
    ghost_counts: [usize; 2],
    stamp: u64,
    wanted: f64,
}

impl UnitCache {
    /// An empty cache for `capacity` records.
    ///
    /// # Panics
    /// Panics when `capacity` is 0.
    #[must_use]
    pub fn new(kind: PolicyKind, capacity: usize) -> Self {
        assert!(capacity > 0, "a cache has room for a record");
        Self {
            kind,
            capacity,
            records: HashMap::with_capacity(capacity),
            temporary: VecDeque::new(),
            hot: VecDeque::new(),
            ghosts: HashMap::new(),
            ghost_queues: Default::default(),
            ghost_counts: [0; 2],
            stamp: 0,
            wanted: (capacity as f64 * 0.1).max(1.0),
        }
    }

    /// Reads a key, and inserts it when it is missed. Returns whether it was there.
    pub fn access(&mut self, key: u64) -> bool {
        if let Some((_, counter)) = self.records.get_mut(&key) {
            *counter = (*counter + 1).min(3);
            return true;
        }
        let hot = self.kind == PolicyKind::Htr && self.admits_hot(key);
        while self.records.len() >= self.capacity {
            self.evict();
        }
        self.records.insert(key, (hot, 0));
        if hot { &mut self.hot } else { &mut self.temporary }.push_back(key);
        false
    }

    /// Records now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn admits_hot(&mut self, key: u64) -> bool {
        let Some((was_hot, _)) = self.ghosts.remove(&key) else { return false };
        let [temporary, hot] = self.ghost_counts.map(|count| count.max(1) as f64);
        let by = if was_hot { -(temporary / hot).max(1.0) } else { (hot / temporary).max(1.0) };
        self.ghost_counts[usize::from(was_hot)] -= 1;
        let capacity = self.capacity as f64;
        self.wanted = (self.wanted + by / 2.0).clamp((capacity * 0.01).max(1.0), capacity * 0.9);
        true
    }

    fn evict(&mut self) {
        if self.kind == PolicyKind::Fifo {
            let key = self.temporary.pop_front().expect("invariant: it is full");
            self.records.remove(&key);
            return;
        }
        if self.temporary.len() as f64 >= self.wanted || self.hot.is_empty() {
            let key = self.temporary.pop_front().expect("invariant: it is full");
            let record = self.records.get_mut(&key).expect("invariant: queued keys are records");
            if record.1 > 0 {
                *record = (true, 0);
                self.hot.push_back(key);
            } else {
                self.remember(key, false);
            }
        } else {
            let key = self.hot.pop_front().expect("invariant: not empty");
            let record = self.records.get_mut(&key).expect("invariant: queued keys are records");
            if record.1 > 0 {
                record.1 -= 1;
                self.hot.push_back(key);
            } else {
                self.remember(key, true);
            }
        }
    }

    fn remember(&mut self, key: u64, hot: bool) {
        self.records.remove(&key);
        self.stamp += 1;
        self.ghosts.insert(key, (hot, self.stamp));
        let place = usize::from(hot);
        self.ghost_queues[place].push_back((key, self.stamp));
        self.ghost_counts[place] += 1;
        while self.ghost_counts[place] > self.capacity / 2 {
            let Some((key, stamp)) = self.ghost_queues[place].pop_front() else { break };
            if self.ghosts.get(&key) == Some(&(hot, stamp)) {
                self.ghosts.remove(&key);
                self.ghost_counts[place] -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_exactly_its_capacity() {
        for kind in PolicyKind::ALL {
            let mut cache = UnitCache::new(kind, 50);
            for key in 0..200 {
                assert!(!cache.access(key));
                assert!(cache.access(key), "what was stored last is there");
            }
            assert_eq!(cache.len(), 50);
        }
    }
}
