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

mod change;
mod config;
mod error;
mod interim;
mod meta;

pub use change::{Change, Decision, Digits, Edit, Put, Token, Value};
pub use config::{CacheConfig, VALUE_SIZE_MAX_LIMIT_BYTES};
pub use error::{ConfigError, StoreError};
pub use interim::{Cache, Pinned, Stats, Upload, View, Worker};
pub use meta::{Get, Key, Meta, Output};

/// Longest key in bytes.
pub const KEY_LEN_MAX: usize = 250;

/// Longest value that is stored inline and copied into the reply, in bytes. Longer ones are kept
/// in parts, sent in place and reached through [`Pinned`].
pub const INLINE_VALUE_MAX_BYTES: usize = 4096;
