//! What an operator can set, and where each value comes from.
//!
//! Every setting is one line of the table below. From it follow the key of the TOML file, the
//! environment variable (`KELVIN_MAX_CONNECTIONS`), the flag (`--max-connections`), its help, and
//! what `kelvin config print` shows. A later source overrides an earlier one: default, file,
//! environment, flag.
//!
//! Thread safety: plain data.

mod budget;
mod check;
mod layers;
mod tables;
#[cfg(test)]
mod tests;
mod value;

use std::path::PathBuf;

use base::size::ByteSize;
use cache::PolicyKind;
use reactor::Spin;

use crate::memcached::TURN_COMMANDS_MAX;

pub use budget::Budget;
pub(crate) use check::VALUE_SHARE_DIVISOR;
pub use layers::{Effective, Layer, Origin};
pub use tables::{
    DEFAULT_TABLE, IntegerKeys, KeyKind, KeyRange, PositionBytes, TABLES_MAX, TableConfig,
};
pub use value::{
    Admission, Cpus, Delimiter, Duration, IoMode, ListenAddress, LogLevel, MemoryUse, Mode,
    Protocol, Spinning, TableKind, Threads, Value, WriteMode,
};

/// Port that memcached clients expect.
pub const DEFAULT_PORT: u16 = 11211;

/// Most data threads: beyond the cores of today's machines.
pub const NET_THREADS_MAX: usize = 256;

/// What tables are called where origins are kept.
const TABLES: &str = "table";

/// One setting, as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Key in the file; the flag has `-` for `_`, the variable is in capitals behind `KELVIN_`.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub value_name: &'static str,
    /// What it means, line by line.
    pub help: &'static [&'static str],
}

impl Setting {
    /// The long flag, without its dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("KELVIN_{}", self.name.to_ascii_uppercase())
    }
}

macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        $name:ident: $type:ty = $default:expr, $value_name:literal;
    )+) => {
        /// The configuration of a server.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $help])+ pub $name: $type,)+
            /// Tables beside the default one, as sections of the file describe them.
            pub tables: Vec<TableConfig>,
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($name: $default,)+ tables: Vec::new() }
            }
        }

        /// All settings, in the order in which they are shown.
        pub const SETTINGS: &[Setting] = &[$(
            Setting {
                name: stringify!($name),
                value_name: $value_name,
                help: &[$($help),+],
            },
        )+];

        /// What one source says.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct Values {
            $(#[serde(default, deserialize_with = "value::deserialize")] $name: Option<$type>,)+
            #[serde(default)]
            table: Vec<tables::TableValues>,
        }

        impl Values {
            /// Sets the setting `name` from what a flag or a variable says.
            pub(super) fn set(&mut self, name: &str, texts: &[String]) -> Result<(), String> {
                match name {
                    $(stringify!($name) => self.$name = Some(Value::read(texts)?),)+
                    _ => unreachable!("invariant: names come from SETTINGS"),
                }
                Ok(())
            }

            /// Overrides `config`; calls `changed` with each setting that this source has.
            pub(super) fn apply(self, config: &mut Config, mut changed: impl FnMut(&'static str)) {
                $(if let Some(value) = self.$name {
                    config.$name = value;
                    changed(stringify!($name));
                })+
                if !self.table.is_empty() {
                    config.tables = self.table.into_iter().map(|it| it.table()).collect();
                    changed(TABLES);
                }
            }
        }

        impl Config {
            /// The settings as TOML values, in order.
            pub(super) fn to_toml(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.write()),)+]
            }
        }
    };
}

settings! {
    /// Address and port to listen on; may be given several times, or separated by commas.
    /// Nobody has to log in: beyond loopback, everybody who reaches it can read and change
    /// everything. When a Unix socket is given and no address, there is no TCP listener.
    /// At `ascii@ADDR`, `binary@ADDR` and `auto@ADDR` that is spoken, whatever `protocol` says.
    listen: Vec<ListenAddress> = vec![ListenAddress::loopback()], "ADDR";
    /// Address and port of UDP, as in `listen`; none by default. Senders of datagrams can be
    /// forged: beyond loopback, replies can be aimed at others.
    listen_udp: Vec<ListenAddress> = Vec::new(), "ADDR";
    /// Path of a Unix socket to listen on; empty for none.
    unix: Option<PathBuf> = None, "PATH";
    /// Permission bits of the Unix socket, octal.
    unix_mode: Mode = Mode(0o700), "MODE";
    /// Which of memcached's protocols clients may speak: `ascii`, `binary`, or `auto` for what the
    /// first byte of a connection says.
    protocol: Protocol = Protocol::Auto, "NAME";
    /// File with a line `user:password` for each user; empty for none. Clients must log in then:
    /// by SASL PLAIN, or in the text protocol by a `set` of any key to `user password`.
    users: Option<PathBuf> = None, "PATH";
    /// Memory for everything: records, their index, buffers, connections, and the chunks and index
    /// of a log. That index, at 18 bytes a key, goes beyond it where it leaves records their least.
    memory: ByteSize = ByteSize(64 << 20), "SIZE";
    /// What `memory` is for: `everything`; or `records`, as in memcached, with buffers and
    /// connections beside it.
    memory_use: MemoryUse = MemoryUse::Everything, "USE";
    /// What `memory` may be raised to while serving, by the command `cache_memlimit`; `0` is all
    /// that the machine has. What is not in use costs addresses only.
    memory_max: ByteSize = ByteSize(0), "SIZE";
    /// Which record goes when memory is full: `htr`, or, for comparison, `fifo`, `lru`, `arc` or
    /// `paper`. With the last three a hit takes a lock, and a record 8 bytes more.
    policy: PolicyKind = PolicyKind::Htr, "NAME";
    /// Whether records are evicted when memory is full; if not, storing fails.
    evictions: bool = true, "BOOL";
    /// Longest value, at most 1GiB and, without `data_dir`, a quarter of the memory for records.
    value_size_max: ByteSize = ByteSize(1 << 20), "SIZE";
    /// Threads that serve connections; `auto` is one for each CPU.
    net_threads: Threads = Threads::Auto, "N";
    /// CPUs to pin the threads to, in turn, such as `0-3,8`; empty for no pinning. Where a
    /// thread has others wait for files in its place, these run on any CPU of the process.
    cpus: Cpus = Cpus::default(), "LIST";
    /// How sockets are read and written: `uring`, `epoll`, or `auto` for what works and is faster.
    io: IoMode = IoMode::Auto, "DRIVER";
    /// How long a thread looks for requests before it sleeps: microseconds, `off`, or `auto` for up
    /// to 50 while that is of use. It costs CPU time and saves the time of waking up.
    spin: Spinning = Spinning(Spin::Off), "US";
    /// Most connections at a time; one more is told so and closed.
    max_connections: usize = 1024, "N";
    /// Whether connections beyond `max_connections` wait until others close, instead of being
    /// turned away.
    connections_wait: bool = false, "BOOL";
    /// Most commands of a connection before others have their turn.
    turn_commands_max: usize = TURN_COMMANDS_MAX, "N";
    /// Connections that may wait to be accepted, for each listener.
    backlog: u32 = 1024, "N";
    /// Closes connections on which no byte moved for so long; `0s` is never.
    idle_timeout: Duration = Duration(0), "TIME";
    /// What ends the prefix of a key in `stats detail`, which counts from the start then; empty for
    /// `:`, and for counting when a client asks for it.
    prefix_delimiter: Delimiter = Delimiter(None), "CHAR";
    /// File that keeps records over a restart, best in memory (tmpfs); empty for none. It is
    /// written when the server ends in order, and read and removed when it starts.
    restart_file: Option<PathBuf> = None, "PATH";
    /// Directory of a table that outlasts the server: what is acknowledged is in its log, and
    /// memory has what is hot of it; or of a table that spills. Empty for none. It is made if it is
    /// not there.
    data_dir: Option<PathBuf> = None, "DIR";
    /// What becomes of records: with `volatile` they are in memory only, with `durable` in
    /// `data_dir`, with `spill` there when memory has no room for them; `auto` is `durable` where
    /// there is a `data_dir`.
    table_kind: TableKind = TableKind::Auto, "KIND";
    /// Most that a table of the kind `spill` takes of the disk, 16MiB to 4TiB. Then what is oldest
    /// there goes.
    spill_size: ByteSize = ByteSize(1 << 30), "SIZE";
    /// Which records such a table writes: `all` that memory has no room for, or those of them that
    /// were `seen`, which is read, since they were stored.
    spill_admission: Admission = Admission::All, "WHICH";
    /// Whether such a table begins with what it has written before, and not empty. Then a set or a
    /// delete of a key that is on the disk waits for the disk, as `write_mode` says.
    spill_recover: bool = false, "BOOL";
    /// When a write to a durable table is answered: with `safe` when it is on the disk, with
    /// `async` at once; then a crash takes up to a second and 16 MiB of what was acknowledged.
    /// SIGHUP reads it from the file again.
    write_mode: WriteMode = WriteMode::Safe, "MODE";
    /// How long a stop waits for clients to take their last replies.
    drain_timeout: Duration = Duration(10_000), "TIME";
    /// Whether records have the tokens that `gets` tells and `cas` compares; without, each has 0,
    /// and no `cas` stores.
    cas_tokens: bool = true, "BOOL";
    /// Whether the command `flush_all` is obeyed.
    flush_command: bool = true, "BOOL";
    /// Whether a durable table obeys it as well: then whoever reaches the server can empty the
    /// disk.
    flush_durable: bool = false, "BOOL";
    /// Whether a client's `shutdown` command is obeyed.
    shutdown_command: bool = false, "BOOL";
    /// Whether clients may list keys, by `lru_crawler metadump`, `mgdump` and `stats cachedump`.
    dump_commands: bool = true, "BOOL";
    /// Whether clients may follow what others do, by `watch`.
    watch_command: bool = true, "BOOL";
    /// What is logged: `error`, `warn`, `info` or `debug`.
    log: LogLevel = LogLevel::Info, "LEVEL";
}
