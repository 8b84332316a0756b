//! Quiescent-state-based reclamation (McKenney and Slingwine 1998): when memory that a reader may
//! still look at can be given to somebody who writes it without the readers' protocol.
//!
//! Inline slots need none of this, their readers validate. Blocks that leave their class do.
//!
//! Thread safety: shared by all workers. Invariants:
//! 1. A place holds 0 (free or offline) or the epoch its thread last saw while it held nothing.
//! 2. What was unlinked before [`Qsbr::advance`] returned `e` can be reached by no thread once
//!    [`Qsbr::passed`] says so for `e`.

use base::sync::atomic::{AtomicU64, Ordering, fence};

/// Threads that can be registered at once: far above any number of cores, 4 KiB of places.
pub(crate) const PLACES_MAX: usize = if cfg!(any(loom, shuttle, miri)) { 4 } else { 512 };

const FREE: u64 = 0;
/// Registered but holding nothing.
const OFFLINE: u64 = 1;
const FIRST_EPOCH: u64 = 2;

/// The epoch and every thread's view of it.
#[derive(Debug)]
pub(crate) struct Qsbr {
    epoch: AtomicU64,
    places: Box<[AtomicU64]>,
}

impl Qsbr {
    pub(crate) fn new() -> Self {
        let places = (0..PLACES_MAX).map(|_| AtomicU64::new(FREE)).collect();
        Self { epoch: AtomicU64::new(FIRST_EPOCH), places }
    }

    /// Registers the calling thread, offline. `None` when all places are taken.
    pub(crate) fn register(&self) -> Option<usize> {
        self.places.iter().position(|place| {
            place.compare_exchange(FREE, OFFLINE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Gives a place back.
    pub(crate) fn unregister(&self, place: usize) {
        self.places[place].store(FREE, Ordering::Release);
    }

    /// Says that the thread from now on may hold what it finds.
    pub(crate) fn online(&self, place: usize) {
        let epoch = self.epoch.load(Ordering::Acquire);
        self.places[place].store(epoch, Ordering::Relaxed);
        // Pairs with the fence in `advance`: either the reclaimer sees this thread, or this
        // thread's first load sees what the reclaimer unlinked.
        if !base::mutant!("no_online_fence") {
            fence(Ordering::SeqCst);
        }
    }

    /// Says that the thread holds nothing until it is online again.
    pub(crate) fn offline(&self, place: usize) {
        self.places[place].store(OFFLINE, Ordering::Release);
    }

    /// Says that the thread, online, holds nothing at this moment.
    #[inline]
    pub(crate) fn quiesce(&self, place: usize) {
        let epoch = self.epoch.load(Ordering::Acquire);
        let place = &self.places[place];
        if place.load(Ordering::Relaxed) != epoch {
            place.store(epoch, Ordering::Release);
        }
    }

    /// Begins a new epoch after something was unlinked, and returns it.
    pub(crate) fn advance(&self) -> u64 {
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        epoch
    }

    /// Whether every online thread has been quiescent since `epoch` began.
    pub(crate) fn passed(&self, epoch: u64) -> bool {
        if base::mutant!("no_quiescence_wait") {
            return true;
        }
        self.places.iter().all(|place| {
            let seen = place.load(Ordering::Acquire);
            seen < FIRST_EPOCH || seen >= epoch
        })
    }
}
