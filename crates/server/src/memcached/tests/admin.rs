//! Commands that are not about a key.

use std::sync::atomic::Ordering;

use cache::CacheConfig;
use reactor::Next;

use super::{Server, ask, fresh};
use crate::{durable::give_what_is_left, stats::Settings};

#[test]
fn flush_all_ends_all_records_now_or_later() {
    let mut server = Server::new();
    let reply =
        ask(&mut server, &["set a 0 0 1", "x", "flush_all", "get a", "set a 0 0 1", "y", "get a"]);
    assert_eq!(reply, "STORED\nOK\nEND\nSTORED\nVALUE a 0 1\ny\nEND\n");
    assert_eq!(ask(&mut server, &["flush_all 5", "get a"]), "OK\nVALUE a 0 1\ny\nEND\n");
    server.advance(4_999);
    assert_eq!(ask(&mut server, &["get a"]), "VALUE a 0 1\ny\nEND\n");
    server.advance(1);
    assert_eq!(ask(&mut server, &["get a"]), "END\n");
    assert_eq!(server.stats.totals().cmd_flush, 2);
}

#[test]
fn a_flush_now_replaces_one_that_waits() {
    let mut server = Server::new();
    ask(&mut server, &["flush_all 5", "flush_all -1", "set a 0 0 1", "x"]);
    server.advance(6_000);
    assert_eq!(ask(&mut server, &["get a"]), "VALUE a 0 1\nx\nEND\n");
}

#[test]
fn what_cannot_be_tuned_is_accepted_or_refused_in_memcacheds_words() {
    let reply = fresh(&[
        "verbosity 1",
        "lru_crawler sleep 10",
        "lru_crawler crawl all",
        "lru_crawler crawl 1,2",
        "lru_crawler crawl 64",
        "lru_crawler crawl x",
        "lru_crawler metadump all",
        "lru_crawler mgdump all",
        "lru mode flat",
        "slabs automove 1",
        "slabs reassign 1 2",
        "slabs reassign 1 40",
        "slabs reassign -1 2",
        "watch",
        "extstore max_sleep 5",
        "shutdown",
        "stats cachedump 1 10",
        "misbehave",
        "refresh_certs",
    ]);
    assert_eq!(
        reply,
        "OK\nOK\nOK\nOK\nBADCLASS invalid class id\nBADCLASS invalid class id\n\
         ERROR metadump not allowed\nERROR key dump not allowed\nOK\nOK\n\
         NOSPARE source class has no spare pages\n\
         BADCLASS invalid src or dst class id\nBADCLASS invalid src or dst class id\n\
         CLIENT_ERROR watch commands not allowed\nOK\nSERVER_ERROR: shutdown not enabled\n\
         CLIENT_ERROR stats cachedump not allowed\nERROR\nERROR\n"
    );
}

#[test]
fn a_page_is_moved_from_the_class_that_has_pages_and_that_changes_nothing() {
    let mut server = Server::new();
    assert!(ask(&mut server, &["stats slabs"]).starts_with("STAT active_slabs 0\n"));
    ask(&mut server, &["set a 0 0 1", "x"]);
    let slabs = ask(&mut server, &["stats slabs"]);
    let orders = ["1 2", "-1 2", "-1 1", "2 1", "0 1", "1 39"];
    let orders: Vec<String> = orders.iter().map(|of| format!("slabs reassign {of}")).collect();
    let orders: Vec<&str> = orders.iter().map(String::as_str).collect();
    assert_eq!(
        ask(&mut server, &orders),
        "OK\nOK\nBADCLASS invalid src or dst class id\n\
         NOSPARE source class has no spare pages\nNOSPARE source class has no spare pages\nOK\n"
    );
    assert_eq!(ask(&mut server, &["stats slabs"]), slabs);
}

#[test]
fn the_memory_can_be_changed_as_far_as_it_was_reserved() {
    let settings = Settings {
        memory_bytes: 40 << 20,
        other_bytes: 8 << 20,
        record_bytes_min: 16 << 20,
        ..Settings::default()
    };
    let config = CacheConfig { memory_max_bytes: 120 << 20, ..CacheConfig::new(32 << 20) };
    let mut server = Server::with(config, settings);
    let failed = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\n";
    for (mebibytes, reply, limit) in [
        (128, "OK\n", 128),
        (129, failed, 128),
        (24, "OK\n", 24),
        // 15 MiB would be left for records.
        (23, failed, 24),
        (48, "OK\n", 48),
    ] {
        assert_eq!(ask(&mut server, &[&format!("cache_memlimit {mebibytes}")]), reply);
        while server.context.worker().fit() {}
        let stats = ask(&mut server, &["stats"]);
        let bytes: u64 = limit << 20;
        assert!(stats.contains(&format!("STAT limit_maxbytes {bytes}\n")), "{mebibytes}: {stats}");
        let records = bytes - (8 << 20);
        assert!(stats.contains(&format!("STAT memory_for_records {records}\n")), "{stats}");
    }
    let arena_bytes = server.cache.stats().arena_bytes;
    assert!((38 << 20..40 << 20).contains(&arena_bytes), "{arena_bytes}");
}

#[test]
fn a_limit_leaves_the_index_of_a_log_what_it_has() {
    let settings = Settings {
        memory_bytes: 128 << 20,
        other_bytes: 8 << 20,
        record_bytes_min: 16 << 20,
        ..Settings::default()
    };
    let config = CacheConfig { memory_max_bytes: 120 << 20, ..CacheConfig::new(120 << 20) };
    let mut server = Server::with(config, settings);
    let failed = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\n";
    // The first 8 MiB of the index were planned for.
    for (index, limit, reply, records) in [
        (58, 128, "OK\n", 70),
        (58, 80, "OK\n", 22),
        // 12 MiB would be left for records.
        (58, 70, failed, 22),
        (8, 80, "OK\n", 72),
    ] {
        give_what_is_left(&server.stats, &server.cache, index << 20);
        assert_eq!(ask(&mut server, &[&format!("cache_memlimit {limit}")]), reply);
        while server.context.worker().fit() {}
        let stats = ask(&mut server, &["stats"]);
        let bytes: u64 = records << 20;
        assert!(stats.contains(&format!("STAT memory_for_records {bytes}\n")), "{stats}");
        let arena_bytes = server.cache.stats().arena_bytes;
        assert!(arena_bytes <= bytes, "limit {limit}: {arena_bytes}");
    }
    assert!(!give_what_is_left(&server.stats, &server.cache, 80 << 20), "8 MiB do not suffice");
    assert_eq!(server.stats.records().given_bytes(), 16 << 20);
}

#[test]
fn quit_answers_what_came_before_and_nothing_after() {
    let mut server = Server::new();
    let mut client = server.client();
    let (reply, next) = server.send_until(&mut client, b"mn\r\nquit\r\nmn\r\n");
    assert_eq!((&reply[..], next), (&b"MN\r\n"[..], Next::Finish));
    assert_eq!(server.send_until(&mut client, b"mn\r\n"), (vec![], Next::Finish));
}

#[test]
fn shutdown_is_obeyed_only_where_it_is_enabled() {
    let settings = Settings { shutdown_enabled: true, ..Settings::default() };
    let mut server = Server::with(CacheConfig::new(32 << 20), settings);
    assert_eq!(
        ask(&mut server, &["shutdown now", "mn"]),
        "CLIENT_ERROR invalid shutdown mode\nMN\n"
    );
    assert_eq!(server.shutdowns.0.load(Ordering::Relaxed), 0);
    assert_eq!(ask(&mut server, &["shutdown graceful", "mn"]), "");
    assert_eq!(server.shutdowns.0.load(Ordering::Relaxed), 1000);
    assert_eq!(ask(&mut server, &["mn", "shutdown"]), "MN\n");
    assert_eq!(server.shutdowns.0.load(Ordering::Relaxed), 1001);
}

#[test]
fn a_web_browser_is_hung_up_on() {
    let mut server = Server::new();
    let mut client = server.client();
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(server.send_until(&mut client, request), (vec![], Next::Finish));
}

#[test]
fn version_names_the_protocol_and_the_server_in_one_word() {
    let reply = fresh(&["version"]);
    assert_eq!(reply, format!("VERSION 1.6.45-kelvin-{}\n", env!("CARGO_PKG_VERSION")));
}
