//! What the paper on ZDB found: Nguyen and Nguyen, "Zing Database: high-performance key-value store
//! for large-scale storage service", Vietnam J Comput Sci (2015) 2:13-23, Tables 2 to 4.

use super::{Part, Size};

/// A store of the paper, and the one that stands for it here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) name: &'static str,
    pub(super) here: &'static str,
    /// Operations a second by part and size of values.
    rates: [[f64; 3]; 3],
}

impl Store {
    pub(super) fn per_s(&self, part: Part, size: Size) -> f64 {
        self.rates[part as usize][size as usize]
    }
}

/// The one that the paper is about.
pub(super) const SUBJECT: Store = Store {
    name: "ZDB",
    here: "kelvin",
    rates: [
        [294_796.0, 108_790.0, 4_132.0],
        [537_204.0, 128_220.0, 5_248.0],
        [1_326_205.0, 60_325.0, 6_232.0],
    ],
};

/// Those that it was compared with.
pub(super) const PEERS: [Store; 2] = [
    Store {
        name: "Kyoto Cabinet",
        here: "kyoto",
        rates: [
            [343_348.0, 10_268.0, 1_872.0],
            [241_800.0, 80_420.0, 1_920.0],
            [1_176_300.0, 45_234.0, 5_075.0],
        ],
    },
    Store {
        name: "LevelDB",
        here: "leveldb",
        rates: [
            [347_246.0, 5_360.0, 61.0],
            [369_760.0, 15_004.0, 90.0],
            [304_448.0, 4_629.0, 62.0],
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::{PEERS, SUBJECT};
    use crate::disk::{cell::Size, tables::Part};

    #[test]
    fn rates_stand_where_parts_and_sizes_look_for_them() {
        assert_eq!(SUBJECT.per_s(Part::FourWriters, Size::Kib), 128_220.0);
        assert_eq!(PEERS[1].per_s(Part::Reads, Size::Large), 62.0);
        assert_eq!(PEERS[0].per_s(Part::OneWriter, Size::Tiny), 343_348.0);
    }
}
