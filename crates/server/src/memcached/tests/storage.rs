//! Conditions of text storage commands, and their failures.

use cache::CacheConfig;

use super::{Server, ask, fresh};
use crate::stats::Settings;

#[test]
fn add_replace_append_prepend_look_at_what_is_there() {
    let reply = fresh(&[
        "replace a 0 0 1",
        "x",
        "append a 0 0 1",
        "x",
        "prepend a 0 0 1",
        "x",
        "get a",
        "add a 1 0 1",
        "m",
        "add a 2 0 1",
        "n",
        "append a 9 9 2",
        "zz",
        "prepend a 9 9 1",
        "(",
        "get a",
        "replace a 5 0 1",
        "r",
        "get a",
    ]);
    assert_eq!(
        reply,
        "NOT_STORED\nNOT_STORED\nNOT_STORED\nEND\nSTORED\nNOT_STORED\nSTORED\nSTORED\n\
         VALUE a 1 4\n(mzz\nEND\nSTORED\nVALUE a 5 1\nr\nEND\n"
    );
}

#[test]
fn append_keeps_the_expiry() {
    let mut server = Server::new();
    ask(&mut server, &["set a 0 10 1", "x", "append a 0 100 1", "y"]);
    server.advance(10_000);
    assert_eq!(ask(&mut server, &["get a"]), "END\n");
}

#[test]
fn cas_stores_only_over_its_token() {
    let mut server = Server::new();
    assert_eq!(ask(&mut server, &["cas a 0 0 1 1", "x"]), "NOT_FOUND\n");
    ask(&mut server, &["set a 0 0 1", "x"]);
    let reply = ask(&mut server, &["gets a"]);
    let token: u64 = reply.lines().next().and_then(|l| l.rsplit(' ').next()?.parse().ok()).unwrap();
    let (wrong, right) = (format!("cas a 0 0 1 {}", token + 1), format!("cas a 7 0 1 {token}"));
    assert_eq!(ask(&mut server, &[&wrong, "y", "cas a 0 0 1 0", "y"]), "EXISTS\nEXISTS\n");
    assert_eq!(ask(&mut server, &[&right, "z", "get a"]), "STORED\nVALUE a 7 1\nz\nEND\n");
    assert_eq!(ask(&mut server, &[&right, "y"]), "EXISTS\n");
    let totals = server.stats.totals();
    assert_eq!((totals.cas_misses, totals.cas_hits, totals.cas_badval), (1, 1, 3));
}

#[test]
fn a_value_without_its_line_end_stores_nothing_and_the_rest_is_a_line() {
    let reply = fresh(&["set a 0 0 1", "x", "set a 0 0 3", "abcdversion", "get a"]);
    // The body is "abcd" and "v"; "ersion" is a line.
    assert_eq!(reply, "STORED\nCLIENT_ERROR bad data chunk\nERROR\nVALUE a 0 1\nx\nEND\n");
}

fn tight() -> Server {
    let config = CacheConfig { value_size_max: 100_000, ..CacheConfig::new(32 << 20) };
    Server::with(config, Settings::default())
}

#[test]
fn a_value_too_large_is_dropped_and_a_set_takes_the_old_one_along() {
    let big = "x".repeat(100_001);
    for (command, removes) in
        [("set", true), ("add", false), ("replace", false), ("append", false), ("prepend", false)]
    {
        let mut server = tight();
        ask(&mut server, &["set a 0 0 1", "o"]);
        let line = format!("{command} a 0 0 100001");
        let reply = ask(&mut server, &[&line, &big, "get a"]);
        let then = if removes { "END\n" } else { "VALUE a 0 1\no\nEND\n" };
        assert_eq!(reply, format!("SERVER_ERROR object too large for cache\n{then}"), "{command}");
        assert_eq!(server.stats.totals().store_too_large, 1);
    }
    let mut server = tight();
    let fits = "x".repeat(100_000);
    assert_eq!(ask(&mut server, &["set a 0 0 100000", &fits]), "STORED\n");
}

#[test]
fn any_ms_that_is_too_large_takes_the_old_record_along() {
    let big = "x".repeat(100_001);
    for mode in ["S", "E", "R", "A", "P"] {
        let mut server = tight();
        ask(&mut server, &["set a 0 0 1", "o"]);
        let line = format!("ms a 100001 q M{mode}");
        let reply = ask(&mut server, &[&line, &big, "get a"]);
        assert_eq!(reply, "SERVER_ERROR object too large for cache\nEND\n", "{mode}");
    }
}

#[test]
fn an_append_that_gets_too_large_is_not_stored() {
    let mut server = tight();
    let half = "x".repeat(60_000);
    let reply = ask(
        &mut server,
        &[
            "set a 0 0 60000",
            &half,
            "append a 0 0 60000",
            &half,
            "ms a 60000 MP s",
            &half,
            "mg a s",
        ],
    );
    assert_eq!(reply, "STORED\nNOT_STORED\nNS s60000\nHD s60000\n");
}

#[test]
fn a_noreply_set_that_is_too_large_is_silent() {
    let mut server = tight();
    let big = "x".repeat(100_001);
    let reply = ask(&mut server, &["set a 0 0 100001 noreply", &big, "mn"]);
    assert_eq!(reply, "MN\n");
}

#[test]
fn a_short_value_that_is_too_large_is_refused_before_it_comes() {
    let config = CacheConfig { value_size_max: 1024, ..CacheConfig::new(32 << 20) };
    let too_large = b"SERVER_ERROR object too large for cache\r\n";
    for line in ["set a 0 0 2000\r\n", "ms a 2000\r\n", "set a 0 0 1025\r\n"] {
        let mut server = Server::with(config.clone(), Settings::default());
        ask(&mut server, &["set a 0 0 1", "o"]);
        let mut client = server.client();
        assert_eq!(server.send(&mut client, line.as_bytes()), too_large, "{line}");
        assert_eq!(ask(&mut server, &["get a"]), "END\n", "{line}");
        // What comes of it is dropped, whether it ends as it should or not.
        let len = if line.contains("1025") { 1025 } else { 2000 };
        let rest = [&vec![b'x'; len + 2][..], b"mn\r\n"].concat();
        assert_eq!(server.send(&mut client, &rest), b"MN\r\n", "{line}");
        let all = [line.as_bytes(), &rest].concat();
        let expected = [&too_large[..], b"MN\r\n"].concat();
        assert_eq!(server.send(&mut client, &all), expected, "{line}");
        assert_eq!(server.stats.totals().store_too_large, 2, "{line}");
    }
    let mut server = Server::with(config, Settings::default());
    let mut client = server.client();
    assert_eq!(server.send(&mut client, b"set a 0 0 1024\r\n"), b"", "it may be stored");
    let rest = [&[b'x'; 1024][..], b"\r\n"].concat();
    assert_eq!(server.send(&mut client, &rest), b"STORED\r\n");
}
