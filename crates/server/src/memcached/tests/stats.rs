//! `stats`.

use std::collections::{BTreeMap, BTreeSet};

use cache::CacheConfig;

use super::{Server, ask};
use crate::stats::{Settings, TableReport, TableStats};

/// The names that memcached 1.6.45 sends, one a line; `idle_kicks` only with an idle timeout.
const MEMCACHED_NAMES: &str = include_str!("stats_names.txt");

fn table(server: &mut Server, command: &str) -> BTreeMap<String, String> {
    let reply = ask(server, &[command]);
    let lines = reply.strip_suffix("END\n").expect("an end");
    let stat = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.to_owned()))
    };
    lines.lines().map(|line| stat(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

#[test]
fn general_statistics_count_what_was_done() {
    let mut server = Server::new();
    ask(
        &mut server,
        &[
            "set a 0 0 1",
            "x",
            "get a b",
            "gat 5 a c",
            "delete a",
            "delete a",
            "incr n 1",
            "decr n 1",
        ],
    );
    server.advance(5_000);
    let general = table(&mut server, "stats");
    for (name, value) in [
        ("cmd_get", "2"),
        ("get_hits", "1"),
        ("get_misses", "1"),
        ("cmd_set", "1"),
        ("cmd_touch", "2"),
        ("touch_hits", "1"),
        ("touch_misses", "1"),
        ("delete_hits", "1"),
        ("delete_misses", "1"),
        ("incr_misses", "1"),
        ("decr_misses", "1"),
        ("curr_items", "0"),
        ("total_items", "1"),
        ("uptime", "5"),
        ("time", "1700000005"),
        ("curr_connections", "1"),
        ("total_connections", "2"),
        ("threads", "1"),
        ("pointer_size", "64"),
    ] {
        assert_eq!(general.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(general["version"], format!("1.6.45-kelvin-{}", env!("CARGO_PKG_VERSION")));
    assert_eq!((&general["bytes_read"][..], &general["bytes_written"][..]), ("76", "92"));
    assert!(general["rusage_user"].split_once('.').is_some_and(|(_, us)| us.len() == 6));
}

#[test]
fn a_reset_starts_from_zero_and_keeps_what_is_stored() {
    let mut server = Server::new();
    assert_eq!(
        ask(&mut server, &["set a 0 0 1", "x", "get a", "stats reset"]),
        "STORED\nVALUE a 0 1\nx\nEND\nRESET\n"
    );
    let general = table(&mut server, "stats");
    assert_eq!((&general["cmd_get"][..], &general["curr_items"][..]), ("0", "1"));
}

#[test]
fn every_name_that_memcached_sends_is_sent() {
    let mut server = Server::new();
    let names: Vec<String> = table(&mut server, "stats").into_keys().collect();
    for name in MEMCACHED_NAMES.lines() {
        assert!(names.iter().any(|sent| sent == name), "{name}");
    }
}

#[test]
fn settings_are_those_of_the_server() {
    let settings = Settings {
        memory_bytes: 1 << 26,
        connections_max: 77,
        tcp_port: 11211,
        listen: Some("127.0.0.1".into()),
        threads: 3,
        policy: cache::PolicyKind::Arc,
        value_size_max: 1 << 20,
        idle_timeout_s: 60,
        unix_mode: 0o700,
        ..Settings::default()
    };
    let mut server = Server::with(CacheConfig::new(32 << 20), settings);
    ask(&mut server, &["verbosity 9"]);
    let settings = table(&mut server, "stats settings");
    for (name, value) in [
        ("maxbytes", "67108864"),
        ("maxconns", "77"),
        ("tcpport", "11211"),
        ("inter", "127.0.0.1"),
        ("domain_socket", "NULL"),
        ("umask", "700"),
        ("num_threads", "3"),
        ("idle_timeout", "60"),
        ("policy", "arc"),
        ("item_size_max", "1048576"),
        ("verbosity", "2"),
        ("shutdown_command", "no"),
    ] {
        assert_eq!(settings.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn items_and_slabs_show_one_class() {
    let mut server = Server::new();
    assert_eq!(ask(&mut server, &["stats items"]), "END\n");
    ask(&mut server, &["set a 0 0 1", "x", "set b 0 0 1", "x", "get a"]);
    assert_eq!(table(&mut server, "stats items")["items:1:number"], "2");
    let slabs = table(&mut server, "stats slabs");
    assert_eq!((&slabs["1:get_hits"][..], &slabs["1:cmd_set"][..]), ("1", "2"));
    assert_eq!(slabs["active_slabs"], "1");
    assert_eq!(ask(&mut server, &["stats sizes"]), "STAT sizes_status disabled\nEND\n");
}

#[test]
fn sizes_are_counted_in_steps_if_that_was_asked_for() {
    let mut server = Server::new();
    server.stats.track_sizes();
    assert_eq!(ask(&mut server, &["stats sizes"]), "END\n");
    // 12 bytes, key and value; 6 for a time, 4 for client flags.
    ask(&mut server, &["set a 0 0 19", &"x".repeat(19), "set b 0 0 20", &"x".repeat(20)]);
    ask(&mut server, &["set c 1 9 9", &"x".repeat(9), "set d 1 9 10", &"x".repeat(10)]);
    ask(&mut server, &["set large 0 0 100000", &"x".repeat(100_000)]);
    let reply = ask(&mut server, &["stats sizes", "mn"]);
    assert_eq!(reply, "STAT 32 2\nSTAT 64 2\nSTAT 100032 1\nEND\nMN\n");
    assert_eq!(table(&mut server, "stats settings")["track_sizes"], "yes");
    // More lines than a part has.
    for step in 1..1000 {
        let value = "x".repeat(step * 32);
        ask(&mut server, &[&format!("set {step:04} 0 0 {}", value.len()), &value]);
    }
    let reply = ask(&mut server, &["stats sizes"]);
    let lines = reply.strip_suffix("END\n").expect("an end").lines();
    let told: Vec<(u64, u64)> = lines
        .map(|line| {
            let mut words = line.split(' ').skip(1).map(|word| word.parse::<u64>());
            let mut next = || words.next().expect("two numbers").expect("a number");
            (next(), next())
        })
        .collect();
    assert!(told.len() > 990 && told.is_sorted() && told.iter().all(|(bytes, _)| bytes % 32 == 0));
    let records = told.iter().map(|(_, count)| count).sum::<u64>().to_string();
    assert_eq!(records, table(&mut server, "stats")["curr_items"]);
}

#[test]
fn rounds_over_the_memory_are_the_crawler() {
    let mut server = Server::new();
    let shown = |server: &mut Server| {
        let all = table(server, "stats");
        ["running", "starts"].map(|name| all[&format!("lru_crawler_{name}")].clone())
    };
    assert_eq!(shown(&mut server), ["0", "0"]);
    server.stats.note_crawl(false);
    assert_eq!(shown(&mut server), ["0", "1"]);
    server.stats.note_crawl(true);
    server.stats.note_crawl(true);
    assert_eq!(shown(&mut server), ["1", "2"]);
    server.stats.note_crawl(false);
    assert_eq!(shown(&mut server), ["0", "2"]);
    ask(&mut server, &["set a 0 1 1", "x", "set b 0 99 1", "x", "set c 0 0 1", "x"]);
    server.advance(3_000);
    assert_eq!(table(&mut server, "stats items")["items:1:age"], "3");
    while server.context.worker().sweep(usize::MAX) {}
    let items = table(&mut server, "stats items");
    assert_eq!(items["items:1:crawler_items_checked"], "2");
    assert_eq!(items["items:1:crawler_reclaimed"], "1");
}

#[test]
fn sockets_for_datagrams_are_listed_as_such() {
    let mut server = Server::new();
    let socket = server.stats.open_datagrams(([127, 0, 0, 1], 11_211).into());
    server.advance(2_000);
    let conns = table(&mut server, "stats conns");
    let shown = ["UDP", "addr", "state", "secs_since_last_cmd"]
        .map(|name| conns[&format!("{}:{name}", socket.id())].clone());
    assert_eq!(shown, ["UDP", "udp:127.0.0.1:11211", "conn_read", "2"]);
    assert!(!conns.contains_key(&format!("{}:listen_addr", socket.id())));
}

#[test]
fn connections_are_listed_with_their_silence() {
    let mut server = Server::new();
    let quiet = server.client();
    server.advance(61_000);
    let conns = table(&mut server, "stats conns");
    assert_eq!(conns["1:secs_since_last_cmd"], "61");
    assert_eq!(conns["2:secs_since_last_cmd"], "0");
    assert_eq!(conns["1:addr"], "tcp:127.0.0.1:1");
    assert_eq!(conns["1:listen_addr"], "tcp:127.0.0.1:11211");
    drop(quiet);
    assert!(!table(&mut server, "stats conns").contains_key("1:addr"));
}

#[test]
fn prefixes_are_counted_when_asked_for() {
    let mut server = Server::new();
    let reply = ask(
        &mut server,
        &[
            "get u:1",
            "stats detail on",
            "set u:1 0 0 1",
            "x",
            "get u:1 u:2 plain",
            "gat 5 u:1",
            "delete u:1",
            "stats detail off",
            "get u:1",
            "stats detail dump",
            "stats detail what",
        ],
    );
    assert!(
        reply.ends_with(
            "PREFIX u get 3 hit 2 set 1 del 1\nEND\n\
         CLIENT_ERROR usage: stats detail on|off|dump\n"
        ),
        "{reply}"
    );
}

#[test]
fn a_store_counts_when_its_value_ends_wrong_and_for_its_prefix_when_it_is_too_large() {
    let config = CacheConfig { value_size_max: 1024, ..CacheConfig::new(32 << 20) };
    let mut server = Server::with(config, Settings::default());
    let big = "x".repeat(1025);
    ask(&mut server, &["stats detail on", "set u:1 0 0 1", "xyz", "ms u:2 1", "xyz"]);
    ask(&mut server, &["set u:3 0 0 1025", &big, "cas u:3 0 0 1025 7", &big]);
    ask(&mut server, &["ms u:4 1025", &big, "cas u:5 0 0 1 7", "x"]);
    let totals = server.stats.totals();
    assert_eq!((totals.cmd_set, totals.store_too_large, totals.total_items), (3, 3, 0));
    let reply = ask(&mut server, &["stats detail dump"]);
    assert_eq!(reply, "PREFIX u get 0 hit 0 set 4 del 0\nEND\n");
}

#[test]
fn an_unknown_report_is_an_error() {
    let mut server = Server::new();
    assert_eq!(ask(&mut server, &["stats nonsense"]), "ERROR\n");
}

#[test]
fn names_of_its_own_are_documented() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memcached.md");
    let document = std::fs::read_to_string(document).expect("it is in the repository");
    let (_, named) = document.split_once("names of its own: ").expect("a list");
    let (named, _) = named.split_once("\n\n").expect("its end");
    let named: BTreeSet<&str> = named.split('`').skip(1).step_by(2).collect();
    let sent = table(&mut Server::new(), "stats").into_keys();
    let own: BTreeSet<String> =
        sent.filter(|name| !MEMCACHED_NAMES.lines().any(|known| known == name)).collect();
    assert!(own.iter().all(|name| named.contains(name.as_str())), "{own:?}, {named:?}");
    assert!(own.contains("memory_for_records"), "{own:?}");
}

/// A durable table that has read and written something.
#[derive(Debug)]
struct Told;

impl TableReport for Told {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let numbers = [("table_reads", 3), ("log_written_bytes", 1000), ("log_record_bytes", 400)];
        numbers.map(|(name, number)| (name, number.to_string())).into()
    }
}

#[test]
fn a_durable_table_tells_what_it_reads_and_writes_for_what_is_asked() {
    let mut server = Server::new();
    ask(&mut server, &["get a b c d"]);
    let without = table(&mut server, "stats");
    assert!(!without.keys().any(|name| name.starts_with("table_reads")));
    server.stats.add_table(TableStats {
        name: "default".to_owned(),
        prefix: Vec::new(),
        cache: server.cache.clone(),
        memory_bytes: 0,
        report: std::sync::Arc::new(Told),
    });
    // What the table tells stays as it is, and so does what it is compared with.
    server.stats.reset();
    let general = table(&mut server, "stats");
    for (name, value) in [
        ("table_reads", "3"),
        ("table_reads_per_get", "0.750"),
        ("log_written_per_record_byte", "2.500"),
    ] {
        assert_eq!(general.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(general.contains_key("log_written_per_served_byte"));
}
