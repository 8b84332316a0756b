//! How `memory` is divided.

use base::size::ByteSize;

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
    /// For records, their index and what belongs to it.
    pub record_bytes: u64,
}

impl Budget {
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
        let record_bytes = match config.memory_use {
            MemoryUse::Everything => memory_bytes.saturating_sub(buffer_bytes + connection_bytes),
            MemoryUse::Records => memory_bytes,
        };
        let least = Self::record_bytes_min(config.memory_use, threads);
        if record_bytes < least {
            return Err(Error::Memory {
                memory: config.memory,
                buffers: ByteSize(buffer_bytes),
                threads,
                connections: config.max_connections,
                states: ByteSize(connection_bytes),
                left: ByteSize(record_bytes),
                least: ByteSize(least),
            });
        }
        Ok(Self { buffer_bytes, connection_bytes, record_bytes })
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
