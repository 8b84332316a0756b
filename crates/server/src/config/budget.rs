//! How `memory` is divided.

use base::size::ByteSize;
use cache::CacheConfig;

use super::{Config, MemoryUse};
use crate::Error;

/// Least bytes of common buffers for each data thread: sixteen connections with a full output.
const BUFFER_BYTES_PER_THREAD_MIN: u64 = 1 << 20;

/// Most bytes of common buffers for each data thread: a thousand connections with a full output.
const BUFFER_BYTES_PER_THREAD_MAX: u64 = 64 << 20;

/// The part of the memory that is for common buffers between these two: a 32nd.
const BUFFER_DIVISOR: u64 = 32;

/// The largest part: an eighth. Many threads in little memory get less than their least, so that
/// the defaults start on any machine.
const BUFFER_DIVISOR_LEAST: u64 = 8;

/// Bytes that an open connection costs beside its buffers: its state, its session, its places in
/// tables and lists are some 1.5 KiB, the queue of values that are sent in place up to 2.5.
const STATE_BYTES_PER_CONNECTION: u64 = 4 << 10;

/// Bytes that each connection may always have: its state, and the buffers that are its own.
const BYTES_PER_CONNECTION: u64 =
    STATE_BYTES_PER_CONNECTION + reactor::OWN_BYTES_PER_CONNECTION as u64;

/// Least bytes for records where memory is for everything.
const RECORD_BYTES_MIN: u64 = 16 << 20;

/// Least bytes for copies of records where a log has the truth.
const COPY_BYTES_MIN: u64 = 8 << 20;

/// Bytes that a log takes of memory from the start: its chunks and three more of moves are 23 MiB,
/// what moves are read into 2 MiB, its index 5 to
/// 7 MB.
const LOG_BYTES: u64 = 32 << 20;

/// The part of the memory that parts of large values may take which arrive, and those which leave:
/// a 16th each.
const LARGE_DIVISOR: u64 = 16;

/// The most that they may: 250 parts of either kind keep any disk and network busy.
const LARGE_BYTES_MAX: u64 = 64 << 20;

/// The least that they may where memory is for everything: three parts of either kind. Only where
/// less would be left for copies than has to be they get so little.
const LARGE_BYTES_MIN: u64 = 1 << 20;

/// The least that they may beside the memory for records: 15 parts of either kind, so that one
/// client that is slow does not have all others wait.
const LARGE_BYTES_BESIDE_MIN: u64 = 4 << 20;

/// The part of the memory that is for records which a table that spills has evicted, and which wait
/// for the disk: a 64th, with at least four of the longest that are written.
const VICTIM_DIVISOR: u64 = 64;
const VICTIM_BYTES_MIN: u64 = 1 << 20;
/// The most of it: a tenth of a second of a fast disk.
const VICTIM_BYTES_MAX: u64 = 64 << 20;

/// Least bytes for records where memory is for them alone: memcached starts with as little.
const RECORD_BYTES_LEAST: u64 = 2 << 20;

/// Data threads that go with that; each further one adds its part.
const THREADS_LEAST: u64 = 4;

/// The parts of a server's memory, in bytes. Their sum is the `memory` setting, unless that is for
/// records alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// For received bytes and replies that exceed what connections have of their own, of all
    /// threads together.
    pub buffer_bytes: u64,
    /// For connections: their state and the buffers that are their own.
    pub connection_bytes: u64,
    /// For the log of a table that has one: its chunks, and the index of a small one. What the
    /// index of a larger one takes comes from the records, while serving. Of a table that spills
    /// also for records that wait for the disk.
    pub log_bytes: u64,
    /// For parts of large values of a durable table which arrive, and as much for those which
    /// leave.
    pub large_bytes: u64,
    /// For records, their index and what belongs to it.
    pub record_bytes: u64,
}

impl Budget {
    /// Chunks of a table's log, of 1 MiB.
    pub(crate) const LOG_CHUNKS: u16 = 20;

    /// Least bytes for records of `threads` data threads.
    #[must_use]
    pub fn record_bytes_min(memory_use: MemoryUse, threads: usize) -> u64 {
        match memory_use {
            MemoryUse::Everything => RECORD_BYTES_MIN,
            MemoryUse::Records => {
                RECORD_BYTES_LEAST * (threads as u64).div_ceil(THREADS_LEAST).max(1)
            }
        }
    }

    /// The same of a configuration.
    #[must_use]
    pub(crate) fn record_bytes_least(config: &Config, threads: usize) -> u64 {
        match config.memory_use {
            MemoryUse::Everything if config.has_log() => COPY_BYTES_MIN,
            memory_use => Self::record_bytes_min(memory_use, threads),
        }
    }

    /// Bytes of records that wait for the disk where a table spills.
    #[must_use]
    pub(crate) fn victim_bytes(config: &Config) -> u64 {
        match config.spills() {
            true => (config.memory.0 / VICTIM_DIVISOR).clamp(VICTIM_BYTES_MIN, VICTIM_BYTES_MAX),
            false => 0,
        }
    }

    /// Divides the memory of `config` for `threads` data threads.
    ///
    /// # Errors
    /// [`Error::Memory`] with the arithmetic when too little remains for records.
    pub fn new(config: &Config, threads: usize) -> Result<Self, Error> {
        let memory_bytes = config.memory.0;
        let threads_bytes = |each: u64| threads as u64 * each;
        let buffer_bytes = (memory_bytes / BUFFER_DIVISOR)
            .clamp(
                threads_bytes(BUFFER_BYTES_PER_THREAD_MIN),
                threads_bytes(BUFFER_BYTES_PER_THREAD_MAX),
            )
            .min(memory_bytes / BUFFER_DIVISOR_LEAST);
        let connection_bytes = config.max_connections as u64 * BYTES_PER_CONNECTION;
        Self::divide(config, threads, buffer_bytes, connection_bytes)
    }

    /// The same of a table beside the default one, which has no connections of its own.
    ///
    /// # Errors
    /// As [`Budget::new`].
    pub fn of_table(config: &Config, threads: usize) -> Result<Self, Error> {
        Self::divide(config, threads, 0, 0)
    }

    fn divide(
        config: &Config,
        threads: usize,
        buffer_bytes: u64,
        connection_bytes: u64,
    ) -> Result<Self, Error> {
        let memory_bytes = config.memory.0;
        let least = Self::record_bytes_least(config, threads);
        let has_parts = config.has_log() && !config.spills();
        let log_bytes = match config.has_log() {
            true if config.spills() => {
                let bytes = usize::try_from(Self::victim_bytes(config)).unwrap_or(usize::MAX);
                LOG_BYTES + CacheConfig::bytes_of_victims(bytes) as u64
            }
            true => LOG_BYTES,
            false => 0,
        };
        let left = memory_bytes.saturating_sub(buffer_bytes + connection_bytes + log_bytes);
        let large_bytes = (memory_bytes / LARGE_DIVISOR).min(LARGE_BYTES_MAX);
        let (large_bytes, record_bytes) = match config.memory_use {
            MemoryUse::Everything if has_parts => {
                let spare = left.saturating_sub(least);
                let large_bytes = large_bytes.min(spare / 2).max(LARGE_BYTES_MIN);
                (large_bytes, left.saturating_sub(2 * large_bytes))
            }
            MemoryUse::Everything => (0, left),
            MemoryUse::Records if has_parts => {
                (large_bytes.max(LARGE_BYTES_BESIDE_MIN), memory_bytes)
            }
            MemoryUse::Records => (0, memory_bytes),
        };
        if record_bytes < least {
            return Err(Error::Memory {
                memory: config.memory,
                buffers: ByteSize(buffer_bytes),
                threads,
                connections: config.max_connections,
                log: match log_bytes {
                    0 => String::new(),
                    bytes if !has_parts => format!(", {} for the log", ByteSize(bytes)),
                    bytes => format!(
                        ", {} for the log, {} for large values on their way",
                        ByteSize(bytes),
                        ByteSize(2 * large_bytes)
                    ),
                },
                states: ByteSize(connection_bytes),
                left: ByteSize(record_bytes),
                least: ByteSize(least),
            });
        }
        Ok(Self { buffer_bytes, connection_bytes, log_bytes, large_bytes, record_bytes })
    }

    /// What of the `memory` setting is not for records.
    #[must_use]
    pub fn other_bytes(&self, config: &Config) -> u64 {
        config.memory.0 - self.record_bytes
    }

    /// Bytes of common buffers for each of `threads` data threads.
    #[must_use]
    pub fn buffer_bytes_per_thread(&self, threads: usize) -> usize {
        usize::try_from(self.buffer_bytes).unwrap_or(usize::MAX) / threads.max(1)
    }
}
