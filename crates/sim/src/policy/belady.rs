//! The optimum: who is used again last, or never, goes (Belady 1966; Mattson et al. 1970 prove it).
//!
//! It knows the trace beforehand and must be given the same one. No policy that stores what it is
//! asked for misses less.

use std::collections::BinaryHeap;

use trace::Trace;

use super::Policy;

/// Never used again.
const NEVER: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Belady {
    capacity: usize,
    /// Of each request: the number of the next one for the same key.
    next: Vec<u32>,
    /// Requests so far.
    now: usize,
    /// Of each key with a value: when it is used next.
    due: Vec<Option<u32>>,
    held: usize,
    /// When keys are used next, with what has been overtaken since.
    heap: BinaryHeap<(u32, u32)>,
}

impl Belady {
    pub(crate) fn new(capacity: usize, trace: &Trace) -> Self {
        let keys = trace.footprint() as usize;
        let mut coming = vec![NEVER; keys];
        let mut next = vec![NEVER; trace.keys().len()];
        for (at, key) in trace.keys().iter().enumerate().rev() {
            next[at] = coming[*key as usize];
            coming[*key as usize] = u32::try_from(at).expect("invariant: below REQUESTS_MAX");
        }
        Self { capacity, next, now: 0, due: vec![None; keys], held: 0, heap: BinaryHeap::new() }
    }

    fn evict(&mut self) {
        while let Some((due, key)) = self.heap.pop() {
            if self.due[key as usize] == Some(due) {
                self.due[key as usize] = None;
                self.held -= 1;
                return;
            }
        }
    }
}

impl Policy for Belady {
    fn access(&mut self, key: u32) -> bool {
        let next = self.next[self.now];
        self.now += 1;
        let is_hit = self.due[key as usize].is_some();
        if !is_hit {
            if self.held == self.capacity {
                self.evict();
            }
            self.held += 1;
        }
        self.due[key as usize] = Some(next);
        self.heap.push((next, key));
        is_hit
    }
}
