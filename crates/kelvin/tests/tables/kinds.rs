//! Tables of all kinds side by side: which has a key, in which order replies come, and what
//! commands do that are about no key.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    harness::{
        binary::{Ask, converse},
        log_directory::{Directory, stat},
        server::Io,
    },
    serving::{Section, ask, of_table, serve, stop},
};

/// Whatever was counted is shown before.
const SHOWN_MAX: Duration = Duration::from_secs(10);

const SECTIONS: [Section; 4] = [
    Section::new("disk", "d:", "durable"),
    Section::new("inner", "d:x:", "durable"),
    Section { more: "spill_size = \"16MiB\"", ..Section::new("ring", "r:", "spill") },
    Section::new("fast", "m:", "volatile"),
];

/// Bytes of each record that is to be cold: all of them fill most of a segment. Out of one that
/// they leave half empty they may be moved before they are asked for, and memory has them then.
const COLD_BYTES: usize = 14 << 10;

const ALL: [&str; 5] = ["plain", "d:1", "d:x:1", "r:1", "m:1"];

fn set(key: &str, value: &str) -> String {
    format!("set {key} 0 0 {}\n{value}\n", value.len())
}

fn record(key: &str, value: &str) -> String {
    format!("VALUE {key} 0 {}\n{value}\n", value.len())
}

/// What a key of a table with a log has where records are to be cold, and of another one.
fn long_or_key(key: &str) -> String {
    if key.starts_with('d') { key.repeat(COLD_BYTES / key.len()) } else { key.to_owned() }
}

#[test]
fn a_key_is_of_the_table_with_the_longest_prefix() {
    let directory = Directory::new();
    for io in Io::BOTH {
        let server = serve(&directory, io, "volatile", &SECTIONS, &[]);
        let conn = &mut server.connect();
        for key in ALL {
            assert_eq!(ask(conn, &set(key, key)), "STORED\n");
            assert_eq!(ask(conn, &format!("get {key}\n")), record(key, key) + "END\n");
        }
        for table in ["default", "disk", "inner", "ring", "fast"] {
            assert_eq!(of_table(conn, &format!("{table}:curr_items")), "1", "{table}");
        }
        for (name, value) in [
            ("inner:prefix", "d:x:"),
            ("disk:table_kind", "durable"),
            ("ring:table_kind", "spill"),
            ("fast:table_kind", "volatile"),
            ("inner:log_entries", "1"),
            ("fast:limit_maxbytes", "4194304"),
        ] {
            assert_eq!(of_table(conn, name), value, "{name}");
        }
        // What memcached's names stand for is that of all tables.
        assert_eq!((stat(conn, "curr_items"), stat(conn, "limit_maxbytes")), (5, 5 * (4 << 20)));
        assert_eq!(stat(conn, "cmd_get"), 5);
        let asks = ALL.map(|key| Ask::new(0x00, key));
        let (replies, _) = converse(&mut server.connect(), &asks);
        let values: Vec<&[u8]> = replies.iter().map(|reply| &*reply.value).collect();
        assert_eq!(values, ALL.map(str::as_bytes));
        // Each command on each kind.
        for key in ALL {
            for (request, reply) in [
                (format!("add {key} 0 0 1\n1\n"), "NOT_STORED\n".to_owned()),
                (format!("replace {key} 0 0 1\n5\n"), "STORED\n".to_owned()),
                (format!("append {key} 0 0 1\n0\n"), "STORED\n".to_owned()),
                (format!("prepend {key} 0 0 1\n1\n"), "STORED\n".to_owned()),
                (format!("incr {key} 7\n"), "157\n".to_owned()),
                (format!("decr {key} 58\n"), "99\n".to_owned()),
                (format!("touch {key} 100\n"), "TOUCHED\n".to_owned()),
                (format!("gat 0 {key}\n"), record(key, "99 ") + "END\n"),
                (format!("mg {key} t v\n"), "VA 3 t-1\n99 \n".to_owned()),
                (format!("ms {key} 2 T0\nab\n"), "HD\n".to_owned()),
                (
                    format!("ma {key}\n"),
                    "CLIENT_ERROR cannot increment or decrement non-numeric value\n".to_owned(),
                ),
                (format!("md {key}\n"), "HD\n".to_owned()),
                (format!("mg {key} v\n"), "EN\n".to_owned()),
                (format!("delete {key}\n"), "NOT_FOUND\n".to_owned()),
                (format!("touch {key} 1\n"), "NOT_FOUND\n".to_owned()),
            ] {
                assert_eq!(ask(conn, &request), reply, "{request}");
            }
        }
        stop(server);
    }
}

/// A cold record is read from the disk; what comes behind it waits, though another table has it at
/// hand.
#[test]
fn replies_come_in_the_order_of_requests_whichever_table_they_are_of() {
    for io in Io::BOTH {
        let directory = Directory::new();
        let server = serve(&directory, io, "volatile", &SECTIONS, &[]);
        let conn = &mut server.connect();
        for at in 0..50 {
            for key in ["d:", "d:x:"] {
                let key = format!("{key}{at}");
                assert_eq!(ask(conn, &set(&key, &long_or_key(&key))), "STORED\n");
            }
        }
        stop(server);
        let server = serve(&directory, io, "volatile", &SECTIONS, &[]);
        let conn = &mut server.connect();
        let mut sets = String::new();
        for at in 0..50 {
            for key in ["r:", "m:", "p"] {
                sets += &set(&format!("{key}{at}"), &format!("{key}{at}"));
            }
        }
        let stored = "STORED\r\n".repeat(150);
        conn.ask(sets.replace('\n', "\r\n").as_bytes(), stored.as_bytes());
        let mut requests = String::new();
        let mut expected = String::new();
        for at in 0..50 {
            let keys = ["m:", "d:", "r:", "d:x:", "p"].map(|key| format!("{key}{at}"));
            if at % 2 == 0 {
                requests += &format!("get {} m:none\n", keys.join(" "));
                keys.iter().for_each(|key| expected += &record(key, &long_or_key(key)));
                expected += "END\n";
            } else {
                for key in keys {
                    requests += &format!("get {key}\nmg {key} v k\n");
                    let value = long_or_key(&key);
                    expected += &(record(&key, &value) + "END\n");
                    expected += &format!("VA {} k{key}\n{value}\n", value.len());
                }
            }
        }
        let requests = requests.replace('\n', "\r\n");
        conn.ask(requests.as_bytes(), expected.replace('\n', "\r\n").as_bytes());
        // Threads show what they have counted once a second.
        let deadline = Instant::now() + SHOWN_MAX;
        while of_table(conn, "disk:table_hits_disk") == "0" {
            assert!(Instant::now() < deadline, "nothing was cold");
            thread::sleep(Duration::from_millis(50));
        }
        stop(server);
    }
}

#[test]
fn all_tables_are_flushed_or_none() {
    let directory = Directory::new();
    // Logs of short segments are there from the first server on.
    stop(serve(&directory, Io::Uring, "volatile", &SECTIONS, &[]));
    let more = "flush_durable = true";
    let allowed: Vec<Section> = { SECTIONS.iter() }
        .map(|section| match section.kind {
            "durable" => Section { more, ..*section },
            _ => *section,
        })
        .collect();
    let one_not = [allowed[0], SECTIONS[1], SECTIONS[2]];
    for (sections, is_flushed) in
        [(&SECTIONS[2..], true), (&SECTIONS, false), (&one_not, false), (&allowed, true)]
    {
        let server = serve(&directory, Io::Uring, "volatile", sections, &[]);
        let conn = &mut server.connect();
        for key in ALL {
            assert_eq!(ask(conn, &set(key, key)), "STORED\n");
        }
        let reply = if is_flushed { "OK\n" } else { "CLIENT_ERROR flush_all not allowed\n" };
        assert_eq!(ask(conn, "flush_all\n"), reply);
        let left: usize = { ALL.iter() }
            .map(|key| usize::from(ask(conn, &format!("get {key}\n")) != "END\n"))
            .sum();
        assert_eq!(left, if is_flushed { 0 } else { ALL.len() });
        stop(server);
    }
}

#[test]
fn what_is_about_one_table_of_several_is_refused() {
    let directory = Directory::new();
    let server = serve(&directory, Io::Uring, "volatile", &SECTIONS[2..], &[]);
    let conn = &mut server.connect();
    for (request, reply) in [
        ("lru_crawler metadump all\n", "ERROR metadump not allowed\n"),
        ("lru_crawler mgdump all\n", "ERROR key dump not allowed\n"),
        ("watch evictions\n", "CLIENT_ERROR watch commands not allowed\n"),
    ] {
        assert_eq!(ask(conn, request), reply);
    }
    // The memory is that of the default table.
    assert_eq!(ask(conn, "cache_memlimit 8\n"), "OK\n");
    assert_eq!(of_table(conn, "default:limit_maxbytes"), (8 << 20).to_string());
    assert_eq!(of_table(conn, "fast:limit_maxbytes"), (4 << 20).to_string());
    stop(server);
}
