//! Why a simulation cannot go on.

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no trace.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// A policy that only counts keys was asked to run the whole cache.
    #[error("`{policy}` is no policy of the cache: it is simulated with --unit-size only")]
    UnitOnly {
        /// The policy's name.
        policy: String,
    },
    /// The cache of a cell cannot be built.
    #[error("a cache of {memory_bytes} bytes")]
    Cache {
        /// Its budget.
        memory_bytes: u64,
        /// What the cache says.
        source: cache::ConfigError,
    },
    /// A trace has too few keys for a cell of the least budget.
    #[error("`{trace}` at {percent} %: {max} copies are not enough for the least memory of a cell")]
    TooManyCopies {
        /// The trace.
        trace: String,
        /// The size of the cell.
        percent: f64,
        /// Most copies.
        max: u64,
    },
}
