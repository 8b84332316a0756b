//! How fast a sub-table turns over: what decides who gives a block to whom.
//!
//! Residence times are compared by the weight of their records' size. A miss costs the same
//! whatever the value's size, and a byte spent on small records saves more misses, so small ones
//! stay longer. Size alone (GreedyDual-Size, Cao and Irani 1997) would leave nothing to large
//! values; with its fourth root a record of 64 KiB stays a quarter as long as one of 256 bytes.
//! Measured with every class given its share beforehand, lognormal sizes, and 10 and 30 % of six
//! traces: 3.3 points fewer misses in the mean than with equal times, and 2.4 points more missed
//! bytes. The third root gives 4.0 and 3.1, the square root 5.1 and 6.2.
//!
//! A lap is the eviction of a block's worth of bytes. Laps are noisy, and taking a block for a
//! difference that is only noise evicts what nobody would have missed, so the time of a lap is
//! averaged, and a sub-table measures some laps before it takes another block; fewer when the
//! difference is so large that it is no noise.
//!
//! Values in parts are evicted in bursts of several laps, and a burst is one measurement. So pauses
//! weigh more than they should, and values seem to stay longer than they do. To count every lap of
//! a burst, though, costs 1.7 points of misses in the mean of seven traces at 30 %, and saves no
//! bytes.

use base::sync::atomic::{AtomicU64, Ordering};

/// How many times longer records stay with the one that gives a block, and how many laps the one
/// that takes it has measured since the last: the first row that holds. With a block for every lap
/// a sub-table doubles while it turns over once.
const LAPS_BY_RATIO: [(u64, u64); 3] = [(8, 1), (4, 3), (2, 8)];
/// The average moves by one part in so many with every measurement.
const AVERAGE_SHIFT: u32 = 3;
/// Times are kept in this fraction of a millisecond, as a shift.
const FRACTION_SHIFT: u32 = 8;

/// What residence times are multiplied by before they are compared: 16 times the fourth root of the
/// size of a record, so that whole numbers are exact enough.
pub(super) fn weight(record_bytes: usize) -> u64 {
    ((record_bytes as u64) << 16).isqrt().isqrt()
}

/// The laps of a sub-table. Written under its lock, read without.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the last lap ended, or the first block came.
    lap_at_ms: AtomicU64,
    /// Average time of a lap, in fractions of a millisecond.
    lap_fractions: AtomicU64,
    laps: AtomicU64,
    /// Those that ended when the clock had not moved since the one before.
    unmeasured: AtomicU64,
    /// Laps when it last took a block.
    taken_at_lap: AtomicU64,
}

impl Pace {
    /// The sub-table has got its first block.
    pub(super) fn start(&self, now_ms: u64) {
        self.lap_at_ms.store(now_ms, Ordering::Relaxed);
        self.laps.store(0, Ordering::Relaxed);
        self.unmeasured.store(0, Ordering::Relaxed);
        self.lap_fractions.store(0, Ordering::Relaxed);
        self.taken_at_lap.store(0, Ordering::Relaxed);
    }

    /// So many blocks' worth have been evicted since this was said last.
    pub(super) fn laps(&self, count: u64, now_ms: u64) {
        let since_ms = now_ms.saturating_sub(self.lap_at_ms.load(Ordering::Relaxed));
        let laps = self.laps.fetch_add(count, Ordering::Relaxed);
        // The first one began when the sub-table did, and says nothing.
        if laps == 0 {
            self.lap_at_ms.store(now_ms, Ordering::Relaxed);
            return;
        }
        let count = count + self.unmeasured.load(Ordering::Relaxed);
        // Laps that the clock is too coarse for are one measurement: the first of them would say
        // that each takes as long as all of them.
        if since_ms == 0 {
            self.unmeasured.store(count, Ordering::Relaxed);
            return;
        }
        self.unmeasured.store(0, Ordering::Relaxed);
        self.lap_at_ms.store(now_ms, Ordering::Relaxed);
        let new = (since_ms << FRACTION_SHIFT) / count;
        let old = self.lap_fractions.load(Ordering::Relaxed);
        let average =
            if old == 0 { new } else { old - (old >> AVERAGE_SHIFT) + (new >> AVERAGE_SHIFT) };
        self.lap_fractions.store(average, Ordering::Relaxed);
    }

    /// How long a record that is not hit stays in a sub-table of so many blocks: as long as the
    /// average lap suggests, and no less than since the last one.
    pub(super) fn residence_ms(&self, blocks: u64, now_ms: u64) -> u64 {
        let since_ms = now_ms.saturating_sub(self.lap_at_ms.load(Ordering::Relaxed));
        let lap = self.lap_fractions.load(Ordering::Relaxed);
        (lap.saturating_mul(blocks) >> FRACTION_SHIFT).max(since_ms)
    }

    /// How many times longer than `own_ms` records stay in a sub-table of so many blocks. One that
    /// has not evicted anything for that long is idle, and its records could stay for ever: that is
    /// no noise, however long its laps were.
    pub(super) fn ratio(&self, blocks: u64, own_ms: u64, now_ms: u64) -> u64 {
        let since_ms = now_ms.saturating_sub(self.lap_at_ms.load(Ordering::Relaxed));
        if since_ms >= own_ms { u64::MAX } else { self.residence_ms(blocks, now_ms) / own_ms }
    }

    /// Whether enough laps have been measured to take a block from one whose records stay `ratio`
    /// times longer; if so, the next ones count from here.
    pub(super) fn may_take(&self, ratio: u64) -> bool {
        let Some((_, wanted)) = LAPS_BY_RATIO.iter().find(|row| ratio >= row.0) else {
            return false;
        };
        let laps = self.laps.load(Ordering::Relaxed);
        let may = laps >= self.taken_at_lap.load(Ordering::Relaxed) + wanted;
        if may {
            self.taken_at_lap.store(laps, Ordering::Relaxed);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_fourth_roots() {
        assert_eq!([1, 256, 4096, 65_536, 1 << 30].map(weight), [16, 64, 128, 256, 2896]);
    }

    #[test]
    fn residence_follows_the_average_lap_and_idleness() {
        let pace = Pace::default();
        pace.start(1_000);
        assert_eq!(pace.residence_ms(10, 1_500), 500, "it has evicted nothing so far");
        pace.laps(1, 60_000);
        for lap in 1..=40 {
            pace.laps(1, 60_000 + lap * 10);
        }
        assert_eq!(pace.residence_ms(50, 60_400), 500);
        pace.laps(1, 60_400 + 90);
        let residence_ms = pace.residence_ms(50, 60_490);
        assert!((500..=1_000).contains(&residence_ms), "one slow lap: {residence_ms}");
        assert_eq!(pace.residence_ms(50, 70_490), 10_000, "idle since");
        assert_eq!(pace.ratio(50, 400, 60_490), residence_ms / 400);
        assert_eq!(pace.ratio(50, 10_000, 70_490), u64::MAX, "idle for as long");
        assert_eq!(pace.ratio(50, 10_001, 70_490), 0, "idle for less");
    }

    #[test]
    fn a_value_of_several_blocks_is_several_laps() {
        let (ones, fours) = (Pace::default(), Pace::default());
        ones.start(0);
        fours.start(0);
        for lap in 1..=100 {
            ones.laps(1, lap * 10);
            if lap % 4 == 0 {
                fours.laps(4, lap * 10);
            }
            if lap >= 8 {
                assert_eq!(fours.residence_ms(30, lap * 10), 300, "{lap}");
            }
        }
        assert_eq!(ones.residence_ms(30, 1_000), 300);
    }

    #[test]
    fn a_coarse_clock_makes_laps_no_shorter() {
        let pace = Pace::default();
        pace.start(0);
        // Fifty laps in every tenth of a second.
        for lap in 0..1000 {
            pace.laps(1, lap / 50 * 100);
            if lap >= 100 {
                assert_eq!(pace.residence_ms(30, lap / 50 * 100), 60, "{lap}");
            }
        }
    }

    #[test]
    fn a_block_is_taken_after_more_laps_the_less_there_is_to_gain() {
        for (ratio, laps) in [(u64::MAX, 1), (8, 1), (7, 3), (4, 3), (3, 8), (2, 8)] {
            let pace = Pace::default();
            pace.start(0);
            for lap in 0..laps {
                assert!(!pace.may_take(ratio), "{lap}");
                pace.laps(1, lap);
            }
            assert!(pace.may_take(ratio));
            assert!(!pace.may_take(ratio), "it counts anew");
            assert!(!pace.may_take(1), "nothing to gain");
        }
    }
}
