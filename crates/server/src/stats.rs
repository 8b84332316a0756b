//! What the server counts, and who is connected.
//!
//! Each data thread owns a block of [`Counters`] that it alone writes; whoever asks for statistics
//! sums the blocks. Connections are counted when they open and close, not per request.
//!
//! Thread safety: everything here may be shared.

use base::{
    clock::Clock,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        lock,
    },
};

use cache::Cache;

use crate::{io::IoChoice, watch::Watchers};

mod buffers;
mod connections;
mod counters;
mod crawler;
mod prefixes;
mod records;
mod settings;
mod verbosity;

pub use buffers::{BufferGauges, BufferTotals};
use connections::Connections;
pub use connections::{Connection, OpenConnection};
pub use counters::{Counter, Counters, Totals};
pub use prefixes::{PREFIXES_MAX, PrefixCounts, PrefixTable};
pub use records::RecordMemory;
pub use settings::Settings;

/// The statistics of a server. Shared by all its threads.
#[derive(Debug)]
pub struct ServerStats {
    clock: Clock,
    started_ms: u64,
    settings: Settings,
    memory_bytes: AtomicU64,
    records: Mutex<RecordMemory>,
    threads: Mutex<Vec<Arc<Counters>>>,
    at_reset: Mutex<Totals>,
    connections: Mutex<Connections>,
    buffers: buffers::AllBuffers,
    accepting: AtomicBool,
    accept_pauses: AtomicU64,
    /// When accepting paused, and how long it has been pausing before, in milliseconds.
    paused: Mutex<(Option<u64>, u64)>,
    verbosity: verbosity::Verbosity,
    prefixes: PrefixTable,
    watchers: Watchers,
    crawler: crawler::Crawler,
    maintainer: AtomicBool,
    own_names: AtomicBool,
    sizes: AtomicBool,
    io: Mutex<Vec<IoChoice>>,
    /// The default one first. None where that alone is all, and in memory.
    tables: Mutex<Vec<TableStats>>,
}

/// What is told of a table, for `stats tables` and for sums.
#[derive(Clone, Debug)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// What its keys begin with.
    pub prefix: Vec<u8>,
    /// Its records in memory.
    pub cache: Cache,
    /// Memory that it may have.
    pub memory_bytes: u64,
    /// What it has counted.
    pub report: Arc<dyn TableReport>,
}

/// What a table has counted: names and values.
pub trait TableReport: std::fmt::Debug + Send + Sync {
    /// As of now.
    fn lines(&self) -> Vec<(&'static str, String)>;
}

impl ServerStats {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(settings: Settings, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            started_ms: clock.now_ms(),
            clock,
            memory_bytes: AtomicU64::new(settings.memory_bytes),
            records: Mutex::new(RecordMemory::of(&settings)),
            prefixes: PrefixTable::new(settings.prefix_delimiter),
            settings,
            threads: Mutex::default(),
            at_reset: Mutex::default(),
            connections: Mutex::default(),
            buffers: buffers::AllBuffers::default(),
            accepting: AtomicBool::new(true),
            accept_pauses: AtomicU64::new(0),
            paused: Mutex::default(),
            verbosity: verbosity::Verbosity::default(),
            watchers: Watchers::default(),
            crawler: crawler::Crawler::default(),
            maintainer: AtomicBool::new(true),
            own_names: AtomicBool::new(true),
            sizes: AtomicBool::new(false),
            io: Mutex::default(),
            tables: Mutex::default(),
        })
    }

    /// The counters of one more data thread.
    #[must_use]
    pub fn thread(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        lock(&self.threads).push(Arc::clone(&counters));
        counters
    }

    /// The gauges of the buffers of one more data thread.
    #[must_use]
    pub fn thread_buffers(&self) -> Arc<BufferGauges> {
        self.buffers.add()
    }

    /// The buffers of all data threads.
    #[must_use]
    pub fn buffers(&self) -> BufferTotals {
        self.buffers.totals()
    }

    /// Notes that connections are accepted, or that they have to wait.
    pub fn set_accepting(&self, accepting: bool) {
        if self.accepting.swap(accepting, Ordering::Relaxed) && !accepting {
            self.accept_pauses.fetch_add(1, Ordering::Relaxed);
        }
        let now_ms = self.clock.now_ms();
        let mut paused = lock(&self.paused);
        if !accepting {
            paused.0.get_or_insert(now_ms);
        } else if let Some(since_ms) = paused.0.take() {
            paused.1 += now_ms.saturating_sub(since_ms);
        }
    }

    /// Whether connections are accepted, and how often they had to wait.
    #[must_use]
    pub fn accepting(&self) -> (bool, u64) {
        (self.accepting.load(Ordering::Relaxed), self.accept_pauses.load(Ordering::Relaxed))
    }

    /// How long accepting has been pausing, in milliseconds, the present pause not counted.
    #[must_use]
    pub fn paused_ms(&self) -> u64 {
        lock(&self.paused).1
    }

    /// The counters of all threads since the last reset.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.sum().since(&lock(&self.at_reset))
    }

    /// Makes the counters start from zero.
    pub fn reset(&self) {
        let now = self.sum();
        *lock(&self.at_reset) = now;
        lock(&self.connections).refused = 0;
        self.accept_pauses.store(0, Ordering::Relaxed);
        self.prefixes.clear();
    }

    /// Data threads.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        lock(&self.threads).len()
    }

    /// What the configuration says.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The memory budget in bytes, now.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Notes another memory budget.
    pub fn set_memory_bytes(&self, memory_bytes: u64) {
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
    }

    /// What records have of the memory. Whoever changes that of the cache has it meanwhile.
    pub fn records(&self) -> MutexGuard<'_, RecordMemory> {
        lock(&self.records)
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Milliseconds since the server started.
    #[must_use]
    pub fn uptime_ms(&self) -> u64 {
        self.clock.now_ms().saturating_sub(self.started_ms)
    }

    /// Those who watch.
    #[must_use]
    pub fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Leaves names out of the general report that memcached would not send: this server's own, and
    /// those of the maintainer of the LRU, if that is switched off.
    pub fn hide_names(&self, maintainer: bool) {
        self.own_names.store(false, Ordering::Relaxed);
        self.maintainer.store(maintainer, Ordering::Relaxed);
    }

    /// Has `stats sizes` tell how many records there are of each size.
    pub fn track_sizes(&self) {
        self.sizes.store(true, Ordering::Relaxed);
    }

    /// Whether it does.
    #[must_use]
    pub fn tracks_sizes(&self) -> bool {
        self.sizes.load(Ordering::Relaxed)
    }

    /// Whether names of its own are shown.
    #[must_use]
    pub fn shows_own_names(&self) -> bool {
        self.own_names.load(Ordering::Relaxed)
    }

    /// Whether names of the maintainer of the LRU are shown.
    #[must_use]
    pub fn shows_maintainer(&self) -> bool {
        self.maintainer.load(Ordering::Relaxed)
    }

    /// Notes what a data thread reads and writes its sockets by.
    pub fn set_io(&self, choice: IoChoice) {
        let mut choices = lock(&self.io);
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }

    /// The different choices of the data threads.
    #[must_use]
    pub fn io(&self) -> Vec<IoChoice> {
        lock(&self.io).clone()
    }

    /// Has reports tell of a table, too: of the default one first.
    pub fn add_table(&self, table: TableStats) {
        lock(&self.tables).push(table);
    }

    /// The tables, the default one first. None where that alone is all, and in memory.
    #[must_use]
    pub fn tables(&self) -> Vec<TableStats> {
        lock(&self.tables).clone()
    }

    /// What the default table has counted, if that is told.
    #[must_use]
    pub fn table(&self) -> Vec<(&'static str, String)> {
        let table = lock(&self.tables).first().map(|table| Arc::clone(&table.report));
        table.map_or_else(Vec::new, |report| report.lines())
    }

    /// Counts by key prefix.
    #[must_use]
    pub fn prefixes(&self) -> &PrefixTable {
        &self.prefixes
    }

    /// The sums of all threads since the start.
    pub(crate) fn sum(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in lock(&self.threads).iter() {
            totals.add(counters);
        }
        totals
    }
}

#[cfg(test)]
mod tests;
