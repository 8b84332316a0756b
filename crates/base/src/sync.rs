//! Synchronisation primitives, switched between std, loom and shuttle.
//!
//! Data structures that run under a model checker take every atomic, lock, fence and thread from
//! here. Build with `RUSTFLAGS="--cfg loom"` or `--cfg shuttle` to explore their interleavings.
//! loom models weak memory (it finds a missing fence) but only small state spaces; shuttle runs
//! long random schedules under sequential consistency.

#[cfg(not(any(loom, shuttle)))]
pub use std::{
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread,
};

#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread,
};

#[cfg(shuttle)]
pub use shuttle::{
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread,
};

/// A cell that is written once. The checkers do not see it: nobody is to wait in one, and under
/// loom what is in it has to be written before there are threads.
pub use std::sync::OnceLock;

/// Spins before the thread gives up its time slice.
///
/// A holder that was preempted cannot make progress while a waiter burns its core, so a waiter
/// yields after about a microsecond (64 spins of roughly 15 ns each).
const SPINS_BEFORE_YIELD: u32 = 64;

/// Waiting that spins first and then yields.
#[derive(Debug, Default)]
pub struct Backoff {
    spins: u32,
}

impl Backoff {
    /// A wait that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self { spins: 0 }
    }

    /// Waits a little: spins at first, yields the time slice later.
    pub fn wait(&mut self) {
        if cfg!(any(loom, shuttle, miri)) || self.spins >= SPINS_BEFORE_YIELD {
            thread::yield_now();
        } else {
            self.spins += 1;
            spin_loop();
        }
    }
}

/// Locks a mutex; a poisoned one is a bug of this process and ends the caller.
///
/// # Panics
/// Panics when another thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("invariant: no thread panics while it holds a lock")
}
