//! How `memory` is divided.

use base::size::ByteSize;

use super::Config;
use crate::Error;

/// Bytes of buffers that each connection may count on: one for a request and one for a reply of
/// average size, or one of a value that is copied.
const BUFFER_BYTES_PER_CONNECTION: u64 = 8 << 10;

/// Least bytes of buffers for each data thread: sixteen connections with a full output.
const BUFFER_BYTES_PER_THREAD: u64 = 1 << 20;

/// Bytes that an open connection costs beside its buffers: its state, its session, its places in
/// queues, tables and lists.
const CONNECTION_BYTES: u64 = 2 << 10;

/// Least bytes for records.
const RECORD_BYTES_MIN: u64 = 16 << 20;

/// The parts of a server's memory, in bytes. Their sum is the `memory` setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// For received bytes and replies, of all threads together.
    pub buffer_bytes: u64,
    /// For the state of connections.
    pub connection_bytes: u64,
    /// For records, their index and what belongs to it.
    pub record_bytes: u64,
}

impl Budget {
    /// Divides the memory of `config` for `threads` data threads.
    ///
    /// # Errors
    /// [`Error::Memory`] with the arithmetic when less than 16 MiB remain for records.
    pub fn new(config: &Config, threads: usize) -> Result<Self, Error> {
        let memory_bytes = config.memory.0;
        let connections = config.max_connections as u64;
        // A sixteenth of a large memory speeds bursts up; many connections get no more than a
        // quarter of a small one, and wait for each other.
        let buffer_bytes = (connections * BUFFER_BYTES_PER_CONNECTION)
            .max(memory_bytes / 16)
            .min(memory_bytes / 4)
            .max(threads as u64 * BUFFER_BYTES_PER_THREAD);
        let connection_bytes = connections * CONNECTION_BYTES;
        let record_bytes = memory_bytes.saturating_sub(buffer_bytes + connection_bytes);
        if record_bytes < RECORD_BYTES_MIN {
            return Err(Error::Memory {
                memory: config.memory,
                buffers: ByteSize(buffer_bytes),
                threads,
                connections: config.max_connections,
                states: ByteSize(connection_bytes),
                left: ByteSize(record_bytes),
                least: ByteSize(RECORD_BYTES_MIN),
            });
        }
        Ok(Self { buffer_bytes, connection_bytes, record_bytes })
    }

    /// Bytes of buffers for each of `threads` data threads.
    #[must_use]
    pub fn buffer_bytes_per_thread(&self, threads: usize) -> usize {
        usize::try_from(self.buffer_bytes).unwrap_or(usize::MAX) / threads.max(1)
    }
}
