//! `htr`: source A's partitions (Han, Guo, Zeng 2021, section 3.3), with the recycle partition kept
//! as a ghost and the share of the temporary one adapted to what comes back. The default.
//!
//! Each rule, where it comes from, and what it is worth. Figures are the mean reduction of misses
//! against LRU: those in brackets were measured on 93 cells of 21 traces while the policy was
//! designed; the others are `kelvin sim --unit-size` on the 63 cells of 19 traces in `docs/sim.md`,
//! at 1, 3, 10 and 30 % of the keys.
//!
//! 1. **New records are temporary, and one hit makes a record hot** (A, with two touches). Moved
//!    when its turn has come, not on the hit: so a hit stores two bits and takes no lock. A's own
//!    moves on hits come to [+2.3 %] at best, this to [+7.6 %].
//! 2. **A counter of two bits** instead of A's flag (CLOCK with counters, as in S3-FIFO, Yang and
//!    others 2023): hot records stay a lap for each hit. One bit [+6.6 %], two [+7.5 %], three
//!    [+7.6 %].
//! 3. **Recycle holds keys, no values** (A's third partition). Values in it were dead weight: from
//!    30 to 1 % of the slots the mean rises from [+6.9 %] to [+7.6 %]. A key that returns while it
//!    is remembered is hot at once.
//! 4. **The share of the temporary partition follows what returns** (the balance of ARC, Megiddo
//!    and Modha 2003): a key that left it says that it is too small, one that left the hot one the
//!    opposite. Without it the worst cell is 49 % worse than LRU, with it 4 %.
//! 5. **Constants.** A first share of 10 %, and half a slot a hit: +7.3 % (20 %: +7.2; 30 %: +7.0;
//!    a whole slot: +7.1; two: +6.7). Up to 98 % may be temporary: where LRU is hard to beat, all
//!    of it should be; with 90 % the worst cell is 4.7 % worse than LRU, with 98 % 2.3 %.

use super::{Partition, Policy, Sizes, Verdict};

/// Share of the temporary partition at first.
const SHARE_FIRST: f64 = 0.10;
/// Smallest and largest share of the temporary partition: the other one keeps something, too.
const SHARE_MIN: f64 = 0.01;
const SHARE_MAX: f64 = 0.98;
/// Slots that one ghost hit moves the border by, before the ratio of the ghosts is applied.
const STEP: f64 = 0.5;

/// The policy's state.
#[derive(Debug)]
pub(crate) struct Htr {
    /// Wanted share of the temporary partition, 0 to 1.
    share: f64,
    /// The same in slots, for so many in all.
    wanted: usize,
    slots: usize,
    /// Keys remembered from the temporary and from the hot partition, approximately.
    ghosts: [usize; 2],
}

impl Htr {
    pub(crate) fn new() -> Self {
        Self { share: SHARE_FIRST, wanted: 0, slots: 0, ghosts: [0; 2] }
    }

    #[cold]
    fn come_back(&mut self, place: usize, sizes: &Sizes) {
        let [this, other] = [self.ghosts[place], self.ghosts[1 - place]];
        self.ghosts[place] = this.saturating_sub(1);
        let by = STEP * weight(this, other) / sizes.all.max(1) as f64;
        let by = if place == 0 { by } else { -by };
        self.share = (self.share + by).clamp(SHARE_MIN, SHARE_MAX);
        self.slots = 0;
    }
}

/// How much rarer `this` ghost is than the `other`, at least 1: hits in a short list weigh more.
fn weight(this: usize, other: usize) -> f64 {
    (other as f64 / this.max(1) as f64).max(1.0)
}

impl Policy for Htr {
    #[inline]
    fn admit(&mut self, remembered: Option<Partition>, sizes: &Sizes) -> Partition {
        match remembered {
            None => return Partition::Temporary,
            Some(partition) => self.come_back(place_of(partition), sizes),
        }
        Partition::Hot
    }

    #[inline]
    fn target(&mut self, partition: Partition, sizes: &Sizes) -> usize {
        if sizes.all != self.slots {
            self.slots = sizes.all;
            self.wanted = (self.share * sizes.all as f64) as usize;
        }
        if partition == Partition::Temporary { self.wanted } else { sizes.all - self.wanted }
    }

    #[inline]
    fn judge(&mut self, partition: Partition, counter: u64) -> Verdict {
        match (partition, counter) {
            (_, 0) => Verdict::Evict,
            (Partition::Temporary, _) => Verdict::Move(Partition::Hot),
            (_, counter) => Verdict::Keep { counter: counter - 1 },
        }
    }

    #[inline]
    fn evicted(&mut self, partition: Partition, sizes: &Sizes) {
        // Each list holds half as many keys as there are slots.
        let ghosts = &mut self.ghosts[place_of(partition)];
        *ghosts = (*ghosts + 1).min(sizes.all / 2);
    }
}

fn place_of(partition: Partition) -> usize {
    usize::from(partition != Partition::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { of: [100, 900, 0], all: 1000 };

    #[test]
    fn ghosts_move_the_border_both_ways_and_their_owners_come_back_hot() {
        let mut htr = Htr::new();
        assert_eq!(htr.admit(None, &SIZES), Partition::Temporary);
        assert_eq!(htr.target(Partition::Temporary, &SIZES), 100);
        for _ in 0..200 {
            assert_eq!(htr.admit(Some(Partition::Temporary), &SIZES), Partition::Hot);
        }
        assert_eq!(htr.target(Partition::Temporary, &SIZES), 200);
        for _ in 0..299 {
            assert_eq!(htr.admit(Some(Partition::Hot), &SIZES), Partition::Hot);
        }
        let wanted = htr.target(Partition::Temporary, &SIZES);
        assert_eq!((wanted, htr.target(Partition::Hot, &SIZES)), (50, 950));
    }

    #[test]
    fn a_hit_promotes_once_and_then_buys_a_lap_each() {
        let mut htr = Htr::new();
        assert_eq!(htr.judge(Partition::Temporary, 0), Verdict::Evict);
        assert_eq!(htr.judge(Partition::Temporary, 1), Verdict::Move(Partition::Hot));
        assert_eq!(htr.judge(Partition::Hot, 2), Verdict::Keep { counter: 1 });
        assert_eq!(htr.judge(Partition::Hot, 0), Verdict::Evict);
    }

    #[test]
    fn a_rare_ghost_weighs_more() {
        assert!((weight(10, 100) - 10.0).abs() < 1e-9);
        assert!((weight(100, 10) - 1.0).abs() < 1e-9);
    }
}
