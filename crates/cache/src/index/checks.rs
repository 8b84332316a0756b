//! All entries and blocks of an index, for those who check a whole table.

use std::ops::ControlFlow;

use base::sync::atomic::Ordering;

use super::{Bucket, Entry, Index, LINE_ENTRIES, Lines, Role, Tag};
use crate::arena::Arena;

#[cfg_attr(loom, expect(dead_code, reason = "loom looks at single entries only"))]
impl Index {
    /// Every entry. Panics on one that is in no line of its hash.
    pub(crate) fn entries(&self, arena: &Arena, hash_of: impl Fn(usize) -> u64) -> Vec<Entry> {
        let mut all = Vec::new();
        for number in 0..self.buckets() {
            let bucket = self.bucket(arena, number);
            assert!(bucket.version().is_even(), "bucket {number} is locked by nobody");
            let mut add = |entry: Entry, in_overflow: bool| {
                if entry.is_empty() {
                    return;
                }
                let hash = hash_of(entry.location());
                assert_eq!(entry.tag(), Tag::of(hash), "slot shared: another key's record");
                let Lines { first, second } = Lines::of(arena, self.candidates(hash));
                let is = |home: Bucket<'_>| std::ptr::eq(home.word(0), bucket.word(0));
                let at_home = match entry.role() {
                    Role::First => is(first),
                    Role::Second => is(second) && !in_overflow,
                };
                assert!(at_home, "an entry in bucket {number}, which is not one of its two");
                all.push(entry);
            };
            (0..LINE_ENTRIES).for_each(|place| add(bucket.entry(place), false));
            let _: ControlFlow<()> = self.walk_overflow(arena, bucket, |line| {
                (0..LINE_ENTRIES).for_each(|place| add(line.entry(place), true));
                ControlFlow::Continue(())
            });
        }
        all
    }

    /// Blocks of buckets and overflow lines.
    pub(crate) fn blocks(&self) -> Vec<usize> {
        let buckets = &self.directory[..self.bucket_blocks.load(Ordering::Relaxed)];
        let both = buckets.iter().chain(&self.overflow);
        both.map(|at| at.load(Ordering::Relaxed) as usize).filter(|&block| block != 0).collect()
    }
}

impl Index {
    /// Bucket and location of every entry that is in no overflow line.
    pub(crate) fn buckets_of_entries(&self, arena: &Arena) -> Vec<(u64, usize)> {
        let places = |number| (0..LINE_ENTRIES).map(move |place| (number, place));
        let all = (0..self.buckets()).flat_map(places);
        let locations =
            all.map(|(number, place)| (number, self.bucket(arena, number).entry(place).location()));
        locations.filter(|&(_, location)| location != 0).collect()
    }
}
