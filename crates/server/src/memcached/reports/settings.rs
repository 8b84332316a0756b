//! `stats settings`.

use std::fmt::Display;

use super::Report;
use crate::{config::Protocol, memcached::TURN_COMMANDS_MAX, stats::ServerStats};

/// What no option changes; mostly what memcached tunes and this server has no part for.
const FIXED: [(&str, &str); 26] = [
    ("hash_algorithm", "universal"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "yes"),
    ("hot_lru_pct", "0"),
    ("warm_lru_pct", "0"),
    ("hot_max_factor", "0.00"),
    ("warm_max_factor", "0.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "0"),
    ("watcher_logbuf_size", "0"),
    ("worker_logbuf_size", "0"),
    ("read_buf_mem_limit", "0"),
    ("inline_ascii_response", "no"),
    ("ext_item_size", "0"),
    ("ext_item_age", "0"),
    ("ext_low_ttl", "0"),
    ("ext_recache_rate", "0"),
    ("ext_wbuf_size", "0"),
    ("ext_compact_under", "0"),
    ("ext_drop_under", "0"),
    ("ext_max_sleep", "0"),
    ("ext_max_frag", "0.00"),
    ("slab_automove_freeratio", "0.000"),
    ("ext_drop_unread", "no"),
    ("num_napi_ids", "0"),
    ("client_flags_size", "4"),
];

/// `stats settings`. Settings that memcached has and this server has not show what best describes
/// what it does.
pub(in crate::memcached) fn settings(server: &ServerStats) -> Vec<u8> {
    let settings = server.settings();
    let mut report = Report::default();
    let null = || "NULL".to_owned();
    let mut set = |name: &str, value: &dyn Display| report.stat(name, value);
    set("maxbytes", &server.memory_bytes());
    set("maxconns", &settings.connections_max);
    set("tcpport", &settings.tcp_port);
    set("udpport", &settings.udp_port);
    set("inter", &settings.listen.clone().unwrap_or_else(null));
    set("verbosity", &server.verbosity());
    set("oldest", &0);
    set("evictions", &if settings.keeps_all { "off" } else { "on" });
    set("policy", &settings.policy);
    set("domain_socket", &settings.unix_path.clone().unwrap_or_else(null));
    set("umask", &format_args!("{:o}", settings.unix_mode));
    set("shutdown_command", &yes(settings.shutdown_enabled));
    set("growth_factor", &"1.12");
    set("chunk_size", &0);
    set("num_threads", &settings.threads);
    set("num_threads_per_udp", &u32::from(settings.udp_port > 0));
    set("stat_key_prefix", &server.prefixes().delimiter());
    set("detail_enabled", &yes(server.prefixes().enabled()));
    set("reqs_per_event", &settings.turn_commands_max.unwrap_or(TURN_COMMANDS_MAX));
    set("cas_enabled", &yes(!settings.tokens_off));
    set("tcp_backlog", &settings.backlog);
    let (name, ascii, binary) = match settings.protocol {
        Protocol::Auto => ("auto-negotiate", true, true),
        Protocol::Ascii => ("ascii", true, false),
        Protocol::Binary => ("binary", false, true),
    };
    let users_path = settings.users_path.as_deref();
    set("binding_protocol", &name);
    set("auth_enabled_sasl", &yes(binary && users_path.is_some()));
    set("auth_enabled_ascii", &users_path.filter(|_| ascii).unwrap_or("no"));
    set("item_size_max", &settings.value_size_max);
    set("maxconns_fast", &yes(!settings.connections_wait));
    set("hashpower_init", &0);
    set("slab_reassign", &"yes");
    set("slab_automove", &1);
    set("slab_automove_ratio", &"0.80");
    set("slab_automove_window", &0);
    set("slab_chunk_max", &super::general::BLOCK_BYTES);
    set("lru_crawler", &yes(server.crawler_enabled()));
    set("lru_crawler_sleep", &0);
    set("lru_crawler_tocrawl", &0);
    set("tail_repair_time", &0);
    set("flush_enabled", &yes(!settings.flush_refused));
    set("dump_enabled", &yes(settings.dumps_allowed));
    set("idle_timeout", &settings.idle_timeout_s);
    set("memory_file", &settings.restart_path.clone().unwrap_or_else(null));
    set("track_sizes", &yes(server.tracks_sizes()));
    for (name, value) in FIXED {
        set(name, &value);
    }
    report.end()
}

fn yes(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
