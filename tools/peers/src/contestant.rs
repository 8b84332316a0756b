//! An engine that is filled and ready to be measured, whatever its type.

use std::{sync::atomic::AtomicU32, time::Instant};

use crate::{
    engine::{Empty, Engine, Kelvin, Moka, Quick, QuickInline, ShardedLru, TableEach},
    load::Load,
    workload::{self, Cell, Extent, Sample},
};

/// What an engine is in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Class {
    /// This repository's cache.
    Subject,
    /// A bounded cache for values of any length.
    Peer,
    /// A bounded cache that was told at compile time that no value is longer than 31 bytes.
    ShortValuesOnly,
    /// This repository's cache, one for each thread: threads that share nothing.
    TableEach,
    /// The harness without a cache.
    Baseline,
}

/// Names and classes of all engines.
pub(crate) const ENGINES: [(&str, Class); 7] = [
    ("kelvin", Class::Subject),
    ("kelvin-each", Class::TableEach),
    ("moka", Class::Peer),
    ("quick_cache", Class::Peer),
    ("sharded_lru", Class::Peer),
    ("quick_inline", Class::ShortValuesOnly),
    ("empty", Class::Baseline),
];

/// What is known after filling and warming.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Prepared {
    /// Records held.
    pub(crate) records: u64,
    /// Share of the last puts of the warm-up whose key was absent, so that they evicted.
    pub(crate) absent_puts: f64,
    /// Evictions so far, where the engine counts them.
    pub(crate) evictions: Option<u64>,
    /// Memory budget, where that is what bounds the engine.
    pub(crate) memory_bytes: Option<u64>,
    /// Filling and warming.
    pub(crate) prepare_s: f64,
}

/// An engine of any type.
pub(crate) trait Contestant {
    fn name(&self) -> &'static str;
    fn class(&self) -> Class;
    /// How long its keys are.
    fn key_bytes(&self) -> usize;
    fn prepared(&self) -> Prepared;

    /// Runs a cell once.
    ///
    /// # Panics
    /// Panics when a value that was read is not one that was written, or a put was refused.
    fn run(&self, load: &Load, cell: Cell, extent: Extent) -> Sample;
}

struct Bench<const N: usize, E> {
    name: &'static str,
    class: Class,
    engine: E,
    prepared: Prepared,
    /// Next rank that no engine has seen; the ranks above the load's are free for inserts.
    fresh: AtomicU32,
}

impl<const N: usize, E: Engine<N>> Bench<N, E> {
    /// Fills and warms an engine that is bounded by the number of records.
    fn new(name: &'static str, engine: E, load: &Load) -> Self {
        Self::filled(name, engine, load, &[&load.filling])
    }

    fn filled(name: &'static str, engine: E, load: &Load, filling: &[&[u32]]) -> Self {
        let start = Instant::now();
        let class = ENGINES.iter().find(|(known, _)| *known == name).expect("a known engine").1;
        let absent_puts = match class {
            Class::Baseline => 0.0,
            _ => {
                let tables =
                    (0..engine.tables()).map(|_| workload::prepare(&engine, load, filling));
                tables.sum::<f64>() / engine.tables() as f64
            }
        };
        let prepared = Prepared {
            records: engine.records(),
            absent_puts,
            evictions: engine.evictions(),
            memory_bytes: None,
            prepare_s: start.elapsed().as_secs_f64(),
        };
        Self { name, class, engine, prepared, fresh: AtomicU32::new(load.shape.keys) }
    }
}

impl<const N: usize, E: Engine<N>> Contestant for Bench<N, E> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn class(&self) -> Class {
        self.class
    }

    fn key_bytes(&self) -> usize {
        N
    }

    fn prepared(&self) -> Prepared {
        self.prepared
    }

    fn run(&self, load: &Load, cell: Cell, extent: Extent) -> Sample {
        let sample = workload::run(&self.engine, load, &self.fresh, cell, extent);
        let stored = self.class != Class::Baseline;
        assert!(!stored || sample.wrong == 0, "{}: {} wrong values", self.name, sample.wrong);
        assert_eq!(self.engine.refused(), 0, "{}: puts were refused", self.name);
        sample
    }
}

/// Fills and warms the engine called `name`, bounded to the load's capacity.
pub(crate) fn prepare<const N: usize>(name: &'static str, load: &Load) -> Box<dyn Contestant> {
    let records = load.shape.capacity as usize;
    match name {
        "kelvin" => kelvin::<N, _>(name, load, Kelvin::new),
        "kelvin-each" => kelvin::<N, _>(name, load, TableEach::new),
        "moka" => Box::new(Bench::<N, _>::new(name, Moka::new(records), load)),
        "quick_cache" => Box::new(Bench::<N, _>::new(name, Quick::new(records), load)),
        "quick_inline" => Box::new(Bench::<N, _>::new(name, QuickInline::new(records), load)),
        "sharded_lru" => Box::new(Bench::<N, _>::new(name, ShardedLru::new(records), load)),
        _ => Box::new(Bench::<N, _>::new(name, Empty, load)),
    }
}

/// Attempts to find the budget that holds the capacity; records are nearly proportional to it,
/// so each attempt comes about ten times closer.
const BUDGET_ATTEMPTS_MAX: usize = 6;

/// How close to the capacity the records must come.
const CAPACITY_TOLERANCE: f64 = 0.004;

/// The cache of this repository is bounded by bytes: looks for the budget with which it holds as
/// many records of this load as the others. What it needs to evict (ghosts, a reserve) it takes
/// from the budget only when it begins to, so it is filled beyond that point first.
fn kelvin<const N: usize, E: Engine<N> + 'static>(
    name: &'static str,
    load: &Load,
    new: impl Fn(u64) -> E,
) -> Box<dyn Contestant> {
    let capacity = f64::from(load.shape.capacity);
    // Key, value, and 36 bytes that the record format allows for everything else.
    let mut memory_bytes = (capacity * (N as f64 + load.names.mean_len() + 36.0)) as u64;
    let mut attempt = 1;
    loop {
        let filling = [load.overfilling.as_slice(), load.filling.as_slice()];
        let engine = new(memory_bytes);
        let mut bench = Bench::<N, _>::filled(name, engine, load, &filling);
        bench.prepared.memory_bytes = Some(memory_bytes);
        let ratio = bench.prepared.records as f64 / capacity;
        eprintln!(
            "  {name}: {memory_bytes} bytes hold {} records ({:.2} a record)",
            bench.prepared.records,
            memory_bytes as f64 / bench.prepared.records as f64
        );
        if (ratio - 1.0).abs() <= CAPACITY_TOLERANCE {
            return Box::new(bench);
        }
        if attempt == BUDGET_ATTEMPTS_MAX {
            eprintln!("  {name}: WARNING: not bounded to the capacity of the others");
            return Box::new(bench);
        }
        memory_bytes = (memory_bytes as f64 / ratio) as u64;
        attempt += 1;
    }
}
