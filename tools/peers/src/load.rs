//! What every engine is given: keys, values and streams of operations, all computed beforehand.
//!
//! A key is known by its rank in the Zipf distribution; keys of any length start with a bijection
//! of the rank, so two ranks never share a key. The value of a rank is one of a pair of names of
//! equal length (in 2032 of 2048 pairs), so that a put may change a value but not its size.

use std::hash::{Hash, Hasher};

use crate::random::{Random, Zipf};

/// Operations of a burst: the batch of batched workloads, and the distance of announcements.
pub(crate) const BURST: usize = 32;

/// Most operations in a precomputed stream (64 MiB of memory each); longer runs wrap around, and
/// find more of their keys than the first time.
const STREAM_OPS_MAX: usize = 1 << 24;

/// Bits of an operation: a put, the other name of the pair, and the rank below them.
const PUT: u32 = 1 << 31;
const OTHER: u32 = 1 << 30;
/// Ranks there may be.
pub(crate) const RANKS_MAX: u32 = OTHER;

/// A key of `N` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Key<const N: usize>([u8; N]);

impl<const N: usize> Key<N> {
    /// The key of a rank.
    #[inline(always)]
    pub(crate) fn of(rank: u32) -> Self {
        let mut bytes = [0; N];
        for (at, part) in bytes.chunks_mut(4).enumerate() {
            let word = mix(rank ^ (at as u32).wrapping_mul(0x85EB_CA77));
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
        Self(bytes)
    }

    /// The bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Peers hash a key as the integer it is, which is the fastest that their hasher offers.
impl<const N: usize> Hash for Key<N> {
    #[inline(always)]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut wide = [0; 16];
        match N {
            4 => hasher.write_u32(u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])),
            5..=16 => {
                wide[..N].copy_from_slice(&self.0);
                hasher.write_u128(u128::from_le_bytes(wide));
            }
            _ => hasher.write(&self.0),
        }
    }
}

/// A bijection of 32 bits whose output looks random (the finaliser of MurmurHash3).
#[inline(always)]
fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

/// A value that was copied out. Reused; never cleared.
#[derive(Debug)]
pub(crate) struct ValueBuffer {
    len: usize,
    bytes: [u8; cache::INLINE_VALUE_MAX_BYTES],
}

impl ValueBuffer {
    pub(crate) fn new() -> Self {
        Self { len: 0, bytes: [0; cache::INLINE_VALUE_MAX_BYTES] }
    }

    /// Room for a value of `len` bytes.
    #[inline(always)]
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        self.len = len;
        &mut self.bytes[..len]
    }

    /// Copies a value in.
    #[inline(always)]
    pub(crate) fn fill(&mut self, value: &[u8]) {
        self.room(value.len()).copy_from_slice(value);
    }

    /// The value.
    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Length and first seven bytes in one word, as [`Names::expected`] has them.
    #[inline(always)]
    fn summary(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.bytes[..8]);
        let kept = !(u64::MAX << (8 * self.len.min(7)));
        (u64::from_le_bytes(first) & kept) << 8 | self.len as u64 & 0xFF
    }
}

impl cache::Output for ValueBuffer {
    #[inline(always)]
    fn begin(&mut self, meta: &cache::Meta) -> &mut [u8] {
        let len = meta.value_len as usize;
        self.len = len;
        // A reply buffer has room behind the value, which helps to copy short ones.
        &mut self.bytes[..len.max(32)]
    }
}

/// The values: real names.
#[derive(Debug)]
pub(crate) struct Names {
    /// 31 bytes of name and its length; two to a cache line, so a pair lies in one.
    slots: Vec<[u8; 32]>,
    /// Length and first seven bytes of each: 32 KiB, so that checking a value costs no miss.
    summaries: Vec<u64>,
}

/// Longest name in bytes.
pub(crate) const NAME_LEN_MAX: usize = 31;
const NAME_COUNT: usize = 4096;

impl Names {
    fn load() -> Self {
        let mut slots = Vec::with_capacity(NAME_COUNT);
        let mut summaries = Vec::with_capacity(NAME_COUNT);
        let mut buffer = ValueBuffer::new();
        for name in include_str!("../data/names.txt").lines() {
            assert!(name.len() <= NAME_LEN_MAX, "{name} is too long");
            let mut slot = [0; 32];
            slot[..name.len()].copy_from_slice(name.as_bytes());
            slot[NAME_LEN_MAX] = name.len() as u8;
            slots.push(slot);
            buffer.fill(name.as_bytes());
            summaries.push(buffer.summary());
        }
        assert_eq!(slots.len(), NAME_COUNT, "names.txt");
        Self { slots, summaries }
    }

    /// The name that `op` stores.
    #[inline(always)]
    pub(crate) fn value(&self, op: Op) -> &[u8] {
        let slot = &self.slots[op.pair() + usize::from(op.0 & OTHER != 0)];
        &slot[..usize::from(slot[NAME_LEN_MAX])]
    }

    /// 1 when `out` is neither name that the rank may have, else 0. Free of branches.
    #[inline(always)]
    pub(crate) fn mismatch(&self, op: Op, out: &ValueBuffer) -> u64 {
        let (pair, got) = (op.pair(), out.summary());
        u64::from((got != self.summaries[pair]) & (got != self.summaries[pair + 1]))
    }

    /// Mean length in bytes.
    pub(crate) fn mean_len(&self) -> f64 {
        let total: u64 = self.slots.iter().map(|slot| u64::from(slot[NAME_LEN_MAX])).sum();
        total as f64 / NAME_COUNT as f64
    }
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op(u32);

impl Op {
    /// A put of `rank`'s first name.
    pub(crate) fn put(rank: u32) -> Self {
        Self(rank | PUT)
    }

    #[inline(always)]
    pub(crate) fn rank(self) -> u32 {
        self.0 & (RANKS_MAX - 1)
    }

    #[inline(always)]
    pub(crate) fn is_put(self) -> bool {
        self.0 & PUT != 0
    }

    /// The first name of the rank's pair.
    #[inline(always)]
    fn pair(self) -> usize {
        (self.rank().wrapping_mul(0x9E37_79B1) >> 20) as usize & (NAME_COUNT - 2)
    }
}

/// How large the load is.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct LoadShape {
    /// Keys that the Zipf distribution ranges over.
    pub(crate) keys: u32,
    /// Records that every engine may hold.
    pub(crate) capacity: u32,
    /// Zipf exponent.
    pub(crate) exponent: f64,
    /// Percentage of overwrites that change the value.
    pub(crate) changed_percent: f64,
    /// Seed of everything random.
    pub(crate) seed: u64,
}

/// Operations of streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// Of each thread's.
    pub(crate) stream: usize,
    /// Of the one that warms up.
    pub(crate) warming: usize,
}

/// Percentage of puts in the stream that warms up.
const WARMING_PUT_PERCENT: u32 = 70;

/// Keys, values and streams.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) shape: LoadShape,
    pub(crate) names: Names,
    /// The ranks that an LRU cache would hold after a long run, the most recent one last.
    pub(crate) filling: Vec<u32>,
    /// Other ranks, which it would have held before.
    pub(crate) overfilling: Vec<u32>,
    /// What engines are warmed up with.
    pub(crate) warming: Vec<Op>,
    /// For each percentage of puts and each thread, a stream.
    streams: Vec<(u32, Vec<Vec<Op>>)>,
}

impl Load {
    /// Draws everything: `threads` streams for each percentage of puts.
    pub(crate) fn new(
        shape: LoadShape,
        put_percents: &[u32],
        threads: usize,
        lengths: Lengths,
    ) -> Self {
        assert!(shape.keys <= RANKS_MAX && shape.capacity < shape.keys, "shape of the load");
        let zipf = Zipf::new(shape.keys, shape.exponent);
        let mut random = Random::new(shape.seed);
        let (filling, overfilling) = filling(shape, &zipf, &mut random);
        // Two draws in a row differ with probability 2p(1 - p).
        let changed = shape.changed_percent / 100.0;
        let other = (1.0 - (1.0 - 2.0 * changed).sqrt()) / 2.0;
        let length = lengths.stream.min(STREAM_OPS_MAX);
        let mut draw = |percent: u32, length: usize| {
            stream(&zipf, &mut random, (f64::from(percent) / 100.0, other), length)
        };
        let warming = draw(WARMING_PUT_PERCENT, lengths.warming);
        let streams = put_percents
            .iter()
            .map(|&percent| {
                let per_thread = (0..threads).map(|_| draw(percent, length)).collect();
                (percent, per_thread)
            })
            .collect();
        Self { shape, names: Names::load(), filling, overfilling, warming, streams }
    }

    /// A thread's stream for a percentage of puts.
    pub(crate) fn stream(&self, put_percent: u32, thread: usize) -> &[Op] {
        let found = self.streams.iter().find(|(percent, _)| *percent == put_percent);
        &found.expect("invariant: drawn at the start").1[thread]
    }
}

fn stream(zipf: &Zipf, random: &mut Random, (puts, other): (f64, f64), length: usize) -> Vec<Op> {
    let draw = |_| {
        let mut op = zipf.draw(random);
        if random.unit() < puts {
            op |= PUT;
            if random.unit() < other {
                op |= OTHER;
            }
        }
        Op(op)
    };
    (0..length).map(draw).collect()
}

/// Ranks beyond those that fit, as a divisor of the capacity: enough to bring an engine beyond the
/// point where it begins to evict, and what it needs for that has its memory.
const OVERFILL_DIVISOR: usize = 2;

/// The last `capacity` distinct ranks of an endless stream, by drawing it backwards; and others
/// that it would have had before, the most popular ones last.
fn filling(shape: LoadShape, zipf: &Zipf, random: &mut Random) -> (Vec<u32>, Vec<u32>) {
    let mut seen = vec![false; shape.keys as usize];
    let mut ranks = Vec::with_capacity(shape.capacity as usize);
    while ranks.len() < shape.capacity as usize {
        let rank = zipf.draw(random);
        if !std::mem::replace(&mut seen[rank as usize], true) {
            ranks.push(rank);
        }
    }
    let unseen = (0..shape.keys).filter(|rank| !seen[*rank as usize]);
    let mut before: Vec<u32> = unseen.take(shape.capacity as usize / OVERFILL_DIVISOR).collect();
    ranks.reverse();
    before.reverse();
    (ranks, before)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Key, Lengths, Load, LoadShape, Names, OTHER, Op, ValueBuffer};

    #[test]
    fn ranks_have_keys_of_their_own() {
        let four: HashSet<_> = (0..100_000).map(|rank| Key::<4>::of(rank).0).collect();
        let sixteen: HashSet<_> = (0..100_000).map(|rank| Key::<16>::of(rank).0).collect();
        assert_eq!((four.len(), sixteen.len()), (100_000, 100_000));
    }

    #[test]
    fn a_wrong_value_is_noticed() {
        let (names, mut out) = (Names::load(), ValueBuffer::new());
        for rank in [0, 1, 77, 4_000_000] {
            let op = Op::put(rank);
            for stored in [op, Op(op.0 | OTHER)] {
                out.fill(names.value(stored));
                assert_eq!(names.mismatch(op, &out), 0);
                let mut wrong = names.value(stored).to_vec();
                wrong[4] ^= 1;
                out.fill(&wrong);
                assert_eq!(names.mismatch(op, &out), 1);
                out.fill(&names.value(stored)[1..]);
                assert_eq!(names.mismatch(op, &out), 1);
            }
        }
    }

    #[test]
    fn names_of_a_pair_are_equally_long_in_99_percent_of_pairs() {
        let names = Names::load();
        let unequal = names.slots.chunks(2).filter(|pair| pair[0][31] != pair[1][31]).count();
        assert_eq!(unequal, 16);
    }

    #[test]
    fn a_load_has_the_shares_it_was_asked_for() {
        let shape =
            LoadShape { keys: 1000, capacity: 500, exponent: 0.99, changed_percent: 12.0, seed: 1 };
        let lengths = Lengths { stream: 1 << 20, warming: 1000 };
        let load = Load::new(shape, &[70], 1, lengths);
        let distinct: HashSet<_> = load.filling.iter().chain(&load.overfilling).collect();
        assert_eq!((load.filling.len(), distinct.len(), load.warming.len()), (500, 750, 1000));
        // The drawn ones are the popular ones, for the most part.
        let popular = |ranks: &[u32]| ranks.iter().filter(|rank| **rank < 300).count();
        let counts = (popular(&load.filling), popular(&load.overfilling));
        assert!(counts.0 > 200 && counts.0 + counts.1 == 300, "{counts:?}");
        assert!(load.overfilling.is_sorted_by(|before, after| before > after));
        let stream = load.stream(70, 0);
        assert_eq!(stream.len(), 1 << 20);
        let puts: Vec<_> = stream.iter().filter(|op| op.is_put()).collect();
        let other = puts.iter().filter(|op| op.0 & OTHER != 0).count() as f64;
        let share = puts.len() as f64 / stream.len() as f64;
        assert!((share - 0.7).abs() < 0.002, "{share}");
        assert!((other / puts.len() as f64 - 0.0641).abs() < 0.001, "{other}");
    }
}
