//! Who is connected.
//!
//! Thread safety: the list is behind a lock, which is taken when a connection opens or ends and
//! when somebody asks; what is in an entry may be read and written by all.

use std::{collections::BTreeMap, fmt, fmt::Write as _, net::SocketAddr};

use base::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
    lock,
};
use wire::memcached::watch;

use super::ServerStats;

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
pub(super) struct Connections {
    open: BTreeMap<u64, Arc<Connection>>,
    opened: u64,
    pub(super) refused: u64,
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

impl ServerStats {
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
}
