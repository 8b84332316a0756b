//! Who gets the log's lock, and when.
//!
//! It is held for microseconds, many times in a row while threads behind move records, and a mutex
//! goes to whoever comes: one who sleeps is woken up too late, again and again. So the first caller
//! looks for it before he sleeps, and threads behind give way to those who wait.

use std::{
    sync::{TryLockError, atomic::Ordering},
    thread,
};

use base::clock::Stopwatch;

use super::{
    drive::{Guard, Shared},
    ignore_poison,
};
use crate::keys::Keys;

/// How long a thread behind gives way to those who wait for the lock before it takes the next turn.
/// One that sleeps wakes up in that time.
const GIVE_WAY_NS: u64 = 100_000;

/// How long the first caller who finds the lock taken looks for it before he sleeps, and pauses of
/// the processor between two looks. A turn of moves takes 10 to 20 us, some steps of a segment up
/// to 200, and to be woken up takes as long again, or longer.
const LOOK_NS: u64 = 400_000;
const PAUSES: usize = 8;

/// After so long he lets others have the processor between two looks: whoever has the lock may wait
/// for that.
const LOOK_ALONE_NS: u64 = 50_000;

impl<K: Keys> Shared<K> {
    /// For whoever has called the log.
    pub(super) fn lock(&self) -> Guard<'_, K> {
        if let Some(state) = self.try_lock() {
            return state;
        }
        // Relaxed, here and below: they say how busy the lock is, and nothing depends on them.
        let others = self.looking.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let soon = if others == 0 { self.look_for_lock() } else { None };
        let state = soon.unwrap_or_else(|| ignore_poison(self.state.lock()));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.looking.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// For a thread behind, which has something to report: it may sleep.
    pub(super) fn lock_to_report(&self) -> Guard<'_, K> {
        if let Some(state) = self.try_lock() {
            return state;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let state = ignore_poison(self.state.lock());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    fn try_lock(&self) -> Option<Guard<'_, K>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(ignore_poison(Err(poisoned))),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Looks whether the lock comes free for as long as most have it.
    fn look_for_lock(&self) -> Option<Guard<'_, K>> {
        let watch = Stopwatch::start();
        loop {
            match watch.elapsed_ns() {
                LOOK_NS.. => return None,
                LOOK_ALONE_NS.. => thread::yield_now(),
                _ => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
            }
            if let Some(state) = self.try_lock() {
                return Some(state);
            }
        }
    }

    /// Lets those have the lock who wait for it, if there are any.
    pub(super) fn let_in<'a>(&'a self, state: Guard<'a, K>) -> Guard<'a, K> {
        if self.waiting.load(Ordering::Relaxed) == 0 || base::mutant!("log_lets_nobody_in") {
            return state;
        }
        drop(state);
        self.give_way()
    }

    /// Takes the lock again when those who wait for it have had it. A mutex goes to whoever comes,
    /// and one who sleeps comes too late.
    pub(super) fn give_way(&self) -> Guard<'_, K> {
        let watch = Stopwatch::start();
        while self.waiting.load(Ordering::Relaxed) > 0 && watch.elapsed_ns() < GIVE_WAY_NS {
            thread::yield_now();
        }
        ignore_poison(self.state.lock())
    }
}
