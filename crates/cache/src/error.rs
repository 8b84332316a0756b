//! What can go wrong, with the values that were wrong.

/// A store that did not happen. The key's present record is untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The key is empty or longer than [`crate::KEY_LEN_MAX`].
    #[error("a key of {len} bytes (1 to {max} are possible)", max = crate::KEY_LEN_MAX)]
    KeyLength {
        /// Bytes of the key.
        len: usize,
    },
    /// The value is longer than the cache was configured for.
    #[error("a value of {len} bytes ({max} are possible)")]
    ValueTooLarge {
        /// Bytes of the value.
        len: usize,
        /// The configured limit in bytes.
        max: usize,
    },
    /// Nothing could be evicted: what memory holds is pinned, being uploaded, or waits for
    /// readers. It may work after [`crate::Worker::quiesce`].
    #[error("no memory for {len} bytes can be freed now")]
    OutOfMemory {
        /// Bytes that were asked for.
        len: usize,
    },
    /// Too much memory is held by values that are still arriving.
    #[error("values that are still arriving hold {held} bytes ({max} are possible)")]
    UploadsFull {
        /// Bytes held by uploads.
        held: usize,
        /// A quarter of the arena, or the longest value.
        max: usize,
    },
}

/// A cache that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not enough memory for a useful arena.
    #[error("the arena would have {got} bytes; at least {min} are needed")]
    MemoryTooSmall {
        /// Bytes that the arena would have.
        got: u64,
        /// Smallest arena in bytes.
        min: u64,
    },
    /// More memory than an index entry can address.
    #[error("the arena would have {got} bytes; at most {max} can be addressed")]
    MemoryTooLarge {
        /// Bytes that the arena would have.
        got: u64,
        /// Largest arena in bytes.
        max: u64,
    },
    /// More memory than addresses were reserved for.
    #[error("{got} bytes of memory; the cache was built for at most {max}")]
    MemoryAboveMax {
        /// Bytes that were asked for.
        got: u64,
        /// The configured maximum in bytes.
        max: u64,
    },
    /// A value could fill too much of memory.
    #[error("value_size_max is {got} bytes; with this much memory at most {max} are possible")]
    ValueSizeMax {
        /// The value as configured.
        got: u64,
        /// The largest one that fits.
        max: u64,
    },
    /// The operating system refused.
    #[error("reserving {bytes} bytes of memory")]
    Reserve {
        /// Bytes that were asked for.
        bytes: u64,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// No policy has this name.
    #[error("no policy `{got}`: htr, fifo, lru, arc or paper[:hits=2|3,shares=borrowed|fixed]")]
    UnknownPolicy {
        /// The name as given.
        got: String,
    },
    /// Every place for a thread is taken.
    #[error("all {max} places for threads are taken")]
    TooManyWorkers {
        /// Places there are.
        max: usize,
    },
}
