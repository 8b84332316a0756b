//! Growth by one bucket at a time.

use std::ops::ControlFlow;

use base::sync::atomic::Ordering;

use super::{Bucket, Entry, Index, LINE_ENTRIES, Locked, Spread};
use crate::{
    arena::Arena,
    geometry::{BLOCK_LINES, BLOCK_WORDS},
};

/// Entries per 100 places above which a bucket is added. Two choices of seven and two steps of
/// displacement hold to 0.9; what is kept below that spares inserts the displacements.
const LOAD_MAX_PERCENT: u64 = 85;

/// What growth needs before it can go on: a zeroed block of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// For more buckets.
    Buckets,
    /// For more overflow lines.
    Overflow,
}

impl Index {
    /// Whether so many records ask for more buckets.
    #[inline]
    pub(crate) fn wants_growth(&self, records: u64) -> bool {
        let places = self.buckets() * LINE_ENTRIES as u64;
        records * 100 > places * LOAD_MAX_PERCENT
    }

    /// How many buckets there are.
    pub(crate) fn buckets(&self) -> u64 {
        self.size(Ordering::Relaxed).buckets()
    }

    /// Bytes of buckets and overflow lines, in whole blocks.
    pub(crate) fn bytes(&self) -> u64 {
        let lines = self.overflow_blocks();
        ((self.bucket_blocks.load(Ordering::Relaxed) + lines) * BLOCK_WORDS * 8) as u64
    }

    /// What growth needs now, if the load asks for it at all.
    pub(crate) fn growth_need(&self) -> Option<Need> {
        if self.overflow_is_short() {
            return Some(Need::Overflow);
        }
        let blocks = self.bucket_blocks.load(Ordering::Relaxed);
        let is_full = self.buckets() == (blocks * BLOCK_LINES) as u64;
        (is_full && blocks < self.directory.len()).then_some(Need::Buckets)
    }

    /// Takes a zeroed block for `need`. Gives it back when somebody else was faster.
    pub(crate) fn supply(&self, need: Need, block: u32) -> Result<(), u32> {
        if need == Need::Overflow {
            return self.supply_overflow(block);
        }
        let _growth = base::sync::lock(&self.growth);
        match self.growth_need() {
            Some(Need::Buckets) => {
                let at = self.bucket_blocks.load(Ordering::Relaxed);
                self.directory[at].store(block, Ordering::Release);
                self.bucket_blocks.store(at + 1, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(block),
        }
    }

    /// Splits one bucket, unless the load is fine, something is needed first, or another thread is
    /// at it.
    pub(crate) fn grow(&self, arena: &Arena, records: u64) {
        let Ok(_growth) = self.growth.try_lock() else { return };
        if !self.wants_growth(records) || self.growth_need().is_some() {
            return;
        }
        let size = self.size(Ordering::Relaxed);
        let next = size.buckets();
        if next / BLOCK_LINES as u64 >= self.directory.len() as u64 {
            return;
        }
        let (number, moving) = self.extent(size).next_split();
        // A thread that has known the index when it was larger may want the new one already.
        let (old, new) = self.lock_two(arena, number, next);
        self.split(arena, &old, &new, moving);
        self.size.store(size.grown().0, Ordering::Release);
        self.trim_overflow(arena, &old);
    }

    /// Locks two buckets, in address order.
    pub(super) fn lock_two<'a>(
        &self,
        arena: &'a Arena,
        one: u64,
        other: u64,
    ) -> (Locked<'a>, Locked<'a>) {
        let lines = [one, other].map(|number| self.line_of(number));
        let lock = |line| Bucket::new(arena.line(line)).lock();
        if lines[0] < lines[1] {
            let one = lock(lines[0]);
            (one, lock(lines[1]))
        } else {
            let other = lock(lines[1]);
            (lock(lines[0]), other)
        }
    }

    /// Moves the entries whose tags have the bit `moving` from one bucket to the other.
    fn split<'a>(&self, arena: &'a Arena, old: &Locked<'a>, new: &Locked<'a>, moving: u64) {
        let moves =
            |entry: Entry| entry.role().growth(entry.tag(), Spread::of(entry.tag())) & moving != 0;
        for place in 0..LINE_ENTRIES {
            let entry = old.bucket().entry(place);
            if !entry.is_empty() && moves(entry) {
                move_entry(old.bucket(), place, new.bucket(), place);
            }
        }
        let mut chain = Vec::new();
        let _: ControlFlow<()> = self.walk_overflow(arena, old.bucket(), |line| {
            chain.push(line);
            ControlFlow::Continue(())
        });
        for line in chain {
            for place in 0..LINE_ENTRIES {
                let entry = line.entry(place);
                if entry.is_empty() {
                    continue;
                }
                let home = if moves(entry) { new } else { old };
                // Its first bucket is the one whose lines it is in, and stays so.
                let room = match home.bucket().room() {
                    Some(free) => (home.bucket(), free),
                    None if !moves(entry) => continue,
                    None => self
                        .overflow_room(arena, new)
                        .expect("invariant: growth waits for spare overflow lines"),
                };
                move_entry(line, place, room.0, room.1);
            }
        }
    }
}

/// Moves an entry between two lines that are both locked. A reader may count a hit in the old
/// place meanwhile: that hit is lost, nothing else.
pub(super) fn move_entry(from: Bucket<'_>, place: usize, to: Bucket<'_>, free: usize) {
    let entry = Entry(from.word(place).swap(0, Ordering::Relaxed));
    to.word(free).store(entry.0, Ordering::Relaxed);
}
