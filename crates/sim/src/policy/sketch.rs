//! How often keys came of late, approximately: TinyLFU's counters (Einziger, Friedman and Manes
//! 2017, sections 3.3 and 3.4).
//!
//! A count-min sketch of four rows of 4-bit counters. A key's first time only enters the
//! doorkeeper, a Bloom filter, so that keys that come once leave the counters alone. After ten
//! times as many counts as the cache has places, all counters are halved and the doorkeeper is
//! emptied.

use base::random::mix;

const ROWS: usize = 4;
const COUNT_MAX: u8 = 15;
/// Counts between two halvings, for each place of the cache.
const SAMPLE_FACTOR: usize = 10;
/// Bits of the doorkeeper for each count between two halvings, and how many of them a key sets: one
/// key in forty is taken for another when as many different ones have come as can.
const DOOR_FACTOR: usize = 8;
const DOOR_HASHES: usize = 3;

#[derive(Debug)]
pub(crate) struct Sketch {
    /// One counter a byte: it need not be small.
    rows: [Vec<u8>; ROWS],
    door: Vec<bool>,
    counts: usize,
    counts_max: usize,
}

impl Sketch {
    /// For a cache with so many places.
    pub(crate) fn new(capacity: usize) -> Self {
        let width = capacity.next_power_of_two().max(16);
        let counts_max = SAMPLE_FACTOR * capacity;
        Self {
            rows: std::array::from_fn(|_| vec![0; width]),
            door: vec![false; (DOOR_FACTOR * counts_max).next_power_of_two()],
            counts: 0,
            counts_max,
        }
    }

    /// How often a key came, the doorkeeper included.
    pub(crate) fn estimate(&self, key: u32) -> u8 {
        let at = |row: usize| self.rows[row][place(key, row, self.rows[row].len())];
        let least = (0..ROWS).map(at).min().expect("invariant: there are rows");
        least + u8::from(self.door_places(key).all(|place| self.door[place]))
    }

    /// Counts a key.
    pub(crate) fn count(&mut self, key: u32) {
        if self.door_places(key).all(|place| self.door[place]) {
            for (number, row) in self.rows.iter_mut().enumerate() {
                let width = row.len();
                let counter = &mut row[place(key, number, width)];
                *counter = (*counter + 1).min(COUNT_MAX);
            }
        } else {
            for place in self.door_places(key) {
                self.door[place] = true;
            }
        }
        self.counts += 1;
        if self.counts == self.counts_max {
            self.counts /= 2;
            self.door.fill(false);
            self.rows.iter_mut().flatten().for_each(|counter| *counter /= 2);
        }
    }

    fn door_places(&self, key: u32) -> impl Iterator<Item = usize> + use<> {
        let bits = self.door.len();
        (ROWS..ROWS + DOOR_HASHES).map(move |number| place(key, number, bits))
    }
}

/// Where a key is in a table of `len` places, a power of two, by the hash of this number.
fn place(key: u32, number: usize, len: usize) -> usize {
    let hash = mix(u64::from(key) << 8 | number as u64);
    usize::try_from(hash & (len as u64 - 1)).expect("invariant: below the table's length")
}

#[cfg(test)]
mod tests {
    use super::Sketch;

    #[test]
    fn keys_are_counted_up_to_sixteen_and_forgotten_by_halves() {
        let mut sketch = Sketch::new(100);
        assert_eq!(sketch.estimate(7), 0);
        for expected in [1, 2, 3] {
            sketch.count(7);
            assert_eq!(sketch.estimate(7), expected);
        }
        for _ in 3..999 {
            sketch.count(7);
        }
        // 15 in the counters and one in the doorkeeper.
        assert_eq!(sketch.estimate(7), 16);
        sketch.count(7);
        assert_eq!(sketch.estimate(7), 7);
        assert_eq!(sketch.estimate(8), 0);
    }
}
