//! How quick a client is with a large value.

use crate::limits::{LARGE_IDLE_WANTED_MS, LARGE_LEAST_BYTES_PER_MS};

/// What a client has brought, or taken, in the time in which that was up to him.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    bytes: u64,
    /// Without the turn that lasts.
    spent_ms: u64,
    since_ms: Option<u64>,
}

impl Pace {
    /// From now on it is up to him.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// From now on it is not.
    pub(crate) fn end(&mut self, now_ms: u64) {
        self.spent_ms = self.spent_ms(now_ms);
        self.since_ms = None;
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    fn spent_ms(&self, now_ms: u64) -> u64 {
        self.spent_ms + self.since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms))
    }

    /// Whether he is too slow for a log without room. In the beginning nobody is.
    pub(crate) fn is_too_slow(&self, now_ms: u64) -> bool {
        let spent_ms = self.spent_ms(now_ms);
        spent_ms >= LARGE_IDLE_WANTED_MS && self.bytes < spent_ms * LARGE_LEAST_BYTES_PER_MS
    }
}

/// The numbers of those who wait for memory, in the order in which they are to have it: the last
/// that came, then those who give way, of whom the one that has had nothing for longest. With each
/// comes since when that is, if it gives way.
pub(crate) fn in_turn(all: impl Iterator<Item = (u64, Option<u64>)>) -> Vec<u64> {
    let (mut quick, mut slow) = (Vec::new(), Vec::new());
    for (number, since_ms) in all {
        match since_ms {
            None => quick.push(number),
            Some(since_ms) => slow.push((since_ms, number)),
        }
    }
    slow.sort_unstable();
    quick.into_iter().rev().chain(slow.into_iter().map(|(_, number)| number)).collect()
}

/// Whether who has had a part for so long leaves its memory to others who wait.
pub(crate) fn gives_way(since_ms: u64, now_ms: u64) -> bool {
    now_ms >= since_ms + LARGE_IDLE_WANTED_MS && !base::mutant!("store_slow_keep_memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_way_comes_last_and_of_these_who_had_nothing_for_longest_comes_first() {
        let all = [(1, None), (2, Some(30)), (3, Some(20)), (4, None), (5, Some(30))];
        assert_eq!(in_turn(all.into_iter()), [4, 1, 3, 2, 5]);
    }

    #[test]
    fn what_others_take_of_the_time_does_not_count() {
        let mut pace = Pace::default();
        pace.begin(1000);
        pace.add(1_000_000);
        assert!(!pace.is_too_slow(1000 + LARGE_IDLE_WANTED_MS - 1), "in the beginning");
        assert!(pace.is_too_slow(1000 + LARGE_IDLE_WANTED_MS));
        pace.end(1900);
        assert!(!pace.is_too_slow(90_000), "it was not up to him");
        pace.begin(90_000);
        pace.add(2_000_000);
        assert!(!pace.is_too_slow(92_100), "3 MB in 3 s");
        assert!(pace.is_too_slow(92_101));
    }
}
