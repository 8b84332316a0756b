//! Least recently used, exactly: a hit makes a key the newest, the oldest goes.

use super::{Policy, Queues};

#[derive(Debug)]
pub(crate) struct Lru {
    capacity: usize,
    queue: Queues<1>,
}

impl Lru {
    pub(crate) fn new(capacity: usize, keys: u32) -> Self {
        Self { capacity, queue: Queues::new(keys) }
    }
}

impl Policy for Lru {
    fn access(&mut self, key: u32) -> bool {
        let is_hit = self.queue.place(key).is_some();
        if !is_hit && self.queue.len(0) == self.capacity {
            self.queue.pop(0);
        }
        self.queue.push(0, key);
        is_hit
    }
}
