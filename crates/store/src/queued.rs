//! What of a worker waits in order at a key: its hits would overtake that.
//!
//! Thread safety: a plain value of the worker's thread. Invariant: whatever the worker has put into
//! a queue that others go behind is counted until the worker has taken the answer.

use crate::limits::{KEY_LOCKS, PENDING_MAX};

const _: () = assert!(PENDING_MAX <= u16::MAX as usize, "all may wait at one key");

/// How much waits, by the locks of the keys.
#[derive(Debug)]
pub(crate) struct Queued {
    /// Of all keys: mostly nothing, and then a hit asks no more.
    all: usize,
    of_locks: Box<[u16]>,
}

impl Default for Queued {
    fn default() -> Self {
        Self { all: 0, of_locks: vec![0; KEY_LOCKS].into() }
    }
}

impl Queued {
    /// Something waits at a key of this lock.
    pub(crate) fn add(&mut self, lock: usize) {
        self.all += 1;
        self.of_locks[lock] += 1;
    }

    /// Its answer was taken.
    pub(crate) fn remove(&mut self, lock: usize) {
        self.all -= 1;
        self.of_locks[lock] -= 1;
    }

    /// Whether a hit on a key of this lock may overtake something.
    #[inline]
    pub(crate) fn has(&self, lock: usize) -> bool {
        self.all > 0 && self.of_locks[lock] > 0 && !base::mutant!("store_hit_overtakes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_told_of_its_lock_until_all_of_it_is_answered() {
        let mut queued = Queued::default();
        [3, 3, 4].into_iter().for_each(|lock| queued.add(lock));
        queued.remove(3);
        assert_eq!([2, 3, 4].map(|lock| queued.has(lock)), [false, true, true]);
        queued.remove(3);
        assert_eq!([2, 3, 4].map(|lock| queued.has(lock)), [false, false, true]);
        queued.remove(4);
        assert_eq!(queued.all, 0);
    }
}
