//! What is checked under model checkers and by threads on real hardware.
//!
//! loom explores every interleaving of a reader and a writer over a line or two, weak memory
//! included; shuttle runs long random schedules of many threads; the same threads race on real
//! cores. There is no unsafe code, so nothing for miri.

#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod parallel;
#[cfg(shuttle)]
mod shuttle;
#[cfg(not(any(loom, shuttle, miri)))]
mod threads;

#[cfg(any(loom, shuttle))]
use super::{FlatIndex, FlatRange, Index};
use super::{HashIndex, KeyHash};
use crate::position::{Entry, Position, SizeClass};

/// An entry whose position and class both follow from `number`, below 2^12.
fn stamped(number: u64) -> Entry {
    let class = SizeClass::from_bits((number % 51) as u8).expect("a class");
    // Its bits are spread over all bytes of an entry.
    let units = (number << 18 | number << 5 | 1) + number % 31;
    Entry { position: Position::new(units).expect("a position"), class }
}

/// The number that an entry is stamped with.
fn number_of(entry: Entry) -> u64 {
    let number = entry.position.units() >> 18;
    assert_eq!(entry, stamped(number), "torn read");
    number
}

/// An index of entries of five bytes.
#[cfg(any(loom, shuttle))]
fn flat() -> Index {
    let range = FlatRange { kmin: 0, kmax: 100, kmax_limit: 100, entry_bytes: 5 };
    Index::Flat(FlatIndex::new(range).expect("an index"))
}

fn hash(entries_max: u64) -> HashIndex {
    HashIndex::new(entries_max).expect("an index")
}

/// A hash that looks like one.
fn key(number: u64) -> KeyHash {
    KeyHash::from(number).shortened(63)
}
