//! S3-FIFO: a small queue that most keys leave soon, a main one, and a ghost (Yang et al., SOSP
//! 2023, algorithm 1).
//!
//! A tenth of the capacity is the small queue's. A key that was hit more than once in it goes on to
//! the main one, its counter cleared; any other is remembered in the ghost, which holds as many
//! keys as the main one, and a key that is remembered enters the main one. The main queue gives
//! another round for each hit, up to three.

use super::{Policy, Queues};

/// Share of the small queue, as a divisor of the capacity.
const SMALL_DIVISOR: usize = 10;
/// A counter's largest value.
const HITS_MAX: u8 = 3;
/// Hits that make a key go on from the small queue.
const HITS_TO_MAIN: u8 = 2;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

#[derive(Debug)]
pub(crate) struct S3Fifo {
    capacity: usize,
    small_max: usize,
    queues: Queues<3>,
    hits: Vec<u8>,
}

impl S3Fifo {
    pub(crate) fn new(capacity: usize, keys: u32) -> Self {
        let small_max = (capacity / SMALL_DIVISOR).max(1);
        Self { capacity, small_max, queues: Queues::new(keys), hits: vec![0; keys as usize] }
    }

    fn main_max(&self) -> usize {
        self.capacity - self.small_max
    }

    /// Makes room for one key.
    fn evict(&mut self) {
        if self.queues.len(SMALL) >= self.small_max || self.queues.len(MAIN) == 0 {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        while let Some(key) = self.queues.pop(SMALL) {
            if self.hits[key as usize] < HITS_TO_MAIN || self.main_max() == 0 {
                self.queues.push(GHOST, key);
                if self.queues.len(GHOST) > self.main_max() {
                    self.queues.pop(GHOST);
                }
                return;
            }
            if self.queues.len(MAIN) >= self.main_max() {
                self.evict_main();
            }
            self.hits[key as usize] = 0;
            self.queues.push(MAIN, key);
        }
    }

    fn evict_main(&mut self) {
        // A key comes round at most three times before its counter is 0.
        while let Some(key) = self.queues.pop(MAIN) {
            let hits = &mut self.hits[key as usize];
            if *hits == 0 {
                return;
            }
            *hits -= 1;
            self.queues.push(MAIN, key);
        }
    }
}

impl Policy for S3Fifo {
    fn access(&mut self, key: u32) -> bool {
        let place = self.queues.place(key);
        let hits = &mut self.hits[key as usize];
        if let Some(SMALL | MAIN) = place {
            *hits = (*hits + 1).min(HITS_MAX);
            return true;
        }
        *hits = 0;
        while self.queues.len(SMALL) + self.queues.len(MAIN) >= self.capacity {
            self.evict();
        }
        let is_remembered = place == Some(GHOST) && self.main_max() > 0;
        self.queues.push(if is_remembered { MAIN } else { SMALL }, key);
        false
    }
}
