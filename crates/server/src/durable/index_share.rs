//! The index of a log grows with its keys, and takes the memory for that from records.
//!
//! Thread safety: belongs to the thread that calls it.

use base::{size::ByteSize, sync::Arc};
use cache::Cache;

use super::Gauges;
use crate::stats::ServerStats;

/// Bytes of the index of a small log, which the budget has from the start.
const COUNTED_BYTES: u64 = 8 << 20;

/// The memory of records is changed when the index has taken so much more.
const STEP_BYTES: u64 = 1 << 20;

/// Has memory of records make room for the index.
#[derive(Debug)]
pub(crate) struct IndexShare {
    gauges: Arc<Gauges>,
    memory: Memory,
    is_said: bool,
}

/// Whose memory it is.
#[derive(Debug)]
enum Memory {
    /// The server's, which may be changed.
    Server(Arc<ServerStats>),
    /// That of a table beside the default one: what records have of it at first, the least that
    /// they can do with, and what they have now.
    Table { record_bytes: u64, least_bytes: u64, given_bytes: u64 },
}

impl IndexShare {
    pub(crate) fn new(gauges: Arc<Gauges>, stats: Arc<ServerStats>) -> Self {
        Self { gauges, memory: Memory::Server(stats), is_said: false }
    }

    /// Of a table whose records have so much of its memory at first, and at least.
    pub(crate) fn of_table(gauges: Arc<Gauges>, record_bytes: u64, least_bytes: u64) -> Self {
        let memory = Memory::Table { record_bytes, least_bytes, given_bytes: record_bytes };
        Self { gauges, memory, is_said: false }
    }

    /// Looks how large the index is, and gives records what it leaves.
    pub(crate) fn fit(&mut self, cache: &Cache) {
        let index_bytes = self.gauges.index_bytes();
        let (fits, least_bytes) = match &mut self.memory {
            Memory::Server(stats) => {
                let fits = give_what_is_left(stats, cache, index_bytes);
                (fits, stats.settings().record_bytes_min)
            }
            Memory::Table { record_bytes, least_bytes, given_bytes } => {
                let left_bytes = record_bytes.saturating_sub(taken(index_bytes));
                let bytes = left_bytes.max(*least_bytes);
                if bytes != *given_bytes && cache.set_memory(bytes).is_ok() {
                    *given_bytes = bytes;
                }
                (left_bytes >= *least_bytes, *least_bytes)
            }
        };
        if !fits && !self.is_said {
            let (index, least) = (ByteSize(index_bytes), ByteSize(least_bytes));
            tracing::warn!(
                %index,
                records = %least,
                "the index of the log has grown beyond what `memory` leaves for it"
            );
        }
        self.is_said = !fits;
    }
}

/// Gives records what an index of so many bytes leaves of the memory, or the least that they can
/// do with. Returns whether it leaves that.
pub(crate) fn give_what_is_left(stats: &ServerStats, cache: &Cache, index_bytes: u64) -> bool {
    let settings = stats.settings();
    let mut records = stats.records();
    records.set_index(taken(index_bytes));
    let left_bytes = records.left_of(stats.memory_bytes(), settings);
    let least_bytes = settings.record_bytes_min;
    if let Err(error) = records.give(cache, left_bytes.max(least_bytes)) {
        tracing::debug!(%error, "the memory of records stays as it is");
    }
    left_bytes >= least_bytes
}

/// What an index of so many bytes takes from records, in whole steps.
fn taken(index_bytes: u64) -> u64 {
    index_bytes.saturating_sub(COUNTED_BYTES).next_multiple_of(STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use log::index::HashIndex;

    use super::{COUNTED_BYTES, taken};
    use crate::durable::ring::keys_max;

    /// Few keys are in many blocks: 2^15 buckets of 128 bytes, which do for 200,000 of them.
    #[test]
    fn the_budget_has_the_index_of_a_small_log_where_memory_is_little() {
        const FIRST_BYTES: u64 = 4 << 20;
        let directory = |memory: u64| HashIndex::new(keys_max(memory)).expect("an index").bytes();
        assert!(directory(64 << 20) + FIRST_BYTES <= COUNTED_BYTES, "a few keys are too many");
        assert_eq!(keys_max(1 << 30), 1 << 30);
    }

    #[test]
    fn an_index_takes_what_it_has_beyond_the_budget() {
        let mib = |mib: u64| mib << 20;
        for (index_bytes, expected) in [
            (0, 0),
            (COUNTED_BYTES, 0),
            (COUNTED_BYTES + 1, mib(1)),
            (COUNTED_BYTES + mib(30), mib(30)),
        ] {
            assert_eq!(taken(index_bytes), expected, "{index_bytes}");
        }
    }
}
