//! LIRS: who goes is decided by the recency of the last use but one (Jiang and Zhang, SIGMETRICS
//! 2002).
//!
//! 99 % of the places are for keys with a low inter-reference recency (LIR), the rest, at least
//! two, for those with a high one (HIR). The stack holds keys by their last use, those without a
//! value included, down to the oldest LIR key; the queue holds the HIR keys that have a value.
//! Invariant: the stack's oldest key is LIR.
//!
//! Two things are as in its authors' own program: the least number of HIR places, and that a key
//! which is asked for twice in a row counts as used once. The stack has no other bound.

use super::{Policy, Queues};

const HIR_DIVISOR: usize = 100;
const HIR_MIN: usize = 2;

/// The only queue of each of the two.
const ALL: usize = 0;

#[derive(Debug)]
pub(crate) struct Lirs {
    lir_max: usize,
    hir_max: usize,
    lir_len: usize,
    stack: Queues<1>,
    queue: Queues<1>,
    is_lir: Vec<bool>,
    last: Option<u32>,
}

impl Lirs {
    pub(crate) fn new(capacity: usize, keys: u32) -> Self {
        // A cache of one place has no LIR keys, one of two has one.
        let hir_max = (capacity / HIR_DIVISOR).max(HIR_MIN).min((capacity - 1).max(1));
        Self {
            lir_max: capacity - hir_max,
            hir_max,
            lir_len: 0,
            stack: Queues::new(keys),
            queue: Queues::new(keys),
            is_lir: vec![false; keys as usize],
            last: None,
        }
    }

    /// A key in the stack is used again: its recency is low. The oldest LIR key makes room.
    fn promote(&mut self, key: u32) {
        self.queue.take(key);
        self.is_lir[key as usize] = true;
        self.lir_len += 1;
        self.stack.push(ALL, key);
        if self.lir_len > self.lir_max {
            let demoted = self.stack.pop(ALL).expect("invariant: LIR keys are in the stack");
            self.is_lir[demoted as usize] = false;
            self.lir_len -= 1;
            self.queue.push(ALL, demoted);
            self.prune();
        }
    }

    /// Takes from the stack what is older than every LIR key.
    fn prune(&mut self) {
        while let Some(oldest) = self.stack.oldest(ALL)
            && !self.is_lir[oldest as usize]
        {
            self.stack.take(oldest);
        }
    }

    fn miss(&mut self, key: u32) {
        if self.lir_len < self.lir_max {
            self.is_lir[key as usize] = true;
            self.lir_len += 1;
            return self.stack.push(ALL, key);
        }
        if self.queue.len(ALL) == self.hir_max {
            self.queue.pop(ALL);
        }
        if self.stack.place(key).is_some() {
            self.promote(key);
        } else {
            self.queue.push(ALL, key);
            self.stack.push(ALL, key);
            // Without places for LIR keys, nothing holds the stack up.
            self.prune();
        }
    }
}

impl Policy for Lirs {
    fn access(&mut self, key: u32) -> bool {
        if self.last.replace(key) == Some(key) {
            return true;
        }
        let in_stack = self.stack.place(key).is_some();
        if self.is_lir[key as usize] {
            self.stack.push(ALL, key);
            self.prune();
        } else if self.queue.place(key).is_none() {
            self.miss(key);
            return false;
        } else if in_stack {
            self.promote(key);
        } else {
            self.queue.push(ALL, key);
            self.stack.push(ALL, key);
        }
        true
    }
}
