//! Statistics: the names that monitors look for, and the tools that show them.

use std::{collections::BTreeSet, process::Command};

use super::servers::{Program, Server, eventually, has_disk, is_durable, on_both, on_recent};

/// Where Debian's package puts the tool.
const TOOL: &str = "/usr/share/memcached/scripts/memcached-tool";

/// What 1.6.18 tells and 1.6.45 does not.
const GONE: [&str; 3] =
    ["slab_reassign_evictions_nomem", "hash_is_expanding", "slab_reassign_rescues"];

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
    if has_disk("has names beginning with `table_` and `log_`") {
        return;
    }
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
    for report in ["", "items", "slabs", "conns"] {
        let (wanted, has) = (names(&installed, report), names(&kelvin, report));
        let missing: Vec<_> =
            wanted.difference(&has).filter(|name| !GONE.contains(&name.as_str())).collect();
        assert_eq!(missing, Vec::<&String>::new(), "stats {report}");
    }
}

#[test]
fn misses_of_what_has_died_are_counted() {
    if has_disk("`get_expired`") {
        return;
    }
    on_both(&["-o", "no_lru_crawler,no_lru_maintainer"], |server| {
        let mut conn = server.connect();
        conn.ask(b"set a 0 2678400 1\r\nx\r\nget a\r\n", b"STORED\r\nEND\r\n");
        conn.ask(b"get none\r\n", b"END\r\n");
        let misses = ["get_misses", "get_expired", "get_flushed"];
        let counts = misses.map(|name| server.stat("", name).unwrap_or_default());
        assert_eq!(counts, ["2", "1", "0"]);
    });
}

/// What a display of memcached-tool says.
fn display(server: &Server, words: &[&str]) -> (bool, String) {
    let mut command = Command::new("perl");
    command.arg(TOOL).arg(server.tcp().to_string()).args(words);
    let output = command.output().expect("perl runs: `cargo xtask setup` installs memcached");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

/// The first word of each line behind the head.
fn fields(text: &str) -> BTreeSet<String> {
    let firsts = text.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    firsts.map(str::to_owned).collect()
}

/// Stores two records of one size, which are then in one class of memcached, and reads one.
fn store_two(server: &Server) {
    let mut conn = server.connect();
    conn.ask(b"set foo 7 0 3\r\nabc\r\nset bar 0 4000 3\r\ndef\r\n", b"STORED\r\nSTORED\r\n");
    conn.ask(b"get foo\r\n", b"VALUE foo 7 3\r\nabc\r\nEND\r\n");
}

/// The lines of a display of records, sorted, without what depends on the moment, on how records
/// are laid out, or on the version.
fn records(server: &Server, words: &[&str]) -> Vec<String> {
    let (succeeded, text) = display(server, words);
    assert!(succeeded, "{words:?}: {text}");
    let steady = |line: &str| match line.split_once(' ') {
        Some(("add", rest)) if rest.starts_with("bar ") => "add bar with a time".to_owned(),
        Some((key, _)) if key.starts_with("key=") => key.to_owned(),
        _ => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().map(steady).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn memcached_tool_shows_the_records() {
    if has_disk("`lru_crawler metadump`") {
        return;
    }
    on_both(&[], |server| {
        store_two(server);
        // A memcached leaves out what a thread has not let go of, though its reply has been sent.
        eventually("both keys are listed", || records(server, &["keys"]) == ["key=bar", "key=foo"]);
        // A dump is a list of commands that add the records again.
        let dump = records(server, &["dump"]);
        assert_eq!(dump, ["abc", "add bar with a time", "add foo 7 0 3", "def"]);
    });
    // The tool takes the line that 1.6.45 begins with for a key, so a limit of 2 is one of 1.
    on_recent(&[], |server| {
        store_two(server);
        ["dump", "keys"].map(|mode| records(server, &[mode, "2"]).len())
    });
}

#[test]
fn memcached_tool_shows_the_same_fields() {
    /// The only name of kelvin's own in `stats settings`.
    const OWN: &str = "policy";
    let show = |server: &mut Server| {
        store_two(server);
        let fields_of = |mode: &str| {
            let (succeeded, text) = display(server, &[mode]);
            assert!(succeeded, "{mode}: {text}");
            fields(&text).into_iter().filter(|name| name != OWN).collect::<BTreeSet<_>>()
        };
        ["stats", "settings", "sizes"].map(fields_of)
    };
    on_recent(&[], show);
    let [of_peer, of_kelvin] = [Program::installed(), Program::Kelvin]
        .map(|program| show(&mut Server::start(&program, &[])));
    for (mode, (wanted, has)) in of_peer.iter().zip(&of_kelvin).enumerate() {
        // Debian's is built with TLS.
        let is_gone = |name: &&String| GONE.contains(&name.as_str()) || name.starts_with("ssl_");
        let missing: Vec<_> = wanted.difference(has).filter(|name| !is_gone(name)).collect();
        assert_eq!(missing, Vec::<&String>::new(), "display {mode}");
    }
}

#[test]
fn memcached_tool_shows_one_row_for_one_class() {
    on_both(&[], |server| {
        store_two(server);
        let mut shown = Vec::new();
        for words in [&[][..], &["display"]] {
            let (succeeded, text) = display(server, words);
            let rows: Vec<Vec<&str>> =
                text.lines().map(|row| row.split_ascii_whitespace().collect()).collect();
            assert!(succeeded && rows.len() == 2 && rows[1].len() == rows[0].len(), "{text}");
            let value = |column: &str| {
                let place = rows[0].iter().position(|name| *name == column).expect("a column");
                rows[1][place].to_owned()
            };
            let values = ["#", "Count", "Full?", "Evicted", "Evict_Time", "OOM"].map(value);
            shown.push((rows[0].join(" "), values));
        }
        shown
    });
}

#[test]
fn memcached_tool_shows_sizes_if_they_are_tracked() {
    if has_disk("`stats sizes`") {
        return;
    }
    on_both(&["-o", "track_sizes"], |server| {
        store_two(server);
        let (succeeded, text) = display(server, &["sizes"]);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|row| row.split_ascii_whitespace().collect()).collect();
        assert!(succeeded && rows.len() == 2, "{text}");
        // The other column is how many bytes a record takes, in steps of 32.
        rows[1][1].to_owned()
    });
}

#[test]
fn what_had_died_when_it_is_stored_again_is_reclaimed() {
    if is_durable("`flush_all`") {
        return;
    }
    on_both(&["-o", "no_modern", "-m", "8", "-s", "{dir}/socket"], |server| {
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
