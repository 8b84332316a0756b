//! How long operations took, however many: counts of times that are told apart to 2 %.

use std::time::Duration;

/// Buckets of each power of two.
const PARTS_BITS: u32 = 6;

/// All times of 64 bits of nanoseconds.
const BUCKETS: usize = (64 - PARTS_BITS as usize + 1) << PARTS_BITS;

/// Times of operations.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    count: u64,
    worst_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, worst_ns: 0 }
    }
}

impl Latencies {
    #[inline]
    pub(super) fn add(&mut self, time: Duration) {
        let ns = time.as_nanos() as u64;
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.worst_ns = self.worst_ns.max(ns);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.worst_ns = self.worst_ns.max(other.worst_ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn worst_ms(&self) -> f64 {
        self.worst_ns as f64 / 1e6
    }

    /// What a share of them did not exceed.
    pub(super) fn share_us(&self, share: f64) -> f64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        at.map_or(0.0, |at| end_ns(at).min(self.worst_ns as f64) / 1e3)
    }
}

fn bucket(ns: u64) -> usize {
    let power = (64 - ns.leading_zeros()).saturating_sub(PARTS_BITS + 1);
    ((power as usize) << PARTS_BITS) + (ns >> power) as usize
}

/// The largest time of a bucket.
fn end_ns(bucket: usize) -> f64 {
    let power = (bucket >> PARTS_BITS).saturating_sub(1);
    let first = bucket - (power << PARTS_BITS);
    (first + 1) as f64 * (power as f64).exp2() - 1.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BUCKETS, Latencies, PARTS_BITS, bucket, end_ns};

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for at in 0..30 << PARTS_BITS {
            let end = end_ns(at) as u64;
            assert_eq!((bucket(end), bucket(end + 1)), (at, at + 1));
        }
    }

    #[test]
    fn shares_are_right_to_two_percent() {
        let mut all = Latencies::default();
        let mut some = Latencies::default();
        (1..=500_u64).for_each(|us| all.add(Duration::from_micros(us)));
        (501..=1000_u64).for_each(|us| some.add(Duration::from_micros(us)));
        all.merge(&some);
        assert_eq!((all.count(), all.worst_ms()), (1000, 1.0));
        for (share, us) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = all.share_us(share);
            assert!((us..us * 1.02).contains(&found), "{share}: {found}");
        }
        assert_eq!(Latencies::default().share_us(0.99), 0.0);
    }
}
