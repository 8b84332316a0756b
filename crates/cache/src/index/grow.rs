//! Growth by one bucket at a time.

use std::ops::ControlFlow;

use base::sync::atomic::Ordering;

use super::{
    BLOCK_LINES, Bucket, COORDINATE_MASK, Entry, Index, LINE_ENTRIES, Locked, Tag, bucket_of,
    offset,
};
use crate::{arena::Arena, geometry::BLOCK_WORDS};

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
        let places = self.buckets.load(Ordering::Relaxed) * LINE_ENTRIES as u64;
        records * 100 > places * LOAD_MAX_PERCENT
    }

    /// Bytes of buckets and overflow lines, in whole blocks.
    pub(crate) fn bytes(&self) -> u64 {
        let taken = |blocks: &[_]| {
            blocks.iter().filter(|at: &&super::AtomicU32| at.load(Ordering::Relaxed) != 0).count()
        };
        ((taken(&self.directory) + taken(&self.overflow)) * BLOCK_WORDS * 8) as u64
    }

    /// What growth needs now, if the load asks for it at all.
    pub(crate) fn growth_need(&self) -> Option<Need> {
        if self.overflow_is_short() {
            return Some(Need::Overflow);
        }
        let next = self.buckets.load(Ordering::Relaxed);
        let at = self.directory.get(usize::try_from(next).ok()? / BLOCK_LINES)?;
        (at.load(Ordering::Relaxed) == 0).then_some(Need::Buckets)
    }

    /// Takes a zeroed block for `need`. Gives it back when somebody else was faster.
    pub(crate) fn supply(&self, need: Need, block: u32) -> Result<(), u32> {
        if need == Need::Overflow {
            return self.supply_overflow(block);
        }
        let _growth = base::sync::lock(&self.growth);
        match self.growth_need() {
            Some(Need::Buckets) => {
                let next = self.buckets.load(Ordering::Relaxed);
                let at = usize::try_from(next).expect("invariant: 40 bits") / BLOCK_LINES;
                self.directory[at].store(block, Ordering::Release);
                Ok(())
            }
            _ => Err(block),
        }
    }

    /// Splits one bucket, unless the load is fine, something is needed first, or another thread is
    /// at it. `hash_of` gives the hash of the record at a location.
    pub(crate) fn grow(&self, arena: &Arena, records: u64, hash_of: impl Fn(usize) -> u64) {
        let Ok(_growth) = self.growth.try_lock() else { return };
        if !self.wants_growth(records) || self.growth_need().is_some() {
            return;
        }
        let next = self.buckets.load(Ordering::Relaxed);
        if next / BLOCK_LINES as u64 >= self.directory.len() as u64 {
            return;
        }
        let level = 63 - next.leading_zeros();
        let number = next - (1 << level);
        // The old one first: address order, and nobody else can want the new one yet.
        let old = self.bucket(arena, number).lock();
        let new = self.bucket(arena, next).lock();
        self.split(arena, &old, number, &new, next, hash_of);
    }

    /// Moves what belongs to bucket `next` out of bucket `number`, and publishes it.
    fn split<'a>(
        &self,
        arena: &'a Arena,
        old: &Locked<'a>,
        number: u64,
        new: &Locked<'a>,
        next: u64,
        hash_of: impl Fn(usize) -> u64,
    ) {
        let mut chain = Vec::new();
        let _: ControlFlow<()> = self.walk_overflow(arena, old.bucket(), |line| {
            chain.push(line);
            ControlFlow::Continue(())
        });
        for place in 0..LINE_ENTRIES {
            arena.prefetch(old.bucket().entry(place).location());
        }
        let coordinates = |entry: Entry| {
            let hash = hash_of(entry.location());
            let first = hash & COORDINATE_MASK;
            [first, first ^ offset(Tag::of(hash))].map(|at| bucket_of(at, next + 1))
        };
        for place in 0..LINE_ENTRIES {
            let entry = old.bucket().entry(place);
            if !entry.is_empty() && !coordinates(entry).contains(&number) {
                move_entry(old.bucket(), place, new.bucket(), place);
            }
        }
        for &line in &chain {
            for place in 0..LINE_ENTRIES {
                let entry = line.entry(place);
                if entry.is_empty() {
                    continue;
                }
                let candidates = coordinates(entry);
                let home = |bucket: Bucket<'a>, its: u64| {
                    let free = candidates.contains(&its).then(|| bucket.position(Entry::is_empty));
                    free.flatten().map(|free| (bucket, free))
                };
                let target = home(new.bucket(), next).or_else(|| home(old.bucket(), number));
                match target {
                    Some((bucket, free)) => move_entry(line, place, bucket, free),
                    // Its first bucket is the one whose lines it may be in.
                    None if candidates[0] == number => {}
                    None => {
                        let (line_to, free) = self
                            .overflow_room(arena, new)
                            .expect("invariant: growth waits for spare overflow lines");
                        move_entry(line, place, line_to, free);
                    }
                }
            }
        }
        self.buckets.store(next + 1, Ordering::Release);
        self.trim_overflow(arena, old);
    }
}

/// Moves an entry between two lines that are both locked. A reader may count a hit in the old
/// place meanwhile: that hit is lost, nothing else.
fn move_entry(from: Bucket<'_>, place: usize, to: Bucket<'_>, free: usize) {
    let entry = Entry(from.word(place).swap(0, Ordering::Relaxed));
    to.word(free).store(entry.0, Ordering::Relaxed);
}
