//! What is not about a record, and what is no request.

use super::{
    Ask, CacheConfig, Next, Server, Settings, Status, answers, ask, converse, failed, one,
};
use crate::{config::Protocol, memcached::Access};

#[test]
fn the_first_byte_decides_for_the_connection() {
    let mut server = Server::new();
    let mut text = server.client();
    assert_eq!(server.send(&mut text, b"set k 0 0 1\r\nv\r\n"), b"STORED\r\n");
    let version = Ask::new(0x0b, "").bytes();
    let lines = [&version[..], b"\r\n"].concat();
    assert_eq!(server.send(&mut text, &lines), b"ERROR\r\n");
    let mut binary = server.client();
    assert_eq!(answers(&server.send(&mut binary, &version))[0].opcode, 0x0b);
    assert_eq!(server.send_until(&mut binary, b"get k\r\n"), (vec![], Next::Finish));
}

#[test]
fn a_protocol_may_be_all_that_is_spoken() {
    let mut server = Server::new();
    let noop = Ask::new(0x0a, "").bytes();
    for (protocol, text, binary) in [
        (Protocol::Ascii, (b"MN\r\n".to_vec(), Next::Read), Next::Read),
        (Protocol::Binary, (vec![], Next::Finish), Next::Read),
    ] {
        server.context.access = Access { protocol, users: None };
        let mut client = server.client();
        assert_eq!(server.send_until(&mut client, b"mn\r\n"), text);
        let mut client = server.client();
        let (replies, next) = server.send_until(&mut client, &noop);
        assert_eq!((replies.len() == 24, next), (protocol == Protocol::Binary, binary));
    }
}

#[test]
fn requests_may_be_cut_anywhere() {
    let bytes: Vec<u8> = [
        Ask::store(0x01, "key", b"value"),
        Ask::new(0x0c, "key"),
        Ask::new(0x1b, "unknown"),
        Ask::new(0x10, "nothing"),
        Ask::new(0x0a, ""),
    ]
    .iter()
    .flat_map(|ask| ask.bytes())
    .collect();
    let mut server = Server::new();
    let whole = {
        let mut client = server.client();
        server.send(&mut client, &bytes)
    };
    assert_eq!(answers(&whole).len(), 5);
    for step in 1..bytes.len() {
        let mut server = Server::new();
        let mut client = server.client();
        let replies: Vec<u8> =
            bytes.chunks(step).flat_map(|piece| server.send(&mut client, piece)).collect();
        assert!(replies == whole, "{step}");
    }
}

#[test]
fn what_is_unknown_is_answered_and_dropped() {
    let mut server = Server::new();
    let strange = Ask { extras: &[0; 4], value: b"value", ..Ask::new(0x1b, "key") };
    let answers = ask(&mut server, &[strange, Ask::new(0x0a, "")]);
    assert_eq!(answers[0].short(), failed(0x1b, Status::UnknownCommand));
    assert_eq!(answers[1].short(), (0x0a, 0, ""));
}

#[test]
fn what_is_malformed_is_answered_and_closes() {
    let mut server = Server::new();
    let mut client = server.client();
    let wrong = Ask { value: b"x", ..Ask::new(0x00, "key") };
    let (answers, next) = converse(&mut server, &mut client, &[wrong, Ask::new(0x0a, "")]);
    assert_eq!((answers.len(), next), (1, Next::Finish));
    assert_eq!(answers[0].short(), failed(0x00, Status::InvalidArguments));
    let mut client = server.client();
    let long = "k".repeat(251);
    let (answers, next) = converse(&mut server, &mut client, &[Ask::new(0x00, &long)]);
    assert_eq!(answers[0].short(), failed(0x00, Status::InvalidArguments));
    assert_eq!(next, Next::Finish);
}

#[test]
fn version_quit_and_flush() {
    let mut server = Server::new();
    let version = one(&mut server, Ask::new(0x0b, ""));
    assert!(version.text().starts_with("1.6.45"), "{version:?}");
    for (opcode, answers) in [(0x07, 1), (0x17, 0)] {
        let mut client = server.client();
        let asks = [Ask::new(opcode, ""), Ask::new(0x0a, "")];
        let (told, next) = converse(&mut server, &mut client, &asks);
        assert_eq!((told.len(), next), (answers, Next::Finish));
    }
    one(&mut server, Ask::store(0x01, "k", b"v"));
    one(&mut server, Ask { extras: &[0, 0, 0, 2], ..Ask::new(0x08, "") });
    assert_eq!(one(&mut server, Ask::new(0x00, "k")).status, 0);
    server.advance(2000);
    assert_eq!(one(&mut server, Ask::new(0x00, "k")).status, 1);
    one(&mut server, Ask::store(0x01, "k", b"v"));
    assert_eq!(ask(&mut server, &[Ask::new(0x18, "")]), []);
    assert_eq!(one(&mut server, Ask::new(0x00, "k")).status, 1);
    assert_eq!(server.stats.totals().cmd_flush, 2);
}

#[test]
fn a_flush_may_be_refused() {
    let settings = Settings { flush_refused: true, ..Settings::default() };
    let mut server = Server::with(CacheConfig::new(32 << 20), settings);
    one(&mut server, Ask::store(0x01, "k", b"v"));
    for opcode in [0x08, 0x18] {
        let refused = one(&mut server, Ask::new(opcode, ""));
        assert_eq!(refused.short(), failed(opcode, Status::Unauthenticated));
    }
    assert_eq!(one(&mut server, Ask::new(0x00, "k")).status, 0);
}

#[test]
fn statistics_are_replies_with_an_empty_one_behind() {
    let mut server = Server::new();
    for (name, first) in [("", "pid"), ("settings", "maxbytes"), ("sizes", "sizes_status")] {
        let answers = ask(&mut server, &[Ask::new(0x10, name), Ask::new(0x0a, "")]);
        assert_eq!(answers[0].key, first);
        assert!(answers.iter().all(|answer| answer.status == 0 && answer.extras.is_empty()));
        let [.., end, noop] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((end.short(), end.key.as_str()), ((0x10, 0, ""), ""));
        assert_eq!(noop.opcode, 0x0a);
    }
    for name in ["items", "slabs", "reset"] {
        assert!(!ask(&mut server, &[Ask::new(0x10, name)]).is_empty());
    }
    for name in ["conns", "item", "itemsx", "detail", "detailed"] {
        let answer = one(&mut server, Ask::new(0x10, name));
        assert_eq!(answer.short(), failed(0x10, Status::NotFound), "{name}");
    }
}

#[test]
fn sizes_come_as_statistics() {
    let mut server = Server::new();
    server.stats.track_sizes();
    one(&mut server, Ask::store(0x01, "a", b"v"));
    one(&mut server, Ask::store(0x01, "b", &[b'v'; 100]));
    let answers = ask(&mut server, &[Ask::new(0x10, "sizes"), Ask::new(0x0a, "")]);
    let told: Vec<_> = answers.iter().map(|answer| (answer.key.as_str(), answer.text())).collect();
    assert_eq!(told[..2].iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["32", "128"]);
    assert!(told[..2].iter().all(|(_, count)| *count == "1"));
    assert_eq!((told.len(), answers[2].short(), answers[3].opcode), (4, (0x10, 0, ""), 0x0a));
}

#[test]
fn counts_by_prefix_come_as_text() {
    let refused = one(&mut Server::new(), Ask::new(0x10, "detail on"));
    assert_eq!(refused.short(), failed(0x10, Status::NotFound), "dumps are not allowed");
    let settings = Settings { dumps_allowed: true, ..Settings::default() };
    let mut server = Server::with(CacheConfig::new(32 << 20), settings);
    one(&mut server, Ask::new(0x10, "detail on"));
    one(&mut server, Ask::store(0x01, "a:1", b"v"));
    one(&mut server, Ask::new(0x00, "a:1"));
    one(&mut server, Ask::new(0x00, "a:2"));
    one(&mut server, Ask::new(0x04, "a:1"));
    one(&mut server, Ask::new(0x10, "detail off"));
    one(&mut server, Ask::new(0x00, "a:1"));
    let answers = ask(&mut server, &[Ask::new(0x10, "detail dump")]);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0].key, "detailed");
    assert_eq!(answers[0].text(), "PREFIX a get 2 hit 1 set 1 del 1\r\nEND\r\n");
}
