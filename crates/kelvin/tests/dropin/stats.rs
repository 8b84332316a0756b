//! Statistics: the names that monitors look for, and the tools that show them.

use std::{collections::BTreeSet, process::Command};

use crate::servers::{Program, Server, on_both, on_recent};

/// Where Debian's package puts the tool.
const TOOL: &str = "/usr/share/memcached/scripts/memcached-tool";

/// The names in a report, those of classes and connections without their numbers.
fn names(server: &Server, report: &str) -> BTreeSet<String> {
    let request = format!("stats {report}").trim_end().to_owned() + "\r\n";
    let (reply, _) =
        server.connect().exchange(&[request.as_bytes()], |got| got.ends_with(b"END\r\n"));
    let text = String::from_utf8(reply).expect("reports are text");
    let name = |line: &str| line.strip_prefix("STAT ")?.split(' ').next().map(str::to_owned);
    let plain = |name: String| name.chars().filter(|c| !c.is_ascii_digit()).collect();
    text.lines().filter_map(name).map(plain).collect()
}

#[test]
fn the_general_report_has_memcacheds_names_and_no_others() {
    for options in [&[][..], &["-o", "no_lru_crawler,no_lru_maintainer"], &["-o", "idle_timeout=9"]]
    {
        on_recent(options, |server| names(server, ""));
    }
}

#[test]
fn no_name_of_the_installed_memcached_is_missing() {
    let installed = Server::start(&Program::installed(), &[]);
    let kelvin = Server::start(&Program::Kelvin, &[]);
    for server in [&installed, &kelvin] {
        server.ask(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    }
    // Gone since, in 1.6.45 as well.
    let gone = ["slab_reassign_evictions_nomem", "hash_is_expanding", "slab_reassign_rescues"];
    for report in ["", "items", "slabs", "conns"] {
        let (wanted, has) = (names(&installed, report), names(&kelvin, report));
        let missing: Vec<_> =
            wanted.difference(&has).filter(|name| !gone.contains(&name.as_str())).collect();
        assert_eq!(missing, Vec::<&String>::new(), "stats {report}");
    }
}

#[test]
fn misses_of_what_has_died_are_counted() {
    on_both(&["-o", "no_lru_crawler,no_lru_maintainer"], |server| {
        let mut conn = server.connect();
        conn.ask(b"set a 0 2678400 1\r\nx\r\nget a\r\n", b"STORED\r\nEND\r\n");
        conn.ask(b"get none\r\n", b"END\r\n");
        let misses = ["get_misses", "get_expired", "get_flushed"];
        let counts = misses.map(|name| server.stat("", name).unwrap_or_default());
        assert_eq!(counts, ["2", "1", "0"]);
    });
}

/// What a display of memcached-tool says, without numbers.
fn display(server: &Server, mode: &str) -> (bool, String) {
    let mut command = Command::new("perl");
    command.arg(TOOL).arg(server.tcp().to_string()).arg(mode);
    let output = command.output().expect("perl runs: `cargo xtask setup` installs memcached");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

#[test]
fn memcached_tool_shows_the_same() {
    on_both(&[], |server| {
        let mut conn = server.connect();
        conn.ask(
            b"set foo 7 0 3\r\nabc\r\nget foo\r\n",
            b"STORED\r\nVALUE foo 7 3\r\nabc\r\nEND\r\n",
        );
        // The dump is a list of commands that add the records again.
        let (succeeded, dump) = display(server, "dump");
        assert!(succeeded && dump.contains("add foo 7 0 3"), "{dump}");
        let (succeeded, classes) = display(server, "display");
        let rows: Vec<&str> = classes.lines().collect();
        assert!(succeeded && rows.len() == 2, "{classes}");
        let header: Vec<&str> = rows[0].split_ascii_whitespace().collect();
        let row: Vec<&str> = rows[1].split_ascii_whitespace().collect();
        let count = header.iter().position(|name| *name == "Count").expect("a column");
        let (succeeded, stats) = display(server, "stats");
        assert!(succeeded && stats.lines().any(|line| line.contains("get_hits")), "{stats}");
        let (succeeded, settings) = display(server, "settings");
        assert!(succeeded && settings.contains("item_size_max"), "{settings}");
        (rows[0].to_owned(), row[count].to_owned())
    });
}

#[test]
fn what_had_died_when_it_is_stored_again_is_reclaimed() {
    on_both(&["-o", "no_modern", "-s", "{dir}/socket"], |server| {
        let mut conn = server.connect();
        conn.ask(b"set key 0 0 1\r\n1\r\n", b"STORED\r\n");
        let before = server.stat("", "reclaimed");
        // memcached tells a record from a flush by whole seconds.
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        conn.ask(b"flush_all\r\nset key 0 0 1\r\n1\r\n", b"OK\r\nSTORED\r\n");
        (before, server.stat("", "reclaimed"))
    });
}

#[test]
fn an_empty_server_has_no_class_and_no_page_to_spare() {
    on_both(&["-s", "{dir}/socket"], |server| {
        let mut conn = server.connect();
        conn.ask(b"slabs reassign 1 1\r\n", b"SAME src and dst class are identical\r\n");
        for classes in ["1 64", "1 40", "-1 1", "-2 1"] {
            let order = format!("slabs reassign {classes}\r\n");
            conn.ask(order.as_bytes(), b"BADCLASS invalid src or dst class id\r\n");
        }
        for classes in ["1 2", "31 39", "0 1"] {
            let order = format!("slabs reassign {classes}\r\n");
            conn.ask(order.as_bytes(), b"NOSPARE source class has no spare pages\r\n");
        }
        let pool = server.stat("", "slab_global_page_pool");
        assert_eq!(pool.as_deref(), Some("0"));
        server.stat("slabs", "active_slabs")
    });
}
