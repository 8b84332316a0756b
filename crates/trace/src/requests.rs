//! Requests in order, as keys that are numbered from 0.
//!
//! A trace is read once, streaming, and kept as four bytes a request: a policy can then keep what
//! it knows of a key in arrays. Immutable, so threads share it. Every reader takes a file apart and
//! hands on keys of 64 bits; numbering them is done here, in the order in which they first come.

use std::collections::{HashMap, hash_map::Entry};

use crate::What;

/// Most requests of a trace: with 4 bytes each, 1 GiB. The largest that the literature replays
/// whole are below it.
pub const REQUESTS_MAX: usize = 1 << 28;

/// Requests in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    name: String,
    keys: Vec<u32>,
    footprint: u32,
}

impl Trace {
    /// What people call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of each request, from 0 up to the footprint.
    #[must_use]
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// How many different keys there are.
    #[must_use]
    pub fn footprint(&self) -> u32 {
        self.footprint
    }

    /// Its parts by a hash of the key, each numbered anew: what each of so many shards sees.
    #[must_use]
    pub fn shards(&self, shards: u32) -> Vec<Self> {
        let mut builders: Vec<Builder> =
            (0..shards).map(|_| Builder::new(self.keys.len())).collect();
        for &key in &self.keys {
            let shard = base::random::mix(key.into()) % u64::from(shards);
            let shard = usize::try_from(shard).expect("invariant: below the number of shards");
            builders[shard].push(key.into()).expect("invariant: no longer than the whole");
        }
        builders.into_iter().map(|builder| builder.finish(&self.name)).collect()
    }
}

/// Numbers keys as they come.
#[derive(Debug)]
pub struct Builder {
    numbers: HashMap<u64, u32>,
    keys: Vec<u32>,
    requests_max: usize,
}

impl Builder {
    /// An empty one for at most `requests_max` requests; at most [`REQUESTS_MAX`] are possible.
    #[must_use]
    pub fn new(requests_max: usize) -> Self {
        Self {
            numbers: HashMap::new(),
            keys: Vec::new(),
            requests_max: requests_max.min(REQUESTS_MAX),
        }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// [`What::TooManyRequests`].
    pub fn push(&mut self, key: u64) -> Result<(), What> {
        if self.keys.len() >= self.requests_max {
            return Err(What::TooManyRequests { max: self.requests_max });
        }
        let next = u32::try_from(self.numbers.len()).expect("invariant: below REQUESTS_MAX");
        let number = match self.numbers.entry(key) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(next),
        };
        self.keys.push(number);
        Ok(())
    }

    /// What was added.
    #[must_use]
    pub fn finish(self, name: &str) -> Trace {
        let footprint = u32::try_from(self.numbers.len()).expect("invariant: below REQUESTS_MAX");
        Trace { name: name.to_owned(), keys: self.keys, footprint }
    }
}
