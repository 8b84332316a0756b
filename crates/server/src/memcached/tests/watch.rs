//! Connections that have become logs.

use cache::CacheConfig;
use reactor::{Connection, Next};

use super::Server;
use crate::{
    memcached::{LargeValue, Session, serve_all},
    stats::Settings,
    watch::{LOG_BYTES_MAX, WATCHERS_MAX},
};

type Client = Box<Connection<Session, LargeValue>>;

fn server() -> Server {
    let settings = Settings { watch_allowed: true, ..Settings::default() };
    Server::with(CacheConfig::new(32 << 20), settings)
}

/// Serves one client until it has nothing more to offer; returns what it hears.
fn hear(server: &mut Server, client: &mut Client, mut bytes: &[u8]) -> String {
    let mut heard = Vec::new();
    loop {
        bytes = &bytes[client.input.feed(bytes, &server.pool)..];
        let now_ms = server.context.worker().cache().clock().now_ms();
        serve_all(&mut server.context, std::slice::from_mut(client), now_ms);
        let mut chain = client.output.launch();
        heard.extend(chain.take_bytes());
        client.output.landed(chain);
        if bytes.is_empty() && !matches!(client.next, Next::Yield | Next::Blocked) {
            return String::from_utf8(heard).expect("text");
        }
    }
}

fn say(server: &mut Server, lines: &[&str]) -> String {
    let mut client = Box::new(server.client().connection);
    let request: String = lines.iter().flat_map(|line| [line, "\r\n"]).collect();
    hear(server, &mut client, request.as_bytes())
}

fn watcher(server: &mut Server, logs: &str) -> Client {
    let mut client = Box::new(server.client().connection);
    assert_eq!(hear(server, &mut client, format!("watch {logs}\r\n").as_bytes()), "OK\r\n");
    assert_eq!(client.next, Next::Read);
    client
}

/// The lines that a watcher hears, without time and number.
fn heard(server: &mut Server, watcher: &mut Client) -> Vec<String> {
    let text = hear(server, watcher, b"");
    let what = |line: &str| {
        let (stamp, what) = line.split_once(" type=").expect("a type");
        assert!(stamp.starts_with("ts=1700000000.000000 gid="), "{line}");
        what.to_owned()
    };
    text.lines().map(what).collect()
}

#[test]
fn stores_are_told_with_the_looks_before_them() {
    let mut server = server();
    let mut watcher = watcher(&mut server, "mutations fetchers");
    say(&mut server, &["set a%b 0 100 3", "abc", "add a%b 0 0 1", "x", "append a%b 0 0 1", "d"]);
    say(&mut server, &["cas a%b 0 0 1 9", "x", "ms k 2 T30 MR", "hi", "prepend k 0 0 1", "x"]);
    let lines = heard(&mut server, &mut watcher);
    let found =
        |len, client| format!("item_get key=a%25b status=found clsid=1 cfd={client} size={len}");
    let missing =
        |key, client| format!("item_get key={key} status=not_found clsid=0 cfd={client} size=0");
    let store = |key, status, command, ttl, client, len| {
        format!(
            "item_store key={key} status={status} cmd={command} ttl={ttl} clsid=1 cfd={client} \
             size={len}"
        )
    };
    assert_eq!(
        lines,
        [
            missing("a%25b", 2),
            store("a%25b", "stored", "set", 100, 2, 3),
            found(3, 2),
            store("a%25b", "not_stored", "add", 0, 2, 1),
            found(3, 2),
            store("a%25b", "stored", "append", 0, 2, 4),
            found(4, 3),
            store("a%25b", "exists", "cas", 0, 3, 1),
            missing("k", 3),
            store("k", "not_stored", "replace", 30, 3, 2),
            missing("k", 3),
            store("k", "not_stored", "prepend", 0, 3, 1),
        ]
    );
}

#[test]
fn every_look_for_a_key_is_told() {
    let mut server = server();
    say(&mut server, &["set a 0 0 2", "10"]);
    let mut watcher = watcher(&mut server, "");
    say(&mut server, &["get a b a", "gat 0 a", "mg a v", "mg /wA= b", "incr a 1", "touch b 0"]);
    say(&mut server, &["delete b", "md a q"]);
    let lines = heard(&mut server, &mut watcher);
    let looks: Vec<&str> =
        lines.iter().map(|line| line.strip_prefix("item_get key=").expect("a look")).collect();
    let (a, b) = ("a status=found clsid=1", "b status=not_found clsid=0 cfd=3 size=0");
    let a3 = format!("{a} cfd=3 size=2");
    let a4 = format!("{a} cfd=4 size=2");
    let binary = "%FF%00 status=not_found clsid=0 cfd=3 size=0";
    let b4 = b.replace("cfd=3", "cfd=4");
    assert_eq!(looks, [&a3, b, &a3, &a3, &a3, binary, &a3, b, &b4, &a4]);
}

#[test]
fn deletions_are_told_when_something_went() {
    let mut server = server();
    let mut watcher = watcher(&mut server, "deletions");
    say(&mut server, &["set a 0 0 4", "vbar", "md none", "delete a", "delete a"]);
    say(&mut server, &["set a 0 0 4", "vbar", "md a I", "md a x", "set a 0 0 3", "bar", "md a q"]);
    assert_eq!(
        heard(&mut server, &mut watcher),
        ["deleted key=a cmd=delete clsid=1 size=4", "deleted key=a cmd=md clsid=1 size=3"]
    );
}

#[test]
fn connections_are_told_when_they_come_and_go() {
    let mut server = server();
    let mut watcher = watcher(&mut server, "connevents");
    let mut client = Box::new(server.client().connection);
    hear(&mut server, &mut client, b"quit\r\n");
    client.session.log_end(&reactor::CloseReason::Finished);
    let mut client = Box::new(server.client().connection);
    hear(&mut server, &mut client, b"GET / HTTP/1.1\r\n");
    client.session.log_end(&reactor::CloseReason::Finished);
    client.session.log_end(&reactor::CloseReason::Idle);
    let remote = "rip=127.0.0.1 rport=1 transport=tcp";
    assert_eq!(
        heard(&mut server, &mut watcher),
        [
            format!("conn_new {remote} cfd=2"),
            format!("conn_close {remote} reason=normal cfd=2"),
            format!("conn_new {remote} cfd=3"),
            format!("conn_close {remote} reason=error cfd=3"),
            format!("conn_close {remote} reason=idle_timeout cfd=3"),
        ]
    );
    drop(server.stats.open("unix:/path".into(), "unix:/path".into()));
    let lines = heard(&mut server, &mut watcher);
    assert_eq!(lines, ["conn_new rip=unix rport=0 transport=local cfd=4"]);
}

#[test]
fn evictions_are_told() {
    let settings = Settings { watch_allowed: true, ..Settings::default() };
    let mut server = Server::with(CacheConfig::new(8 << 20), settings);
    let mut watcher = watcher(&mut server, "evictions");
    let value = "x".repeat(4000);
    for number in 0..3_000 {
        say(&mut server, &[&format!("set key-{number} 0 60 4000"), &value]);
    }
    let text = hear(&mut server, &mut watcher, b"");
    assert!(server.cache.stats().evictions > 500);
    let line = text.lines().next().expect("an eviction");
    assert!(line.contains(" type=eviction key=key-"), "{line}");
    assert!(line.ends_with(" fetch=no ttl=60 la=0 clsid=1 size=4000"), "{line}");
    let counts = server.stats.watchers().counts();
    assert_eq!(counts.sent + counts.skipped, counts.lines);
    assert_eq!(counts.lines + counts.lost, server.cache.stats().evictions);
}

#[test]
fn who_does_not_read_is_told_what_it_missed() {
    let mut server = server();
    let mut watcher = watcher(&mut server, "fetchers");
    let key = "k".repeat(200);
    let line = format!("get {key}");
    for _ in 0..40 {
        say(&mut server, &[line.as_str(); 20]);
    }
    let text = hear(&mut server, &mut watcher, b"what it says does not matter\r\n");
    assert!((LOG_BYTES_MAX - 1_000..=LOG_BYTES_MAX).contains(&text.len()), "{}", text.len());
    assert!(!text.contains("skipped"));
    say(&mut server, &["get a"]);
    let told = hear(&mut server, &mut watcher, b"");
    let skipped = 800 - text.lines().count();
    assert!(told.starts_with(&format!("skipped={skipped}\nts=")), "{told}");
}

#[test]
fn who_may_watch() {
    let reply = say(&mut Server::new(), &["watch"]);
    assert_eq!(reply, "CLIENT_ERROR watch commands not allowed\r\n");
    let mut server = server();
    let reply = say(&mut server, &["mg a v", "watch"]);
    assert_eq!(reply, "EN\r\nERROR cannot pipeline other commands before watch\r\n");
    assert_eq!(say(&mut server, &["watch nonsense"]), "ERROR\r\n");
    let mut watchers: Vec<Client> =
        (0..WATCHERS_MAX).map(|_| watcher(&mut server, "proxyreqs rawcmds sysevents")).collect();
    let reply = say(&mut server, &["watch"]);
    assert_eq!(reply, "WATCHER_TOO_MANY log watcher limit reached\r\n");
    assert_eq!(server.stats.watchers().counts().watchers, WATCHERS_MAX as u64);
    watchers.clear();
    assert_eq!(server.stats.watchers().counts().watchers, 0);
    assert_eq!(server.stats.watchers().logs(), 0);
}
