//! What the server counts, and who is connected.
//!
//! Each data thread owns a block of [`Counters`] that it alone writes; whoever asks for statistics
//! sums the blocks. Connections are counted when they open and close, not per request.
//!
//! Thread safety: everything here may be shared. A [`Counter`] has one writer: two would lose
//! counts, no more.

use std::{collections::BTreeMap, fmt, fmt::Write as _, net::SocketAddr};

use base::{
    clock::Clock,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        lock,
    },
};

use wire::memcached::watch;

use crate::{io::IoChoice, watch::Watchers};

mod buffers;
mod crawler;
mod prefixes;
mod settings;
mod verbosity;

pub use buffers::{BufferGauges, BufferTotals};
pub use prefixes::{PREFIXES_MAX, PrefixCounts, PrefixTable};
pub use settings::Settings;

/// A count with one writer and any readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `by`. For the owning thread only: a load and a store, no locked instruction.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// The count now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of one data thread, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Counter,)+
        }

        /// Counters of all threads at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Totals {
            fn add(&mut self, counters: &Counters) {
                $(self.$name = self.$name.wrapping_add(counters.$name.get());)+
            }

            fn since(&self, start: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(start.$name),)+ }
            }
        }
    };
}

counters! {
    /// Keys asked for by retrievals.
    cmd_get,
    /// Stores whose header was accepted.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// Touches, of `touch`, `gat`, `gats` and `mg` with `T`.
    cmd_touch,
    /// `me` commands.
    cmd_meta,
    /// Retrievals that found a record.
    get_hits,
    /// Retrievals that found none.
    get_misses,
    /// Of these, those that found a record that had expired.
    get_expired,
    /// Of these, those that found a record that was flushed.
    get_flushed,
    /// Deletions that found nothing, or another token.
    delete_misses,
    /// Deletions.
    delete_hits,
    /// Increments of absent records.
    incr_misses,
    /// Increments.
    incr_hits,
    /// Decrements of absent records.
    decr_misses,
    /// Decrements.
    decr_hits,
    /// Compare-and-swaps of absent records.
    cas_misses,
    /// Compare-and-swaps that stored.
    cas_hits,
    /// Compare-and-swaps that found another token.
    cas_badval,
    /// Touches that found a record.
    touch_hits,
    /// Touches that found none.
    touch_misses,
    /// Values longer than the server takes.
    store_too_large,
    /// Stores that found no memory.
    store_no_memory,
    /// Records stored.
    total_items,
    /// Attempts to log in.
    auth_cmds,
    /// Those that failed.
    auth_errors,
    /// Bytes of requests.
    bytes_read,
    /// Bytes of replies.
    bytes_written,
    /// Times a connection gave way to others with requests left.
    conn_yields,
    /// Connections closed because they were idle.
    idle_kicks,
}

/// One open connection, as `stats conns` shows it.
#[derive(Debug)]
pub struct Connection {
    /// The client's address.
    pub peer: String,
    /// The address it connected to.
    pub local: String,
    /// When it last sent something, in milliseconds on the server's clock.
    pub last_command_ms: AtomicU64,
    /// Whether a part of a value has come and the rest is waited for.
    pub awaits_value: AtomicBool,
    /// Whether it is a socket for datagrams, from whoever sends one: both addresses are its own.
    pub takes_datagrams: bool,
}

/// The connections of a server.
#[derive(Debug, Default)]
struct Connections {
    open: BTreeMap<u64, Arc<Connection>>,
    opened: u64,
    refused: u64,
}

/// Keeps a connection in the list while it is open; dropped, it leaves.
#[derive(Debug)]
pub struct OpenConnection {
    stats: Arc<ServerStats>,
    connection: Arc<Connection>,
    id: u64,
}

impl OpenConnection {
    /// The entry.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Tells those who watch why it ends.
    pub fn log_end(&self, reason: &str) {
        let what = format_args!("type=conn_close {} reason={reason}", Remote(&self.connection));
        self.stats.log_connection(format_args!("{what} cfd={}", self.id));
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.stats.connections).open.remove(&self.id);
    }
}

/// Where a connection comes from, as logs have it.
struct Remote<'c>(&'c Connection);

impl fmt::Display for Remote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = &self.0.peer;
        match peer.strip_prefix("tcp:").unwrap_or(peer).parse::<SocketAddr>() {
            Ok(address) => {
                write!(f, "rip={} rport={} transport=tcp", address.ip(), address.port())
            }
            Err(_) => f.write_str("rip=unix rport=0 transport=local"),
        }
    }
}

/// The statistics of a server. Shared by all its threads.
#[derive(Debug)]
pub struct ServerStats {
    clock: Clock,
    started_ms: u64,
    settings: Settings,
    memory_bytes: AtomicU64,
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
}

impl ServerStats {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(settings: Settings, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            started_ms: clock.now_ms(),
            clock,
            memory_bytes: AtomicU64::new(settings.memory_bytes),
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

    /// Enters a connection from `peer` to `local` into the list.
    #[must_use]
    pub fn open(self: &Arc<Self>, peer: String, local: String) -> OpenConnection {
        self.enter(peer, local, false)
    }

    /// Enters a socket for datagrams into the list, as memcached does.
    #[must_use]
    pub fn open_datagrams(self: &Arc<Self>, address: SocketAddr) -> OpenConnection {
        let name = format!("udp:{address}");
        self.enter(name.clone(), name, true)
    }

    fn enter(
        self: &Arc<Self>,
        peer: String,
        local: String,
        takes_datagrams: bool,
    ) -> OpenConnection {
        let now_ms = self.clock.now_ms();
        let connection = Arc::new(Connection {
            peer,
            local,
            last_command_ms: AtomicU64::new(now_ms),
            awaits_value: AtomicBool::new(false),
            takes_datagrams,
        });
        let mut connections = lock(&self.connections);
        connections.opened += 1;
        let id = self.settings.listeners.len() as u64 + connections.opened;
        connections.open.insert(id, Arc::clone(&connection));
        drop(connections);
        let remote = Remote(&connection);
        self.log_connection(format_args!("type=conn_new {remote} cfd={id}"));
        OpenConnection { stats: Arc::clone(self), connection, id }
    }

    fn log_connection(&self, what: fmt::Arguments<'_>) {
        self.watchers.log(watch::CONNEVENTS, &self.clock, |line| {
            let _ = line.write_fmt(what);
        });
    }

    /// Counts a connection that was turned away.
    pub fn refuse(&self) {
        lock(&self.connections).refused += 1;
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

    /// Open, opened and refused connections.
    #[must_use]
    pub fn connection_counts(&self) -> (u64, u64, u64) {
        let connections = lock(&self.connections);
        (connections.open.len() as u64, connections.opened, connections.refused)
    }

    /// The first `count_max` open connections whose numbers are above `after`, with their numbers,
    /// oldest first. The first numbers are those of the listeners, from 1.
    #[must_use]
    pub fn connections_after(&self, after: u64, count_max: usize) -> Vec<(u64, Arc<Connection>)> {
        let connections = lock(&self.connections);
        let open = connections.open.range(after + 1..).take(count_max);
        open.map(|(id, open)| (*id, Arc::clone(open))).collect()
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

    /// Counts by key prefix.
    #[must_use]
    pub fn prefixes(&self) -> &PrefixTable {
        &self.prefixes
    }

    fn sum(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in lock(&self.threads).iter() {
            totals.add(counters);
        }
        totals
    }
}

#[cfg(test)]
mod tests;
