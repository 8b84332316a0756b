//! ARC, exactly (Megiddo and Modha, FAST 2003, figure 4): an LRU of keys that came once and one of
//! those that came again, each with a ghost, and a border that the ghosts move.
//!
//! The border is a real number and moves by the real ratio of the ghosts' lengths.

use super::{Policy, Queues};

/// Came once, and came again.
const ONCE: usize = 0;
const AGAIN: usize = 1;
/// Left one of these; without values.
const ONCE_GHOST: usize = 2;
const AGAIN_GHOST: usize = 3;

#[derive(Debug)]
pub(crate) struct Arc {
    capacity: usize,
    queues: Queues<4>,
    /// Wanted length of [`ONCE`].
    border: f64,
}

impl Arc {
    pub(crate) fn new(capacity: usize, keys: u32) -> Self {
        Self { capacity, queues: Queues::new(keys), border: 0.0 }
    }

    /// A key goes from one of the two into its ghost.
    fn replace(&mut self, asked_for_was_in: Option<usize>) {
        let once = float(self.queues.len(ONCE));
        let at_border = asked_for_was_in == Some(AGAIN_GHOST) && once == self.border;
        let (from, to) = if once >= 1.0 && (once > self.border || at_border) {
            (ONCE, ONCE_GHOST)
        } else {
            (AGAIN, AGAIN_GHOST)
        };
        if let Some(key) = self.queues.pop(from) {
            self.queues.push(to, key);
        }
    }

    /// A key comes that neither the cache nor the ghosts know.
    fn miss(&mut self, key: u32) {
        let len = |queue: usize| self.queues.len(queue);
        let known_once = len(ONCE) + len(ONCE_GHOST);
        let known = known_once + len(AGAIN) + len(AGAIN_GHOST);
        if known_once == self.capacity {
            if len(ONCE) < self.capacity {
                self.queues.pop(ONCE_GHOST);
                self.replace(None);
            } else {
                self.queues.pop(ONCE);
            }
        } else if known >= self.capacity {
            if known == 2 * self.capacity {
                self.queues.pop(AGAIN_GHOST);
            }
            self.replace(None);
        }
        self.queues.push(ONCE, key);
    }
}

impl Policy for Arc {
    fn access(&mut self, key: u32) -> bool {
        let place = self.queues.place(key);
        let (once, again) =
            (float(self.queues.len(ONCE_GHOST)), float(self.queues.len(AGAIN_GHOST)));
        match place {
            Some(ONCE | AGAIN) => {
                self.queues.push(AGAIN, key);
                return true;
            }
            Some(ONCE_GHOST) => {
                self.border = (self.border + (again / once).max(1.0)).min(float(self.capacity));
                self.replace(place);
                self.queues.push(AGAIN, key);
            }
            Some(_) => {
                self.border = (self.border - (once / again).max(1.0)).max(0.0);
                self.replace(place);
                self.queues.push(AGAIN, key);
            }
            None => self.miss(key),
        }
        false
    }
}

#[expect(clippy::cast_precision_loss, reason = "below 2^32")]
fn float(len: usize) -> f64 {
    len as f64
}
