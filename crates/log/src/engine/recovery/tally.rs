//! What becomes live and dead while records are taken in their order.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::{record::Kind, segment::Listed},
    position::{Entry, Position},
};

/// Live bytes by segment, and where the heads of large values lie.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) live: BTreeMap<u64, i64>,
    pub(super) heads: BTreeSet<Position>,
}

impl Tally {
    /// The record is the newest of its key so far.
    pub(super) fn replace(
        &mut self,
        listed: &Listed,
        new: Entry,
        old: Option<Entry>,
        units_of_segment: u64,
    ) {
        let mut add = |entry: Entry, sign: i64| {
            let segment = entry.position.units() / units_of_segment;
            *self.live.entry(segment).or_default() += sign * i64::from(entry.class.bytes());
        };
        add(new, 1);
        if let Some(old) = old {
            add(old, -1);
            self.heads.remove(&old.position);
        }
        if listed.kind == Kind::Head {
            self.heads.insert(new.position);
        }
    }
}
