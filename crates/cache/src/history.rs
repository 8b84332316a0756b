//! When a sequence was drawn, without a time in every record: to a tenth of a second for the last
//! minutes, ever more roughly before.

use std::collections::VecDeque;

/// Samples kept: one a step at first, thinned out as they age.
const SAMPLES_MAX: usize = 4096;
/// Shortest time between two samples in milliseconds.
pub(crate) const STEP_MS: u64 = 100;

/// Pairs of a sequence and a time, both growing.
#[derive(Debug, Default)]
pub(crate) struct History {
    samples: VecDeque<(u64, u64)>,
}

impl History {
    /// Notes that `sequence` is the next one at `now_ms`.
    pub(crate) fn note(&mut self, sequence: u64, now_ms: u64) {
        if self.samples.back().is_some_and(|&(_, at_ms)| now_ms < at_ms + STEP_MS) {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            // Every second one of the older half goes: what is old need not be exact.
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place > SAMPLES_MAX / 2 || place % 2 == 1
            });
        }
        self.samples.push_back((sequence, now_ms));
    }

    /// Milliseconds since `sequence` was drawn, at most.
    pub(crate) fn age_ms(&self, sequence: u64, now_ms: u64) -> u64 {
        let behind = self.samples.partition_point(|&(next, _)| next <= sequence);
        match behind.checked_sub(1) {
            Some(place) => now_ms.saturating_sub(self.samples[place].1),
            None => self.samples.front().map_or(0, |&(_, at_ms)| now_ms.saturating_sub(at_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_right_to_a_step_and_memory_is_bounded() {
        let mut history = History::default();
        for step in 0..100_000u64 {
            history.note(step, step * STEP_MS);
        }
        assert!(history.samples.len() <= SAMPLES_MAX);
        let now_ms = 10_000_000;
        assert_eq!(history.age_ms(99_985, now_ms), 1_500);
        assert_eq!(history.age_ms(u64::MAX, now_ms), 100);
        let old = history.age_ms(5_000, now_ms);
        assert!((9_400_000..=10_000_000).contains(&old), "{old}");
    }
}
