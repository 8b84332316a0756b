//! What the configuration says, as reports show it.

use crate::config::Protocol;

/// What the configuration says, for `stats settings`.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The memory budget in bytes, at first.
    pub memory_bytes: u64,
    /// What of it is not for records.
    pub other_bytes: u64,
    /// Least bytes for records.
    pub record_bytes_min: u64,
    /// Memory for common buffers.
    pub buffer_bytes: u64,
    /// Memory for connections and the buffers that are their own.
    pub connection_bytes: u64,
    /// Whether a listener can be reached from beyond this machine.
    pub exposed: bool,
    /// Most connections at a time.
    pub connections_max: u64,
    /// The first TCP port, 0 for none.
    pub tcp_port: u16,
    /// The first UDP port, 0 for none.
    pub udp_port: u16,
    /// The first TCP address, if there is one.
    pub listen: Option<String>,
    /// The path of the Unix socket, if there is one.
    pub unix_path: Option<String>,
    /// Addresses that are listened on, with the kind in front: `tcp:127.0.0.1:11211`.
    pub listeners: Vec<String>,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// Data threads.
    pub threads: usize,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Which record goes when memory is full.
    pub policy: cache::PolicyKind,
    /// Longest value in bytes.
    pub value_size_max: u64,
    /// Whether records are refused instead of evicted when memory is full.
    pub keeps_all: bool,
    /// Whether connections wait beyond the limit.
    pub connections_wait: bool,
    /// Most commands of a connection before others have their turn, if that is set.
    pub turn_commands_max: Option<usize>,
    /// Whether `flush_all` is refused.
    pub flush_refused: bool,
    /// Seconds after which an idle connection is closed; 0 is never.
    pub idle_timeout_s: u64,
    /// Which protocols are spoken.
    pub protocol: Protocol,
    /// The file of users, if there is one.
    pub users_path: Option<String>,
    /// The path of the file that keeps records over a restart, if there is one.
    pub restart_path: Option<String>,
    /// What ends the prefix of a key, if prefixes are counted from the start.
    pub prefix_delimiter: Option<u8>,
    /// Whether `shutdown` is obeyed.
    pub shutdown_enabled: bool,
    /// Whether records have no tokens to compare.
    pub tokens_off: bool,
    /// Whether clients may list keys.
    pub dumps_allowed: bool,
    /// Whether clients may watch.
    pub watch_allowed: bool,
}
