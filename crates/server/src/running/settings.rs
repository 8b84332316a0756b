//! The configuration as statistics show it.

use crate::{
    config::{Budget, Config},
    listener::Listener,
    stats::Settings,
};

/// What the statistics say about the configuration.
pub(super) fn settings(
    config: &Config,
    listeners: &[Listener],
    budget: &Budget,
    threads: usize,
) -> Settings {
    // What is in memory is not all, and not for all commands.
    let is_more = config.has_log() || !config.tables.is_empty();
    // Of a table that spills, what a flush has made dead would come back after a restart; and of a
    // durable one it empties the disk. All tables are flushed, or none is.
    let keeps = |table: &Config| {
        table.has_log()
            && match table.spills() {
                true => table.spill_recover,
                false => !table.flush_durable,
            }
    };
    let is_kept = keeps(config) || config.tables.iter().any(|it| keeps(&config.of_table(it)));
    let first = listeners.iter().find_map(Listener::address);
    Settings {
        memory_bytes: config.memory.0,
        other_bytes: budget.other_bytes(config),
        record_bytes_min: Budget::record_bytes_least(config, threads),
        buffer_bytes: budget.buffer_bytes,
        connection_bytes: budget.connection_bytes,
        exposed: listeners.iter().any(Listener::is_exposed),
        connections_max: config.max_connections as u64,
        udp_port: 0,
        tcp_port: first.map_or(0, |address| address.port()),
        listen: first.map(|address| address.ip().to_string()),
        unix_path: config.unix.as_ref().map(|path| path.display().to_string()),
        listeners: listeners.iter().map(Listener::shown).collect(),
        unix_mode: config.unix_mode.0,
        restart_path: config.restart_file.as_ref().map(|path| path.display().to_string()),
        threads,
        backlog: config.backlog,
        policy: config.policy,
        value_size_max: config.value_size_max.0,
        protocol: config.protocol,
        users_path: config.users.as_ref().map(|path| path.display().to_string()),
        idle_timeout_s: config.idle_timeout.0.div_ceil(1000),
        shutdown_enabled: config.shutdown_command,
        dumps_allowed: config.dump_commands && !is_more,
        prefix_delimiter: config.prefix_delimiter.0,
        keeps_all: !config.evictions,
        connections_wait: config.connections_wait,
        turn_commands_max: Some(config.turn_commands_max),
        flush_refused: !config.flush_command || is_kept,
        tokens_off: !config.cas_tokens,
        watch_allowed: config.watch_command && !is_more,
    }
}
