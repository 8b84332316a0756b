use std::collections::HashMap;

use super::*;

/// Blocks for an index alone: block 0 is nobody's, block 1 has the first buckets.
struct Bench {
    arena: Arena,
    index: Index,
    next_block: u32,
    /// Blocks that held buckets.
    returned: Vec<u32>,
    hashes: HashMap<usize, u64>,
}

impl Bench {
    fn new(blocks: usize) -> Self {
        let arena = Arena::new(blocks).expect("memory");
        let index = Index::new(blocks, &[1]);
        Self { index, arena, next_block: 2, returned: Vec::new(), hashes: HashMap::new() }
    }

    fn insert(&mut self, hash: u64, location: usize) -> Result<(), Full> {
        self.hashes.insert(location, hash);
        let pair = self.index.lock(&self.arena, self.index.candidates(hash), hash);
        self.index.insert(&self.arena, &pair, Entry::new(location, Tag::of(hash)))
    }

    fn grow(&mut self) {
        while let Some(need) = self.index.growth_need() {
            let block = self.returned.pop().unwrap_or_else(|| {
                self.next_block += 1;
                self.next_block - 1
            });
            self.index.supply(need, block).expect("asked for");
        }
        self.index.grow(&self.arena, self.hashes.len() as u64);
    }

    fn remove(&mut self, hash: u64, location: usize) {
        let candidates = self.index.candidates(hash);
        let pair = self.index.lock(&self.arena, candidates, hash);
        let found = self.index.find_location(&self.arena, candidates, hash, location);
        assert!(self.index.remove(&self.arena, &found.expect("present")));
        drop(pair);
        self.hashes.remove(&location);
    }

    /// Grows and inserts as for a load of just below growth's.
    fn fill(&mut self, total: u64) {
        for number in 0..total {
            self.grow();
            self.insert(hash(number), 1 + number as usize).expect("room");
        }
    }

    fn clear(&mut self) {
        for (location, hash) in self.hashes.clone() {
            self.remove(hash, location);
        }
    }

    fn location_of(&self, hash: u64, location: usize) -> Option<usize> {
        let found = self.index.read(&self.arena, self.index.candidates(hash), hash, |found| {
            (found.entry.location() == location).then_some(location)
        });
        found.expect("nobody interferes").map(|(_, location)| location)
    }
}

fn hash(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

#[test]
fn every_entry_is_found_through_growth_and_none_after_removal() {
    let mut bench = Bench::new(if cfg!(any(miri, shuttle, loom)) { 24 } else { 64 });
    let total = if cfg!(any(miri, shuttle, loom)) { 1_200 } else { 200_000 };
    for number in 0..total {
        bench.grow();
        bench.insert(hash(number), 1 + number as usize).expect("room");
    }
    let overflow = bench.index.overflow.iter().filter(|at| at.load(Ordering::Relaxed) != 0).count();
    assert!(overflow <= 1, "{overflow} blocks of overflow lines");
    let places = bench.index.buckets() * LINE_ENTRIES as u64;
    assert!(total * 100 / places >= 84, "load {}", total * 100 / places);
    for number in 0..total {
        let location = 1 + number as usize;
        assert_eq!(bench.location_of(hash(number), location), Some(location), "{number}");
    }
    for number in 0..total {
        let location = 1 + number as usize;
        let candidates = bench.index.candidates(hash(number));
        let pair = bench.index.lock(&bench.arena, candidates, hash(number));
        let found = bench.index.find_location(&bench.arena, candidates, hash(number), location);
        let found = found.expect("still there");
        assert!(bench.index.remove(&bench.arena, &found));
        assert!(!bench.index.remove(&bench.arena, &found), "removed twice");
        drop(pair);
        assert_eq!(bench.location_of(hash(number), location), None);
    }
}

#[test]
fn growth_is_undone_and_done_again() {
    let mut bench = Bench::new(if cfg!(any(miri, shuttle, loom)) { 48 } else { 64 });
    let total = if cfg!(any(miri, shuttle, loom)) { 1_200 } else { 200_000 };
    let (kept, mut buckets_before) = (total / 10, bench.index.buckets());
    for round in 0..3 {
        for number in if round == 0 { 0 } else { kept }..total {
            bench.grow();
            bench.insert(hash(number), 1 + number as usize).expect("room");
        }
        // A block that no bucket has been made in so far.
        while bench.index.growth_need() != Some(Need::Buckets) {
            bench.index.grow(&bench.arena, u64::MAX >> 8);
        }
        bench.index.supply(Need::Buckets, bench.next_block).expect("asked for");
        bench.next_block += 1;
        let grown = bench.index.buckets();
        let old = bench.index.candidates(hash(0));
        for number in kept..total {
            bench.remove(hash(number), 1 + number as usize);
        }
        assert!(bench.index.wants_merges(kept, false));
        while bench.index.wants_merges(kept, true) {
            match bench.index.merge(&bench.arena) {
                Merge::Done => {}
                Merge::DoneWith(block) => bench.returned.push(block),
                Merge::NotNow => break,
            }
        }
        let merged = bench.index.buckets();
        assert!(merged * 3 < grown, "{merged} of {grown} buckets are left");
        let blocks = bench.index.bucket_blocks.load(Ordering::Relaxed) as u64;
        assert_eq!(blocks, merged.div_ceil(BLOCK_LINES as u64), "blocks without buckets");
        assert!(round == 0 || grown >= buckets_before, "growth was lost");
        assert!(!bench.index.is_current(old), "a block was given back");
        for number in 0..total {
            let location = 1 + number as usize;
            let expected = (number < kept).then_some(location);
            assert_eq!(bench.location_of(hash(number), location), expected, "{number}");
        }
        let hashes = bench.hashes.clone();
        let entries = bench.index.entries(&bench.arena, |location| hashes[&location]);
        assert_eq!(entries.len() as u64, kept);
        buckets_before = grown;
    }
}

#[test]
fn where_a_key_was_is_not_taken_for_where_it_is_after_shrinking_and_growing_again() {
    let mut bench = Bench::new(8);
    let blocks_of = |bench: &Bench| bench.index.buckets() / BLOCK_LINES as u64;
    bench.fill(BLOCK_LINES as u64 * LINE_ENTRIES as u64);
    let (old, buckets) = (bench.index.candidates(hash(7)), bench.index.buckets());
    assert_eq!(blocks_of(&bench), 1, "some more buckets than one block");
    bench.clear();
    while bench.index.merge(&bench.arena) != Merge::NotNow {}
    assert_eq!(bench.index.buckets(), BLOCK_LINES as u64);
    bench.fill(BLOCK_LINES as u64 * LINE_ENTRIES as u64);
    assert_eq!(bench.index.buckets(), buckets);
    assert!(!bench.index.is_current(old), "its line may be somebody else's");
    assert!(bench.index.find_location(&bench.arena, old, hash(7), 8).is_none());
    let pair = bench.index.lock(&bench.arena, old, hash(7));
    let now = bench.index.candidates(hash(7));
    assert!(pair.lines().first.is(Lines::of(&bench.arena, now).first), "another line is locked");
}

#[test]
fn two_steps_of_displacement_fill_to_nine_tenths() {
    let mut bench = Bench::new(8);
    let places = BLOCK_LINES as u64 * LINE_ENTRIES as u64;
    let mut stored = 0;
    // No block for overflow lines is supplied: the first insert that needs one fails.
    while bench.insert(hash(stored), 1 + stored as usize).is_ok() {
        stored += 1;
    }
    let percent = stored * 100 / places;
    assert!(percent >= if BLOCK_LINES > 100 { 90 } else { 70 }, "full at {percent} %");
}

#[test]
fn overflow_lines_keep_what_no_bucket_takes_and_come_back() {
    let mut bench = Bench::new(8);
    bench.index.supply(Need::Overflow, 2).expect("short of lines");
    let places = BLOCK_LINES as u64 * LINE_ENTRIES as u64;
    let total = places + LINE_ENTRIES as u64;
    for number in 0..total {
        bench.insert(hash(number), 1 + number as usize).expect("overflow lines");
    }
    bench.next_block = 3;
    for number in 0..total {
        let location = 1 + number as usize;
        assert_eq!(bench.location_of(hash(number), location), Some(location), "{number}");
    }
    while bench.index.wants_growth(total) {
        bench.grow();
    }
    for number in 0..total {
        let location = 1 + number as usize;
        assert_eq!(bench.location_of(hash(number), location), Some(location), "{number}");
    }
}

#[test]
fn a_key_keeps_its_buckets_or_moves_to_the_new_one() {
    for buckets in 8..300u64 {
        let size = Size::new(buckets, 5);
        let [before, after] =
            [size, size.grown()].map(|size| Extent { base_bits: 3, base_mask: 7, size });
        assert_eq!((after.size.shrunk(false), after.size.level()), (size, (buckets + 1).ilog2()));
        assert_ne!(after.size.shrunk(true), size, "a block was given back");
        let (split, moving) = before.next_split();
        for number in 0..500 {
            let tag = Tag::of(hash(number));
            let roles = [Role::First, Role::Second];
            let (old, new) = (before.numbers(hash(number)), after.numbers(hash(number)));
            assert_ne!(old[0], old[1]);
            for ((role, old), new) in roles.into_iter().zip(old).zip(new) {
                let moves = old == split && role.growth(tag, Spread::of(tag)) & moving != 0;
                assert!(old < buckets);
                assert_eq!(new, if moves { buckets } else { old });
            }
            let entry = Entry::new(1, tag);
            for (role, (here, there)) in roles.into_iter().zip([(old[0], old[1]), (old[1], old[0])])
            {
                assert_eq!(before.other_bucket(here, entry.in_role(role)), there);
            }
        }
    }
}
