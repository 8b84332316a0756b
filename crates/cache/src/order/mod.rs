//! In which order the records of a sub-table go: what is done about a policy's decisions.
//!
//! There are two kinds of order. [`Hands`] walks runs of slots: nothing moves on a hit, and no
//! record carries a link. [`Links`] chains the slots of each partition and moves a record on every
//! hit. Both are generic over the policy, which decides, and over the [`Slots`] that they work on:
//! those of a whole cache, or those of one that holds numbers only, which policies are compared
//! with. So what is measured there is the code that serves.
//!
//! Thread safety: everything is called under the sub-table's lock.

mod hands;
mod links;
mod runs;

pub(crate) use hands::Hands;
pub(crate) use links::{Links, SLOTS_MAX};
#[cfg(all(test, not(loom)))]
pub(crate) use runs::checks::Holdings;
pub(crate) use runs::{RUN_BYTES, Runs};

use std::fmt::Debug;

use crate::policy::Partition;

/// Records that an order may look at for one new record. A counter of 3 survives three laps, so a
/// sub-table of a few hundred slots is walked more than once; in a large one a victim comes after
/// two or three slots on average.
const STEPS_MAX: usize = if cfg!(any(loom, shuttle, miri)) { 64 } else { 4096 };

/// What became of a record that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// It is still there: its bucket is locked, its key is put at this moment, or somebody else was
    /// faster.
    Refused,
    /// It is gone, but readers still send its value: the last of them frees the slot.
    Pending,
    /// It is gone and its slot belongs to the caller.
    Freed,
}

/// The slots of a sub-table, by location, and the records in them.
pub(crate) trait Slots {
    /// A record that was found in a slot, as it was seen.
    type Record: Copy;
    /// What a look ahead finds out, so that finding the record soon after costs less.
    type Seen: Copy + Default + Debug + Send;

    /// The record in a slot. `None` when the slot is free or belongs to a writer on its way.
    fn find(&self, slot: usize) -> Option<Self::Record>;

    /// Begins to load a slot.
    fn prefetch(&self, slot: usize);

    /// Looks at a loaded slot and begins to load what evicting its record needs.
    fn look(&self, slot: usize) -> Option<Self::Seen>;

    /// The record that was seen in a slot, if it is still there.
    fn find_seen(&self, slot: usize, seen: &Self::Seen) -> Option<Self::Record>;

    /// Hits of a record since it was stored, or its counter was set: at most 3.
    fn counter(&self, record: &Self::Record) -> u64;

    /// Sets a counter unless the record was hit meanwhile.
    fn set_counter(&mut self, record: &Self::Record, counter: u64);

    /// Takes a record out. Its key is remembered as one that left this partition.
    fn evict(&mut self, record: &Self::Record, left: Partition) -> Eviction;

    /// Evictions so far that returned anything but [`Eviction::Refused`].
    fn evictions(&self) -> u64;

    /// Copies a record to a slot that the caller has taken, its counter 0. Fails as an eviction
    /// does; then everything is as before.
    fn relocate(&mut self, record: &Self::Record, from: usize, to: usize) -> bool;

    /// The number that [`Slots::set_next_free`] gave a free slot.
    fn next_free(&self, slot: usize) -> u16;

    /// Makes a slot a free one, and keeps a number in it.
    fn set_next_free(&mut self, slot: usize, next: u16);

    /// Notes that one slot more is taken, or free.
    fn note_taken(&mut self, taken: bool);

    /// The links of a taken slot. Only [`Links`] uses them.
    fn link(&self, slot: usize) -> u64;

    /// Sets the links of a taken slot.
    fn set_link(&mut self, slot: usize, link: u64);

    /// The run of a slot.
    fn run_of(&self, runs: &Runs, slot: usize) -> u32;

    /// Forgets the oldest keys that left the temporary and the hot partition beyond so many, where
    /// keys are remembered in order.
    fn limit_ghosts(&mut self, most: [usize; 2]);
}

/// What one call of an order works on.
struct Walk<'a, S> {
    runs: &'a mut Runs,
    slots: &'a mut S,
    /// Records that may still be looked at.
    steps: usize,
}

impl<'a, S: Slots> Walk<'a, S> {
    #[inline]
    fn new(runs: &'a mut Runs, slots: &'a mut S) -> Self {
        Self { runs, slots, steps: STEPS_MAX }
    }

    #[inline]
    fn take_free(&mut self, partition: Partition) -> Option<usize> {
        self.runs.take_free(self.slots, partition)
    }

    /// A free slot, if possible of this partition.
    fn take_any_free(&mut self, preferred: Partition) -> Option<usize> {
        let mut slot = self.take_free(preferred);
        for other in [Partition::Temporary, Partition::Hot] {
            slot = slot.or_else(|| self.take_free(other));
        }
        slot
    }

    fn give(&mut self, slot: usize) {
        let run = self.slots.run_of(self.runs, slot);
        self.runs.give(self.slots, run, slot);
    }
}

/// An order, whatever its policy.
pub(crate) trait Order<S: Slots>: Debug + Send {
    /// A slot for a new record whose key left a partition not long ago, by evicting if no other is
    /// free. `None` when everything in reach is held by writers on their way or by readers of large
    /// values.
    fn allocate(
        &mut self,
        runs: &mut Runs,
        slots: &mut S,
        remembered: Option<Partition>,
    ) -> Option<usize>;

    /// Whether a new record that nobody remembers needs memory, or an eviction.
    fn is_full(&self, runs: &Runs) -> bool;

    /// Evicts something, and nothing more once something is gone. Returns the slot, which is the
    /// caller's, unless readers still hold it; [`Slots::evictions`] says whether something went.
    fn turn_out(&mut self, runs: &mut Runs, slots: &mut S) -> Option<usize>;

    /// The record in a slot was hit.
    fn hit(&mut self, runs: &mut Runs, slots: &mut S, slot: usize);

    /// A taken slot will be given back.
    fn release(&mut self, runs: &mut Runs, slots: &mut S, slot: usize);

    /// A run whose records are among the next to go.
    fn next_run(&mut self, runs: &mut Runs, slots: &mut S) -> Option<u32>;

    /// Empties a run of a draining block as far as possible, and saves what there are free slots
    /// for.
    fn empty_run(&mut self, runs: &mut Runs, slots: &mut S, run: u32);

    /// Checks its books against the taken slots. Panics on what does not fit together.
    #[cfg(all(test, not(loom)))]
    fn check(&self, runs: &Runs, slots: &S, taken: &std::collections::BTreeSet<usize>);
}

/// The order of a kind of policy, boxed as whatever the context wants, over slots whose
/// [`Slots::Seen`] is the given type. A macro, because "an order over slots of every lifetime" is
/// no type that a function could be generic over.
macro_rules! of_kind {
    ($kind:expr, $seen:ty) => {
        match $kind {
            $crate::PolicyKind::Htr => {
                Box::new($crate::order::Hands::<_, $seen>::new($crate::policy::Htr::new()))
            }
            $crate::PolicyKind::Fifo => {
                Box::new($crate::order::Hands::<_, $seen>::new($crate::policy::Fifo))
            }
            $crate::PolicyKind::Lru => Box::new($crate::order::Links::new($crate::policy::Lru)),
            $crate::PolicyKind::Arc => {
                Box::new($crate::order::Links::new($crate::policy::Arc::new()))
            }
            $crate::PolicyKind::Paper(rules) => {
                Box::new($crate::order::Links::new($crate::policy::Paper::new(rules)))
            }
        }
    };
}
pub(crate) use of_kind;
