//! What was simulated.

use crate::{plan::Percent, policy::Kind};

/// What was simulated.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The traces in their order.
    pub traces: Vec<Replayed>,
    /// It was told to stop before the end.
    pub is_interrupted: bool,
}

/// A trace and its cells.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// What people call the trace.
    pub name: String,
    /// Its requests.
    pub requests: u64,
    /// Its different keys.
    pub footprint: u64,
    /// Bytes that the cache would need to hold every key of one copy; none in units.
    pub footprint_bytes: Option<u64>,
    /// The cells that were replayed to the end: by policy, then by size.
    pub rows: Vec<Row>,
}

/// A policy at a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The policy.
    pub policy: Kind,
    /// The size in percent of the footprint.
    pub percent: Percent,
    /// The size: keys in units, else bytes.
    pub capacity: u64,
    /// Copies of the trace, each with keys of its own, that were replayed side by side.
    pub copies: u64,
    /// Requests of all copies.
    pub requests: u64,
    /// Those that were not hits.
    pub misses: u64,
    /// Values that found no room; their keys were missed when they were asked for again.
    pub refused: u64,
}

impl Row {
    /// Misses per request.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses, self.requests)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

impl Replayed {
    /// The row of a policy at a size.
    #[must_use]
    pub fn row(&self, policy: Kind, percent: Percent) -> Option<&Row> {
        self.rows.iter().find(|row| row.policy == policy && row.percent == percent)
    }
}
