//! What a cache of unit size remembers of evicted keys.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasherDefault,
};

use super::hash::Mix;
use crate::{
    ghosts::line::{self, LINE_PRINTS},
    line::Line,
    policy::Partition,
};

/// Remembered keys, by hash.
#[derive(Debug)]
pub(super) enum UnitGhosts {
    /// None at all.
    Nothing,
    /// The last eight of each partition for each line, as in a whole cache.
    Lines(Box<[Line]>),
    /// As many as the policy says, in the order in which they left.
    InOrder(Lists),
}

/// Two queues, the temporary partition's and the hot one's.
#[derive(Debug, Default)]
pub(super) struct Lists {
    queues: [VecDeque<(u64, u64)>; 2],
    /// By hash: which queue, and the number that its place there has.
    places: HashMap<u64, (usize, u64), BuildHasherDefault<Mix>>,
    /// How many are remembered of each; their queues may hold forgotten ones, too.
    lens: [usize; 2],
    numbers: u64,
}

impl UnitGhosts {
    /// For a cache of `capacity` records, of which nothing is remembered if that is 0.
    pub(super) fn new(capacity: usize, in_order: bool) -> Self {
        if capacity == 0 {
            Self::Nothing
        } else if in_order {
            Self::InOrder(Lists::default())
        } else {
            let lines = capacity.div_ceil(LINE_PRINTS as usize);
            Self::Lines((0..lines).map(|_| Line::default()).collect())
        }
    }

    pub(super) fn remember(&mut self, hash: u64, left: Partition) {
        match self {
            Self::Nothing => {}
            Self::Lines(lines) => line::remember(line_of(lines, hash), hash, left),
            Self::InOrder(lists) => lists.remember(hash, left),
        }
    }

    pub(super) fn take(&mut self, hash: u64) -> Option<Partition> {
        match self {
            Self::Nothing => None,
            Self::Lines(lines) => line::take(line_of(lines, hash), hash),
            Self::InOrder(lists) => lists.take(hash),
        }
    }

    pub(super) fn limit(&mut self, most: [usize; 2]) {
        if let Self::InOrder(lists) = self {
            lists.limit(most);
        }
    }
}

/// The low half of a hash chooses the line, the high one is the fingerprint.
fn line_of(lines: &[Line], hash: u64) -> &Line {
    &lines[(((hash & 0xffff_ffff) * lines.len() as u64) >> 32) as usize]
}

impl Lists {
    fn remember(&mut self, hash: u64, left: Partition) {
        let list = usize::from(left != Partition::Temporary);
        self.numbers += 1;
        self.queues[list].push_back((hash, self.numbers));
        self.places.insert(hash, (list, self.numbers));
        self.lens[list] += 1;
    }

    fn take(&mut self, hash: u64) -> Option<Partition> {
        let (list, _) = self.places.remove(&hash)?;
        self.lens[list] -= 1;
        Some([Partition::Temporary, Partition::Hot][list])
    }

    fn limit(&mut self, most: [usize; 2]) {
        for (list, most) in most.into_iter().enumerate() {
            while self.lens[list] > most {
                let (hash, number) = self.queues[list].pop_front().expect("invariant: not empty");
                if self.places.get(&hash) == Some(&(list, number)) {
                    self.places.remove(&hash);
                    self.lens[list] -= 1;
                }
            }
        }
    }
}
