//! Cells that count keys: a trace through a policy that holds so many of them.

use trace::Trace;

use crate::{outcome::Row, plan::Percent, policy::Kind, pulse::Pulse};

/// A trace, cut by shards.
pub(crate) struct Units {
    shards: Vec<Trace>,
    footprint: u64,
}

impl Units {
    pub(crate) fn new(trace: &Trace, shards: u32) -> Self {
        let footprint = trace.footprint().into();
        // A shard that no key falls into gets no share.
        let shards = if shards == 1 { vec![trace.clone()] } else { trace.shards(shards) };
        Self {
            shards: shards.into_iter().filter(|shard| shard.footprint() > 0).collect(),
            footprint,
        }
    }

    /// Requests that a cell takes.
    pub(crate) fn requests(&self) -> u64 {
        self.shards.iter().map(|shard| shard.keys().len() as u64).sum()
    }

    /// Replays a cell; none if it was told to stop.
    pub(crate) fn replay(&self, policy: Kind, percent: Percent, pulse: &Pulse<'_>) -> Option<Row> {
        let capacity = percent.of(self.footprint);
        let shards = self.shards.len() as u64;
        let mut misses = 0;
        for (number, shard) in (0..).zip(&self.shards) {
            // What does not divide goes to the first ones; none is without room.
            let share = (capacity / shards + u64::from(number < capacity % shards)).max(1);
            let share = usize::try_from(share).expect("invariant: at most the footprint");
            let mut units = policy.units(share, shard);
            for part in shard.keys().chunks(Pulse::EVERY) {
                misses += part.iter().filter(|key| !units.access(**key)).count() as u64;
                if !pulse.beat(part.len()) {
                    return None;
                }
            }
        }
        let requests = self.requests();
        Some(Row { policy, percent, capacity, copies: 1, requests, misses, refused: 0 })
    }
}
