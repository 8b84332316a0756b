//! What the buffers of data threads hold, as each thread last said.

use base::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use reactor::PoolStats;

/// The gauges of one data thread, written by it once a second.
#[derive(Debug, Default)]
pub struct BufferGauges {
    used_bytes: AtomicU64,
    free_bytes: AtomicU64,
    refusals: AtomicU64,
}

impl BufferGauges {
    /// Shows `pool`.
    pub fn show(&self, pool: &PoolStats) {
        self.used_bytes.store(pool.used_bytes as u64, Ordering::Relaxed);
        self.free_bytes.store(pool.free_bytes as u64, Ordering::Relaxed);
        self.refusals.store(pool.refusals, Ordering::Relaxed);
    }
}

/// Sums over all data threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferTotals {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that wait to be used again.
    pub free_bytes: u64,
    /// Requests for a buffer that found no memory.
    pub refusals: u64,
}

/// The gauges of all data threads.
#[derive(Debug, Default)]
pub(super) struct AllBuffers(Mutex<Vec<Arc<BufferGauges>>>);

impl AllBuffers {
    pub(super) fn add(&self) -> Arc<BufferGauges> {
        let gauges = Arc::new(BufferGauges::default());
        lock(&self.0).push(Arc::clone(&gauges));
        gauges
    }

    pub(super) fn totals(&self) -> BufferTotals {
        let mut totals = BufferTotals::default();
        for gauges in lock(&self.0).iter() {
            totals.used_bytes += gauges.used_bytes.load(Ordering::Relaxed);
            totals.free_bytes += gauges.free_bytes.load(Ordering::Relaxed);
            totals.refusals += gauges.refusals.load(Ordering::Relaxed);
        }
        totals
    }
}
