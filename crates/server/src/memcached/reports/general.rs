//! `stats` without an argument.

use cache::Cache;

use super::{Report, SECOND_MS, stats_of_all};
use crate::{
    io::IoChoice,
    stats::{ServerStats, Totals},
};

/// What `version` answers: the memcached whose protocol is spoken, and who speaks it. Without a
/// blank, because clients split lines at blanks.
pub(in crate::memcached) const VERSION: &str = concat!("1.6.45-kelvin-", env!("CARGO_PKG_VERSION"));

/// Bytes of a block of the arena, which the reports call a page.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;

/// Microseconds of a millisecond.
const US_PER_MS: u64 = 1000;

/// Bytes of a slot of the index.
const INDEX_SLOT_BYTES: u64 = 8;

/// `stats`.
pub(in crate::memcached) fn general(server: &ServerStats, cache: &Cache) -> Vec<u8> {
    let mut report = Report::default();
    let totals = server.totals();
    process(&mut report, server);
    connections(&mut report, server);
    commands(&mut report, server, &totals);
    let tables = server.tables();
    let beside: u64 = tables.iter().skip(1).map(|table| table.memory_bytes).sum();
    report.stat("limit_maxbytes", server.memory_bytes() + beside);
    limits(&mut report, server, &totals);
    memory(&mut report, server, cache, &totals);
    if server.shows_own_names() {
        own(&mut report, server, cache);
    }
    table(&mut report, server);
    report.end()
}

/// What memcached has no names for.
fn own(report: &mut Report, server: &ServerStats, cache: &Cache) {
    let settings = server.settings();
    report.stat("memory_for_records", server.records().given_bytes());
    report.stat("memory_for_buffers", settings.buffer_bytes);
    report.stat("memory_for_connections", settings.connection_bytes);
    io(report, server);
    report.stat("open_to_network", u32::from(settings.exposed));
    let stats = stats_of_all(server, cache);
    report.stat("arena_bytes", stats.arena_bytes);
    report.stat("arena_used_bytes", stats.arena_used_bytes);
    report.stat("index_bytes", stats.index_bytes);
    report.stat("ghost_bytes", stats.ghost_bytes);
    report.stat("table_bytes", stats.table_bytes);
    report.stat("upload_bytes", stats.upload_bytes);
    report.stat("pinned_bytes", stats.pinned_bytes);
    report.stat("out_of_memory", stats.out_of_memory);
}

fn process(report: &mut Report, server: &ServerStats) {
    let (user_us, system_us) = cpu_time_us();
    report.stat("pid", std::process::id());
    report.stat("uptime", server.uptime_ms() / SECOND_MS);
    report.stat("time", server.clock().wall_ms() / SECOND_MS);
    report.stat("version", VERSION);
    report.stat("libevent", "none");
    report.stat("pointer_size", usize::BITS);
    for (name, us) in [("rusage_user", user_us), ("rusage_system", system_us)] {
        report.stat(name, format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000));
    }
}

fn connections(report: &mut Report, server: &ServerStats) {
    let (open, opened, refused) = server.connection_counts();
    report.stat("max_connections", server.settings().connections_max);
    report.stat("curr_connections", open);
    report.stat("total_connections", opened);
    report.stat("rejected_connections", refused);
    report.stat("connection_structures", open);
    report.zeros(&[
        "response_obj_oom",
        "response_obj_count",
        "response_obj_bytes",
        "read_buf_count",
    ]);
    let buffers = server.buffers();
    report.stat("read_buf_bytes", buffers.used_bytes);
    report.stat("read_buf_bytes_free", buffers.free_bytes);
    report.stat("read_buf_oom", buffers.refusals);
    report.zeros(&["reserved_fds"]);
}

fn commands(report: &mut Report, server: &ServerStats, totals: &Totals) {
    report.stat("cmd_get", totals.cmd_get);
    report.stat("cmd_set", totals.cmd_set);
    report.stat("cmd_flush", totals.cmd_flush);
    report.stat("cmd_touch", totals.cmd_touch);
    report.stat("cmd_meta", totals.cmd_meta);
    report.stat("get_hits", totals.get_hits);
    report.stat("get_misses", totals.get_misses);
    report.stat("get_expired", totals.get_expired);
    report.stat("get_flushed", totals.get_flushed);
    report.stat("delete_misses", totals.delete_misses);
    report.stat("delete_hits", totals.delete_hits);
    report.stat("incr_misses", totals.incr_misses);
    report.stat("incr_hits", totals.incr_hits);
    report.stat("decr_misses", totals.decr_misses);
    report.stat("decr_hits", totals.decr_hits);
    report.stat("cas_misses", totals.cas_misses);
    report.stat("cas_hits", totals.cas_hits);
    report.stat("cas_badval", totals.cas_badval);
    report.stat("touch_hits", totals.touch_hits);
    report.stat("touch_misses", totals.touch_misses);
    report.stat("store_too_large", totals.store_too_large);
    report.stat("store_no_memory", totals.store_no_memory);
    report.stat("auth_cmds", totals.auth_cmds);
    report.stat("auth_errors", totals.auth_errors);
    if server.settings().idle_timeout_s > 0 || server.shows_own_names() {
        report.stat("idle_kicks", totals.idle_kicks);
    }
    report.stat("bytes_read", totals.bytes_read);
    report.stat("bytes_written", totals.bytes_written);
}

fn limits(report: &mut Report, server: &ServerStats, totals: &Totals) {
    let (accepting, pauses) = server.accepting();
    report.stat("accepting_conns", u32::from(accepting));
    report.stat("listen_disabled_num", pauses);
    report.stat("time_in_listen_disabled_us", server.paused_ms() * US_PER_MS);
    report.stat("threads", server.settings().threads);
    report.stat("conn_yields", totals.conn_yields);
}

fn memory(report: &mut Report, server: &ServerStats, cache: &Cache, totals: &Totals) {
    let stats = stats_of_all(server, cache);
    report.stat("hash_power_level", (stats.index_bytes / INDEX_SLOT_BYTES).max(1).ilog2());
    report.stat("hash_bytes", stats.index_bytes);
    report.zeros(&[
        "hash_is_expanding",
        "slab_reassign_rescues",
        "slab_reassign_chunk_rescues",
        "slab_reassign_inline_reclaim",
        "slab_reassign_busy_items",
        "slab_reassign_busy_deletes",
        "slab_reassign_busy_nomem",
    ]);
    report.stat("slab_reassign_last_busy_status", "none");
    report.zeros(&["slab_reassign_running", "slabs_moved"]);
    if server.crawler_enabled() {
        let (runs, starts) = server.crawls();
        report.stat("lru_crawler_running", u32::from(runs));
        report.stat("lru_crawler_starts", starts);
    }
    if server.shows_maintainer() {
        report.zeros(&["lru_maintainer_juggles"]);
    }
    report.zeros(&["malloc_fails"]);
    let logs = server.watchers().counts();
    report.stat("log_worker_dropped", logs.lost);
    report.stat("log_worker_written", logs.lines);
    report.stat("log_watcher_skipped", logs.skipped);
    report.stat("log_watcher_sent", logs.sent);
    report.stat("log_watchers", logs.watchers);
    report.zeros(&["unexpected_napi_ids", "round_robin_fallback"]);
    report.stat("bytes", stats.record_bytes);
    report.stat("curr_items", stats.records);
    report.stat("total_items", totals.total_items);
    let kept_bytes = stats.arena_used_bytes + stats.arena_reserve_bytes;
    let free_bytes = stats.arena_touched_bytes.saturating_sub(kept_bytes);
    report.stat("slab_global_page_pool", free_bytes / BLOCK_BYTES);
    report.stat("expired_unfetched", stats.expired_unfetched);
    report.stat("evicted_unfetched", stats.evicted_unfetched);
    if server.shows_maintainer() {
        report.zeros(&["evicted_active"]);
    }
    report.stat("evictions", stats.evictions);
    report.stat("reclaimed", stats.reclaimed + stats.overwritten_dead);
    report.stat("crawler_reclaimed", stats.reclaimed);
    report.stat("crawler_items_checked", stats.swept);
    report.zeros(&["lrutail_reflocked"]);
    if server.shows_maintainer() {
        report.zeros(&[
            "moves_to_cold",
            "moves_to_warm",
            "moves_within_lru",
            "direct_reclaims",
            "lru_bumps_dropped",
        ]);
    }
}

/// How sockets are read and written. Without blanks, because clients split lines at blanks.
fn io(report: &mut Report, server: &ServerStats) {
    let choices = server.io();
    let joined = |of: fn(&IoChoice) -> &str| {
        let texts: Vec<String> = choices.iter().map(|one| of(one).replace(' ', "_")).collect();
        texts.join(";")
    };
    report.stat("io_driver", joined(|choice| choice.driver));
    report.stat("io_driver_reason", joined(|choice| &choice.reason));
}

/// Of the default table, if it is not all there is, or has a log.
fn table(report: &mut Report, server: &ServerStats) {
    // What the table tells is since the start.
    let (lines, totals) = (server.table(), server.sum());
    let of = |name| {
        let line = lines.iter().find(|(it, _)| *it == name);
        line.and_then(|(_, value)| value.parse().ok()).unwrap_or(0_u64)
    };
    let ratios = [
        ("table_reads_per_get", of("table_reads"), totals.cmd_get + totals.cmd_touch),
        ("log_written_per_record_byte", of("log_written_bytes"), of("log_record_bytes")),
        ("log_written_per_served_byte", of("log_written_bytes"), totals.bytes_written),
    ];
    for (name, value) in &lines {
        report.stat(name, value);
    }
    for (name, count, of) in ratios.into_iter().filter(|_| !lines.is_empty()) {
        report.stat(name, format_args!("{:.3}", count as f64 / of.max(1) as f64));
    }
}

/// Microseconds that the process has computed, for itself and in the kernel. Zeros where the
/// system does not tell.
fn cpu_time_us() -> (u64, u64) {
    /// Linux shows times to programs in hundredths of a second.
    const TICK_US: u64 = 10_000;
    /// Words between the end of the program's name and the two times.
    const WORDS_BEFORE: usize = 11;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut ticks = after_name.split_ascii_whitespace().skip(WORDS_BEFORE);
    let mut next = || ticks.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * TICK_US;
    (next(), next())
}
