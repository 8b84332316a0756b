//! W-TinyLFU: a small LRU window in front of a segmented LRU that a key enters only if it was asked
//! for more often than who would have to leave (Einziger, Friedman and Manes 2017).
//!
//! The window has 1 % of the capacity, never less than one place; of the rest, 80 % are protected.

use super::{Policy, Queues, sketch::Sketch};

const WINDOW_DIVISOR: usize = 100;
const PROTECTED_SHARE: (usize, usize) = (4, 5);

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

#[derive(Debug)]
pub(crate) struct WTinyLfu {
    window_max: usize,
    main_max: usize,
    protected_max: usize,
    queues: Queues<3>,
    sketch: Sketch,
}

impl WTinyLfu {
    pub(crate) fn new(capacity: usize, keys: u32) -> Self {
        let window_max = (capacity / WINDOW_DIVISOR).max(1);
        let main_max = capacity - window_max;
        Self {
            window_max,
            main_max,
            protected_max: main_max * PROTECTED_SHARE.0 / PROTECTED_SHARE.1,
            queues: Queues::new(keys),
            sketch: Sketch::new(capacity),
        }
    }

    /// A key leaves the window: it enters the main part, or goes.
    fn admit(&mut self, candidate: u32) {
        let queues = &mut self.queues;
        if queues.len(PROBATION) + queues.len(PROTECTED) < self.main_max {
            return queues.push(PROBATION, candidate);
        }
        let victim = queues.oldest(PROBATION).or_else(|| queues.oldest(PROTECTED));
        let Some(victim) = victim else { return };
        if self.sketch.estimate(candidate) > self.sketch.estimate(victim) {
            queues.take(victim);
            queues.push(PROBATION, candidate);
        }
    }
}

impl Policy for WTinyLfu {
    fn access(&mut self, key: u32) -> bool {
        self.sketch.count(key);
        match self.queues.place(key) {
            Some(WINDOW) => self.queues.push(WINDOW, key),
            Some(_) => {
                self.queues.push(PROTECTED, key);
                if self.queues.len(PROTECTED) > self.protected_max {
                    let demoted = self.queues.pop(PROTECTED).expect("invariant: one was pushed");
                    self.queues.push(PROBATION, demoted);
                }
            }
            None => {
                self.queues.push(WINDOW, key);
                if self.queues.len(WINDOW) > self.window_max {
                    let candidate = self.queues.pop(WINDOW).expect("invariant: one was pushed");
                    self.admit(candidate);
                }
                return false;
            }
        }
        true
    }
}
