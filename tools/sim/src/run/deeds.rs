//! What a run has met and done.

use std::{collections::BTreeMap, fmt};

use log::engine::Counts;

use super::{Log, Run};
use crate::{fault, scenario::Class};

/// Why a run has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The run's seed.
    pub seed: u64,
    /// After how many operations of clients.
    pub operation: u32,
    /// What went wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, operation, what } = self;
        writeln!(f, "seed {seed}, operation {operation}: {what}")?;
        write!(f, "again: cargo run -p disk-sim -- --seed {seed}")
    }
}

/// What a run has met.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Faults and crashes.
    pub faults: fault::Counts,
    /// What clients and the log did.
    pub deeds: BTreeMap<&'static str, u64>,
}

impl Summary {
    /// All of `other` as well.
    pub fn merge(&mut self, other: &Self) {
        self.faults.merge(&other.faults);
        for (deed, count) in &other.deeds {
            *self.deeds.entry(deed).or_default() += count;
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.faults)?;
        for (deed, count) in &self.deeds {
            writeln!(f, "  {deed:20} {count:>12}")?;
        }
        Ok(())
    }
}

impl Run {
    /// Notes where what was moved is now.
    pub(super) fn note_moves(&mut self, before: Counts) {
        let moved = self.log.as_ref().map_or(0, |log| log.counts().records_moved);
        if moved > before.records_moved {
            self.tell(|_| "moved".to_owned());
            self.note_places();
        }
    }

    /// What the log has done behind the backs of its clients while it was open.
    pub(super) fn count_done(&mut self, log: &Log) {
        let counts = log.counts();
        self.count_many("segments freed", counts.segments_freed);
        self.count_many("files removed", counts.files_removed);
        for (deed, count) in [
            ("segments moved", counts.segments_moved),
            ("records moved", counts.records_moved),
            ("heads moved", counts.heads_moved),
            ("tombstones moved", counts.tombstones_moved),
            ("tombstones dropped", counts.tombstones_dropped),
            ("expired values dropped", counts.expired_dropped),
            ("moves lost", counts.moves_lost),
        ] {
            self.count_many(deed, count);
        }
        if self.scenario.class == Class::Full {
            self.count_many("segments freed on a full disk", counts.segments_freed);
            self.count_many("segments moved on a full disk", counts.segments_moved);
        }
    }

    pub(super) fn count(&mut self, deed: &'static str) {
        self.count_many(deed, 1);
    }

    pub(super) fn count_many(&mut self, deed: &'static str, count: u64) {
        *self.deeds.entry(deed).or_default() += count;
    }
}
