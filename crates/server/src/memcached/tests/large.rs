//! Values that are kept in parts: uploaded as they arrive, sent from where they lie.

use cache::CacheConfig;
use reactor::{Connection, Next};

use super::{Server, ask};
use crate::memcached::session::PIN_WAIT_MS_MAX;
use crate::stats::Settings;

fn value(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8 ^ seed).collect()
}

fn set(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("set {key} 3 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

fn shown(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("VALUE {key} 3 {}\r\n", value.len()).as_bytes(), value, b"\r\nEND\r\n"].concat()
}

#[test]
fn large_values_come_back_byte_for_byte() {
    let mut server = Server::new();
    let mut client = server.client();
    for len in [4_096, 4_097, 10_000, 65_535, 65_536, 65_537, 200_000, 1 << 20] {
        let value = value(len, 5);
        assert_eq!(server.send(&mut client, &set("k", &value)), b"STORED\r\n", "{len}");
        assert!(server.send(&mut client, b"get k\r\n") == shown("k", &value), "{len}");
        let meta = [format!("VA {len} s{len}\r\n").as_bytes(), &value[..], b"\r\n"].concat();
        assert!(server.send(&mut client, b"mg k v s\r\n") == meta, "{len}");
        assert!(server.send(&mut client, b"mg k v s l\r\n").ends_with(&meta[meta.len() - len..]));
    }
}

#[test]
fn a_value_on_its_way_is_not_touched_by_its_successor() {
    let mut server = Server::new();
    let (mut slow, mut fast) = (server.client(), server.client());
    let (old, new) = (value(300_000, 1), value(300_000, 2));
    server.send(&mut fast, &set("k", &old));
    slow.connection.input.feed(b"get k\r\n", &server.pool);
    let Connection { session, input, output, .. } = &mut slow.connection;
    assert_eq!(session.serve(&mut server.context, input, output), Next::Read);
    let mut chain = output.launch();
    assert_eq!(server.send(&mut fast, &set("k", &new)), b"STORED\r\n");
    server.send(&mut fast, b"delete k\r\n");
    for round in 0..20 {
        server.send(&mut fast, &set("other", &value(300_000, round)));
    }
    assert!(chain.take_bytes() == shown("k", &old));
}

#[test]
fn uploads_are_joined_and_compared_like_other_values() {
    let mut server = Server::new();
    let mut client = server.client();
    let (first, second) = (value(5_000, 1), value(70_000, 2));
    server.send(&mut client, &set("k", &first));
    // A header alone makes the session take the value piece by piece.
    let mut piecewise = |line: &str, value: &[u8]| {
        let mut reply = server.send(&mut client, line.as_bytes());
        for piece in value.chunks(999) {
            reply.extend(server.send(&mut client, piece));
        }
        reply.extend(server.send(&mut client, b"\r\n"));
        String::from_utf8(reply).expect("text")
    };
    assert_eq!(piecewise("append k 0 0 70000\r\n", &second), "STORED\r\n");
    assert_eq!(piecewise("add k 0 0 70000\r\n", &second), "NOT_STORED\r\n");
    assert_eq!(piecewise("ms k 70000 C1 k O1\r\n", &second), "EX kk O1\r\n");
    assert_eq!(piecewise("ms k 70000 MP s k q\r\n", &second), "");
    assert_eq!(piecewise("prepend none 0 0 70000\r\n", &second), "NOT_STORED\r\n");
    assert_eq!(piecewise("cas none 0 0 70000 5\r\n", &second), "NOT_FOUND\r\n");
    let all = [&second[..], &first, &second].concat();
    assert!(server.send(&mut client, b"get k\r\n") == shown("k", &all));
}

#[test]
fn an_upload_with_a_wrong_line_end_stores_nothing() {
    let mut server = Server::new();
    let mut client = server.client();
    server.send(&mut client, b"set k 0 0 5000\r\n");
    server.send(&mut client, &value(5_000, 1));
    let reply = server.send(&mut client, b"xxget k\r\n");
    assert_eq!(reply, b"CLIENT_ERROR bad data chunk\r\nEND\r\n");
    assert_eq!(server.cache.stats().upload_bytes, 0);
}

#[test]
fn a_client_that_leaves_takes_its_upload_along() {
    let mut server = Server::new();
    let mut client = server.client();
    server.send(&mut client, b"set k 0 0 500000\r\n");
    server.send(&mut client, &value(400_000, 1));
    assert!(server.cache.stats().upload_bytes >= 400_000);
    drop(client);
    server.context.worker().quiesce();
    assert_eq!(server.cache.stats().upload_bytes, 0);
    assert_eq!(ask(&mut server, &["get k"]), "END\n");
}

#[test]
fn uploads_that_hold_too_much_memory_are_refused_and_their_rest_is_dropped() {
    let mut server = Server::new();
    server.send(&mut server.client(), b"");
    let mut clients = Vec::new();
    let (part, rest) = (value(900_000, 1), value(100_000, 2));
    ask(&mut server, &["set k7 0 0 1", "o"]);
    let mut refused = 0;
    for number in 0..40 {
        let mut client = server.client();
        let line = format!("set k{number} 0 0 1000000\r\n");
        let mut reply = server.send(&mut client, line.as_bytes());
        reply.extend(server.send(&mut client, &part));
        clients.push((client, reply));
    }
    for (number, (client, mut reply)) in clients.iter_mut().map(|(c, r)| (c, r.clone())).enumerate()
    {
        reply.extend(server.send(client, &rest));
        reply.extend(server.send(client, b"\r\nmn\r\n"));
        if reply == b"SERVER_ERROR out of memory storing object\r\nMN\r\n" {
            refused += 1;
        } else {
            assert_eq!(reply, b"STORED\r\nMN\r\n", "{number}");
        }
    }
    // A quarter of 32 MiB takes about eight of them.
    assert!((30..=34).contains(&refused), "{refused}");
    assert_eq!(server.stats.totals().store_no_memory, refused);
    assert_eq!(server.cache.stats().upload_bytes, 0);
}

#[test]
fn a_long_line_is_not_kept_for_its_value() {
    for (line_bytes, reply) in
        [(2048, "STORED\r\nMN\r\n"), (2049, "SERVER_ERROR out of memory storing object\r\nMN\r\n")]
    {
        let mut server = Server::new();
        let mut client = server.client();
        let line = format!("{:1$}\r\n", "set k 3 0 5000", line_bytes - 2);
        client.connection.input.need(line.len());
        let mut said = server.send(&mut client, line.as_bytes());
        said.extend(server.send(&mut client, &value(5_000, 1)));
        said.extend(server.send(&mut client, b"\r\nmn\r\n"));
        assert_eq!(String::from_utf8_lossy(&said), reply, "{line_bytes}");
    }
}

#[test]
fn a_reply_waits_for_its_turn_to_pin() {
    for request in ["get k\r\n", "gat 100 k\r\n", "mg k v\r\n", "mg k v l T100\r\n"] {
        pin_in_turns(request.as_bytes());
    }
}

/// Eight clients ask for a value each, of which a quarter of the memory does not take all.
fn pin_in_turns(request: &[u8]) {
    let config = CacheConfig { value_size_max: 1 << 20, ..CacheConfig::new(16 << 20) };
    let mut server = Server::with(config, Settings::default());
    let mut writer = server.client();
    let mut waiting = Vec::new();
    let mut parked = 0;
    for number in 0..8 {
        server.send(&mut writer, &set("k", &value(1 << 20, number)));
        let mut client = server.client();
        client.connection.input.feed(request, &server.pool);
        let Connection { session, input, output, .. } = &mut client.connection;
        let next = session.serve(&mut server.context, input, output);
        if next == Next::Retry {
            parked += 1;
            assert!(output.is_empty());
            assert_eq!(input.bytes(), request);
        } else {
            assert_eq!(next, Next::Read);
        }
        waiting.push((client, number));
    }
    let request = String::from_utf8_lossy(request);
    assert!((1..8).contains(&parked), "{parked} of {request}");
    for (mut client, number) in waiting {
        let (reply, next) = server.run(&mut client);
        assert_eq!(next, Next::Read);
        let holds = |number| contains(&reply, &value(1 << 20, number));
        assert!(holds(number) || holds(7), "{number} of {request}");
    }
}

#[test]
fn a_reply_that_may_not_be_pinned_in_time_is_a_miss() {
    for (request, miss) in [
        ("get k k\r\nmn\r\n", "END\r\nMN\r\n"),
        ("gat 100 k\r\nmn\r\n", "END\r\nMN\r\n"),
        ("mg k v\r\nmn\r\n", "EN\r\nMN\r\n"),
        ("mg k v T100\r\nmn\r\n", "EN\r\nMN\r\n"),
    ] {
        let config = CacheConfig { value_size_max: 4 << 20, ..CacheConfig::new(16 << 20) };
        let mut server = Server::with(config, Settings::default());
        let (mut deaf, mut other) = (server.client(), server.client());
        server.send(&mut other, &set("pinned", &value(3_900_000, 1)));
        server.send(&mut other, &set("k", &value(1 << 20, 2)));
        deaf.connection.input.feed(b"get pinned\r\n", &server.pool);
        let Connection { session, input, output, .. } = &mut deaf.connection;
        assert_eq!(session.serve(&mut server.context, input, output), Next::Read);

        other.connection.input.feed(request.as_bytes(), &server.pool);
        assert_eq!(server.run(&mut other), (vec![], Next::Retry), "{request}");
        server.advance(PIN_WAIT_MS_MAX - 1);
        assert_eq!(server.run(&mut other), (vec![], Next::Retry), "{request}");
        server.advance(1);
        assert_eq!(server.run(&mut other), (miss.into(), Next::Read), "{request}");
        // The next one waits anew, and is answered when others have taken theirs.
        other.connection.input.feed(b"get k\r\n", &server.pool);
        assert_eq!(server.run(&mut other), (vec![], Next::Retry), "{request}");
        drop(deaf);
        assert!(contains(&server.run(&mut other).0, &value(1 << 20, 2)), "{request}");
        assert_eq!(ask(&mut server, &["mg k t"]), "HD t-1\n", "{request}");
    }
}

fn contains(reply: &[u8], value: &[u8]) -> bool {
    let start = reply.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    reply[start..].starts_with(value)
}
