//! 2Q, full version (Johnson and Shasha, VLDB 1994, section 3.2): a FIFO for keys that came once,
//! an LRU for those that came again after they had left it, and a ghost that tells.
//!
//! With the shares that its authors recommend: the FIFO gives way above a quarter of the capacity,
//! and the ghost remembers half as many keys as there is room for.

use super::{Policy, Queues};

const IN_DIVISOR: usize = 4;
const OUT_DIVISOR: usize = 2;

/// Came once; in the order of coming.
const IN: usize = 0;
/// Left [`IN`]; without values.
const OUT: usize = 1;
/// Came again; in the order of use.
const MAIN: usize = 2;

#[derive(Debug)]
pub(crate) struct TwoQueues {
    capacity: usize,
    queues: Queues<3>,
}

impl TwoQueues {
    pub(crate) fn new(capacity: usize, keys: u32) -> Self {
        Self { capacity, queues: Queues::new(keys) }
    }

    fn make_room(&mut self) {
        let queues = &mut self.queues;
        if queues.len(IN) + queues.len(MAIN) < self.capacity {
            return;
        }
        let in_max = (self.capacity / IN_DIVISOR).max(1);
        if queues.len(IN) > in_max || queues.len(MAIN) == 0 {
            let key = queues.pop(IN).expect("invariant: full, and the other one is empty or small");
            queues.push(OUT, key);
            if queues.len(OUT) > (self.capacity / OUT_DIVISOR).max(1) {
                queues.pop(OUT);
            }
        } else {
            queues.pop(MAIN);
        }
    }
}

impl Policy for TwoQueues {
    fn access(&mut self, key: u32) -> bool {
        match self.queues.place(key) {
            Some(MAIN) => self.queues.push(MAIN, key),
            Some(IN) => {}
            place => {
                // Room is made first: the key may be the one that the ghost would forget.
                self.make_room();
                self.queues.push(if place == Some(OUT) { MAIN } else { IN }, key);
                return false;
            }
        }
        true
    }
}
