//! `htr`: source A's three partitions, with the recycle partition kept as a ghost and the share of
//! the temporary one adapted to what comes back.
//!
//! Recycle with values in it is dead weight: what helps is to know the keys. A key that returns
//! soon after it left the temporary partition says that this partition is too small; one that
//! returns after it left the hot one says the opposite (the balance of ARC, Megiddo and Modha
//! 2003). A counter of two bits per record replaces A's flag and its moves on every hit.

use super::{Border, Partition, Policy, Shares, Verdict};

/// Share of the temporary partition at first, per 1000 slots.
const SHARE_FIRST: f64 = 0.10;
/// Smallest and largest share of the temporary partition.
const SHARE_MIN: f64 = 0.01;
const SHARE_MAX: f64 = 0.90;
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
    /// Keys remembered from each partition, approximately.
    temporary_ghosts: usize,
    hot_ghosts: usize,
}

impl Htr {
    pub(crate) fn new() -> Self {
        Self { share: SHARE_FIRST, wanted: 0, slots: 0, temporary_ghosts: 0, hot_ghosts: 0 }
    }

    fn move_border(&mut self, by: f64, shares: Shares) {
        let slots = (shares.temporary + shares.hot).max(1) as f64;
        self.share = (self.share + by / slots).clamp(SHARE_MIN, SHARE_MAX);
        self.slots = 0;
    }

    /// Slots that the temporary partition should have.
    fn wanted(&mut self, shares: Shares) -> usize {
        let slots = shares.temporary + shares.hot;
        if slots != self.slots {
            self.slots = slots;
            self.wanted = (self.share * slots as f64) as usize;
        }
        self.wanted
    }
}

/// How much rarer `this` ghost is than the `other`, at least 1: hits in a short list weigh more.
fn weight(this: usize, other: usize) -> f64 {
    (other as f64 / this.max(1) as f64).max(1.0)
}

impl Policy for Htr {
    fn admit(&mut self, remembered: Option<Partition>, shares: Shares) -> Partition {
        match remembered {
            None => return Partition::Temporary,
            Some(Partition::Temporary) => {
                let by = STEP * weight(self.temporary_ghosts, self.hot_ghosts);
                self.temporary_ghosts = self.temporary_ghosts.saturating_sub(1);
                self.move_border(by, shares);
            }
            Some(Partition::Hot) => {
                let by = STEP * weight(self.hot_ghosts, self.temporary_ghosts);
                self.hot_ghosts = self.hot_ghosts.saturating_sub(1);
                self.move_border(-by, shares);
            }
        }
        Partition::Hot
    }

    fn judge(&mut self, partition: Partition, counter: u64) -> Verdict {
        match (partition, counter) {
            (_, 0) => Verdict::Evict,
            (Partition::Temporary, _) => Verdict::Promote,
            (Partition::Hot, counter) => Verdict::Keep { counter: counter - 1 },
        }
    }

    fn evicted(&mut self, partition: Partition, shares: Shares) {
        // Each list holds half as many keys as there are slots.
        let most = (shares.temporary + shares.hot) / 2;
        let ghosts = match partition {
            Partition::Temporary => &mut self.temporary_ghosts,
            Partition::Hot => &mut self.hot_ghosts,
        };
        *ghosts = (*ghosts + 1).min(most);
    }

    fn border(&mut self, shares: Shares) -> Border {
        let wanted = self.wanted(shares);
        if shares.temporary > wanted + shares.run {
            Border::GrowHot
        } else if shares.temporary + shares.run <= wanted {
            Border::GrowTemporary
        } else {
            Border::Stay
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares { temporary: 100, hot: 900, run: 50 };

    #[test]
    fn ghosts_move_the_border_both_ways_and_their_owners_come_back_hot() {
        let mut htr = Htr::new();
        assert_eq!(htr.admit(None, SHARES), Partition::Temporary);
        assert_eq!(htr.border(SHARES), Border::Stay);
        for _ in 0..200 {
            assert_eq!(htr.admit(Some(Partition::Temporary), SHARES), Partition::Hot);
        }
        assert_eq!(htr.border(SHARES), Border::GrowTemporary);
        for _ in 0..400 {
            assert_eq!(htr.admit(Some(Partition::Hot), SHARES), Partition::Hot);
        }
        assert_eq!(htr.border(SHARES), Border::GrowHot);
    }

    #[test]
    fn a_hit_promotes_once_and_then_buys_a_lap_each() {
        let mut htr = Htr::new();
        assert_eq!(htr.judge(Partition::Temporary, 0), Verdict::Evict);
        assert_eq!(htr.judge(Partition::Temporary, 1), Verdict::Promote);
        assert_eq!(htr.judge(Partition::Hot, 2), Verdict::Keep { counter: 1 });
        assert_eq!(htr.judge(Partition::Hot, 0), Verdict::Evict);
    }

    #[test]
    fn a_rare_ghost_weighs_more() {
        assert!((weight(10, 100) - 10.0).abs() < 1e-9);
        assert!((weight(100, 10) - 1.0).abs() < 1e-9);
    }
}
