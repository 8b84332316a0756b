//! What Prometheus' `memcached_exporter` makes of the statistics.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::servers::{Directory, PATIENCE, Program, Server, eventually, is_durable};
use crate::harness::{
    binary::{Ask, converse},
    own_name,
};

/// Where `go.mod` says which exporter.
const MODULE: &str = "tests/clients/exporter";

/// The program in it.
const PROGRAM: &str = "github.com/prometheus/memcached_exporter/cmd/memcached_exporter";

/// Metrics whose values are a program's own: of the moment, of how memory is laid out, of parts
/// that kelvin has not; and memcached counts its listener among the connections that it ever had,
/// and the command that asks among what it has read. All others are to be equal.
const OWN: [&str; 34] = [
    "chunk_size_bytes",
    "chunks_free",
    "chunks_per_page",
    "cold_items",
    "connections_total",
    "current_bytes",
    "current_chunks",
    "current_connections",
    "current_pages",
    "hot_items",
    "items_age_seconds",
    "items_checked_total",
    "lru_crawler_hot_max_factor",
    "lru_crawler_hot_percent",
    "lru_crawler_maintainer_thread",
    "lru_crawler_sleep",
    "lru_crawler_starts_total",
    "lru_crawler_to_crawl",
    "lru_crawler_warm_max_factor",
    "lru_crawler_warm_percent",
    "malloced_bytes",
    "mem_requested_bytes",
    "moves_to_cold",
    "moves_to_cold_total",
    "moves_to_warm",
    "moves_to_warm_total",
    "moves_within_lru",
    "moves_within_lru_total",
    "process_system_cpu_seconds_total",
    "process_user_cpu_seconds_total",
    "read_bytes_total",
    "slab_lru_hits_total",
    "time_seconds",
    "warm_items",
];

/// An exporter of the test's own; it ends when dropped.
struct Exporter {
    child: Child,
    address: String,
    dir: Directory,
}

impl Exporter {
    fn start() -> Self {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memcached_exporter");
        // Others build and run it at the same time: it is there as a whole, or not at all.
        let built_as = program.with_file_name(own_name("memcached_exporter"));
        let mut build = Command::new("go");
        build.args(["build", "-buildvcs=false", "-mod=readonly", "-o"]).arg(&built_as).arg(PROGRAM);
        build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(MODULE));
        let built = build.env("GOTOOLCHAIN", "auto").stdin(Stdio::null()).status();
        assert!(
            built.as_ref().is_ok_and(std::process::ExitStatus::success),
            "Go 1.21 or later is needed to build the exporter ({built:?})"
        );
        fs::rename(built_as, &program).expect("it is the test's own");
        let dir = Directory::new();
        let log = File::create(dir.path("log")).expect("the directory can be written");
        let mut command = Command::new(program);
        command.args(["--web.listen-address=127.0.0.1:0", "--memcached.address="]);
        command.arg(format!("--memcached.timeout={}s", PATIENCE.as_secs()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.expect("the exporter runs");
        let mut exporter = Self { child, address: String::new(), dir };
        eventually("the exporter listens", || exporter.find_address());
        exporter
    }

    /// Whether its log has told where it listens.
    fn find_address(&mut self) -> bool {
        let log = std::fs::read_to_string(self.dir.path("log")).unwrap_or_default();
        let line = log.lines().find(|line| line.contains("Listening on"));
        let word = line.and_then(|line| line.split(' ').find_map(|w| w.strip_prefix("address=")));
        self.address = word.unwrap_or_default().to_owned();
        !self.address.is_empty()
    }

    /// The metrics of a server with their values, the numbers of slab classes and the version
    /// masked.
    fn scrape(&self, server: &Server) -> BTreeMap<String, String> {
        let mut http = TcpStream::connect(&self.address).expect("the exporter listens");
        let path = format!("/scrape?target={}", server.tcp());
        write!(http, "GET {path} HTTP/1.0\r\n\r\n").expect("the exporter reads");
        let mut text = String::new();
        http.read_to_string(&mut text).expect("the exporter answers");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
        assert!(head.starts_with("HTTP/1.0 200"), "{text}");
        let lines = body.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').expect("a metric has a value");
                (masked(name), value.to_owned())
            })
            .collect()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A metric's name with its labels, without the number of the class and without the version.
fn masked(name: &str) -> String {
    let mut masked = name.to_owned();
    for label in ["slab=\"", "version=\""] {
        let Some(start) = masked.find(label).map(|at| at + label.len()) else { continue };
        let end = masked[start..].find('"').map_or(masked.len(), |len| start + len);
        masked.replace_range(start..end, "");
    }
    masked
}

/// A bit of everything that is counted, all in one class of memcached.
fn use_it(server: &Server) {
    let mut conn = server.connect();
    for (request, reply) in [
        ("set a 0 0 2\r\n10\r\nset b 5 100 2\r\nxy\r\n", "STORED\r\nSTORED\r\n"),
        ("get a none b\r\n", "VALUE a 0 2\r\n10\r\nVALUE b 5 2\r\nxy\r\nEND\r\n"),
        ("incr a 5\r\nincr none 1\r\n", "15\r\nNOT_FOUND\r\n"),
        ("decr a 1\r\ndecr none 1\r\n", "14\r\nNOT_FOUND\r\n"),
        ("touch a 50\r\ntouch none 50\r\n", "TOUCHED\r\nNOT_FOUND\r\n"),
        ("cas none 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("cas a 0 0 1 999\r\nx\r\n", "EXISTS\r\n"),
        ("ms c 2\r\nhi\r\nmd c\r\nmg b v\r\n", "HD\r\nHD\r\nVA 2\r\nxy\r\n"),
        ("gat 50 a none\r\n", "VALUE a 0 2\r\n14\r\nEND\r\n"),
        ("delete b\r\ndelete none\r\n", "DELETED\r\nNOT_FOUND\r\n"),
        ("flush_all 1000\r\n", "OK\r\n"),
    ] {
        if request.starts_with("flush") && is_durable("`flush_all`") {
            continue;
        }
        conn.ask(request.as_bytes(), reply.as_bytes());
    }
    let large = [b"set large 0 0 1100000\r\n", &[b'x'; 1_100_000][..], b"\r\n"].concat();
    conn.ask(&large, b"SERVER_ERROR object too large for cache\r\n");
    let mut binary = server.connect();
    let (answers, _) = converse(&mut binary, &[Ask::new(0x00, "a")]);
    assert_eq!(answers[0].value, b"14");
    // A reply is counted after it was sent, and before its connection is closed.
    for mut conn in [conn, binary] {
        conn.shut_write_if_open();
        assert_eq!(conn.read_to_close(), b"");
    }
}

fn is_own(metric: &str) -> bool {
    let name = metric.split('{').next().unwrap_or_default();
    OWN.iter().any(|own| name.ends_with(own))
}

#[test]
fn the_exporter_shows_the_same_metrics_of_both() {
    let exporter = Exporter::start();
    let peers = [Some(Program::installed()), Program::recent()].into_iter().flatten();
    let kelvin = metrics(&exporter, &Program::Kelvin);
    assert_eq!(kelvin.get("memcached_up").map(String::as_str), Some("1"));
    for peer in peers {
        let wanted = metrics(&exporter, &peer);
        let names: [Vec<&String>; 2] = [wanted.keys().collect(), kelvin.keys().collect()];
        assert_eq!(names[0], names[1], "{peer:?}, and kelvin");
        let differs = |(name, value): &(&String, &String)| {
            !is_own(name) && kelvin.get(*name).as_ref() != Some(value)
        };
        let different: Vec<_> = wanted
            .iter()
            .filter(differs)
            .map(|(name, value)| (name, value, &kelvin[name]))
            .collect();
        assert!(different.is_empty(), "{peer:?}, and kelvin: {different:?}");
    }
}

/// While memcached's crawler walks a list it stands there as a record that was last used at 0 on
/// its clock, which is at 62 s when a server starts. Then another server is asked.
const CRAWLER_AGE_S: u64 = 60;
const SERVERS_MAX: usize = 5;

fn metrics(exporter: &Exporter, program: &Program) -> BTreeMap<String, String> {
    let scrape = || {
        let server = Server::start(program, &["-m", "64", "-c", "100"]);
        use_it(&server);
        exporter.scrape(&server)
    };
    let is_crawled = |metrics: &BTreeMap<String, String>| {
        let mut ages = metrics.iter().filter(|(name, _)| name.contains("_age_seconds"));
        ages.any(|(_, value)| value.parse().is_ok_and(|age: u64| age >= CRAWLER_AGE_S))
    };
    let mut scraped = scrape();
    for _ in 1..SERVERS_MAX {
        if *program == Program::Kelvin || !is_crawled(&scraped) {
            break;
        }
        scraped = scrape();
    }
    scraped
}
