//! Reports with lines for each of many things. They are written part by part as the client takes
//! them, so that a client which does not read costs a place in a list instead of the list.

use base::sync::atomic::Ordering;
use reactor::OUTPUT_UNIT_BYTES_MAX;
use wire::memcached::limits::KEY_LEN_MAX;

use super::{Report, SECOND_MS};
use crate::stats::{ServerStats, TableStats};

/// Things that are written at a time.
const PART_ENTRIES: usize = 12;

/// Longest lines of one thing, in bytes. A connection has four lines of `STAT <id>:<name> `, which
/// are 50 with 20 digits, and two addresses: a socket's path has up to 107 bytes. A prefix has one
/// line with four numbers.
const ENTRY_BYTES_MAX: usize =
    if CONNECTION_BYTES_MAX > PREFIX_BYTES_MAX { CONNECTION_BYTES_MAX } else { PREFIX_BYTES_MAX };
const CONNECTION_BYTES_MAX: usize = 4 * 50 + 2 * 120 + 40;
const PREFIX_BYTES_MAX: usize = KEY_LEN_MAX + 4 * (5 + 20) + 10;

const _: () = assert!(PART_ENTRIES * ENTRY_BYTES_MAX + b"END\r\n".len() <= OUTPUT_UNIT_BYTES_MAX);

/// A report that is under way. What comes and goes meanwhile may be in it or not.
#[derive(Debug)]
pub(in crate::memcached) enum List {
    /// `stats conns`: who is connected.
    Connections {
        /// The number of the last one that was written.
        after: u64,
        /// The number of the one that asks.
        asker: u64,
    },
    /// `stats detail dump`: counts by key prefix.
    Prefixes {
        /// The last one that was written.
        after: Option<Box<[u8]>>,
    },
    /// `stats tables`: a table at a time.
    Tables {
        /// How many were written.
        written: usize,
    },
}

impl List {
    /// All listeners and connections, for connection number `asker`.
    pub(in crate::memcached) fn connections(asker: u64) -> Self {
        Self::Connections { after: 0, asker }
    }

    /// All prefixes.
    pub(in crate::memcached) fn prefixes() -> Self {
        Self::Prefixes { after: None }
    }

    /// All tables.
    pub(in crate::memcached) fn tables() -> Self {
        Self::Tables { written: 0 }
    }

    /// The next part, of at most [`OUTPUT_UNIT_BYTES_MAX`], and whether it is the last.
    pub(in crate::memcached) fn part(&mut self, server: &ServerStats) -> (Vec<u8>, bool) {
        let mut report = Report::default();
        let written = match self {
            Self::Tables { written } => {
                let is_last = !table(&mut report, server, *written);
                *written += 1;
                return if is_last { (report.end(), true) } else { (report.0, false) };
            }
            Self::Connections { after, asker } => connections(&mut report, server, after, *asker),
            Self::Prefixes { after } => prefixes(&mut report, server, after),
        };
        if written == PART_ENTRIES { (report.0, false) } else { (report.end(), true) }
    }
}

fn connections(report: &mut Report, server: &ServerStats, after: &mut u64, asker: u64) -> usize {
    let now_ms = server.clock().now_ms();
    let listeners = &server.settings().listeners;
    let skipped = usize::try_from(*after).unwrap_or(usize::MAX);
    let mut written = 0;
    for (id, listener) in (1..).zip(listeners).skip(skipped).take(PART_ENTRIES) {
        report.stat(format_args!("{id}:addr"), listener);
        report.stat(format_args!("{id}:state"), "conn_listening");
        report.stat(format_args!("{id}:secs_since_last_cmd"), server.uptime_ms() / SECOND_MS);
        *after = id;
        written += 1;
    }
    let listed = server.connections_after(*after, PART_ENTRIES - written);
    for (id, connection) in &listed {
        let idle_ms = now_ms.saturating_sub(connection.last_command_ms.load(Ordering::Relaxed));
        if connection.takes_datagrams {
            report.stat(format_args!("{id}:UDP"), "UDP");
            report.stat(format_args!("{id}:addr"), &connection.local);
        } else {
            report.stat(format_args!("{id}:addr"), &connection.peer);
            report.stat(format_args!("{id}:listen_addr"), &connection.local);
        }
        let state = if *id == asker {
            "conn_parse_cmd"
        } else if connection.awaits_value.load(Ordering::Relaxed) {
            "conn_nread"
        } else {
            "conn_read"
        };
        report.stat(format_args!("{id}:state"), state);
        report.stat(format_args!("{id}:secs_since_last_cmd"), idle_ms / SECOND_MS);
        *after = *id;
    }
    written + listed.len()
}

fn prefixes(report: &mut Report, server: &ServerStats, after: &mut Option<Box<[u8]>>) -> usize {
    let listed = server.prefixes().counts_after(after.as_deref(), PART_ENTRIES);
    let written = listed.len();
    for (prefix, counts) in listed {
        report.prefix(&prefix, &counts);
        *after = Some(prefix);
    }
    written
}

/// What a table has and has counted, by its number. False if there is no such table.
fn table(report: &mut Report, server: &ServerStats, number: usize) -> bool {
    let tables = server.tables();
    let Some(TableStats { name, prefix, cache, memory_bytes, report: counted }) =
        tables.get(number)
    else {
        return false;
    };
    let memory_bytes = if number == 0 { server.memory_bytes() } else { *memory_bytes };
    if !prefix.is_empty() {
        let prefix = String::from_utf8_lossy(prefix);
        report.stat(format_args!("{name}:prefix"), prefix);
    }
    let stats = cache.stats();
    for (what, value) in [
        ("limit_maxbytes", memory_bytes),
        ("curr_items", stats.records),
        ("bytes", stats.record_bytes),
        ("evictions", stats.evictions),
        ("out_of_memory", stats.out_of_memory),
    ] {
        report.stat(format_args!("{name}:{what}"), value);
    }
    for (what, value) in counted.lines() {
        report.stat(format_args!("{name}:{what}"), value);
    }
    true
}
