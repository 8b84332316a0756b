//! Which versions of each key were written, and which of them a read may still see.
//!
//! Versions of a key are numbered from 1 in the order in which their sets are sent. Sets that are
//! under way at the same time may be executed in any order, so what is known for certain is this:
//! a version is dead for a read when some set was sent after that version's set was answered, and
//! was itself answered before the read was sent. The ledger keeps for each key the lowest version
//! that is not dead (the floor) and the newest one sent.
//!
//! The floor is exact while one set of a key is under way at a time. With more, it needs to know up
//! to which version all sets are answered, and learns that in rounds as RCU learns of grace
//! periods: it waits for the sets that were under way when the round began. So it may lag behind by
//! two rounds: a stale read of a key that is being set all the time may be missed, but no right
//! read is ever called stale.
//!
//! Thread safety: shared by all threads; a key's lock is held for a few instructions, and reads
//! take none. 32 bytes a key.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// The versions of all keys on one server.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// By key, the floor in the high half and the newest version in the low one. Apart from the
    /// rest, since this is all that a get looks at.
    windows: Vec<AtomicU64>,
    /// By key.
    sets: Vec<Mutex<Sets>>,
}

/// Sets of a key.
#[derive(Debug, Default)]
struct Sets {
    /// All sets up to this version are answered.
    answered: u32,
    /// The newest version when the round began.
    round: u32,
    /// Sets under way up to the round's version.
    old: u32,
    /// Sets under way since.
    new: u32,
}

/// A set that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) version: u32,
    /// The lowest version that can be alive when this set is answered.
    floor: u32,
}

impl Ledger {
    pub(crate) fn new(keys: u32) -> Self {
        Self {
            windows: (0..keys).map(|_| AtomicU64::default()).collect(),
            sets: (0..keys).map(|_| Mutex::default()).collect(),
        }
    }

    /// When every key was set once, and that was answered.
    pub(crate) fn set_once(keys: u32) -> Self {
        let windows = (0..keys).map(|_| AtomicU64::new(join(1, 1))).collect();
        Self { windows, ..Self::new(keys) }
    }

    /// To be called before a set is sent.
    pub(crate) fn begin(&self, key: u32) -> Ticket {
        let window = &self.windows[key as usize];
        let mut sets = lock(&self.sets[key as usize]);
        let (floor, newest) = split(window.load(Ordering::Relaxed));
        let version = newest.checked_add(1).expect("invariant: 4 billion sets take hours");
        window.store(join(floor, version), Ordering::Release);
        if sets.old == 0 {
            sets.answered = newest;
            sets.round = version;
            sets.old = 1;
        } else {
            sets.new += 1;
        }
        Ticket { version, floor: sets.answered + 1 }
    }

    /// To be called when a set is answered. A set that was refused may or may not have been
    /// executed: it kills no version.
    pub(crate) fn end(&self, key: u32, ticket: Ticket, is_stored: bool) {
        let window = &self.windows[key as usize];
        let mut sets = lock(&self.sets[key as usize]);
        if ticket.version <= sets.round {
            sets.old -= 1;
        } else {
            sets.new -= 1;
        }
        let (floor, newest) = split(window.load(Ordering::Relaxed));
        if sets.old == 0 {
            sets.answered = if sets.new == 0 { newest } else { sets.round };
            sets.round = newest;
            sets.old = std::mem::take(&mut sets.new);
        }
        if is_stored {
            window.store(join(floor.max(ticket.floor), newest), Ordering::Release);
        }
    }

    /// The floor: to be asked for before a get is sent. 0 as long as no set was answered: then a
    /// value may be from before.
    pub(crate) fn floor(&self, key: u32) -> u32 {
        split(self.windows[key as usize].load(Ordering::Acquire)).0
    }

    /// The newest version: to be asked for after a get was answered.
    pub(crate) fn newest(&self, key: u32) -> u32 {
        split(self.windows[key as usize].load(Ordering::Acquire)).1
    }
}

/// A panic elsewhere ends the run anyway; counters are whole between any two statements.
fn lock(sets: &Mutex<Sets>) -> MutexGuard<'_, Sets> {
    sets.lock().unwrap_or_else(PoisonError::into_inner)
}

fn join(floor: u32, newest: u32) -> u64 {
    u64::from(floor) << 32 | u64::from(newest)
}

#[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
fn split(window: u64) -> (u32, u32) {
    ((window >> 32) as u32, window as u32)
}

#[cfg(test)]
mod tests;
