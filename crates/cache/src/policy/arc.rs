//! `arc`: Megiddo and Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003.
//!
//! Their T1 is the temporary partition, T2 the hot one, B1 and B2 are the remembered keys of each,
//! and `p` is the target of T1. Exact in a cache of unit size. In a whole cache the remembered keys
//! are the table's: the last eight of each partition for every line of ghosts, so that B1 and B2
//! are as long on the mean and their ends are blurred. As for `lru`, every hit takes the
//! sub-table's lock.

use super::{Partition, Policy, Sizes, Verdict};

/// The policy's state.
#[derive(Debug)]
pub(crate) struct Arc {
    /// Wanted size of the temporary partition, their `p`.
    wanted: f64,
    /// Keys remembered of each partition: the lengths of B1 and B2.
    ghosts: [usize; 2],
    /// The last newcomer was remembered as hot: their REPLACE then favours T2 in a tie.
    was_hot: bool,
}

impl Arc {
    pub(crate) fn new() -> Self {
        Self { wanted: 0.0, ghosts: [0; 2], was_hot: false }
    }
}

impl Policy for Arc {
    fn admit(&mut self, remembered: Option<Partition>, sizes: &Sizes) -> Partition {
        let [temporary, hot] = self.ghosts.map(|keys| keys.max(1) as f64);
        self.was_hot = remembered == Some(Partition::Hot);
        match remembered {
            None => return Partition::Temporary,
            Some(Partition::Temporary) => {
                // Their case II: B1 is too short.
                self.wanted = (self.wanted + (hot / temporary).max(1.0)).min(sizes.all as f64);
                self.ghosts[0] = self.ghosts[0].saturating_sub(1);
            }
            Some(_) => {
                // Their case III: B2 is too short.
                self.wanted = (self.wanted - (temporary / hot).max(1.0)).max(0.0);
                self.ghosts[1] = self.ghosts[1].saturating_sub(1);
            }
        }
        Partition::Hot
    }

    fn target(&mut self, partition: Partition, sizes: &Sizes) -> usize {
        match partition {
            Partition::Temporary => {
                let whole = self.wanted as usize;
                // "(x in B2 and |T1| = p) or |T1| > p"
                let is_tie = self.was_hot && self.wanted == whole as f64;
                if is_tie { whole.saturating_sub(1) } else { whole }
            }
            _ => sizes.all,
        }
    }

    fn judge(&mut self, _partition: Partition, _counter: u64) -> Verdict {
        Verdict::Evict
    }

    fn hit(&mut self, _partition: Partition, _counter: u64) -> Option<Partition> {
        Some(Partition::Hot)
    }

    fn evicted(&mut self, partition: Partition, _sizes: &Sizes) {
        self.ghosts[usize::from(partition != Partition::Temporary)] += 1;
    }

    /// Their case IV keeps |T1| + |B1| at most the size of the cache, and all four at most twice
    /// that, before it replaces; to forget after it comes to the same.
    fn ghosts_max(&mut self, sizes: &Sizes) -> [usize; 2] {
        let [temporary, hot, _] = sizes.of;
        let first = sizes.all.saturating_sub(temporary);
        let all = (2 * sizes.all).saturating_sub(temporary + hot);
        let first = first.min(all);
        self.ghosts[0] = self.ghosts[0].min(first);
        let second = all - self.ghosts[0];
        self.ghosts[1] = self.ghosts[1].min(second);
        [first, second]
    }
}

#[cfg(test)]
mod tests {
    use crate::{PolicyKind, UnitCache};

    /// The four lists as the paper writes them down, searched from end to end.
    #[derive(Default)]
    struct Written {
        lists: [Vec<u64>; 4],
        p: f64,
    }

    const C: usize = 30;
    const T1: usize = 0;
    const T2: usize = 1;
    const B1: usize = 2;
    const B2: usize = 3;

    impl Written {
        fn access(&mut self, key: u64) -> bool {
            let found = (0..4).find_map(|list| {
                let at = self.lists[list].iter().position(|known| *known == key)?;
                Some((list, at))
            });
            let [b1, b2] = [B1, B2].map(|list| self.lists[list].len() as f64);
            let case = found.map(|(list, _)| list);
            match case {
                Some(T1 | T2) => {}
                Some(B1) => {
                    self.p = (self.p + (b2 / b1).max(1.0)).min(C as f64);
                    self.replace(false);
                }
                Some(_) => {
                    self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
                    self.replace(true);
                }
                None => self.case_four(),
            }
            if let Some((list, _)) = found {
                self.lists[list].retain(|known| *known != key);
            }
            self.lists[if found.is_some() { T2 } else { T1 }].push(key);
            matches!(case, Some(T1 | T2))
        }

        fn case_four(&mut self) {
            let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| self.lists[list].len());
            if t1 + b1 == C {
                if t1 < C {
                    self.lists[B1].remove(0);
                    self.replace(false);
                } else {
                    self.lists[T1].remove(0);
                }
            } else if t1 + t2 + b1 + b2 >= C {
                if t1 + t2 + b1 + b2 == 2 * C {
                    self.lists[B2].remove(0);
                }
                self.replace(false);
            }
        }

        fn replace(&mut self, in_b2: bool) {
            let t1 = self.lists[T1].len() as f64;
            let first = t1 >= 1.0 && ((in_b2 && t1 == self.p) || t1 > self.p);
            let (from, to) = if first { (T1, B1) } else { (T2, B2) };
            let key = self.lists[from].remove(0);
            self.lists[to].push(key);
        }
    }

    #[test]
    fn it_does_what_the_paper_says() {
        let (mut cache, mut written) = (UnitCache::new(PolicyKind::Arc, C), Written::default());
        let mut random = 7u64;
        for turn in 0..60_000u64 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // Popular keys, drifting ones, and now and then a loop.
            let key = match turn / 500 % 3 {
                0 => (random >> 40) % 50 * ((random >> 50) % 2),
                1 => turn / 8 + (random >> 40) % 45,
                _ => turn % 41,
            };
            assert_eq!(cache.access(key), written.access(key), "turn {turn}");
        }
    }
}
