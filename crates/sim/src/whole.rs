//! Cells that are the product's cache: `get`, and `set` after a miss, with values of many sizes.
//!
//! What makes a cell comparable with one that counts keys:
//!
//! - **Copies.** Small traces would fill no cache that has classes, runs and blocks worth the name.
//!   So a trace is replayed in as many copies as the budget needs, each with keys, and so sizes, of
//!   its own, and all in step: the first request of every copy, then the second of every copy. The
//!   distance between two uses of a key then grows as the number of copies does, and so does the
//!   budget.
//! - **100 %** is what the cache itself uses for every record of every copy: slots, index and
//!   tables. It is measured per byte of keys and values, by filling a cache that is large enough
//!   with records of such sizes. What the cache needs beside, for ghosts and for blocks that are
//!   not full, is paid out of the share.
//!
//! Time is simulated, so a cell depends on nothing but its parameters.

use base::{clock::Clock, random::mix};
use cache::{Cache, CacheConfig, Get, Put, Value, Worker};
use trace::{LogNormal, Trace};

use crate::{
    Error,
    outcome::{Row, ratio},
    plan::Percent,
    policy::Kind,
    pulse::Pulse,
};

/// Sizes of values.
pub(crate) const SIZES: LogNormal = LogNormal::SMALL_OBJECTS;

/// Bytes of a key: copy and number as hexadecimal digits.
const KEY_BYTES: usize = 16;

/// Bytes of keys and values that a sample is filled with, and the cache that it is filled into:
/// four times as much, so that nothing is evicted whatever a record costs beside.
const SAMPLE_BYTES: u64 = 64 << 20;
const SAMPLE_MEMORY_BYTES: u64 = 4 * SAMPLE_BYTES;
/// The copy of no trace that the sample's keys belong to.
const SAMPLE_COPY: u64 = u32::MAX as u64;

/// Most copies of a trace. A hundred keys at 1 % and 64 MiB need 72,000.
const COPIES_MAX: u64 = 1 << 24;

/// Requests in a millisecond of simulated time, after which the worker announces that it holds
/// nothing, as after a burst in a server: 64,000 a second. How fast classes turn over is measured
/// in milliseconds, so time has to go by as smoothly as it does for a server.
const REQUESTS_PER_MS: usize = 64;

/// Time between two rounds of housekeeping, as in a server.
const HOUSEKEEPING_MS: usize = 1000;

/// A trace to be replayed into caches.
pub(crate) struct Whole<'t> {
    trace: &'t Trace,
    setup: Setup,
    layouts: Vec<(Percent, Layout)>,
    footprint_bytes: u64,
}

/// What all cells of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    /// Smallest budget of a cell.
    pub(crate) memory_min_bytes: u64,
    /// Threads that the caches are laid out for.
    pub(crate) writers: usize,
    /// What the cache takes for a byte of keys and values.
    bytes_per_byte: f64,
}

/// What a size comes to.
#[derive(Clone, Copy, Debug)]
struct Layout {
    copies: u64,
    memory_bytes: u64,
}

impl Setup {
    /// Measures what records cost.
    pub(crate) fn new(seed: u64, memory_min_bytes: u64, writers: usize) -> Result<Self, Error> {
        let mut setup = Self { seed, memory_min_bytes, writers, bytes_per_byte: 1.0 };
        let mut replay = Replay::new(setup, Kind::default(), SAMPLE_MEMORY_BYTES)?;
        let (mut filled, mut number) = (0, 0);
        while filled < SAMPLE_BYTES {
            replay.access(SAMPLE_COPY, number);
            filled += setup.record_bytes(SAMPLE_COPY, number);
            number += 1;
        }
        let stats = replay.worker.cache().stats();
        let tables = stats.table_bytes * stats.arena_used_bytes / stats.arena_bytes;
        let taken = stats.record_bytes + stats.index_bytes + tables;
        setup.bytes_per_byte = ratio(taken, filled);
        Ok(setup)
    }

    fn value_bytes(&self, copy: u64, key: u32) -> usize {
        SIZES.bytes(self.seed, copy << 32 | u64::from(key)) as usize
    }

    /// Bytes of a key and its value.
    fn record_bytes(&self, copy: u64, key: u32) -> u64 {
        (KEY_BYTES + self.value_bytes(copy, key)) as u64
    }

    /// Bytes of all keys and values of a copy.
    fn copy_bytes(&self, trace: &Trace, copy: u64) -> u64 {
        (0..trace.footprint()).map(|key| self.record_bytes(copy, key)).sum()
    }

    /// What the cache takes for so many bytes of keys and values.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a small multiple of what is far below 2^53"
    )]
    fn taken(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.bytes_per_byte) as u64
    }

    /// Takes as many copies as the budget of a cell needs.
    fn layout(&self, trace: &Trace, percent: Percent) -> Result<Layout, Error> {
        let mut bytes = 0;
        for copy in 0..COPIES_MAX {
            bytes += self.copy_bytes(trace, copy);
            let memory_bytes = percent.of(self.taken(bytes));
            if memory_bytes >= self.memory_min_bytes {
                return Ok(Layout { copies: copy + 1, memory_bytes });
            }
        }
        let (trace, percent) = (trace.name().to_owned(), percent.value());
        Err(Error::TooManyCopies { trace, percent, max: COPIES_MAX })
    }
}

impl<'t> Whole<'t> {
    pub(crate) fn new(trace: &'t Trace, setup: Setup, percents: &[Percent]) -> Result<Self, Error> {
        let layout = |percent: &Percent| Ok((*percent, setup.layout(trace, *percent)?));
        let layouts: Result<_, Error> = percents.iter().map(layout).collect();
        let footprint_bytes = setup.taken(setup.copy_bytes(trace, 0));
        Ok(Self { trace, setup, layouts: layouts?, footprint_bytes })
    }

    /// What the cache would take for every key of the first copy.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        self.footprint_bytes
    }

    fn layout(&self, percent: Percent) -> Layout {
        let found = self.layouts.iter().find(|(other, _)| *other == percent);
        found.expect("invariant: every size has a layout").1
    }

    /// Requests that a cell takes.
    pub(crate) fn requests(&self, percent: Percent) -> u64 {
        self.layout(percent).copies * self.trace.keys().len() as u64
    }

    /// Replays a cell; none if it was told to stop.
    pub(crate) fn replay(
        &self,
        policy: Kind,
        percent: Percent,
        pulse: &Pulse<'_>,
    ) -> Result<Option<Row>, Error> {
        let Layout { copies, memory_bytes } = self.layout(percent);
        let mut replay = Replay::new(self.setup, policy, memory_bytes)?;
        let (mut misses, mut since_beat) = (0, 0);
        for key in self.trace.keys() {
            for copy in 0..copies {
                misses += u64::from(!replay.access(copy, *key));
                since_beat += 1;
                if since_beat == Pulse::EVERY {
                    since_beat = 0;
                    if !pulse.beat(Pulse::EVERY) {
                        return Ok(None);
                    }
                }
            }
        }
        pulse.beat(since_beat);
        let (requests, refused) = (self.requests(percent), replay.refused);
        let capacity = memory_bytes;
        Ok(Some(Row { policy, percent, capacity, copies, requests, misses, refused }))
    }
}

/// A cache that is asked for keys and given those that it has not.
struct Replay {
    setup: Setup,
    clock: Clock,
    worker: Worker,
    accesses: usize,
    refused: u64,
    /// What values are made of, and where they are read to.
    value: Vec<u8>,
    out: Vec<u8>,
}

impl Replay {
    fn new(setup: Setup, policy: Kind, memory_bytes: u64) -> Result<Self, Error> {
        let Kind::Product(policy) = policy else {
            return Err(Error::UnitOnly { policy: policy.to_string() });
        };
        let seed = u128::from(mix(setup.seed));
        let mut config = CacheConfig::new(memory_bytes);
        config.value_size_max = SIZES.bytes_max.into();
        config.writers = setup.writers;
        config.hash_seed = seed << 64 | seed;
        config.policy = policy;
        let clock = Clock::manual(0);
        let failed = |source| Error::Cache { memory_bytes, source };
        let cache = Cache::new(config, clock.clone()).map_err(failed)?;
        let worker = cache.worker().map_err(failed)?;
        let value = vec![b'v'; SIZES.bytes_max as usize];
        Ok(Self { setup, clock, worker, accesses: 0, refused: 0, value, out: Vec::new() })
    }

    /// Asks for a key and stores it if it is not there. Returns whether it was.
    fn access(&mut self, copy: u64, number: u32) -> bool {
        self.accesses += 1;
        if self.accesses.is_multiple_of(REQUESTS_PER_MS) {
            self.pass_time();
        }
        let name = name(copy << 32 | u64::from(number));
        let key = self.worker.key(&name);
        // A value that is too large to copy, or to be pinned now, is there all the same.
        if !matches!(self.worker.get(key, &mut self.out), Get::Miss) {
            return true;
        }
        let value = &self.value[..self.setup.value_bytes(copy, number)];
        let put = Put::new(Value::Bytes(value));
        if self.worker.set(key, &put).is_err() {
            // Memory that waits for this thread is free once it has said that it holds nothing.
            self.worker.quiesce();
            let key = self.worker.key(&name);
            self.refused += u64::from(self.worker.set(key, &put).is_err());
        }
        false
    }

    /// A millisecond goes by.
    fn pass_time(&mut self) {
        self.clock.advance_ms(1);
        self.worker.quiesce();
        if self.accesses.is_multiple_of(REQUESTS_PER_MS * HOUSEKEEPING_MS) {
            self.worker.sweep(usize::MAX);
            while self.worker.fit() {}
        }
    }
}

/// A key's name: its digits.
fn name(key: u64) -> [u8; KEY_BYTES] {
    std::array::from_fn(|at| {
        let digit = key >> ((KEY_BYTES - 1 - at) * 4) & 0xf;
        b"0123456789abcdef"[digit as usize]
    })
}
