//! The DRAM tier: one hash index over records in size-class slots of one arena.
//!
//! A [`Cache`] is shared by all threads; each thread works through a [`Worker`] of its own. Reads
//! take no lock; writes lock one or two buckets of the index.
//!
//! ```
//! use cache::{Cache, CacheConfig, Get, Put, Value};
//!
//! let cache = Cache::new(CacheConfig::new(64 << 20), base::clock::Clock::system())?;
//! let mut worker = cache.worker()?;
//! let key = worker.key(b"answer");
//! worker.set(key, &Put::new(Value::Bytes(b"42")))?;
//! let mut value = Vec::new();
//! assert!(matches!(worker.get(key, &mut value), Get::Hit(meta) if meta.value_len == 2));
//! assert_eq!(value, b"42");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arena;
mod blocks;
mod change;
#[cfg(test)]
mod checks;
mod config;
mod cursor;
mod error;
mod evicted;
mod extent;
mod geometry;
mod ghosts;
mod history;
mod index;
mod line;
mod memory;
mod meta;
mod order;
mod policy;
mod qsbr;
mod record;
mod stats;
mod subtable;
mod table;
mod unit;
mod victims;
mod worker;
mod zeroed;

pub use change::{Change, Decision, Digits, Edit, Put, Token, Value};
pub use config::{CacheConfig, VALUE_SIZE_MAX_LIMIT_BYTES};
pub use cursor::{Cursor, Listed};
pub use error::{ConfigError, StoreError};
pub use evicted::Evicted;
pub use extent::{Pinned, Upload};
pub use index::Step;
pub use meta::{Dead, Get, Key, Meta, Output};
pub use policy::{PaperRules, PolicyKind};
pub use stats::Stats;
pub use unit::UnitCache;
pub use victims::{Victim, VictimCounts};
pub use worker::{Cache, TakeOut, Taken, View, Worker};

/// Longest key in bytes.
pub const KEY_LEN_MAX: usize = geometry::KEY_LEN_MAX;

/// Longest value that is stored inline and copied into the reply, in bytes. Longer ones are kept
/// in parts, sent in place and reached through [`Pinned`].
pub const INLINE_VALUE_MAX_BYTES: usize = geometry::INLINE_VALUE_MAX_BYTES;
