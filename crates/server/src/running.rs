//! A server as a whole: how it starts, and how it ends.
//!
//! Owns the threads. They end in order: the acceptor, so that nothing new comes; the data
//! threads, when everything that was received is answered or the drain has lasted too long; the
//! housekeeping. Then records are kept for the next start, if there is a file for them.
//!
//! Thread safety: [`StopControl`] may be used from any thread; the rest belongs to one.

mod door;
mod ending;
mod settings;
mod table;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::mpsc::{self, Receiver, SyncSender},
    thread::{self, JoinHandle},
    time::Duration,
};

use base::{
    clock::Clock,
    size::ByteSize,
    sync::{Arc, atomic::AtomicBool},
};
use cache::Cache;
use reactor::{Sender, mailbox};

use crate::{
    Error,
    acceptor::{self, Acceptor, End, Recipient},
    config::{Budget, Config},
    cpus,
    datagrams::{self, DatagramSocket, Datagrams},
    descriptors,
    durable::{WriteModes, peers::Peers, tables::Served},
    housekeeping, io,
    listener::Listener,
    memcached::{Access, Control, durable::FlushTime},
    memory,
    ready::Ready,
    restart::{self, Loading},
    stats::ServerStats,
    thread::{DataThread, Load, Order},
    users::Users,
    watch::WATCHERS_MAX,
};
use door::Door;
use settings::settings;
use table::{Keeper, Opened};

/// Orders that may wait for a data thread beside new connections: a drain, a stop, a call of
/// another thread, and one to wake each watcher.
const ORDERS_BESIDE_CONNECTIONS: usize = 3 + WATCHERS_MAX;

/// Requests to stop that may wait: a first and a second signal, the end of a thread, and a
/// client's command. More of them say nothing new and are dropped.
const STOPS_WAITING_MAX: usize = 8;

type Thread = JoinHandle<Result<(), Error>>;

/// Why a server should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Clients may finish first.
    Graceful,
    /// At once.
    Now,
    /// A thread has ended that should not have.
    ThreadEnded,
}

/// Asks a server to stop.
#[derive(Clone, Debug)]
pub struct StopControl(SyncSender<Stop>);

impl StopControl {
    /// Asks. Returns at once; [`Running::wait`] acts on it.
    pub fn stop(&self, how: Stop) {
        // Full: it has been asked often enough. Closed: it has ended.
        let _ = self.0.try_send(how);
    }
}

impl Control for StopControl {
    fn shutdown(&self, graceful: bool) {
        self.stop(if graceful { Stop::Graceful } else { Stop::Now });
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<SocketAddr>,
    udp_addresses: Vec<SocketAddr>,
    access: Access,
    stats: Arc<ServerStats>,
    control: StopControl,
    stops: Receiver<Stop>,
    drain_timeout: Duration,
    /// Connections at a time: fewer than configured where descriptors do not suffice.
    connections_max: usize,
    acceptor: Option<(Sender<End>, Thread)>,
    data: Vec<(Sender<Order>, Thread)>,
    datagrams: Option<(Sender<datagrams::End>, Thread)>,
    /// One for each cache.
    housekeeping: Vec<(SyncSender<()>, Thread)>,
    /// The acceptor is to end: it lets nobody wait any more.
    ends: Arc<AtomicBool>,
    /// Where records go at the end, and where they are until then.
    keeps: Option<(PathBuf, Cache)>,
    /// The tables, the default one first, unless that alone is all, and in memory; and the threads
    /// of their logs.
    tables: Arc<[Served]>,
    keepers: Vec<Option<Keeper>>,
    write_modes: Option<WriteModes>,
    flush_time: Arc<FlushTime>,
}

impl Running {
    /// Starts a server.
    ///
    /// # Errors
    /// What keeps it from serving; nothing runs or listens then.
    pub fn start(config: &Config, clock: &Clock) -> Result<Self, Error> {
        let running = Self::start_unless(config, clock, || false)?;
        Ok(running.expect("invariant: nothing stops it"))
    }

    /// Starts a server, unless `stops` says meanwhile that it is to stop: reading many records back
    /// takes a while. They are in their file again then.
    ///
    /// # Errors
    /// What keeps it from serving; nothing runs or listens then.
    pub fn start_unless(
        config: &Config,
        clock: &Clock,
        mut stops: impl FnMut() -> bool,
    ) -> Result<Option<Self>, Error> {
        let threads = config.threads();
        let budget = Budget::new(config, threads)?;
        cpus::check(&config.cpus)?;
        let shares = descriptors::provide(config);
        let users = config.users.as_deref().map(Users::load).transpose()?.map(Arc::new);
        let listeners = Listener::open_all(config)?;
        let sockets = DatagramSocket::open_all(&config.listen_udp)?;
        let cache = memory::cache(config, &budget, threads, clock)?;
        // Whoever cannot listen must not use the file up; clients wait as long as it is read.
        if let Some(path) = &config.restart_file
            && restart::load(path, &cache, config.cas_tokens, &mut stops)? == Loading::Stopped
        {
            tracing::info!("stopped");
            return Ok(None);
        }
        let opened = table::open_all(config, &cache, clock, shares, &mut stops)?;
        let Opened::Tables(tables) = opened else {
            tracing::info!("stopped while a log was opened");
            return Ok(None);
        };
        if !tables.is_empty() && stops() {
            tracing::info!("stopped");
            return table::close_all(&tables).map(|()| None);
        }
        let udp_addresses: Vec<_> = sockets.iter().map(DatagramSocket::address).collect();
        let mut settings = settings(config, &listeners, &budget, threads);
        settings.connections_max = shares.connections as u64;
        settings.exposed |= sockets.iter().any(DatagramSocket::is_exposed);
        settings.udp_port = udp_addresses.first().map_or(0, SocketAddr::port);
        let stats = ServerStats::new(settings, clock.clone());
        announce(config, &budget, threads);
        let is_open = users.is_none();
        let doors: Vec<_> = listeners.iter().map(|listener| Door::of(listener, is_open)).collect();
        let (sender, stops) = mpsc::sync_channel(STOPS_WAITING_MAX);
        let mut running = Self {
            addresses: listeners.iter().filter_map(Listener::address).collect(),
            udp_addresses,
            access: Access { protocol: config.protocol, users },
            stats,
            control: StopControl(sender),
            stops,
            drain_timeout: Duration::from_millis(config.drain_timeout.0),
            connections_max: shares.connections,
            acceptor: None,
            data: Vec::new(),
            datagrams: None,
            housekeeping: Vec::new(),
            ends: Arc::default(),
            keeps: config.restart_file.clone().map(|path| (path, cache.clone())),
            tables: tables.into(),
            keepers: Vec::new(),
            write_modes: None,
            flush_time: Arc::default(),
        };
        let started = running
            .start_threads(config, &cache, &budget, threads, listeners)
            .and_then(|()| running.start_datagrams(&cache, sockets));
        match started {
            Ok(()) => {
                doors.iter().for_each(Door::announce);
                Ok(Some(running))
            }
            Err(error) => running.give_up(error),
        }
    }

    fn start_threads(
        &mut self,
        config: &Config,
        cache: &Cache,
        budget: &Budget,
        threads: usize,
        listeners: Vec<Listener>,
    ) -> Result<(), Error> {
        let unix_only = listeners.iter().all(|listener| listener.address().is_none());
        let mut recipients = Vec::new();
        let boxes = (0..threads).map(|number| {
            let limit = config.max_connections + ORDERS_BESIDE_CONNECTIONS;
            let thread = format!("data-{number}");
            mailbox(limit).map_err(|source| Error::Loop { thread, source })
        });
        let boxes = boxes.collect::<Result<Vec<_>, Error>>()?;
        let peers = Peers::new(boxes.iter().map(|(orders, _)| orders.clone()));
        self.start_keepers(&peers, threads)?;
        for (number, (orders, inbox)) in boxes.into_iter().enumerate() {
            let name = format!("data-{number}");
            let load = Arc::new(Load::default());
            let thread = DataThread {
                name: name.clone(),
                cpu: (!config.cpus.0.is_empty())
                    .then(|| config.cpus.0[number % config.cpus.0.len()]),
                cache: cache.clone(),
                stats: Arc::clone(&self.stats),
                control: Arc::new(self.control.clone()),
                access: self.access.clone(),
                load: Arc::clone(&load),
                mailbox: inbox,
                orders: orders.clone(),
                buffer_bytes: budget.buffer_bytes_per_thread(threads),
                idle_timeout_ms: config.idle_timeout.0,
                io: io::Wish { mode: config.io, unix_only },
                spin: config.spin.0,
                seat: self.seat(number, &peers),
            };
            let handle = self.spawn(&name, |ready| thread.run(ready))?;
            self.data.push((orders.clone(), handle));
            recipients.push(Recipient { orders, load });
        }
        for (their_cache, share) in self.caches(cache)? {
            let (stop, stopped) = mpsc::sync_channel(0);
            let stats = Arc::clone(&self.stats);
            let handle = self.spawn(housekeeping::NAME, move |ready| {
                housekeeping::run(&their_cache, &stats, share, &stopped, ready)
            })?;
            self.housekeeping.push((stop, handle));
        }
        let (end, inbox) = mailbox(1)
            .map_err(|source| Error::Loop { thread: acceptor::NAME.to_owned(), source })?;
        let acceptor = Acceptor {
            listeners,
            recipients,
            stats: Arc::clone(&self.stats),
            // Sockets for datagrams are listed as connections and take nobody's place.
            connections_max: (self.connections_max + self.udp_addresses.len()) as u64,
            connections_wait: config.connections_wait,
            ends: Arc::clone(&self.ends),
            mailbox: inbox,
            clock: cache.clock().clone(),
        };
        let handle = self.spawn(acceptor::NAME, |ready| acceptor.run(ready))?;
        self.acceptor = Some((end, handle));
        Ok(())
    }

    /// Serves datagrams, if there are sockets for them.
    fn start_datagrams(
        &mut self,
        cache: &Cache,
        sockets: Vec<DatagramSocket>,
    ) -> Result<(), Error> {
        if sockets.is_empty() {
            return Ok(());
        }
        let (end, mailbox) = mailbox(1)
            .map_err(|source| Error::Loop { thread: datagrams::NAME.to_owned(), source })?;
        let thread = Datagrams {
            sockets,
            mailbox,
            cache: cache.clone(),
            stats: Arc::clone(&self.stats),
            control: Arc::new(self.control.clone()),
            access: self.access.clone(),
        };
        let handle = self.spawn(datagrams::NAME, |ready| thread.run(ready))?;
        self.datagrams = Some((end, handle));
        Ok(())
    }

    /// Starts a thread whose end, by an error or a panic, ends the server, and waits until it is
    /// ready or has failed.
    fn spawn(
        &self,
        name: &str,
        run: impl FnOnce(Ready) -> Result<(), Error> + Send + 'static,
    ) -> Result<Thread, Error> {
        let last_will = LastWill(self.control.clone());
        let (ready, is_ready) = Ready::channel();
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _last_will = last_will;
                run(ready)
            })
            .map_err(|source| Error::Thread { thread: name.to_owned(), what: "start", source })?;
        match is_ready.recv() {
            Ok(()) => Ok(handle),
            Err(_) => Err(join(handle).expect_err("invariant: it is ready or has an error")),
        }
    }

    /// The addresses of the TCP listeners, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses of the UDP sockets, with the ports that the system chose.
    #[must_use]
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp_addresses
    }

    /// Who may log in; `None` if nobody has to.
    #[must_use]
    pub fn users(&self) -> Option<&Arc<Users>> {
        self.access.users.as_ref()
    }

    /// What changes the write modes of tables; `None` if there is none that has one.
    #[must_use]
    pub fn write_modes(&self) -> Option<&WriteModes> {
        self.write_modes.as_ref()
    }

    /// The statistics.
    #[must_use]
    pub fn stats(&self) -> &Arc<ServerStats> {
        &self.stats
    }

    /// Something to stop the server with.
    #[must_use]
    pub fn control(&self) -> StopControl {
        self.control.clone()
    }

    /// Serves until asked to stop, and stops.
    ///
    /// # Errors
    /// The first error that ended a thread.
    pub fn wait(self) -> Result<(), Error> {
        let how = self.stops.recv().unwrap_or(Stop::Now);
        self.end(how)
    }
}

/// Says that a thread has ended, however it did.
#[derive(Debug)]
struct LastWill(StopControl);

impl Drop for LastWill {
    fn drop(&mut self) {
        self.0.stop(Stop::ThreadEnded);
    }
}

/// Says how memory is divided.
fn announce(config: &Config, budget: &Budget, threads: usize) {
    tracing::info!(
        memory = %config.memory,
        records = %ByteSize(budget.record_bytes),
        buffers = %ByteSize(budget.buffer_bytes),
        connections = %ByteSize(budget.connection_bytes),
        log = %ByteSize(budget.log_bytes),
        large = %ByteSize(2 * budget.large_bytes),
        threads,
        "starting"
    );
}

fn join(handle: Thread) -> Result<(), Error> {
    let thread = handle.thread().name().unwrap_or_default().to_owned();
    handle.join().unwrap_or(Err(Error::Panicked { thread }))
}
