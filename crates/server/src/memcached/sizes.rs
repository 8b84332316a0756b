//! `stats sizes`: how many records there are of each size.
//!
//! memcached keeps these counts with every store, if it is told to (`-o track_sizes`). Here nothing
//! is kept: who asks has the cache gone through.

use std::collections::BTreeMap;

use cache::Meta;

/// Sizes are counted in steps of so many bytes, as in memcached.
const STEP_BYTES: u64 = 32;

/// Bytes of a record beside key, value, expiry and client flags (`docs/formats/record.md`).
const RECORD_BYTES: u64 = 12;
const EXPIRY_BYTES: u64 = 6;
const CLIENT_FLAGS_BYTES: u64 = 4;

/// Steps that are counted apart, which take some 2 MiB. At one time 64 GiB have records of so many
/// sizes at most, as `n` different ones take `16 n^2` bytes; but while the cache is gone through,
/// some go and others come.
const STEPS_MAX: usize = 1 << 16;

/// Records by size: a line for each step that has records. What comes when there are as many as may
/// be is counted with the next larger size there is, or with the largest.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeMap<u64, u64>);

impl Sizes {
    /// Counts a record.
    pub(super) fn add(&mut self, key: &[u8], meta: &Meta) {
        let bytes = RECORD_BYTES
            + key.len() as u64
            + u64::from(meta.value_len)
            + if meta.expiry_ms == 0 { 0 } else { EXPIRY_BYTES }
            + if meta.client_flags == 0 { 0 } else { CLIENT_FLAGS_BYTES };
        let step = self.place_of(bytes.div_ceil(STEP_BYTES));
        *self.0.entry(step).or_default() += 1;
    }

    /// The step that a record of this one is counted with.
    fn place_of(&self, step: u64) -> u64 {
        if self.0.len() < STEPS_MAX {
            return step;
        }
        let larger = self.0.range(step..).next();
        larger.or_else(|| self.0.last_key_value()).map_or(step, |(&step, _)| step)
    }

    /// Takes the smallest size, in bytes, and how many records there are of it.
    pub(super) fn take_first(&mut self) -> Option<(u64, u64)> {
        self.0.pop_first().map(|(step, count)| (step * STEP_BYTES, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_the_limit_are_counted_with_others() {
        let meta = |steps: u64| Meta { value_len: (steps * STEP_BYTES) as u32, ..Meta::default() };
        let mut sizes = Sizes::default();
        let even = |number: usize| 2 * number as u64;
        for number in 0..STEPS_MAX {
            sizes.add(b"k", &meta(even(number)));
        }
        // Between two, known, and above all.
        for steps in [1, 2, even(STEPS_MAX) + 100] {
            sizes.add(b"k", &meta(steps));
        }
        let counts: Vec<(u64, u64)> = std::iter::from_fn(|| sizes.take_first()).collect();
        assert_eq!(counts.len(), STEPS_MAX);
        assert_eq!(counts[..3], [(32, 1), (96, 3), (160, 1)]);
        assert_eq!(counts.last(), Some(&(32 + even(STEPS_MAX - 1) * 32, 2)));
    }
}
